package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	loadTopic, copiesTopic = "load", "copies"
	readersGroup           = "readers"
	registerGroup          = "register"
	copierGroup            = "copier"
	recordsPerTurn         = 6
	turn                   = 20 * time.Millisecond
	pollWait               = 200 * time.Millisecond
	flushMax               = 120 * time.Second
	transactionTimeout     = 10 * time.Second
	abortEvery             = 5
)

// load is everything that runs against the cluster. Each part counts its progress.
type load struct {
	judge     *judge
	seeds     []string
	state     string      // the folder of the run
	producing atomic.Bool // until the flush
	running   atomic.Bool // until all is closed
	producers sync.WaitGroup
	others    sync.WaitGroup
	mu        sync.Mutex
	progress  map[string]*atomic.Int64
	claims    claims
	notes     map[string]int
}

func newLoad(j *judge, seeds []string, state string) *load {
	l := &load{judge: j, seeds: seeds, state: state, progress: map[string]*atomic.Int64{}, notes: map[string]int{}}
	l.producing.Store(true)
	l.running.Store(true)
	return l
}

func (l *load) counter(name string) *atomic.Int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.progress[name] == nil {
		l.progress[name] = &atomic.Int64{}
	}
	return l.progress[name]
}

// note counts complaints of clients. They are not anomalies, because faults cause errors.
func (l *load) note(who string, err error) {
	if err == nil || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return
	}
	var lost *kgo.ErrDataLoss
	if errors.As(err, &lost) {
		l.judge.dataLoss(who, lost.Topic, lost.Partition, lost.ResetTo, lost.ConsumedTo)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.notes[who+": "+err.Error()]++
}

func (l *load) client(who string, more ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append(l.common(), more...)...)
}

func (l *load) common() []kgo.Opt {
	return []kgo.Opt{kgo.SeedBrokers(l.seeds...), kgo.MetadataMinAge(250 * time.Millisecond), kgo.FetchMaxWait(pollWait), kgo.DialTimeout(2 * time.Second),
		kgo.RetryBackoffFn(func(n int) time.Duration { return min(time.Duration(n)*50*time.Millisecond, time.Second) })}
}

func text(producer int, partition int32, sequence int) string {
	return fmt.Sprintf("%d.%d/%d", producer, partition, sequence)
}

// parse reads the name of a record. A wrong partition makes it a value that was never sent.
func parse(data string, partition int32) value {
	var v value
	var p int32
	if n, err := fmt.Sscanf(data, "%d.%d/%d", &v.producer, &p, &v.sequence); n != 3 || err != nil || p != partition {
		return value{nowhere, nowhere}
	}
	return v
}

func every(interval time.Duration, while *atomic.Bool, f func()) {
	for tick := time.NewTicker(interval); while.Load(); <-tick.C {
		f()
	}
}

// ---- the load topic ----

func (l *load) franzProducer(id int, rng *rand.Rand) error {
	who := fmt.Sprintf("producer %d", id)
	client, err := l.client(who, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.UnknownTopicRetries(-1), kgo.ProducerLinger(2*time.Millisecond),
		kgo.ProducerOnDataLossDetected(func(topic string, p int32) {
			l.judge.anomaly("client-sees-data-loss", "%s: %s-%d", who, topic, p)
		}))
	if err != nil {
		return err
	}
	done := l.counter(who)
	l.producers.Go(func() {
		defer client.Close()
		every(turn, &l.producing, func() {
			p := rng.Int31n(partitions)
			for range recordsPerTurn {
				sequence := l.judge.send(id, p)
				data := text(id, p, sequence) + strings.Repeat(".", rng.Intn(200))
				client.Produce(context.Background(), &kgo.Record{Topic: loadTopic, Partition: p, Value: []byte(data)}, func(r *kgo.Record, err error) {
					if err != nil {
						l.note(who, err)
						return
					}
					l.judge.answered(id, p, sequence, ok, r.Offset)
					done.Add(1)
				})
			}
		})
		ctx, cancel := context.WithTimeout(context.Background(), flushMax)
		defer cancel()
		if err := client.Flush(ctx); err != nil {
			l.judge.anomaly("stuck", "%s: %d records are not answered %v after healing", who, client.BufferedProduceRecords(), flushMax)
		}
	})
	return nil
}

// poller reads the load topic from its start, and starts over after `life`, if that is not 0.
func (l *load) poller(name string, life time.Duration) {
	done := l.counter(name)
	l.others.Go(func() {
		for round := 0; l.running.Load(); round++ {
			reader := fmt.Sprintf("%s.%d", name, round)
			client, err := l.client(reader, kgo.ConsumePartitions(whole(loadTopic)), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
			if err != nil {
				l.judge.anomaly("harness", "%s: %v", reader, err)
				return
			}
			began := time.Now()
			for l.running.Load() && (life == 0 || time.Since(began) < life) {
				done.Add(l.pollLoad(client, reader))
			}
			client.Close()
		}
	})
}

func whole(topic string) map[string]map[int32]kgo.Offset {
	of := map[int32]kgo.Offset{}
	for p := range int32(partitions) {
		of[p] = kgo.NewOffset().AtStart()
	}
	return map[string]map[int32]kgo.Offset{topic: of}
}

func (l *load) poll(client *kgo.Client, who string) kgo.Fetches {
	ctx, cancel := context.WithTimeout(context.Background(), 2*pollWait)
	defer cancel()
	fetches := client.PollRecords(ctx, 5000)
	for _, e := range fetches.Errors() {
		l.note(who, e.Err)
	}
	return fetches
}

func (l *load) pollLoad(client *kgo.Client, reader string) (count int64) {
	l.poll(client, reader).EachPartition(func(p kgo.FetchTopicPartition) {
		for _, r := range p.Records {
			l.judge.polled(reader, r.Partition, r.Offset, parse(string(r.Value), r.Partition))
			count++
		}
		if len(p.Records) > 0 {
			l.judge.highWatermark(reader, p.Partition, p.HighWatermark)
		}
	})
	return count
}

// ---- groups ----

// member reads in a group and commits what it has. With a life it leaves and comes back.
func (l *load) member(name string, life time.Duration) {
	done := l.counter(name)
	l.others.Go(func() {
		for l.running.Load() {
			var mu sync.Mutex
			var floors [partitions]int64
			client, err := l.client(name, kgo.ConsumerGroup(readersGroup), kgo.ConsumeTopics(loadTopic), kgo.DisableAutoCommit(), kgo.Balancers(kgo.RangeBalancer()),
				kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.BlockRebalanceOnPoll(), kgo.SessionTimeout(8*time.Second), kgo.HeartbeatInterval(500*time.Millisecond),
				kgo.OnPartitionsAssigned(func(context.Context, *kgo.Client, map[string][]int32) {
					mu.Lock()
					defer mu.Unlock()
					floors = l.judge.committedSoFar(readersGroup)
				}),
				kgo.OnOffsetsFetched(func(_ context.Context, _ *kgo.Client, response *kmsg.OffsetFetchResponse) error {
					mu.Lock()
					defer mu.Unlock()
					l.fetched(response, floors)
					return nil
				}))
			if err != nil {
				l.judge.anomaly("harness", "%s: %v", name, err)
				return
			}
			began := time.Now()
			for l.running.Load() && (life == 0 || time.Since(began) < life) {
				done.Add(l.pollAndCommit(client, name))
				client.AllowRebalance()
			}
			client.CloseAllowingRebalance()
		}
	})
}

func (l *load) fetched(response *kmsg.OffsetFetchResponse, floors [partitions]int64) {
	check := func(topic string, partition int32, offset int64, code int16) {
		if topic == loadTopic && code == 0 {
			l.judge.fetchedOffset(readersGroup, partition, max(offset, 0), floors[partition])
		}
	}
	for _, t := range response.Topics {
		for _, p := range t.Partitions {
			check(t.Topic, p.Partition, p.Offset, p.ErrorCode)
		}
	}
	for _, g := range response.Groups {
		for _, t := range g.Topics {
			for _, p := range t.Partitions {
				check(t.Topic, p.Partition, p.Offset, p.ErrorCode)
			}
		}
	}
}

func (l *load) pollAndCommit(client *kgo.Client, name string) int64 {
	records := l.poll(client, name).Records()
	if len(records) == 0 {
		return 0
	}
	last := map[int32]int64{}
	for _, r := range records {
		l.judge.processed(readersGroup, r.Partition, r.Offset)
		last[r.Partition] = r.Offset + 1
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := client.CommitRecords(ctx, records...); err != nil {
		l.note(name, err)
		return 0
	}
	for p, offset := range last {
		l.judge.committedOffset(readersGroup, p, offset)
	}
	return 1
}

// register commits rising offsets of a group without members, one after the other, and reads them back.
func (l *load) register() error {
	client, err := l.client("register")
	if err != nil {
		return err
	}
	admin, done := kadm.NewClient(client), l.counter("register")
	l.others.Go(func() {
		defer client.Close()
		next := int64(1)
		every(100*time.Millisecond, &l.running, func() {
			p := int32(next % partitions)
			var offsets kadm.Offsets
			offsets.AddOffset(loadTopic, p, next, -1)
			l.judge.committingOffset(registerGroup, p, next)
			ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
			defer cancel()
			answers, err := admin.CommitOffsets(ctx, registerGroup, offsets)
			if err == nil {
				err = answers.Error()
			}
			if err == nil {
				l.judge.committedOffset(registerGroup, p, next)
				done.Add(1)
			} else {
				l.note("register", err)
			}
			next++
			l.readRegister(ctx, admin)
		})
	})
	return nil
}

func (l *load) readRegister(ctx context.Context, admin *kadm.Client) {
	floors := l.judge.committedSoFar(registerGroup)
	answers, err := admin.FetchOffsets(ctx, registerGroup)
	if err == nil {
		err = answers.Error()
	}
	if err != nil {
		l.note("register", err)
		return
	}
	for p := range int32(partitions) {
		answer, _ := answers.Lookup(loadTopic, p)
		l.judge.fetchedOffset(registerGroup, p, max(answer.At, 0), floors[p])
	}
}

// ---- transactions ----

// copier copies the load topic to the copies topic: each transaction has records in several partitions, and
// the offsets of the input.
func (l *load) copier(number int) {
	who := fmt.Sprintf("copier %d", number)
	done := l.counter(who)
	l.others.Go(func() {
		for l.running.Load() {
			session, err := kgo.NewGroupTransactSession(append(l.common(), kgo.ConsumerGroup(copierGroup), kgo.ConsumeTopics(loadTopic),
				kgo.TransactionalID(fmt.Sprintf("copier-%d", number)), kgo.TransactionTimeout(transactionTimeout), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
				kgo.RequireStableFetchOffsets(), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.UnknownTopicRetries(-1), kgo.Balancers(kgo.CooperativeStickyBalancer()),
				kgo.SessionTimeout(8*time.Second), kgo.HeartbeatInterval(500*time.Millisecond), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))...)
			if err != nil {
				l.judge.anomaly("harness", "%s: %v", who, err)
				return
			}
			for number := 1; l.running.Load(); number++ {
				committed, err := l.copyOnce(session, who, number%abortEvery != 0)
				done.Add(int64(committed))
				if err != nil {
					l.note(who, err)
					break
				}
			}
			session.Close()
		}
	})
}

// copyOnce makes one transaction. After an error the session is of no more use.
func (l *load) copyOnce(session *kgo.GroupTransactSession, who string, commit bool) (int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*pollWait)
	fetches := session.PollRecords(ctx, 200)
	cancel()
	for _, e := range fetches.Errors() {
		l.note(who, e.Err)
	}
	records := fetches.Records()
	if len(records) == 0 {
		return 0, nil
	}
	if err := session.Begin(); err != nil {
		return 0, err
	}
	txn := l.judge.begin(who)
	var broken atomic.Bool
	for _, r := range records {
		n := l.judge.copied(txn, r.Partition, r.Offset)
		p := int32((int64(r.Partition) + r.Offset) % partitions)
		session.Produce(context.Background(), &kgo.Record{Topic: copiesTopic, Partition: p, Key: []byte(text(txn, p, n)), Value: []byte(text(txn, p, n))}, func(_ *kgo.Record, err error) {
			if err != nil {
				broken.Store(true)
				l.note(who, err)
			}
		})
	}
	ctx, cancel = context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	if err := session.Client().Flush(ctx); err != nil {
		return 0, err
	}
	commit = commit && !broken.Load()
	if commit {
		l.judge.committing(txn, time.Now())
	}
	committed, err := session.End(ctx, kgo.TransactionEndTry(commit))
	switch {
	case err != nil:
		return 0, err
	case committed:
		l.judge.ended(txn, ok)
		return 1, nil
	default:
		l.judge.ended(txn, failed)
		return 0, nil
	}
}

func (l *load) copiesReader(name string, life time.Duration) {
	done := l.counter(name)
	l.others.Go(func() {
		for round := 0; l.running.Load(); round++ {
			reader := fmt.Sprintf("%s.%d", name, round)
			client, err := l.client(reader, kgo.ConsumePartitions(whole(copiesTopic)), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
			if err != nil {
				l.judge.anomaly("harness", "%s: %v", reader, err)
				return
			}
			began := time.Now()
			for l.running.Load() && (life == 0 || time.Since(began) < life) {
				done.Add(l.pollCopies(client, reader, nil))
			}
			client.Close()
		}
	})
}

func (l *load) pollCopies(client *kgo.Client, reader string, at *[partitions]int64) (count int64) {
	fetches := l.poll(client, reader)
	now := time.Now()
	fetches.EachRecord(func(r *kgo.Record) {
		if at != nil {
			at[r.Partition] = r.Offset
		}
		if !r.Attrs.IsControl() {
			l.judge.polledCopy(reader, r.Partition, r.Offset, parse(string(r.Value), r.Partition), now)
			count++
		}
	})
	return count
}
