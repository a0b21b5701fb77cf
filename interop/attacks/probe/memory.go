package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"sync"
	"syscall"
	"time"
)

const (
	residentInterval = 50 * time.Millisecond
	metricInterval   = 200 * time.Millisecond
	// /proc/PID/stat counts processor time in these (sysconf(_SC_CLK_TCK), 100 on every Linux).
	ticksPerSecond = 100
)

// memory is what the server's process has taken, and what the server says about that itself.
type memory struct {
	ResidentPeak int64 `json:"resident_peak"`
	ResidentNow  int64 `json:"resident_now"`
	// The largest sum of the server's gauges of memory.
	MetricPeak int64 `json:"metric_peak"`
	// Processor time since the window's start.
	CPUSeconds float64 `json:"cpu_s"`
	// How often a thread of the server has waited for the disk since the window's start, because the kernel had
	// dropped a page of its code.
	MajorFaults int64 `json:"major_faults"`
	// The process is gone. `Killed` if the prober killed it to protect the machine.
	Gone   bool `json:"gone"`
	Killed bool `json:"killed"`
}

type watch struct {
	pid    int
	guard  int64
	status *os.File
	stat   *os.File

	mu    sync.Mutex
	said  memory
	began usage
}

// A gauge of memory of the server: name, labels, value.
var gauge = regexp.MustCompile(`(?m)^tailrace_(?:\w+_)?memory(?:_\w+)?_bytes(?:\{[^}]*\})? (\d+)`)

func newWatch(pid int, address string, guard int64) *watch {
	w := &watch{pid: pid, guard: guard}
	var err error
	if w.status, err = os.Open(fmt.Sprintf("/proc/%d/status", pid)); err != nil {
		fmt.Fprintln(os.Stderr, "probe:", err)
		os.Exit(2)
	}
	w.stat, _ = os.Open(fmt.Sprintf("/proc/%d/stat", pid))
	w.sample()
	go func() {
		for {
			time.Sleep(residentInterval)
			w.sample()
		}
	}()
	go func() {
		client := http.Client{Timeout: 5 * time.Second}
		for {
			time.Sleep(metricInterval)
			w.ask(&client, "http://"+address+"/metrics")
		}
	}()
	return w
}

func (w *watch) sample() {
	resident, ok := w.resident()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.said.Gone = !ok
	w.said.ResidentNow = resident
	w.said.ResidentPeak = max(w.said.ResidentPeak, resident)
	if resident > w.guard && !w.said.Killed {
		w.said.Killed = true
		_ = syscall.Kill(w.pid, syscall.SIGKILL)
	}
}

func (w *watch) gone() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.said.Gone
}

func (w *watch) resident() (int64, bool) {
	buffer := make([]byte, 4096)
	n, _ := w.status.ReadAt(buffer, 0)
	_, rest, found := bytes.Cut(buffer[:n], []byte("VmRSS:"))
	if !found {
		return 0, false
	}
	fields := bytes.Fields(rest)
	kib, err := strconv.ParseInt(string(fields[0]), 10, 64)
	return kib << 10, err == nil
}

// usage is what the process has used since its start.
type usage struct {
	cpuSeconds  float64
	majorFaults int64
}

func (w *watch) usage() (used usage) {
	buffer := make([]byte, 1024)
	n, _ := w.stat.ReadAt(buffer, 0)
	at := bytes.LastIndexByte(buffer[:n], ')')
	if at < 0 {
		return
	}
	// majflt, utime and stime are fields 12, 14 and 15; the first after the name is 3.
	fields := bytes.Fields(buffer[at+1 : n])
	if len(fields) < 13 {
		return
	}
	used.majorFaults, _ = strconv.ParseInt(string(fields[9]), 10, 64)
	user, _ := strconv.ParseFloat(string(fields[11]), 64)
	system, _ := strconv.ParseFloat(string(fields[12]), 64)
	used.cpuSeconds = (user + system) / ticksPerSecond
	return
}

func (w *watch) ask(client *http.Client, url string) {
	answer, err := client.Get(url)
	if err != nil {
		return
	}
	page, err := io.ReadAll(answer.Body)
	answer.Body.Close()
	if err != nil {
		return
	}
	var sum int64
	for _, found := range gauge.FindAllSubmatch(page, -1) {
		value, _ := strconv.ParseInt(string(found[1]), 10, 64)
		sum += value
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.said.MetricPeak = max(w.said.MetricPeak, sum)
}

func (w *watch) begin() {
	w.sample()
	used := w.usage()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.said.ResidentPeak, w.said.MetricPeak, w.began = w.said.ResidentNow, 0, used
}

func (w *watch) read() memory {
	w.sample()
	used := w.usage()
	w.mu.Lock()
	defer w.mu.Unlock()
	said := w.said
	said.CPUSeconds = max(0, used.cpuSeconds-w.began.cpuSeconds)
	said.MajorFaults = max(0, used.majorFaults-w.began.majorFaults)
	return said
}
