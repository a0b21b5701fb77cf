package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// librdkafka runs librdkafka.py: a producer that sends what it is told, a member of the group, and a reader.
func (l *load) librdkafka(python, script string, producer int) error {
	command := exec.Command(python, script, strings.Join(l.seeds, ","), loadTopic, readersGroup)
	command.Stderr = os.Stderr
	in, err := command.StdinPipe()
	if err != nil {
		return err
	}
	out, err := command.StdoutPipe()
	if err != nil {
		return err
	}
	if err := command.Start(); err != nil {
		return err
	}
	ended := make(chan bool)
	l.producers.Go(func() { l.drive(in, producer, ended) })
	l.others.Go(func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			l.heard(lines.Text(), producer)
		}
		close(ended)
		if err := command.Wait(); err != nil {
			l.judge.anomaly("harness", "the librdkafka clients ended: %v", err)
		}
	})
	l.others.Go(func() { // the end of its input ends it
		every(turn, &l.running, func() {})
		in.Close()
	})
	return nil
}

func (l *load) drive(in io.Writer, producer int, ended chan bool) {
	p := int32(0)
	var sent int64
	every(turn, &l.producing, func() {
		p = (p + 1) % partitions
		for range recordsPerTurn {
			sequence := l.judge.send(producer, p)
			fmt.Fprintf(in, "%d %d %s\n", p, sequence, text(producer, p, sequence))
			sent++
		}
	})
	who := fmt.Sprintf("producer %d", producer)
	done, began := l.counter(who+" answers"), time.Now()
	for done.Load() < sent {
		select {
		case <-ended:
			return
		case <-time.After(turn):
		}
		if time.Since(began) > flushMax {
			l.judge.anomaly("stuck", "%s (librdkafka): %d records are not answered %v after healing", who, sent-done.Load(), flushMax)
			return
		}
	}
}

// heard is a line of librdkafka.py: a letter, then numbers.
func (l *load) heard(line string, producer int) {
	var kind, rest string
	var p int32
	var a, b int64
	n, _ := fmt.Sscanf(line, "%s %d %d %d", &kind, &p, &a, &b)
	_, rest, _ = strings.Cut(line, " ")
	who := fmt.Sprintf("producer %d", producer)
	switch {
	case kind == "ack" && n == 4:
		l.judge.answered(producer, p, int(a), ok, b)
		l.counter(who).Add(1)
		l.counter(who + " answers").Add(1)
	case kind == "unknown" && n >= 3:
		l.note(who, fmt.Errorf("%s", rest))
		l.counter(who + " answers").Add(1)
	case kind == "processed" && n == 3:
		l.judge.processed(readersGroup, p, a)
	case kind == "committed" && n == 3:
		l.judge.committedOffset(readersGroup, p, a)
		l.counter("librdkafka member").Add(1)
	case kind == "read" && n >= 3:
		_, name, _ := strings.Cut(line, ":")
		l.judge.polled(librdkafkaReader, p, a, parse(name, p))
		l.counter(librdkafkaReader).Add(1)
	case kind == "note":
		l.note("librdkafka", fmt.Errorf("%s", rest))
	case kind == "anomaly":
		l.judge.anomaly("client-sees-data-loss", "librdkafka: %s", rest)
	default:
		l.judge.anomaly("harness", "librdkafka.py says %q", line)
	}
}
