package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	pulse     = 100 * time.Millisecond // between a member's heartbeats
	sessionMs = 30_000
)

// exchange is a request that was in flight from sent to answered.
type exchange struct{ sent, answered time.Time }

// member is a scripted member. It does what the protocol asks for and nothing else.
type member struct {
	*conn
	group, topic, id string
	number           int
	generation       int32 // or the member epoch
	topicID          [16]byte
	owned            []int32
	joins, syncs     []exchange // classic
	beats            []exchange // the new protocol
}

// round is one rebalance, as the members saw it.
type round struct {
	began, ended time.Time
	members      []*member
}

// each runs the same function for all members at once.
func each(members []*member, action func(*member) error) error {
	errs := make([]error, len(members))
	var wait sync.WaitGroup
	for i, m := range members {
		wait.Go(func() { errs[i] = action(m) })
	}
	wait.Wait()
	return errors.Join(errs...)
}

func timed(list *[]exchange, m *member, request kmsg.Request, version int16) (kmsg.Response, error) {
	sent := time.Now()
	response, err := m.ask(request, version)
	*list = append(*list, exchange{sent, time.Now()})
	return response, err
}

// ---- classic ----

// join joins and syncs until it has an assignment of the generation that it joined. The leader hands out one
// partition to each member.
func (m *member) join() error {
	for end := time.Now().Add(waitMax); time.Now().Before(end); {
		r := kmsg.NewPtrJoinGroupRequest()
		r.Group, r.MemberID, r.ProtocolType, r.SessionTimeoutMillis, r.RebalanceTimeoutMillis = m.group, m.id, "consumer", sessionMs, sessionMs
		metadata := kmsg.NewConsumerMemberMetadata()
		metadata.Topics = []string{m.topic}
		protocol := kmsg.NewJoinGroupRequestProtocol()
		protocol.Name, protocol.Metadata = "range", metadata.AppendTo(nil)
		r.Protocols = append(r.Protocols, protocol)
		response, err := timed(&m.joins, m, r, 9)
		if err != nil {
			return err
		}
		joined := response.(*kmsg.JoinGroupResponse)
		switch err := kerr.ErrorForCode(joined.ErrorCode); {
		case errors.Is(err, kerr.CoordinatorLoadInProgress):
			// The server may have just created the offsets topic.
			time.Sleep(100 * time.Millisecond)
			continue
		case errors.Is(err, kerr.MemberIDRequired):
			m.id = joined.MemberID
			continue
		case err != nil:
			return fmt.Errorf("join: %w", err)
		}
		m.id, m.generation = joined.MemberID, joined.Generation
		s := kmsg.NewPtrSyncGroupRequest()
		s.Group, s.MemberID, s.Generation = m.group, m.id, m.generation
		s.ProtocolType, s.Protocol = kmsg.StringPtr("consumer"), kmsg.StringPtr("range")
		if joined.LeaderID == m.id {
			for n, other := range joined.Members {
				given := kmsg.NewSyncGroupRequestGroupAssignment()
				assignment := kmsg.NewConsumerMemberAssignment()
				topic := kmsg.NewConsumerMemberAssignmentTopic()
				topic.Topic, topic.Partitions = m.topic, []int32{int32(n)}
				assignment.Topics = append(assignment.Topics, topic)
				given.MemberID, given.MemberAssignment = other.MemberID, assignment.AppendTo(nil)
				s.GroupAssignment = append(s.GroupAssignment, given)
			}
		}
		response, err = timed(&m.syncs, m, s, 5)
		if err != nil {
			return err
		}
		synced := response.(*kmsg.SyncGroupResponse)
		switch err := kerr.ErrorForCode(synced.ErrorCode); {
		case errors.Is(err, kerr.RebalanceInProgress):
			continue
		case err != nil:
			return fmt.Errorf("sync: %w", err)
		}
		var assignment kmsg.ConsumerMemberAssignment
		if err := assignment.ReadFrom(synced.MemberAssignment); err != nil || len(assignment.Topics) != 1 {
			return fmt.Errorf("an assignment of %d bytes: %v", len(synced.MemberAssignment), err)
		}
		m.owned = assignment.Topics[0].Partitions
		return nil
	}
	return errors.New("no assignment in time")
}

// census knows how many members have an assignment of which generation.
type census struct {
	mu      sync.Mutex
	due     int
	synced  map[int32]int
	settled chan struct{}
}

func newCensus(due int) *census {
	return &census{due: due, synced: map[int32]int{}, settled: make(chan struct{})}
}

func (c *census) count(generation int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.synced[generation]++; c.synced[generation] == c.due {
		close(c.settled)
	}
}

// live joins, and joins again whenever a heartbeat says so, until all members have an assignment of one
// generation. With joined it has one already, of which the census does not know.
func (m *member) live(c *census, joined bool) error {
	tick := time.NewTicker(pulse)
	defer tick.Stop()
	for {
		if !joined {
			if err := m.join(); err != nil {
				return err
			}
			c.count(m.generation)
		}
		for joined = true; joined; {
			select {
			case <-c.settled:
				return nil
			case <-tick.C:
			}
			r := kmsg.NewPtrHeartbeatRequest()
			r.Group, r.MemberID, r.Generation = m.group, m.id, m.generation
			response, err := m.ask(r, 4)
			if err != nil {
				return err
			}
			switch err := kerr.ErrorForCode(response.(*kmsg.HeartbeatResponse).ErrorCode); {
			case errors.Is(err, kerr.RebalanceInProgress):
				joined = false
			case err != nil:
				return fmt.Errorf("heartbeat: %w", err)
			}
		}
	}
}

// classicBroker is the time that the server took: from the last join to its last answer, and from the last
// sync to its last answer. The time in between, and the time that the members waited for each other's
// heartbeats, is not the server's.
func classicBroker(r round) time.Duration {
	last := func(list func(*member) []exchange) time.Duration {
		var sent, answered time.Time
		for _, m := range r.members {
			found := list(m)
			e := found[len(found)-1]
			if e.sent.After(sent) {
				sent = e.sent
			}
			if e.answered.After(answered) {
				answered = e.answered
			}
		}
		return answered.Sub(sent)
	}
	return last(func(m *member) []exchange { return m.joins }) + last(func(m *member) []exchange { return m.syncs })
}

func classicJoin(members []*member) (round, error) {
	c := newCensus(len(members))
	r := round{began: time.Now(), members: members}
	err := each(members, func(m *member) error { return m.live(c, false) })
	r.ended = time.Now()
	return r, err
}

// classicChange lets one member of a settled group leave. It ends when the others have their assignments of
// the next generation.
func classicChange(members []*member) (round, error) {
	leaver, rest := members[len(members)-1], members[:len(members)-1]
	for _, m := range rest {
		m.joins, m.syncs = nil, nil
	}
	c := newCensus(len(rest))
	settled := make(chan error, 1)
	go func() { settled <- each(rest, func(m *member) error { return m.live(c, true) }) }()
	time.Sleep(3 * pulse) // by then their heartbeats are spread
	r := round{began: time.Now(), members: rest}
	l := kmsg.NewPtrLeaveGroupRequest()
	l.Group = leaver.group
	gone := kmsg.NewLeaveGroupRequestMember()
	gone.MemberID = leaver.id
	l.Members = append(l.Members, gone)
	if _, err := leaver.ask(l, 5); err != nil {
		return r, err
	}
	err := <-settled
	r.ended = time.Now()
	return r, err
}

// ---- the new protocol (KIP-848) ----

// beat sends one heartbeat and applies the answer.
func (m *member) beat(full bool) error {
	r := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	r.Group, r.MemberID, r.MemberEpoch = m.group, m.id, m.generation
	if full {
		r.RebalanceTimeoutMillis = sessionMs
		r.SubscribedTopicNames = []string{m.topic}
		r.ServerAssignor = kmsg.StringPtr("uniform")
	}
	own := kmsg.NewConsumerGroupHeartbeatRequestTopic()
	own.TopicID, own.Partitions = m.topicID, m.owned
	r.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	if len(m.owned) > 0 {
		r.Topics = append(r.Topics, own)
	}
	response, err := timed(&m.beats, m, r, 1)
	if err != nil {
		return err
	}
	answer := response.(*kmsg.ConsumerGroupHeartbeatResponse)
	if err := failed("heartbeat", answer.ErrorCode); err != nil {
		return err
	}
	m.generation = answer.MemberEpoch
	if answer.Assignment != nil {
		m.owned = nil
		for _, t := range answer.Assignment.Topics {
			m.owned = append(m.owned, t.Partitions...)
		}
	}
	return nil
}

// settleModern sends heartbeats until the members have all partitions among them and are in one epoch. A
// member that has just got or given back partitions says so at once. The others wait for their next
// heartbeat.
func settleModern(members []*member, partitions int) error {
	var mu sync.Mutex
	done := func() bool {
		mu.Lock()
		defer mu.Unlock()
		n, all := 0, map[int32]bool{}
		for _, m := range members {
			n += len(m.owned)
			for _, p := range m.owned {
				all[p] = true
			}
			if m.generation != members[0].generation || len(m.owned) == 0 {
				return false
			}
		}
		return n == partitions && len(all) == partitions
	}
	return each(members, func(m *member) error {
		next := time.Now()
		for end := time.Now().Add(waitMax); time.Now().Before(end); {
			if done() {
				return nil
			}
			if wait := time.Until(next); wait > 0 {
				time.Sleep(min(wait, 2*time.Millisecond))
				continue
			}
			next = time.Now().Add(pulse)
			// The exchange itself must not hold the lock, so it uses a copy of the member.
			mu.Lock()
			copied := *m
			mu.Unlock()
			before, epoch := slices.Clone(copied.owned), copied.generation
			if err := copied.beat(epoch == 0); err != nil {
				return err
			}
			mu.Lock()
			*m = copied
			mu.Unlock()
			if !slices.Equal(before, copied.owned) {
				next = time.Now()
			}
		}
		return errors.New("no assignment in time")
	})
}

func modernJoin(members []*member, partitions int) (round, error) {
	r := round{began: time.Now(), members: members}
	err := settleModern(members, partitions)
	r.ended = time.Now()
	return r, err
}

func modernChange(members []*member, partitions int) (round, error) {
	leaver, rest := members[len(members)-1], members[:len(members)-1]
	for _, m := range rest {
		m.beats = nil
	}
	r := round{began: time.Now(), members: rest}
	leaver.generation, leaver.owned = -1, nil
	if err := leaver.beat(false); err != nil {
		return r, err
	}
	err := settleModern(rest, partitions)
	r.ended = time.Now()
	return r, err
}

// modernBroker is the time in which at least one heartbeat was in flight or at the server.
func modernBroker(r round) time.Duration {
	var all []exchange
	for _, m := range r.members {
		all = append(all, m.beats...)
	}
	slices.SortFunc(all, func(a, b exchange) int { return a.sent.Compare(b.sent) })
	var busy time.Duration
	var upto time.Time
	for _, e := range all {
		if e.sent.Before(r.began) {
			continue
		}
		if e.sent.After(upto) {
			upto = e.sent
		}
		if e.answered.After(upto) {
			busy += e.answered.Sub(upto)
			upto = e.answered
		}
	}
	return busy
}

// ---- the run ----

func createTopic(address, topic string, partitions int32, configs map[string]*string) ([16]byte, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(address))
	if err != nil {
		return [16]byte{}, err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), waitMax)
	defer cancel()
	made, err := kadm.NewClient(client).CreateTopic(ctx, partitions, 1, configs, topic)
	time.Sleep(time.Second) // Kafka's coordinators learn of a topic a little later
	return made.ID, err
}

// rebalance runs one load: the members of a group come together, then one of them leaves. MODE is classic or
// modern.
func rebalance(mode, address, name string, count int) error {
	partitions := 2 * count
	id, err := createTopic(address, name, int32(partitions), nil)
	if err != nil {
		return err
	}
	var members []*member
	for n := range count {
		c, err := dial(address)
		if err != nil {
			return err
		}
		defer c.Close()
		m := &member{conn: c, group: "group-" + name, topic: name, number: n, topicID: id}
		if mode == "modern" {
			m.id = fmt.Sprintf("%s-%03d", name, n)
		}
		members = append(members, m)
	}
	if err := awaitCoordinator(members[0].conn, members[0].group); err != nil {
		return err
	}
	var joined, changed round
	var joinBroker, changeBroker time.Duration
	if mode == "classic" {
		if joined, err = classicJoin(members); err != nil {
			return err
		}
		joinBroker = classicBroker(joined)
		if changed, err = classicChange(members); err != nil {
			return err
		}
		changeBroker = classicBroker(changed)
	} else {
		if joined, err = modernJoin(members, partitions); err != nil {
			return err
		}
		joinBroker = modernBroker(joined)
		if changed, err = modernChange(members, partitions); err != nil {
			return err
		}
		changeBroker = modernBroker(changed)
	}
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	fmt.Printf("blast join_broker_ms=%.2f join_wall_ms=%.2f change_broker_ms=%.2f change_wall_ms=%.2f\n",
		ms(joinBroker), ms(joined.ended.Sub(joined.began)), ms(changeBroker), ms(changed.ended.Sub(changed.began)))
	return nil
}
