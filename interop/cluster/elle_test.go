package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// adya must find a conflict between two copiers, or its silence means nothing. ELLE names the binary.
func TestElle(t *testing.T) {
	adya := os.Getenv("ELLE")
	for name, c := range map[string]struct {
		history func(j *judge)
		valid   bool
	}{
		"one after the other":  {func(j *judge) { copied(j, "a", 0, 4, ok); copied(j, "b", 4, 6, ok); copied(j, "a", 6, 9, ok) }, true},
		"one that was aborted": {func(j *judge) { copied(j, "a", 0, 4, ok); copied(j, "b", 4, 6, failed); copied(j, "a", 4, 6, ok) }, true},
		"one that nobody knows of, and it is there": {func(j *judge) {
			copied(j, "a", 0, 4, ok)
			copied(j, "b", 4, 6, unknown)
			copied(j, "a", 6, 9, ok)
		}, true},
		"two that begin at one place":     {func(j *judge) { copied(j, "a", 0, 4, ok); copied(j, "a", 4, 6, ok); copied(j, "b", 4, 8, ok) }, false},
		"one that knows what comes later": {func(j *judge) { copied(j, "a", 0, 4, ok); copied(j, "b", 6, 8, ok); copied(j, "a", 4, 6, ok) }, false},
	} {
		j := newJudge()
		c.history(j)
		path := filepath.Join(t.TempDir(), "history.jsonl")
		if err := writeHistory(path, j.history("last")); err != nil {
			t.Fatal(err)
		}
		if adya == "" {
			continue
		}
		if out, err := exec.Command(adya, "check", "-m", "rw-register", "--wfr-keys", "-c", "strict-serializable", path).CombinedOutput(); (err == nil) != c.valid {
			t.Errorf("%s: %v: %s", name, err, out)
		}
	}
}

// copied is a transaction that copies some records of partition 0. All of them exist unless it was aborted.
func copied(j *judge, copier string, first, next int64, end outcome) {
	txn := j.begin(copier)
	for offset := first; offset < next; offset++ {
		n := j.copied(txn, 0, offset)
		if end != failed {
			j.polledCopy("last", 0, int64(len(j.copies[0])), value{txn, n}, began)
		}
	}
	if end != unknown {
		j.ended(txn, end)
	}
}

func TestHistory(t *testing.T) {
	j := newJudge()
	copied(j, "a", 0, 4, ok)
	copied(j, "a", 4, 6, failed)
	copied(j, "a", 4, 7, unknown)
	copied(j, "a", 7, 8, ok)
	var lines []string
	for _, o := range j.history("last") {
		line, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, string(line))
	}
	expected := []string{
		`{"type":"invoke","process":0,"value":[["r",0,null],["w",0,4]]}`,
		`{"type":"ok","process":0,"value":[["r",0,null],["w",0,4]]}`,
		`{"type":"invoke","process":0,"value":[["r",0,null],["w",0,7]]}`,
		`{"type":"invoke","process":1,"value":[["r",0,null],["w",0,8]]}`,
		`{"type":"ok","process":1,"value":[["r",0,7],["w",0,8]]}`,
		`{"type":"info","process":0,"value":[["r",0,4],["w",0,7]]}`,
	}
	if len(lines) != len(expected) {
		t.Fatalf("%d lines: %v", len(lines), lines)
	}
	for i, line := range lines {
		if line != expected[i] {
			t.Errorf("line %d: %s, expected %s", i, line, expected[i])
		}
	}
}
