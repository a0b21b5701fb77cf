// Loads for the comparison of groups, transactions and compaction: groupsload MODE FLAGS, see
// `cargo xtask bench groups`.
//
// The last line of the output is `blast name=value ...`. Members and committers are scripted from raw
// requests, so that the same requests reach every server at the same times.
package main

import (
	"flag"
	"fmt"
	"os"
	"time"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "groupsload classic|modern|commits|transactions|fill|compact FLAGS")
		os.Exit(2)
	}
	mode := os.Args[1]
	flags := flag.NewFlagSet(mode, flag.ExitOnError)
	address := flags.String("addr", "127.0.0.1:9092", "the server")
	name := flags.String("name", "load", "name of the topic, and part of the names of groups")
	members := flags.Int("members", 100, "members of the group, or groups, or producers")
	rate := flags.Int("rate", 1000, "commits per second")
	seconds := flags.Int("seconds", 10, "how long to measure")
	count := flags.Int64("n", 10_000_000, "records")
	keys := flags.Int64("keys", 1_000_000, "keys")
	records := flags.Int("records", 100, "records of a transaction")
	data := flags.String("data", "", "the server's data folder")
	flags.Parse(os.Args[2:])
	var err error
	switch mode {
	case "classic", "modern":
		err = rebalance(mode, *address, *name, *members)
	case "commits":
		err = commits(*address, *name, *members, *rate, time.Duration(*seconds)*time.Second)
	case "transactions":
		err = transactions(*address, *name, *members, *records, time.Duration(*seconds)*time.Second)
	case "fill":
		err = fill(*address, *name, *count, *keys)
	case "compact":
		err = compact(*address, *name, *data, *count, *keys)
	default:
		err = fmt.Errorf("no mode %s", mode)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
