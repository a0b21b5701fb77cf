package main

import (
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
)

func systemScenes() []scene {
	return []scene{
		{"events of the system account", "accounts", false, events},
		{"requests of the system account", "accounts", false, requests},
		{"requests of other accounts", "accounts", false, ownRequests},
		{"clients are kicked and sent away", "accounts", false, kicks},
		{"what is told regularly and at the end", "ending", false, ending},
	}
}

// next waits for a message of a subscription that a test accepts.
func next(sub *nats.Subscription, what string, is func(*nats.Msg) bool) *nats.Msg {
	for end := time.Now().Add(patience); ; {
		m, err := sub.NextMsg(time.Until(end))
		if err != nil {
			fail("%s: %v", what, err)
		}
		if is(m) {
			return m
		}
	}
}

func about(name string) func(*nats.Msg) bool {
	return func(m *nats.Msg) bool { return field(string(m.Data), "client", "name") == name }
}

// What is about the machine, JetStream and the language of the server, in every answer.
// An error has no data, and a round trip is there once it was measured.
const ofServer = `^\.server\.(cluster|domain|metadata|tags|feature_flags)|^\.data:null|\.rtt:`

func events(p *player) {
	sys := p.as("sys")
	connects, disconnects, refused := sys.sub("$SYS.ACCOUNT.*.CONNECT"), sys.sub("$SYS.ACCOUNT.*.DISCONNECT"), sys.sub("$SYS.SERVER.*.CLIENT.AUTH.ERR")
	everywhere := sys.sub("$SYS.ACCOUNT.CLIENT.AUTH.ERR")
	counts := sys.sub("$SYS.ACCOUNT.IMP.SERVER.CONNS")
	countsToo := sys.sub("$SYS.SERVER.ACCOUNT.IMP.CONNS")
	p.say("subscribed", "%s", sys.flushed())
	imp := p.as("imp", nats.Name("events"))
	m := next(connects, "CONNECT", about("events"))
	p.say("CONNECT", "%s %s", m.Subject, without(shape(m.Data), ofServer))
	for _, names := range []string{"type", "client.acc", "client.user", "client.kind", "client.client_type", "client.lang", "client.host", "server.id", "server.name", "server.jetstream"} {
		p.say("CONNECT "+names, "%v", field(string(m.Data), strings.Split(names, ".")...))
	}
	m = must(counts.NextMsg(patience))
	p.say("CONNS", "%s %s", m.Subject, without(shape(m.Data), ofServer))
	p.say("CONNS says", "%v %v %v", field(string(m.Data), "acc"), field(string(m.Data), "type"), field(string(m.Data), "conns"))
	m = must(countsToo.NextMsg(patience))
	p.say("the older CONNS", "%s %s", m.Subject, without(shape(m.Data), ofServer))
	p.say("sends", "%s", imp.sends("x", "abc"))
	imp.Close()
	m = next(disconnects, "DISCONNECT", about("events"))
	p.say("DISCONNECT", "%s %s", m.Subject, without(shape(m.Data), ofServer))
	for _, names := range []string{"type", "reason", "client.acc", "client.user", "received.msgs", "received.bytes", "sent.msgs"} {
		p.say("DISCONNECT "+names, "%v", field(string(m.Data), strings.Split(names, ".")...))
	}
	m = must(counts.NextMsg(patience))
	p.say("CONNS after it", "%v", field(string(m.Data), "conns"))
	p.login("a wrong password", nats.UserInfo("imp", "wrong"), nats.Name("thief"))
	m = next(refused, "AUTH.ERR", about("thief"))
	p.say("AUTH.ERR", "%s %s", m.Subject, without(shape(m.Data), ofServer))
	for _, names := range []string{"type", "reason", "client.acc", "client.user"} {
		p.say("AUTH.ERR "+names, "%v", field(string(m.Data), strings.Split(names, ".")...))
	}
	_ = everywhere
	// Others hear nothing of it, and cannot say it.
	other := p.as("other")
	silent := other.sub("$SYS.>")
	p.say("another account listens", "%s", other.flushed())
	quiet := p.as("exp")
	p.say("one more", "%s", quiet.flushed())
	time.Sleep(silence)
	p.say("it hears", "%s", other.heard(silent))
	p.say("it says an event", "%s", other.sends("$SYS.ACCOUNT.OTHER.CONNECT", "{}"))
}

// asked makes a request and describes the answer.
func (c *client) asked(p *player, label, subject, body, hidden string) string {
	answer := c.asksOnce(subject, body)
	p.say(label, "%s", without(shape([]byte(answer)), ofServer+"|"+hidden))
	return answer
}

func requests(p *player) {
	sys, imp := p.as("sys", nats.Name("asker")), p.as("imp", nats.Name("asked"))
	imp.sub("listening.here")
	imp.sub("listening.queue workers")
	ok(imp.FlushTimeout(patience), "flush")
	id := p.server.id
	const never = "^$"
	sys.asked(p, "PING", "$SYS.REQ.SERVER.PING", "", statsOther)
	sys.asked(p, "PING.STATSZ", "$SYS.REQ.SERVER.PING.STATSZ", "", statsOther)
	sys.asked(p, "id.STATSZ", "$SYS.REQ.SERVER."+id+".STATSZ", "", statsOther)
	for _, target := range []string{"PING", id} {
		for _, page := range []string{"IDZ", "SUBSZ", "CONNZ", "ROUTEZ", "GATEWAYZ", "LEAFZ", "ACCOUNTZ", "HEALTHZ", "IPQUEUESZ", "NONSENSE"} {
			label := "id." + page
			if target == "PING" {
				label = "PING." + page
			}
			sys.asked(p, label, "$SYS.REQ.SERVER."+target+"."+page, "", never)
		}
	}
	sys.asked(p, "VARZ", "$SYS.REQ.SERVER.PING.VARZ", "", `^\.data\.`)
	sys.asked(p, "JSZ", "$SYS.REQ.SERVER.PING.JSZ", "", never)
	sys.asked(p, "of no server", "$SYS.REQ.SERVER.NOBODY.VARZ", "", never)
	sys.asked(p, "without sense", "$SYS.REQ.SERVER.PING.CONNZ", "[1", `\.description`)
	sys.asked(p, "about a client", "$SYS.REQ.SERVER.PING.CONNZ", fmt.Sprintf(`{"cid":%d,"subscriptions":true,"auth":true}`, clientID(imp)), never)
	sys.asked(p, "by user", "$SYS.REQ.SERVER.PING.CONNZ", `{"user":"imp","auth":true,"limit":1}`, never)
	sys.asked(p, "another server's name", "$SYS.REQ.SERVER.PING.VARZ", `{"server_name":"elsewhere"}`, never)
	sys.asked(p, "this server's name", "$SYS.REQ.SERVER.PING.IDZ", fmt.Sprintf(`{"server_name":%q}`, p.server.name), never)
	for _, account := range []string{"IMP", "EXP", "SYS", "NONE"} {
		for _, what := range []string{"CONNZ", "SUBSZ", "INFO", "STATZ", "CONNS", "LEAFZ", "JSZ"} {
			hidden := ownImports
			if account == "EXP" && what == "SUBSZ" {
				hidden += "|" + ownReplies
			}
			sys.asked(p, account+"."+what, "$SYS.REQ.ACCOUNT."+account+"."+what, "", hidden)
		}
	}
	p.say("JSZ says", "%v", field(sys.asks("$SYS.REQ.ACCOUNT.IMP.JSZ", ""), "error"))
	p.say("HEALTHZ says", "%v", field(sys.asks("$SYS.REQ.SERVER.PING.HEALTHZ", ""), "data"))
	info := sys.asks("$SYS.REQ.ACCOUNT.IMP.INFO", "")
	for _, one := range []string{"account_name", "expired", "complete", "jetstream_enabled", "is_system", "client_connections"} {
		p.say("INFO says "+one, "%v", field(info, "data", one))
	}
	p.say("imports", "%v", sortedList(field(info, "data", "imports")))
	exports := sortedList(field(sys.asks("$SYS.REQ.ACCOUNT.EXP.INFO", ""), "data", "exports"))
	plain := strings.Split(strings.ReplaceAll(exports, positioned, ""), between)
	sortTexts(plain)
	p.say("exports", "%s", strings.Join(plain, between))
	p.say("exports say which word is the account", "%v", strings.Contains(exports, positioned))
	p.say("SYS has exports", "%v", field(sys.asks("$SYS.REQ.ACCOUNT.SYS.INFO", ""), "data", "exports") != nil)
	p.say("is system", "%v", field(sys.asks("$SYS.REQ.ACCOUNT.SYS.INFO", ""), "data", "is_system"))
	for _, body := range []string{`{"acc":"IMP","subject":"listening.here"}`, `{"acc":"IMP","subject":"listening.*"}`, `{"acc":"IMP","subject":"listening.queue","queue":"d29ya2Vycw=="}`,
		`{"acc":"IMP","subject":"nothing"}`, `{"acc":"NONE","subject":"listening.here"}`, ""} {
		p.say("number of subscribers "+body, "%s", sys.asksOnce("$SYS.REQ.ACCOUNT.NSUBS", body))
	}
	sys.asked(p, "who am I", "$SYS.REQ.USER.INFO", "", never)
	p.say("a request without reply subject", "%s", sys.sends("$SYS.REQ.SERVER.PING", ""))
}

// Every account of nats-server imports the services of the system account, which exports them (see the row
// of its own), and tells the word of the importer (the same) in no answer.
const ownImports = `^\.data\.imports|^\.data\.exports\[\]\.(account_token_position:|(response_type|subject|type):)`

// nats-server subscribes for the answers of services. In tailrace they need no subscription.
const ownReplies = `^\.data\.subscriptions_list`

const positioned = "account_token_position:2 "

const statsOther = `\.(mem|cores|cpu|routes|gateways|active_servers|gomemlimit|gomaxprocs|jetstream)`

func clientID(c *client) uint64 { return must(c.GetClientID()) }

func ownRequests(p *player) {
	imp := p.as("imp", nats.Name("asker"))
	const never = "^$"
	info := imp.asked(p, "who am I", "$SYS.REQ.USER.INFO", "", never)
	p.say("that is", "%v %v", field(info, "data", "user"), field(info, "data", "account"))
	few := p.as("def")
	_ = few
	imp.asked(p, "connections", "$SYS.REQ.SERVER.PING.CONNZ", "", never)
	imp.asked(p, "connections of the account", "$SYS.REQ.ACCOUNT.PING.CONNZ", "", never)
	imp.asked(p, "statistics", "$SYS.REQ.ACCOUNT.PING.STATZ", "", never)
	about := imp.asks("$SYS.REQ.ACCOUNT.PING.STATZ", `{"accounts":["EXP"]}`)
	p.say("statistics are of the own account", "%v", strings.Contains(about, `"EXP"`))
	about = imp.asks("$SYS.REQ.SERVER.PING.CONNZ", `{"acc":"EXP","auth":true}`)
	p.say("connections are of the own account", "%v", strings.Contains(about, `"EXP"`))
	for _, subject := range []string{"$SYS.REQ.SERVER.PING", "$SYS.REQ.SERVER.PING.VARZ", "$SYS.REQ.SERVER." + p.server.id + ".KICK", "$SYS.REQ.ACCOUNT.EXP.CONNZ", "$SYS.REQ.ACCOUNT.EXP.INFO", "$SYS.REQ.CLAIMS.LIST", "$SYS.DEBUG.SUBSCRIBERS"} {
		p.say("not its own: "+subject, "%s", imp.asksOnce(subject, `{"cid":1}`))
	}
}

func kicks(p *player) {
	sys, kicked, stays := p.as("sys"), p.as("imp", nats.Name("kicked")), p.as("exp")
	gone := sys.sub("$SYS.ACCOUNT.IMP.DISCONNECT")
	p.say("subscribed", "%s", sys.flushed())
	kick, ldm := "$SYS.REQ.SERVER."+p.server.id+".KICK", "$SYS.REQ.SERVER."+p.server.id+".LDM"
	ask := func(label, subject, body string) {
		answer := sys.asksOnce(subject, body)
		p.say(label, "%s %v", without(shape([]byte(answer)), ofServer), field(answer, "error"))
	}
	ask("of nobody", kick, `{"cid":999999}`)
	ask("of no number", kick, `{"cid":"x"}`)
	ask("of nothing", kick, "")
	ask("of an empty object", kick, "{}")
	ask("of all servers", "$SYS.REQ.SERVER.PING.KICK", fmt.Sprintf(`{"cid":%d}`, clientID(kicked)))
	p.say("it is still there", "%s", kicked.flushed())
	ask("of one", kick, fmt.Sprintf(`{"cid":%d}`, clientID(kicked)))
	p.say("it ends", "%s", kicked.ends())
	p.say("the reason in the event", "%v", field(string(next(gone, "DISCONNECT", about("kicked")).Data), "reason"))
	warned := make(chan bool, 9)
	old := p.as("imp", nats.LameDuckModeHandler(func(*nats.Conn) { warned <- true }))
	ok(old.FlushTimeout(patience), "flush")
	ask("LDM of nobody", ldm, `{"cid":999999}`)
	ask("LDM of one", ldm, fmt.Sprintf(`{"cid":%d}`, clientID(old)))
	select {
	case <-warned:
		p.say("it is warned", "yes")
	case <-time.After(patience):
		p.say("it is warned", "no")
	}
	p.say("it may stay", "%s", old.flushed())
	p.say("the others stay", "%s", stays.flushed())
	imp := p.as("imp")
	p.say("another account may not", "%s", imp.asksOnce(kick, fmt.Sprintf(`{"cid":%d}`, clientID(stays))))
	p.say("and the other stays", "%s", stays.flushed())
}

// ending is the last scene with its servers: they are told to retire. nats-server may close the connection
// before its SHUTDOWN is heard, so that is left to the tests of the server.
func ending(p *player) {
	sys := p.as("sys")
	id := p.server.id
	numbers, lame := sys.sub("$SYS.SERVER."+id+".STATSZ"), sys.sub("$SYS.SERVER."+id+".LAMEDUCK")
	p.say("subscribed", "%s", sys.flushed())
	// Without a request, and with one that has no reply subject.
	m := must(numbers.NextMsg(patience))
	p.say("numbers", "%s %s", m.Subject, without(shape(m.Data), ofServer+"|"+statsOther))
	ok(sys.Publish("$SYS.REQ.SERVER.PING.STATSZ", nil), "publish")
	m = must(numbers.NextMsg(patience))
	p.say("numbers on request", "%s", without(shape(m.Data), ofServer+"|"+statsOther))
	ok(p.server.process[0].Process.Signal(syscall.SIGUSR2), "signal")
	m = must(lame.NextMsg(patience))
	p.say("LAMEDUCK", "%s %s", m.Subject, without(shape(m.Data), ofServerAlone))
	p.say("of", "%v", field(string(m.Data), "id"))
}

const ofServerAlone = `^\.(cluster|domain|metadata|tags|feature_flags)`

func sortedList(value any) string {
	list, _ := value.([]any)
	var out []string
	for _, one := range list {
		if text := fmt.Sprint(one); !strings.Contains(text, "$SYS.REQ.") {
			out = append(out, text)
		}
	}
	sortTexts(out)
	return strings.Join(out, between)
}

const between = "\n    "
