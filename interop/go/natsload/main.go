// Loads that the peers' programs do not have, for `cargo xtask bench nats`. Plain TCP with as little work per
// message as possible, so that the server is measured and not the client. `limit` shows the client's own
// limit.
//
//	natsload many  -addr HOST:PORT -subs 1000000 -n MSGS    one subject each, 1 % replaced each second
//	natsload limit -subs 1000000 -n MSGS                    the same against an idle server in this process
//	natsload ack   -addr HOST:PORT -subject S -rate R -conns C -size BYTES -dur D -warm W
//	                      open loop: from the intended time of a publish to its acknowledgement
//
// The last line is `blast key=value ...`. Exit status 3 if something was lost.
package main

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"net"
	"os"
	"strconv"
	"syscall"
	"time"
)

var (
	addr    = flag.String("addr", "127.0.0.1:4222", "host:port")
	n       = flag.Int("n", 1_000_000, "many: messages")
	size    = flag.Int("size", 16, "payload bytes")
	subs    = flag.Int("subs", 1_000_000, "many: subscriptions")
	conns   = flag.Int("conns", 10, "many: connections that share the subscriptions; ack: connections")
	churn   = flag.Float64("churn", 1, "many: per cent of the subscriptions that are replaced each second")
	pid     = flag.Int("pid", 0, "many: the server's process, whose CPU time is told from the first publish on")
	subject = flag.String("subject", "bench.ack", "ack: where to publish")
	rate    = flag.Int("rate", 3000, "ack: publishes per second, all connections together")
	dur     = flag.Duration("dur", 8*time.Second, "ack: measured time")
	warm    = flag.Duration("warm", time.Second, "ack: time before that")
)

// stall is how long to wait for the next message before the rest counts as lost.
const stall = 15 * time.Second

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "natsload:", err)
		os.Exit(1)
	}
}

// client is a connection that has sent its CONNECT.
type client struct {
	net.Conn
	in *bufio.Reader
}

func dial(to string) *client {
	c, err := net.DialTimeout("tcp", to, 10*time.Second)
	check(err)
	nc := &client{c, bufio.NewReaderSize(c, 256<<10)}
	_, err = nc.in.ReadSlice('\n') // INFO
	check(err)
	nc.send([]byte("CONNECT {\"verbose\":false,\"pedantic\":false,\"headers\":true,\"echo\":false}\r\n"))
	return nc
}

func (c *client) send(bytes []byte) {
	_, err := c.Write(bytes)
	check(err)
}

// settle waits until the server has processed everything that was sent.
func (c *client) settle() {
	c.send([]byte("PING\r\n"))
	for {
		line, err := c.in.ReadSlice('\n')
		check(err)
		switch {
		case bytes.HasPrefix(line, []byte("PONG")):
			return
		case bytes.HasPrefix(line, []byte("PING")):
			c.send([]byte("PONG\r\n"))
		case bytes.HasPrefix(line, []byte("-ERR")):
			check(fmt.Errorf("the server says %s", line))
		}
	}
}

// next reads up to and including the next message. subject and payload are valid until the next call.
func (c *client) next() (subject, payload []byte, err error) {
	for {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			return nil, nil, err
		}
		switch line[0] {
		case 'M', 'H':
			// MSG subject sid size, HMSG subject sid headers size
			words := line[:len(line)-2]
			at := bytes.LastIndexByte(words, ' ')
			length, _ := strconv.Atoi(string(words[at+1:]))
			from := bytes.IndexByte(words, ' ') + 1
			subject = append(make([]byte, 0, 64), words[from:from+bytes.IndexByte(words[from:], ' ')]...)
			body, err := c.in.Peek(length + 2)
			if err != nil {
				return nil, nil, err
			}
			_, err = c.in.Discard(length + 2)
			return subject, body[:length], err
		case 'P':
			if line[1] == 'I' {
				c.send([]byte("PONG\r\n"))
			}
		case '-':
			return nil, nil, fmt.Errorf("the server says %s", line)
		}
	}
}

func clientCPU() float64 {
	var u syscall.Rusage
	check(syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	seconds := func(t syscall.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }
	return seconds(u.Utime) + seconds(u.Stime)
}

// processCPU returns the CPU seconds of another process: fields 14 and 15 of its stat, in hundredths of a
// second.
func processCPU(pid int) float64 {
	if pid == 0 {
		return 0
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	check(err)
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	user, err := strconv.ParseFloat(string(fields[11]), 64)
	check(err)
	system, err := strconv.ParseFloat(string(fields[12]), 64)
	check(err)
	return (user + system) / 100
}

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: natsload many|limit|ack [flags]; see -h after the mode")
		os.Exit(1)
	}
	check(flag.CommandLine.Parse(os.Args[2:]))
	good := false
	switch os.Args[1] {
	case "many":
		good = many(*addr)
	case "limit":
		good = many(nullServer())
	case "ack":
		good = acks()
	default:
		check(fmt.Errorf("unknown mode %s", os.Args[1]))
	}
	if !good {
		os.Exit(3)
	}
}
