// The main job of the NATS front, run by interop/nats-mainjob.sh. NATS clients publish at full speed to
// subjects that a topic captures, wildcard subscriptions come and go meanwhile, and a Kafka client reads the
// topic.
//
//	natsjob -nats ADDR -kafka ADDR -messages N -subscriptions S < SUBJECTS
//
// Each subject belongs to one publisher, so that its messages have an order. Publisher and Kafka consumer
// keep, for each subject, a count and a checksum over all payloads in their order. The two must agree. Every
// wildcard subscription checks that its messages match its pattern and come in order, without a gap between
// its first and its last of each subject.
package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"hash/crc32"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	topic      = "mainjob"
	prefix     = "job"
	partitions = 4
	publishers = 4
	// A Kafka client that receives nothing for this long has received everything.
	patience = 60 * time.Second
)

var (
	natsAddr      = flag.String("nats", "127.0.0.1:4222", "address of the NATS front")
	kafkaAddr     = flag.String("kafka", "127.0.0.1:9092", "bootstrap address")
	messages      = flag.Int("messages", 10_000_000, "messages, all publishers together")
	subscriptions = flag.Int("subscriptions", 1000, "wildcard subscriptions that come and go")
	table         = crc32.MakeTable(crc32.Castagnoli)
	failed        atomic.Bool
)

// tally is the count of messages of one subject, and a checksum over them in their order.
type tally struct {
	count uint64
	sum   uint32
}

func (t *tally) add(payload []byte) {
	t.sum = crc32.Update(t.sum, table, payload)
	t.count++
}

func must(err error, what string) {
	if err != nil {
		fmt.Printf("FAIL natsjob: %s: %v\n", what, err)
		os.Exit(1)
	}
}

func verdict(good bool, format string, a ...any) {
	word := "PASS"
	if !good {
		word = "FAIL"
		failed.Store(true)
	}
	fmt.Printf("%s natsjob: %s\n", word, fmt.Sprintf(format, a...))
}

// payload returns payload number n of a subject: its number, then bytes that depend on both, with a length
// that does too.
func payload(out []byte, subject int, n uint64) []byte {
	out = binary.BigEndian.AppendUint64(out[:0], n)
	mixed := (uint64(subject)*0x9E3779B97F4A7C15 ^ n) * 0xD1342543DE82EF95
	for range 1 + mixed>>60 {
		mixed = mixed*6364136223846793005 + 1442695040888963407
		out = binary.LittleEndian.AppendUint64(out, mixed)
	}
	return out
}

func main() {
	flag.Parse()
	subjects := readSubjects()
	if *kafkaAddr == "" { // only the NATS half, to see how another server does
		stop := make(chan struct{})
		churned := startChurn(subjects, stop)
		began := time.Now()
		publish(subjects)
		fmt.Printf("%d messages published in %.1f s\n", *messages, time.Since(began).Seconds())
		close(stop)
		churned.wait()
		return
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(*kafkaAddr), kgo.ConsumePartitions(beginnings()), kgo.FetchMaxBytes(32<<20), kgo.FetchMaxPartitionBytes(8<<20))
	must(err, "Kafka client")
	defer client.Close()
	filter := prefix + ".>"
	_, err = kadm.NewClient(client).CreateTopic(context.Background(), partitions, 1, map[string]*string{"tailrace.subjects": &filter}, topic)
	must(err, "create the topic")

	stop := make(chan struct{})
	churned := startChurn(subjects, stop)
	read := make(chan map[string]*tally, 1)
	go func() { read <- consume(client) }()
	began := time.Now()
	sent := publish(subjects)
	fmt.Printf("%d messages published in %.1f s\n", *messages, time.Since(began).Seconds())
	got := <-read
	fmt.Printf("all of them read through Kafka after %.1f s\n", time.Since(began).Seconds())
	close(stop)
	churned.wait()
	compare(subjects, sent, got)
	if failed.Load() {
		os.Exit(1)
	}
}

func readSubjects() []string {
	var out []string
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		if strings.Contains(lines.Text(), ".") { // a crate and something in it
			out = append(out, prefix+"."+lines.Text())
		}
	}
	must(lines.Err(), "read the subjects")
	if len(out) < publishers {
		must(fmt.Errorf("%d", len(out)), "too few subjects")
	}
	// The same number for each publisher.
	out = out[:len(out)/publishers*publishers]
	fmt.Printf("%d subjects, for instance %s\n", len(out), out[len(out)/2])
	return out
}

func beginnings() map[string]map[int32]kgo.Offset {
	offsets := map[int32]kgo.Offset{}
	for p := range int32(partitions) {
		offsets[p] = kgo.NewOffset().AtStart()
	}
	return map[string]map[int32]kgo.Offset{topic: offsets}
}

// publish sends all messages round robin over the subjects. Publisher p has every fourth subject.
func publish(subjects []string) []tally {
	sent := make([]tally, len(subjects))
	var group sync.WaitGroup
	for p := range publishers {
		group.Add(1)
		go func() {
			defer group.Done()
			nc, err := nats.Connect(*natsAddr, nats.Timeout(10*time.Second), nats.NoReconnect())
			must(err, "connect a publisher")
			defer nc.Close()
			var buffer []byte
			for i := p; i < *messages; i += publishers {
				subject := i % len(subjects)
				buffer = payload(buffer, subject, sent[subject].count)
				sent[subject].add(buffer)
				must(nc.Publish(subjects[subject], buffer), "publish")
			}
			must(nc.FlushTimeout(patience), "flush")
		}()
	}
	group.Wait()
	return sent
}

// consume reads until there are as many records as messages.
func consume(client *kgo.Client) map[string]*tally {
	got, records, wrong := map[string]*tally{}, 0, 0
	for records < *messages {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		fetches := client.PollFetches(ctx)
		cancel()
		if err := fetches.Err0(); err != nil {
			verdict(false, "Kafka: %d of %d records: %v", records, *messages, err)
			break
		}
		fetches.EachError(func(_ string, p int32, err error) { must(err, fmt.Sprintf("fetch from partition %d", p)) })
		fetches.EachRecord(func(r *kgo.Record) {
			records++
			mine := got[string(r.Key)]
			if mine == nil {
				mine = &tally{}
				got[string(r.Key)] = mine
			}
			if len(r.Value) < 8 || binary.BigEndian.Uint64(r.Value) != mine.count {
				if wrong++; wrong <= 5 {
					fmt.Printf("%s: message %d came as number %d\n", r.Key, binary.BigEndian.Uint64(r.Value), mine.count)
				}
			}
			mine.add(r.Value)
		})
	}
	verdict(wrong == 0, "each subject's records are in order (%d are not)", wrong)
	return got
}

func compare(subjects []string, sent []tally, got map[string]*tally) {
	used, different := 0, 0
	for i, subject := range subjects {
		if sent[i].count == 0 {
			continue
		}
		used++
		if there := got[subject]; there == nil || *there != sent[i] {
			if different++; different <= 5 {
				fmt.Printf("%s: sent %+v, read %+v\n", subject, sent[i], there)
			}
		}
	}
	verdict(different == 0, "counts and checksums agree for %d subjects (%d differ)", used, different)
	verdict(len(got) == used, "no other subjects are in the topic: %d, published to %d", len(got), used)
}
