package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

func (t *T) client(opts ...kgo.Opt) *kgo.Client {
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(bootstrap), kgo.RetryBackoffFn(func(int) time.Duration { return 100 * time.Millisecond })}, opts...)...)
	t.ok(err, "client")
	return cl
}

func (t *T) producer(opts ...kgo.Opt) *kgo.Client {
	return t.client(append([]kgo.Opt{kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchMaxBytes(3 << 20)}, opts...)...)
}

// produce sends all and returns the first error.
func (t *T) produce(cl *kgo.Client, records ...*kgo.Record) error {
	return cl.ProduceSync(t, records...).FirstErr()
}

func (t *T) reader(topic string, from map[int32]int64, opts ...kgo.Opt) *kgo.Client {
	offsets := map[int32]kgo.Offset{}
	for p, at := range from {
		offsets[p] = kgo.NewOffset().At(at)
	}
	return t.client(append([]kgo.Opt{kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: offsets})}, opts...)...)
}

func (t *T) readOn(cl *kgo.Client, count int) []*kgo.Record {
	var out []*kgo.Record
	ctx, cancel := context.WithTimeout(t, time.Minute)
	defer cancel()
	for len(out) < count {
		fetches := cl.PollFetches(ctx)
		for _, e := range fetches.Errors() {
			t.check(ctx.Err() == nil, "only %d of %d records within a minute", len(out), count)
			t.fail("fetch of %s/%d: %v", e.Topic, e.Partition, e.Err)
		}
		out = append(out, fetches.Records()...)
	}
	return out
}

func (t *T) read(topic string, count int, from map[int32]int64, opts ...kgo.Opt) []*kgo.Record {
	cl := t.reader(topic, from, opts...)
	defer cl.Close()
	return t.readOn(cl, count)
}

var start = map[int32]int64{0: 0}

func equalBytes(a, b []byte) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) }

func (t *T) sameRecords(got, want []*kgo.Record) {
	same(t, len(got), len(want), "count")
	for i, g := range got {
		w := want[i]
		t.check(equalBytes(g.Key, w.Key) && equalBytes(g.Value, w.Value), "record %d: got %.60q %.60q, want %.60q %.60q", i, g.Key, g.Value, w.Key, w.Value)
		same(t, len(g.Headers), len(w.Headers), "headers")
		for j, h := range g.Headers {
			t.check(h.Key == w.Headers[j].Key && equalBytes(h.Value, w.Headers[j].Value), "record %d, header %d", i, j)
		}
	}
}

func (t *T) sameValues(got []*kgo.Record, want []string) {
	same(t, len(got), len(want), "count")
	for i, g := range got {
		same(t, string(g.Value), want[i], fmt.Sprintf("value %d", i))
	}
}

func of(records []*kgo.Record, partition int32) (out []*kgo.Record) {
	for _, r := range records {
		if r.Partition == partition {
			out = append(out, r)
		}
	}
	return out
}

func recordTests() {
	codecs := map[string]kgo.CompressionCodec{"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression()}
	for _, name := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		run(true, "codec "+name, func(t *T) { codec(t, codecs[name]) })
	}
	run(true, "record sizes from 1 B to 1 MiB", sizes)
	run(true, "null and empty keys, values and headers", nulls)
	run(true, "timestamps", timestamps)
	run(true, "LogAppendTime topic", logAppendTime)
	acks := map[string]kgo.Acks{"0": kgo.NoAck(), "1": kgo.LeaderAck(), "all": kgo.AllISRAcks()}
	for _, name := range []string{"0", "1", "all"} {
		run(name == "0", "acks "+name, func(t *T) { withAcks(t, acks[name]) })
	}
	run(true, "idempotent producer", idempotent)
	run(true, "keys over partitions", keys)
	run(true, "record too large", tooLarge)
	run(true, "unknown topic without automatic creation", unknownTopic)
	run(true, "automatic topic creation", autoCreation)
	run(true, "long poll", longPoll)
	run(false, "fetch session with idle partitions", sessions)
	run(false, "without fetch sessions", noSessions)
	run(true, "read while writing", readWhileWriting)
	run(false, "read committed", readCommitted)
	run(false, "server restarts", restarts)
}

func codec(t *T, c kgo.CompressionCodec) {
	topic := t.create("codec", 1, map[string]string{"max.message.bytes": "4000000"})
	var want []*kgo.Record
	for i, n := range []int{1, 0, 7, 100, 1000, 5000, 100_000} {
		for j := 0; j < 20; j++ {
			want = append(want, &kgo.Record{Topic: topic, Key: fmt.Appendf(nil, "k%d", i), Value: payload(int64(i*100+j), n),
				Timestamp: time.UnixMilli(1_700_000_000_000 + int64(i*100+j)), Headers: []kgo.RecordHeader{{Key: "h", Value: []byte{byte(j)}}}})
		}
	}
	cl := t.producer(kgo.ProducerBatchCompression(c))
	defer cl.Close()
	t.ok(t.produce(cl, want...), "produce")
	got := t.read(topic, len(want), start)
	t.sameRecords(got, want)
	for i, r := range got {
		same(t, r.Offset, int64(i), "offset")
		same(t, r.Timestamp.UnixMilli(), want[i].Timestamp.UnixMilli(), "timestamp")
	}
}

func sizes(t *T) {
	topic := t.create("sizes", 1, map[string]string{"max.message.bytes": "3000000"})
	var want []*kgo.Record
	for _, n := range []int{1, 2, 10, 100, 1000, 10_000, 100_000, 1_000_000, 1<<20 - 1, 1 << 20} {
		want = append(want, &kgo.Record{Topic: topic, Value: payload(int64(n), n)})
	}
	for _, c := range []kgo.CompressionCodec{kgo.NoCompression(), kgo.ZstdCompression()} {
		cl := t.producer(kgo.ProducerBatchCompression(c))
		t.ok(t.produce(cl, want...), "produce")
		cl.Close()
	}
	t.sameRecords(t.read(topic, 2*len(want), start), append(want, want...))
}

func nulls(t *T) {
	topic := t.create("nulls", 1, nil)
	h := func(key string, value []byte) []kgo.RecordHeader { return []kgo.RecordHeader{{Key: key, Value: value}} }
	want := []*kgo.Record{{}, {Key: []byte("k")}, {Value: []byte("v")}, {Key: []byte{}, Value: []byte{}}, {Key: []byte{}}, {Value: []byte{}},
		{Headers: h("null", nil)}, {Headers: h("empty", []byte{})}, {Headers: h("", []byte("no name"))}, {Headers: h("binary", []byte{0, 255, 10, 13})},
		{Headers: []kgo.RecordHeader{{Key: "a", Value: []byte("1")}, {Key: "a", Value: []byte("2")}, {Key: "a", Value: []byte("1")}}}}
	for _, r := range want {
		r.Topic = topic
	}
	cl := t.producer()
	defer cl.Close()
	t.ok(t.produce(cl, want...), "produce")
	t.sameRecords(t.read(topic, len(want), start), want)
}

func timestamps(t *T) {
	topic := t.create("timestamps", 1, nil)
	times := []int64{1, 1_000_000_000_000, 1_700_000_000_123, 1_600_000_000_000, time.Now().UnixMilli()}
	cl := t.producer()
	defer cl.Close()
	for _, at := range times {
		t.ok(t.produce(cl, &kgo.Record{Topic: topic, Timestamp: time.UnixMilli(at)}), "produce")
	}
	for i, r := range t.read(topic, len(times), start) {
		same(t, r.Timestamp.UnixMilli(), times[i], "timestamp")
		same(t, r.Attrs.TimestampType(), 0, "timestamp type")
	}
}

func logAppendTime(t *T) {
	topic := t.create("append-time", 1, map[string]string{"message.timestamp.type": "LogAppendTime"})
	before := time.Now().UnixMilli()
	for _, c := range []kgo.CompressionCodec{kgo.NoCompression(), kgo.Lz4Compression()} {
		cl := t.producer(kgo.ProducerBatchCompression(c))
		for i := 0; i < 5; i++ {
			t.ok(t.produce(cl, &kgo.Record{Topic: topic, Value: payload(1, 200), Timestamp: time.UnixMilli(1_500_000_000_000)}), "produce")
		}
		cl.Close()
	}
	for _, r := range t.read(topic, 10, start) {
		same(t, r.Attrs.TimestampType(), 1, "timestamp type")
		at := r.Timestamp.UnixMilli()
		t.check(before-1 <= at && at <= time.Now().UnixMilli()+1, "timestamp %d", at)
	}
}

func withAcks(t *T, acks kgo.Acks) {
	topic := t.create("acks", 1, nil)
	cl := t.producer(kgo.RequiredAcks(acks), kgo.DisableIdempotentWrite())
	defer cl.Close()
	var want []*kgo.Record
	for i := range 300 {
		want = append(want, &kgo.Record{Topic: topic, Value: fmt.Appendf(nil, "%d", i)})
	}
	t.ok(t.produce(cl, want...), "produce")
	t.sameRecords(t.read(topic, 300, start), want)
}

func idempotent(t *T) {
	topic := t.create("idempotent", 3, nil)
	cl := t.producer()
	defer cl.Close()
	count := 3000
	if smoke {
		count = 300
	}
	for i := range count {
		cl.Produce(t, &kgo.Record{Topic: topic, Partition: int32(i % 3), Value: fmt.Appendf(nil, "%d", i)}, func(r *kgo.Record, err error) {
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
		})
	}
	t.ok(cl.Flush(t), "flush")
	got := t.read(topic, count, map[int32]int64{0: 0, 1: 0, 2: 0})
	for p := range int32(3) {
		for i, r := range of(got, p) {
			same(t, r.Offset, int64(i), "offset")
			same(t, string(r.Value), fmt.Sprint(i*3+int(p)), "value")
		}
	}
}

func keys(t *T) {
	topic := t.create("keys", 5, nil)
	cl := t.client() // the default partitioner places keys as the Java client does
	defer cl.Close()
	placed := map[string]int32{"key-0": 3, "key-1": 0, "key-2": 1, "key-3": 4}
	seen := map[string]int32{}
	for i := range 100 {
		r := &kgo.Record{Topic: topic, Key: fmt.Appendf(nil, "key-%d", i%20)}
		t.ok(t.produce(cl, r), "produce")
		if p, known := seen[string(r.Key)]; known {
			same(t, r.Partition, p, "partition of "+string(r.Key))
		}
		seen[string(r.Key)] = r.Partition
	}
	for k := range placed {
		same(t, seen[k], murmur2Partition([]byte(k), 5), "partition of "+k)
	}
	same(t, len(t.read(topic, 100, map[int32]int64{0: 0, 1: 0, 2: 0, 3: 0, 4: 0})), 100, "records")
}

func murmur2Partition(key []byte, partitions int32) int32 {
	const m = uint32(0x5bd1e995)
	h := uint32(0x9747b28c) ^ uint32(len(key))
	for ; len(key) >= 4; key = key[4:] {
		k := (uint32(key[0]) | uint32(key[1])<<8 | uint32(key[2])<<16 | uint32(key[3])<<24) * m
		h = h*m ^ (k^k>>24)*m
	}
	for i := len(key) - 1; i >= 0; i-- {
		h ^= uint32(key[i]) << (8 * i)
	}
	if len(key) > 0 {
		h *= m
	}
	h = (h ^ h>>13) * m
	return int32((h^h>>15)&0x7fffffff) % partitions
}

func tooLarge(t *T) {
	topic := t.create("too-large", 1, map[string]string{"max.message.bytes": "10000"})
	cl := t.producer(kgo.ProducerBatchCompression(kgo.NoCompression()))
	defer cl.Close()
	err := t.produce(cl, &kgo.Record{Topic: topic, Value: payload(1, 20_000)})
	t.check(errors.Is(err, kerr.MessageTooLarge), "error: %v", err)
	t.ok(t.produce(cl, &kgo.Record{Topic: topic, Value: payload(1, 9_000)}), "a smaller record")
}

func unknownTopic(t *T) {
	cl := t.producer(kgo.UnknownTopicRetries(2))
	defer cl.Close()
	err := t.produce(cl, &kgo.Record{Topic: topicName("unknown"), Value: []byte("v")})
	t.check(errors.Is(err, kerr.UnknownTopicOrPartition), "error: %v", err)
}

func autoCreation(t *T) {
	topic := topicName("auto")
	cl := t.client(kgo.AllowAutoTopicCreation())
	defer cl.Close()
	t.ok(t.produce(cl, &kgo.Record{Topic: topic, Value: []byte("v")}), "produce")
	t.sameValues(t.read(topic, 1, start), []string{"v"})
}

// longPoll checks that a waiting reader gets a record long before its maximum wait.
func longPoll(t *T) {
	topic := t.create("long-poll", 1, nil)
	cl, wait := t.producer(), 30*time.Second
	defer cl.Close()
	r := t.reader(topic, start, kgo.FetchMaxWait(wait))
	defer r.Close()
	events := make(chan string, 3)
	go func() {
		events <- "waits"
		events <- string(t.readOn(r, 1)[0].Value)
	}()
	same(t, <-events, "waits", "event")
	time.Sleep(time.Second)
	same(t, len(events), 0, "records before the send")
	sent := time.Now()
	t.ok(t.produce(cl, &kgo.Record{Topic: topic, Value: []byte("v")}), "produce")
	same(t, <-events, "v", "event")
	t.check(time.Since(sent) < wait/2, "the record came after %s", time.Since(sent))
}

// sessions checks that an incremental fetch session loses nothing.
func sessions(t *T) { manyPartitions(t) }

func noSessions(t *T) { manyPartitions(t, kgo.DisableFetchSessions()) }

func manyPartitions(t *T, opts ...kgo.Opt) {
	topic := t.create("sessions", 8, nil)
	from := map[int32]int64{}
	for p := range int32(8) {
		from[p] = 0
	}
	r, cl := t.reader(topic, from, append(opts, kgo.FetchMaxWait(200*time.Millisecond))...), t.producer()
	defer r.Close()
	defer cl.Close()
	want, got := map[int32][]string{}, map[int32][]string{}
	for turn, active := range [][]int32{{0, 3}, {3}, {}, {5, 0}, {7, 7, 7}, {0, 1, 2, 3, 4, 5, 6, 7}, {}, {6}} {
		for i, p := range active {
			v := fmt.Sprintf("%d/%d/%d", turn, p, i)
			t.ok(t.produce(cl, &kgo.Record{Topic: topic, Partition: p, Value: []byte(v)}), "produce")
			want[p] = append(want[p], v)
		}
		if len(active) == 0 {
			time.Sleep(500 * time.Millisecond)
			continue
		}
		for _, x := range t.readOn(r, len(active)) {
			got[x.Partition] = append(got[x.Partition], string(x.Value))
		}
	}
	same(t, fmt.Sprint(got), fmt.Sprint(want), "values")
}

func readWhileWriting(t *T) {
	topic, count := t.create("writing", 2, nil), 20_000
	if smoke {
		count = 2000
	}
	failures := make(chan error, 1)
	go func() {
		cl := t.producer()
		defer cl.Close()
		for i := range count {
			cl.Produce(t, &kgo.Record{Topic: topic, Partition: int32(i % 2), Value: fmt.Appendf(nil, "%d", i)}, nil)
		}
		failures <- cl.Flush(t)
	}()
	got := t.read(topic, count, map[int32]int64{0: 0, 1: 0})
	t.ok(<-failures, "flush")
	for p := range int32(2) {
		for i, r := range of(got, p) {
			same(t, r.Offset, int64(i), "offset")
			same(t, string(r.Value), fmt.Sprint(2*i+int(p)), "value")
		}
	}
}

func readCommitted(t *T) {
	topic := t.create("read-committed", 1, nil)
	cl := t.producer()
	defer cl.Close()
	t.ok(t.produce(cl, &kgo.Record{Topic: topic, Value: []byte("a")}, &kgo.Record{Topic: topic, Value: []byte("b")}), "produce")
	t.sameValues(t.read(topic, 2, start, kgo.FetchIsolationLevel(kgo.ReadCommitted())), []string{"a", "b"})
}

// restarts checks that the same producer and reader continue after the server stopped and started on the same
// port.
func restarts(t *T) {
	topic := t.create("restart", 1, nil)
	cl, r := t.producer(), t.reader(topic, start)
	defer cl.Close()
	defer r.Close()
	var want []string
	var got []*kgo.Record
	for turn := range 3 {
		if turn > 0 {
			t.server("restart", "TERM")
		}
		for i := range 200 {
			v := fmt.Sprintf("%d/%d", turn, i)
			want = append(want, v)
			cl.Produce(t, &kgo.Record{Topic: topic, Value: []byte(v)}, nil)
		}
		t.ok(cl.Flush(t), "flush")
		for len(got) < len(want) { // lost connections show as errors while the client reconnects
			fetches := r.PollFetches(t)
			t.ok(t.Err(), fmt.Sprintf("%d of %d records", len(got), len(want)))
			got = append(got, fetches.Records()...)
		}
	}
	t.sameValues(got, want)
	for i, x := range got {
		same(t, x.Offset, int64(i), "offset")
	}
}

func readLines(topic string, count int, more ...kgo.Opt) error {
	from := map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}
	cl, err := kgo.NewClient(append(more, kgo.SeedBrokers(bootstrap), kgo.ConsumePartitions(from))...)
	if err != nil {
		return err
	}
	defer cl.Close()
	out := bufio.NewWriterSize(os.Stdout, 1<<20)
	for count > 0 {
		fetches := cl.PollFetches(context.Background())
		if err := fetches.Err(); err != nil {
			return err
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if count > 0 {
				out.Write(r.Value)
				out.WriteByte('\n')
				count--
			}
		})
	}
	return out.Flush()
}
