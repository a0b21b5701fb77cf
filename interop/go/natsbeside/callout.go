package main

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
)

// Auth callout: a service that decides who is let in. The same service answers both servers, by the name that
// the client presents.

// calloutTime is the time that both servers give a login, in seconds.
const calloutTime = 2

func calloutIssuer() nkeys.KeyPair { return account("callout") }
func calloutXkey() nkeys.KeyPair   { return curve("callout") }

func curve(name string) nkeys.KeyPair {
	seed := sha256.Sum256([]byte(name))
	return must(nkeys.FromCurveSeed(must(nkeys.EncodeSeed(nkeys.PrefixByteCurve, seed[:]))))
}

func calloutConf(sealed bool) string {
	xkey := ""
	if sealed {
		xkey = "xkey: " + public(calloutXkey())
	}
	return fmt.Sprintf(`
accounts {
  AUTH: { users: [ { user: auth, password: p } ] }
  APP: { users: [ { user: known, password: p } ] }
  SYS: { users: [ { user: sys, password: p } ] }
}
system_account: SYS
authorization {
  timeout: %d
  auth_callout { issuer: %s, account: AUTH, auth_users: [ auth, sys ], %s }
}
`, calloutTime, public(calloutIssuer()), xkey)
}

func calloutToml(sealed bool) string {
	xkey := ""
	if sealed {
		xkey = fmt.Sprintf("xkey = %q\n", public(calloutXkey()))
	}
	text := fmt.Sprintf("[auth_callout]\nissuer = %q\naccount = \"AUTH\"\nauth_users = [\"auth\", \"sys\"]\n%s", public(calloutIssuer()), xkey)
	for _, name := range []string{"AUTH", "APP", "SYS"} {
		text += fmt.Sprintf("[[accounts]]\nname = %q\n", name)
	}
	for _, one := range [][2]string{{"auth", "AUTH"}, {"known", "APP"}, {"sys", "SYS"}} {
		text += fmt.Sprintf("[[users]]\nuser = %q\npassword = \"p\"\naccount = %q\n", one[0], one[1])
	}
	return text
}

func calloutPair(world, folder string, sealed bool) []*server {
	tailrace := newServer("tailrace", world, folder)
	path := write(tailrace.folder, "users.toml", calloutToml(sealed))
	pair := []*server{
		startNats(world, folder, calloutConf(sealed)),
		startTailrace(world, folder, 1, "tailrace.nats.users.file="+path, "tailrace.nats.system.account=SYS",
			fmt.Sprintf("tailrace.nats.auth.timeout.ms=%d", calloutTime*1000)),
	}
	for _, one := range pair {
		one.wait(nats.UserInfo("sys", "p"))
	}
	return pair
}

// service is one that answers questions.
type service struct {
	*client
	mutex sync.Mutex
	asked map[string]*jwt.AuthorizationRequestClaims // by the name that the client presented
	seals bool
}

// serving connects the service. It stays until the scene ends.
func (p *player) serving(seals bool) *service {
	s := &service{client: p.as("auth"), asked: map[string]*jwt.AuthorizationRequestClaims{}, seals: seals}
	s.serves("$SYS.REQ.USER.AUTH", s.answer)
	return s
}

func (s *service) answer(question *nats.Msg) {
	data, server := question.Data, question.Header.Get("Nats-Server-Xkey")
	if server != "" {
		opened, err := calloutXkey().Open(data, server)
		if err != nil {
			fmt.Println("a question cannot be opened:", err)
			return
		}
		data = opened
	}
	asked, err := jwt.DecodeAuthorizationRequestClaims(string(data))
	if err != nil {
		fmt.Println("a question is none:", err)
		return
	}
	name := asked.ConnectOptions.Username
	s.mutex.Lock()
	s.asked[name] = asked
	s.mutex.Unlock()
	for _, said := range decide(name, asked) {
		time.Sleep(said.after)
		body := []byte(said.text)
		if server != "" && !said.clear {
			sealed, err := said.sealer().Seal(body, server)
			if err != nil {
				fmt.Println("an answer cannot be sealed:", err)
				return
			}
			body = sealed
		}
		_ = question.Respond(body)
	}
}

// said is an answer of the service.
type said struct {
	text  string
	after time.Duration
	clear bool          // not sealed
	by    nkeys.KeyPair // seals with another key
}

func (s said) sealer() nkeys.KeyPair {
	if s.by != nil {
		return s.by
	}
	return calloutXkey()
}

// decide returns the answers to a question. The name says what is wrong with them.
func decide(name string, asked *jwt.AuthorizationRequestClaims) []said {
	stranger := account("stranger")
	signer, issuer := calloutIssuer(), calloutIssuer()
	answer := jwt.NewAuthorizationResponseClaims(asked.UserNkey)
	answer.Audience = asked.Server.ID
	claims := jwt.NewUserClaims(asked.UserNkey)
	claims.Audience, claims.Name = "APP", "name of "+name
	var out said
	switch name {
	case "silent":
		return nil
	case "denied":
		answer.Error = "not today"
	case "garbage":
		return []said{{text: "garbage"}}
	case "empty":
		return []said{{text: ""}}
	case "late":
		out.after = (calloutTime + 1) * time.Second
	case "soon":
		out.after = 500 * time.Millisecond
	case "response of a stranger":
		issuer = stranger
	case "user of a stranger":
		signer = stranger
	case "response for another key":
		answer.Subject = public(user("other"))
	case "user with another key":
		claims.Subject = public(user("other"))
	case "response to another server":
		answer.Audience = public(key(nkeys.PrefixByteServer, "other"))
	case "response to nobody":
		answer.Audience = ""
	case "another account":
		claims.Audience = "NONE"
	case "the account of the service":
		claims.Audience = "AUTH"
	case "no account":
		claims.Audience = ""
	case "an issuer account":
		claims.IssuerAccount = public(account("other"))
	case "both":
		answer.Error = "not today"
	case "neither":
		claims = nil
	case "expired":
		claims.Expires = time.Now().Add(-time.Minute).Unix()
	case "not yet":
		claims.NotBefore = time.Now().Add(time.Hour).Unix()
	case "expired answer":
		answer.Expires = time.Now().Add(-time.Minute).Unix()
	case "expiring":
		claims.Expires = time.Now().Add(2 * time.Second).Unix()
	case "permitted":
		claims.Pub.Allow.Add("app.>", "$SYS.REQ.USER.INFO")
		claims.Pub.Deny.Add("app.no")
		claims.Sub.Allow.Add("app.>", "_INBOX.>", "$SYS.REQ.USER.INFO")
		claims.Sub.Deny.Add("app.secret")
	case "responding":
		claims.Pub.Allow.Add("none")
		claims.Resp = &jwt.ResponsePermission{MaxMsgs: 1, Expires: time.Minute}
	case "limited":
		claims.Limits.Subs = 2
		claims.Limits.Payload = 16
	case "from elsewhere":
		claims.Limits.Src.Add("10.0.0.0/8")
	case "by websocket":
		claims.AllowedConnectionTypes.Add(jwt.ConnectionTypeWebsocket)
	case "by tcp":
		claims.AllowedConnectionTypes.Add(jwt.ConnectionTypeStandard)
	case "at other times":
		other := time.Now().UTC().Add(6 * time.Hour)
		claims.Limits.Times = []jwt.TimeRange{{Start: other.Format("15:04:05"), End: other.Add(time.Hour).Format("15:04:05")}}
	case "in clear":
		out.clear = true
	case "sealed by a stranger":
		out.by = curve("stranger")
	}
	if claims != nil && (name == "both" || answer.Error == "") {
		answer.Jwt = encoded(claims, signer)
	}
	out.text = encoded(answer, issuer)
	if name == "no and yes" {
		refusal := jwt.NewAuthorizationResponseClaims(asked.UserNkey)
		refusal.Audience, refusal.Error = asked.Server.ID, "not today"
		return []said{{text: encoded(refusal, issuer)}, out}
	}
	return []said{out}
}

// encoded signs what may be invalid, too.
func encoded(claims jwt.Claims, signer nkeys.KeyPair) string {
	text, err := claims.Encode(signer)
	if err != nil {
		return "not encoded: " + err.Error()
	}
	return text
}

func calloutScenes() []scene {
	return []scene{
		{"a service is not there", "callout", false, calloutAbsent},
		{"what a service decides", "callout", false, calloutDecides},
		{"what the users of a service may do", "callout", false, calloutPermits},
		{"what a service is asked", "callout", false, calloutAsked},
		{"a service with a curve key", "sealed", false, calloutSealed},
	}
}

func calloutAbsent(p *player) {
	p.login("without a service, a known user", nats.UserInfo("known", "p"))
	p.login("without a service, a stranger", nats.UserInfo("allowed", "x"))
	p.login("without a service, nothing presented")
	p.login("the service", nats.UserInfo("auth", "p"))
	p.login("the service with a wrong password", nats.UserInfo("auth", "x"))
	p.login("another of auth_users", nats.UserInfo("sys", "p"))
	service := p.serving(false)
	p.login("with a service", nats.UserInfo("allowed", "x"))
	service.Close()
	p.login("the service is gone", nats.UserInfo("allowed", "x"))
	// Who is let in by the service cannot take its place, and no other account hears questions.
	service = p.serving(false)
	app, err := p.dial(nats.UserInfo("allowed", "x"))
	ok(err, "login")
	stolen := app.sub("$SYS.REQ.USER.AUTH")
	all := app.sub(">")
	p.login("another account listens", nats.UserInfo("denied", "x"))
	p.say("another account hears", "%s", app.heard(stolen))
	p.say("another account hears everything", "%s", app.heard(all))
	p.say("the service asks itself", "%s", service.sends("$SYS.REQ.USER.AUTH", "x"))
	p.say("another account asks", "%s", app.asksOnce("$SYS.REQ.USER.AUTH", "x"))
}

func calloutDecides(p *player) {
	p.serving(false)
	for _, name := range []string{
		"allowed", "denied", "known", "garbage", "empty", "silent", "late", "soon", "response of a stranger", "user of a stranger",
		"response for another key", "user with another key", "response to another server", "response to nobody", "another account",
		"the account of the service", "no account", "an issuer account", "both", "neither", "expired", "not yet", "expired answer",
		"from elsewhere", "by websocket", "by tcp", "at other times", "no and yes",
	} {
		p.login(name, nats.UserInfo(name, "x"))
	}
	p.login("a token", nats.Token("x"))
	p.login("nothing presented")
	signed := user("signer")
	p.login("a key", nats.Nkey(public(signed), func(nonce []byte) ([]byte, error) { return signed.Sign(nonce) }))
	p.login("a key that another signs", nats.Nkey(public(signed), func(nonce []byte) ([]byte, error) { return user("other").Sign(nonce) }))
	for _, name := range []string{"late", "silent"} {
		began := time.Now()
		_, err := p.dial(nats.UserInfo(name, "x"))
		took := time.Since(began)
		p.say("again "+name, "refused %v, after its time %v, and not long after %v", err != nil,
			took > calloutTime*time.Second-200*time.Millisecond, took < 2*calloutTime*time.Second)
	}
	expiring := mustDial(p, nats.UserInfo("expiring", "x"))
	p.say("expiring", "%s", expiring.ends())
}

func calloutPermits(p *player) {
	p.serving(false)
	mine := mustDial(p, nats.UserInfo("permitted", "x"))
	for _, subject := range []string{"app.a", "app.no", "other"} {
		p.say("publish "+subject, "%s", mine.sends(subject, "x"))
	}
	wide := mine.sub("app.>")
	secret := mine.sub("app.secret")
	other := mine.sub("other")
	p.say("subscribe", "%s", mine.flushed())
	all := mustDial(p, nats.UserInfo("allowed", "x"))
	for _, subject := range []string{"app.a", "app.secret", "other"} {
		p.say("all publishes "+subject, "%s", all.sends(subject, "x"))
	}
	p.say("hears", "%s %s %s", mine.heard(wide), mine.heard(secret), mine.heard(other))
	answers := mustDial(p, nats.UserInfo("responding", "x"))
	requests := answers.sub("service")
	p.say("responding publishes", "%s", answers.sends("other", "x"))
	inbox := all.sub("replies")
	ok(answers.FlushTimeout(patience), "flush")
	ok(all.PublishRequest("service", "replies", []byte("q")), "publish")
	ok(all.FlushTimeout(patience), "flush")
	request := must(requests.NextMsg(patience))
	p.say("responding answers", "%s", answers.sends(request.Reply, "1"))
	p.say("responding answers again", "%s", answers.sends(request.Reply, "2"))
	p.say("answers come", "%s", all.heard(inbox))
	limited := mustDial(p, nats.UserInfo("limited", "x"))
	limited.sub("a")
	limited.sub("b")
	limited.sub("c")
	p.say("limited to two subscriptions", "%s", limited.flushed())
	p.say("limited to 16 bytes", "%d", limited.MaxPayload())
	for _, name := range []string{"allowed", "permitted"} {
		one := mustDial(p, nats.UserInfo(name, "x"))
		info := one.asksOnce("$SYS.REQ.USER.INFO", "")
		p.say("info of "+name, "account %v, shape %s", field(info, "data", "account"), without(shape([]byte(info)), "feature_flags"))
	}
	// The account of the service is closed to who is placed in it.
	placed, err := p.dial(nats.UserInfo("the account of the service", "x"))
	if err == nil {
		p.say("placed beside the service asks", "%s", placed.sends("$SYS.REQ.USER.AUTH", "x"))
	}
}

func calloutAsked(p *player) {
	service := p.serving(false)
	p.login("with a name", nats.UserInfo("allowed", "secret"), nats.Name("my name"))
	service.mutex.Lock()
	asked := service.asked["allowed"]
	service.mutex.Unlock()
	if asked == nil {
		fail("the service was not asked")
	}
	p.say("audience and subject", "%s %s", asked.Audience, asked.Subject)
	p.say("issuer", "%v, %v", asked.Issuer == asked.Server.ID, strings.HasPrefix(asked.Issuer, "N"))
	p.say("key", "%v", strings.HasPrefix(asked.UserNkey, "U"))
	p.say("time", "%v", asked.Expires > time.Now().Add(-time.Minute).Unix())
	p.say("server", "%v %v %v", asked.Server.Name == p.server.name, asked.Server.Host != "", asked.Server.XKey)
	client := asked.ClientInformation
	p.say("client", "%s, user %q, name %q, kind %s, type %s, nonce %v", client.Host, client.User, client.Name, client.Kind, client.Type, client.Nonce != "")
	options := asked.ConnectOptions
	p.say("options", "user %q, pass %q, token %q, jwt %q, key %q, lang %s, protocol %d", options.Username, options.Password, options.Token,
		options.JWT, options.Nkey, options.Lang, options.Protocol)
	p.say("tls", "%v", asked.TLS != nil)
	signed := user("signer")
	p.login("a key", nats.Nkey(public(signed), func(nonce []byte) ([]byte, error) { return signed.Sign(nonce) }))
	service.mutex.Lock()
	asked = service.asked[""]
	service.mutex.Unlock()
	if asked == nil {
		p.say("a key is asked about", "no")
		return
	}
	p.say("a key is asked about", "%v, signed %v, nonce %v", asked.ConnectOptions.Nkey == public(signed), asked.ConnectOptions.SignedNonce != "",
		asked.ClientInformation.Nonce != "")
}

func calloutSealed(p *player) {
	service := p.serving(true)
	for _, name := range []string{"allowed", "denied", "sealed by a stranger", "in clear", "garbage"} {
		p.login(name, nats.UserInfo(name, "x"))
	}
	service.mutex.Lock()
	asked := service.asked["allowed"]
	service.mutex.Unlock()
	if asked == nil {
		fail("the service was not asked")
	}
	p.say("server's key", "%v", strings.HasPrefix(asked.Server.XKey, "X"))
	// The question itself shows nothing.
	var seen []byte
	listening := p.as("auth")
	must(listening.Subscribe("$SYS.REQ.USER.AUTH", func(m *nats.Msg) { seen = append(seen, m.Data...) }))
	ok(listening.FlushTimeout(patience), "flush")
	p.login("once more", nats.UserInfo("allowed", "the password"))
	ok(listening.FlushTimeout(patience), "flush")
	p.say("a question in clear", "%v, %v", strings.Contains(string(seen), "the password"), strings.Contains(string(seen), "eyJ"))
}
