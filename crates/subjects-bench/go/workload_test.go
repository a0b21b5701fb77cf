package main

import (
	"fmt"
	"testing"
)

// The Rust program has the same test.
func TestTextsAreThoseOfTheRustProgram(t *testing.T) {
	w := newWorkload(42)
	patterns := w.patterns(1000)
	subjects := w.subjects(patterns, 1000, 1000)
	got := fmt.Sprintf("%016x %016x %016x", checksum(patterns), checksum(subjects), checksum(w.threeSubjects()))
	if want := "98c2c94ac4cb43c3 c4833877c4cfd69e b61a20c77500c3c7"; got != want {
		t.Fatalf("got %s, want %s", got, want)
	}
}
