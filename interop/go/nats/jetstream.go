// Streams and consumers, as nats.go's package jetstream sees them.
package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

func jetstreamTests() {
	run(true, "JetStream: streams", streams)
	run(true, "JetStream: pull consumers", pulls)
	run(true, "JetStream: push consumers", pushes)
	run(true, "JetStream: keys and values", buckets)
}

func streams() {
	nc := connect()
	defer nc.Close()
	js, err := jetstream.New(nc)
	ok(err, "JetStream")
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	config := jetstream.StreamConfig{Name: "GO", Subjects: []string{"go.js.>"}, AllowDirect: true}
	stream, err := js.CreateStream(ctx, config)
	ok(err, "create")
	_, err = js.CreateStream(ctx, config)
	ok(err, "create the same again")
	_, err = js.CreateStream(ctx, jetstream.StreamConfig{Name: "GO", Subjects: []string{"other"}})
	check(errors.Is(err, jetstream.ErrStreamNameAlreadyInUse), "another configuration: got %v", err)
	for number := range 5 {
		message := &nats.Msg{Subject: fmt.Sprintf("go.js.%d", number%2), Data: fmt.Appendf(nil, "m%d", number), Header: nats.Header{"Number": {fmt.Sprint(number)}}}
		ack, err := js.PublishMsg(ctx, message)
		ok(err, "publish")
		same(fmt.Sprint(ack.Stream, ack.Sequence), fmt.Sprint("GO", number+1), "acknowledgement")
	}
	info, err := stream.Info(ctx, jetstream.WithSubjectFilter(">"))
	ok(err, "info")
	same(fmt.Sprint(info.State.Msgs, info.State.FirstSeq, info.State.LastSeq, info.State.Subjects), "5 1 5 map[go.js.0:3 go.js.1:2]", "state")
	for _, direct := range []bool{true, false} {
		config.AllowDirect = direct
		stream, err = js.UpdateStream(ctx, config)
		ok(err, "update")
		message, err := stream.GetMsg(ctx, 2)
		ok(err, "get by sequence")
		same(fmt.Sprintf("%s %s %d %s", message.Subject, message.Data, message.Sequence, message.Header.Get("Number")), "go.js.1 m1 2 1", "the second message")
		message, err = stream.GetLastMsgForSubject(ctx, "go.js.0")
		ok(err, "get the last of a subject")
		same(message.Sequence, uint64(5), "the last of a subject")
		message, err = stream.GetMsg(ctx, 3, jetstream.WithGetMsgSubject("go.js.1"))
		ok(err, "get the next of a subject")
		same(message.Sequence, uint64(4), "the next of a subject")
		_, err = stream.GetMsg(ctx, 99)
		check(errors.Is(err, jetstream.ErrMsgNotFound), "a message that is not there: got %v", err)
	}
	name, err := js.StreamNameBySubject(ctx, "go.js.x")
	ok(err, "stream by subject")
	same(name, "GO", "stream by subject")
	all := js.ListStreams(ctx)
	count := 0
	for range all.Info() {
		count++
	}
	ok(all.Err(), "list")
	same(count, 1, "streams")
	account, err := js.AccountInfo(ctx)
	ok(err, "account")
	same(account.Streams, 1, "streams of the account")
	ok(stream.Purge(ctx, jetstream.WithPurgeKeep(2)), "purge")
	info, err = stream.Info(ctx)
	ok(err, "info")
	same(fmt.Sprint(info.State.Msgs, info.State.FirstSeq, info.State.LastSeq), "2 4 5", "what a purge keeps")
	ok(js.DeleteStream(ctx, "GO"), "delete")
	_, err = js.Stream(ctx, "GO")
	check(errors.Is(err, jetstream.ErrStreamNotFound), "the deleted stream: got %v", err)
}

func pulls() {
	nc := connect()
	defer nc.Close()
	js, err := jetstream.New(nc)
	ok(err, "JetStream")
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	stream, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "GOPULL", Subjects: []string{"go.pull.>"}})
	ok(err, "create the stream")
	for number := range 7 {
		_, err = js.Publish(ctx, fmt.Sprintf("go.pull.%d", number%2), fmt.Appendf(nil, "m%d", number))
		ok(err, "publish")
	}
	config := jetstream.ConsumerConfig{Durable: "worker", AckPolicy: jetstream.AckExplicitPolicy, AckWait: time.Minute, FilterSubjects: []string{"go.pull.0", "go.pull.1"}}
	consumer, err := stream.CreateOrUpdateConsumer(ctx, config)
	ok(err, "create the consumer")
	_, err = stream.CreateConsumer(ctx, config)
	ok(err, "create the same again")
	batch, err := consumer.FetchNoWait(5)
	ok(err, "fetch")
	got := fetched(batch)
	same(fmt.Sprint(texts(got)), "[m0 1 6 m1 1 5 m2 1 4 m3 1 3 m4 1 2]", "the first five")
	ok(got[0].DoubleAck(ctx), "acknowledge and wait")
	ok(got[1].Ack(), "acknowledge")
	ok(got[2].Nak(), "refuse")
	ok(got[3].TermWithReason("enough"), "terminate")
	ok(got[4].InProgress(), "in progress")
	rest := map[string]jetstream.Msg{}
	for range 3 {
		message, err := consumer.Next(jetstream.FetchMaxWait(wait))
		ok(err, "next")
		about, err := message.Metadata()
		ok(err, "metadata")
		rest[fmt.Sprint(string(message.Data()), " ", about.NumDelivered)] = message
	}
	check(rest["m2 2"] != nil && rest["m5 1"] != nil && rest["m6 1"] != nil, "the one that was refused, and the others: %v", rest)
	ok(rest["m2 2"].DoubleAck(ctx), "acknowledge")
	ok(got[4].DoubleAck(ctx), "acknowledge")
	info, err := consumer.Info(ctx)
	ok(err, "info")
	same(fmt.Sprint(info.NumPending, info.NumAckPending, info.AckFloor.Stream, info.Delivered.Consumer), "0 2 5 8", "the consumer")
	ok(rest["m5 1"].DoubleAck(ctx), "acknowledge")
	ok(rest["m6 1"].DoubleAck(ctx), "acknowledge")
	// Messages as they come, with heartbeats and a pull that is repeated.
	arrived := make(chan string, 16)
	consuming, err := consumer.Consume(func(message jetstream.Msg) {
		arrived <- string(message.Data())
		_ = message.Ack()
	}, jetstream.PullMaxMessages(2), jetstream.PullExpiry(2*time.Second))
	ok(err, "consume")
	for number := range 20 {
		if number == 2 {
			// Longer than a pull waits.
			time.Sleep(2500 * time.Millisecond)
		}
		expected := fmt.Sprintf("n%d", number)
		_, err = js.Publish(ctx, "go.pull.0", []byte(expected))
		ok(err, "publish")
		select {
		case data := <-arrived:
			same(data, expected, "consumed")
		case <-ctx.Done():
			check(false, "nothing comes for %s", expected)
		}
	}
	consuming.Stop()
	<-consuming.Closed()
	ok(stream.DeleteConsumer(ctx, "worker"), "delete the consumer")
	_, err = stream.Consumer(ctx, "worker")
	check(errors.Is(err, jetstream.ErrConsumerNotFound), "the deleted consumer: got %v", err)
	ok(js.DeleteStream(ctx, "GOPULL"), "delete the stream")
}

func fetched(batch jetstream.MessageBatch) []jetstream.Msg {
	var got []jetstream.Msg
	for message := range batch.Messages() {
		got = append(got, message)
	}
	ok(batch.Error(), "the batch")
	return got
}

// Data, deliveries and what is pending behind it, of each.
func texts(messages []jetstream.Msg) []string {
	var found []string
	for _, message := range messages {
		about, err := message.Metadata()
		ok(err, "metadata")
		found = append(found, fmt.Sprintf("%s %d %d", message.Data(), about.NumDelivered, about.NumPending))
	}
	return found
}

func pushes() {
	nc := connect()
	defer nc.Close()
	js, err := nc.JetStream()
	ok(err, "JetStream")
	_, err = js.AddStream(&nats.StreamConfig{Name: "GOPUSH", Subjects: []string{"go.push.>"}})
	ok(err, "create the stream")
	for number := range 5 {
		_, err = js.Publish(fmt.Sprintf("go.push.%d", number%2), fmt.Appendf(nil, "m%d", number))
		ok(err, "publish")
	}
	plain, err := js.SubscribeSync("go.push.1", nats.AckExplicit())
	ok(err, "subscribe")
	for _, expected := range []string{"m1 1", "m3 0"} {
		message, err := plain.NextMsg(wait)
		ok(err, "next")
		about, err := message.Metadata()
		ok(err, "metadata")
		same(fmt.Sprint(string(message.Data), " ", about.NumPending), expected, "a filter")
		ok(message.AckSync(), "acknowledge")
	}
	ok(plain.Unsubscribe(), "unsubscribe")
	// In order, with flow control and heartbeats.
	ordered, err := js.SubscribeSync("go.push.>", nats.OrderedConsumer(), nats.IdleHeartbeat(time.Second))
	ok(err, "subscribe in order")
	large := make([]byte, 100_000)
	for range 60 {
		_, err = js.Publish("go.push.large", large)
		ok(err, "publish")
	}
	for number := range 65 {
		message, err := ordered.NextMsg(wait)
		ok(err, "next in order")
		about, err := message.Metadata()
		ok(err, "metadata")
		same(about.Sequence.Stream, uint64(number+1), "in order")
	}
	// A queue group of a durable one.
	arrived := make(chan string, 128)
	for range 2 {
		_, err = js.QueueSubscribe("go.push.0", "workers", func(message *nats.Msg) {
			arrived <- string(message.Data)
			_ = message.Ack()
		}, nats.Durable("workers"), nats.ManualAck())
		ok(err, "subscribe a member")
	}
	seen := map[string]int{}
	for range 3 {
		select {
		case data := <-arrived:
			seen[data]++
		case <-time.After(wait):
			check(false, "the group got only %v", seen)
		}
	}
	same(fmt.Sprint(seen), "map[m0:1 m2:1 m4:1]", "each once")
	ok(js.DeleteStream("GOPUSH"), "delete the stream")
}

func buckets() {
	nc := connect()
	defer nc.Close()
	js, err := jetstream.New(nc)
	ok(err, "JetStream")
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	kv, err := js.CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: "GOKV", History: 5})
	ok(err, "create the bucket")
	for number, key := range []string{"a", "b", "a"} {
		revision, err := kv.Put(ctx, key, fmt.Append(nil, number+1))
		ok(err, "put")
		same(revision, uint64(number+1), "revision")
	}
	entry, err := kv.Get(ctx, "a")
	ok(err, "get")
	same(fmt.Sprintf("%s %d", entry.Value(), entry.Revision()), "3 3", "the last of a key")
	watcher, err := kv.WatchAll(ctx)
	ok(err, "watch")
	same(watched(watcher), "b 2 KeyValuePutOp", "what a watch begins with")
	same(watched(watcher), "a 3 KeyValuePutOp", "what a watch begins with")
	same(watched(watcher), "", "the end of what is there")
	_, err = kv.PutString(ctx, "c", "4")
	ok(err, "put")
	same(watched(watcher), "c 4 KeyValuePutOp", "what a watch goes on with")
	ok(kv.Delete(ctx, "b"), "delete")
	same(watched(watcher), "b  KeyValueDeleteOp", "the watch sees that")
	ok(watcher.Stop(), "stop")
	_, err = kv.Get(ctx, "b")
	check(errors.Is(err, jetstream.ErrKeyNotFound), "the deleted key: got %v", err)
	keys, err := kv.Keys(ctx)
	ok(err, "keys")
	slices.Sort(keys)
	same(fmt.Sprint(keys), "[a c]", "keys")
	history, err := kv.History(ctx, "a")
	ok(err, "history")
	same(fmt.Sprint(len(history), history[0].Revision(), history[1].Revision()), "2 1 3", "history")
	ok(js.DeleteKeyValue(ctx, "GOKV"), "delete the bucket")
}

func watched(watcher jetstream.KeyWatcher) string {
	select {
	case entry := <-watcher.Updates():
		if entry == nil {
			return ""
		}
		return fmt.Sprintf("%s %s %s", entry.Key(), entry.Value(), entry.Operation())
	case <-time.After(wait):
		check(false, "nothing comes")
		return ""
	}
}
