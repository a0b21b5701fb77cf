package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"sort"
	"strings"
)

// The disks of the three nodes after they have ended: every replica must have the same batches.

type batch struct {
	Base     int64  `json:"base_offset"`
	Last     int64  `json:"last_offset"`
	Epoch    int32  `json:"leader_epoch"`
	Crc      uint32 `json:"crc"`
	Producer int64  `json:"producer_id"`
	// Generation of the producer, and the number of the first record within it. No two batches of a partition
	// have the same.
	Generation int16 `json:"producer_epoch"`
	Sequence   int32 `json:"base_sequence"`
	Control    bool  `json:"control"`
}

// stored is one batch of an idempotent producer.
type stored struct {
	producer   int64
	generation int16
	sequence   int32
}

// epochStarts are the offsets at which leader epochs start.
func epochStarts(batches []batch) map[int64]bool {
	starts, last := map[int64]bool{}, int32(nowhere)
	for _, b := range batches {
		if b.Epoch != last {
			starts[b.Base], last = true, b.Epoch
		}
	}
	return starts
}

// repeated looks for batches that a leader took twice. It returns the number of generations that producers
// started beyond their first.
func repeated(j *judge, name string, batches []batch) int {
	at, renewed := map[stored]int64{}, map[stored]bool{}
	for _, b := range batches {
		if b.Producer < 0 || b.Sequence < 0 || b.Control {
			continue
		}
		id := stored{b.Producer, b.Generation, b.Sequence}
		if before, twice := at[id]; twice {
			j.anomaly("batch-taken-twice", "%s: producer %d, epoch %d, sequence %d at %d and at %d", name, b.Producer, b.Generation, b.Sequence, before, b.Base)
		}
		at[id] = b.Base
		if b.Generation > 0 {
			renewed[stored{b.Producer, b.Generation, 0}] = true
		}
	}
	return len(renewed)
}

func dump(binary, folder string) ([]batch, error) {
	command := exec.Command(binary, "log", "dump", "-o", "json", folder)
	var errors strings.Builder
	command.Stderr = &errors
	out, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, err
	}
	var batches []batch
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		b := batch{Base: nowhere}
		if err := json.Unmarshal(lines.Bytes(), &b); err != nil {
			return nil, err
		}
		if b.Base != nowhere {
			batches = append(batches, b)
		}
	}
	if err := command.Wait(); err != nil {
		return nil, fmt.Errorf("%v: %s", err, errors.String())
	}
	return batches, nil
}

// compareReplicas compares the replicas. It returns how many partitions it compared.
func compareReplicas(c *cluster, j *judge, compact bool) int {
	names := map[string]bool{}
	for _, n := range c.nodes {
		folders, _ := filepath.Glob(filepath.Join(n.data, "*-*"))
		for _, folder := range slices.DeleteFunc(folders, setAside) {
			names[filepath.Base(folder)] = true
		}
		if out, err := exec.Command(n.binary, "log", "verify", n.data).CombinedOutput(); err != nil {
			j.anomaly("damaged-log", "node %d: %v: %s", n.number, err, lastOf(string(out)))
		}
	}
	var sorted []string
	for name := range names {
		sorted = append(sorted, name)
	}
	sort.Strings(sorted)
	for _, name := range sorted {
		comparePartition(c, j, name, strings.HasPrefix(name, "__") || compact && strings.HasPrefix(name, copiesTopic+"-"))
	}
	return len(sorted)
}

func lastOf(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-3):], " | ")
}

func comparePartition(c *cluster, j *judge, name string, compacted bool) {
	var first []batch
	for i, n := range c.nodes {
		batches, err := dump(n.binary, filepath.Join(n.data, name))
		if err != nil {
			j.anomaly("replicas-differ", "%s of node %d cannot be read: %v", name, n.number, err)
			return
		}
		if i == 0 {
			first = batches
			if strings.HasPrefix(name, sourceTopic+"-") {
				j.renewed += repeated(j, name, batches)
			}
			if strings.HasPrefix(name, loadTopic+"-") {
				j.renewed += repeated(j, name, batches)
				var partition int32
				fmt.Sscanf(name, loadTopic+"-%d", &partition)
				j.returned += j.judgeBacks(partition, epochStarts(batches))
			}
			continue
		}
		differing(j, name, n.number, compacted, first, batches)
	}
}

// differing compares batches by offset. Compaction drops some of the internal topics, on each node at its own
// time.
func differing(j *judge, name string, number int, compacted bool, one, other []batch) {
	at := map[int64]batch{}
	for _, b := range one {
		at[b.Base] = b
	}
	for _, b := range other {
		a, both := at[b.Base]
		switch {
		case both && a != b && !(compacted && a.Epoch == b.Epoch && a.Last == b.Last):
			j.anomaly("replicas-differ", "%s: node 1 has %+v, node %d %+v", name, a, number, b)
			return
		case !both && !compacted:
			j.anomaly("replicas-differ", "%s: node %d has %+v, node 1 does not", name, number, b)
			return
		}
	}
	if !compacted && len(one) != len(other) {
		j.anomaly("replicas-differ", "%s: node 1 has %d batches, node %d has %d", name, len(one), number, len(other))
	}
}
