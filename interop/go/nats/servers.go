package main

import (
	"crypto/tls"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
)

func serverTests() {
	run(true, "a restart of the server", func() { reconnect("TERM") })
	run(false, "a server that is killed", func() { reconnect("KILL") })
	run(true, "lame duck", lameDuck)
	run(true, "WebSocket", func() { webSocket(false) })
	run(false, "WebSocket with compression", func() { webSocket(true) })
	run(true, "user and password", userAndPassword)
	run(false, "token", token)
	run(true, "nkey", nkey)
	run(true, "credentials files", credentials)
	run(true, "TLS", tlsRequired)
	run(false, "TLS with a client's certificate", tlsVerified)
	run(false, "TLS before the INFO", tlsFirst)
}

func works(nc *nats.Conn) {
	defer nc.Close()
	sub := subscribe(nc, "go.works")
	payload := noise(100_000)
	ok(nc.Publish("go.works", payload), "publish")
	same(string(next(sub).Data), string(payload), "a message")
}

func reconnect(signal string) {
	back, gone := make(chan bool, 9), make(chan bool, 9)
	nc := connect(nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond),
		nats.ReconnectHandler(func(*nats.Conn) { back <- true }), nats.DisconnectErrHandler(func(*nats.Conn, error) { gone <- true }))
	defer nc.Close()
	sub := subscribe(nc, "go.again.*")
	ok(nc.Publish("go.again.before", nil), "publish")
	same(next(sub).Subject, "go.again.before", "before the restart")
	server(nil, "stop", state, signal)
	arrives(gone, "the client notices that the server is gone")
	ok(nc.Publish("go.again.meanwhile", nil), "publish without a server")
	server(nil, "again", state)
	arrives(back, "the client is back")
	same(next(sub).Subject, "go.again.meanwhile", "published without a server")
	ok(nc.Publish("go.again.after", nil), "publish")
	same(next(sub).Subject, "go.again.after", "after the restart")
}

func lameDuck() {
	withFront("plain", func(address, folder string) {
		warned := make(chan bool, 1)
		nc := connectTo(address, nats.LameDuckModeHandler(func(*nats.Conn) { warned <- true }))
		defer nc.Close()
		ok(nc.Flush(), "flush")
		pid, err := strconv.Atoi(said(folder, "pid"))
		ok(err, "process id")
		ok(syscall.Kill(pid, syscall.SIGUSR2), "signal")
		arrives(warned, "the server says that it goes away")
		sub := subscribe(nc, "go.duck")
		ok(nc.Publish("go.duck", nil), "publish")
		next(sub)
	})
}

func webSocket(compression bool) {
	works(connectTo("ws://"+said(state, "ws"), nats.Compression(compression)))
}

func userAndPassword() {
	withFront("user", func(address, _ string) {
		works(connectTo(address, nats.UserInfo("alice", "s3cret")))
		works(connectTo("nats://alice:s3cret@" + address))
		refused(nats.ErrAuthorization, "a wrong password", address, nats.UserInfo("alice", "wrong"))
		refused(nats.ErrAuthorization, "no password", address)
	})
}

func token() {
	withFront("token", func(address, _ string) {
		works(connectTo(address, nats.Token("open-sesame")))
		works(connectTo("nats://open-sesame@" + address))
		refused(nats.ErrAuthorization, "a wrong token", address, nats.Token("open-barley"))
	})
}

func nkey() {
	withFront("nkey", func(address, folder string) {
		key, err := nats.NkeyOptionFromSeed(folder + "/seed")
		ok(err, "seed")
		works(connectTo(address, key))
		wrong := nats.Nkey(said(folder, "nkey"), func([]byte) ([]byte, error) { return make([]byte, 64), nil })
		refused(nats.ErrAuthorization, "a wrong signature", address, wrong)
		refused(nats.ErrAuthorization, "no signature", address)
	})
}

func credentials() {
	withFront("creds", func(address, folder string) {
		file := func(name string) nats.Option { return nats.UserCredentials(folder + "/" + name + ".creds") }
		works(connectTo(address, file("good")))
		scoped := connectTo(address, file("scoped"))
		defer scoped.Close()
		sub := subscribe(scoped, "scoped.x")
		ok(scoped.Publish("scoped.x", nil), "publish")
		next(sub)
		ok(scoped.Publish("other.x", nil), "publish")
		ok(scoped.Flush(), "flush")
		check(scoped.LastError() != nil && strings.Contains(scoped.LastError().Error(), `Permissions Violation for Publish to "other.x"`), "outside the scope: %v", scoped.LastError())
		for _, name := range []string{"revoked", "expired", "stranger", "forged"} {
			refused(nats.ErrAuthorization, name, address, file(name))
		}
		refused(nats.ErrAuthorization, "no claims", address)
		refused(nats.ErrAuthorization, "a password", address, nats.UserInfo("alice", "s3cret"))
	})
}

func tlsRequired() {
	withFront("tls", func(address, folder string) {
		works(connectTo(address, nats.RootCAs(folder+"/ca.pem")))
		works(connectTo("tls://"+address, nats.RootCAs(folder+"/ca.pem")))
		refused(nil, "an authority that the client does not know", address)
		old := nats.Secure(&tls.Config{MinVersion: tls.VersionTLS12, MaxVersion: tls.VersionTLS12})
		works(connectTo(address, old, nats.RootCAs(folder+"/ca.pem")))
	})
}

func tlsVerified() {
	withFront("tls-verify", func(address, folder string) {
		works(connectTo(address, nats.RootCAs(folder+"/ca.pem"), nats.ClientCert(folder+"/client.pem", folder+"/client.key")))
		refused(nil, "no certificate", address, nats.RootCAs(folder+"/ca.pem"))
	})
}

func tlsFirst() {
	withFront("tls-first", func(address, folder string) {
		works(connectTo(address, nats.RootCAs(folder+"/ca.pem"), nats.TLSHandshakeFirst()))
		if os.Getenv("INTEROP_TARGET") == "nats" { // it sends nothing before the handshake, and the client waits for an INFO
			refused(nil, "INFO first", address, nats.RootCAs(folder+"/ca.pem"), nats.Timeout(time.Second))
		}
	})
}
