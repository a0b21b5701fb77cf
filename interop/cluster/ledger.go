package main

import (
	"fmt"
	"strconv"
	"strings"
)

// ledger is what Kafka's clients have reported of the source topic, which has no gaps, because nothing writes
// transactions there.
type ledger struct {
	judge     *judge
	sent      [partitions]map[int64]string // acknowledged values
	told      [partitions]map[int64]string // acknowledged, consumed or delivered values
	positions map[member]int64             // for assigned partitions: the next offset, or nowhere before its first record
	floors    map[member]int64             // the lowest offset at which a client may start
	shared    [partitions]map[int64]*share
}

// member is a client's part in one partition.
type member struct {
	who       string
	partition int32
}

// share is one record in the share group. Times are in ms, and 0 is never.
type share struct {
	delivered int64 // the last time
	accepted  int64
	holder    string // the client that got it last
	isUnsure  bool   // its holder may have accepted it without getting the answer
}

func newLedger(j *judge) *ledger {
	g := &ledger{judge: j, positions: map[member]int64{}, floors: map[member]int64{}}
	for p := range g.told {
		g.sent[p], g.told[p], g.shared[p] = map[int64]string{}, map[int64]string{}, map[int64]*share{}
	}
	return g
}

func (g *ledger) lock() func() { g.judge.mu.Lock(); return g.judge.mu.Unlock }

// tell records that an offset has one value, for every client. The caller holds the lock.
func (g *ledger) tell(who string, partition int32, offset int64, value string) {
	if before, known := g.told[partition][offset]; known && before != value {
		g.judge.accuse("inconsistent-offsets", "source, partition %d, offset %d: %s and %s (%s)", partition, offset, before, value, who)
	}
	g.told[partition][offset] = value
}

func (g *ledger) acked(partition int32, offset int64, value string) {
	defer g.lock()()
	g.tell("producer", partition, offset, value)
	g.sent[partition][offset] = value
	g.judge.acknowledged++
}

// ---- consumer groups ----

// begins records the start of a client, which has nothing assigned. It may not have received the answers to
// its last requests before it ended.
func (g *ledger) begins(who string) {
	g.unsure(who)
	defer g.lock()()
	for p := range int32(partitions) {
		delete(g.positions, member{who, p})
	}
}

func (g *ledger) assigned(who, group string, to []report) {
	floors := g.judge.committedSoFar(group)
	defer g.lock()()
	for _, p := range to {
		g.positions[member{who, p.Partition}] = nowhere
		g.floors[member{who, p.Partition}] = floors[p.Partition]
	}
}

func (g *ledger) revoked(who string, from []report) {
	defer g.lock()()
	for _, p := range from {
		delete(g.positions, member{who, p.Partition})
	}
}

func (g *ledger) consumed(group string, partition int32, offset int64, value string) {
	g.judge.processed(group, partition, offset)
	defer g.lock()()
	g.tell(group, partition, offset, value)
}

// advanced records that the client has got the records from `first` to `last`, and may commit them.
func (g *ledger) advanced(who, group string, partition int32, first, last int64) {
	g.judge.committingOffset(group, partition, last+1)
	defer g.lock()()
	key := member{who, partition}
	next, has := g.positions[key]
	switch {
	case !has:
		g.judge.accuse("not-assigned", "%s: records %d to %d of partition %d, which it does not own", who, first, last, partition)
	case next == nowhere && first < g.floors[key]:
		g.judge.accuse("group-offset-back", "%s, partition %d: begins at %d, but %d was committed before", who, partition, first, g.floors[key])
	case next != nowhere && first > next:
		g.judge.accuse("poll-skip", "%s, partition %d: offset %d, %d was next", who, partition, first, next)
	case next != nowhere && first < next:
		g.judge.accuse("nonmonotonic-poll", "%s, partition %d: offset %d, %d was next", who, partition, first, next)
	}
	g.positions[key] = last + 1
}

// ---- the share group ----

func (g *ledger) shareOf(partition int32, offset int64) *share {
	s := g.shared[partition][offset]
	if s == nil {
		s = &share{}
		g.shared[partition][offset] = s
	}
	return s
}

// delivered checks that accepted records do not come again. The output of several clients arrives in any
// order; `at` tells which was first.
func (g *ledger) delivered(who string, partition int32, offset int64, value string, at int64) {
	defer g.lock()()
	g.tell(who, partition, offset, value)
	s := g.shareOf(partition, offset)
	s.delivered = max(s.delivered, at)
	s.holder, s.isUnsure = who, false
	g.judgeShare(s, partition, offset)
}

// unsure records that an acknowledgement of this client failed, and may have been taken all the same.
func (g *ledger) unsure(who string) {
	defer g.lock()()
	for p := range g.shared {
		for _, s := range g.shared[p] {
			s.isUnsure = s.isUnsure || s.holder == who && s.accepted == 0
		}
	}
}

func (g *ledger) accepted(partition int32, offset int64, at int64) {
	defer g.lock()()
	s := g.shareOf(partition, offset)
	if s.delivered == 0 {
		g.judge.accuse("made-up-value", "source, partition %d, offset %d: accepted, and never delivered", partition, offset)
	}
	if s.accepted == 0 || at < s.accepted {
		s.accepted = at
	}
	g.judgeShare(s, partition, offset)
}

func (g *ledger) judgeShare(s *share, partition int32, offset int64) {
	if s.accepted != 0 && s.delivered > s.accepted {
		g.judge.accuse("accepted-comes-again", "source, partition %d, offset %d: delivered %d ms after it was accepted", partition, offset, s.delivered-s.accepted)
	}
}

// notAccepted names a record that the share group has certainly not accepted yet. It is empty if there is
// none.
func (g *ledger) notAccepted(ends [partitions]int64) string {
	defer g.lock()()
	for p, end := range ends {
		for offset := range end {
			if s := g.shared[p][offset]; s == nil || s.accepted == 0 && !s.isUnsure {
				return fmt.Sprintf("the share group has not accepted offset %d of partition %d", offset, p)
			}
		}
	}
	return ""
}

// ---- the end ----

// judgeSource judges the source topic. source is everything in it, by offset.
func (g *ledger) judgeSource(source [partitions][]string) {
	defer g.lock()()
	seen := map[string]bool{}
	for p, values := range source {
		for offset, value := range g.sent[p] {
			if offset >= int64(len(values)) || values[offset] != value {
				g.judge.accuse("lost-write", "source, partition %d: %s was acknowledged at %d and is not there", p, value, offset)
			}
		}
		for offset, value := range g.told[p] {
			switch {
			case offset >= int64(len(values)):
				g.judge.accuse("lost-read", "source, partition %d: offset %d was read, but the partition ends at %d", p, offset, len(values))
			case values[offset] != value:
				g.judge.accuse("inconsistent-offsets", "source, partition %d, offset %d: %s and, in the end, %s", p, offset, value, values[offset])
			}
		}
		newest := map[string]int64{}
		for offset, value := range values {
			if seen[value] {
				g.judge.accuse("duplicate", "source, partition %d, offset %d: %s exists twice", p, offset, value)
			}
			seen[value] = true
			generation, digits, _ := strings.Cut(value, ".")
			number, err := strconv.ParseInt(digits, 10, 64)
			if err != nil {
				g.judge.accuse("made-up-value", "source, partition %d, offset %d: %s", p, offset, value)
				continue
			}
			if before, known := newest[generation]; known && number < before {
				g.judge.accuse("nonmonotonic-send", "source, partition %d, offset %d: %s after %s.%d", p, offset, value, generation, before)
			}
			newest[generation] = number
		}
	}
}

// judgeCopies checks that committed copies are each record of the source once, in its order. A record is
// copied to the partition that it comes from.
func (g *ledger) judgeCopies(source, copies [partitions][]string) {
	defer g.lock()()
	for p := range source {
		times := map[string]int{}
		for _, value := range copies[p] {
			times[value]++
		}
		for offset, value := range source[p] {
			switch n := times[value]; {
			case n == 0:
				g.judge.accuse("not-copied", "source, partition %d, offset %d: there is no copy of %s", p, offset, value)
			case n > 1:
				g.judge.accuse("copied-twice", "source, partition %d, offset %d: %d copies of %s", p, offset, n, value)
			}
			delete(times, value)
		}
		for value := range times {
			g.judge.accuse("made-up-value", "verified, partition %d: %s is not in the source", p, value)
		}
		if len(copies[p]) != len(source[p]) {
			continue
		}
		for offset, value := range source[p] {
			if copies[p][offset] != value {
				g.judge.accuse("copied-out-of-order", "partition %d: %s is at %d in the source, and %s in its place among the copies", p, value, offset, copies[p][offset])
				break
			}
		}
	}
}
