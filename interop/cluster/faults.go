package main

import (
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	nodeCount     = 3
	startedWithin = 60 * time.Second
)

// fault is one entry of the schedule. All chance is in the schedule, which only the seed decides.
type fault struct {
	number  int
	kind    string
	pause   time.Duration // before it
	length  time.Duration
	nodes   []int // all of them, the victims first
	dice    int   // a decision within the fault
	overlap bool  // the next one does not wait for its end
}

type kind struct {
	most time.Duration // the longest duration; at least a second, or nothing
	run  func(c *chaos, f fault)
}

// kinds is a function because the entries name methods that use the table.
func kinds() map[string]kind {
	return map[string]kind{
		"kill":    {10 * time.Second, func(c *chaos, f fault) { c.down(f, 1, (*node).kill) }},
		"kill2":   {10 * time.Second, func(c *chaos, f fault) { c.down(f, 2, (*node).kill) }},
		"killall": {5 * time.Second, func(c *chaos, f fault) { c.down(f, 3, (*node).kill) }},
		"stop":    {15 * time.Second, func(c *chaos, f fault) { c.freeze(f, 1) }},
		"stop2":   {15 * time.Second, func(c *chaos, f fault) { c.freeze(f, 2) }},
		"term":    {3 * time.Second, func(c *chaos, f fault) { c.down(f, 1, c.shutDown) }},
		"rolling": {3 * time.Second, (*chaos).rolling},
		"cut":     {15 * time.Second, func(c *chaos, f fault) { c.cut(f, [][2]int{{0, 1}, {1, 0}}, direction{held: true}) }},
		"oneway":  {15 * time.Second, func(c *chaos, f fault) { c.cut(f, [][2]int{{0, 1}}, direction{held: true}) }},
		"deaf":    {15 * time.Second, func(c *chaos, f fault) { c.cut(f, [][2]int{{1, 0}, {2, 0}}, direction{held: true}) }},
		"mute":    {15 * time.Second, func(c *chaos, f fault) { c.cut(f, [][2]int{{0, 1}, {0, 2}}, direction{held: true}) }},
		"isolate": {15 * time.Second, func(c *chaos, f fault) {
			c.cut(f, [][2]int{{0, 1}, {1, 0}, {0, 2}, {2, 0}}, direction{held: true})
		}},
		"split": {8 * time.Second, func(c *chaos, f fault) { c.cut(f, everyDirection, direction{held: true}) }},
		"refuse": {8 * time.Second, func(c *chaos, f fault) {
			c.cut(f, [][2]int{{0, 1}, {1, 0}, {0, 2}, {2, 0}}, direction{shut: true})
		}},
		"reset": {3 * time.Second, (*chaos).resets},
		"delay": {15 * time.Second, func(c *chaos, f fault) {
			c.cut(f, everyDirection, direction{delay: time.Duration(10+f.dice%290) * time.Millisecond})
		}},
		"disk": {10 * time.Second, (*chaos).fill},
		"rot":  {time.Second, (*chaos).rot},
	}
}

var everyDirection = [][2]int{{0, 1}, {1, 0}, {0, 2}, {2, 0}, {1, 2}, {2, 1}}

// usual is what --faults chooses from by default. `disk` needs to mount, and `rot` fills the logs of nodes
// with errors.
var usual = []string{"kill", "kill2", "killall", "stop", "stop2", "term", "rolling", "cut", "oneway", "deaf", "mute", "isolate", "split", "refuse", "reset", "delay"}

// schedule deals the kinds like cards: each once before any comes again.
func schedule(seed int64, kindsWanted []string, total, lengthMax time.Duration) []fault {
	rng := rand.New(rand.NewSource(seed))
	known := kinds()
	var plan []fault
	var deck []string
	for at := time.Duration(0); at < total; {
		if len(deck) == 0 {
			deck = append(deck, kindsWanted...)
			rng.Shuffle(len(deck), func(i, k int) { deck[i], deck[k] = deck[k], deck[i] })
		}
		f := fault{number: len(plan) + 1, kind: deck[0], dice: rng.Intn(1 << 30), overlap: rng.Intn(5) == 0}
		deck = deck[1:]
		f.pause = time.Duration(500+rng.Intn(4500)) * time.Millisecond
		f.length = time.Duration(rng.Int63n(int64(min(known[f.kind].most, lengthMax))))
		if rng.Intn(6) == 0 && f.kind != "delay" {
			f.length /= 20
		}
		for _, n := range rng.Perm(nodeCount) {
			f.nodes = append(f.nodes, n+1)
		}
		plan = append(plan, f)
		at += f.pause
		if !f.overlap {
			at += f.length
		}
	}
	return plan
}

type chaos struct {
	cluster *cluster
	judge   *judge
	began   time.Time
	running sync.WaitGroup
	mu      sync.Mutex
	counts  map[string]int
	filled  map[int]bool // nodes whose disk was full
	rotten  map[int]bool // nodes with flipped bytes
	rotting sync.Mutex
}

func (c *chaos) say(format string, a ...any) {
	fmt.Printf("%7.2f s  %s\n", time.Since(c.began).Seconds(), fmt.Sprintf(format, a...))
}

func (c *chaos) follow(plan []fault, total time.Duration) {
	known := kinds()
	for _, f := range plan {
		time.Sleep(f.pause)
		if time.Since(c.began) > total {
			break
		}
		c.mu.Lock()
		c.counts[f.kind]++
		c.mu.Unlock()
		c.say("fault %d: %s of %v for %.2f s%s", f.number, f.kind, f.nodes, f.length.Seconds(), map[bool]string{true: ", the next one meets it"}[f.overlap])
		done := make(chan bool)
		c.running.Go(func() { known[f.kind].run(c, f); close(done) })
		if !f.overlap {
			<-done
		}
	}
	c.running.Wait()
}

func (c *chaos) victim(f fault, n int) *node { return c.cluster.nodes[f.nodes[n]-1] }

func (c *chaos) start(n *node) {
	if n.running() {
		return
	}
	if err := n.start(); err != nil {
		c.judge.anomaly("harness", "node %d cannot be started: %v", n.number, err)
	}
}

// claim keeps other faults away from the first victims. It locks them in the order of their numbers.
func (c *chaos) claim(f fault, count int) (release func()) {
	numbers := slices.Sorted(slices.Values(f.nodes[:count]))
	for _, n := range numbers {
		c.cluster.nodes[n-1].turn.Lock()
	}
	return func() {
		for _, n := range numbers {
			c.cluster.nodes[n-1].turn.Unlock()
		}
	}
}

// down ends this many nodes, and starts them again.
func (c *chaos) down(f fault, count int, end func(*node)) {
	defer c.claim(f, count)()
	for i := range count {
		end(c.victim(f, i))
	}
	time.Sleep(f.length)
	for i := range count {
		c.start(c.victim(f, i))
	}
}

func (c *chaos) shutDown(n *node) {
	if err := n.terminate(); err != nil {
		c.judge.anomaly("slow-stop", "%v", err)
	}
}

func (c *chaos) rolling(f fault) {
	for i := range nodeCount {
		n := c.victim(f, i)
		n.turn.Lock()
		c.shutDown(n)
		time.Sleep(f.length / nodeCount)
		c.start(n)
		n.turn.Unlock()
		if err := n.waitReady(startedWithin); err != nil {
			c.say("note: %v", err)
		}
	}
}

func (c *chaos) freeze(f fault, count int) {
	defer c.claim(f, count)()
	for i := range count {
		n := c.victim(f, i)
		n.signal(syscall.SIGSTOP)
		defer n.signal(syscall.SIGCONT)
	}
	time.Sleep(f.length)
}

func (c *chaos) cut(f fault, which [][2]int, d direction) {
	for _, w := range which {
		c.cluster.links.set(f.nodes[w[0]], f.nodes[w[1]], d)
	}
	time.Sleep(f.length)
	for _, w := range which {
		c.cluster.links.set(f.nodes[w[0]], f.nodes[w[1]], direction{})
		// Half of the connections outlive their cut.
		if f.dice%2 == 0 && d.held {
			c.cluster.links.reset(f.nodes[w[0]], f.nodes[w[1]])
		}
	}
}

func (c *chaos) resets(f fault) {
	for end := time.Now().Add(f.length); ; time.Sleep(100 * time.Millisecond) {
		for _, w := range everyDirection {
			c.cluster.links.reset(f.nodes[w[0]], f.nodes[w[1]])
		}
		if time.Now().After(end) {
			return
		}
	}
}

// fill leaves no room on the node's file system, which no other node uses.
func (c *chaos) fill(f fault) {
	path := filepath.Join(c.victim(f, 0).data, "..", fmt.Sprintf("disk%d", f.nodes[0]), "filler")
	file, err := os.Create(path)
	if err != nil {
		c.judge.anomaly("harness", "%v", err)
		return
	}
	c.mu.Lock()
	c.filled[f.nodes[0]] = true
	c.mu.Unlock()
	noise := make([]byte, 64<<10)
	for size := len(noise); size > 0; {
		if _, err := file.Write(noise[:size]); err != nil {
			size /= 4
		}
	}
	file.Close()
	time.Sleep(f.length)
	os.Remove(path)
}

// heal ends every fault.
func (c *chaos) heal() {
	c.running.Wait()
	for from := 1; from <= nodeCount; from++ {
		for to := 1; to <= nodeCount; to++ {
			c.cluster.links.set(from, to, direction{})
		}
	}
	for _, n := range c.cluster.nodes {
		n.signal(syscall.SIGCONT)
		c.start(n)
	}
	for _, n := range c.cluster.nodes {
		if err := n.waitReady(startedWithin); err != nil {
			c.judge.anomaly("not-ready", "%v", err)
		}
	}
}

func (c *chaos) tally() string {
	var words []string
	for _, kind := range append(append([]string{}, usual...), "disk", "rot") {
		if n := c.counts[kind]; n > 0 {
			words = append(words, fmt.Sprintf("%s %d", kind, n))
		}
	}
	return strings.Join(words, ", ")
}
