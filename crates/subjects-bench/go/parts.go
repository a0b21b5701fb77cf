package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

// The parts of the benchmark, as in ../src/parts. Before anything is timed the heap is collected, so that no
// part pays for the one before it. Collections in between belong to the server and count.

const (
	hot        = 512
	repeated   = 512
	thousand   = 1_000
	cold       = 33
	slotsMax   = 65_536
	stepOps    = 64
	stormCount = 1_024
	churnBase  = 100_000
	stallNs    = 1_000_000
)

type bench[S any] struct {
	*table[S]
	options options
	work    *workload
	subs    []*S
}

func (b *bench[S]) run() error {
	switch b.options.part {
	case "thousand":
		b.thousand()
	case "three":
		b.three()
	case "table":
		b.tablePart()
	case "threads":
		b.threads()
	case "storm":
		b.storm()
	case "growth":
		b.growth()
	case "churn":
		b.churn()
	case "memory":
		b.memory()
	default:
		return fmt.Errorf("no part '%s'", b.options.part)
	}
	return nil
}

// slots returns memory for subscriptions that was touched before.
func (b *bench[S]) slots(count int) []*S {
	slots := make([]*S, count)
	filler := new(S)
	for i := range slots {
		slots[i] = filler
	}
	runtime.GC()
	return slots
}

// fill subscribes the first patterns. It returns nanoseconds for each and the resident bytes that they added.
func (b *bench[S]) fill(patterns []string, count int) (insertNs, resident float64) {
	b.subs = b.slots(count)
	before := residentBytes()
	insertNs = eachNs(count, func(i int) { b.subs[i] = b.subscribe(patterns[i], i) })
	resident = residentBytes() - before
	runtime.GC()
	return insertNs, resident
}

func (b *bench[S]) check(patterns, subjects []string) string {
	asked := subjects[:min(checked, len(subjects))]
	hits, sum := b.count(asked)
	if again, sumAgain := b.count(asked); again != hits || sumAgain != sum {
		panic("the cache finds something else")
	}
	return fmt.Sprintf("%016x %016x %d %x", checksum(patterns), checksum(subjects), hits, sum)
}

// matchNs first warms up for a tenth of the time.
func (b *bench[S]) matchNs(subjects []string) float64 {
	runtime.GC()
	r := &round{subjects: subjects}
	b.pace(r, b.options.seconds/10)
	return b.pace(r, b.options.seconds)
}

func (b *bench[S]) pace(r *round, seconds float64) float64 {
	limit := time.Duration(seconds * float64(time.Second))
	began, done := time.Now(), 0
	for {
		for range clockEvery {
			b.match(r.take())
		}
		done += clockEvery
		if elapsed := time.Since(began); elapsed >= limit {
			return float64(elapsed.Nanoseconds()) / float64(done)
		}
	}
}

func (b *bench[S]) print(part, load string, figures map[string]float64, check string) {
	line{part, load, b.name(), figures, check}.print()
}

func (b *bench[S]) thousand() {
	patterns := b.work.patterns(2 * thousand)
	subjects := b.work.subjects(patterns, thousand, thousand)
	b.fill(patterns, thousand)
	check := b.check(patterns, subjects)
	b.print("thousand", "1k hot", rate(b.matchNs(subjects)), check)
	b.print("thousand", "1k hot", b.writes(patterns), check)
	b.print("thousand", "1k cold", b.cold(patterns, subjects), check)
}

func (b *bench[S]) writes(patterns []string) map[string]float64 {
	kept := b.slots(thousand)
	began, rounds, subscribes, unsubscribes := time.Now(), 0.0, 0.0, 0.0
	for time.Since(began).Seconds() < b.options.seconds {
		subscribes += eachNs(thousand, func(i int) { kept[i] = b.subscribe(patterns[thousand+i], i) })
		unsubscribes += eachNs(thousand, func(i int) { b.unsubscribe(kept[i]) })
		rounds++
	}
	return map[string]float64{"subscribe_ns": subscribes / rounds, "unsubscribe_ns": unsubscribes / rounds}
}

func (b *bench[S]) cold(patterns, subjects []string) map[string]float64 {
	evictor := newEvictor()
	var subscribes, lookups, unsubscribes []uint32
	for i := range cold {
		evictor.evict()
		began := time.Now()
		sub := b.subscribe(patterns[thousand+i], 0)
		subscribes = append(subscribes, since(began))
		evictor.evict()
		began = time.Now()
		b.match(subjects[i])
		lookups = append(lookups, since(began))
		evictor.evict()
		began = time.Now()
		b.unsubscribe(sub)
		unsubscribes = append(unsubscribes, since(began))
	}
	return map[string]float64{
		"subscribe_ns": median(subscribes), "match_ns": median(lookups), "unsubscribe_ns": median(unsubscribes),
	}
}

func (b *bench[S]) three() {
	patterns, subjects := b.work.threePatterns(), b.work.threeSubjects()
	b.fill(patterns, len(patterns))
	check := b.check(patterns, subjects)
	b.print("three", "3 words, 3 hits", rate(b.matchNs(subjects)), check)
}

func (b *bench[S]) tablePart() {
	count := b.options.count
	patterns := b.work.patterns(count)
	subjects := b.work.subjects(patterns, count, count)
	insertNs, resident := b.fill(patterns, count)
	check := b.check(patterns, subjects)
	load := func(what string) string { return short(count) + " " + what }
	same := make([]string, repeated)
	for i := range same {
		same[i] = subjects[0]
	}
	b.print("table", load("unique"), rate(b.matchNs(subjects)), check)
	b.print("table", load("hot"), rate(b.matchNs(subjects[:hot])), check)
	b.print("table", load("one"), rate(b.matchNs(same)), check)
	runtime.GC()
	removeNs := eachNs(count, func(i int) { b.unsubscribe(b.subs[i]) })
	b.print("table", load("build"), map[string]float64{
		"insert_ns": insertNs, "remove_ns": removeNs, "resident_bytes": resident / float64(count),
	}, check)
}

func (b *bench[S]) threads() {
	count := b.options.count
	slots := min(count, slotsMax)
	patterns := b.work.patterns(count + slots)
	subjects := b.work.subjects(patterns, count, count)
	b.fill(patterns, count)
	check := b.check(patterns, subjects)
	exchanged := make([]bool, slots)
	for _, what := range []string{"unique", "hot"} {
		list := subjects
		if what == "hot" {
			list = subjects[:hot]
		}
		for _, threads := range b.options.threads {
			for _, percent := range b.options.writes {
				runtime.GC()
				matches, writes := b.together(patterns, list, exchanged, threads, percent)
				load := fmt.Sprintf("%s %s, %d threads, %d%% writes", short(count), what, threads, percent)
				b.print("threads", load, map[string]float64{
					"matches_per_s": matches, "writes_per_s": writes,
					"threads": float64(threads), "writes_pct": float64(percent),
				}, check)
			}
		}
	}
}

// together runs goroutines on as many threads as there are cores, and sums their rates, each over its own
// time.
func (b *bench[S]) together(patterns, subjects []string, exchanged []bool, threads, percent int) (float64, float64) {
	var stop atomic.Bool
	var ready, done sync.WaitGroup
	start := make(chan struct{})
	matches, writes := make([]float64, threads), make([]float64, threads)
	per := len(exchanged) / threads
	for worker := range threads {
		ready.Add(1)
		done.Go(func() {
			first := worker * per
			random := &splitMix{uint64(first)}
			r := &round{subjects, first * 31 % len(subjects)}
			matched, written := 0, 0
			ready.Done()
			<-start
			began := time.Now()
			for !stop.Load() {
				for range stepOps {
					if random.below(100) >= percent {
						b.match(r.take())
						matched++
						continue
					}
					slot := first + random.below(per)
					b.unsubscribe(b.subs[slot])
					exchanged[slot] = !exchanged[slot]
					index := slot
					if exchanged[slot] {
						index += len(b.subs)
					}
					b.subs[slot] = b.subscribe(patterns[index], index)
					written++
				}
			}
			seconds := time.Since(began).Seconds()
			matches[worker], writes[worker] = float64(matched)/seconds, float64(written)/seconds
		})
	}
	ready.Wait()
	close(start)
	time.Sleep(time.Duration(b.options.seconds * float64(time.Second)))
	stop.Store(true)
	done.Wait()
	return total(matches), total(writes)
}

func total(values []float64) (sum float64) {
	for _, value := range values {
		sum += value
	}
	return sum
}

func (b *bench[S]) storm() {
	count := b.options.count
	threads := 2
	for _, wanted := range b.options.threads {
		threads = max(threads, wanted)
	}
	writers := threads - 1
	patterns := b.work.patterns(count + writers*stormCount)
	subjects := b.work.subjects(patterns, count, count)
	b.fill(patterns, count)
	check := b.check(patterns, subjects)
	for _, what := range []string{"unique", "hot"} {
		list := subjects
		if what == "hot" {
			list = subjects[:hot]
		}
		var stop atomic.Bool
		var done sync.WaitGroup
		changes := make([]float64, writers)
		for writer := range writers {
			done.Go(func() {
				kept := make([]*S, 0, stormCount)
				first := count + writer*stormCount
				began, changed := time.Now(), 0
				for !stop.Load() {
					for i := first; i < first+stormCount; i++ {
						kept = append(kept, b.subscribe(patterns[i], i))
					}
					for _, sub := range kept {
						b.unsubscribe(sub)
					}
					kept = kept[:0]
					changed += 2 * stormCount
				}
				changes[writer] = float64(changed) / time.Since(began).Seconds()
			})
		}
		figures := rate(b.matchNs(list))
		stop.Store(true)
		done.Wait()
		figures["changes_per_s"], figures["writers"] = total(changes), float64(writers)
		b.print("storm", fmt.Sprintf("%s %s, storm", short(count), what), figures, check)
	}
}

func (b *bench[S]) growth() {
	count := b.options.count
	patterns := b.work.patterns(count)
	b.subs = b.slots(count)
	load := "0 to " + short(count)
	check := fmt.Sprintf("%016x", checksum(patterns))
	began := time.Now()
	inserts := newSamples(count)
	for i := range count {
		start := time.Now()
		b.subs[i] = b.subscribe(patterns[i], i)
		inserts.add(start)
	}
	// As long as the inserts took, so that it meets as many interruptions of the machine.
	lasted := time.Since(began)
	empty, length := newSamples(count), 0
	for began = time.Now(); time.Since(began) < lasted; {
		for i := range clockEvery {
			start := time.Now()
			length += len(patterns[i])
			empty.add(start)
		}
	}
	line{"growth", load, b.name() + "'s empty loop", empty.figures(), check}.print()
	b.print("growth", load, inserts.figures(), check)
	runtime.KeepAlive(length)
}

// samples holds the times of operations: the first ones individually, and of all the longest and the number
// of stalls.
type samples struct {
	times           []uint32
	taken           int
	longest, stalls uint32
}

func newSamples(count int) *samples {
	s := &samples{times: make([]uint32, count)}
	for i := range s.times {
		s.times[i] = 1
	}
	return s
}

func (s *samples) add(began time.Time) {
	took := since(began)
	if s.taken < len(s.times) {
		s.times[s.taken] = took
	}
	s.taken++
	s.longest = max(s.longest, took)
	if took >= stallNs {
		s.stalls++
	}
}

func (s *samples) figures() map[string]float64 {
	figures := distribution(s.times[:min(s.taken, len(s.times))])
	figures["max_ns"], figures["stalls"] = float64(s.longest), float64(s.stalls)
	return figures
}

// churn measures after a collection, and once more after unused memory was returned to the kernel, which the
// runtime would do in its own time.
func (b *bench[S]) churn() {
	pairs := b.options.count
	patterns := b.work.patterns(churnBase + pairs)
	subjects := b.work.subjects(patterns, churnBase, churnBase)
	kept := b.slots(pairs)
	b.fill(patterns, churnBase)
	check := b.check(patterns, subjects)
	look := func() float64 {
		runtime.GC()
		return residentBytes()
	}
	debug.FreeOSMemory()
	start := residentBytes()
	for i := range pairs {
		b.unsubscribe(b.subscribe(patterns[churnBase+i], i))
	}
	singly := look()
	for i := range kept {
		kept[i] = b.subscribe(patterns[churnBase+i], i)
	}
	full := residentBytes()
	for i := range kept {
		b.unsubscribe(kept[i])
		kept[i] = nil
	}
	atOnce := look()
	debug.FreeOSMemory()
	givenBack := residentBytes()
	b.print("churn", short(pairs)+" pairs", map[string]float64{
		"start_mib": start / mib, "singly_mib": singly / mib, "full_mib": full / mib, "at_once_mib": atOnce / mib,
		"given_back_mib": givenBack / mib,
		"singly_ratio":   singly / start, "at_once_ratio": atOnce / start, "given_back_ratio": givenBack / start,
	}, check)
}

func (b *bench[S]) memory() {
	count := b.options.count
	patterns := b.work.patterns(count)
	b.subs = b.slots(count)
	heap := func() float64 {
		runtime.GC()
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		return float64(stats.HeapAlloc)
	}
	before, resident := heap(), residentBytes()
	for i := range count {
		b.subs[i] = b.subscribe(patterns[i], i)
	}
	resident = residentBytes() - resident
	b.print("memory", short(count), map[string]float64{
		"resident_bytes": resident / float64(count), "heap_bytes": (heap() - before) / float64(count),
	}, fmt.Sprintf("%016x", checksum(patterns)))
}
