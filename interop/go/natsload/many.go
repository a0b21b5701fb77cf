package main

import (
	"bufio"
	"bytes"
	"fmt"
	"math/rand"
	"net"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// meter counts the messages of one connection.
type meter struct {
	count, first, last atomic.Int64
	_                  [64]byte
}

// appendSubject appends subscription i's own subject, of four words.
func appendSubject(out []byte, i int) []byte {
	out = strconv.AppendInt(append(out, "many."...), int64(i/10_000), 10)
	out = strconv.AppendInt(append(out, '.'), int64(i/100%100), 10)
	return strconv.AppendInt(append(out, '.'), int64(i), 10)
}

// many publishes n messages to random subjects of all. Each has exactly one subscriber, except for the
// moments of a replacement, when the new subscription comes before the old one goes.
func many(to string) bool {
	meters, clients := make([]meter, *conns), make([]*client, *conns)
	var ready sync.WaitGroup
	for c := range clients {
		ready.Add(1)
		go func() {
			defer ready.Done()
			clients[c] = dial(to)
			out := bufio.NewWriterSize(clients[c], 256<<10)
			for i := c; i < *subs; i += *conns {
				line := append(appendSubject([]byte("SUB "), i), ' ')
				_, _ = out.Write(append(strconv.AppendInt(line, int64(i), 10), "\r\n"...))
			}
			check(out.Flush())
			clients[c].settle()
		}()
	}
	began := time.Now()
	ready.Wait()
	subscribed := time.Since(began)
	stop := make(chan struct{})
	var replaced atomic.Int64
	for c := range clients {
		go receive(clients[c], &meters[c])
		go replace(clients[c], c, stop, &replaced)
	}
	cpu, server, began := clientCPU(), processCPU(*pid), time.Now()
	publishMany(to)
	sent := time.Since(began)
	got, first, last := await(meters, int64(*n))
	server = processCPU(*pid) - server
	close(stop)
	seconds := float64(max(last-first, 1)) / 1e9
	fmt.Printf("blast sent=%d sent_per_s=%.0f received=%d received_per_s=%.0f wall_s=%.3f client_cpu_s=%.2f subscribe_s=%.2f replaced=%d",
		*n, float64(*n)/sent.Seconds(), got, float64(got)/seconds, seconds, clientCPU()-cpu, subscribed.Seconds(), replaced.Load())
	if *pid != 0 {
		fmt.Printf(" server_cpu_s=%.2f", server)
	}
	fmt.Println()
	if !enough(got) {
		fmt.Fprintf(os.Stderr, "natsload: received %d of %d messages\n", got, *n)
	}
	return enough(got)
}

// enough allows for losses: a message that was being matched while its subscription was replaced may find
// neither (seen with nats-server).
func enough(got int64) bool { return got >= int64(*n)-int64(*n)/1000 }

func receive(c *client, m *meter) {
	for {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			return
		}
		if line[0] != 'M' {
			if line[0] == '-' {
				check(fmt.Errorf("the server says %s", line))
			}
			continue
		}
		if _, err = c.in.Discard(*size + 2); err != nil {
			return
		}
		count := m.count.Add(1)
		if count == 1 {
			m.first.Store(time.Now().UnixNano())
		}
		if count&63 == 0 || c.in.Buffered() == 0 { // the clock is expensive next to a 16-byte message
			m.last.Store(time.Now().UnixNano())
		}
	}
}

// replace gives its share of the subscriptions a new id, a few at a time.
func replace(c *client, number int, stop <-chan struct{}, replaced *atomic.Int64) {
	const perSecond = 50
	share := float64(*subs / *conns) * *churn / 100 / perSecond
	rng, next, due := rand.New(rand.NewSource(int64(number))), int64(*subs), 0.0
	ids := map[int]int64{}
	tick := time.NewTicker(time.Second / perSecond)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		var out []byte
		for due += share; due >= 1; due-- {
			i := rng.Intn(*subs / *conns)**conns + number
			old, known := ids[i]
			if !known {
				old = int64(i)
			}
			next++
			ids[i] = next
			out = append(appendSubject(append(out, "SUB "...), i), ' ')
			out = append(strconv.AppendInt(out, next, 10), "\r\nUNSUB "...)
			out = append(strconv.AppendInt(out, old, 10), "\r\n"...)
			replaced.Add(1)
		}
		if _, err := c.Write(out); err != nil {
			return
		}
	}
}

func publishMany(to string) {
	c := dial(to)
	defer c.Close()
	out, rng, payload := bufio.NewWriterSize(c, 64<<10), rand.New(rand.NewSource(1)), bytes.Repeat([]byte("x"), *size)
	tail := fmt.Appendf(nil, " %d\r\n%s\r\n", *size, payload)
	line := make([]byte, 0, 128)
	for range *n {
		line = append(appendSubject(append(line[:0], "PUB "...), rng.Intn(*subs)), tail...)
		_, err := out.Write(line)
		check(err)
	}
	check(out.Flush())
	c.settle()
}

// await waits for want messages, or until none came for a while.
func await(meters []meter, want int64) (got, first, last int64) {
	for quiet := time.Now(); ; time.Sleep(time.Millisecond) {
		sum := int64(0)
		for i := range meters {
			sum += meters[i].count.Load()
		}
		if sum != got {
			quiet, got = time.Now(), sum
		}
		if got >= want || time.Since(quiet) > stall || (enough(got) && time.Since(quiet) > time.Second) {
			break
		}
	}
	first = 1 << 62
	for i := range meters {
		if f := meters[i].first.Load(); f > 0 {
			first = min(first, f)
		}
		last = max(last, meters[i].last.Load())
	}
	return got, first, last
}

// nullServer discards what is published, and sends every subscriber its share of messages, made beforehand.
func nullServer() string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	begun, once := make(chan struct{}), sync.Once{}
	begin := func() { once.Do(func() { close(begun) }) }
	go func() {
		for {
			c, err := listener.Accept()
			check(err)
			go pretend(c, begun, begin)
		}
	}()
	return listener.Addr().String()
}

func pretend(c net.Conn, begun <-chan struct{}, begin func()) {
	_, _ = c.Write([]byte("INFO {}\r\n"))
	in, subscribes := bufio.NewReaderSize(c, 256<<10), false
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return
		}
		switch {
		case line[0] == 'S':
			subscribes = true
		case line[0] == 'P' && line[1] == 'U':
			begin()
			_, _ = in.Discard(*size + 2)
		case line[0] == 'P' && line[1] == 'I':
			_, _ = c.Write([]byte("PONG\r\n"))
			if subscribes {
				go feed(c, begun)
			}
		}
	}
}

func feed(c net.Conn, begun <-chan struct{}) {
	<-begun
	const chunk = 1000
	message := fmt.Appendf(nil, "MSG many.50.50.505050 505050 %d\r\n%s\r\n", *size, bytes.Repeat([]byte("x"), *size))
	all := bytes.Repeat(message, chunk)
	for left := *n / *conns + 1; left > 0; left -= chunk {
		if _, err := c.Write(all[:min(left, chunk)*len(message)]); err != nil {
			return
		}
	}
}
