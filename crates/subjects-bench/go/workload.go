package main

// Patterns and subjects: the same, bit for bit, as in ../src/workload.rs, which describes them.

const (
	positions       = 5
	vocabularySize  = 64
	oneIn           = 10
	step            = 7_368_787
	threeVocabulary = 10
	letters         = "abcdefghijklmnopqrstuvwxyz0123456789"
)

var lengths = [8]int{3, 4, 4, 4, 5, 5, 6, 8}

// splitMix is SplitMix64; see ../src/random.rs.
type splitMix struct{ state uint64 }

func (r *splitMix) next() uint64 {
	r.state += 0x9e3779b97f4a7c15
	z := r.state
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb
	return z ^ (z >> 31)
}

func (r *splitMix) below(bound int) int {
	return int(((r.next() >> 32) * uint64(bound)) >> 32)
}

// checksum is FNV-1a over all texts, each ended by a line feed.
func checksum(texts []string) uint64 {
	hash := uint64(0xcbf29ce484222325)
	for _, text := range texts {
		for i := 0; i < len(text); i++ {
			hash = (hash ^ uint64(text[i])) * 0x100000001b3
		}
		hash = (hash ^ '\n') * 0x100000001b3
	}
	return hash
}

type workload struct {
	seed  uint64
	words [positions][]string
}

func newWorkload(seed uint64) *workload {
	w := &workload{seed: seed}
	random := &splitMix{seed}
	for position := range w.words {
		w.words[position] = vocabulary(random)
	}
	return w
}

func vocabulary(random *splitMix) []string {
	var words []string
	seen := map[string]bool{}
	for len(words) < vocabularySize {
		word := make([]byte, lengths[random.below(len(lengths))])
		for i := range word {
			word[i] = letters[random.below(len(letters))]
		}
		if !seen[string(word)] {
			seen[string(word)] = true
			words = append(words, string(word))
		}
	}
	return words
}

// arena joins words to texts that are all in a few large allocations.
type arena struct {
	bytes []byte
	ends  []int
}

func (a *arena) push(words []string) {
	for i, word := range words {
		if i > 0 {
			a.bytes = append(a.bytes, '.')
		}
		a.bytes = append(a.bytes, word...)
	}
	a.ends = append(a.ends, len(a.bytes))
}

func (a *arena) texts() []string {
	all := string(a.bytes)
	texts := make([]string, len(a.ends))
	start := 0
	for i, end := range a.ends {
		texts[i] = all[start:end]
		start = end
	}
	return texts
}

func (w *workload) patterns(count int) []string {
	random := &splitMix{w.seed + 1}
	texts := &arena{}
	words := make([]string, positions)
	for range count {
		for position := range words {
			words[position] = w.words[position][random.below(vocabularySize)]
		}
		if random.below(oneIn) == 0 {
			words[random.below(positions)] = "*"
		}
		texts.push(words)
	}
	return texts.texts()
}

func (w *workload) subjects(patterns []string, of, count int) []string {
	random := &splitMix{w.seed + 2}
	texts := &arena{}
	words := make([]string, positions)
	for index := range count {
		position, start := 0, 0
		pattern := patterns[(index+1)*step%of]
		for i := 0; i <= len(pattern); i++ {
			if i < len(pattern) && pattern[i] != '.' {
				continue
			}
			words[position] = pattern[start:i]
			if words[position] == "*" {
				words[position] = w.words[position][random.below(vocabularySize)]
			}
			position, start = position+1, i+1
		}
		if random.below(oneIn) == 0 {
			words[positions-1] = w.words[positions-1][random.below(vocabularySize)]
		}
		texts.push(words)
	}
	return texts.texts()
}

func (w *workload) threePatterns() []string {
	texts := &arena{}
	const n = threeVocabulary
	for mixed := range n * n * n {
		texts.push([]string{w.words[0][mixed/100], w.words[1][mixed/10%10], w.words[2][mixed%10]})
	}
	for mixed := range n * n {
		texts.push([]string{w.words[0][mixed/10], "*", w.words[2][mixed%10]})
	}
	for mixed := range n * n {
		texts.push([]string{"*", w.words[1][mixed/10], w.words[2][mixed%10]})
	}
	return texts.texts()
}

func (w *workload) threeSubjects() []string {
	texts := &arena{}
	const count = threeVocabulary * threeVocabulary * threeVocabulary
	for index := range count {
		mixed := (index + 1) * step % count
		texts.push([]string{w.words[0][mixed/100], w.words[1][mixed/10%10], w.words[2][mixed%10]})
	}
	return texts.texts()
}
