// The franz-go suite (kgo and kadm), run by interop/run.sh with the environment that server.sh needs.
//
//	interop                          runs the tests
//	interop read TOPIC COUNT [RACK]  writes the values of partition 0 to stdout, one per line; read near RACK
package main

import (
	"context"
	"fmt"
	"math/rand"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

var (
	bootstrap = os.Getenv("BOOTSTRAP")
	smoke     = os.Getenv("INTEROP_MODE") == "smoke"
	only      = regexp.MustCompile(os.Getenv("ONLY"))
	failed    = 0
	// For topics that tests make. There are as many nodes.
	replicas = factor(os.Getenv("INTEROP_REPLICAS"))
)

func factor(text string) int16 {
	if n, err := strconv.ParseInt(text, 10, 16); err == nil {
		return int16(n)
	}
	return 1
}

// A test that hangs is a failed test.
const testMax = 120 * time.Second

// T is one test. Its context ends with it.
type T struct {
	context.Context
	name string
}

type failure struct{ error }

func (t *T) fail(format string, a ...any) { panic(failure{fmt.Errorf(format, a...)}) }
func (t *T) ok(err error, what string) {
	if err != nil {
		t.fail("%s: %v", what, err)
	}
}
func (t *T) check(condition bool, format string, a ...any) {
	if !condition {
		t.fail(format, a...)
	}
}
func same[V comparable](t *T, got, want V, what string) {
	if got != want {
		t.fail("%s: got %v, want %v", what, got, want)
	}
}

func run(inSmoke bool, name string, action func(*T)) {
	if (smoke && !inSmoke) || !only.MatchString(name) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), testMax)
	defer cancel()
	began, done := time.Now(), make(chan error, 1)
	go func() {
		defer func() {
			if e := recover(); e != nil {
				done <- fmt.Errorf("%v", e)
				return
			}
			done <- nil
		}()
		action(&T{ctx, name})
	}()
	var err error
	select {
	case err = <-done:
	case <-time.After(testMax + time.Second):
		err = fmt.Errorf("not done after %s", testMax)
	}
	if err != nil {
		failed++
		fmt.Printf("FAIL franz-go: %s: %v\n", name, err)
		return
	}
	fmt.Printf("PASS franz-go: %s (%.1f s)\n", name, time.Since(began).Seconds())
}

// server stops or starts the server under test.
func (t *T) server(verb string, rest ...string) {
	out, err := exec.Command(os.Getenv("INTEROP_SERVER"), append([]string{verb, os.Getenv("INTEROP_STATE")}, rest...)...).CombinedOutput()
	if err != nil {
		t.fail("server %s: %v: %s", verb, err, out)
	}
}

// eventually waits until probe holds. Metadata may lag behind an admin call.
func (t *T) eventually(what string, probe func() bool) {
	for end := time.Now().Add(20 * time.Second); !probe(); time.Sleep(100 * time.Millisecond) {
		t.check(time.Now().Before(end), "not within 20 s: %s", what)
	}
}

func topicName(purpose string) string { return fmt.Sprintf("franz-%s-%08x", purpose, rand.Uint32()) }

// payload returns bytes that compress somewhat: half words, half noise.
func payload(seed int64, size int) []byte {
	rng, out := rand.New(rand.NewSource(seed)), make([]byte, 0, size+64)
	for len(out) < size {
		noise := make([]byte, rng.Intn(40))
		rng.Read(noise)
		out = append(append(out, "stream flume weir sluice river "...), noise...)
	}
	return out[:size]
}

func main() {
	if (len(os.Args) == 4 || len(os.Args) == 5) && os.Args[1] == "read" {
		var near []kgo.Opt
		if len(os.Args) == 5 {
			near = append(near, kgo.Rack(os.Args[4]))
		}
		count, err := strconv.Atoi(os.Args[3])
		if err == nil {
			err = readLines(os.Args[2], count, near...)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "read:", err)
			os.Exit(1)
		}
		return
	}
	recordTests()
	offsetTests()
	adminTests()
	if failed > 0 {
		os.Exit(1)
	}
}
