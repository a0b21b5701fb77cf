package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Kafka's own system-test clients replace the others (--java): VerifiableProducer, VerifiableConsumer of both
// protocols, VerifiableShareConsumer and TransactionalMessageCopier, from its jars. Each prints what it has
// seen as lines of JSON, which ledger.go judges. They are stopped and killed while they work, and start
// again.

const (
	sourceTopic, verifiedTopic = "source", "verified"
	classicVerifiers           = "classic-verifiers"
	consumerVerifiers          = "consumer-verifiers"
	shareVerifiers             = "share-verifiers"
	copyVerifiers              = "copy-verifiers"
	membersOfEach              = 2
	sourcePerSecond            = 100
	producerLife               = 40 * time.Second
	clientLife                 = 25 * time.Second
	catchUpMax                 = 80 * time.Second // more than the 45 s of a session; with endMax no more than flushMax
	endMax                     = 40 * time.Second // from SIGTERM on; a consumer takes 30 s without an answer
)

var javaGroups = []string{classicVerifiers, consumerVerifiers, copyVerifiers}

// event is one line that a client prints. Each field may be missing.
type event struct {
	Timestamp  int64    `json:"timestamp"` // in ms
	Name       string   `json:"name"`
	Stage      string   `json:"stage"` // of a copier
	Processed  int64    `json:"totalProcessed"`
	Value      string   `json:"value"`
	Partition  int32    `json:"partition"`
	Offset     int64    `json:"offset"`
	Success    bool     `json:"success"`
	Message    string   `json:"message"`
	Error      string   `json:"error"`
	Partitions []report `json:"partitions"`
	Committed  []report `json:"offsets"`
}

// report is the part of an event about one partition: an offset, the first and last of a batch, or each.
type report struct {
	Partition int32   `json:"partition"`
	Offset    int64   `json:"offset"`
	Min       int64   `json:"minOffset"`
	Max       int64   `json:"maxOffset"`
	Offsets   []int64 `json:"offsets"`
}

type javaLoad struct {
	*load
	ledger   *ledger
	libs     string
	caughtUp atomic.Bool // all that was produced has been consumed, shared and copied
}

func startJava(o options, l *load, g *ledger) error {
	v := &javaLoad{load: l, ledger: g, libs: o.java}
	if err := os.WriteFile(v.producerConfig(), []byte("delivery.timeout.ms=300000\n"), 0o644); err != nil {
		return err
	}
	rng := rand.New(rand.NewSource(o.seed))
	v.producer(rand.New(rand.NewSource(rng.Int63())))
	for member := 1; member <= membersOfEach; member++ {
		v.consumer(classicVerifiers, member, rand.New(rand.NewSource(rng.Int63())), "--group-protocol", "CLASSIC", "--session-timeout", "10000")
		v.consumer(consumerVerifiers, member, rand.New(rand.NewSource(rng.Int63())), "--group-protocol", "CONSUMER")
		v.sharer(member, rand.New(rand.NewSource(rng.Int63())))
		v.copier(member, rand.New(rand.NewSource(rng.Int63())))
	}
	v.others.Go(v.untilCaughtUp)
	return nil
}

func (v *javaLoad) producerConfig() string { return filepath.Join(v.state, "producer.properties") }

// producer sends numbers. When its life ends, it is asked to stop, and reports everything that it has sent.
// The next one has a prefix of its own.
func (v *javaLoad) producer(rng *rand.Rand) {
	done := v.counter("VerifiableProducer")
	v.producers.Go(func() {
		for generation := 1; v.producing.Load(); generation++ {
			until, kill := time.Now().Add(lifeOf(producerLife, rng)), rng.Intn(2) == 0
			over := func() (bool, bool) {
				last := !v.producing.Load()
				return last || time.Now().After(until), kill && !last
			}
			v.run("VerifiableProducer", over, func(e event) {
				switch e.Name {
				case "producer_send_success":
					v.ledger.acked(e.Partition, e.Offset, e.Value)
					done.Add(1)
				case "producer_send_error":
					v.note("VerifiableProducer", fmt.Errorf("%s", e.Message))
				}
			}, "VerifiableProducer", "--bootstrap-server", v.bootstrap(), "--topic", sourceTopic, "--acks", "-1", "--throughput", fmt.Sprint(sourcePerSecond),
				"--value-prefix", fmt.Sprint(generation), "--repeating-keys", "32", "--command-config", v.producerConfig())
		}
	})
}

func (v *javaLoad) consumer(group string, member int, rng *rand.Rand, more ...string) {
	who := fmt.Sprintf("%s member %d", group, member)
	done := v.counter(group)
	v.members(who, rng, func(e event) {
		switch e.Name {
		case "partitions_assigned":
			v.ledger.assigned(who, group, e.Partitions)
		case "partitions_revoked":
			v.ledger.revoked(who, e.Partitions)
		case "record_data":
			v.ledger.consumed(group, e.Partition, e.Offset, e.Value)
			done.Add(1)
		case "records_consumed":
			for _, p := range e.Partitions {
				v.ledger.advanced(who, group, p.Partition, p.Min, p.Max)
			}
		case "offsets_committed":
			if !e.Success {
				v.note(who, fmt.Errorf("a commit failed: %s", e.Error))
				return
			}
			for _, p := range e.Committed {
				v.judge.committedOffset(group, p.Partition, p.Offset)
			}
		}
	}, "VerifiableConsumer", append([]string{"--bootstrap-server", v.bootstrap(), "--topic", sourceTopic, "--group-id", group, "--verbose"}, more...)...)
}

func (v *javaLoad) sharer(member int, rng *rand.Rand) {
	who := fmt.Sprintf("%s member %d", shareVerifiers, member)
	done := v.counter(shareVerifiers)
	v.members(who, rng, func(e event) {
		switch e.Name {
		case "record_data":
			v.ledger.delivered(who, e.Partition, e.Offset, e.Value, e.Timestamp)
		case "offsets_acknowledged":
			if !e.Success {
				v.note(who, fmt.Errorf("an acknowledgement failed: %s", e.Error))
				v.ledger.unsure(who)
				return
			}
			for _, p := range e.Partitions {
				for _, offset := range p.Offsets {
					v.ledger.accepted(p.Partition, offset, e.Timestamp)
					done.Add(1)
				}
			}
		}
	}, "VerifiableShareConsumer", "--bootstrap-server", v.bootstrap(), "--topic", sourceTopic, "--group-id", shareVerifiers, "--acknowledgement-mode", "sync",
		"--offset-reset-strategy", "earliest", "--verbose")
}

// copier copies what exists when it starts, ends by itself, and starts again under its transactional id.
func (v *javaLoad) copier(member int, rng *rand.Rand) {
	who := fmt.Sprintf("%s member %d", copyVerifiers, member)
	done := v.counter(copyVerifiers)
	before := int64(0)
	v.members(who, rng, func(e event) {
		if e.Processed < before {
			before = 0
		}
		done.Add(e.Processed - before)
		before = e.Processed
	}, "TransactionalMessageCopier", "--broker-list", v.bootstrap(), "--input-topic", sourceTopic, "--input-partition", "0", "--output-topic", verifiedTopic,
		"--consumer-group", copyVerifiers, "--transaction-size", "50", "--transaction-timeout", fmt.Sprint(transactionTimeout.Milliseconds()),
		"--transactional-id", fmt.Sprintf("copier-%d", member), "--enable-random-aborts", "--group-mode", "--use-group-metadata")
}

// members keeps one client alive until all is caught up: one life after the other, each ended by SIGTERM or
// by SIGKILL.
func (v *javaLoad) members(who string, rng *rand.Rand, hear func(event), class string, arguments ...string) {
	v.others.Go(func() {
		for !v.caughtUp.Load() {
			until, kill := time.Now().Add(lifeOf(clientLife, rng)), rng.Intn(2) == 0
			// Once production has ended, no client is disturbed.
			over := func() (bool, bool) {
				disturbed := v.producing.Load() && time.Now().After(until)
				return disturbed || v.caughtUp.Load(), disturbed && kill
			}
			v.ledger.begins(who)
			v.run(who, over, hear, class, arguments...)
		}
	})
}

// lifeOf returns between a half and one and a half of the usual length.
func lifeOf(usual time.Duration, rng *rand.Rand) time.Duration {
	return usual/2 + time.Duration(rng.Int63n(int64(usual)))
}

func (v *javaLoad) bootstrap() string { return strings.Join(v.seeds, ",") }

// run runs one of Kafka's classes until it ends by itself, or until over says so. Then it is asked to end, or
// killed.
func (v *javaLoad) run(who string, over func() (end, kill bool), hear func(event), class string, arguments ...string) {
	command := exec.Command("java", append([]string{"-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.io.tmpdir=" + v.state,
		"-cp", v.libs + "/*", "org.apache.kafka.tools." + class}, arguments...)...)
	log, err := os.OpenFile(filepath.Join(v.state, "java.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		v.judge.anomaly("harness", "%v", err)
		return
	}
	defer log.Close()
	command.Stderr = log
	out, err := command.StdoutPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		v.judge.anomaly("harness", "%s: %v", who, err)
		return
	}
	pid := filepath.Join(v.state, fmt.Sprintf("java-%d.pid", command.Process.Pid))
	if err := os.WriteFile(pid, []byte(fmt.Sprint(command.Process.Pid)), 0o644); err != nil {
		v.judge.anomaly("harness", "%v", err)
	}
	defer os.Remove(pid)
	ended, watched := make(chan bool), make(chan bool)
	go func() {
		defer close(watched)
		v.watch(who, command.Process, over, ended)
	}()
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			v.note(who, fmt.Errorf("says %.200q", lines.Text()))
			continue
		}
		hear(e)
	}
	err = command.Wait()
	close(ended)
	<-watched
	if end, _ := over(); err != nil && !end {
		v.note(who, fmt.Errorf("ended: %v", err))
	}
}

// watch ends a process when over says so.
func (v *javaLoad) watch(who string, process *os.Process, over func() (end, kill bool), ended chan bool) {
	for {
		select {
		case <-ended:
			return
		case <-time.After(turn):
		}
		switch end, kill := over(); {
		case end && kill:
			process.Kill()
			return
		case end:
			process.Signal(syscall.SIGTERM)
			select {
			case <-ended:
			case <-time.After(endMax):
				process.Kill()
				if !v.producing.Load() {
					v.judge.anomaly("stuck", "%s does not end within %v of SIGTERM, after healing", who, endMax)
				}
			}
			return
		}
	}
}

// untilCaughtUp waits, after production has ended, until every group has everything.
func (v *javaLoad) untilCaughtUp() {
	every(turn, &v.running, func() {})
	defer v.caughtUp.Store(true)
	client, err := v.client("ends")
	if err != nil {
		v.judge.anomaly("harness", "%v", err)
		return
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	began := time.Now()
	for {
		missing := v.missing(admin)
		if missing == "" {
			return
		}
		if time.Since(began) > catchUpMax {
			v.judge.anomaly("stuck", "%v after the last record, %s", catchUpMax, missing)
			return
		}
		time.Sleep(500 * time.Millisecond)
	}
}

// missing says what is behind. It is empty if nothing is.
func (v *javaLoad) missing(admin *kadm.Client) string {
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	ends, err := endsOf(ctx, admin, sourceTopic)
	if err != nil {
		return err.Error()
	}
	for _, group := range javaGroups {
		committed, err := groupOffsets(ctx, admin, group, sourceTopic)
		if err != nil {
			return err.Error()
		}
		for p := range ends {
			if committed[p] < ends[p] {
				return fmt.Sprintf("group %s has committed %d of %d records of partition %d", group, committed[p], ends[p], p)
			}
		}
	}
	return v.ledger.notAccepted(ends)
}

// judgeJava reads both topics from start to end and judges them.
func judgeJava(ctx context.Context, l *load, g *ledger, admin *kadm.Client) error {
	ends, err := endsOf(ctx, admin, sourceTopic)
	if err != nil {
		return err
	}
	source, err := wholeOf(ctx, l, sourceTopic, ends)
	if err != nil {
		return err
	}
	if ends, err = endsOf(ctx, admin, verifiedTopic); err != nil {
		return err
	}
	verified, err := wholeOf(ctx, l, verifiedTopic, ends)
	if err != nil {
		return err
	}
	fmt.Printf("  %s: %d records; %s: %d\n", sourceTopic, count(source), verifiedTopic, count(verified))
	g.judgeSource(source)
	g.judgeCopies(source, verified)
	for _, group := range javaGroups {
		if group == copyVerifiers { // judged by what it has copied
			continue
		}
		offsets, err := groupOffsets(ctx, admin, group, sourceTopic)
		if err != nil {
			return err
		}
		l.judge.judgeGroup(group, offsets)
	}
	return nil
}

func count(values [partitions][]string) (all int) {
	for _, of := range values {
		all += len(of)
	}
	return all
}

func endsOf(ctx context.Context, admin *kadm.Client, topic string) (ends [partitions]int64, err error) {
	answers, err := admin.ListEndOffsets(ctx, topic)
	if err == nil {
		err = answers.Error()
	}
	for p := range int32(partitions) {
		answer, _ := answers.Lookup(topic, p)
		ends[p] = answer.Offset
	}
	return ends, err
}

// wholeOf returns the committed records of a topic, by partition. The last record of one may be a marker.
func wholeOf(ctx context.Context, l *load, topic string, ends [partitions]int64) (values [partitions][]string, err error) {
	client, err := l.client("last", kgo.ConsumePartitions(whole(topic)), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords())
	if err != nil {
		return values, err
	}
	defer client.Close()
	var at [partitions]int64
	for at != ends {
		l.poll(client, "last").EachRecord(func(r *kgo.Record) {
			at[r.Partition] = r.Offset + 1
			if !r.Attrs.IsControl() {
				values[r.Partition] = append(values[r.Partition], string(r.Value))
			}
		})
		if ctx.Err() != nil {
			return values, fmt.Errorf("%s: readers of committed records get to %v of %v", topic, at, ends)
		}
	}
	return values, nil
}
