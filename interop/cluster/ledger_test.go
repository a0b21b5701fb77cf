package main

import (
	"slices"
	"testing"
)

// heardOf is a producer whose records of partition 0 are acknowledged and stored.
func heardOf(g *ledger, values ...string) (source [partitions][]string) {
	for offset, value := range values {
		g.acked(0, int64(offset), value)
	}
	source[0] = values
	return source
}

func owns(g *ledger, who string) { g.assigned(who, "g", []report{{Partition: 0}}) }

func only(values ...string) (all [partitions][]string) { all[0] = values; return all }

var accounts = map[string]struct {
	history func(g *ledger)
	found   []string
}{
	"sound": {func(g *ledger) {
		source := heardOf(g, "1.0", "1.1", "2.0")
		owns(g, "a")
		g.consumed("g", 0, 0, "1.0")
		g.advanced("a", "g", 0, 0, 0)
		g.judge.committedOffset("g", 0, 1)
		g.revoked("a", []report{{Partition: 0}})
		owns(g, "b")
		g.consumed("g", 0, 1, "1.1")
		g.advanced("b", "g", 0, 1, 1)
		g.delivered("s", 0, 0, "1.0", 5)
		g.delivered("s", 0, 0, "1.0", 7)
		g.accepted(0, 0, 9)
		g.judgeSource(source)
		g.judgeCopies(source, source)
		g.judge.judgeGroup("g", ends(2))
	}, nil},
	"stored, and the producer does not know": {func(g *ledger) {
		heardOf(g, "1.0")
		g.judgeSource(only("1.0", "1.1"))
	}, nil},
	"acknowledged, and not there": {func(g *ledger) {
		heardOf(g, "1.0", "1.1")
		g.judgeSource(only("1.0"))
	}, []string{"lost-read", "lost-write"}},
	"acknowledged, and something else is there": {func(g *ledger) {
		heardOf(g, "1.0", "1.1")
		g.judgeSource(only("1.0", "1.2"))
	}, []string{"inconsistent-offsets", "lost-write"}},
	"read, and not there in the end": {func(g *ledger) {
		g.consumed("g", 0, 0, "1.0")
		g.judgeSource(only())
	}, []string{"lost-read"}},
	"two clients see two values": {func(g *ledger) {
		g.consumed("g", 0, 0, "1.0")
		g.delivered("s", 0, 0, "1.1", 1)
	}, []string{"inconsistent-offsets"}},
	"stored twice": {func(g *ledger) { g.judgeSource(only("1.0", "1.0")) }, []string{"duplicate"}},
	"stored twice, in two partitions": {func(g *ledger) {
		source := only("1.0")
		source[1] = []string{"1.0"}
		g.judgeSource(source)
	}, []string{"duplicate"}},
	"stored out of order":        {func(g *ledger) { g.judgeSource(only("1.1", "1.0")) }, []string{"nonmonotonic-send"}},
	"stored, and nobody sent it": {func(g *ledger) { g.judgeSource(only("x")) }, []string{"made-up-value"}},
	"a consumer skips": {func(g *ledger) {
		owns(g, "a")
		g.advanced("a", "g", 0, 0, 3)
		g.advanced("a", "g", 0, 5, 6)
	}, []string{"poll-skip"}},
	"a consumer gets a record again": {func(g *ledger) {
		owns(g, "a")
		g.advanced("a", "g", 0, 0, 3)
		g.advanced("a", "g", 0, 3, 6)
	}, []string{"nonmonotonic-poll"}},
	"a consumer begins below what was committed": {func(g *ledger) {
		owns(g, "a")
		g.advanced("a", "g", 0, 0, 3)
		g.judge.committedOffset("g", 0, 4)
		owns(g, "b")
		g.advanced("b", "g", 0, 3, 3)
	}, []string{"group-offset-back"}},
	"a consumer begins again where a commit had no answer": {func(g *ledger) {
		owns(g, "a")
		g.advanced("a", "g", 0, 0, 3)
		owns(g, "b")
		g.advanced("b", "g", 0, 0, 3)
	}, nil},
	"records of a partition that was revoked": {func(g *ledger) {
		owns(g, "a")
		g.advanced("a", "g", 0, 0, 3)
		g.revoked("a", []report{{Partition: 0}})
		g.advanced("a", "g", 0, 4, 5)
	}, []string{"not-assigned"}},
	"a client that starts again owns nothing": {func(g *ledger) {
		owns(g, "a")
		g.begins("a")
		g.advanced("a", "g", 0, 0, 3)
	}, []string{"not-assigned"}},
	"skipped by the group": {func(g *ledger) {
		g.consumed("g", 0, 1, "1.1")
		g.judge.judgeGroup("g", ends(2))
	}, []string{"not-processed"}},
	"accepted, and it comes again": {func(g *ledger) {
		g.delivered("s", 0, 0, "1.0", 5)
		g.accepted(0, 0, 9)
		g.delivered("t", 0, 0, "1.0", 10)
	}, []string{"accepted-comes-again"}},
	"the same, heard of in another order": {func(g *ledger) {
		g.delivered("s", 0, 0, "1.0", 5)
		g.delivered("t", 0, 0, "1.0", 10)
		g.accepted(0, 0, 9)
	}, []string{"accepted-comes-again"}},
	"accepted, and never delivered": {func(g *ledger) { g.accepted(0, 0, 9) }, []string{"made-up-value"}},
	"not copied":                    {func(g *ledger) { g.judgeCopies(only("1.0", "1.1"), only("1.0")) }, []string{"not-copied"}},
	"copied twice":                  {func(g *ledger) { g.judgeCopies(only("1.0", "1.1"), only("1.0", "1.1", "1.0")) }, []string{"copied-twice"}},
	"a copy of nothing":             {func(g *ledger) { g.judgeCopies(only("1.0"), only("1.0", "1.1")) }, []string{"made-up-value"}},
	"copied out of order":           {func(g *ledger) { g.judgeCopies(only("1.0", "1.1"), only("1.1", "1.0")) }, []string{"copied-out-of-order"}},
}

func TestLedger(t *testing.T) {
	for name, c := range accounts {
		g := newLedger(newJudge())
		c.history(g)
		if found := g.judge.kinds(); !slices.Equal(found, c.found) {
			t.Errorf("%s: found %v, expected %v: %v", name, found, c.found, g.judge.examples)
		}
	}
	g := newLedger(newJudge())
	g.delivered("s", 0, 0, "1.0", 5)
	if g.notAccepted(ends(1)) == "" {
		t.Error("what was delivered alone counts as accepted")
	}
	g.accepted(0, 0, 9)
	if missing := g.notAccepted(ends(1)); missing != "" {
		t.Errorf("all is accepted, and %s", missing)
	}
	g.delivered("s", 0, 1, "1.1", 5)
	g.unsure("t")
	if g.notAccepted(ends(2)) == "" {
		t.Error("what one client holds is not accepted because of another one")
	}
	g.unsure("s")
	if missing := g.notAccepted(ends(2)); missing != "" {
		t.Errorf("it may have been accepted, and %s", missing)
	}
	g.delivered("t", 0, 1, "1.1", 7)
	if g.notAccepted(ends(2)) == "" {
		t.Error("what came again was not accepted")
	}
}
