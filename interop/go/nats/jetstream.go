// Streams, as nats.go's package jetstream sees them.
package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

func jetstreamTests() {
	run(true, "JetStream: streams", streams)
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
