package main

import (
	"bufio"
	"net"
	"sync"
	"time"
)

// speech is one way to ask the server something and to recognise the answer.
type speech interface {
	// greet makes a fresh connection ready for requests.
	greet(conn net.Conn, in *bufio.Reader) error
	// request returns what the number-th probe sends.
	request(number int) []byte
	// answer reads one answer. It handles whatever else comes.
	answer(conn net.Conn, in *bufio.Reader) error
}

// due is a probe that waits for its answer.
type due struct {
	number int
	at     time.Time
}

// prober sends one kind of probe. After a lost connection it connects again, and repeats the probes without
// an answer: they go on waiting.
type prober struct {
	name    string
	address string
	speech  speech

	mu      sync.Mutex
	waiting []due
	next    time.Time // when the next probe is due
	longest time.Duration
	count   int
	lost    int
}

func newProber(name, address string, speech speech) *prober {
	return &prober{name: name, address: address, speech: speech}
}

func (p *prober) run(start time.Time) {
	p.mu.Lock()
	p.next = start
	p.mu.Unlock()
	number := 0
	for {
		conn, err := net.DialTimeout("tcp", p.address, time.Second)
		if err != nil {
			time.Sleep(20 * time.Millisecond)
			continue
		}
		in := bufio.NewReaderSize(conn, 64<<10)
		if err := p.speech.greet(conn, in); err != nil {
			conn.Close()
			time.Sleep(20 * time.Millisecond)
			continue
		}
		number = p.talk(conn, in, number)
		conn.Close()
		p.mu.Lock()
		p.lost++
		p.mu.Unlock()
	}
}

// talk sends and listens until the connection is lost. It returns the number of the next probe.
func (p *prober) talk(conn net.Conn, in *bufio.Reader, number int) int {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for p.speech.answer(conn, in) == nil {
			p.answered()
		}
		conn.Close()
	}()
	for _, one := range p.unanswered() {
		if _, err := conn.Write(p.speech.request(one.number)); err != nil {
			break
		}
	}
	for {
		p.mu.Lock()
		at := p.next
		p.mu.Unlock()
		if wait := time.Until(at); wait > 0 {
			select {
			case <-ended:
				return number
			case <-time.After(wait):
			}
		}
		request := p.speech.request(number)
		p.mu.Lock()
		p.waiting = append(p.waiting, due{number, at})
		p.next = at.Add(interval)
		p.mu.Unlock()
		number++
		if _, err := conn.Write(request); err != nil {
			<-ended
			return number
		}
	}
}

func (p *prober) answered() {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.waiting) == 0 {
		return
	}
	first := p.waiting[0]
	p.waiting = p.waiting[1:]
	p.count++
	p.longest = max(p.longest, now.Sub(first.at))
}

func (p *prober) unanswered() []due {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]due(nil), p.waiting...)
}

func (p *prober) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.longest, p.count, p.lost = 0, 0, 0
}

// oldest returns when the first unanswered probe was due: perhaps one that could not even be sent.
func (p *prober) oldest() time.Time {
	if len(p.waiting) > 0 {
		return p.waiting[0].at
	}
	return p.next
}

// settled waits until everything due by `at` is answered, the deadline has passed, or the server is gone.
func (p *prober) settled(at, deadline time.Time, gone func() bool) {
	for time.Now().Before(deadline) && !gone() {
		p.mu.Lock()
		done := p.oldest().After(at)
		p.mu.Unlock()
		if done {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// window returns the longest wait, including unanswered probes, the number of answers, and the number of lost
// connections.
func (p *prober) window() (time.Duration, int, int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(p.longest, time.Since(p.oldest())), p.count, p.lost
}
