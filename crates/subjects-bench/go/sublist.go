package main

import (
	"reflect"
	"strconv"
	"unsafe"

	"github.com/nats-io/nats-server/v2/server"
)

// The type of a subscription is private to the server, and so are the fields of a result. Its methods are
// not: a generic function learns the type from Sublist.Insert, and reflection finds the offsets of the
// fields. So what is timed are the server's own Insert, Remove and Match, called without reflection.

// table is a Sublist with subscriptions of the server's type S.
type table[S any] struct {
	list   *server.Sublist
	cached bool
	insert func(*server.Sublist, *S) error
	remove func(*server.Sublist, *S) error
	// Offsets of a subscription's subject and its number.
	subject, sid uintptr
	// Offset of the found subscriptions in a result.
	found uintptr
}

func newTable[S any](
	cached bool,
	insert func(*server.Sublist, *S) error,
	remove func(*server.Sublist, *S) error,
) *table[S] {
	t := &table[S]{cached: cached, insert: insert, remove: remove}
	t.list = server.NewSublistNoCache()
	if cached {
		t.list = server.NewSublistWithCache()
	}
	subscription := reflect.TypeFor[S]()
	t.subject = offset(subscription, "subject", reflect.TypeFor[[]byte]())
	t.sid = offset(subscription, "sid", reflect.TypeFor[[]byte]())
	t.found = offset(reflect.TypeFor[server.SublistResult](), "psubs", reflect.TypeFor[[]*S]())
	return t
}

// offset stops the program if the server's types are not what this file expects.
func offset(of reflect.Type, name string, want reflect.Type) uintptr {
	field, known := of.FieldByName(name)
	if !known || field.Type != want {
		panic("this version of nats-server keeps " + of.Name() + "." + name + " in another way")
	}
	return field.Offset
}

func (t *table[S]) name() string {
	if t.cached {
		return "nats-cached"
	}
	return "nats"
}

// subscribe creates a subscription with its own copy of the text, as the server does, and inserts it.
func (t *table[S]) subscribe(text string, value int) *S {
	sub := new(S)
	*(*[]byte)(unsafe.Add(unsafe.Pointer(sub), t.subject)) = []byte(text)
	*(*[]byte)(unsafe.Add(unsafe.Pointer(sub), t.sid)) = strconv.AppendInt(nil, int64(value), 10)
	if err := t.insert(t.list, sub); err != nil {
		panic(err)
	}
	return sub
}

func (t *table[S]) unsubscribe(sub *S) {
	if err := t.remove(t.list, sub); err != nil {
		panic(err)
	}
}

func (t *table[S]) match(subject string) []*S {
	return *(*[]*S)(unsafe.Add(unsafe.Pointer(t.list.Match(subject)), t.found))
}

func (t *table[S]) value(sub *S) uint64 {
	value, err := strconv.ParseUint(string(*(*[]byte)(unsafe.Add(unsafe.Pointer(sub), t.sid))), 10, 64)
	if err != nil {
		panic(err)
	}
	return value
}

// count returns the number of matches for all subjects together, and the sum of their values.
func (t *table[S]) count(subjects []string) (hits int, sum uint64) {
	for _, subject := range subjects {
		for _, sub := range t.match(subject) {
			hits++
			sum += t.value(sub)
		}
	}
	return hits, sum
}
