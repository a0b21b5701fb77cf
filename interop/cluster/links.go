package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// Every node tells the others the address of a relay instead of its own. The relay knows the caller: the
// dialler's greeting, the first bytes of a connection, has its node number (docs/cluster-protocol.md). So
// each direction between two nodes has a state of its own, and a node that answers over a connection that the
// other one dialled is cut off as well.

const (
	greetingHeadBytes = 12
	greetingNodeAt    = greetingHeadBytes + 3
	greetingRestMax   = 1024
	// Bytes of one direction that a relay holds. Beyond it the sender's own buffers fill up.
	heldBytesMax = 1 << 20
	chunkBytes   = 32 << 10
)

// direction is what happens to bytes from one node to another.
type direction struct {
	held  bool          // nothing gets through; bytes arrive after the end of the fault, as with TCP
	shut  bool          // connections are reset, and new ones too
	delay time.Duration // each way
}

type links struct {
	mu      sync.Mutex
	changed *sync.Cond
	state   map[[2]int]direction
	open    map[*relayed]bool
	nodes   map[int]*relay
}

type relay struct {
	listener net.Listener
	target   string
}

type relayed struct {
	from, to       int
	caller, callee net.Conn
}

func newLinks() *links {
	l := &links{state: map[[2]int]direction{}, open: map[*relayed]bool{}, nodes: map[int]*relay{}}
	l.changed = sync.NewCond(&l.mu)
	return l
}

// relayTo opens the relay of a node that listens at target. It returns the relay's address.
func (l *links) relayTo(node int, target string) (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	l.nodes[node] = &relay{listener, target}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go l.serve(node, target, conn)
		}
	}()
	return listener.Addr().String(), nil
}

func (l *links) close() {
	for _, r := range l.nodes {
		r.listener.Close()
	}
}

func readGreeting(from io.Reader) ([]byte, int, error) {
	head := make([]byte, greetingHeadBytes)
	if _, err := io.ReadFull(from, head); err != nil {
		return nil, 0, err
	}
	rest := int(binary.LittleEndian.Uint16(head[10:]))
	if string(head[:6]) != "TRPEER" || rest > greetingRestMax || rest < 7 {
		return nil, 0, fmt.Errorf("no greeting between nodes: %x", head)
	}
	greeting := append(head, make([]byte, rest)...)
	if _, err := io.ReadFull(from, greeting[greetingHeadBytes:]); err != nil {
		return nil, 0, err
	}
	return greeting, int(int32(binary.LittleEndian.Uint32(greeting[greetingNodeAt:]))), nil
}

func (l *links) serve(to int, target string, caller net.Conn) {
	defer caller.Close()
	caller.SetReadDeadline(time.Now().Add(30 * time.Second))
	greeting, from, err := readGreeting(caller)
	if err != nil {
		return
	}
	caller.SetReadDeadline(time.Time{})
	if !l.wait(from, to) {
		return
	}
	callee, err := net.DialTimeout("tcp", target, 5*time.Second)
	if err != nil {
		return
	}
	defer callee.Close()
	r := &relayed{from, to, caller, callee}
	l.mu.Lock()
	if l.state[[2]int{from, to}].shut {
		l.mu.Unlock()
		return
	}
	l.open[r] = true
	l.mu.Unlock()
	done := make(chan bool, 2)
	go func() { l.carry(from, to, caller, callee, greeting); done <- true }()
	go func() { l.carry(to, from, callee, caller, nil); done <- true }()
	<-done
	caller.Close()
	callee.Close()
	<-done
	l.mu.Lock()
	delete(l.open, r)
	l.mu.Unlock()
}

// wait returns once bytes may pass in a direction. It returns false if the direction is shut.
func (l *links) wait(from, to int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.state[[2]int{from, to}].held && !l.state[[2]int{from, to}].shut {
		l.changed.Wait()
	}
	return !l.state[[2]int{from, to}].shut
}

type chunk struct {
	bytes []byte
	due   time.Time
}

func (l *links) carry(from, to int, in, out net.Conn, first []byte) {
	queue := make(chan chunk, heldBytesMax/chunkBytes)
	gone := make(chan bool)
	go func() {
		defer close(gone)
		defer out.Close()
		for c := range queue {
			time.Sleep(time.Until(c.due))
			if !l.wait(from, to) {
				break
			}
			if _, err := out.Write(c.bytes); err != nil {
				break
			}
		}
		in.Close()
	}()
	push := func(bytes []byte) bool {
		l.mu.Lock()
		delay := l.state[[2]int{from, to}].delay
		l.mu.Unlock()
		select {
		case queue <- chunk{bytes, time.Now().Add(delay)}:
			return true
		case <-gone:
			return false
		}
	}
	ok := first == nil || push(first)
	for ok {
		buffer := make([]byte, chunkBytes)
		n, err := in.Read(buffer)
		ok = (n == 0 || push(buffer[:n])) && err == nil
	}
	close(queue)
	<-gone
}

// set changes one direction.
func (l *links) set(from, to int, d direction) {
	l.mu.Lock()
	l.state[[2]int{from, to}] = d
	l.mu.Unlock()
	l.changed.Broadcast()
	if d.shut {
		l.reset(from, to)
	}
}

// reset ends the connections between two nodes that carry bytes in this direction.
func (l *links) reset(from, to int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for r := range l.open {
		if (r.from == from && r.to == to) || (r.from == to && r.to == from) {
			r.caller.Close()
			r.callee.Close()
		}
	}
}
