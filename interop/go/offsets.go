package main

import (
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

func offsetTests() {
	run(true, "offsets by position, time and maximum timestamp", listOffsets)
	run(true, "delete records", deleteRecords)
	run(false, "seek", seek)
	run(false, "offset out of range", outOfRange)
	run(false, "end of a leader epoch", leaderEpoch)
}

func (t *T) listed(l kadm.ListedOffsets, err error) func(string, int32) kadm.ListedOffset {
	t.ok(err, "list offsets")
	t.ok(l.Error(), "list offsets")
	return func(topic string, partition int32) kadm.ListedOffset {
		o, found := l.Lookup(topic, partition)
		t.check(found, "no answer for partition %d", partition)
		return o
	}
}

func listOffsets(t *T) {
	topic := t.create("offsets", 2, nil)
	adm, cl, base := t.admin(), t.producer(), int64(1_700_000_000_000)
	defer adm.Close()
	defer cl.Close()
	for _, d := range []int64{100, 900, 500} {
		t.ok(t.produce(cl, &kgo.Record{Topic: topic, Timestamp: time.UnixMilli(base + d)}), "produce")
	}
	same(t, t.listed(adm.ListStartOffsets(t, topic))(topic, 0).Offset, 0, "start")
	same(t, t.listed(adm.ListEndOffsets(t, topic))(topic, 0).Offset, 3, "end")
	same(t, t.listed(adm.ListEndOffsets(t, topic))(topic, 1).Offset, 0, "end of the empty partition")
	same(t, t.listed(adm.ListCommittedOffsets(t, topic))(topic, 0).Offset, 3, "last stable offset")
	same(t, t.listed(adm.ListLocalLogStartOffsets(t, topic))(topic, 0).Offset, 0, "local start")
	max := t.listed(adm.ListMaxTimestampOffsets(t, topic))(topic, 0)
	same(t, fmt.Sprint(max.Offset, max.Timestamp), fmt.Sprint(1, base+900), "maximum timestamp")
	for _, c := range [][2]int64{{0, 0}, {100, 0}, {101, 1}, {400, 1}, {900, 1}, {901, 3}} { // kadm returns the end for "none"
		same(t, t.listed(adm.ListOffsetsAfterMilli(t, base+c[0], topic))(topic, 0).Offset, c[1], fmt.Sprintf("after base+%d", c[0]))
	}
}

func deleteRecords(t *T) {
	topic := t.create("delete-records", 1, nil)
	adm, cl := t.admin(), t.producer()
	defer adm.Close()
	defer cl.Close()
	for range 10 {
		t.ok(t.produce(cl, &kgo.Record{Topic: topic, Value: []byte("v")}), "produce")
	}
	remove := func(at int64) (kadm.DeleteRecordsResponse, error) {
		var o kadm.Offsets
		o.AddOffset(topic, 0, at, -1)
		answer, err := adm.DeleteRecords(t, o)
		t.ok(err, "delete records")
		r, _ := answer.Lookup(topic, 0)
		return r, r.Err
	}
	r, err := remove(4)
	t.ok(err, "to 4")
	same(t, r.LowWatermark, 4, "low watermark")
	same(t, t.listed(adm.ListStartOffsets(t, topic))(topic, 0).Offset, 4, "start")
	same(t, t.read(topic, 6, map[int32]int64{0: 4})[0].Offset, 4, "first offset")
	_, err = remove(11)
	t.check(err != nil, "deleting beyond the end passed")
}

func seek(t *T) {
	topic := t.create("seek", 1, nil)
	cl := t.producer(kgo.ProducerBatchCompression(kgo.GzipCompression()))
	defer cl.Close()
	var all []*kgo.Record
	for i := range 100 {
		all = append(all, &kgo.Record{Topic: topic, Value: fmt.Appendf(nil, "%d", i)})
	}
	t.ok(t.produce(cl, all...), "produce")
	for _, at := range []int{99, 37, 0, 50} { // in the middle of a batch
		t.sameRecords(t.read(topic, 100-at, map[int32]int64{0: int64(at)}), all[at:])
	}
	r := t.client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtEnd().Relative(-5)}}))
	defer r.Close()
	t.sameRecords(t.readOn(r, 5), all[95:])
}

func outOfRange(t *T) {
	topic := t.create("out-of-range", 1, nil)
	cl := t.producer()
	defer cl.Close()
	t.ok(t.produce(cl, &kgo.Record{Topic: topic, Value: []byte("v")}), "produce")
	got := t.read(topic, 1, map[int32]int64{0: 1_000_000}, kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	same(t, got[0].Offset, 0, "offset after the reset")
}

func leaderEpoch(t *T) {
	topic := t.create("epoch", 1, nil)
	adm, cl := t.admin(), t.producer()
	defer adm.Close()
	defer cl.Close()
	t.ok(t.produce(cl, &kgo.Record{Topic: topic, Value: []byte("v")}), "produce")
	epoch := t.read(topic, 1, start)[0].LeaderEpoch
	t.check(epoch >= 0, "leader epoch %d", epoch)
	var request kadm.OffsetForLeaderEpochRequest
	request.Add(topic, 0, epoch)
	answer, err := adm.OffsetForLeaderEpoch(t, request)
	t.ok(err, "offset for leader epoch")
	got := answer[topic][0]
	t.ok(got.Err, "offset for leader epoch")
	same(t, fmt.Sprint(got.LeaderEpoch, got.EndOffset), fmt.Sprint(epoch, 1), "end of the epoch")
}
