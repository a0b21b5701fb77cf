package main

import (
	"context"
	"errors"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func (t *T) admin() *kadm.Client { return kadm.NewClient(t.client()) }

func (t *T) create(purpose string, partitions int32, configs map[string]string) string {
	adm, topic, pointers := t.admin(), topicName(purpose), map[string]*string{}
	defer adm.Close()
	for k, v := range configs {
		pointers[k] = &v
	}
	_, err := adm.CreateTopic(t, partitions, replicas, pointers, topic)
	t.ok(err, "create "+topic)
	return topic
}

func adminTests() {
	run(true, "create, list, describe and delete topics", topics)
	run(true, "create topic errors", createErrors)
	run(true, "create partitions", createPartitions)
	run(true, "topic configs", topicConfigs)
	run(false, "broker configs", brokerConfigs)
	run(true, "cluster and metadata", cluster)
	run(false, "log dirs", logDirs)
	run(false, "describe producers", describeProducers)
	run(false, "topic deleted and created again", recreate)
	run(false, "API versions", apiVersions)
}

func topics(t *T) {
	adm := t.admin()
	defer adm.Close()
	validated := topicName("validated")
	answer, err := adm.ValidateCreateTopics(t, 3, replicas, nil, validated)
	t.ok(err, "validate")
	t.ok(answer.Error(), "validate")
	listed, err := adm.ListTopics(t)
	t.ok(err, "list")
	t.check(!listed.Has(validated), "validation made the topic")
	topic := t.create("topics", 3, nil)
	listed, err = adm.ListTopics(t, topic)
	t.ok(err, "list")
	d := listed[topic]
	t.ok(d.Err, "described topic")
	same(t, len(d.Partitions), 3, "partitions")
	t.check(d.ID != kadm.TopicID{}, "a topic id of zeros")
	same(t, len(d.Partitions[2].Replicas), int(replicas), "replicas")
	_, err = adm.DeleteTopic(t, topic)
	t.ok(err, "delete")
	t.eventually("the topic is gone", func() bool {
		fresh := t.admin() // franz-go caches metadata
		defer fresh.Close()
		l, err := fresh.ListTopics(t)
		return err == nil && !l.Has(topic)
	})
	_, err = adm.DeleteTopic(t, topic)
	t.check(errors.Is(err, kerr.UnknownTopicOrPartition), "delete again: %v", err)
}

func createErrors(t *T) {
	adm := t.admin()
	defer adm.Close()
	topic, soon, one := t.create("errors", 1, nil), "soon", "1"
	for _, c := range []struct {
		topic      string
		partitions int32
		replicas   int16
		configs    map[string]*string
		want       error
	}{
		{topic, 1, replicas, nil, kerr.TopicAlreadyExists}, {"a/b", 1, replicas, nil, kerr.InvalidTopicException}, {"..", 1, replicas, nil, kerr.InvalidTopicException},
		{topic + "p", 0, replicas, nil, kerr.InvalidPartitions}, {topic + "p", -5, replicas, nil, kerr.InvalidPartitions}, {topic + "r", 1, replicas + 1, nil, kerr.InvalidReplicationFactor},
		{topic + "c", 1, replicas, map[string]*string{"retention.ms": &soon}, kerr.InvalidConfig}, {topic + "c", 1, replicas, map[string]*string{"no.such": &one}, kerr.InvalidConfig},
	} {
		_, err := adm.CreateTopic(t, c.partitions, c.replicas, c.configs, c.topic)
		t.check(errors.Is(err, c.want), "%s %d %d: got %v, want %v", c.topic, c.partitions, c.replicas, err, c.want)
	}
}

func createPartitions(t *T) {
	adm, topic := t.admin(), t.create("partitions", 1, nil)
	defer adm.Close()
	first := func(r kadm.CreatePartitionsResponses, err error) error {
		t.ok(err, "create partitions")
		return r.Error()
	}
	t.ok(first(adm.ValidateUpdatePartitions(t, 4, topic)), "validate")
	t.ok(first(adm.UpdatePartitions(t, 3, topic)), "update")
	t.eventually("three partitions", func() bool { l, err := adm.ListTopics(t, topic); return err == nil && len(l[topic].Partitions) == 3 })
	t.check(errors.Is(first(adm.UpdatePartitions(t, 2, topic)), kerr.InvalidPartitions), "fewer partitions passed")
	cl := t.producer()
	defer cl.Close()
	t.ok(t.produce(cl, &kgo.Record{Topic: topic, Partition: 2, Value: []byte("v")}), "produce to the new partition")
}

func topicConfigs(t *T) {
	adm, topic := t.admin(), t.create("configs", 1, map[string]string{"retention.ms": "1234567"})
	defer adm.Close()
	entry := func(key string) kadm.Config {
		all, err := adm.DescribeTopicConfigs(t, topic)
		t.ok(err, "describe")
		r, err := all.On(topic, nil)
		t.ok(err, "describe")
		t.ok(r.Err, "describe")
		for _, c := range r.Configs {
			if c.Key == key {
				return c
			}
		}
		t.fail("no config %s", key)
		return kadm.Config{}
	}
	value := func(key string) string { return *entry(key).Value }
	same(t, value("retention.ms"), "1234567", "retention.ms")
	same(t, entry("retention.ms").Source, kmsg.ConfigSourceDynamicTopicConfig, "source")
	same(t, entry("segment.bytes").Source, kmsg.ConfigSourceDefaultConfig, "source")
	alter := func(r kadm.AlterConfigsResponses, err error) error {
		t.ok(err, "alter")
		return r[0].Err
	}
	changed := []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "max.message.bytes", Value: kadm.StringPtr("2000000")}}
	t.ok(alter(adm.ValidateAlterTopicConfigs(t, changed, topic)), "validate")
	same(t, value("max.message.bytes"), "1048588", "after validation only")
	t.ok(alter(adm.AlterTopicConfigs(t, changed, topic)), "alter")
	t.eventually("altered", func() bool { return value("max.message.bytes") == "2000000" })
	t.ok(alter(adm.AlterTopicConfigs(t, []kadm.AlterConfig{{Op: kadm.DeleteConfig, Name: "retention.ms"}}, topic)), "delete")
	t.eventually("the default again", func() bool { return value("retention.ms") == "604800000" })
	compact := func(op kadm.IncrementalOp) error {
		return alter(adm.AlterTopicConfigs(t, []kadm.AlterConfig{{Op: op, Name: "cleanup.policy", Value: kadm.StringPtr("compact")}}, topic))
	}
	t.ok(compact(kadm.AppendConfig), "append")
	t.eventually("appended", func() bool { return value("cleanup.policy") == "delete,compact" })
	t.ok(compact(kadm.SubtractConfig), "subtract")
	t.eventually("subtracted", func() bool { return value("cleanup.policy") == "delete" })
	t.check(errors.Is(alter(adm.AlterTopicConfigs(t, []kadm.AlterConfig{{Name: "retention.ms", Value: kadm.StringPtr("soon")}}, topic)), kerr.InvalidConfig), "a bad value passed")
	t.ok(alter(adm.AlterTopicConfigsState(t, []kadm.AlterConfig{{Name: "flush.ms", Value: kadm.StringPtr("77")}}, topic)), "the old call")
	t.eventually("the old call replaces all", func() bool { return value("flush.ms") == "77" && value("max.message.bytes") == "1048588" })
	all, err := adm.DescribeTopicConfigs(t, topic+"-none")
	t.ok(err, "describe")
	t.check(errors.Is(all[0].Err, kerr.UnknownTopicOrPartition), "unknown topic: %v", all[0].Err)
}

func (t *T) broker(adm *kadm.Client) int32 {
	brokers, err := adm.ListBrokers(t)
	t.ok(err, "brokers")
	same(t, len(brokers), int(replicas), "brokers")
	return brokers[0].NodeID
}

func brokerConfigs(t *T) {
	adm := t.admin()
	defer adm.Close()
	all, err := adm.DescribeBrokerConfigs(t, t.broker(adm))
	t.ok(err, "describe")
	t.ok(all[0].Err, "describe")
	found := map[string]bool{}
	for _, c := range all[0].Configs {
		found[c.Key] = true
	}
	for _, key := range []string{"num.partitions", "auto.create.topics.enable", "message.max.bytes", "log.retention.ms", "socket.request.max.bytes"} {
		t.check(found[key], "no broker config %s", key)
	}
}

func cluster(t *T) {
	adm := t.admin()
	defer adm.Close()
	m, err := adm.Metadata(t)
	t.ok(err, "metadata")
	t.check(m.Cluster != "", "no cluster id")
	t.broker(adm)
	t.check(slices.Contains(m.Brokers.NodeIDs(), m.Controller), "controller %d is none of %v", m.Controller, m.Brokers.NodeIDs())
	topic := topicName("not-there")
	m, err = adm.Metadata(t, topic)
	t.ok(err, "metadata")
	t.check(errors.Is(m.Topics[topic].Err, kerr.UnknownTopicOrPartition), "unknown topic: %v", m.Topics[topic].Err)
}

func logDirs(t *T) {
	adm, topic, cl := t.admin(), t.create("log-dirs", 2, nil), t.producer(kgo.ProducerBatchCompression(kgo.NoCompression()))
	defer adm.Close()
	defer cl.Close()
	t.ok(t.produce(cl, &kgo.Record{Topic: topic, Value: payload(1, 10_000)}), "produce")
	var set kadm.TopicsSet
	set.Add(topic, 0, 1)
	all, err := adm.DescribeAllLogDirs(t, set)
	t.ok(err, "describe")
	sizes := map[int32]int64{}
	all.Each(func(d kadm.DescribedLogDir) {
		t.ok(d.Err, "directory")
		d.Topics.Each(func(p kadm.DescribedLogDirPartition) { sizes[p.Partition] = p.Size })
	})
	t.check(len(sizes) == 2 && sizes[0] > 5000 && sizes[0] < 50_000 && sizes[1] == 0, "sizes %v", sizes)
}

func describeProducers(t *T) {
	adm, topic, cl := t.admin(), t.create("producers", 1, nil), t.producer()
	defer adm.Close()
	defer cl.Close()
	for range 3 {
		t.ok(t.produce(cl, &kgo.Record{Topic: topic, Value: []byte("v")}), "produce")
	}
	id, _, err := cl.ProducerID(context.Background())
	t.ok(err, "producer id")
	var set kadm.TopicsSet
	set.Add(topic, 0)
	all, err := adm.DescribeProducers(t, set)
	t.ok(err, "describe")
	p := all[topic].Partitions[0]
	t.ok(p.Err, "describe")
	same(t, len(p.ActiveProducers), 1, "producers")
	for _, a := range p.ActiveProducers {
		same(t, a.ProducerID, id, "producer id")
		same(t, a.LastSequence, 2, "last sequence")
		same(t, a.CurrentTxnStartOffset, -1, "transaction")
	}
}

// recreate deletes and creates a topic. The id changes, old data is gone, and a client that knew the old
// topic can use the new one.
func recreate(t *T) {
	adm, topic := t.admin(), t.create("recreate", 1, nil)
	defer adm.Close()
	cl := t.producer()
	t.ok(t.produce(cl, &kgo.Record{Topic: topic, Value: []byte("old")}), "produce")
	cl.Close()
	id := func() kadm.TopicID { // a new client each time: franz-go caches metadata
		adm := t.admin()
		defer adm.Close()
		l, err := adm.ListTopics(t, topic)
		t.ok(err, "list")
		return l[topic].ID
	}
	old := id()
	_, err := adm.DeleteTopic(t, topic)
	t.ok(err, "delete")
	t.eventually("created again", func() bool { _, err := adm.CreateTopic(t, 1, replicas, nil, topic); return err == nil })
	t.check(id() != old, "the new topic has the old id")
	cl = t.producer()
	defer cl.Close()
	t.ok(t.produce(cl, &kgo.Record{Topic: topic, Value: []byte("new")}), "produce")
	t.sameValues(t.read(topic, 1, start), []string{"new"})
}

func apiVersions(t *T) {
	adm := t.admin()
	defer adm.Close()
	all, err := adm.ApiVersions(t)
	t.ok(err, "API versions")
	for _, v := range all {
		t.ok(v.Err, "API versions")
		max, found := v.KeyMaxVersion(int16(kmsg.Fetch))
		t.check(found && max >= 17, "Fetch up to %d", max)
	}
}
