package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const warm = time.Second // sent but not recorded before the measured time

// commits: each of so many groups has one member, and the members commit in turn at fixed times, whether or not the server keeps up.
// A commit's time counts from the moment at which it was due.
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
	took := make([][]time.Duration, groups)
	err = each(members, func(m *member) error {
		for n := m.number; n < due; n += groups {
			at := began.Add(time.Duration(n) * between)
			time.Sleep(time.Until(at))
			r := kmsg.NewPtrOffsetCommitRequest()
			r.Group, r.MemberID, r.Generation = m.group, m.id, m.generation
			topic := kmsg.NewOffsetCommitRequestTopic()
			topic.Topic = m.topic
			partition := kmsg.NewOffsetCommitRequestTopicPartition()
			partition.Offset = int64(n)
			topic.Partitions = append(topic.Partitions, partition)
			r.Topics = append(r.Topics, topic)
			response, err := m.ask(r, 8)
			if err != nil {
				return err
			}
			if err := failed("commit", response.(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode); err != nil {
				return err
			}
			if at.Sub(began) >= warm {
				took[m.number] = append(took[m.number], time.Since(at))
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	all := slices.Concat(took...)
	slices.Sort(all)
	us := func(share float64) int64 { return all[min(len(all)-1, int(share*float64(len(all))))].Microseconds() }
	fmt.Printf("blast commits=%d p50_us=%d p99_us=%d p99.9_us=%d max_us=%d\n", len(all), us(0.5), us(0.99), us(0.999), all[len(all)-1].Microseconds())
	return nil
}
