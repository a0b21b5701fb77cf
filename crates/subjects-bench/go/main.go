// Measures nats-server's sublist. The command line, the patterns and subjects and the printed lines are those
// of the Rust program in ../src; `cargo xtask bench subjects` runs both.
package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/nats-io/nats-server/v2/server"
)

const usage = `usage: subjects-bench-nats PART SYSTEM [OPTIONS]
  PART     thousand three table threads storm growth churn memory
  SYSTEM   nats nats-cached
  --count N --threads N,N --writes P,P --seconds S --seed N   as in the Rust program`

type options struct {
	part    string
	cached  bool
	count   int
	threads []int
	writes  []int
	seconds float64
	seed    uint64
}

func parse(arguments []string) (options, error) {
	o := options{count: 100_000, threads: []int{1}, writes: []int{0}, seconds: 0.3, seed: 42}
	if len(arguments) < 2 || len(arguments)%2 != 0 {
		return o, fmt.Errorf("%s", usage)
	}
	switch arguments[1] {
	case "nats":
	case "nats-cached":
		o.cached = true
	default:
		return o, fmt.Errorf("no system '%s'\n%s", arguments[1], usage)
	}
	o.part = arguments[0]
	for i := 2; i < len(arguments); i += 2 {
		var err error
		value := arguments[i+1]
		switch arguments[i] {
		case "--count":
			o.count, err = strconv.Atoi(value)
		case "--threads":
			o.threads, err = list(value)
		case "--writes":
			o.writes, err = list(value)
		case "--seconds":
			o.seconds, err = strconv.ParseFloat(value, 64)
		case "--seed":
			o.seed, err = strconv.ParseUint(value, 10, 64)
		default:
			err = fmt.Errorf("unknown argument")
		}
		if err != nil {
			return o, fmt.Errorf("%s %s: %w\n%s", arguments[i], value, err, usage)
		}
	}
	return o, nil
}

func list(text string) ([]int, error) {
	var numbers []int
	for word := range strings.SplitSeq(text, ",") {
		number, err := strconv.Atoi(word)
		if err != nil {
			return nil, err
		}
		numbers = append(numbers, number)
	}
	return numbers, nil
}

// start exists to learn the private type of a subscription.
func start[S any](
	o options,
	insert func(*server.Sublist, *S) error,
	remove func(*server.Sublist, *S) error,
) error {
	b := &bench[S]{table: newTable(o.cached, insert, remove), options: o, work: newWorkload(o.seed)}
	return b.run()
}

func main() {
	o, err := parse(os.Args[1:])
	if err == nil {
		err = start(o, (*server.Sublist).Insert, (*server.Sublist).Remove)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
