package main

import (
	"bytes"
	"fmt"
	"io"
	"math/rand"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Flipped bytes in files of one node at a time. The next node's turn comes when this one is whole again.

const mendedWithin = 120 * time.Second

// notRotted are the files that keep votes: an older slot counts when the newer one is damaged, and the
// replica could vote twice.
var notRotted = []string{"ballot"}

// rot flips a byte in some files of a node that a kill has stopped or that is running, has the node read
// everything, and waits until it is whole.
func (c *chaos) rot(f fault) {
	c.rotting.Lock()
	defer c.rotting.Unlock()
	defer c.claim(f, 1)()
	n, rng := c.victim(f, 0), rand.New(rand.NewSource(int64(f.dice)))
	c.mu.Lock()
	c.rotten[n.number] = true
	c.mu.Unlock()
	stopped := rng.Intn(2) == 0
	if stopped {
		n.kill()
	}
	for range 1 + rng.Intn(4) {
		if name := flip(n.data, rng); name != "" {
			c.say("node %d: a byte of %s is flipped", n.number, name)
		}
	}
	c.start(n)
	if err := n.waitReady(startedWithin); err != nil {
		c.judge.anomaly("not-ready", "after rot: %v", err)
		return
	}
	scrub := exec.Command(n.binary, "cluster", "scrub", "--rate", "0", "--wait", "60s", "-b", n.kafka, "--http", n.http)
	if out, err := scrub.CombinedOutput(); err != nil {
		// A node that is down leaves the scrub incomplete. The node itself is asked below.
		c.say("note: scrub: %v: %s", err, lastOf(string(out)))
	}
	for end := time.Now().Add(mendedWithin); ; time.Sleep(200 * time.Millisecond) {
		status, text := health(n)
		if status == http.StatusOK && !strings.Contains(text, "damaged") {
			return
		}
		if time.Now().After(end) {
			c.judge.anomaly("not-repaired", "node %d: %d %s", n.number, status, text)
			return
		}
	}
}

// setAside reports whether a folder is what an abandoned replica has left for an operator. Nothing reads it.
func setAside(folder string) bool { return strings.HasSuffix(folder, ".damaged") }

// flip flips one bit and returns what it has changed. Every other time it picks a segment, because there are
// more of the other files.
func flip(data string, rng *rand.Rand) string {
	pattern := []string{"*", "*.log"}[rng.Intn(2)]
	files, _ := filepath.Glob(filepath.Join(data, "*-*", pattern))
	files = slices.DeleteFunc(files, func(path string) bool {
		info, err := os.Stat(path)
		return err != nil || info.Size() == 0 || slices.Contains(notRotted, filepath.Base(path)) || setAside(filepath.Dir(path))
	})
	if len(files) == 0 {
		return ""
	}
	path := files[rng.Intn(len(files))]
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		// Compaction or a checkpoint has removed the file meanwhile.
		return ""
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil || info.Size() == 0 {
		return ""
	}
	at, one := rng.Int63n(info.Size()), make([]byte, 1)
	if _, err := file.ReadAt(one, at); err != nil {
		return ""
	}
	one[0] ^= 1 << rng.Intn(8)
	if _, err := file.WriteAt(one, at); err != nil {
		return ""
	}
	return fmt.Sprintf("%s/%s at %d", filepath.Base(filepath.Dir(path)), filepath.Base(path), at)
}

func health(n *node) (int, string) {
	client := http.Client{Timeout: 5 * time.Second}
	answer, err := client.Get("http://" + n.http + "/healthz")
	if err != nil {
		return 0, err.Error()
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return 0, err.Error()
	}
	return answer.StatusCode, string(text)
}

// told is what a rotted node may log with ERROR: that it has found the damage; or, if an end was cut off
// because it was taken for torn, that the replica has to start again.
var told = [][]byte{[]byte("damage"), []byte("the log lacks entries that the leader knows to be here")}

func tellsOfRot(line []byte) bool {
	return slices.ContainsFunc(told, func(words []byte) bool { return bytes.Contains(line, words) })
}
