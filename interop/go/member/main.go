// One member of a group in a process of its own, so that it can be killed: member CLIENT key=value...
//
// Its options and its output are the same for every client in every language: see python/groups.py, which
// starts it.
package main

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

var (
	options = map[string]string{}
	stopped atomic.Bool
	stop    = make(chan struct{})
)

// say prints a line with one write, because threads of a client call back at any time.
func say(words ...any) {
	line := fmt.Sprintf("%.6f", float64(time.Now().UnixMicro())/1e6)
	for _, w := range words {
		line += fmt.Sprintf(" %v", w)
	}
	os.Stdout.WriteString(line + "\n")
}

func check(err error, doing string) {
	if err != nil {
		say("error", doing, err)
		os.Exit(3)
	}
}

// session is how long a classic group waits for a silent member.
func session() time.Duration {
	if ms, err := strconv.Atoi(options["session"]); err == nil {
		return time.Duration(ms) * time.Millisecond
	}
	return 6 * time.Second
}

func partitions(event string, found []int32) {
	words := []any{event}
	for _, p := range found {
		words = append(words, p)
	}
	say(words...)
}

func main() {
	for _, word := range os.Args[2:] {
		name, value, _ := strings.Cut(word, "=")
		options[name] = value
	}
	go func() {
		io.Copy(io.Discard, os.Stdin)
		stopped.Store(true)
		close(stop)
	}()
	switch os.Args[1] + " " + options["role"] {
	case "franz-go consume":
		franzConsume()
	case "franz-go copy":
		franzCopy()
	case "franz-go fence":
		franzFence()
	case "franz-go share":
		franzShare()
	case "sarama consume":
		saramaConsume()
	default:
		say("error no such client or role")
		os.Exit(2)
	}
	say("left")
}
