package main

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	startTimeout = 120 * time.Second
	stopTimeout  = 60 * time.Second
)

// node is one server process. It can be killed, frozen and started again on the same folder and ports.
type node struct {
	number                         int
	binary, data, log              string
	kafka, http, listen, advertise string
	arguments                      []string
	turn                           sync.Mutex // held by one fault at a time
	process                        *process
	surprise                       func(format string, a ...any)
}

type process struct {
	command  *exec.Cmd
	ready    chan struct{}
	ended    chan struct{}
	expected atomic.Bool
}

func freePort() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer listener.Close()
	return listener.Addr().String(), nil
}

// start launches the process and does not wait for it.
func (n *node) start() error {
	arguments := append([]string{"serve", "--data-dir", n.data, "--node-id", fmt.Sprint(n.number), "--kafka", n.kafka, "--nats", "off", "--http", n.http,
		"--cluster-listen", n.listen, "--set", "tailrace.cluster.advertised=" + n.advertise}, n.arguments...)
	log, err := os.OpenFile(n.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	fmt.Fprintf(log, "---- start %s\n", time.Now().UTC().Format(time.RFC3339Nano))
	command := exec.Command(n.binary, arguments...)
	command.Stderr = log
	out, err := command.StdoutPipe()
	if err != nil {
		return err
	}
	if err := command.Start(); err != nil {
		return err
	}
	// The script ends what is left if this process is killed.
	if err := os.WriteFile(n.data+".pid", []byte(fmt.Sprint(command.Process.Pid)), 0o644); err != nil {
		return err
	}
	p := &process{command: command, ready: make(chan struct{}), ended: make(chan struct{})}
	n.process = p
	go func() {
		var once sync.Once
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if strings.HasPrefix(lines.Text(), "ready ") {
				once.Do(func() { close(p.ready) })
			}
		}
		err := command.Wait()
		if !p.expected.Load() {
			n.surprise("node %d ended by itself: %v; %s", n.number, err, lastLine(n.log))
		}
		close(p.ended)
	}()
	return nil
}

func lastLine(path string) string {
	text, _ := os.ReadFile(path)
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return lines[len(lines)-1]
}

func (n *node) waitReady(limit time.Duration) error {
	p := n.process
	select {
	case <-p.ready:
		return nil
	case <-p.ended:
		return fmt.Errorf("node %d ended while starting: %s", n.number, lastLine(n.log))
	case <-time.After(limit):
		return fmt.Errorf("node %d was not ready after %v: %s", n.number, limit, lastLine(n.log))
	}
}

func (n *node) running() bool {
	if n.process == nil {
		return false
	}
	select {
	case <-n.process.ended:
		return false
	default:
		return true
	}
}

func (n *node) signal(s syscall.Signal) {
	if n.running() {
		n.process.command.Process.Signal(s)
	}
}

func (n *node) kill() {
	if n.running() {
		n.process.expected.Store(true)
		n.signal(syscall.SIGKILL)
		<-n.process.ended
	}
}

// terminate is a controlled shutdown. It returns an error if that takes too long.
func (n *node) terminate() error {
	if !n.running() {
		return nil
	}
	n.process.expected.Store(true)
	n.signal(syscall.SIGTERM)
	select {
	case <-n.process.ended:
		return nil
	case <-time.After(stopTimeout):
		// Its stacks are of more use than its silence.
		n.kill()
		return fmt.Errorf("node %d did not stop within %v of SIGTERM", n.number, stopTimeout)
	}
}

type cluster struct {
	nodes []*node
	links *links
	state string
}

func (c *cluster) seeds() []string {
	var seeds []string
	for _, n := range c.nodes {
		seeds = append(seeds, n.kafka)
	}
	return seeds
}

// startCluster founds a cluster of three: node 1 alone, then the others by its address.
func startCluster(binary, state string, more []string, surprise func(format string, a ...any)) (*cluster, error) {
	c := &cluster{links: newLinks(), state: state}
	for number := 1; number <= nodeCount; number++ {
		n := &node{number: number, binary: binary, data: filepath.Join(state, fmt.Sprintf("n%d", number)), log: filepath.Join(state, fmt.Sprintf("n%d.log", number)), surprise: surprise}
		for _, address := range []*string{&n.kafka, &n.http, &n.listen} {
			port, err := freePort()
			if err != nil {
				return nil, err
			}
			*address = port
		}
		advertise, err := c.links.relayTo(number, n.listen)
		if err != nil {
			return nil, err
		}
		n.advertise = advertise
		n.arguments = append(n.arguments, more...)
		if number > 1 {
			n.arguments = append(n.arguments, "--seed", c.nodes[0].advertise)
		}
		c.nodes = append(c.nodes, n)
		if err := n.start(); err != nil {
			return nil, err
		}
		if err := n.waitReady(startTimeout); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func (c *cluster) killAll() {
	for _, n := range c.nodes {
		n.kill()
	}
	c.links.close()
}
