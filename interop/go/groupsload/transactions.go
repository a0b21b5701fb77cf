package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// transactions runs several producers, each with a partition of its own, that commit one transaction after
// the other.
func transactions(address, name string, producers, records int, length time.Duration) error {
	if _, err := createTopic(address, name, int32(producers), nil); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*waitMax+length)
	defer cancel()
	value := make([]byte, 1024)
	for i := range value {
		value[i] = byte(i * 131 >> 3)
	}
	var clients []*kgo.Client
	for n := range producers {
		client, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.TransactionalID(fmt.Sprintf("%s-%d", name, n)), kgo.RecordPartitioner(kgo.ManualPartitioner()),
			kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.ProducerLinger(0))
		if err != nil {
			return err
		}
		defer client.Close()
		clients = append(clients, client)
	}
	one := func(client *kgo.Client, partition int32) error {
		if err := client.BeginTransaction(); err != nil {
			return err
		}
		batch := make([]*kgo.Record, records)
		for i := range batch {
			batch[i] = &kgo.Record{Topic: name, Partition: partition, Value: value}
		}
		if err := client.ProduceSync(ctx, batch...).FirstErr(); err != nil {
			return err
		}
		return client.EndTransaction(ctx, kgo.TryCommit)
	}
	// The first transactions warm up coordinators and JVMs.
	for n, client := range clients {
		for range 20 {
			if err := one(client, int32(n)); err != nil {
				return err
			}
		}
	}
	var done atomic.Int64
	errs := make(chan error, producers)
	began := time.Now()
	for n, client := range clients {
		go func() {
			for time.Since(began) < length {
				if err := one(client, int32(n)); err != nil {
					errs <- err
					return
				}
				done.Add(1)
			}
			errs <- nil
		}()
	}
	for range clients {
		if err := <-errs; err != nil {
			return err
		}
	}
	seconds := time.Since(began).Seconds()
	count := float64(done.Load())
	fmt.Printf("blast transactions_per_s=%.1f sent_per_s=%.0f wall_s=%.2f\n", count/seconds, count*float64(records)/seconds, seconds)
	return nil
}
