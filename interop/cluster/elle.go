package main

import (
	"bufio"
	"encoding/json"
	"os"
	"slices"
)

// What the copiers did with their group's offsets, for a judge that others maintain: adya, a port of Jepsen's
// Elle. Each partition's offset is a register. A transaction reads it (where its records start) and writes it
// (where they end). So a history that is strictly serializable has each record copied once, and none by a
// fenced copier.

// operation is one line of a history in the format of elle-cli.
type operation struct {
	Type    string   `json:"type"`
	Process int      `json:"process"`
	Value   [][3]any `json:"value"`
	at      int
}

// history leaves out transactions of which no record exists: others write again what they would have written.
// A transaction with an unknown outcome whose records exist may have been committed (info).
func (j *judge) history(last string) []operation {
	j.mu.Lock()
	defer j.mu.Unlock()
	var all []operation
	processes, next := map[string]int{}, 0
	for _, t := range j.transactions {
		there := false
		for _, i := range t.items {
			there = there || i.seen != nowhere && j.read[position{copiesTopic, last, i.partition}].contains(i.seen)
		}
		if t.outcome == failed || t.outcome == unknown && !there || len(t.items) == 0 {
			continue
		}
		process, known := processes[t.copier]
		if !known {
			process = next
			next++
			processes[t.copier] = process
		}
		end, done := "ok", t.done
		if t.outcome == unknown { // as in Jepsen, a process that does not know the outcome ends here
			delete(processes, t.copier)
			end, done = "info", j.clock+1
		}
		all = append(all, operation{"invoke", process, t.registers(false), t.began}, operation{end, process, t.registers(true), done})
	}
	slices.SortStableFunc(all, func(a, b operation) int { return a.at - b.at })
	return all
}

// registers is what a transaction read and wrote. What it read is not known before it has ended.
func (t *transaction) registers(isKnown bool) (value [][3]any) {
	first, next := map[int32]int64{}, map[int32]int64{}
	for _, i := range t.items {
		if from, known := first[i.fromPartition]; !known || i.fromOffset < from {
			first[i.fromPartition] = i.fromOffset
		}
		next[i.fromPartition] = max(next[i.fromPartition], i.fromOffset+1)
	}
	for p := range int32(partitions) {
		if _, has := first[p]; !has {
			continue
		}
		var read any
		if isKnown && first[p] > 0 {
			read = first[p]
		}
		value = append(value, [3]any{"r", p, read}, [3]any{"w", p, next[p]})
	}
	return value
}

func writeHistory(path string, all []operation) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	out := bufio.NewWriter(file)
	lines := json.NewEncoder(out)
	for _, o := range all {
		if err := lines.Encode(o); err != nil {
			return err
		}
	}
	return out.Flush()
}
