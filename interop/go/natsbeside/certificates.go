package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// Users by certificate: verify_and_map. The same certificates are shown to both servers.

// authority signs certificates for a world.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

var certifying = map[string]*authority{}

func newAuthority(name string) *authority {
	pair := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der := must(x509.CreateCertificate(rand.Reader, template, template, &pair.PublicKey, pair))
	return &authority{must(x509.ParseCertificate(der)), pair}
}

func inPem(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// issue signs a certificate.
func (a *authority) issue(template *x509.Certificate) tls.Certificate {
	pair := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	if template.NotAfter.IsZero() {
		template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	}
	if template.ExtKeyUsage == nil {
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	}
	der := must(x509.CreateCertificate(rand.Reader, template, a.certificate, &pair.PublicKey, a.key))
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: pair}
}

func certificateUsers() []string {
	return []string{
		"CN=waiting", "first@example.com", "second@example.com", "svc.example.com", "*.wild.example.com", "spiffe://example.com/app",
		"CN=app,OU=shop,O=Example", "O=Example,OU=desk,CN=turned", "CN=two,OU=b,OU=a", "CN=name only", "CN=dc,DC=example,DC=com",
		"CN=comma\\,inside,O=Example", "CN=case", "C=DE,CN=country", "bare", "CN=also@example.com", "CN=serial,SERIALNUMBER=7",
	}
}

func certificatesPair(world, folder string) []*server {
	own := newAuthority("beside")
	certifying[world] = own
	shown := own.issue(&x509.Certificate{
		Subject: pkix.Name{CommonName: "localhost"}, DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	conf, tailrace := newServer("nats-server", world, folder), newServer("tailrace", world, folder)
	var users, toml []string
	for _, name := range certificateUsers() {
		users = append(users, fmt.Sprintf("{ user: %q }", name))
		toml = append(toml, fmt.Sprintf("[[users]]\nuser = %q\n", name))
	}
	users = append(users, `{ user: "CN=secret", password: "p" }`, `{ user: "CN=lists", permissions: { publish: { deny: ["no"] } } }`)
	toml = append(toml, "[[users]]\nuser = \"CN=secret\"\npassword = \"p\"\n", "[[users]]\nuser = \"CN=lists\"\npublish = { deny = [\"no\"] }\n")
	key := must(x509.MarshalPKCS8PrivateKey(shown.PrivateKey))
	files := map[string]string{
		"server.pem": inPem("CERTIFICATE", shown.Certificate[0]), "server.key": inPem("PRIVATE KEY", key),
		"ca.pem": inPem("CERTIFICATE", own.certificate.Raw),
	}
	paths := map[string]string{}
	for name, text := range files {
		write(conf.folder, name, text)
		paths[name] = write(tailrace.folder, name, text)
	}
	pair := []*server{
		startNats(world, folder, fmt.Sprintf("tls { cert_file: %q, key_file: %q, ca_file: %q, verify_and_map: true }\nauthorization { users: [ %s ] }\n",
			conf.folder+"/server.pem", conf.folder+"/server.key", conf.folder+"/ca.pem", strings.Join(users, ", "))),
		startTailrace(world, folder, 1, "tailrace.nats.users.file="+write(tailrace.folder, "users.toml", strings.Join(toml, "")),
			"tailrace.nats.tls=required", "tailrace.tls.client.auth=required", "tailrace.nats.tls.verify.and.map=true",
			"tailrace.tls.certificate.file="+paths["server.pem"], "tailrace.tls.key.file="+paths["server.key"], "tailrace.tls.ca.file="+paths["ca.pem"]),
	}
	waiting := own.issue(&x509.Certificate{Subject: pkix.Name{CommonName: "waiting"}})
	for _, one := range pair {
		one.wait(showing(own, waiting))
	}
	return pair
}

// showing presents a certificate, and trusts the authority's.
func showing(trusted *authority, shown ...tls.Certificate) nats.Option {
	pool := x509.NewCertPool()
	pool.AddCert(trusted.certificate)
	return nats.Secure(&tls.Config{RootCAs: pool, Certificates: shown, MinVersion: tls.VersionTLS12})
}

func certificateScenes() []scene {
	return []scene{
		{"which name of a certificate counts", "certificates", false, certificateNames},
		{"certificates and passwords", "certificates", false, certificatePasswords},
		{"certificates that are not accepted", "certificates", false, certificatesRefused},
	}
}

// who says which user a certificate is.
func (p *player) who(label string, template *x509.Certificate, options ...nats.Option) {
	own := certifying[p.server.world]
	c, err := p.dial(append(options, showing(own, own.issue(template)))...)
	if err != nil {
		p.say(label, "refused: %v", err)
		return
	}
	p.say(label, "%v", field(c.asksOnce("$SYS.REQ.USER.INFO", ""), "data", "user"))
}

// parts makes a subject of parts in this order.
func parts(all ...string) pkix.Name {
	oids := map[string]asn1.ObjectIdentifier{
		"CN": {2, 5, 4, 3}, "OU": {2, 5, 4, 11}, "O": {2, 5, 4, 10}, "C": {2, 5, 4, 6}, "DC": {0, 9, 2342, 19200300, 100, 1, 25},
		"SERIALNUMBER": {2, 5, 4, 5},
	}
	var name pkix.Name
	for _, part := range all {
		kind, value, _ := strings.Cut(part, "=")
		name.ExtraNames = append(name.ExtraNames, pkix.AttributeTypeAndValue{Type: oids[kind], Value: value})
	}
	return name
}

func certificateNames(p *player) {
	spiffe := must(url.Parse("spiffe://example.com/app"))
	cn := func(name string) pkix.Name { return pkix.Name{CommonName: name} }
	p.who("an address", &x509.Certificate{EmailAddresses: []string{"first@example.com"}})
	p.who("two addresses", &x509.Certificate{EmailAddresses: []string{"second@example.com", "first@example.com"}})
	p.who("the second address", &x509.Certificate{EmailAddresses: []string{"nobody@example.com", "second@example.com"}})
	p.who("an address in other letters", &x509.Certificate{EmailAddresses: []string{"FIRST@example.com"}})
	p.who("an address and a subject", &x509.Certificate{EmailAddresses: []string{"first@example.com"}, Subject: cn("name only")})
	p.who("an unknown address and a subject", &x509.Certificate{EmailAddresses: []string{"nobody@example.com"}, Subject: cn("name only")})
	p.who("a host", &x509.Certificate{DNSNames: []string{"svc.example.com"}})
	p.who("the second host", &x509.Certificate{DNSNames: []string{"nobody.example.com", "svc.example.com"}})
	p.who("a host in other letters", &x509.Certificate{DNSNames: []string{"SVC.example.com"}})
	p.who("a wildcard, as it is", &x509.Certificate{DNSNames: []string{"*.wild.example.com"}})
	p.who("a host that a wildcard would have", &x509.Certificate{DNSNames: []string{"a.wild.example.com"}})
	p.who("a URI", &x509.Certificate{URIs: []*url.URL{spiffe}})
	p.who("a host and a URI", &x509.Certificate{DNSNames: []string{"svc.example.com"}, URIs: []*url.URL{spiffe}})
	p.who("an address, a host and a URI", &x509.Certificate{EmailAddresses: []string{"second@example.com"}, DNSNames: []string{"svc.example.com"}, URIs: []*url.URL{spiffe}})
	p.who("a subject", &x509.Certificate{Subject: parts("O=Example", "OU=shop", "CN=app")})
	p.who("a subject, turned", &x509.Certificate{Subject: parts("CN=app", "OU=shop", "O=Example")})
	p.who("a subject, mixed", &x509.Certificate{Subject: parts("OU=shop", "O=Example", "CN=app")})
	p.who("a user that is turned", &x509.Certificate{Subject: parts("O=Example", "OU=desk", "CN=turned")})
	p.who("a user that is turned, turned", &x509.Certificate{Subject: parts("CN=turned", "OU=desk", "O=Example")})
	p.who("two of a kind", &x509.Certificate{Subject: parts("OU=a", "OU=b", "CN=two")})
	p.who("two of a kind, turned", &x509.Certificate{Subject: parts("OU=b", "OU=a", "CN=two")})
	p.who("a part too many", &x509.Certificate{Subject: parts("O=Example", "OU=shop", "OU=more", "CN=app")})
	p.who("a part too few", &x509.Certificate{Subject: parts("OU=shop", "CN=app")})
	p.who("one name", &x509.Certificate{Subject: cn("name only")})
	p.who("one name in other letters", &x509.Certificate{Subject: cn("CASE")})
	p.who("a domain", &x509.Certificate{Subject: parts("DC=com", "DC=example", "CN=dc")})
	p.who("a domain, turned", &x509.Certificate{Subject: parts("CN=dc", "DC=example", "DC=com")})
	p.who("a comma", &x509.Certificate{Subject: parts("O=Example", "CN=comma,inside")})
	p.who("a country", &x509.Certificate{Subject: parts("CN=country", "C=DE")})
	p.who("a serial number", &x509.Certificate{Subject: parts("SERIALNUMBER=7", "CN=serial")})
	p.who("a name without its kind", &x509.Certificate{Subject: cn("bare")})
	p.who("a name that looks like an address", &x509.Certificate{Subject: cn("also@example.com")})
	p.who("an address that is a subject elsewhere", &x509.Certificate{EmailAddresses: []string{"also@example.com"}})
	p.who("a name that looks like a subject", &x509.Certificate{Subject: cn("CN=name only")})
	p.who("a host that looks like a subject", &x509.Certificate{DNSNames: []string{"CN=name only"}})
	p.who("nobody", &x509.Certificate{Subject: cn("nobody")})
	p.who("nothing", &x509.Certificate{})
	p.who("an address of the network", &x509.Certificate{Subject: cn("nobody"), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}})
}

func certificatePasswords(p *player) {
	named := func(name string) *x509.Certificate { return &x509.Certificate{Subject: pkix.Name{CommonName: name}} }
	p.who("a password that is not needed", named("name only"), nats.UserInfo("CN=name only", "x"))
	p.who("another name in CONNECT", named("name only"), nats.UserInfo("CN=app,OU=shop,O=Example", ""))
	p.who("nobody with another name in CONNECT", named("nobody"), nats.UserInfo("CN=name only", ""))
	p.who("nobody with the password of another", named("nobody"), nats.UserInfo("CN=secret", "p"))
	p.who("a token", named("name only"), nats.Token("x"))
	own := certifying[p.server.world]
	lists := mustDial(p, showing(own, own.issue(named("lists"))))
	p.say("lists of the user, refused", "%s", lists.sends("no", "x"))
	p.say("lists of the user, allowed", "%s", lists.sends("yes", "x"))
}

func certificatesRefused(p *player) {
	own, stranger := certifying[p.server.world], newAuthority("stranger")
	named := func() *x509.Certificate { return &x509.Certificate{Subject: pkix.Name{CommonName: "name only"}} }
	past := named()
	past.NotBefore, past.NotAfter = time.Now().Add(-2*time.Hour), time.Now().Add(-time.Hour)
	future := named()
	future.NotBefore, future.NotAfter = time.Now().Add(time.Hour), time.Now().Add(2*time.Hour)
	wrong := named()
	wrong.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	for _, one := range []struct {
		label string
		shown []tls.Certificate
	}{
		{"none", nil}, {"of another authority", []tls.Certificate{stranger.issue(named())}}, {"expired", []tls.Certificate{own.issue(past)}},
		{"not valid yet", []tls.Certificate{own.issue(future)}}, {"for servers", []tls.Certificate{own.issue(wrong)}},
	} {
		c, err := p.dial(showing(own, one.shown...))
		p.say(one.label, "let in: %v", err == nil && c.FlushTimeout(patience) == nil)
	}
	_, err := p.dial()
	p.say("without TLS", "let in: %v", err == nil)
}
