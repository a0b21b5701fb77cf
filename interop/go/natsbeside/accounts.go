package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
)

// Accounts in configuration: EXP exports, IMP and OTHER import, LIMIT has limits, DEF default permissions.
// Every user has the password p.
const accountsConf = `
system_account: SYS
no_auth_user: guest
accounts {
  SYS { users: [ { user: sys, password: p }, { user: sysless, password: p, permissions: { subscribe: "_INBOX.>", publish: "$SYS.REQ.SERVER.PING" } } ] }
  EXP {
    users: [ { user: exp, password: p }, { user: exp2, password: p } ]
    exports: [
      { stream: "pub.>" }
      { stream: "priv.>", accounts: [ IMP ] }
      { stream: "own.*.data", account_token_position: 2 }
      { service: "ask.one" }
      { service: "ask.many", response_type: stream }
      { service: "ask.chunks", response_type: chunked }
      { service: "ask.wild.*" }
      { service: "ask.shared" }
      { service: "ask.private", accounts: [ IMP ] }
      { service: "ask.late", response_threshold: "300ms" }
      { service: "mine.*.ask", account_token_position: 2 }
    ]
  }
  IMP {
    users: [
      { user: imp, password: p }
      { user: few, password: p, permissions: { publish: [ "q.one", "ask.many" ], subscribe: [ "_INBOX.>", "pre.>" ] } }
    ]
    imports: [
      { stream: { account: EXP, subject: "pub.a.*" }, prefix: pre }
      { stream: { account: EXP, subject: "pub.b.*.*" }, to: "local.$2.$1" }
      { stream: { account: EXP, subject: "priv.>" } }
      { stream: { account: EXP, subject: "own.IMP.data" }, to: mydata }
      { service: { account: EXP, subject: "ask.one" }, to: q.one }
      { service: { account: EXP, subject: "ask.many" } }
      { service: { account: EXP, subject: "ask.chunks" } }
      { service: { account: EXP, subject: "ask.wild.*" }, to: "wild.*.q" }
      { service: { account: EXP, subject: "ask.shared" }, share: true }
      { service: { account: EXP, subject: "ask.private" } }
      { service: { account: EXP, subject: "ask.late" } }
      { service: { account: EXP, subject: "mine.IMP.ask" }, to: mine }
    ]
  }
  OTHER {
    users: [ { user: other, password: p } ]
    imports: [
      { stream: { account: EXP, subject: "pub.>" } }
      { service: { account: EXP, subject: "ask.one" } }
      { service: { account: EXP, subject: "ask.shared" } }
    ]
  }
  LIMIT {
    users: [ { user: limit, password: p } ]
    limits { max_connections: 2, max_subscriptions: 2, max_payload: 64 }
  }
  DEF {
    users: [ { user: def, password: p }, { user: own, password: p, permissions: { publish: "mine" } } ]
    default_permissions { publish: { allow: [ "a.*" ], deny: [ "a.no" ] }, subscribe: { allow: [ "b.>", "_INBOX.>" ] } }
  }
  GUESTS { users: [ { user: guest, password: p, permissions: { publish: "hello", subscribe: "hello" } } ] }
}
`

const accountsToml = `
no_auth_user = "guest"
[[accounts]]
name = "SYS"
[[accounts]]
name = "EXP"
exports = [
    { stream = "pub.>" },
    { stream = "priv.>", accounts = ["IMP"] },
    { stream = "own.*.data", account_token_position = 2 },
    { service = "ask.one" },
    { service = "ask.many", response = "stream" },
    { service = "ask.chunks", response = "chunked" },
    { service = "ask.wild.*" },
    { service = "ask.shared" },
    { service = "ask.private", accounts = ["IMP"] },
    { service = "ask.late", response_threshold = "300ms" },
    { service = "mine.*.ask", account_token_position = 2 },
]
[[accounts]]
name = "IMP"
imports = [
    { stream = "pub.a.*", from = "EXP", prefix = "pre" },
    { stream = "pub.b.*.*", from = "EXP", to = "local.$2.$1" },
    { stream = "priv.>", from = "EXP" },
    { stream = "own.IMP.data", from = "EXP", to = "mydata" },
    { service = "ask.one", from = "EXP", to = "q.one" },
    { service = "ask.many", from = "EXP" },
    { service = "ask.chunks", from = "EXP" },
    { service = "ask.wild.*", from = "EXP", to = "wild.*.q" },
    { service = "ask.shared", from = "EXP", share = true },
    { service = "ask.private", from = "EXP" },
    { service = "ask.late", from = "EXP" },
    { service = "mine.IMP.ask", from = "EXP", to = "mine" },
]
[[accounts]]
name = "OTHER"
imports = [
    { stream = "pub.>", from = "EXP" },
    { service = "ask.one", from = "EXP" },
    { service = "ask.shared", from = "EXP" },
]
[[accounts]]
name = "LIMIT"
max_connections = 2
max_subscriptions = 2
max_payload = 64
[[accounts]]
name = "DEF"
default_permissions = { publish = { allow = ["a.*"], deny = ["a.no"] }, subscribe = { allow = ["b.>", "_INBOX.>"] } }
[[accounts]]
name = "GUESTS"

[[users]]
user = "sys"
password = "p"
account = "SYS"
[[users]]
user = "sysless"
password = "p"
account = "SYS"
publish = { allow = ["$SYS.REQ.SERVER.PING"] }
subscribe = { allow = ["_INBOX.>"] }
[[users]]
user = "exp"
password = "p"
account = "EXP"
[[users]]
user = "exp2"
password = "p"
account = "EXP"
[[users]]
user = "imp"
password = "p"
account = "IMP"
[[users]]
user = "few"
password = "p"
account = "IMP"
publish = { allow = ["q.one", "ask.many"] }
subscribe = { allow = ["_INBOX.>", "pre.>"] }
[[users]]
user = "other"
password = "p"
account = "OTHER"
[[users]]
user = "limit"
password = "p"
account = "LIMIT"
[[users]]
user = "def"
password = "p"
account = "DEF"
[[users]]
user = "own"
password = "p"
account = "DEF"
publish = { allow = ["mine"] }
[[users]]
user = "guest"
password = "p"
account = "GUESTS"
publish = { allow = ["hello"] }
subscribe = { allow = ["hello"] }
`

func configured() []scene {
	return append([]scene{
		{"streams of other accounts", "accounts", false, streams},
		{"services of other accounts", "accounts", false, services},
		{"users with permissions behind imports", "accounts", false, behindImports},
		{"limits of accounts", "accounts", false, limits},
		{"default permissions and guests", "accounts", false, defaults},
		{"accounts are named by users only", "accounts", false, named},
	}, userScenes()...)
}

func streams(p *player) {
	exp, imp, other := p.as("exp"), p.as("imp"), p.as("other")
	all, rest, everywhere := imp.sub(">"), imp.sub("pre.pub.>"), other.sub("pub.>")
	one, two, queue := imp.sub("local.*.x"), imp.sub("mydata"), other.sub("pub.> workers")
	for _, c := range []*client{imp, other} {
		p.say("subscriptions of "+c.Opts.User, "%s", c.flushed())
	}
	for _, subject := range []string{"pub.a.1", "pub.b.x.y", "pub.b.y.x", "pub.c", "priv.1", "priv.a.b", "own.IMP.data", "own.OTHER.data", "none"} {
		m := &nats.Msg{Subject: subject, Data: []byte("text"), Reply: "answer.here", Header: nats.Header{"A": {"1", "2"}}}
		ok(exp.PublishMsg(m), "publish")
		p.say(subject+" is sent", "%s", exp.flushed())
		for name, heard := range map[string]string{
			"all of the importer": imp.heard(all), "a prefix": imp.heard(rest), "words that changed places": imp.heard(one), "one's own": imp.heard(two),
			"without a prefix": other.heard(everywhere), "a queue": other.heard(queue),
		} {
			p.say(subject+": "+name, "%s", heard)
		}
	}
	// Nothing goes back.
	back := exp.sub(">")
	p.say("flush", "%s", exp.flushed())
	for _, subject := range []string{"pub.a.1", "pre.pub.a.1", "mydata", "priv.1"} {
		p.say("the importer sends "+subject, "%s", imp.sends(subject, "back"))
	}
	p.say("the exporter hears of the importer", "%s", exp.heard(back))
	// A reply subject crosses as it is.
	answers := exp.sub("answer.here")
	replying := imp.sub("pre.pub.a.*")
	p.say("flush again", "%s%s", imp.flushed(), exp.flushed())
	ok(exp.PublishRequest("pub.a.2", "answer.here", nil), "publish")
	p.say("flush then", "%s", exp.flushed())
	ok(imp.FlushTimeout(patience), "flush")
	m := must(replying.NextMsg(patience))
	p.say("the reply subject", "%s", m.Reply)
	p.say("answering it", "%s", imp.sends(m.Reply, "answer"))
	p.say("the answer of another account", "%s", exp.heard(answers))
}

func services(p *player) {
	exp, imp, other := p.as("exp", nats.Name("service")), p.as("imp", nats.Name("asker")), p.as("other", nats.Name("stranger"))
	plain := func(m *nats.Msg) { _ = m.Respond([]byte("to " + m.Subject + " " + string(m.Data))) }
	seen := exp.sub("ask.>")
	for _, subject := range []string{"ask.one", "ask.wild.*", "ask.private", "mine.*.ask"} {
		exp.serves(subject, plain)
	}
	exp.serves("ask.shared", func(m *nats.Msg) {
		info := m.Header.Get("Nats-Request-Info")
		_ = m.Respond([]byte(fmt.Sprintf("%s acc=%v user=%v name=%v svc=%v", without(shape([]byte(info)), "rtt"), field(info, "acc"), field(info, "user"), field(info, "name"), field(info, "svc"))))
	})
	p.say("renamed", "%s", imp.asks("q.one", "hello"))
	p.say("not under its own name", "%s", imp.asks("ask.one", "hello"))
	p.say("under its own name", "%s", other.asks("ask.one", "hello"))
	p.say("wildcard", "%s", imp.asks("wild.x.q", "hello"))
	p.say("wildcard of two words", "%s", imp.asks("wild.x.y.q", "hello"))
	p.say("private", "%s", imp.asks("ask.private", "hello"))
	p.say("private, of another", "%s", other.asks("ask.private", "hello"))
	p.say("with the account in the subject", "%s", imp.asks("mine", "hello"))
	p.say("with another account in the subject", "%s", other.asks("mine.IMP.ask", "hello"))
	p.say("shared", "%s", imp.asks("ask.shared", ""))
	p.say("not shared", "%s", other.asks("ask.shared", ""))
	p.say("nobody serves", "%s", imp.asks("ask.many", ""))
	// Headers, also the one that only the server may set.
	m := &nats.Msg{Subject: "q.one", Data: []byte("x"), Header: nats.Header{"Nats-Request-Info": {`{"acc":"SYS"}`}, "Mine": {"1"}}}
	ok(exp.FlushTimeout(patience), "flush")
	for {
		if count, _, _ := seen.Pending(); count == 0 {
			break
		}
		must(seen.NextMsg(patience))
	}
	_ = must(imp.RequestMsg(m, patience))
	got := must(seen.NextMsg(patience))
	p.say("what the service sees", "%s %s mine=%s shape=%s", got.Subject, replyShape(got.Reply), got.Header.Get("Mine"), without(shape([]byte(got.Header.Get("Nats-Request-Info"))), "rtt"))
	p.say("what it sees of the asker", "%v %v", field(got.Header.Get("Nats-Request-Info"), "acc"), field(got.Header.Get("Nats-Request-Info"), "user"))
	// How often a service may answer.
	several := func(m *nats.Msg) {
		for _, text := range []string{"1", "2", "", "3"} {
			_ = m.Respond([]byte(text))
		}
	}
	exp.serves("ask.many", several)
	exp.serves("ask.chunks", several)
	asked := func(label, subject, inbox string) {
		sub := imp.sub(inbox)
		ok(imp.PublishRequest(subject, inbox, nil), "publish")
		p.say(label+" is asked", "%s", imp.flushed())
		must(sub.NextMsg(patience))
		time.Sleep(silence)
		p.say(label+" answers further", "%s", imp.heard(sub))
	}
	asked("a stream", "ask.many", "_INBOX.many")
	asked("chunks", "ask.chunks", "_INBOX.chunks")
	exp2 := p.as("exp2")
	exp2.serves("ask.late", func(m *nats.Msg) {
		time.Sleep(900 * time.Millisecond)
		_ = m.Respond([]byte("late"))
	})
	late := imp.sub("_INBOX.late")
	ok(imp.PublishRequest("ask.late", "_INBOX.late", nil), "publish")
	p.say("late is asked", "%s", imp.flushed())
	time.Sleep(900*time.Millisecond + 2*silence)
	p.say("a late answer", "%s", imp.heard(late))
	// Nobody can answer instead.
	reply := ""
	taken := exp2.sub("ask.wild.*")
	p.say("flush", "%s", exp2.flushed())
	ok(imp.PublishRequest("wild.y.q", "_INBOX.forged", nil), "publish")
	ok(imp.FlushTimeout(patience), "flush")
	reply = must(taken.NextMsg(patience)).Reply
	p.say("another account at a reply subject", "%s", strings.ReplaceAll(other.sends(reply, "forged"), reply, "REPLY"))
}

// replyShape describes a reply subject that the server has made.
func replyShape(subject string) string {
	if strings.HasPrefix(subject, "_R_.") {
		return "_R_"
	}
	return subject
}

func behindImports(p *player) {
	exp, few := p.as("exp"), p.as("few")
	exp.serves("ask.>", func(m *nats.Msg) { _ = m.Respond([]byte("to " + m.Subject)) })
	p.say("what it may ask", "%s", few.asks("q.one", ""))
	p.say("the other", "%s", few.asks("ask.many", ""))
	for _, subject := range []string{"ask.chunks", "wild.x.q", "ask.one", "mine"} {
		p.say("what it may not ask: "+subject, "%s", few.sends(subject, ""))
	}
	for _, subject := range []string{"pre.pub.a.*", "mydata", "priv.>", "pub.a.*", ">"} {
		few.sub(subject)
		p.say("subscribing to "+subject, "%s", few.flushed())
	}
	// Who may ask the server, and where it answers, with lists.
	less := p.as("sysless")
	p.say("the server itself", "%s", without(shape([]byte(less.asks("$SYS.REQ.SERVER.PING", ""))), "statsz|server"))
	p.say("what else", "%s", less.sends("$SYS.REQ.SERVER.PING.VARZ", ""))
	p.say("who am I, without the right", "%s", few.sends("$SYS.REQ.USER.INFO", ""))
}

func limits(p *player) {
	one, two := p.as("limit"), p.as("limit")
	p.login("a third connection", nats.UserInfo("limit", "p"))
	p.say("the first one", "%s", one.flushed())
	for i := range 4 {
		one.sub(fmt.Sprintf("s.%d", i))
		p.say(fmt.Sprintf("subscription %d", i), "%s", one.flushed())
	}
	two.sub("t.1")
	p.say("of the second one", "%s", two.flushed())
	p.say("max payload that INFO says", "%d", one.MaxPayload())
	p.say("a small message", "%s", two.sends("x", strings.Repeat("x", 64)))
	// nats.go itself knows the maximum.
	p.say("a larger message", "%s", two.sends("x", strings.Repeat("x", 65)))
}

func defaults(p *player) {
	def, own := p.as("def"), p.as("own")
	for _, subject := range []string{"a.1", "a.no", "a.b.c", "b"} {
		p.say("by default, publish "+subject, "%s", def.sends(subject, ""))
		p.say("with its own list, publish "+subject, "%s", own.sends(subject, ""))
	}
	p.say("its own", "%s", own.sends("mine", ""))
	for _, subject := range []string{"b.x", "b.>", "a.1", "_INBOX.x"} {
		def.sub(subject)
		own.sub(subject)
		p.say("by default, subscribe "+subject, "%s", def.flushed())
		p.say("with its own list, subscribe "+subject, "%s", own.flushed())
	}
	nobody := must(p.dial())
	for _, subject := range []string{"hello", "other"} {
		nobody.sub(subject)
		p.say("a guest subscribes "+subject, "%s", nobody.flushed())
		p.say("a guest publishes "+subject, "%s", nobody.sends(subject, ""))
	}
	p.login("a wrong password is no guest", nats.UserInfo("guest", "wrong"))
	p.login("an unknown user is no guest", nats.UserInfo("nobody", "p"))
	p.login("a token is no guest", nats.Token("p"))
}

func named(p *player) {
	talk := func(label, connect string) { p.say(label, "%s", raw(p.server.address, connect, "PING\r\n")) }
	talk("account in CONNECT", `{"user":"imp","pass":"p","account":"EXP"}`)
	talk("new account in CONNECT", `{"user":"imp","pass":"p","new_account":true}`)
	talk("empty account in CONNECT", `{"user":"imp","pass":"p","account":""}`)
	talk("no password", `{"user":"imp"}`)
	talk("a token beside", `{"user":"imp","pass":"p","auth_token":"x"}`)
	talk("an nkey beside", `{"user":"imp","pass":"p","nkey":"UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4","sig":"AAAA"}`)
	talk("a jwt beside", `{"user":"imp","pass":"p","jwt":"eyJ0.eyJ1.x"}`)
	talk("a jwt alone", `{"jwt":"eyJ0.eyJ1.x"}`)
}

// ---- users ----

var userKey = func() nkeys.KeyPair { return must(nkeys.CreateUser()) }()

func userName() string { return must(userKey.PublicKey()) }

func usersConf() string {
	return `
system_account: SYS
accounts { SYS { users: [ { user: sys, password: p } ] } }
authorization {
  default_permissions { publish: "any.>", subscribe: [ "any.>", "_INBOX.>" ] }
  users: [
    { user: plain, password: p }
    { user: lists, password: p, permissions: { publish: { allow: [ "a.>", "rep" ], deny: [ "a.b" ] }, subscribe: { allow: [ "a.>", "jobs.* workers.*", "jobs.x plain", "_INBOX.>" ], deny: [ "a.c.>", "a.q none" ] } } }
    { user: replies, password: p, permissions: { subscribe: [ "service.>" ], allow_responses: { max: 2, expires: "600ms" } } }
    { user: once, password: p, permissions: { publish: { deny: "z" }, subscribe: [ "service.>" ], allow_responses: true } }
    { user: all, password: p, permissions: { publish: ">", subscribe: ">" } }
    { nkey: ` + userName() + `, permissions: { publish: "key", subscribe: "key" } }
    { user: tcp, password: p, allowed_connection_types: [ STANDARD ] }
    { user: web, password: p, allowed_connection_types: [ "websocket", "MQTT" ] }
    { user: hash, password: "$2a$04$abcdefghijklmnopqrstuudMegMbPN37MbpdEfAtP66w1z0RBCtLG" }
  ]
}
`
}

func usersToml() string {
	return `
[default_permissions]
publish = { allow = ["any.>"] }
subscribe = { allow = ["any.>", "_INBOX.>"] }
[[accounts]]
name = "SYS"
[[users]]
user = "sys"
password = "p"
account = "SYS"
publish = { allow = [">"] }
subscribe = { allow = [">"] }
[[users]]
user = "plain"
password = "p"
[[users]]
user = "lists"
password = "p"
publish = { allow = ["a.>", "rep"], deny = ["a.b"] }
subscribe = { allow = ["a.>", "jobs.* workers.*", "jobs.x plain", "_INBOX.>"], deny = ["a.c.>", "a.q none"] }
[[users]]
user = "replies"
password = "p"
subscribe = { allow = ["service.>"] }
allow_responses = { max = 2, expires = "600ms" }
[[users]]
user = "once"
password = "p"
publish = { deny = ["z"] }
subscribe = { allow = ["service.>"] }
allow_responses = true
[[users]]
user = "all"
password = "p"
publish = { allow = [">"] }
subscribe = { allow = [">"] }
[[users]]
nkey = "` + userName() + `"
publish = { allow = ["key"] }
subscribe = { allow = ["key"] }
[[users]]
user = "tcp"
password = "p"
allowed_connection_types = ["STANDARD"]
[[users]]
user = "web"
password = "p"
allowed_connection_types = ["websocket", "MQTT"]
[[users]]
user = "hash"
password = "$2a$04$abcdefghijklmnopqrstuudMegMbPN37MbpdEfAtP66w1z0RBCtLG"
`
}

func userScenes() []scene {
	return []scene{
		{"allowed and denied subjects", "users", false, lists},
		{"queues of users", "users", false, queues},
		{"allowed responses", "users", false, responses},
		{"nkeys and kinds of connection", "users", false, kinds},
	}
}

func lists(p *player) {
	plain, with, all := p.as("plain"), p.as("lists"), p.as("all")
	for _, subject := range []string{"any.x", "a.b", "a.c", "a", "a.b.c", "rep", "x", "$SYS.REQ.USER.INFO"} {
		p.say("default publishes "+subject, "%s", plain.sends(subject, ""))
		p.say("lists publish "+subject, "%s", with.sends(subject, ""))
	}
	subs := map[string]*nats.Subscription{}
	for _, subject := range []string{"a.x", "a.c.d", "a.c.>", "a.*.*", "a.>", "a.c", ">", "any.>", "*", "jobs.x"} {
		subs[subject] = with.sub(subject)
		p.say("lists subscribe "+subject, "%s", with.flushed())
		plain.sub(subject)
		p.say("default subscribes "+subject, "%s", plain.flushed())
	}
	for _, subject := range []string{"a.x", "a.c.d", "a.y.z", "a.c", "jobs.x"} {
		p.say("sent "+subject, "%s", all.sends(subject, "!"))
		for _, to := range []string{"a.x", "a.*.*", "a.>", "a.c"} {
			p.say(subject+" to "+to, "%s", with.heard(subs[to]))
		}
	}
	ok(with.PublishRequest("a.x", "b.reply", nil), "publish")
	p.say("any reply subject", "%s", with.flushed())
	for _, reply := range []string{"_R_.x", "$JS.ACK.x", "_GR_.x", "$GR.x"} {
		ok(all.PublishRequest("a.x", reply, nil), "publish")
		p.say("the reply subject "+reply, "%s", all.flushed())
	}
}

func queues(p *player) {
	with := p.as("lists")
	for _, entry := range []string{"jobs.x workers.1", "jobs.x workers", "jobs.x plain", "jobs.y plain", "jobs.y workers.2", "a.q none", "a.q some", "jobs.> workers.1", "a.x q"} {
		with.sub(entry)
		p.say("queue "+entry, "%s", with.flushed())
	}
	all := p.as("all")
	all.sub("x _sys_")
	p.say("queue of servers", "%s", all.flushed())
}

func responses(p *player) {
	for _, user := range []string{"replies", "once"} {
		all, service := p.as("all"), p.as(user)
		sub := service.sub("service." + user)
		p.say(user+" listens", "%s", service.flushed())
		p.say(user+" may publish", "%s; %s", service.sends("x", ""), service.sends("z", ""))
		heard := all.sub("answers." + user)
		ok(all.PublishRequest("service."+user, "answers."+user, nil), "publish")
		p.say(user+" is asked", "%s", all.flushed())
		ok(service.FlushTimeout(patience), "flush")
		reply := must(sub.NextMsg(patience)).Reply
		for i := range 3 {
			p.say(fmt.Sprintf("%s answers, %d", user, i), "%s", service.sends(reply, fmt.Sprint(i)))
		}
		p.say(user+" is heard", "%s", all.heard(heard))
		ok(all.PublishRequest("service."+user, "late."+user, nil), "publish")
		p.say(user+" is asked again", "%s", all.flushed())
		time.Sleep(900 * time.Millisecond)
		p.say(user+" is late", "%s", service.sends("late."+user, ""))
	}
}

func kinds(p *player) {
	sign := func(nonce []byte) ([]byte, error) { return userKey.Sign(nonce) }
	key := must(p.dial(nats.Nkey(userName(), sign)))
	p.say("its key", "%s; %s", key.sends("key", ""), key.sends("x", ""))
	p.login("a wrong signature", nats.Nkey(userName(), func([]byte) ([]byte, error) { return make([]byte, 64), nil }))
	p.login("a signature of something else", nats.Nkey(userName(), func([]byte) ([]byte, error) { return userKey.Sign([]byte("x")) }))
	p.login("nothing")
	p.login("hash", nats.UserInfo("hash", "p"))
	p.login("TCP only", nats.UserInfo("tcp", "p"))
	p.login("WebSocket only", nats.UserInfo("web", "p"))
	p.login("WebSocket only, a wrong password", nats.UserInfo("web", "x"))
}
