package main

import (
	"path/filepath"
	"testing"

	"github.com/anishathalye/porcupine"
)

// porcupine must find what is not linearizable, or its silence means nothing.
func TestClaims(t *testing.T) {
	made := func(deed deed, end outcome, called, returned int64) porcupine.Operation {
		if end == unknown {
			returned = neverEnding
		}
		return porcupine.Operation{Input: claim{deed, "name"}, Output: answer{outcome: end}, Call: called, Return: returned}
	}
	counted := func(producer int64, number int16, called, returned int64) porcupine.Operation {
		o := made(toCount, ok, called, returned)
		o.Output = answer{ok, epoch{producer, number}}
		return o
	}
	for name, c := range map[string]struct {
		history []porcupine.Operation
		valid   bool
	}{
		"created, deleted, created":                    {[]porcupine.Operation{made(toCreate, ok, 0, 1), made(toDelete, ok, 2, 3), made(toCreate, ok, 4, 5)}, true},
		"two create at once, one is refused":           {[]porcupine.Operation{made(toCreate, ok, 0, 3), made(toCreate, failed, 1, 2)}, true},
		"created twice":                                {[]porcupine.Operation{made(toCreate, ok, 0, 3), made(toCreate, ok, 1, 2)}, false},
		"an old view: deleted after it was created":    {[]porcupine.Operation{made(toCreate, ok, 0, 1), made(toDelete, failed, 2, 3)}, false},
		"there already, and nobody has created it":     {[]porcupine.Operation{made(toCreate, failed, 0, 1)}, false},
		"one that nobody knows of, done later":         {[]porcupine.Operation{made(toCreate, unknown, 0, 1), made(toCreate, ok, 2, 3), made(toDelete, ok, 4, 5), made(toCreate, failed, 6, 7)}, true},
		"one that nobody knows of, done twice":         {[]porcupine.Operation{made(toCreate, unknown, 0, 1), made(toCreate, failed, 2, 3), made(toDelete, ok, 4, 5), made(toCreate, failed, 6, 7)}, false},
		"epochs that rise, a producer id that is next": {[]porcupine.Operation{counted(7, 0, 0, 1), counted(7, 2, 2, 3), counted(9, 0, 4, 5)}, true},
		"two at once":                   {[]porcupine.Operation{counted(7, 1, 0, 3), counted(7, 0, 1, 2)}, true},
		"an epoch that is given to two": {[]porcupine.Operation{counted(7, 0, 0, 3), counted(7, 0, 1, 2)}, false},
		"an epoch that goes back":       {[]porcupine.Operation{counted(7, 1, 0, 1), counted(7, 0, 2, 3)}, false},
	} {
		j, page := newJudge(), filepath.Join(t.TempDir(), "page.html")
		j.judgeClaims(&claims{history: c.history}, page)
		if found := j.found["not-linearizable"] > 0; found == c.valid && c.history[0].Output.(answer).outcome == ok {
			t.Errorf("%s: taken for linearizable: %v", name, !found)
		} else if result := porcupine.CheckOperations(names.ToModel(), c.history); result != c.valid {
			t.Errorf("%s: taken for linearizable: %v", name, result)
		}
	}
}
