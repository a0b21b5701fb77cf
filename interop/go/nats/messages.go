package main

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
)

func messageTests() {
	scale := 10
	if smoke {
		scale = 1
	}
	run(true, "publish and subscribe", publishAndSubscribe)
	run(true, "wildcards", wildcards)
	run(true, "queue groups", func() { queueGroups(1000 * scale) })
	run(true, "requests", func() { requests(500 * scale) })
	run(true, "nobody responds", noResponders)
	run(true, "headers", headers)
	run(true, "messages of 1 MiB, and none larger", large)
	run(true, "unsubscribe", unsubscribe)
	// tailrace.nats.max.subscriptions is 65,536.
	run(true, "many subscriptions", func() { manySubscriptions(6_000 * scale) })
	run(true, "order between two connections", func() { inOrder(50_000 * scale) })
	run(true, "fan-out", func() { fanOut(20, 2000*scale) })
	run(true, "drain", drain)
	run(true, "no echo", noEcho)
	run(true, "subscriptions that come and go", func() { churn(2000 * scale) })
	run(false, "round trips of flush", func() { rtt(1000) })
}

func next(sub *nats.Subscription) *nats.Msg {
	m, err := sub.NextMsg(wait)
	ok(err, "next message on "+sub.Subject)
	return m
}
func subscribe(nc *nats.Conn, subject string) *nats.Subscription {
	sub, err := nc.SubscribeSync(subject)
	ok(err, "subscribe")
	ok(sub.SetPendingLimits(-1, -1), "limits")
	return sub
}

func publishAndSubscribe() {
	mine, other := connect(), connect()
	defer mine.Close()
	defer other.Close()
	sub := subscribe(mine, "go.simple.one")
	ok(mine.Flush(), "flush")
	for _, payload := range [][]byte{[]byte("hello"), {}, noise(1000), []byte("\r\nPUB x 1\r\n")} {
		ok(other.Publish("go.simple.one", payload), "publish")
		ok(other.Flush(), "flush")
		m := next(sub)
		check(bytes.Equal(m.Data, payload), "payload %q came as %q", payload, m.Data)
		same(m.Reply, "", "reply subject")
	}
}

func wildcards() {
	nc := connect()
	defer nc.Close()
	words, rest := subscribe(nc, "go.wild.*.end"), subscribe(nc, "go.wild.>")
	for _, subject := range []string{"go.wild.a.end", "go.wild.a.b.end", "go.wild", "go.wild.b.end"} {
		ok(nc.Publish(subject, []byte(subject)), "publish")
	}
	ok(nc.Flush(), "flush")
	for _, want := range []string{"go.wild.a.end", "go.wild.b.end"} {
		same(next(words).Subject, want, "*")
	}
	for _, want := range []string{"go.wild.a.end", "go.wild.a.b.end", "go.wild.b.end"} {
		same(next(rest).Subject, want, ">")
	}
}

func queueGroups(count int) {
	var got [4]atomic.Int64
	var outside, all atomic.Int64
	for i := range got {
		nc := connect()
		defer nc.Close()
		_, err := nc.QueueSubscribe("go.queue.*", "workers", func(*nats.Msg) { got[i].Add(1); all.Add(1) })
		ok(err, "subscribe")
		ok(nc.Flush(), "flush")
	}
	nc := connect()
	defer nc.Close()
	_, err := nc.Subscribe("go.queue.>", func(*nats.Msg) { outside.Add(1) })
	ok(err, "subscribe")
	for i := range count {
		ok(nc.Publish(fmt.Sprintf("go.queue.%d", i%11), nil), "publish")
	}
	ok(nc.Flush(), "flush")
	eventually("all messages", func() bool { return all.Load() >= int64(count) && outside.Load() >= int64(count) })
	same(all.Load(), int64(count), "messages to the group")
	same(outside.Load(), int64(count), "messages to a subscription outside it")
	for i := range got {
		check(got[i].Load() > int64(count/10), "member %d was left out: %d", i, got[i].Load())
	}
}

func requests(count int) {
	service, client := connect(), connect(nats.ReconnectBufSize(-1))
	defer service.Close()
	defer client.Close()
	_, err := service.QueueSubscribe("go.service", "q", func(m *nats.Msg) { _ = m.Respond(append([]byte("answer to "), m.Data...)) })
	ok(err, "subscribe")
	ok(service.Flush(), "flush")
	var group sync.WaitGroup
	failures := make(chan error, count)
	for worker := range 10 {
		group.Add(1)
		go func() {
			defer group.Done()
			for i := range count / 10 {
				text := fmt.Sprintf("%d %d", worker, i)
				m, err := client.Request("go.service", []byte(text), wait)
				if err == nil && string(m.Data) != "answer to "+text {
					err = fmt.Errorf("%q was answered %q", text, m.Data)
				}
				if err != nil {
					failures <- err
					return
				}
			}
		}()
	}
	group.Wait()
	close(failures)
	for err := range failures {
		fail("request: %v", err)
	}
	old := connect(nats.UseOldRequestStyle())
	defer old.Close()
	m, err := old.Request("go.service", []byte("old"), wait)
	ok(err, "request with a subscription of its own")
	same(string(m.Data), "answer to old", "its answer")
}

func noResponders() {
	nc := connect()
	defer nc.Close()
	began := time.Now()
	_, err := nc.Request("go.nobody", nil, wait)
	check(errors.Is(err, nats.ErrNoResponders), "got %v", err)
	check(time.Since(began) < wait/2, "that took %s", time.Since(began))
}

func headers() {
	nc := connect()
	defer nc.Close()
	sub := subscribe(nc, "go.headers")
	sent := nats.Header{"One": {"1"}, "lower": {"x"}, "UPPER": {"y"}, "Twice": {"first", "second"}, "Empty": {""}, "Colon": {"a: b"}}
	ok(nc.PublishMsg(&nats.Msg{Subject: "go.headers", Reply: "answer.here", Header: sent, Data: []byte("payload")}), "publish")
	ok(nc.PublishMsg(&nats.Msg{Subject: "go.headers", Header: nats.Header{"Only": {"headers"}}}), "publish")
	first, second := next(sub), next(sub)
	check(reflect.DeepEqual(first.Header, sent), "headers: got %v, want %v", first.Header, sent)
	same(string(first.Data)+first.Reply, "payloadanswer.here", "payload and reply")
	same(second.Header.Get("Only"), "headers", "headers without a payload")
	same(len(second.Data), 0, "payload")
}

func large() {
	nc, other := connect(), connect()
	defer nc.Close()
	defer other.Close()
	same(nc.MaxPayload(), 1<<20, "max_payload")
	sub := subscribe(nc, "go.large")
	ok(nc.Flush(), "flush")
	payload := noise(1 << 20)
	for range 20 {
		ok(other.Publish("go.large", payload), "publish")
	}
	for range 20 {
		check(bytes.Equal(next(sub).Data, payload), "a payload of 1 MiB was damaged")
	}
	err := other.Publish("go.large", append(payload, 'x'))
	check(errors.Is(err, nats.ErrMaxPayload), "a payload over the limit: %v", err)
}

func unsubscribe() {
	nc := connect()
	defer nc.Close()
	limited, other := subscribe(nc, "go.unsub"), subscribe(nc, "go.unsub")
	ok(limited.AutoUnsubscribe(3), "auto-unsubscribe")
	for i := range 6 {
		ok(nc.Publish("go.unsub", []byte{byte(i)}), "publish")
	}
	for range 3 {
		next(limited)
	}
	for range 6 {
		next(other)
	}
	_, err := limited.NextMsg(50 * time.Millisecond)
	check(err != nil, "a message after the limit")
	ok(other.Unsubscribe(), "unsubscribe")
	ok(nc.Publish("go.unsub", nil), "publish")
	ok(nc.Flush(), "flush")
}

func manySubscriptions(count int) {
	nc, sender := connect(), connect()
	defer nc.Close()
	defer sender.Close()
	got := make(chan *nats.Msg, count+1)
	for i := range count {
		_, err := nc.ChanSubscribe(fmt.Sprintf("go.many.%d", i), got)
		ok(err, "subscribe")
	}
	ok(nc.FlushTimeout(wait), "flush")
	for i := range count {
		ok(sender.Publish(fmt.Sprintf("go.many.%d", i), nil), "publish")
	}
	ok(sender.FlushTimeout(wait), "flush")
	seen := map[string]bool{}
	for range count {
		seen[arrives(got, "a message per subscription").Subject] = true
	}
	same(len(seen), count, "different subjects")
}

func inOrder(count int) {
	nc, sender := connect(), connect()
	defer nc.Close()
	defer sender.Close()
	sub := subscribe(nc, "go.order.*")
	ok(nc.Flush(), "flush")
	go func() {
		for i := range count {
			_ = sender.Publish(fmt.Sprintf("go.order.%d", i%5), fmt.Appendf(nil, "%d", i))
		}
		_ = sender.Flush()
	}()
	for i := range count {
		m := next(sub)
		if string(m.Data) != fmt.Sprint(i) {
			fail("message %d came as %s", i, m.Data)
		}
	}
}

func fanOut(readers, count int) {
	var all atomic.Int64
	for range readers {
		nc := connect()
		defer nc.Close()
		sub, err := nc.Subscribe("go.fan", func(*nats.Msg) { all.Add(1) })
		ok(err, "subscribe")
		ok(sub.SetPendingLimits(-1, -1), "limits")
		ok(nc.Flush(), "flush")
	}
	nc := connect()
	defer nc.Close()
	payload := noise(100)
	for range count {
		ok(nc.Publish("go.fan", payload), "publish")
	}
	ok(nc.Flush(), "flush")
	eventually("all copies", func() bool { return all.Load() == int64(readers*count) })
}

func drain() {
	closed := make(chan bool, 1)
	nc, sender := connect(nats.ClosedHandler(func(*nats.Conn) { closed <- true })), connect()
	defer sender.Close()
	var got atomic.Int64
	_, err := nc.Subscribe("go.drain", func(*nats.Msg) { time.Sleep(time.Millisecond); got.Add(1) })
	ok(err, "subscribe")
	ok(nc.Flush(), "flush")
	for range 200 {
		ok(sender.Publish("go.drain", nil), "publish")
	}
	ok(sender.Flush(), "flush")
	ok(nc.Drain(), "drain")
	arrives(closed, "the connection closes")
	same(got.Load(), 200, "messages before the end of the drain")
}

func noEcho() {
	nc, other := connect(nats.NoEcho()), connect()
	defer nc.Close()
	defer other.Close()
	sub := subscribe(nc, "go.echo")
	ok(nc.Publish("go.echo", []byte("mine")), "publish")
	ok(nc.Flush(), "flush")
	ok(other.Publish("go.echo", []byte("yours")), "publish")
	same(string(next(sub).Data), "yours", "the first message")
}

func churn(rounds int) {
	nc, sender := connect(), connect()
	defer nc.Close()
	defer sender.Close()
	stays := subscribe(nc, "go.churn.>")
	ok(nc.Flush(), "flush")
	stop, done := make(chan bool), make(chan int)
	go func() {
		sent := 0
		for {
			select {
			case <-stop:
				_ = sender.Flush()
				done <- sent
				return
			default:
				_ = sender.Publish(fmt.Sprintf("go.churn.%d", sent%50), nil)
				sent++
				if sent%500 == 0 {
					_ = sender.Flush()
				}
			}
		}
	}()
	for i := range rounds {
		sub, err := nc.Subscribe(fmt.Sprintf("go.churn.%d", i%50), func(*nats.Msg) {})
		ok(err, "subscribe")
		ok(sub.Unsubscribe(), "unsubscribe")
	}
	close(stop)
	for range arrives(done, "the sender ends") {
		next(stays)
	}
}

func rtt(count int) {
	nc := connect()
	defer nc.Close()
	for range count {
		_, err := nc.RTT()
		ok(err, "round trip")
	}
}
