package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"sort"
	"strings"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
)

// operator signs accounts, as nsc does. Keys come from names, so that both servers get the same ones.
type operator struct {
	key, signing, system nkeys.KeyPair
}

func key(prefix nkeys.PrefixByte, name string) nkeys.KeyPair {
	seed := sha256.Sum256([]byte(name))
	return must(nkeys.FromRawSeed(prefix, seed[:]))
}

func public(pair nkeys.KeyPair) string { return must(pair.PublicKey()) }

func account(name string) nkeys.KeyPair { return key(nkeys.PrefixByteAccount, name) }
func user(name string) nkeys.KeyPair    { return key(nkeys.PrefixByteUser, name) }

func newOperator() *operator {
	return &operator{key(nkeys.PrefixByteOperator, "operator"), key(nkeys.PrefixByteOperator, "signing"), account("system")}
}

func (o *operator) token() string {
	claims := jwt.NewOperatorClaims(public(o.key))
	claims.Name = "beside"
	claims.SigningKeys.Add(public(o.signing))
	claims.SystemAccount = public(o.system)
	return must(claims.Encode(o.key))
}

// account returns the claims of an account, signed by the operator's signing key.
func (o *operator) account(name string, change func(*jwt.AccountClaims)) string {
	claims := jwt.NewAccountClaims(public(account(name)))
	claims.Name = name
	if change != nil {
		change(claims)
	}
	return must(claims.Encode(o.signing))
}

// login returns the options of a user with claims.
func login(token string, pair nkeys.KeyPair) nats.Option {
	return nats.UserJWT(func() (string, error) { return token, nil }, func(nonce []byte) ([]byte, error) { return pair.Sign(nonce) })
}

// claimed makes a user of an account and returns its login. The issuer is the account, or one of its keys.
func claimed(of, name string, issuer nkeys.KeyPair, change func(*jwt.UserClaims)) nats.Option {
	claims := jwt.NewUserClaims(public(user(name)))
	claims.Name = name
	if public(issuer) != public(account(of)) {
		claims.IssuerAccount = public(account(of))
	}
	if change != nil {
		change(claims)
	}
	return login(must(claims.Encode(issuer)), user(name))
}

// member is a plain user of an account.
func member(of, name string) nats.Option { return claimed(of, name, account(of), nil) }

func operatorPair(world, folder string, nodes int) []*server {
	o := newOperator()
	system := o.account("system", nil)
	conf := newServer("nats-server", world, folder)
	tailrace := newServer("tailrace", world, folder)
	pair := []*server{
		startNats(world, folder, fmt.Sprintf("operator: %q\nsystem_account: %s\nresolver { type: full, dir: %q, allow_delete: true }\nresolver_preload { %s: %s }\n",
			write(conf.folder, "operator.jwt", o.token()), public(o.system), conf.folder+"/jwt", public(o.system), system)),
		startTailrace(world, folder, nodes, "tailrace.nats.operator.file="+write(tailrace.folder, "operator.jwt", o.token()),
			"tailrace.nats.operator.accounts.file="+write(tailrace.folder, "accounts.jwt", system)),
	}
	for _, one := range pair {
		one.operator = o
		one.wait(claimed("system", "waiting", o.system, nil))
	}
	return pair
}

// ---- what `nsc push` does ----

// pushing connects as nsc does: as a user of the system account for two minutes who may ask three subjects.
func (p *player) pushing() *client {
	return mustDial(p, claimed("system", "pushing", p.server.operator.system, func(claims *jwt.UserClaims) {
		claims.Name = "nsc temporary push user"
		claims.Expires = time.Now().Add(2 * time.Minute).Unix()
		claims.Pub.Allow.Add("$SYS.REQ.CLAIMS.LIST", "$SYS.REQ.CLAIMS.UPDATE", "$SYS.REQ.CLAIMS.DELETE")
		claims.Sub.Allow.Add("_INBOX.>")
	}))
}

func mustDial(p *player, options ...nats.Option) *client {
	c, err := p.dial(options...)
	ok(err, "login")
	return c
}

// told is how nsc reads an answer.
func told(answer string) string {
	if problem := field(answer, "error"); problem != nil {
		return fmt.Sprintf("error %v: %v", field(answer, "error", "code"), field(answer, "error", "description"))
	}
	if message := field(answer, "data", "message"); message != nil {
		return fmt.Sprintf("%v %v of %v", field(answer, "data", "code"), message, nameOf(fmt.Sprint(field(answer, "data", "account"))))
	}
	return answer
}

// push stores the claims of an account, and fails if the server does not take them.
func (p *player) push(token string) {
	answer := p.pushing().asks("$SYS.REQ.CLAIMS.UPDATE", token)
	if field(answer, "error") != nil || field(answer, "data", "message") != "jwt updated" {
		fail("push: %s", answer)
	}
}

// deletion is the request of `nsc push --prune`.
func (o *operator) deletion(names ...string) string {
	claims := jwt.NewGenericClaims(public(o.key))
	var ids []string
	for _, name := range names {
		ids = append(ids, public(account(name)))
	}
	claims.Data["accounts"] = ids
	return must(claims.Encode(o.key))
}

var accountNames = []string{"system", "pushed", "second", "users", "revoked", "limited", "expiring", "exporter", "importer", "nodes", "doomed"}

func nameOf(id string) string {
	for _, name := range accountNames {
		if public(account(name)) == id {
			return name
		}
	}
	return id
}

// listed is the answer to LIST: the accounts of this scene.
func (p *player) listed(c *client, of ...string) string {
	var all []string
	ids, _ := field(c.asks("$SYS.REQ.CLAIMS.LIST", ""), "data").([]any)
	for _, id := range ids {
		for _, name := range of {
			if public(account(name)) == id {
				all = append(all, name)
			}
		}
	}
	sort.Strings(all)
	return strings.Join(all, " ")
}

func operatorScenes() []scene {
	return []scene{
		{"nsc push, list and prune", "operator", false, pushes},
		{"claims of users", "operator", false, usersOfClaims},
		{"revocations of users", "operator", false, revocations},
		{"limits and keys that an account changes", "operator", false, changes},
		{"claims that end", "operator", false, endings},
		{"imports and exports of claims", "operator", false, activations},
		{"an account with claims, as the system account sees it", "operator", false, accountOfClaims},
		{"claims on every node", "nodes", true, onNodes},
	}
}

func pushes(p *player) {
	o := p.server.operator
	c := p.pushing()
	p.login("before the push", member("pushed", "early"))
	p.say("nothing is listed", "%s", p.listed(c, "system", "pushed", "second"))
	p.say("push", "%s", told(c.asks("$SYS.REQ.CLAIMS.UPDATE", o.account("pushed", nil))))
	p.say("push of a second one", "%s", told(c.asks("$SYS.REQ.CLAIMS.UPDATE", o.account("second", nil))))
	p.login("after the push", member("pushed", "early"))
	p.say("list", "%s", p.listed(c, "system", "pushed", "second"))
	stranger := key(nkeys.PrefixByteOperator, "stranger")
	claims := jwt.NewAccountClaims(public(account("pushed")))
	claims.Name = "pushed"
	p.say("signed by a stranger", "%v", field(c.asks("$SYS.REQ.CLAIMS.UPDATE", must(claims.Encode(stranger))), "error") != nil)
	p.say("signed by itself", "%v", field(c.asks("$SYS.REQ.CLAIMS.UPDATE", must(claims.Encode(account("pushed")))), "error") != nil)
	p.say("no claims", "%v", field(c.asks("$SYS.REQ.CLAIMS.UPDATE", "nonsense"), "error") != nil)
	good := o.account("pushed", nil)
	p.say("a changed signature", "%v", field(c.asks("$SYS.REQ.CLAIMS.UPDATE", good[:len(good)-8]+"AAAAAAAA"), "error") != nil)
	p.say("what nsc may not", "%s", c.sends("$SYS.REQ.SERVER.PING", ""))
	all := mustDial(p, claimed("system", "all", o.system, nil))
	p.say("the old subject", "%s", told(all.asks("$SYS.REQ.ACCOUNT."+public(account("pushed"))+".CLAIMS.UPDATE", good)))
	p.say("of another account than the subject", "%v", field(all.asks("$SYS.REQ.ACCOUNT."+public(account("second"))+".CLAIMS.UPDATE", good), "error") != nil)
	p.say("lookup", "%v", all.asks("$SYS.REQ.ACCOUNT."+public(account("pushed"))+".CLAIMS.LOOKUP", "") == good)
	pack := all.sub("_INBOX.pack")
	ok(all.PublishRequest("$SYS.REQ.CLAIMS.PACK", "_INBOX.pack", nil), "publish")
	found := map[string]bool{}
	for {
		m := must(pack.NextMsg(patience))
		if len(m.Data) == 0 {
			break
		}
		for _, line := range strings.Split(string(m.Data), "\n") {
			id, token, _ := strings.Cut(line, "|")
			found[nameOf(id)] = strings.HasPrefix(token, "eyJ")
		}
	}
	p.say("pack", "%v %v %v", found["system"], found["pushed"], found["second"])
	user := mustDial(p, member("second", "member"))
	p.say("it works", "%s", user.sends("x", ""))
	for _, subject := range []string{"CLAIMS.LIST", "CLAIMS.UPDATE", "CLAIMS.DELETE", "ACCOUNT." + public(account("pushed")) + ".CLAIMS.LOOKUP"} {
		p.say("another account asks "+strings.ReplaceAll(subject, public(account("pushed")), "ID"), "%s", user.asksOnce("$SYS.REQ."+subject, ""))
	}
	// What prune does: a list, and the removal of what is not wanted.
	p.say("prune by a stranger", "%v", field(c.asks("$SYS.REQ.CLAIMS.DELETE", func() string {
		claims := jwt.NewGenericClaims(public(stranger))
		claims.Data["accounts"] = []string{public(account("second"))}
		return must(claims.Encode(stranger))
	}()), "error") != nil)
	p.say("prune of the system account", "%v", field(c.asks("$SYS.REQ.CLAIMS.DELETE", o.deletion("system")), "error") != nil)
	p.say("still there", "%s", user.flushed())
	p.say("prune", "%s", told(c.asks("$SYS.REQ.CLAIMS.DELETE", o.deletion("second"))))
	p.say("its user", "%s", user.ends())
	p.login("its user again", member("second", "member"))
	p.say("list after it", "%s", p.listed(c, "system", "pushed", "second"))
	p.say("push again", "%s", told(c.asks("$SYS.REQ.CLAIMS.UPDATE", o.account("second", func(claims *jwt.AccountClaims) { claims.Tags.Add("again") }))))
	p.login("its user then", member("second", "member"))
}

func usersOfClaims(p *player) {
	o := p.server.operator
	signing, scoped := account("users signing"), account("users scope")
	p.push(o.account("users", func(claims *jwt.AccountClaims) {
		claims.SigningKeys.Add(public(signing))
		scope := jwt.NewUserScope()
		scope.Key, scope.Role = public(scoped), "device"
		scope.Template.Pub.Allow.Add("devices.{{name()}}.>", "teams.{{tag(team)}}")
		scope.Template.Sub.Allow.Add("devices.{{name()}}.>", "_INBOX.>")
		scope.Template.Subs = 3
		claims.SigningKeys.AddScopedSigner(scope)
		claims.DefaultPermissions.Pub.Allow.Add("default.>")
	}))
	own := account("users")
	add := func(label string, issuer nkeys.KeyPair, change func(*jwt.UserClaims)) {
		p.login(label, claimed("users", label, issuer, change))
	}
	add("plain", own, nil)
	add("by a signing key", signing, nil)
	add("by a stranger", account("stranger"), nil)
	add("expired", own, func(c *jwt.UserClaims) { c.Expires = time.Now().Add(-time.Minute).Unix() })
	add("too early", own, func(c *jwt.UserClaims) { c.NotBefore = time.Now().Add(time.Hour).Unix() })
	add("from here", own, func(c *jwt.UserClaims) { c.Src.Add("127.0.0.0/8") })
	add("from elsewhere", own, func(c *jwt.UserClaims) { c.Src.Add("10.0.0.0/8") })
	add("TCP", own, func(c *jwt.UserClaims) { c.AllowedConnectionTypes.Add(jwt.ConnectionTypeStandard) })
	add("WebSocket", own, func(c *jwt.UserClaims) { c.AllowedConnectionTypes.Add(jwt.ConnectionTypeWebsocket) })
	add("always", own, func(c *jwt.UserClaims) {
		c.Times = []jwt.TimeRange{{Start: "00:00:00", End: "23:59:59"}}
		c.Locale = "UTC"
	})
	add("a proxy", own, func(c *jwt.UserClaims) { c.ProxyRequired = true })
	token := func(name string, change func(*jwt.UserClaims)) string {
		claims := jwt.NewUserClaims(public(user(name)))
		claims.Name = name
		change(claims)
		return must(claims.Encode(own))
	}
	p.login("somebody else's claims", login(token("somebody", func(*jwt.UserClaims) {}), user("else")))
	p.say("no signature", "%s", raw(p.server.address, fmt.Sprintf(`{"jwt":%q}`, token("unsigned", func(*jwt.UserClaims) {})), "PING\r\n"))
	p.say("a bearer", "%s", raw(p.server.address, fmt.Sprintf(`{"jwt":%q}`, token("bearer", func(c *jwt.UserClaims) { c.BearerToken = true })), "PING\r\n"))
	p.say("a password", "%s", raw(p.server.address, `{"user":"a","pass":"b"}`, "PING\r\n"))
	p.login("nothing")
	p.login("an nkey alone", nats.Nkey(public(user("plain")), func(nonce []byte) ([]byte, error) { return user("plain").Sign(nonce) }))
	plain := mustDial(p, member("users", "permissions"))
	p.say("default permissions", "%s; %s", plain.sends("default.x", ""), plain.sends("x", ""))
	lists := mustDial(p, claimed("users", "lists", own, func(c *jwt.UserClaims) {
		c.Pub.Allow.Add("a.>")
		c.Pub.Deny.Add("a.b")
		c.Sub.Allow.Add("c.* q.*")
		c.Limits.Payload = 9
		c.Subs = 2
	}))
	for _, subject := range []string{"a.a", "a.b", "x"} {
		p.say("publish "+subject, "%s", lists.sends(subject, ""))
	}
	p.say("its payload", "%d", lists.MaxPayload())
	for _, subject := range []string{"c.x", "c.x q.1", "c.y q.2", "c.z q.3"} {
		lists.sub(subject)
		p.say("subscribe "+subject, "%s", lists.flushed())
	}
	device := mustDial(p, claimed("users", "thing", scoped, func(c *jwt.UserClaims) {
		c.SetScoped(true)
		c.Tags.Add("team:red", "team:blue")
	}))
	for _, subject := range []string{"devices.thing.x", "devices.other.x", "teams.red", "teams.green"} {
		p.say("device publishes "+subject, "%s", device.sends(subject, ""))
	}
	for _, subject := range []string{"devices.thing.>", "devices.>", "devices.thing.1", "devices.thing.2", "devices.thing.3"} {
		device.sub(subject)
		p.say("device subscribes "+subject, "%s", device.flushed())
	}
	add("scoped with permissions of its own", scoped, func(c *jwt.UserClaims) {
		c.SetScoped(true)
		c.Pub.Allow.Add("x")
	})
	add("scoped, but not said so", scoped, nil)
}

func revocations(p *player) {
	o := p.server.operator
	p.push(o.account("revoked", nil))
	one, two := mustDial(p, member("revoked", "one")), mustDial(p, member("revoked", "two"))
	p.push(o.account("revoked", func(c *jwt.AccountClaims) { c.Revoke(public(user("one"))) }))
	p.say("the revoked one", "%s", one.ends())
	p.say("the other", "%s", two.flushed())
	p.login("the revoked one again", member("revoked", "one"))
	// An older claim than the revocation stays revoked, a newer one is let in.
	p.push(o.account("revoked", func(c *jwt.AccountClaims) { c.RevokeAt(public(user("one")), time.Now().Add(-time.Hour)) }))
	p.login("with newer claims", member("revoked", "one"))
	p.push(o.account("revoked", func(c *jwt.AccountClaims) { c.RevokeAt("*", time.Now().Add(time.Minute)) }))
	p.say("all", "%s", two.ends())
	p.login("anybody", member("revoked", "three"))
	p.push(o.account("revoked", nil))
	p.login("after the end of it", member("revoked", "three"))
}

func changes(p *player) {
	o := p.server.operator
	signing := account("limited signing")
	with := func(change func(*jwt.AccountClaims)) string {
		return o.account("limited", func(c *jwt.AccountClaims) {
			c.SigningKeys.Add(public(signing))
			if change != nil {
				change(c)
			}
		})
	}
	p.push(with(nil))
	var all []*client
	for i := range 3 {
		all = append(all, mustDial(p, member("limited", fmt.Sprintf("limited %d", i))))
	}
	p.push(with(func(c *jwt.AccountClaims) { c.Limits.Conn = 2 }))
	p.say("the newest", "%s", all[2].ends())
	p.say("the oldest", "%s; %s", all[0].flushed(), all[1].flushed())
	p.login("one too many", member("limited", "too many"))
	p.push(with(nil))
	p.login("with room again", member("limited", "room"))
	p.push(with(func(c *jwt.AccountClaims) { c.Limits.Subs, c.Limits.Payload = 1, 100 }))
	newer := mustDial(p, member("limited", "newer"))
	newer.sub("a")
	p.say("one subscription", "%s", newer.flushed())
	newer.sub("b")
	p.say("two", "%s", newer.flushed())
	p.say("payload", "%d", newer.MaxPayload())
	bearer := mustDial(p, claimed("limited", "bearer", account("limited"), func(c *jwt.UserClaims) { c.BearerToken = true }))
	signed := mustDial(p, claimed("limited", "signed", signing, nil))
	p.push(with(func(c *jwt.AccountClaims) { c.Limits.DisallowBearer = true }))
	p.say("the bearer", "%s", bearer.ends())
	p.login("a bearer again", claimed("limited", "bearer", account("limited"), func(c *jwt.UserClaims) { c.BearerToken = true }))
	p.push(o.account("limited", nil))
	p.say("signed by a removed key", "%s", signed.ends())
	p.login("signed by it again", claimed("limited", "signed", signing, nil))
	p.say("a plain one stays", "%s", all[0].flushed())
}

func endings(p *player) {
	o := p.server.operator
	p.push(o.account("expiring", nil))
	soon := mustDial(p, claimed("expiring", "soon", account("expiring"), func(c *jwt.UserClaims) { c.Expires = time.Now().Add(2 * time.Second).Unix() }))
	p.say("a user", "%s", soon.ends())
	stays := mustDial(p, member("expiring", "stays"))
	p.push(o.account("expiring", func(c *jwt.AccountClaims) { c.Expires = time.Now().Add(2 * time.Second).Unix() }))
	p.say("an account", "%s", stays.ends())
	p.login("its user", member("expiring", "stays"))
	p.push(o.account("expiring", nil))
	p.login("with new claims", member("expiring", "stays"))
}

func activations(p *player) {
	o := p.server.operator
	exporter := func(change func(*jwt.AccountClaims)) string {
		return o.account("exporter", func(c *jwt.AccountClaims) {
			c.Exports.Add(
				&jwt.Export{Name: "public", Subject: "public.>", Type: jwt.Stream},
				&jwt.Export{Name: "private", Subject: "private.*", Type: jwt.Service, TokenReq: true},
				&jwt.Export{Name: "own", Subject: "own.*", Type: jwt.Stream, AccountTokenPosition: 2},
			)
			if change != nil {
				change(c)
			}
		})
	}
	activation := jwt.NewActivationClaims(public(account("importer")))
	activation.Name, activation.ImportSubject, activation.ImportType = "private", "private.*", jwt.Service
	token := must(activation.Encode(account("exporter")))
	importer := func(token string) string {
		return o.account("importer", func(c *jwt.AccountClaims) {
			c.Imports.Add(
				&jwt.Import{Name: "public", Subject: "public.news.*", Account: public(account("exporter")), LocalSubject: "news.$1", Type: jwt.Stream},
				&jwt.Import{Name: "own", Subject: jwt.Subject("own." + public(account("importer"))), Account: public(account("exporter")), LocalSubject: "mine", Type: jwt.Stream},
				&jwt.Import{Name: "private", Subject: "private.one", Account: public(account("exporter")), LocalSubject: "ask", Type: jwt.Service, Token: token},
			)
		})
	}
	p.push(exporter(nil))
	p.push(importer(token))
	exp, imp := mustDial(p, member("exporter", "exp")), mustDial(p, member("importer", "imp"))
	exp.serves("private.*", func(m *nats.Msg) { _ = m.Respond([]byte("to " + m.Subject)) })
	sub := imp.sub(">")
	p.say("subscribed", "%s", imp.flushed())
	for _, subject := range []string{"public.news.today", "public.other", "own." + public(account("importer")), "own." + public(account("exporter"))} {
		p.say("publishes "+nameOf(strings.TrimPrefix(subject, "own.")), "%s", exp.sends(subject, "!"))
	}
	p.say("hears", "%s", imp.heard(sub))
	ok(sub.Unsubscribe(), "unsubscribe")
	p.say("asks", "%s", imp.asks("ask", ""))
	// The exporter takes the token back, an import is left out, and the export ends: open connections notice.
	p.push(exporter(func(c *jwt.AccountClaims) {
		c.Exports[1].RevokeAt(public(account("importer")), time.Now().Add(time.Minute))
	}))
	p.say("with a revoked token", "%s", p.until(imp, "ask", nats.ErrNoResponders))
	p.push(exporter(nil))
	p.say("with a token again", "%s", p.until(imp, "ask", nil))
	p.push(importer(""))
	p.say("without a token", "%s", p.until(imp, "ask", nats.ErrNoResponders))
	p.push(importer(token))
	p.say("once more", "%s", p.until(imp, "ask", nil))
	p.push(o.account("exporter", nil))
	p.say("without an export", "%s", p.until(imp, "ask", nats.ErrNoResponders))
}

// until asks until the answer is as wanted, and returns the last one.
func (p *player) until(c *client, subject string, want error) string {
	var last string
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		answer, err := c.Request(subject, nil, 300*time.Millisecond)
		// nats-server drops what has no way: nobody answers.
		if want != nil && (errors.Is(err, want) || errors.Is(err, nats.ErrTimeout)) {
			return "nobody answers"
		}
		if err == nil {
			if last = string(answer.Data); want == nil {
				return last
			}
		} else {
			last = err.Error()
		}
	}
	return last
}

func accountOfClaims(p *player) {
	o := p.server.operator
	p.push(o.account("doomed", func(c *jwt.AccountClaims) {
		c.Tags.Add("red")
		c.Exports.Add(&jwt.Export{Name: "public", Subject: "public.>", Type: jwt.Stream})
		c.RevokeAt(public(user("gone")), time.Unix(1_700_000_000, 0))
	}))
	sys := mustDial(p, claimed("system", "watching", o.system, nil))
	connects := sys.sub("$SYS.ACCOUNT." + public(account("doomed")) + ".CONNECT")
	p.say("subscribed", "%s", sys.flushed())
	member := mustDial(p, member("doomed", "member"))
	m := must(connects.NextMsg(patience))
	p.say("CONNECT", "%s", without(shape(m.Data), ofServer+`|^\.client\.jwt:`))
	p.say("CONNECT has the claims", "%v", field(string(m.Data), "client", "jwt") != nil)
	p.say("CONNECT of", "%s %v", nameOf(fmt.Sprint(field(string(m.Data), "client", "acc"))), field(string(m.Data), "client", "name_tag"))
	info := sys.asks("$SYS.REQ.ACCOUNT."+public(account("doomed"))+".INFO", "")
	p.say("INFO", "%s", without(shape([]byte(info)), ofServer+"|"+ownImports))
	for _, one := range []string{"name_tag", "expired", "complete", "client_connections", "revoked_user", "exports"} {
		p.say("INFO "+one, "%v", field(info, "data", one))
	}
	p.say("its claims", "%v", field(info, "data", "jwt") == sys.asks("$SYS.REQ.ACCOUNT."+public(account("doomed"))+".CLAIMS.LOOKUP", ""))
	who := member.asks("$SYS.REQ.USER.INFO", "")
	p.say("who am I", "%s", without(shape([]byte(who)), ofServer))
	p.say("CONNECT says", "%v %v", field(string(m.Data), "client", "user"), field(string(m.Data), "client", "issuer_key") == public(account("doomed")))
	for _, one := range []string{"user", "account", "account_name", "user_name"} {
		p.say("who: "+one, "%s", nameOf(fmt.Sprint(field(who, "data", one))))
	}
}

// onNodes pushes to one node and looks at all of them. nats-server is alone.
func onNodes(p *player) {
	o, nodes := p.server.operator, len(p.server.addresses)
	at := func(node int) *player {
		p.node = node % nodes
		return p
	}
	at(0).push(o.account("nodes", nil))
	var all []*client
	for node := range 3 {
		var c *client
		for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
			var err error
			if c, err = at(node).dial(member("nodes", fmt.Sprintf("node %d", node))); err == nil {
				break
			}
			if time.Now().After(end) {
				fail("node %d: %v", node, err)
			}
		}
		all = append(all, c)
		p.say(fmt.Sprintf("node %d", node), "%s", c.flushed())
		p.say(fmt.Sprintf("list of node %d", node), "%s", p.listed(at(node).pushing(), "nodes", "system"))
	}
	at(1).push(o.account("nodes", func(c *jwt.AccountClaims) { c.Revoke(public(user("node 2"))); c.Revoke(public(user("node 0"))) }))
	p.say("revoked on node 2", "%s", all[2].ends())
	p.say("revoked on node 0", "%s", all[0].ends())
	p.say("the other stays", "%s", all[1].flushed())
	for node := range 3 {
		at(node)
		var last string
		for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
			c, err := p.dial(member("nodes", "node 2"))
			if err != nil {
				last = err.Error()
				break
			}
			c.Close()
			last = "let in"
		}
		p.say(fmt.Sprintf("revoked, at node %d", node), "%s", last)
	}
	answer := at(2).pushing().asks("$SYS.REQ.CLAIMS.DELETE", o.deletion("nodes"))
	p.say("delete at node 2", "%s", told(answer))
	p.say("the last one", "%s", all[1].ends())
	at(0)
}
