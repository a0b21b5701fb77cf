// nats.go against the NATS front, run by interop/run.sh. The same tests pass against nats-server.
//
//	interop-nats                          runs the tests
//	interop-nats publish SUBJECT COUNT    publishes as JetStream's clients do, prints each STREAM/SEQUENCE
package main

import (
	"fmt"
	"math/rand"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

const (
	wait    = 20 * time.Second
	testMax = 120 * time.Second // a test that hangs is a failed test
)

var (
	smoke  = os.Getenv("INTEROP_MODE") == "smoke"
	only   = regexp.MustCompile(os.Getenv("ONLY"))
	state  = os.Getenv("INTEROP_STATE")
	failed = 0
)

type failure struct{ error }

func fail(format string, a ...any) { panic(failure{fmt.Errorf(format, a...)}) }
func ok(err error, what string) {
	if err != nil {
		fail("%s: %v", what, err)
	}
}
func check(condition bool, format string, a ...any) {
	if !condition {
		fail(format, a...)
	}
}
func same[V comparable](got, want V, what string) {
	if got != want {
		fail("%s: got %v, want %v", what, got, want)
	}
}
func eventually(what string, probe func() bool) {
	for end := time.Now().Add(wait); !probe(); time.Sleep(5 * time.Millisecond) {
		check(time.Now().Before(end), "not within %s: %s", wait, what)
	}
}
func arrives[V any](from <-chan V, what string) V {
	select {
	case v := <-from:
		return v
	case <-time.After(wait):
		fail("not within %s: %s", wait, what)
		panic("unreachable")
	}
}

func run(inSmoke bool, name string, action func()) {
	if (smoke && !inSmoke) || !only.MatchString(name) {
		return
	}
	began, done := time.Now(), make(chan error, 1)
	go func() {
		defer func() {
			if e := recover(); e != nil {
				done <- fmt.Errorf("%v", e)
				return
			}
			done <- nil
		}()
		action()
	}()
	var err error
	select {
	case err = <-done:
	case <-time.After(testMax):
		err = fmt.Errorf("not done after %s", testMax)
	}
	if err != nil {
		failed++
		fmt.Printf("FAIL nats.go: %s: %v\n", name, err)
		return
	}
	fmt.Printf("PASS nats.go: %s (%.1f s)\n", name, time.Since(began).Seconds())
}

// said reads a file that server.sh wrote into a server's state folder.
func said(folder, name string) string {
	text, err := os.ReadFile(folder + "/" + name)
	ok(err, "state of the server")
	return strings.TrimSpace(string(text))
}

// server stops or starts a server under test.
func server(environment []string, verb, folder string, rest ...string) {
	command := exec.Command(os.Getenv("INTEROP_SERVER"), append([]string{verb, folder}, rest...)...)
	command.Env = append(os.Environ(), environment...)
	if out, err := command.CombinedOutput(); err != nil {
		fail("server %s: %v: %s", verb, err, out)
	}
}

// withFront runs another server with another front.
func withFront(kind string, action func(address, folder string)) {
	folder := state + "/go-" + kind
	server([]string{"NATS_FRONT=" + kind}, "start", folder, os.Getenv("INTEROP_TARGET"))
	defer server(nil, "stop", folder, "KILL")
	action(said(folder, "nats"), folder)
}

func connect(options ...nats.Option) *nats.Conn { return connectTo(said(state, "nats"), options...) }
func connectTo(address string, options ...nats.Option) *nats.Conn {
	nc, err := nats.Connect(address, append([]nats.Option{nats.Timeout(5 * time.Second), nats.SyncQueueLen(1 << 20)}, options...)...)
	ok(err, "connect")
	return nc
}

// refused checks that such a connection fails.
func refused(want error, what, address string, options ...nats.Option) {
	nc, err := nats.Connect(address, append([]nats.Option{nats.NoReconnect(), nats.Timeout(5 * time.Second)}, options...)...)
	if err == nil {
		nc.Close()
		fail("%s: the connection succeeded", what)
	}
	check(want == nil || strings.Contains(strings.ToLower(err.Error()), want.Error()), "%s: got %v, want %v", what, err, want)
}

func noise(size int) []byte {
	bytes := make([]byte, size)
	rand.New(rand.NewSource(int64(size))).Read(bytes)
	return bytes
}

// publish is for mixed.py.
func publish(subject, count string) {
	nc := connect()
	defer nc.Close()
	js, err := nc.JetStream()
	ok(err, "JetStream")
	times, err := strconv.Atoi(count)
	ok(err, "count")
	for range times {
		ack, err := js.Publish(subject, []byte("from Go"))
		ok(err, "publish")
		fmt.Printf("%s/%d\n", ack.Stream, ack.Sequence)
	}
}

func main() {
	if len(os.Args) == 4 && os.Args[1] == "publish" {
		publish(os.Args[2], os.Args[3])
		return
	}
	messageTests()
	jetstreamTests()
	serverTests()
	if failed > 0 {
		os.Exit(1)
	}
}
