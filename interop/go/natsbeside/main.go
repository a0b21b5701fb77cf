// natsbeside plays scenes of accounts, permissions, the system account and an operator with nats-server and
// with tailrace, and compares what clients are told and get. See interop/security-nats.sh.
//
//	natsbeside [-full] [-only REGEX] [-verbose] FOLDER
//
// TAILRACE_BIN and NATS_SERVER_BIN name the servers. A scene says rows: a label and a value. The same label
// must have the same value at both servers, unless known.go gives a reason.
package main

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"time"
)

// A scene is a part of a conversation with a server of one configuration.
type scene struct {
	name  string
	world string // the configuration
	full  bool   // not in the quick form
	play  func(*player)
}

type failure struct{ error }

func fail(format string, a ...any) { panic(failure{fmt.Errorf(format, a...)}) }
func ok(err error, what string) {
	if err != nil {
		fail("%s: %v", what, err)
	}
}
func must[T any](value T, err error) T {
	ok(err, "a call that must not fail")
	return value
}

// attempt plays a scene with one server.
func attempt(s scene, at *server) (p *player, err error) {
	p = &player{server: at, rows: map[string]string{}}
	defer p.leave()
	defer func() {
		if problem := recover(); problem != nil {
			failed, is := problem.(failure)
			if !is {
				panic(problem)
			}
			err = failed
		}
	}()
	s.play(p)
	return p, nil
}

// compare returns the differences of a scene, and counts those that are known.
func compare(s scene, nats, tailrace *player, met map[string]int) (out []string) {
	for _, label := range nats.order {
		if _, is := tailrace.rows[label]; !is {
			out = append(out, fmt.Sprintf("%s: only nats-server says %s", label, nats.rows[label]))
		}
	}
	for _, label := range tailrace.order {
		want, is := nats.rows[label]
		got := tailrace.rows[label]
		switch {
		case !is:
			out = append(out, fmt.Sprintf("%s: only tailrace says %s", label, got))
		case want != got:
			if one := knownDifference(s.name, label); one != "" {
				met[one]++
			} else {
				out = append(out, fmt.Sprintf("%s\n  nats-server: %s\n  tailrace:    %s", label, want, got))
			}
		}
	}
	return out
}

func main() {
	full := flag.Bool("full", false, "all scenes")
	only := flag.String("only", "", "scenes whose names match")
	verbose := flag.Bool("verbose", false, "every row")
	flag.Parse()
	folder, wanted := flag.Arg(0), regexp.MustCompile(*only)
	scenes := append(append(configured(), systemScenes()...), operatorScenes()...)
	scenes = append(append(scenes, calloutScenes()...), certificateScenes()...)
	failed, met, rows := 0, map[string]int{}, 0
	for _, world := range worlds() {
		var pair []*server
		for _, s := range scenes {
			if s.world != world || !wanted.MatchString(s.name) || (s.full && !*full) {
				continue
			}
			if pair == nil {
				pair = startPair(world, folder)
			}
			began := time.Now()
			played, errs := make([]*player, 2), make([]error, 2)
			done := make(chan int)
			for i := range pair {
				go func() { played[i], errs[i] = attempt(s, pair[i]); done <- i }()
			}
			<-done
			<-done
			problems := compare(s, played[0], played[1], met)
			for i, err := range errs {
				if err != nil {
					problems = append(problems, fmt.Sprintf("%s: %v", pair[i].kind, err))
				}
			}
			if *verbose {
				for _, label := range played[0].order {
					fmt.Printf("  %s = %s\n", label, played[0].rows[label])
				}
			}
			rows += len(played[0].order)
			if len(problems) > 0 {
				failed++
				fmt.Printf("FAIL nats beside: %s: %s\n", s.name, strings.Join(problems, "\n "))
				continue
			}
			fmt.Printf("PASS nats beside: %s, %d answers (%.1f s)\n", s.name, len(played[0].order), time.Since(began).Seconds())
		}
		for _, one := range pair {
			one.stop()
		}
	}
	for _, one := range known {
		if *only == "" && (*full || !one.full) && met[one.reason] == 0 {
			failed++
			fmt.Printf("FAIL nats beside: known, but it did not occur: %s\n", one.reason)
		}
		if met[one.reason] > 0 {
			fmt.Printf("  known, %d times: %s\n", met[one.reason], one.reason)
		}
	}
	fmt.Printf("nats beside: %d answers compared, %d failures\n", rows, failed)
	if failed > 0 {
		os.Exit(1)
	}
}
