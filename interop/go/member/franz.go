package main

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const batchMax = 100

func franzOptions(more ...kgo.Opt) []kgo.Opt {
	topic := options["topic"]
	told := func(event string) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, found map[string][]int32) {
			if len(found[topic]) > 0 || event == "assigned" {
				partitions(event, found[topic])
			}
		}
	}
	opts := []kgo.Opt{
		kgo.SeedBrokers(options["bootstrap"]), kgo.ConsumeTopics(topic), kgo.ConsumerGroup(options["group"]), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.BlockRebalanceOnPoll(), kgo.FetchMaxWait(200 * time.Millisecond),
		kgo.OnPartitionsAssigned(told("assigned")), kgo.OnPartitionsRevoked(told("revoked")), kgo.OnPartitionsLost(told("lost")),
	}
	if options["protocol"] == "consumer" {
		opts = append(opts, kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer())) // that names the assignor "uniform"
	} else {
		opts = append(opts, kgo.Balancers(kgo.CooperativeStickyBalancer()), kgo.SessionTimeout(session()), kgo.HeartbeatInterval(500*time.Millisecond))
	}
	if id := options["instance"]; id != "" {
		opts = append(opts, kgo.InstanceID(id))
	}
	return append(opts, more...)
}

// runs prints runs of offsets without a gap.
func runs(fetches kgo.Fetches) {
	fetches.EachPartition(func(p kgo.FetchTopicPartition) {
		for i := 0; i < len(p.Records); {
			j := i
			for j+1 < len(p.Records) && p.Records[j+1].Offset == p.Records[j].Offset+1 {
				j++
			}
			say("got", p.Partition, p.Records[i].Offset, p.Records[j].Offset)
			i = j + 1
		}
	})
}

func note(fetches kgo.Fetches) {
	for _, e := range fetches.Errors() {
		if errors.Is(e.Err, kerr.FencedInstanceID) {
			say("fatal", e.Err)
			os.Exit(4)
		}
		if !errors.Is(e.Err, context.DeadlineExceeded) {
			say("note", e.Err)
		}
	}
}

func franzConsume() {
	cl, err := kgo.NewClient(franzOptions()...)
	check(err, "client")
	for !stopped.Load() {
		ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
		fetches := cl.PollRecords(ctx, batchMax)
		cancel()
		note(fetches)
		if records := fetches.Records(); len(records) > 0 {
			runs(fetches)
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			if err := cl.CommitRecords(ctx, records...); err != nil {
				say("note", "commit", err)
				if errors.Is(err, kerr.FencedInstanceID) {
					say("fatal", err)
					os.Exit(4)
				}
			} else {
				last := map[int32]int64{}
				for _, r := range records {
					last[r.Partition] = r.Offset + 1
				}
				for p, o := range last {
					say("committed", p, o)
				}
			}
			cancel()
		}
		cl.AllowRebalance()
	}
	cl.CloseAllowingRebalance()
}

func franzCopy() {
	s, err := kgo.NewGroupTransactSession(franzOptions(kgo.TransactionalID(options["txn"]), kgo.TransactionTimeout(10*time.Second),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.RequireStableFetchOffsets(), kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	check(err, "session")
	say("ready")
	for turn := 1; !stopped.Load(); {
		ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
		fetches := s.PollRecords(ctx, batchMax)
		cancel()
		note(fetches)
		records := fetches.Records()
		if len(records) == 0 {
			s.Client().AllowRebalance()
			continue
		}
		check(s.Begin(), "begin")
		prefix := "copy of "
		if turn%5 == 0 {
			prefix = "aborted "
		}
		for _, r := range records {
			s.Produce(context.Background(), &kgo.Record{Topic: options["out"], Partition: r.Partition, Value: []byte(prefix + string(r.Value))}, func(_ *kgo.Record, err error) {
				if err != nil {
					say("note", "produce", err)
				}
			})
		}
		ctx, cancel = context.WithTimeout(context.Background(), 30*time.Second)
		check(s.Client().Flush(ctx), "flush") // otherwise aborted records would not even be sent
		committed, err := s.End(ctx, kgo.TransactionEndTry(turn%5 != 0))
		cancel()
		check(err, "end")
		if committed {
			say("copied", len(records))
		}
		turn++
		s.Client().AllowRebalance()
	}
	s.Close()
}

func franzFence() {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	begin := func(value string) *kgo.Client {
		cl, err := kgo.NewClient(kgo.SeedBrokers(options["bootstrap"]), kgo.TransactionalID(options["txn"]), kgo.RecordPartitioner(kgo.ManualPartitioner()))
		check(err, "client")
		check(cl.BeginTransaction(), "begin")
		check(cl.ProduceSync(ctx, &kgo.Record{Topic: options["out"], Value: []byte(value)}).FirstErr(), "produce")
		return cl
	}
	first := begin("of the first")
	second := begin("of the second")
	check(second.EndTransaction(ctx, kgo.TryCommit), "commit of the second")
	err := first.EndTransaction(ctx, kgo.TryCommit)
	switch {
	case errors.Is(err, kerr.InvalidProducerEpoch) || errors.Is(err, kerr.ProducerFenced):
		say("fenced", err)
	default:
		say("error", "the first producer committed:", err)
	}
	second.Close()
}

// A share consumer that accepts all records, but releases each record whose offset divides by 10 once, and
// rejects offset 7 of each partition.
func franzShare() {
	cl, err := kgo.NewClient(kgo.SeedBrokers(options["bootstrap"]), kgo.ConsumeTopics(options["topic"]), kgo.ShareGroup(options["group"]), kgo.FetchMaxWait(200*time.Millisecond))
	check(err, "client")
	say("ready")
	for !stopped.Load() {
		ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
		fetches := cl.PollRecords(ctx, batchMax)
		cancel()
		note(fetches)
		for _, r := range fetches.Records() {
			count := r.DeliveryCount()
			say("delivered", r.Partition, r.Offset, count)
			switch {
			case r.Offset == 7:
				r.Ack(kgo.AckReject)
			case r.Offset%10 == 0 && count == 1:
				r.Ack(kgo.AckRelease)
			default:
				r.Ack(kgo.AckAccept)
			}
		}
		ctx, cancel = context.WithTimeout(context.Background(), 20*time.Second)
		if results := cl.FlushAcks(ctx); results != nil {
			say("note", results)
		}
		cancel()
	}
	cl.Close()
}
