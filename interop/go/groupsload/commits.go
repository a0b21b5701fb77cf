package main

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const warm = time.Second // before the measured time: sent but not recorded

// commits measures offset commits. Each of many groups has one member, and the members commit in turn at
// fixed times, whether or not the server keeps up. A commit's time counts from the moment at which it was
// due, so it includes the pacer's lateness, which is also reported.
func commits(address, name string, groups, rate int, length time.Duration) error {
	if _, err := createTopic(address, name, 1, nil); err != nil {
		return err
	}
	var members []*member
	for n := range groups {
		c, err := dial(address)
		if err != nil {
			return err
		}
		defer c.Close()
		members = append(members, &member{conn: c, group: fmt.Sprintf("group-%s-%d", name, n), topic: name, number: n})
	}
	err := each(members, func(m *member) error {
		if err := awaitCoordinator(m.conn, m.group); err != nil {
			return err
		}
		return m.join()
	})
	if err != nil {
		return err
	}
	between := time.Second / time.Duration(rate)
	began := time.Now().Add(100 * time.Millisecond)
	due := int((warm + length) / between)
	for _, m := range members {
		if err := m.SetDeadline(began.Add(warm + length + waitMax)); err != nil {
			return err
		}
	}
	var late []time.Duration
	paced := make(chan error, 1)
	go func() {
		var err error
		late, err = pace(members, began, between, due)
		paced <- err
	}()
	took := make([][]time.Duration, groups)
	err = each(members, func(m *member) error {
		for n := m.number; n < due; n += groups {
			response, err := m.receive(m.commitOf(n), int32(n))
			if err != nil {
				return err
			}
			if err := failed("commit", response.(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode); err != nil {
				return err
			}
			if at := began.Add(time.Duration(n) * between); at.Sub(began) >= warm {
				took[m.number] = append(took[m.number], time.Since(at))
			}
		}
		return nil
	})
	if err := errors.Join(err, <-paced); err != nil {
		return err
	}
	all := slices.Concat(took...)
	slices.Sort(all)
	slices.Sort(late)
	us := func(of []time.Duration, share float64) int64 {
		return of[min(len(of)-1, int(share*float64(len(of))))].Microseconds()
	}
	fmt.Printf("blast commits=%d p50_us=%d p99_us=%d p99.9_us=%d max_us=%d late_p50_us=%d late_p99_us=%d\n", len(all),
		us(all, 0.5), us(all, 0.99), us(all, 0.999), us(all, 1), us(late, 0.5), us(late, 0.99))
	return nil
}

// commitOf is the member's commit of offset n.
func (m *member) commitOf(n int) kmsg.Request {
	r := kmsg.NewPtrOffsetCommitRequest()
	r.Version, r.Group, r.MemberID, r.Generation = 8, m.group, m.id, m.generation
	topic := kmsg.NewOffsetCommitRequestTopic()
	topic.Topic = m.topic
	partition := kmsg.NewOffsetCommitRequestTopicPartition()
	partition.Offset = int64(n)
	topic.Partitions = append(topic.Partitions, partition)
	r.Topics = append(r.Topics, topic)
	return r
}

// pace sends each commit when it is due, and reports by how much it was late. Go's own timers are late by up
// to a millisecond, which is more than a commit takes. A thread that sleeps in the kernel is not.
func pace(members []*member, began time.Time, between time.Duration, due int) ([]time.Duration, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const setTimerSlack = 29 // PR_SET_TIMERSLACK of prctl(2), in nanoseconds
	if _, _, code := syscall.RawSyscall(syscall.SYS_PRCTL, setTimerSlack, 1, 0); code != 0 {
		return nil, fmt.Errorf("prctl: %w", code)
	}
	late := make([]time.Duration, 0, due)
	for n := range due {
		at := began.Add(time.Duration(n) * between)
		for left := time.Until(at); left > 0; left = time.Until(at) {
			pause := syscall.NsecToTimespec(int64(left))
			if err := syscall.Nanosleep(&pause, nil); err != nil && !errors.Is(err, syscall.EINTR) {
				return nil, err
			}
		}
		m := members[n%len(members)]
		request := m.commitOf(n)
		if at.Sub(began) >= warm {
			late = append(late, time.Since(at))
		}
		if err := m.send(request, int32(n)); err != nil {
			return nil, err
		}
	}
	return late, nil
}
