package main

import (
	"slices"
	"testing"
	"time"
)

// Made-up histories: each anomaly must be found, and nothing may be found in a history without one.

type history func(j *judge)

var began = time.Unix(1, 0)

func ends(end int64) (all [partitions]int64) { all[0] = end; return all }

// written sends this many records of producer 1 to partition 0, all of which are acknowledged.
func written(j *judge, count int) {
	for range count {
		n := j.send(1, 0)
		j.answered(1, 0, n, ok, int64(n))
	}
}

func readAll(j *judge, reader string, count int) {
	for n := range count {
		j.polled(reader, 0, int64(n), value{1, n})
	}
}

// copy is one transaction with a record in each of two partitions.
func copyOf(j *judge, first int64, end outcome) int {
	t := j.begin("copier")
	for n := range int64(2) {
		j.copied(t, 0, first+n)
	}
	j.committing(t, began.Add(time.Second))
	j.ended(t, end)
	return t
}

func readCopy(j *judge, reader string, t int, offset int64, at time.Time, items ...int) {
	for _, n := range items {
		j.polledCopy(reader, int32(n), offset, value{t, n}, at)
	}
}

var afterwards = began.Add(2 * time.Second)

var cases = map[string]struct {
	history history
	found   []string
}{
	"sound": {func(j *judge) {
		written(j, 10)
		readAll(j, "a", 7)
		readAll(j, "last", 10)
		j.highWatermark("last", 0, 10)
		j.judgeLoad(ends(10), "last")
		t := copyOf(j, 0, ok)
		copyOf(j, 2, failed)
		readCopy(j, "r", t, 0, afterwards, 0, 1)
		readCopy(j, "last", t, 0, afterwards, 0, 1)
		j.judgeCopies(ends(2), "last")
	}, nil},
	"unknown writes may be there or not": {func(j *judge) {
		written(j, 1)
		j.send(1, 0)
		j.send(1, 0)
		j.polled("last", 0, 0, value{1, 0})
		j.polled("last", 0, 1, value{1, 1})
		j.judgeLoad(ends(2), "last")
	}, nil},
	"acknowledged, never there": {func(j *judge) {
		written(j, 3)
		readAll(j, "last", 2)
		j.judgeLoad(ends(2), "last")
	}, []string{"lost-write"}},
	"acknowledged and read, then gone": {func(j *judge) {
		written(j, 3)
		readAll(j, "a", 3)
		readAll(j, "last", 2)
		j.judgeLoad(ends(2), "last")
	}, []string{"lost-read", "lost-write"}},
	"unacknowledged, read, then gone": {func(j *judge) {
		written(j, 2)
		j.send(1, 0)
		readAll(j, "a", 3)
		readAll(j, "last", 2)
		j.judgeLoad(ends(2), "last")
	}, []string{"lost-read"}},
	"twice": {func(j *judge) {
		written(j, 2)
		readAll(j, "last", 2)
		j.polled("last", 0, 2, value{1, 1})
		j.judgeLoad(ends(3), "last")
	}, []string{"duplicate"}},
	"one offset, two values": {func(j *judge) {
		written(j, 2)
		j.send(2, 0)
		readAll(j, "last", 2)
		j.polled("a", 0, 1, value{2, 0})
		j.judgeLoad(ends(2), "last")
	}, []string{"inconsistent-offsets"}},
	"acknowledged elsewhere": {func(j *judge) {
		n := j.send(1, 0)
		j.answered(1, 0, n, ok, 7)
		readAll(j, "last", 1)
		j.judgeLoad(ends(1), "last")
	}, []string{"inconsistent-offsets"}},
	"acknowledged elsewhere, after it was read": {func(j *judge) {
		n := j.send(1, 0)
		readAll(j, "last", 1)
		j.answered(1, 0, n, ok, 7)
		j.judgeLoad(ends(1), "last")
	}, []string{"inconsistent-offsets"}},
	"acknowledged, the client does not know where": {func(j *judge) {
		n := j.send(1, 0)
		j.answered(1, 0, n, ok, nowhere)
		readAll(j, "last", 1)
		j.judgeLoad(ends(1), "last")
	}, nil},
	"acknowledged, the client does not know where, and it is not there": {func(j *judge) {
		j.answered(1, 0, j.send(1, 0), ok, nowhere)
		j.judgeLoad(ends(0), "last")
	}, []string{"lost-write"}},
	"a batch taken twice": {func(j *judge) {
		first := batch{Base: 0, Producer: 7, Sequence: 3}
		renewed, again := first, first
		renewed.Base, renewed.Generation = 4, 1
		again.Base = 8
		j.renewed = repeated(j, "load-0", []batch{first, renewed, again})
		if j.renewed != 1 {
			j.anomaly("miscounted", "%d generations", j.renewed)
		}
	}, []string{"batch-taken-twice"}},
	"librdkafka goes back to where an epoch begins": {func(j *judge) {
		written(j, 4)
		readAll(j, "last", 4)
		readAll(j, librdkafkaReader, 4)
		j.polled(librdkafkaReader, 0, 2, value{1, 2})
		starts := epochStarts([]batch{{Base: 0, Epoch: 1}, {Base: 1, Epoch: 1}, {Base: 2, Epoch: 4}})
		if j.judgeBacks(0, starts) != 1 {
			j.anomaly("miscounted", "%v", j.backs)
		}
	}, nil},
	"librdkafka goes back elsewhere": {func(j *judge) {
		written(j, 4)
		readAll(j, "last", 4)
		readAll(j, librdkafkaReader, 4)
		j.polled(librdkafkaReader, 0, 1, value{1, 1})
		j.judgeBacks(0, epochStarts([]batch{{Base: 0, Epoch: 1}, {Base: 1, Epoch: 1}, {Base: 2, Epoch: 4}}))
	}, []string{"nonmonotonic-poll"}},
	"failed, and there": {func(j *judge) {
		n := j.send(1, 0)
		j.answered(1, 0, n, failed, nowhere)
		readAll(j, "last", 1)
		j.judgeLoad(ends(1), "last")
	}, []string{"failed-write-found"}},
	"out of order": {func(j *judge) {
		j.send(1, 0)
		j.send(1, 0)
		j.polled("last", 0, 0, value{1, 1})
		j.polled("last", 0, 1, value{1, 0})
		j.judgeLoad(ends(2), "last")
	}, []string{"nonmonotonic-send"}},
	"from nowhere": {func(j *judge) {
		written(j, 1)
		j.polled("last", 0, 0, value{1, 0})
		j.polled("last", 0, 1, value{1, 9})
		j.judgeLoad(ends(2), "last")
	}, []string{"made-up-value"}},
	"a reader goes back": {func(j *judge) {
		written(j, 2)
		readAll(j, "last", 2)
		readAll(j, "a", 2)
		j.polled("a", 0, 0, value{1, 0})
		j.judgeLoad(ends(2), "last")
	}, []string{"nonmonotonic-poll"}},
	"a reader skips": {func(j *judge) {
		written(j, 3)
		readAll(j, "last", 3)
		j.polled("a", 0, 0, value{1, 0})
		j.polled("a", 0, 2, value{1, 2})
		j.judgeLoad(ends(3), "last")
	}, []string{"poll-skip"}},
	"the last reader does not get to the end": {func(j *judge) {
		written(j, 2)
		readAll(j, "last", 2)
		j.judgeLoad(ends(3), "last")
	}, []string{"poll-skip"}},
	"high watermark below what was read": {func(j *judge) {
		written(j, 3)
		readAll(j, "last", 3)
		j.highWatermark("last", 0, 2)
		j.judgeLoad(ends(3), "last")
	}, []string{"high-watermark-regression"}},
	"aborted read": {func(j *judge) {
		t := copyOf(j, 0, failed)
		readCopy(j, "a", t, 0, afterwards, 0)
		j.judgeCopies(ends(0), "last")
	}, []string{"aborted-read"}},
	"precommitted read": {func(j *judge) {
		t := copyOf(j, 0, ok)
		readCopy(j, "a", t, 0, began, 0)
		readCopy(j, "last", t, 0, afterwards, 0, 1)
		j.judgeCopies(ends(2), "last")
	}, []string{"precommitted-read"}},
	"committed, half of it there": {func(j *judge) {
		t := copyOf(j, 0, ok)
		readCopy(j, "last", t, 0, afterwards, 0)
		j.judgeCopies(ends(1), "last")
	}, []string{"lost-write"}},
	"torn": {func(j *judge) {
		t := copyOf(j, 0, unknown)
		readCopy(j, "last", t, 0, afterwards, 1)
		j.judgeCopies(ends(0), "last")
	}, []string{"offset-not-in-transaction", "torn-transaction"}},
	"a transaction was read and is gone": {func(j *judge) {
		t := copyOf(j, 0, unknown)
		readCopy(j, "a", t, 0, afterwards, 0, 1)
		j.judgeCopies(ends(0), "last")
	}, []string{"lost-read"}},
	"copied twice": {func(j *judge) {
		for n := range int64(2) {
			t := copyOf(j, 0, ok)
			readCopy(j, "last", t, n, afterwards, 0, 1)
		}
		j.judgeCopies(ends(2), "last")
	}, []string{"copied-twice"}},
	"not copied": {func(j *judge) {
		t := copyOf(j, 0, ok)
		readCopy(j, "last", t, 0, afterwards, 0, 1)
		j.judgeCopies(ends(3), "last")
	}, []string{"not-copied"}},
	"a copy at two offsets": {func(j *judge) {
		t := copyOf(j, 0, ok)
		readCopy(j, "last", t, 0, afterwards, 0, 1)
		readCopy(j, "last", t, 1, afterwards, 0)
		j.judgeCopies(ends(2), "last")
	}, []string{"duplicate"}},
	"a reader of committed records skips": {func(j *judge) {
		for n := range int64(3) {
			t := copyOf(j, 2*n, ok)
			readCopy(j, "last", t, n, afterwards, 0, 1)
			if n != 1 {
				readCopy(j, "a", t, n, afterwards, 0, 1)
			}
		}
		j.judgeCopies(ends(6), "last")
	}, []string{"poll-skip"}},
	"a client is told of data loss": {func(j *judge) {
		j.dataLoss("a", loadTopic, 0, 1, 2)
	}, []string{"client-sees-data-loss"}},
	"a client is told of the loss of committed records": {func(j *judge) {
		t := copyOf(j, 0, ok)
		readCopy(j, "last", t, 7, afterwards, 0, 1)
		j.dataLoss("a", copiesTopic, 0, 6, 9)
	}, []string{"client-sees-data-loss"}},
	"a client minds that markers are of a newer epoch": {func(j *judge) {
		t := copyOf(j, 0, ok)
		readCopy(j, "last", t, 7, afterwards, 0, 1)
		j.dataLoss("a", copiesTopic, 0, 8, 9)
	}, nil},
	"group offset back": {func(j *judge) {
		for _, offset := range []int64{5, 9} {
			j.committingOffset("g", 0, offset)
			j.committedOffset("g", 0, offset)
		}
		j.fetchedOffset("g", 0, 5, j.committedSoFar("g")[0])
	}, []string{"group-offset-back"}},
	"group offset unknown, then there": {func(j *judge) {
		j.committingOffset("g", 0, 5)
		j.committedOffset("g", 0, 5)
		j.committingOffset("g", 0, 9)
		j.fetchedOffset("g", 0, 9, j.committedSoFar("g")[0])
	}, nil},
	"group offset made up": {func(j *judge) {
		j.committingOffset("g", 0, 5)
		j.fetchedOffset("g", 0, 6, 0)
	}, []string{"group-offset-made-up"}},
	"not processed": {func(j *judge) {
		j.processed("g", 0, 0)
		j.processed("g", 0, 2)
		j.judgeGroup("g", ends(3))
	}, []string{"not-processed"}},
	"a node whose disk was filled says so": {func(j *judge) {
		j.judgeLog(1, []byte("ERROR the replica has stopped reason=no space left to write\nINFO ready\nERROR an append failed reason=Refused(Full)"), true, false)
	}, nil},
	"a node finds no space, and its disk was not filled": {func(j *judge) {
		j.judgeLog(1, []byte("ERROR the replica has stopped reason=no space left to write"), false, false)
	}, []string{"log-of-node"}},
	"a node whose files were changed says what it has found": {func(j *judge) {
		j.judgeLog(1, []byte("ERROR found damage file=x.log\nINFO ready"), false, true)
	}, nil},
	"a node whose files were changed has another trouble": {func(j *judge) {
		j.judgeLog(1, []byte("ERROR the replica has stopped reason=a sync failed"), false, true)
	}, []string{"log-of-node"}},
	"a node whose disk was filled has another trouble": {func(j *judge) {
		j.judgeLog(1, []byte("ERROR the replica has stopped reason=a sync failed"), true, false)
	}, []string{"log-of-node"}},
	"a node panics because its disk is full": {func(j *judge) {
		j.judgeLog(1, []byte("thread panicked at no space left"), true, false)
	}, []string{"log-of-node"}},
}

func TestAnomalies(t *testing.T) {
	for name, c := range cases {
		j := newJudge()
		c.history(j)
		if found := j.kinds(); !slices.Equal(found, c.found) {
			t.Errorf("%s: found %v, expected %v: %v", name, found, c.found, j.examples)
		}
	}
}
