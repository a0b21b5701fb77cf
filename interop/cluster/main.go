// Three real nodes under faults: cluster --binary FILE --state FOLDER [--minutes M] [--seed N] [--faults
// LIST] [--failover ROUNDS].
//
// Run by interop/cluster.sh, which says what is proved.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"math/rand"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	franzProducers = 3
	recoverMax     = 60 * time.Second
	readMax        = 5 * time.Minute
	// The size of a node's disk, if disks are filled: room for the records that the judge needs, which grow with
	// time.
	diskBytes          = 512 << 20
	diskBytesPerMinute = 16 << 20
	notesMax           = 12
)

type options struct {
	binary, state, python, script string
	java                          string // Kafka's jars, if its clients are the load
	minutes                       float64
	seed                          int64
	faults                        []string
	failover                      int
	set                           []string
	compact, claims               bool
}

func main() {
	var o options
	var faults, set string
	flag.StringVar(&o.binary, "binary", "", "tailrace")
	flag.StringVar(&o.state, "state", "", "folder for data and logs")
	flag.StringVar(&o.python, "python", "python3", "with confluent-kafka")
	flag.StringVar(&o.script, "script", "librdkafka.py", "the librdkafka clients")
	flag.StringVar(&o.java, "java", "", "a folder with Kafka's jars: its system-test clients are the load")
	flag.Float64Var(&o.minutes, "minutes", 1, "time of faults")
	flag.Int64Var(&o.seed, "seed", 1, "decides the schedule")
	flag.StringVar(&faults, "faults", strings.Join(usual, ","), "which kinds")
	flag.IntVar(&o.failover, "failover", 0, "kill leaders so many times, and measure")
	flag.StringVar(&set, "set", "", "settings of the nodes, KEY=VALUE, separated by commas")
	flag.BoolVar(&o.compact, "compact", false, "the topic of copies is compacted")
	flag.BoolVar(&o.claims, "claims", false, "topics are created and deleted, too, and porcupine judges the answers")
	flag.Parse()
	o.faults = strings.Split(faults, ",")
	for _, kind := range o.faults {
		if _, known := kinds()[kind]; !known {
			fmt.Fprintf(os.Stderr, "no fault %q; expected one of %s, disk and rot\n", kind, strings.Join(usual, ", "))
			os.Exit(2)
		}
	}
	if set != "" {
		o.set = strings.Split(set, ",")
	}
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(o options) error {
	j := newJudge()
	if slices.Contains(o.faults, "disk") {
		if err := mountDisks(o.state, o.minutes); err != nil {
			return err
		}
	}
	var arguments []string
	for _, s := range o.set {
		arguments = append(arguments, "--set", s)
	}
	c, err := startCluster(o.binary, o.state, arguments, func(format string, a ...any) { j.anomaly("node-ended", format, a...) })
	if c != nil {
		defer c.killAll()
	}
	if err != nil {
		return err
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		<-stop
		c.killAll()
		os.Exit(130)
	}()
	if err := createTopics(c.seeds(), o.compact); err != nil {
		return err
	}
	if o.failover > 0 {
		return failover(c, o.failover, o.seed)
	}
	return faults(o, c, j)
}

func createTopics(seeds []string, compact bool) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(seeds...))
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), recoverMax)
	defer cancel()
	admin := kadm.NewClient(client)
	for {
		answers, err := admin.CreateTopics(ctx, partitions, nodeCount, nil, loadTopic, sourceTopic, verifiedTopic)
		if err == nil {
			err = answers.Error()
		}
		if err == nil {
			answers, err = admin.CreateTopics(ctx, partitions, nodeCount, copiesConfig(compact), copiesTopic)
		}
		if err == nil {
			err = answers.Error()
		}
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("the topics cannot be created: %w", err)
		}
		admin.DeleteTopics(ctx, loadTopic, sourceTopic, copiesTopic, verifiedTopic)
		time.Sleep(500 * time.Millisecond)
	}
}

// copiesConfig gives every record a key of its own, so that compaction removes only aborted records and their
// markers.
func copiesConfig(compact bool) map[string]*string {
	if !compact {
		return nil
	}
	config := map[string]*string{}
	for key, value := range map[string]string{"cleanup.policy": "compact", "segment.bytes": "1048576", "segment.ms": "5000", "min.cleanable.dirty.ratio": "0.01", "delete.retention.ms": "2000"} {
		config[key] = &value
	}
	return config
}

func faults(o options, c *cluster, j *judge) error {
	total := time.Duration(o.minutes * float64(time.Minute))
	lengthMax := total / 6
	began := time.Now()
	l, g := newLoad(j, c.seeds(), o.state), newLedger(j)
	start := startLoad
	if o.java != "" {
		start = func(o options, l *load) error { return startJava(o, l, g) }
	}
	if err := start(o, l); err != nil {
		return err
	}
	if !l.everybodyMoves(recoverMax) {
		return fmt.Errorf("the load does not begin; see %s", o.state)
	}
	h := &chaos{cluster: c, judge: j, began: time.Now(), counts: map[string]int{}, filled: map[int]bool{}, rotten: map[int]bool{}}
	fmt.Printf("seed %d, %v of faults: %s\n", o.seed, total, strings.Join(o.faults, " "))
	h.follow(schedule(o.seed, o.faults, total, lengthMax), total)
	h.say("healing")
	h.heal()
	l.everybodyMoves(recoverMax)
	h.say("the load ends")
	l.finish()
	if o.claims && o.java == "" {
		j.judgeClaims(&l.claims, filepath.Join(o.state, "claims.html"))
	}
	h.say("reading everything")
	if err := lastRead(l, g); err != nil {
		j.anomaly("unreadable", "%v", err)
	}
	h.say("stopping the nodes")
	stopAll(c, h)
	compared := compareReplicas(c, j, o.compact)
	complaints(c, h)
	l.report(filepath.Join(o.state, "notes"))
	return verdict(o, j, h, compared, time.Since(began))
}

func startLoad(o options, l *load) error {
	rng := rand.New(rand.NewSource(o.seed))
	for id := 1; id <= franzProducers; id++ {
		if err := l.franzProducer(id, rand.New(rand.NewSource(rng.Int63()))); err != nil {
			return err
		}
	}
	if err := l.librdkafka(o.python, o.script, franzProducers+1); err != nil {
		return err
	}
	l.poller("poller", 0)
	l.poller("short poller", 15*time.Second)
	// The reports of its commits by librdkafka come late.
	for p := range int32(partitions) {
		l.judge.committingOffset(readersGroup, p, 1<<62)
	}
	l.member("member 1", 0)
	l.member("member 2", 20*time.Second)
	l.copier(1)
	l.copier(2)
	l.copiesReader("copies reader", 0)
	l.copiesReader("short copies reader", 15*time.Second)
	if o.claims {
		if err := l.claim(rng); err != nil {
			return err
		}
	}
	return l.register()
}

// everybodyMoves waits until each part of the load has made progress. It returns false if one of them does
// not.
func (l *load) everybodyMoves(limit time.Duration) bool {
	before := map[string]int64{}
	l.mu.Lock()
	for name, n := range l.progress {
		before[name] = n.Load()
	}
	l.mu.Unlock()
	began := time.Now()
	for {
		var idle []string
		copiers, copies := false, false
		for name, n := range before {
			moved := l.counter(name).Load() > n
			switch {
			case strings.HasPrefix(name, "copier"):
				copiers, copies = true, copies || moved
			case !moved && !strings.Contains(name, "member"):
				idle = append(idle, name)
			}
		}
		if copiers && !copies {
			idle = append(idle, "copiers")
		}
		if len(idle) == 0 {
			return true
		}
		if time.Since(began) > limit {
			slices.Sort(idle)
			l.judge.anomaly("stuck", "no progress within %v: %s", limit, strings.Join(idle, ", "))
			return false
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func (l *load) finish() {
	l.producing.Store(false)
	l.producers.Wait()
	l.running.Store(false)
	ended := make(chan bool)
	go func() { l.others.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(flushMax):
		l.judge.anomaly("stuck", "clients do not end within %v", flushMax)
	}
}

// lastRead reads both topics from start to end, and the groups' offsets, and judges them.
func lastRead(l *load, g *ledger) error {
	ctx, cancel := context.WithTimeout(context.Background(), readMax)
	defer cancel()
	client, err := l.client("last")
	if err != nil {
		return err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	ends, err := admin.ListEndOffsets(ctx, loadTopic, copiesTopic)
	if err != nil {
		return err
	}
	if err := ends.Error(); err != nil {
		return err
	}
	var loadEnds, copiesEnds [partitions]int64
	for p := range int32(partitions) {
		e, _ := ends.Lookup(loadTopic, p)
		loadEnds[p] = e.Offset
		e, _ = ends.Lookup(copiesTopic, p)
		copiesEnds[p] = e.Offset
	}
	if err := readLoad(ctx, l, loadEnds); err != nil {
		return err
	}
	if err := readCopies(ctx, l, copiesEnds); err != nil {
		return err
	}
	l.judge.judgeLoad(loadEnds, "last")
	if err := judgeJava(ctx, l, g, admin); err != nil {
		return err
	}
	for _, group := range []string{readersGroup, copierGroup, registerGroup} {
		offsets, err := groupOffsets(ctx, admin, group, loadTopic)
		if err != nil {
			return err
		}
		switch group {
		case readersGroup:
			l.judge.judgeGroup(group, offsets)
		case copierGroup:
			l.judge.judgeCopies(offsets, "last")
			if err := writeHistory(filepath.Join(l.state, "offsets.jsonl"), l.judge.history("last")); err != nil {
				return err
			}
			continue
		}
		floors := l.judge.committedSoFar(group)
		for p := range int32(partitions) {
			l.judge.fetchedOffset(group, p, offsets[p], floors[p])
		}
	}
	return nil
}

func groupOffsets(ctx context.Context, admin *kadm.Client, group, topic string) (offsets [partitions]int64, err error) {
	answers, err := admin.FetchOffsets(ctx, group)
	if err == nil {
		err = answers.Error()
	}
	for p := range int32(partitions) {
		answer, _ := answers.Lookup(topic, p)
		offsets[p] = max(answer.At, 0)
	}
	return offsets, err
}

func readLoad(ctx context.Context, l *load, ends [partitions]int64) error {
	client, err := l.client("last", kgo.ConsumePartitions(whole(loadTopic)))
	if err != nil {
		return err
	}
	defer client.Close()
	total := int64(0)
	for _, end := range ends {
		total += end
	}
	for read := int64(0); read < total; {
		read += l.pollLoad(client, "last")
		if ctx.Err() != nil {
			return fmt.Errorf("%s: %d of %d records were read in time", loadTopic, read, total)
		}
	}
	return nil
}

// readCopies reads the copies to their ends. The last record of a partition is a marker; if it cannot be
// read, a transaction hangs.
func readCopies(ctx context.Context, l *load, ends [partitions]int64) error {
	client, err := l.client("last", kgo.ConsumePartitions(whole(copiesTopic)), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords())
	if err != nil {
		return err
	}
	defer client.Close()
	var at [partitions]int64
	for p := range at {
		at[p] = nowhere
	}
	for began := time.Now(); ; {
		l.pollCopies(client, "last", &at)
		missing := -1
		for p := range at {
			if at[p] < ends[p]-1 {
				missing = p
			}
		}
		if missing < 0 {
			return nil
		}
		if ctx.Err() != nil || time.Since(began) > recoverMax+transactionTimeout {
			l.judge.anomaly("hanging-transaction", "%s-%d: readers of committed records get to %d of %d", copiesTopic, missing, at[missing], ends[missing])
			return nil
		}
	}
}

func stopAll(c *cluster, h *chaos) {
	done := make(chan bool)
	for _, n := range c.nodes {
		go func() { h.shutDown(n); done <- true }()
	}
	for range c.nodes {
		<-done
	}
}

// full is what replicas and coordinators log about a write that found no space.
var full = [][]byte{[]byte("no space left"), []byte("Refused(Full)")}

// complaints checks that a node's log reports nothing that needs an operator. A replica that finds no space
// refuses writes, or stops and is opened again when there is room. Where the disk was filled, that is as
// documented, and the comparison of replicas shows whether it came back.
func complaints(c *cluster, h *chaos) {
	for _, n := range c.nodes {
		log, _ := os.ReadFile(n.log)
		h.judge.judgeLog(n.number, log, h.filled[n.number], h.rotten[n.number])
	}
}

func (j *judge) judgeLog(node int, log []byte, filled, rotten bool) {
	for line := range bytes.SplitSeq(log, []byte("\n")) {
		panicked, complains := bytes.Contains(line, []byte("panicked at")), bytes.Contains(line, []byte("ERROR"))
		excused := filled && slices.ContainsFunc(full, func(words []byte) bool { return bytes.Contains(line, words) })
		excused = excused || rotten && tellsOfRot(line)
		if panicked || complains && !excused {
			j.anomaly("log-of-node", "node %d: %s", node, line)
		}
	}
}

// report prints what each client did, and the most frequent complaints. All of them go to a file.
func (l *load) report(path string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, n := range l.progress {
		if strings.HasSuffix(name, " answers") {
			continue
		}
		fmt.Printf("  %s: %d\n", name, n.Load())
	}
	var notes []string
	for note, times := range l.notes {
		notes = append(notes, fmt.Sprintf("%6d x %s", times, note))
	}
	slices.Sort(notes)
	slices.Reverse(notes)
	for _, note := range notes[:min(len(notes), notesMax)] {
		fmt.Printf("  note %.220s\n", note)
	}
	if err := os.WriteFile(path, []byte(strings.Join(notes, "\n")), 0o644); err != nil {
		l.judge.anomaly("harness", "%v", err)
	}
}

func verdict(o options, j *judge, h *chaos, compared int, took time.Duration) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	found, committed, aborted := 0, 0, 0
	for _, values := range j.values {
		found += len(values)
	}
	for _, t := range j.transactions {
		switch t.outcome {
		case ok:
			committed++
		case failed:
			aborted++
		}
	}
	fmt.Printf("faults: %s\n", h.tally())
	fmt.Printf("records: %d acknowledged, %d found; transactions: %d committed, %d aborted, %d unknown; %d partitions compared; generations of producers started again: %d; returns of librdkafka to the beginning of an epoch: %d\n", j.acknowledged, found,
		committed, aborted, len(j.transactions)-committed-aborted, compared, j.renewed, j.returned)
	for _, kind := range j.kinds() {
		fmt.Printf("  %s: %d\n", kind, j.found[kind])
	}
	word := "PASS"
	if len(j.found) > 0 {
		word = "FAIL"
	}
	fmt.Printf("%s cluster under faults: seed %d, %.1f minutes of faults, %.0f s in all, %d kinds of anomalies\n", word, o.seed, o.minutes, took.Seconds(), len(j.found))
	if len(j.found) > 0 {
		return fmt.Errorf("logs: %s", o.state)
	}
	return nil
}

// ---- disks that can be filled; the script unmounts them ----

func mountDisks(state string, minutes float64) error {
	size := diskBytes + int64(minutes*diskBytesPerMinute)
	for n := 1; n <= nodeCount; n++ {
		disk := filepath.Join(state, fmt.Sprintf("disk%d", n))
		if err := os.MkdirAll(disk, 0o755); err != nil {
			return err
		}
		if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, fmt.Sprintf("size=%d", size)); err != nil {
			return fmt.Errorf("faults of disks need the right to mount: %w", err)
		}
		if err := os.MkdirAll(filepath.Join(disk, "data"), 0o755); err != nil {
			return err
		}
		if err := os.Symlink(filepath.Join(disk, "data"), filepath.Join(state, fmt.Sprintf("n%d", n))); err != nil {
			return err
		}
	}
	return nil
}
