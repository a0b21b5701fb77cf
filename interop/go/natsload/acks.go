package main

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync/atomic"
	"time"
)

// acks publishes on a fixed schedule, without waiting for answers. Each publish has a reply subject of its
// own for its acknowledgement. Time counts from when a publish was due.
func acks() bool {
	base := time.Now()
	total := int(float64(*rate) * (*warm + *dur).Seconds())
	unmeasured := int(float64(*rate) * warm.Seconds())
	intended, took := make([]int64, total), make([]atomic.Int64, total)
	var acknowledged, refused atomic.Int64
	clients := make([]*client, *conns)
	for i := range clients {
		c := dial(*addr)
		c.send(fmt.Appendf(nil, "SUB _ack.%d.%d.* 1\r\n", os.Getpid(), i))
		c.settle()
		clients[i] = c
		go func() {
			for {
				subject, payload, err := c.next()
				if err != nil {
					return
				}
				now := int64(time.Since(base))
				number, err := strconv.Atoi(string(subject[bytes.LastIndexByte(subject, '.')+1:]))
				check(err)
				if bytes.Contains(payload, []byte(`"error"`)) || !bytes.Contains(payload, []byte(`"seq"`)) {
					if refused.Add(1) == 1 {
						fmt.Fprintf(os.Stderr, "natsload: %s\n", payload)
					}
				}
				if took[number].Swap(now-intended[number]) == 0 {
					acknowledged.Add(1)
				}
			}
		}()
	}
	runtime.LockOSThread()
	payload, start, line := bytes.Repeat([]byte("x"), *size), int64(time.Since(base))+int64(50*time.Millisecond), make([]byte, 0, *size+200)
	for k := range total {
		due := start + int64(k)*int64(time.Second)/int64(*rate)
		for now := int64(time.Since(base)); now < due; now = int64(time.Since(base)) {
			time.Sleep(time.Duration(due - now))
		}
		intended[k] = due
		c := k % *conns
		line = fmt.Appendf(line[:0], "PUB %s _ack.%d.%d.%d %d\r\n", *subject, os.Getpid(), c, k, *size)
		clients[c].send(append(append(line, payload...), "\r\n"...))
	}
	for quiet, before := time.Now(), int64(0); acknowledged.Load() < int64(total) && time.Since(quiet) < stall; time.Sleep(time.Millisecond) {
		if now := acknowledged.Load(); now != before {
			quiet, before = time.Now(), now
		}
	}
	times := make([]int64, 0, total)
	for k := unmeasured; k < total; k++ {
		if t := took[k].Load(); t != 0 {
			times = append(times, t)
		}
	}
	slices.Sort(times)
	at := func(q float64) float64 {
		if len(times) == 0 {
			return 0
		}
		return float64(times[min(int(q*float64(len(times))), len(times)-1)]) / 1e3
	}
	lost := int64(total) - acknowledged.Load()
	fmt.Printf("blast sent=%d lost=%d refused=%d ack_p50_us=%.0f ack_p99_us=%.0f ack_p99.9_us=%.0f ack_max_us=%.0f client_cpu_s=%.2f\n",
		total, lost, refused.Load(), at(0.5), at(0.99), at(0.999), at(1), clientCPU())
	return lost == 0 && refused.Load() == 0
}
