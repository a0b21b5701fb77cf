package main

import (
	"context"
	"fmt"
	"math/rand"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Requests that must be linearizable, for a judge that others maintain: porcupine.
//
// The name of a topic is a register with compare-and-set. Creating it takes it from absent to present,
// deleting it back, and both fail if it is not in the expected state. A transactional id is a counter:
// InitProducerId increments its epoch and returns it. Clients that do not retry ask any node at any time. A
// request without a clear answer may have been carried out at any time after it was sent.

const (
	claimers    = 4                // clients
	claimed     = 2                // names at a time
	claimRound  = 15 * time.Second // then other names: an unanswered request stays open for all of a history
	claimPause  = 100 * time.Millisecond
	claimMax    = 10 * time.Second
	claimJudge  = time.Minute // limit for porcupine
	neverEnding = int64(1) << 62
)

type deed byte

const (
	toCreate deed = iota
	toDelete
	toCount
)

func (d deed) String() string { return [...]string{"create", "delete", "InitProducerId"}[d] }

// claim is one request: the operation and the name.
type claim struct {
	deed deed
	name string
}

// answer is the answer to a claim. unknown may be anything; failed is "it exists already" or "it does not
// exist".
type answer struct {
	outcome outcome
	epoch   epoch // of toCount
}

// epoch is the epoch of a transactional id. A later producer id starts again at 0.
type epoch struct {
	producer int64
	epoch    int16
}

func (e epoch) isBefore(other epoch) bool {
	return e.producer < other.producer || e.producer == other.producer && e.epoch < other.epoch
}

type claims struct {
	mu      sync.Mutex
	history []porcupine.Operation
}

func (c *claims) add(client int, what claim, called int64, got answer) {
	returned := time.Since(clockStart).Nanoseconds()
	if got.outcome == unknown {
		returned = neverEnding
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.history = append(c.history, porcupine.Operation{ClientId: client, Input: what, Call: called, Output: got, Return: returned})
}

// clockStart is read from the monotonic clock. All clients are in one process.
var clockStart = time.Now()

// state is the state of one name: whether such a topic exists, or the last epoch that was given out.
type state struct {
	isThere bool
	epoch   epoch
}

func step(s state, what claim, got answer) []state {
	switch {
	case what.deed == toCount && got.outcome != ok:
		return []state{s}
	case what.deed == toCount && s.epoch.isBefore(got.epoch):
		return []state{{epoch: got.epoch}}
	case what.deed == toCount:
		return nil
	}
	done, isWanted := state{isThere: what.deed == toCreate}, s.isThere != (what.deed == toCreate)
	switch {
	case got.outcome == ok && isWanted:
		return []state{done}
	case got.outcome == failed && !isWanted:
		return []state{s}
	case got.outcome == unknown && isWanted:
		return []state{s, done}
	case got.outcome == unknown:
		return []state{s}
	default:
		return nil
	}
}

var names = porcupine.NondeterministicModel{
	Partition: func(history []porcupine.Operation) (parts [][]porcupine.Operation) {
		at := map[string]int{}
		for _, o := range history {
			name := o.Input.(claim).name
			if _, has := at[name]; !has {
				at[name] = len(parts)
				parts = append(parts, nil)
			}
			parts[at[name]] = append(parts[at[name]], o)
		}
		return parts
	},
	Init: func() []any { return []any{state{epoch: epoch{nowhere, nowhere}}} },
	Step: func(s, what, got any) (next []any) {
		for _, after := range step(s.(state), what.(claim), got.(answer)) {
			next = append(next, after)
		}
		return next
	},
	DescribeOperation: func(what, got any) string {
		w, g := what.(claim), got.(answer)
		return fmt.Sprintf("%v %s: %s %v", w.deed, w.name, [...]string{"unknown", "ok", "failed"}[g.outcome], g.epoch)
	},
}

// judgeClaims writes porcupine's verdict on a history that is not linearizable to a page.
func (j *judge) judgeClaims(c *claims, page string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	model := names.ToModel()
	result, info := porcupine.CheckOperationsVerbose(model, c.history, claimJudge)
	tally := map[outcome]int{}
	for _, o := range c.history {
		tally[o.Output.(answer).outcome]++
	}
	said := fmt.Sprintf("%d done, %d refused, %d without an answer", tally[ok], tally[failed], tally[unknown])
	switch {
	case tally[ok] == 0:
		j.anomaly("not-linearizable", "nothing to judge: %s", said)
	case result == porcupine.Ok:
		fmt.Printf("PASS porcupine: names of topics and epochs of producers are linearizable: %s\n", said)
	case result == porcupine.Unknown:
		j.anomaly("not-linearizable", "porcupine did not come to an end within %v: %s", claimJudge, said)
	default:
		j.anomaly("not-linearizable", "names of topics, or epochs of producers: %s; %s", said, page)
		if err := porcupine.VisualizePath(model, info, page); err != nil {
			j.anomaly("harness", "%v", err)
		}
	}
}

// claim starts all claimers.
func (l *load) claim(rng *rand.Rand) error {
	for number := range claimers {
		if err := l.claimer(number, rand.New(rand.NewSource(rng.Int63()))); err != nil {
			return err
		}
	}
	return nil
}

// claimer asks any node, one request after the other.
func (l *load) claimer(number int, rng *rand.Rand) error {
	who := fmt.Sprintf("claimer %d", number)
	client, err := l.client(who, kgo.RequestRetries(0), kgo.RequestTimeoutOverhead(claimMax))
	if err != nil {
		return err
	}
	done := l.counter(who)
	l.others.Go(func() {
		defer client.Close()
		every(claimPause, &l.running, func() {
			round := int(time.Since(clockStart) / claimRound)
			what := claim{deed(rng.Intn(3)), fmt.Sprintf("claim-%d-%d", round, rng.Intn(claimed))}
			if what.deed == toCount {
				what.name += "-id"
			}
			ctx, cancel := context.WithTimeout(context.Background(), claimMax)
			defer cancel()
			called := time.Since(clockStart).Nanoseconds()
			got, err := ask(ctx, client, what, 1+rng.Int31n(nodeCount))
			l.note(who, err)
			l.claims.add(number, what, called, got)
			if got.outcome != unknown {
				done.Add(1)
			}
		})
	})
	return nil
}

func ask(ctx context.Context, client *kgo.Client, what claim, node int32) (answer, error) {
	switch what.deed {
	case toCreate:
		request := kmsg.NewPtrCreateTopicsRequest()
		topic := kmsg.NewCreateTopicsRequestTopic()
		topic.Topic, topic.NumPartitions, topic.ReplicationFactor = what.name, 1, nodeCount
		request.Topics, request.TimeoutMillis = append(request.Topics, topic), int32(claimMax.Milliseconds())
		response, err := client.Broker(int(node)).Request(ctx, request)
		if err != nil {
			return answer{}, err
		}
		return outcomeOf(response.(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode, kerr.TopicAlreadyExists)
	case toDelete:
		request := kmsg.NewPtrDeleteTopicsRequest()
		topic := kmsg.NewDeleteTopicsRequestTopic()
		topic.Topic = &what.name
		request.Topics, request.TopicNames = append(request.Topics, topic), append(request.TopicNames, what.name)
		request.TimeoutMillis = int32(claimMax.Milliseconds())
		response, err := client.Broker(int(node)).Request(ctx, request)
		if err != nil {
			return answer{}, err
		}
		return outcomeOf(response.(*kmsg.DeleteTopicsResponse).Topics[0].ErrorCode, kerr.UnknownTopicOrPartition)
	default:
		// The client finds the coordinator itself.
		request := kmsg.NewPtrInitProducerIDRequest()
		request.TransactionalID, request.TransactionTimeoutMillis = &what.name, int32(transactionTimeout.Milliseconds())
		request.ProducerID, request.ProducerEpoch = nowhere, nowhere
		response, err := request.RequestWith(ctx, client)
		if err == nil {
			err = kerr.ErrorForCode(response.ErrorCode)
		}
		if err != nil {
			return answer{}, err
		}
		return answer{ok, epoch{response.ProducerID, response.ProducerEpoch}}, nil
	}
}

// outcomeOf returns the outcome of a code. One refusal says that the request had no effect. For all others it
// is unknown whether the request was carried out.
func outcomeOf(code int16, refusal *kerr.Error) (answer, error) {
	switch err := kerr.ErrorForCode(code); {
	case err == nil:
		return answer{outcome: ok}, nil
	case code == refusal.Code:
		return answer{outcome: failed}, nil
	default:
		return answer{}, err
	}
}
