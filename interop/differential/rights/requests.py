"""Requests of every API about one user's topics and groups.

For each API a list of bodies. Names: `a` and `b` exist, `none` does not; a group `g` has committed offsets and
`absent` does not exist; `t` is a transactional id with an open transaction; `m` is a group of the new protocol with a member that
is subscribed to `a` and `b`, and `s` such a share group. What changes something comes last or only validates, so that
both servers stay alike whatever they answer.
"""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "raw"))
from kproto import batch  # noqa: E402

UNKNOWN_ID = "00000000-0000-4000-8000-00000000beef"
MEMBER = "6b1d1c2e-0000-4000-8000-000000000000"


class Names:
    """The names of one user's things. `ids` has the topics' ids at one server."""

    def __init__(self, prefix, ids):
        self.a, self.b, self.none, self.new = (f"{prefix}-{end}" for end in ("a", "b", "none", "new"))
        self.g, self.absent, self.t, self.c, self.m, self.s = (f"{prefix}-{end}" for end in ("g", "absent", "t", "c", "m", "s"))
        self.ids = ids

    def id(self, name):
        return self.ids.get(name, UNKNOWN_ID)


def topics(names, kind, item, field="Name", at="Partitions"):
    """An entry for each topic, by name and by id at once: a version takes what it has."""
    return [{field: name, "TopicId": names.id(name), at: [dict(item)] if isinstance(item, dict) else [item]} for name in kind]


def bodies(n):
    three = (n.a, n.b, n.none)
    produce = {"Index": 0, "Records": batch()}
    # Another producer id: tailrace takes a batch with the same one for a repetition (docs/guarantees.md).
    transactional = {"Index": 0, "Records": batch(attributes=0x10, pid=2, pepoch=0, seq=0)}
    idempotent = {"Index": 0, "Records": batch(pid=1, pepoch=0, seq=0)}
    fetch = {"Partition": 0, "FetchOffset": 0, "PartitionMaxBytes": 1 << 20, "CurrentLeaderEpoch": -1, "LastFetchedEpoch": -1, "LogStartOffset": -1}
    commit = {"PartitionIndex": 0, "CommittedOffset": 0, "CommittedLeaderEpoch": -1, "CommittedMetadata": ""}
    configs = [{"Name": "retention.ms", "Value": "77777", "ConfigOperation": 0}]
    resources = [{"ResourceType": 2, "ResourceName": name, "Configs": configs} for name in three] + [
        {"ResourceType": 32, "ResourceName": n.g, "Configs": [{"Name": "consumer.session.timeout.ms", "Value": "50000", "ConfigOperation": 0}]},
        {"ResourceType": 4, "ResourceName": "1", "Configs": [{"Name": "no.such.key.of.a.broker", "Value": "x", "ConfigOperation": 0}]}]
    join = {"GroupId": n.c, "SessionTimeoutMs": 1, "RebalanceTimeoutMs": 1, "MemberId": "", "ProtocolType": "consumer", "Protocols": [{"Name": "range", "Metadata": b""}]}
    heartbeat = {"MemberId": MEMBER, "MemberEpoch": 7, "InstanceId": None, "RackId": None, "RebalanceTimeoutMs": 1000, "SubscribedTopicNames": [n.a, n.none], "ServerAssignor": None,
                 "SubscribedTopicRegex": None, "TopicPartitions": []}
    acl = {"ResourceType": 2, "ResourceName": n.a, "ResourcePatternType": 3, "Principal": "User:somebody", "Host": "*", "Operation": 3, "PermissionType": 3}
    any_acl = {"ResourceTypeFilter": 2, "ResourceNameFilter": n.a, "PatternTypeFilter": 3, "PrincipalFilter": "User:somebody", "HostFilter": None, "Operation": 1, "PermissionType": 1}
    markers = {"ProducerId": 4242, "ProducerEpoch": 0, "TransactionResult": True, "CoordinatorEpoch": 0, "Topics": [{"Name": n.none, "PartitionIndexes": [0]}]}
    transaction = {"TransactionalId": n.t, "ProducerId": 4242, "ProducerEpoch": 0}
    return {
        "Metadata": [
            {"Topics": [{"Name": name, "TopicId": bytes(16)} for name in (n.a, n.b)], "AllowAutoTopicCreation": False, "IncludeTopicAuthorizedOperations": True,
             "IncludeClusterAuthorizedOperations": True},
            {"Topics": [{"Name": n.none, "TopicId": bytes(16)}], "AllowAutoTopicCreation": False, "IncludeTopicAuthorizedOperations": True},
            {"Topics": [{"Name": None, "TopicId": n.id(n.a)}, {"Name": None, "TopicId": UNKNOWN_ID}], "AllowAutoTopicCreation": False, "IncludeTopicAuthorizedOperations": True},
            {"Topics": None, "AllowAutoTopicCreation": False, "IncludeTopicAuthorizedOperations": True}],
        "DescribeTopicPartitions": [{"Topics": [{"Name": name} for name in sorted(three)], "ResponsePartitionLimit": 100}],
        "DescribeCluster": [{"IncludeClusterAuthorizedOperations": True, "EndpointType": 1}, {"EndpointType": 1}],
        "Produce": [{"Acks": -1, "TimeoutMs": 5000, "TopicData": topics(n, three, produce, at="PartitionData")},
                    {"Acks": -1, "TimeoutMs": 5000, "TopicData": topics(n, (n.b,), produce, at="PartitionData")},
                    {"TransactionalId": n.t, "Acks": -1, "TimeoutMs": 5000, "TopicData": topics(n, (n.none,), transactional, at="PartitionData")},
                    {"TransactionalId": n.t, "Acks": -1, "TimeoutMs": 5000, "TopicData": topics(n, (n.none,), idempotent, at="PartitionData")}],
        "Fetch": [{"MaxWaitMs": 0, "MinBytes": 0, "MaxBytes": 1 << 20, "SessionEpoch": -1, "Topics": topics(n, three, fetch, "Topic")}],
        "ListOffsets": [{"ReplicaId": -1, "Topics": topics(n, three, {"PartitionIndex": 0, "Timestamp": -2, "CurrentLeaderEpoch": -1})}],
        "OffsetForLeaderEpoch": [{"ReplicaId": -2, "Topics": topics(n, three, {"Partition": 0, "CurrentLeaderEpoch": -1, "LeaderEpoch": 0}, "Topic")}],
        "DescribeProducers": [{"Topics": topics(n, three, 0, at="PartitionIndexes")}],
        "DescribeLogDirs": [{"Topics": [{"Topic": n.a, "Partitions": [0]}]}],
        "FindCoordinator": [{"Key": n.g, "KeyType": 0, "CoordinatorKeys": [n.g, n.absent]}, {"Key": n.t, "KeyType": 1, "CoordinatorKeys": [n.t]},
                            {"Key": f"{n.g}:{n.id(n.a)}:0", "KeyType": 2, "CoordinatorKeys": [f"{n.g}:bad"]}],
        "OffsetCommit": [{"GroupId": n.g, "GenerationIdOrMemberEpoch": -1, "MemberId": "", "RetentionTimeMs": -1, "Topics": topics(n, three, commit)}],
        "OffsetFetch": [{"GroupId": n.g, "Topics": topics(n, three, 0, at="PartitionIndexes"),
                         "Groups": [{"GroupId": g, "MemberEpoch": -1, "Topics": topics(n, three, 0, at="PartitionIndexes")} for g in (n.g, n.absent)]},
                        {"GroupId": n.g, "Topics": None, "Groups": [{"GroupId": n.g, "MemberEpoch": -1, "Topics": None}]}],
        "DescribeGroups": [{"Groups": [n.g, n.absent], "IncludeAuthorizedOperations": True}],
        "ConsumerGroupDescribe": [{"GroupIds": [n.g, n.absent], "IncludeAuthorizedOperations": True}, {"GroupIds": [n.m], "IncludeAuthorizedOperations": True}],
        "ShareGroupDescribe": [{"GroupIds": [n.absent], "IncludeAuthorizedOperations": True}, {"GroupIds": [n.s], "IncludeAuthorizedOperations": True}],
        "ListGroups": [{}],
        "JoinGroup": [join],
        "SyncGroup": [{"GroupId": n.c, "GenerationId": 1, "MemberId": "nobody", "ProtocolType": "consumer", "ProtocolName": "range"}],
        "Heartbeat": [{"GroupId": n.c, "GenerationId": 1, "MemberId": "nobody"}],
        "LeaveGroup": [{"GroupId": n.c, "MemberId": "nobody", "Members": [{"MemberId": "nobody"}]}],
        "ConsumerGroupHeartbeat": [{**heartbeat, "GroupId": n.c}, {**heartbeat, "GroupId": n.c, "SubscribedTopicNames": [n.a]},
                                   {**heartbeat, "GroupId": n.c, "SubscribedTopicNames": None}],
        "ShareGroupHeartbeat": [{"GroupId": n.c, "MemberId": MEMBER, "MemberEpoch": 7, "SubscribedTopicNames": [n.a, n.none]},
                                {"GroupId": n.c, "MemberId": MEMBER, "MemberEpoch": 7, "SubscribedTopicNames": None}],
        "ShareFetch": [{"GroupId": n.absent, "MemberId": MEMBER, "ShareSessionEpoch": 7, "MaxWaitMs": 0, "MinBytes": 0, "MaxBytes": 1000, "MaxRecords": 1, "BatchSize": 1,
                        "Topics": [{"TopicId": n.id(n.a), "Partitions": [{"PartitionIndex": 0}]}]}],
        "ShareAcknowledge": [{"GroupId": n.absent, "MemberId": MEMBER, "ShareSessionEpoch": 7, "Topics": [{"TopicId": n.id(n.a), "Partitions": [
            {"PartitionIndex": 0, "AcknowledgementBatches": [{"FirstOffset": 0, "LastOffset": 0, "AcknowledgeTypes": [1]}]}]}]}],
        "DescribeShareGroupOffsets": [{"Groups": [{"GroupId": n.absent, "Topics": [{"TopicName": name, "Partitions": [0]} for name in three]}]},
                                      {"Groups": [{"GroupId": n.absent, "Topics": None}]}],
        "AlterShareGroupOffsets": [{"GroupId": n.g, "Topics": [{"TopicName": name, "Partitions": [{"PartitionIndex": 0, "StartOffset": 0}]} for name in (n.b, n.none)]}],
        "DeleteShareGroupOffsets": [{"GroupId": n.absent, "Topics": [{"TopicName": n.a}]}],
        "InitProducerId": [{"TransactionalId": None, "TransactionTimeoutMs": 1000, "ProducerId": -1, "ProducerEpoch": -1},
                           {"TransactionalId": n.t, "TransactionTimeoutMs": 100_000_000, "ProducerId": -1, "ProducerEpoch": -1}],
        "AddPartitionsToTxn": [{"Transactions": [{**transaction, "VerifyOnly": False, "Topics": [{"Name": name, "Partitions": [0]} for name in order]}],
                                "V3AndBelowTransactionalId": n.t, "V3AndBelowProducerId": 4242, "V3AndBelowTopics": [{"Name": name, "Partitions": [0]} for name in order]}
                               for order in (three, (n.a,))],
        "AddOffsetsToTxn": [{**transaction, "GroupId": n.g}],
        "EndTxn": [{**transaction, "Committed": True}],
        "TxnOffsetCommit": [{**transaction, "GroupId": n.g, "GenerationId": -1, "Topics": topics(n, three, commit)}],
        "WriteTxnMarkers": [{"Markers": [markers]}],
        "DescribeTransactions": [{"TransactionalIds": [n.t, n.absent]}],
        "ListTransactions": [{"DurationFilter": -1}],
        "DescribeAcls": [{"ResourceTypeFilter": 2, "ResourceNameFilter": n.a, "PatternTypeFilter": pattern, "PrincipalFilter": None, "HostFilter": None, "Operation": 1, "PermissionType": 1} for pattern in (2, 3)],
        "CreateAcls": [{"Creations": [acl, acl]}, *({"Creations": [{**acl, **bad}]} for bad in (
            {"Principal": "somebody"}, {"ResourceName": ""}, {"ResourceType": 4}, {"Operation": 1}, {"PermissionType": 1}, {"ResourcePatternType": 2}))],
        "DeleteAcls": [{"Filters": [any_acl]}],
        "DescribeConfigs": [{"Resources": [{"ResourceType": 2, "ResourceName": n.a, "ConfigurationKeys": ["retention.ms"]}, {"ResourceType": 2, "ResourceName": n.none},
                                           {"ResourceType": 32, "ResourceName": n.g, "ConfigurationKeys": ["consumer.session.timeout.ms"]},
                                           {"ResourceType": 4, "ResourceName": "1", "ConfigurationKeys": ["num.partitions"]}]}],
        "AlterConfigs": [{"Resources": resources[:4], "ValidateOnly": True}],
        "IncrementalAlterConfigs": [{"Resources": resources[:4], "ValidateOnly": True}],
        "ListConfigResources": [{"ResourceTypes": [32]}],
        "DescribeClientQuotas": [{"Components": [{"EntityType": "user", "MatchType": 0, "Match": n.a}]}],
        "AlterClientQuotas": [{"Entries": [{"Entity": [{"EntityType": "user", "EntityName": name}], "Ops": [{"Key": "producer_byte_rate", "Value": 1000.0}]} for name in (n.a, n.b)],
                               "ValidateOnly": True}],
        "DescribeUserScramCredentials": [{"Users": [{"Name": "nobody"}, {"Name": "nobody"}, {"Name": n.a}]}],
        "AlterUserScramCredentials": [{"Deletions": [{"Name": n.a, "Mechanism": 1}, {"Name": "", "Mechanism": 1}, {"Name": n.b, "Mechanism": 0}, {"Name": n.none, "Mechanism": 1},
                                                     {"Name": n.none, "Mechanism": 1}],
                                       "Upsertions": [{"Name": n.t, "Mechanism": 1, "Iterations": 4095, "Salt": b"salt", "SaltedPassword": bytes(32)},
                                                      {"Name": n.g, "Mechanism": 2, "Iterations": 16385, "Salt": b"salt", "SaltedPassword": bytes(64)}]}],
        "DescribeQuorum": [{"Topics": [{"TopicName": "__cluster_metadata", "Partitions": [{"PartitionIndex": 0}]}]}],
        "UpdateFeatures": [{"timeoutMs": 1000, "FeatureUpdates": [{"Feature": "no.such.feature", "MaxVersionLevel": 1, "UpgradeType": 1}], "ValidateOnly": True}],
        "UnregisterBroker": [{"BrokerId": 99}],
        "ElectLeaders": [{"ElectionType": 0, "TopicPartitions": [{"Topic": name, "Partitions": [0]} for name in (n.a, n.none)], "TimeoutMs": 1000}],
        "AlterPartitionReassignments": [{"TimeoutMs": 1000, "Topics": [{"Name": n.none, "Partitions": [{"PartitionIndex": 0, "Replicas": [1]}]}]}],
        "ListPartitionReassignments": [{"TimeoutMs": 1000, "Topics": [{"Name": n.a, "PartitionIndexes": [0]}]}],
        "DeleteRecords": [{"Topics": topics(n, three, {"PartitionIndex": 0, "Offset": 0}), "TimeoutMs": 1000}],
        "CreatePartitions": [{"Topics": [{"Name": name, "Count": 3, "Assignments": None} for name in three], "TimeoutMs": 5000, "ValidateOnly": True}],
        "CreateTopics": [{"Topics": [{"Name": name, "NumPartitions": 1, "ReplicationFactor": 1} for name in (n.a, n.new, "not/legal")], "timeoutMs": 5000, "validateOnly": True}],
        "OffsetDelete": [{"GroupId": group, "Topics": [{"Name": name, "Partitions": [{"PartitionIndex": 0}]} for name in (n.b, n.none)]} for group in (n.absent, n.g)],
        "DeleteGroups": [{"GroupsNames": [n.absent, n.c]}],
        "DeleteTopics": [{"TopicNames": [n.none, "not/legal"], "Topics": [{"Name": n.none, "TopicId": bytes(16)}, {"Name": None, "TopicId": UNKNOWN_ID}], "TimeoutMs": 5000}],
    }


def last(n):
    """What ends the conversation: it destroys what the others are about."""
    return [("DeleteGroups", 2, {"GroupsNames": [n.g]}),
            ("DeleteTopics", 6, {"Topics": [{"Name": None, "TopicId": n.id(n.a)}, {"Name": n.b, "TopicId": bytes(16)}], "TimeoutMs": 5000}),
            ("CreateTopics", 7, {"Topics": [{"Name": n.new, "NumPartitions": 1, "ReplicationFactor": 1, "Configs": [{"Name": "retention.ms", "Value": "9999"}]}], "timeoutMs": 5000}),
            ("Metadata", 12, {"Topics": [{"Name": f"{n.none}-auto", "TopicId": bytes(16)}], "AllowAutoTopicCreation": True})]
