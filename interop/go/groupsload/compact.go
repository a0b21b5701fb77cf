package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	valueBytes = 100
	// Small enough that nearly all of the log is in closed segments, which a cleaner may touch.
	segmentBytes = "134217728"
	// No server needs this long. One that does not finish has failed.
	compactMax = 4 * time.Minute
)

func key(n, keys int64) []byte {
	// Neither in order nor in blocks: a full walk through all keys by steps of a prime.
	return binary.BigEndian.AppendUint64(nil, uint64(n*7_368_787%keys))
}

// fill writes the records over the keys into a topic that is not compacted yet.
func fill(address, name string, count, keys int64) error {
	if _, err := createTopic(address, name, 1, map[string]*string{"segment.bytes": kadm.StringPtr(segmentBytes), "retention.ms": kadm.StringPtr("-1")}); err != nil {
		return err
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.DefaultProduceTopic(name), kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.ProducerLinger(5*time.Millisecond), kgo.MaxBufferedRecords(100_000), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return err
	}
	defer client.Close()
	var first atomic.Pointer[error]
	ctx := context.Background()
	began := time.Now()
	for n := range count {
		value := make([]byte, valueBytes)
		binary.BigEndian.PutUint64(value, uint64(n))
		client.Produce(ctx, &kgo.Record{Key: key(n, keys), Value: value}, func(_ *kgo.Record, err error) {
			if err != nil {
				first.CompareAndSwap(nil, &err)
			}
		})
	}
	if err := client.Flush(ctx); err != nil {
		return err
	}
	if err := first.Load(); err != nil {
		return *err
	}
	fmt.Printf("blast sent_per_s=%.0f\n", float64(count)/time.Since(began).Seconds())
	return nil
}

// size adds up the segments of the partition's folder. A file that vanishes meanwhile counts nothing.
func size(folder string) int64 {
	var sum int64
	entries, _ := os.ReadDir(folder)
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil && strings.HasSuffix(entry.Name(), ".log") {
			sum += info.Size()
		}
	}
	return sum
}

func partitionFolder(data, name string) (string, error) {
	var found string
	err := filepath.WalkDir(data, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && d.Name() == name+"-0" {
			found = path
			return fs.SkipAll
		}
		return nil
	})
	if err == nil && found == "" {
		err = fmt.Errorf("no partition of %s under %s", name, data)
	}
	return found, err
}

// compact turns compaction on and waits until the log has become as small as it will. Then it checks that the
// last record of every key exists.
func compact(address, name, data string, count, keys int64) error {
	folder, err := partitionFolder(data, name)
	if err != nil {
		return err
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 2*compactMax)
	defer cancel()
	before := size(folder)
	var alter []kadm.AlterConfig
	for _, setting := range [][2]string{{"cleanup.policy", "compact"}, {"min.cleanable.dirty.ratio", "0.01"}} {
		alter = append(alter, kadm.AlterConfig{Op: kadm.SetConfig, Name: setting[0], Value: kadm.StringPtr(setting[1])})
	}
	began := time.Now()
	altered, err := kadm.NewClient(client).AlterTopicConfigs(ctx, alter, name)
	if err == nil {
		_, err = altered.On(name, func(r *kadm.AlterConfigsResponse) error { return r.Err })
	}
	if err != nil {
		return err
	}
	// What is left: one record of each key, at worst with a batch's overhead each, and the segment that is still
	// open.
	small := before/count*keys*2 + 134_217_728
	last, changed := before, time.Time{}
	for {
		time.Sleep(20 * time.Millisecond)
		now := size(folder)
		if now != last {
			last, changed = now, time.Now()
		}
		if now < small && !changed.IsZero() && time.Since(changed) > 3*time.Second {
			break
		}
		if time.Since(began) > compactMax {
			return fmt.Errorf("after %v the log has %d of %d bytes", compactMax, now, before)
		}
	}
	took := changed.Sub(began)
	left, err := verify(ctx, address, name, count, keys)
	if err != nil {
		return err
	}
	fmt.Printf("blast records_per_s=%.0f compact_s=%.2f bytes_before=%d bytes_after=%d left=%d\n", float64(count)/took.Seconds(), took.Seconds(), before, last, left)
	return nil
}

// verify reads what is left. The newest value of every key must be among it, and no value that was never
// written.
func verify(ctx context.Context, address, name string, count, keys int64) (int64, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{name: {0: kgo.NewOffset().AtStart()}}))
	if err != nil {
		return 0, err
	}
	defer client.Close()
	newest, left := make([]int64, keys), int64(0)
	for {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			return 0, err
		}
		end := false
		fetches.EachRecord(func(r *kgo.Record) {
			left++
			n := int64(binary.BigEndian.Uint64(r.Value))
			if n != r.Offset || binary.BigEndian.Uint64(r.Key) != uint64(n*7_368_787%keys) {
				err = fmt.Errorf("offset %d holds record %d", r.Offset, n)
			}
			newest[n*7_368_787%keys] = n
			end = r.Offset == count-1
		})
		if err != nil {
			return 0, err
		}
		if end {
			break
		}
	}
	for n := count - keys; n < count; n++ {
		if newest[n*7_368_787%keys] != n {
			return 0, errors.New("the last record of a key is gone")
		}
	}
	return left, nil
}
