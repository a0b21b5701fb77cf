package main

import (
	"context"
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	failoverTarget = 2 * time.Second
	writeInterval  = 10 * time.Millisecond
)

// acknowledgements are those of one client's records: when each was sent and answered.
type writer struct {
	client *kgo.Client
	mu     sync.Mutex
	acks   [partitions][]acknowledgement
}

type acknowledgement struct{ sent, answered time.Time }

func newWriter(seeds []string, more ...kgo.Opt) (*writer, error) {
	client, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(seeds...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.UnknownTopicRetries(-1),
		kgo.MaxBufferedRecords(1 << 20), kgo.DefaultProduceTopic(loadTopic)}, more...)...)
	return &writer{client: client}, err
}

func (w *writer) write(p int32) {
	sent := time.Now()
	w.client.Produce(context.Background(), &kgo.Record{Partition: p, Value: make([]byte, 100)}, func(_ *kgo.Record, err error) {
		if err != nil {
			return
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.acks[p] = append(w.acks[p], acknowledgement{sent, time.Now()})
	})
}

// after is when the first record that was sent since then was acknowledged.
func (w *writer) after(p int32, since time.Time) (time.Time, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var first time.Time
	for _, a := range w.acks[p] {
		if a.sent.After(since) && (first.IsZero() || a.answered.Before(first)) {
			first = a.answered
		}
	}
	return first, !first.IsZero()
}

// failover kills the leader of a partition under load, and measures the time to the next acknowledged write
// to that partition: with a client that asks for the new leader every 20 ms, which shows the servers' share,
// and with franz-go unmodified.
func failover(c *cluster, rounds int, seed int64) error {
	eager, err := newWriter(c.seeds(), kgo.MetadataMinAge(20*time.Millisecond), kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }),
		kgo.DialTimeout(time.Second))
	if err != nil {
		return err
	}
	defer eager.client.Close()
	plain, err := newWriter(c.seeds())
	if err != nil {
		return err
	}
	defer plain.client.Close()
	var running atomic.Bool
	running.Store(true)
	defer running.Store(false)
	for _, w := range []*writer{eager, plain} {
		go every(writeInterval, &running, func() {
			for p := range int32(partitions) {
				w.write(p)
			}
		})
	}
	rng, admin := rand.New(rand.NewSource(seed)), kadm.NewClient(eager.client)
	var times, plainTimes []time.Duration
	for round := 1; round <= rounds; round++ {
		p := rng.Int31n(partitions)
		leader, err := settled(admin, eager, p)
		if err != nil {
			return err
		}
		time.Sleep(time.Duration(rng.Intn(1000)) * time.Millisecond)
		n := c.nodes[leader-1]
		killed := time.Now()
		n.kill()
		took, plainTook := eager.wait(p, killed), plain.wait(p, killed)
		times, plainTimes = append(times, took), append(plainTimes, plainTook)
		fmt.Printf("round %d: leader of partition %d, node %d, killed; next write after %.0f ms (franz-go as it comes: %.0f ms)\n", round, p, leader, ms(took), ms(plainTook))
		if err := n.start(); err != nil {
			return err
		}
		if err := n.waitReady(startedWithin); err != nil {
			return err
		}
	}
	fmt.Printf("eager client:        %s\nfranz-go as it comes: %s\n", distribution(times), distribution(plainTimes))
	if worst := slices.Max(times); worst > failoverTarget {
		fmt.Printf("FAIL fail-over: %d rounds, the worst took %.0f ms, more than %.0f ms\n", rounds, ms(worst), ms(failoverTarget))
		return fmt.Errorf("fail-over takes too long")
	}
	fmt.Printf("PASS fail-over: %d rounds, the worst took %.0f ms\n", rounds, ms(slices.Max(times)))
	return nil
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func (w *writer) wait(p int32, since time.Time) time.Duration {
	for time.Since(since) < recoverMax {
		if at, found := w.after(p, since); found {
			return at.Sub(since)
		}
		time.Sleep(5 * time.Millisecond)
	}
	return recoverMax
}

// settled waits until all three nodes are in sync everywhere and writes go through. It returns the leader.
func settled(admin *kadm.Client, w *writer, p int32) (int32, error) {
	ctx, cancel := context.WithTimeout(context.Background(), recoverMax)
	defer cancel()
	for ctx.Err() == nil {
		metadata, err := admin.Metadata(ctx, loadTopic)
		if err == nil && inSync(metadata) {
			since := time.Now()
			if w.wait(p, since) < 200*time.Millisecond {
				return metadata.Topics[loadTopic].Partitions[p].Leader, nil
			}
		}
		time.Sleep(200 * time.Millisecond)
	}
	return 0, fmt.Errorf("not all replicas are in sync after %v", recoverMax)
}

func inSync(metadata kadm.Metadata) bool {
	of := metadata.Topics[loadTopic].Partitions
	for p := range int32(partitions) {
		if len(of[p].ISR) < nodeCount || of[p].Leader < 1 {
			return false
		}
	}
	return len(metadata.Brokers) == nodeCount
}

func distribution(times []time.Duration) string {
	sorted := slices.Sorted(slices.Values(times))
	var words []string
	for _, t := range sorted {
		words = append(words, fmt.Sprintf("%.0f", ms(t)))
	}
	return fmt.Sprintf("median %.0f ms, worst %.0f ms; all: %s", ms(sorted[len(sorted)/2]), ms(sorted[len(sorted)-1]), strings.Join(words, " "))
}
