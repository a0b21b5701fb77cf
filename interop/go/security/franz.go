package main

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

var franzScenes = map[string]func(scene){
	"produce": func(s scene) { answer(franzProduce(s), "") }, "consume": func(s scene) { answer(franzConsume(s), "") },
	"transact": func(s scene) { answer(franzTransact(s), "") }, "hold": franzHold,
}

func mechanism(s scene) sasl.Mechanism {
	switch s["mechanism"] {
	case "PLAIN":
		return plain.Auth{User: s["user"], Pass: s["password"]}.AsMechanism()
	case "SCRAM-SHA-256":
		return scram.Auth{User: s["user"], Pass: s["password"]}.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		return scram.Auth{User: s["user"], Pass: s["password"]}.AsSha512Mechanism()
	case "OAUTHBEARER":
		return oauth.Auth{Token: s["token"]}.AsMechanism()
	}
	return nil
}

func franz(s scene, more ...kgo.Opt) *kgo.Client {
	opts := []kgo.Opt{kgo.SeedBrokers(s["bootstrap"]), kgo.RetryTimeout(5 * time.Second), kgo.RecordRetries(3), kgo.RecordDeliveryTimeout(8 * time.Second), kgo.FetchMaxWait(200 * time.Millisecond)}
	if one := mechanism(s); one != nil {
		opts = append(opts, kgo.SASL(one))
	}
	if config := s.tls(); config != nil {
		opts = append(opts, kgo.DialTLSConfig(config))
	}
	cl, err := kgo.NewClient(append(opts, more...)...)
	if err != nil {
		panic(err)
	}
	return cl
}

func soon() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), sceneMax)
}

func franzProduce(s scene) error {
	cl := franz(s)
	defer cl.Close()
	ctx, cancel := soon()
	defer cancel()
	if err := cl.Ping(ctx); err != nil {
		return err
	}
	return cl.ProduceSync(ctx, &kgo.Record{Topic: s["topic"], Value: []byte(s["value"])}).FirstErr()
}

func franzConsume(s scene) error {
	cl := franz(s, kgo.ConsumeTopics(s["topic"]), kgo.ConsumerGroup(s["group"]), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer cl.Close()
	ctx, cancel := soon()
	defer cancel()
	for {
		fetches := cl.PollFetches(ctx)
		for _, one := range fetches.Errors() {
			return one.Err
		}
		for _, record := range fetches.Records() {
			if string(record.Value) == s["value"] {
				return cl.CommitRecords(ctx, record)
			}
		}
		if ctx.Err() != nil {
			return errors.New("the record did not come")
		}
	}
}

func franzTransact(s scene) error {
	cl := franz(s, kgo.TransactionalID(s["id"]))
	defer cl.Close()
	ctx, cancel := soon()
	defer cancel()
	if err := cl.BeginTransaction(); err != nil {
		return err
	}
	if err := cl.ProduceSync(ctx, &kgo.Record{Topic: s["topic"], Value: []byte(s["value"])}).FirstErr(); err != nil {
		return err
	}
	return cl.EndTransaction(ctx, kgo.TryCommit)
}

func franzHold(s scene) {
	// An idempotent producer keeps its records for as long as it may have to repeat them.
	cl := franz(s, kgo.DisableIdempotentWrite())
	defer cl.Close()
	hold(s, func() error {
		ctx, cancel := soon()
		defer cancel()
		return cl.ProduceSync(ctx, &kgo.Record{Topic: s["topic"], Value: []byte("x")}).FirstErr()
	})
}
