package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/IBM/sarama"
)

type saramaMember struct{}

func (saramaMember) Setup(s sarama.ConsumerGroupSession) error {
	found := slices.Clone(s.Claims()[options["topic"]])
	slices.Sort(found)
	partitions("assigned", found)
	return nil
}

func (saramaMember) Cleanup(s sarama.ConsumerGroupSession) error {
	partitions("revoked", s.Claims()[options["topic"]])
	return nil
}

func (saramaMember) ConsumeClaim(s sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case m, open := <-claim.Messages():
			if !open {
				return nil
			}
			first, last := m.Offset, m.Offset
			for waiting := len(claim.Messages()); waiting > 0 && last-first < batchMax; waiting-- {
				next, open := <-claim.Messages()
				if !open {
					break
				}
				if next.Offset != last+1 {
					say("got", claim.Partition(), first, last)
					first = next.Offset
				}
				last = next.Offset
			}
			say("got", claim.Partition(), first, last)
			s.MarkOffset(claim.Topic(), claim.Partition(), last+1, "")
			s.Commit() // reports nothing: the test checks the final commits
		case <-s.Context().Done():
			return nil
		}
	}
}

func saramaConsume() {
	config := sarama.NewConfig()
	config.Version = sarama.V2_8_0_0
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.Group.Session.Timeout = session()
	config.Consumer.Group.Heartbeat.Interval = 500 * time.Millisecond
	config.Consumer.Group.InstanceId = options["instance"]
	config.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{sarama.NewBalanceStrategySticky()}
	config.Metadata.Retry.Max = 100
	config.Consumer.MaxWaitTime = 200 * time.Millisecond
	group, err := sarama.NewConsumerGroup([]string{options["bootstrap"]}, options["group"], config)
	check(err, "group")
	ctx, cancel := context.WithCancel(context.Background())
	go func() { <-stop; cancel() }()
	for !stopped.Load() {
		if err := group.Consume(ctx, []string{options["topic"]}, saramaMember{}); err != nil && !errors.Is(err, context.Canceled) {
			if errors.Is(err, sarama.ErrFencedInstancedId) {
				say("fatal", err)
				return
			}
			say("note", err)
			time.Sleep(200 * time.Millisecond)
		}
	}
	check(group.Close(), "close")
}
