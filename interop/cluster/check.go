package main

import (
	"fmt"
	"sort"
	"sync"
	"time"
)

// The judge is told of every operation when it ends, and looks for results that must never occur. Every value
// is unique: producers number their records in each partition, and copiers their transactions. An operation
// is ok, failed (it certainly had no effect) or unknown.

type outcome byte

const (
	unknown outcome = iota
	ok
	failed
)

const (
	partitions  = 6
	examplesMax = 5
	nowhere     = -1
)

type sent struct {
	outcome outcome
	acked   int64
	seen    int64
}

// item is a record that a copier wrote: which input it is a copy of, and where it was seen.
type item struct {
	fromPartition int32
	fromOffset    int64
	partition     int32
	seen          int64
}

type transaction struct {
	copier    string
	began     int // on the judge's clock
	done      int // 0 if unknown
	outcome   outcome
	items     []item
	commitAt  time.Time // when the commit was requested
	firstSeen time.Time // when the first reader got a record of it
}

type value struct {
	producer int
	sequence int
}

func (v value) String() string { return fmt.Sprintf("%d/%d", v.producer, v.sequence) }

// position is how far one reader has read in one partition.
type position struct {
	topic, reader string
	partition     int32
}

type bits []uint64

func (b *bits) set(i int64) {
	for int64(len(*b)) <= i/64 {
		*b = append(*b, 0)
	}
	(*b)[i/64] |= 1 << (i % 64)
}

func (b bits) has(i int64) bool { return i/64 < int64(len(b)) && b[i/64]&(1<<(i%64)) != 0 }

type groupPartition struct {
	processed bits
	committed int64 // the highest acknowledged offset
	attempted int64 // the highest requested offset
}

type judge struct {
	mu           sync.Mutex
	found        map[string]int
	examples     map[string][]string
	sends        map[int]*[partitions][]sent
	values       [partitions][]value // of the load topic, by offset
	copies       [partitions]map[int64]value
	transactions []*transaction
	positions    map[position]int64
	read         map[position]*bits // what readers of committed records have seen
	groups       map[string]*[partitions]groupPartition
	acknowledged int
	clock        int    // events so far
	backs        []back // of librdkafka's reader
	returned     int    // of these, those that are allowed
	renewed      int    // generations of idempotent producers beyond their first
}

// back is a reader that goes back.
type back struct {
	position
	offset, after int64
}

const librdkafkaReader = "librdkafka reader"

func newJudge() *judge {
	j := &judge{found: map[string]int{}, examples: map[string][]string{}, sends: map[int]*[partitions][]sent{}, positions: map[position]int64{},
		read: map[position]*bits{}, groups: map[string]*[partitions]groupPartition{}}
	for p := range j.copies {
		j.copies[p] = map[int64]value{}
	}
	return j
}

// accuse records an anomaly. The caller holds the lock.
func (j *judge) accuse(kind, format string, a ...any) {
	j.found[kind]++
	if j.found[kind] <= examplesMax {
		text := fmt.Sprintf(format, a...)
		j.examples[kind] = append(j.examples[kind], text)
		fmt.Printf("ANOMALY %s: %s\n", kind, text)
	}
}

func (j *judge) anomaly(kind, format string, a ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.accuse(kind, format, a...)
}

// ---- the load topic ----

// send numbers a record that is about to be sent.
func (j *judge) send(producer int, partition int32) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	of := j.sends[producer]
	if of == nil {
		of = &[partitions][]sent{}
		j.sends[producer] = of
	}
	of[partition] = append(of[partition], sent{seen: nowhere, acked: nowhere})
	return len(of[partition]) - 1
}

// answered records the outcome of a send. A client may know that a record is stored but not where: its offset
// is then nowhere.
func (j *judge) answered(producer int, partition int32, sequence int, o outcome, offset int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	s := &j.sends[producer][partition][sequence]
	s.outcome, s.acked = o, offset
	if o == ok {
		j.acknowledged++
		if s.seen != nowhere && offset != nowhere && s.seen != offset {
			j.accuse("inconsistent-offsets", "partition %d: %d/%d was acknowledged at %d and read at %d", partition, producer, sequence, offset, s.seen)
		}
	}
}

// polled records a record of the load topic. Its partitions have no gaps, because nothing writes transactions
// there.
func (j *judge) polled(reader string, partition int32, offset int64, v value) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.advance(position{loadTopic, reader, partition}, offset, true)
	of := j.sends[v.producer]
	if of == nil || v.sequence < 0 || v.sequence >= len(of[partition]) {
		j.accuse("made-up-value", "partition %d, offset %d: %v was never sent there", partition, offset, v)
		return
	}
	for int64(len(j.values[partition])) <= offset {
		j.values[partition] = append(j.values[partition], value{nowhere, nowhere})
	}
	if before := j.values[partition][offset]; before.producer == nowhere {
		j.values[partition][offset] = v
	} else if before != v {
		j.accuse("inconsistent-offsets", "partition %d, offset %d: %v and %v (%s)", partition, offset, before, v, reader)
	}
	s := &of[partition][v.sequence]
	switch {
	case s.seen == nowhere:
		s.seen = offset
		if s.outcome == ok && s.acked != nowhere && s.acked != offset {
			j.accuse("inconsistent-offsets", "partition %d: %v was acknowledged at %d and read at %d", partition, v, s.acked, offset)
		}
	case s.seen != offset:
		j.accuse("duplicate", "partition %d: %v is at %d and at %d (%s)", partition, v, s.seen, offset, reader)
	}
}

// advance records a reader's next offset. contiguous says that there can be no gap.
func (j *judge) advance(key position, offset int64, contiguous bool) {
	last, known := j.positions[key]
	if known && offset <= last {
		if key.reader == librdkafkaReader {
			j.backs = append(j.backs, back{key, offset, last})
		} else {
			j.accuse("nonmonotonic-poll", "%s, %s-%d: offset %d after %d", key.reader, key.topic, key.partition, offset, last)
		}
	}
	if known && contiguous && offset > last+1 {
		j.accuse("poll-skip", "%s, %s-%d: offset %d after %d", key.reader, key.topic, key.partition, offset, last)
	}
	j.positions[key] = offset
}

// judgeBacks judges readers that went back. librdkafka may go back to where a leader's epoch starts. When
// leaders change it asks where the previous epoch ended, and returns there even if it has read beyond. It
// gets the same records once more. Anywhere else, going back is an anomaly.
func (j *judge) judgeBacks(partition int32, epochStarts map[int64]bool) (tolerated int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, b := range j.backs {
		switch {
		case b.partition != partition:
		case epochStarts[b.offset]:
			tolerated++
		default:
			j.accuse("nonmonotonic-poll", "%s, %s-%d: offset %d after %d", b.reader, b.topic, b.partition, b.offset, b.after)
		}
	}
	return tolerated
}

// highWatermark records the high watermark that came with a reader's records.
func (j *judge) highWatermark(reader string, partition int32, offset int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if last, known := j.positions[position{loadTopic, reader, partition}]; known && offset <= last {
		j.accuse("high-watermark-regression", "%s, partition %d: high watermark %d, but it has read %d", reader, partition, offset, last)
	}
}

// judgeLoad judges the load topic. ends are the final high watermarks, and last is the reader that read
// everything below them.
func (j *judge) judgeLoad(ends [partitions]int64, last string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for p := range int32(partitions) {
		end := ends[p]
		if at, known := j.positions[position{loadTopic, last, p}]; (known && at != end-1) || (!known && end > 0) {
			j.accuse("poll-skip", "partition %d: the last reader stopped at %d of %d", p, at, end)
		}
		if seen := int64(len(j.values[p])); seen > end {
			j.accuse("lost-read", "partition %d: offset %d was read, but the partition ends at %d", p, seen-1, end)
		}
		for producer, of := range j.sends {
			for sequence, s := range of[p] {
				there := s.seen != nowhere && s.seen < end && j.values[p][s.seen] == value{producer, sequence}
				if s.outcome == ok && !there {
					j.accuse("lost-write", "partition %d: %d/%d was acknowledged at %d (read before: %d)", p, producer, sequence, s.acked, s.seen)
				}
				if s.outcome == failed && there {
					j.accuse("failed-write-found", "partition %d: %d/%d failed, and is at %d", p, producer, sequence, s.seen)
				}
			}
		}
		newest := map[int]int{}
		for offset, v := range j.values[p] {
			if before, known := newest[v.producer]; known && v.sequence < before && v.producer != nowhere {
				j.accuse("nonmonotonic-send", "partition %d, offset %d: %v after %d/%d", p, offset, v, v.producer, before)
			}
			newest[v.producer] = v.sequence
		}
	}
}

// ---- transactions ----

func (j *judge) begin(copier string) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.transactions = append(j.transactions, &transaction{copier: copier, began: j.tick()})
	return len(j.transactions) - 1
}

// tick is the time of an event. The caller holds the lock.
func (j *judge) tick() int {
	j.clock++
	return j.clock
}

func (j *judge) copied(txn int, fromPartition int32, fromOffset int64) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	t := j.transactions[txn]
	t.items = append(t.items, item{fromPartition: fromPartition, fromOffset: fromOffset, seen: nowhere})
	return len(t.items) - 1
}

func (j *judge) committing(txn int, at time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.transactions[txn].commitAt = at
}

func (j *judge) ended(txn int, o outcome) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.transactions[txn].outcome = o
	j.transactions[txn].done = j.tick()
}

// polledCopy records a record that a reader of committed records got.
func (j *judge) polledCopy(reader string, partition int32, offset int64, v value, at time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	key := position{copiesTopic, reader, partition}
	j.advance(key, offset, false)
	if j.read[key] == nil {
		j.read[key] = &bits{}
	}
	j.read[key].set(offset)
	if v.producer < 0 || v.producer >= len(j.transactions) || v.sequence < 0 || v.sequence >= len(j.transactions[v.producer].items) {
		j.accuse("made-up-value", "copies, partition %d, offset %d: %v was never sent", partition, offset, v)
		return
	}
	if before, known := j.copies[partition][offset]; known && before != v {
		j.accuse("inconsistent-offsets", "copies, partition %d, offset %d: %v and %v (%s)", partition, offset, before, v, reader)
	}
	j.copies[partition][offset] = v
	t := j.transactions[v.producer]
	if t.firstSeen.IsZero() || at.Before(t.firstSeen) {
		t.firstSeen = at
	}
	i := &t.items[v.sequence]
	if i.seen == nowhere {
		i.partition, i.seen = partition, offset
	} else if i.seen != offset || i.partition != partition {
		j.accuse("duplicate", "copies: %v is at %d-%d and at %d-%d", v, i.partition, i.seen, partition, offset)
	}
}

// judgeCopies judges the copies. committed are the copiers' final offsets.
func (j *judge) judgeCopies(committed [partitions]int64, last string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	var copied [partitions]map[int64]int
	for p := range copied {
		copied[p] = map[int64]int{}
	}
	for number, t := range j.transactions {
		found := 0
		for _, i := range t.items {
			if i.seen != nowhere && j.read[position{copiesTopic, last, i.partition}].contains(i.seen) {
				found++
				copied[i.fromPartition][i.fromOffset]++
			}
		}
		switch {
		case t.outcome == failed && !t.firstSeen.IsZero():
			j.accuse("aborted-read", "transaction %d was aborted, %d of %d records exist", number, found, len(t.items))
		case t.outcome == ok && found < len(t.items):
			j.accuse("lost-write", "transaction %d was committed, %d of %d records exist", number, found, len(t.items))
		case t.outcome == unknown && found != 0 && found != len(t.items):
			j.accuse("torn-transaction", "transaction %d: %d of %d records exist", number, found, len(t.items))
		case !t.firstSeen.IsZero() && found == 0:
			j.accuse("lost-read", "transaction %d was read, but is not there in the end", number)
		}
		if !t.firstSeen.IsZero() && (t.commitAt.IsZero() || t.firstSeen.Before(t.commitAt)) {
			j.accuse("precommitted-read", "transaction %d was read %v before its commit was asked for", number, t.commitAt.Sub(t.firstSeen))
		}
	}
	for p := range copied {
		for offset := range committed[p] {
			if copied[p][offset] == 0 {
				j.accuse("not-copied", "partition %d, offset %d: below the copier's offset %d, but there is no copy", p, offset, committed[p])
			}
		}
		for offset, times := range copied[p] {
			if times > 1 {
				j.accuse("copied-twice", "partition %d, offset %d: %d copies", p, offset, times)
			}
			if offset >= committed[p] {
				j.accuse("offset-not-in-transaction", "partition %d, offset %d is copied, the copier's offset is %d", p, offset, committed[p])
			}
		}
	}
	j.judgeSkips(last)
}

func (b *bits) contains(i int64) bool { return b != nil && b.has(i) }

// judgeSkips checks that readers of committed records saw everything between their first and last record.
func (j *judge) judgeSkips(last string) {
	for key, seen := range j.read {
		all := j.read[position{copiesTopic, last, key.partition}]
		if key.reader == last || all == nil {
			continue
		}
		first := int64(0)
		for first < j.positions[key] && !seen.has(first) {
			first++
		}
		for offset := first; offset <= j.positions[key]; offset++ {
			if all.has(offset) && !seen.has(offset) {
				j.accuse("poll-skip", "%s, copies, partition %d: offset %d", key.reader, key.partition, offset)
			}
		}
	}
}

// dataLoss judges a client's error that the epoch which it read last ends before its position. franz-go
// advances its position over markers and aborted records, but not its epoch. So the error is wrong if there
// is nothing else in between.
func (j *judge) dataLoss(who, topic string, partition int32, resetTo, consumedTo int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for offset := resetTo; offset < consumedTo; offset++ {
		if _, data := j.copies[partition][offset]; data || topic != copiesTopic {
			j.accuse("client-sees-data-loss", "%s: %s-%d, offset %d, is reported as lost", who, topic, partition, offset)
			return
		}
	}
}

// ---- groups ----

func (j *judge) group(name string) *[partitions]groupPartition {
	g := j.groups[name]
	if g == nil {
		g = &[partitions]groupPartition{}
		j.groups[name] = g
	}
	return g
}

func (j *judge) processed(group string, partition int32, offset int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.group(group)[partition].processed.set(offset)
}

func (j *judge) committingOffset(group string, partition int32, offset int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	g := &j.group(group)[partition]
	g.attempted = max(g.attempted, offset)
}

func (j *judge) committedOffset(group string, partition int32, offset int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	g := &j.group(group)[partition]
	g.committed = max(g.committed, offset)
}

// committedSoFar is the lowest offset that a fetch which starts now may return.
func (j *judge) committedSoFar(group string) [partitions]int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	var floors [partitions]int64
	for p, g := range j.group(group) {
		floors[p] = g.committed
	}
	return floors
}

func (j *judge) fetchedOffset(group string, partition int32, offset, floor int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	g := &j.group(group)[partition]
	if offset < floor {
		j.accuse("group-offset-back", "group %s, partition %d: fetched %d, but %d was committed before", group, partition, offset, floor)
	}
	if offset > g.attempted {
		j.accuse("group-offset-made-up", "group %s, partition %d: fetched %d, but only %d was ever committed", group, partition, offset, g.attempted)
	}
}

// judgeGroup checks that everything below the group's offsets was processed.
func (j *judge) judgeGroup(name string, committed [partitions]int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for p, g := range j.group(name) {
		for offset := range committed[p] {
			if !g.processed.has(offset) {
				j.accuse("not-processed", "group %s, partition %d: offset %d is below the group's %d, but no member had it", name, p, offset, committed[p])
			}
		}
	}
}

func (j *judge) kinds() []string {
	var kinds []string
	for kind := range j.found {
		kinds = append(kinds, kind)
	}
	sort.Strings(kinds)
	return kinds
}
