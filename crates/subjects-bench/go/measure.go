package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The same measurements as in ../src/measure.rs and ../src/table.rs.

const (
	// Lookups between two readings of the clock.
	clockEvery = 512
	// Subjects whose results are counted to compare the systems.
	checked    = 10_000
	evictBytes = 64 << 20
	mib        = 1 << 20
)

type line struct {
	Part    string             `json:"part"`
	Load    string             `json:"load"`
	System  string             `json:"system"`
	Figures map[string]float64 `json:"figures"`
	Check   string             `json:"check"`
}

func (l line) print() {
	text, err := json.Marshal(l)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(text))
}

func rate(matchNs float64) map[string]float64 {
	return map[string]float64{"match_ns": matchNs, "matches_per_s": 1e9 / matchNs}
}

func short(count int) string {
	switch {
	case count >= 1_000_000 && count%100_000 == 0:
		return strconv.FormatFloat(float64(count)/1e6, 'f', -1, 64) + "M"
	case count >= 1_000 && count%100 == 0:
		return strconv.FormatFloat(float64(count)/1e3, 'f', -1, 64) + "k"
	}
	return strconv.Itoa(count)
}

func eachNs(count int, work func(int)) float64 {
	began := time.Now()
	for i := range count {
		work(i)
	}
	return float64(time.Since(began).Nanoseconds()) / float64(count)
}

func residentBytes() float64 {
	status, _ := os.ReadFile("/proc/self/status")
	for text := range strings.SplitSeq(string(status), "\n") {
		if rest, found := strings.CutPrefix(text, "VmRSS:"); found {
			kib, _ := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 64)
			return kib * 1024
		}
	}
	return 0
}

func since(began time.Time) uint32 {
	return uint32(min(time.Since(began).Nanoseconds(), 1<<32-1))
}

func median(samples []uint32) float64 {
	slices.Sort(samples)
	return float64(samples[len(samples)/2])
}

// distribution returns percentiles of all samples; the shares are thousandths of a per cent.
func distribution(samples []uint32) map[string]float64 {
	slices.Sort(samples)
	figures := map[string]float64{}
	for name, share := range map[string]int{
		"p10_ns": 10_000, "p50_ns": 50_000, "p75_ns": 75_000, "p90_ns": 90_000, "p95_ns": 95_000, "p99_ns": 99_000,
		"p99.9_ns": 99_900, "p99.99_ns": 99_990, "p99.999_ns": 99_999, "max_ns": 100_000,
	} {
		rank := max((len(samples)*share+99_999)/100_000, 1)
		figures[name] = float64(samples[rank-1])
	}
	return figures
}

// evictor reads more memory than a core's own caches hold.
type evictor []uint64

func newEvictor() evictor {
	buffer := make(evictor, evictBytes/8)
	for i := range buffer {
		buffer[i] = uint64(i)
	}
	return buffer
}

func (e evictor) evict() {
	for i := 0; i < len(e); i += 8 {
		e[i]++
	}
}

// round cycles through a list of subjects.
type round struct {
	subjects []string
	next     int
}

func (r *round) take() string {
	subject := r.subjects[r.next]
	if r.next++; r.next == len(r.subjects) {
		r.next = 0
	}
	return subject
}
