package main

import (
	"encoding/binary"
	"math/rand"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
)

const (
	// Connections that share the subscriptions.
	churners = 20
	// How long a subscription lives, on average.
	life = 2 * time.Second
)

// churn is a set of subscriptions. Each is replaced by another when its time has come.
type churn struct {
	group                     sync.WaitGroup
	made, received, wrong, up atomic.Int64
}

func startChurn(subjects []string, stop <-chan struct{}) *churn {
	c := &churn{}
	for i := range churners {
		nc, err := nats.Connect(*natsAddr, nats.Timeout(10*time.Second), nats.NoReconnect(), nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			verdict(false, "a subscriber: %v", err)
		}))
		must(err, "connect a subscriber")
		c.group.Add(1)
		go func() {
			defer c.group.Done()
			defer nc.Close()
			c.run(nc, rand.New(rand.NewSource(int64(i))), subjects, *subscriptions/churners, stop)
		}()
	}
	for c.up.Load() < int64(*subscriptions/churners*churners) {
		time.Sleep(time.Millisecond)
	}
	return c
}

func (c *churn) run(nc *nats.Conn, rng *rand.Rand, subjects []string, count int, stop <-chan struct{}) {
	subs := make([]*nats.Subscription, count)
	for i := range subs {
		subs[i] = c.subscribe(nc, rng, subjects)
	}
	must(nc.Flush(), "flush")
	c.up.Add(int64(count))
	tick := time.NewTicker(life / time.Duration(count))
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
			i := rng.Intn(count)
			must(subs[i].Unsubscribe(), "unsubscribe")
			subs[i] = c.subscribe(nc, rng, subjects)
		}
	}
}

// subscribe takes the pattern from a subject: one word after the crate becomes a star, or the last ones
// become >.
func (c *churn) subscribe(nc *nats.Conn, rng *rand.Rand, subjects []string) *nats.Subscription {
	words := strings.Split(subjects[rng.Intn(len(subjects))], ".")
	if len(words) > 4 && rng.Intn(2) == 0 {
		words = append(words[:3+rng.Intn(len(words)-4)], ">")
	} else {
		words[2+rng.Intn(len(words)-2)] = "*"
	}
	pattern := append([]string(nil), words...)
	last := map[string]uint64{}
	sub, err := nc.Subscribe(strings.Join(pattern, "."), func(m *nats.Msg) {
		c.received.Add(1)
		n := binary.BigEndian.Uint64(m.Data)
		before, known := last[m.Subject]
		if (known && n != before+1) || (!known && !matches(pattern, strings.Split(m.Subject, "."))) {
			c.wrong.Add(1)
		}
		last[m.Subject] = n
	})
	must(err, "subscribe")
	must(sub.SetPendingLimits(-1, -1), "limits")
	c.made.Add(1)
	return sub
}

func matches(pattern, subject []string) bool {
	for i, word := range pattern {
		if word == ">" {
			return len(subject) > i
		}
		if i >= len(subject) || (word != "*" && word != subject[i]) {
			return false
		}
	}
	return len(pattern) == len(subject)
}

func (c *churn) wait() {
	c.group.Wait()
	verdict(c.wrong.Load() == 0 && c.received.Load() > 0, "%d wildcard subscriptions came and went, %d deliveries match and are in order (%d do not)", c.made.Load(), c.received.Load(), c.wrong.Load())
}
