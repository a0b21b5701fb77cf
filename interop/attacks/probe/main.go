// probe talks to every protocol of one server on an open loop, and reports how long it had to wait.
//
// Each kind of probe has a connection of its own and is due every 5 ms, whatever became of the earlier ones.
// Its latency counts from when it was due until its answer came. So if a server stands still for a second,
// every probe that was due in that second shows it. One kind ("machine") talks to this very process: its
// waits are the machine's doing, not the server's.
//
// It takes commands on standard input, a word a line, and answers each with a line of JSON:
//
//	begin   a window starts: earlier measurements are forgotten
//	peek    reports the window so far
//	end     the window ends once everything due in it is answered, or has waited for too long
//
// Deliberately absent: any knowledge of attacks. It needs nothing but Go, so that it can be built without a
// registry.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"time"
)

const interval = 5 * time.Millisecond

// At the end of a window, answers that are due may take this long. A probe that still waits has waited at
// least this long.
const endMax = 120 * time.Second

type report struct {
	// The longest wait in milliseconds, by kind of probe.
	GapMs  map[string]float64 `json:"gap_ms"`
	Probes map[string]int     `json:"probes"`
	// Connections that were lost, by kind. Each was made again, and due probes waited meanwhile.
	Lost map[string]int `json:"lost"`
	memory
}

func main() {
	kafka := flag.String("kafka", "", "address of Kafka")
	nats := flag.String("nats", "", "address of NATS")
	http := flag.String("http", "", "address of HTTP")
	topic := flag.String("topic", "probe", "a topic of one partition, which exists")
	pid := flag.Int("pid", 0, "the server's process")
	guard := flag.Int64("guard", 8<<30, "resident bytes from which the server is killed, for the machine's sake")
	flag.StringVar(&loginUser, "user", "", "name:password with which probes of Kafka and NATS log in")
	flag.Parse()
	// There is little garbage here, so collect it seldom.
	debug.SetGCPercent(800)

	kinds := []*prober{
		newProber("machine", echoAddress(), echo{}),
		newProber("kafka", *kafka, kafkaAsk{topic: *topic}),
		newProber("produce", *kafka, kafkaWrite{topic: *topic}),
		newProber("nats", *nats, &natsPing{}),
		newProber("pubsub", *nats, &natsEcho{}),
		newProber("http", *http, httpGet{}),
		newProber("ws", *http, &webSocket{}),
	}
	watch := newWatch(*pid, *http, *guard)
	start := time.Now().Add(50 * time.Millisecond)
	for _, one := range kinds {
		go one.run(start)
	}
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		switch in.Text() {
		case "begin":
			for _, one := range kinds {
				one.begin()
			}
			watch.begin()
		case "peek":
		case "end":
			deadline := time.Now().Add(endMax)
			now := time.Now()
			for _, one := range kinds {
				one.settled(now, deadline, watch.gone)
			}
		default:
			fmt.Fprintf(os.Stderr, "probe: unknown word %q\n", in.Text())
			os.Exit(2)
		}
		said := report{GapMs: map[string]float64{}, Probes: map[string]int{}, Lost: map[string]int{}, memory: watch.read()}
		for _, one := range kinds {
			longest, count, lost := one.window()
			said.GapMs[one.name] = float64(longest.Microseconds()) / 1000
			said.Probes[one.name] = count
			if lost > 0 {
				said.Lost[one.name] = lost
			}
		}
		line, _ := json.Marshal(said)
		fmt.Println(string(line))
	}
}
