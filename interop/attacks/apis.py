"""The table of all APIs and verbs that the sweep goes through. A new one that ApiVersions names, or that the
parser of NATS knows, must be entered here: a cell fails until it is. Usually `{}` is enough: fields, versions
and arrays are read from the definitions.

`versions`: the last one by default; one more if another version has other arrays, or takes another path.
`values`: values of fields for which the usual value (`VALUES`) would be refused before the array is looked
at; a list is an array as it is.
`before`: what exists when the request comes, by a name in sweep.py's `BEFORE`; it yields values, too.
"""
import payloads
from measure import TOPIC
from wire import MARK, MARK_INT32, MARK_INT64

# Makes a name that no other request has.
UNIQUE = "unique"
# Values of fields by name, if they differ from the default of the definition.
VALUES = {
    "Topic": TOPIC, "TopicName": TOPIC, "Name": TOPIC, "ResourceName": TOPIC, "TopicNames": TOPIC, "SubscribedTopicNames": TOPIC,
    "GroupId": "sweep", "Group": "sweep", "GroupIds": "sweep", "Groups": "sweep", "GroupsNames": "sweep",
    "TransactionalId": "sweep", "TransactionalIds": "sweep", "V3AndBelowTransactionalId": "sweep",
    "MemberId": "sweep", "ProtocolType": "consumer", "ProtocolName": "range",
    "ResourceType": 2, "SessionTimeoutMs": 10_000, "RebalanceTimeoutMs": 10_000, "TimeoutMs": 1000, "timeoutMs": 1000, "TransactionTimeoutMs": 10_000,
    "MaxWaitMs": 100, "MinBytes": 1, "MaxBytes": 1 << 20, "PartitionMaxBytes": 1 << 20, "MaxRecords": 500, "BatchSize": 100,
    # Requests with a lasting effect only validate.
    "validateOnly": True, "ValidateOnly": True, "DryRun": True, "AllowAutoTopicCreation": False,
    "NumPartitions": 1, "ReplicationFactor": 1, "Count": 2, "Timestamp": -1, "ResponsePartitionLimit": 2000, "EndpointType": 1,
    "StatesFilter": "Stable", "StateFilters": "Ongoing", "TypesFilter": "classic", "EntityType": "user", "Feature": "metadata.version",
    "GenerationIdOrMemberEpoch": -1, "GenerationId": -1, "ProducerId": 1, "Acks": 1, "ClientSoftwareName": "sweep", "ClientSoftwareVersion": "1",
}
# Values for arrays in which every item differs: marks are numbered. Names of things that do not exist have
# another cost than names of things that do.
DISTINCT = {**VALUES, **{name: MARK for name, value in VALUES.items() if value in (TOPIC, "sweep")},
            "PartitionIndex": MARK_INT32, "Partition": MARK_INT32, "Index": MARK_INT32, "PartitionIndexes": MARK_INT32, "Partitions": MARK_INT32,
            "TopicId": MARK.encode() * 2, "ProducerId": MARK_INT64, "Host": MARK, "User": MARK, "Key": MARK, "CoordinatorKeys": MARK}

KAFKA = {
    "Produce": {"versions": (9, 13)},
    "Fetch": {"versions": (4, 12, 18)},
    "ListOffsets": {"versions": (1, 11)},
    "Metadata": {"versions": (9, 13)},
    "OffsetCommit": {"versions": (2, 10), "values": {"GroupId": UNIQUE}},
    "OffsetFetch": {"versions": (7, 10)},
    "FindCoordinator": {},
    "JoinGroup": {"versions": (3, 9), "values": {"MemberId": "", "GroupId": UNIQUE}},
    "Heartbeat": {},
    "LeaveGroup": {"values": {"GroupId": "sweep"}},
    "SyncGroup": {"versions": (3, 5), "before": "member"},
    "DescribeGroups": {},
    "ListGroups": {},
    "ApiVersions": {},
    "CreateTopics": {"values": {"Assignments": [], "Configs": []}},
    "DeleteTopics": {"versions": (5, 6), "values": {"TopicId": bytes(16)}},
    "DeleteRecords": {},
    "InitProducerId": {"versions": (5,)},
    "OffsetForLeaderEpoch": {},
    "AddPartitionsToTxn": {"versions": (3, 5), "before": "transaction"},
    "AddOffsetsToTxn": {"before": "transaction"},
    "EndTxn": {"before": "transaction"},
    "WriteTxnMarkers": {},
    "TxnOffsetCommit": {"before": "transaction"},
    "SaslHandshake": {},
    "SaslAuthenticate": {},
    "DescribeAcls": {},
    "CreateAcls": {},
    "DeleteAcls": {},
    "DescribeConfigs": {},
    "AlterConfigs": {},
    "DescribeLogDirs": {},
    "CreatePartitions": {},
    "CreateDelegationToken": {},
    "RenewDelegationToken": {},
    "ExpireDelegationToken": {},
    "DescribeDelegationToken": {},
    "DeleteGroups": {},
    "ElectLeaders": {},
    "IncrementalAlterConfigs": {},
    "AlterPartitionReassignments": {},
    "ListPartitionReassignments": {},
    "OffsetDelete": {"before": "committed"},
    "DescribeClientQuotas": {},
    "AlterClientQuotas": {},
    "DescribeUserScramCredentials": {},
    "AlterUserScramCredentials": {},
    "DescribeQuorum": {"values": {"TopicName": "__cluster_metadata"}},
    "UpdateFeatures": {},
    "DescribeCluster": {},
    "DescribeProducers": {},
    "UnregisterBroker": {"values": {"BrokerId": 99}},
    "DescribeTransactions": {},
    "ListTransactions": {"values": {"DurationFilter": -1}},
    "ConsumerGroupHeartbeat": {"values": {"TopicPartitions": [], "GroupId": UNIQUE}},
    "ConsumerGroupDescribe": {},
    "ListConfigResources": {"values": {"ResourceTypes": 2}},
    "DescribeTopicPartitions": {},
    "ShareGroupHeartbeat": {"values": {"GroupId": UNIQUE}},
    "ShareGroupDescribe": {},
    "ShareFetch": {"before": "sharer", "values": {"AcknowledgementBatches": []}},
    "ShareAcknowledge": {"before": "sharer"},
    "DescribeShareGroupOffsets": {},
    "AlterShareGroupOffsets": {"before": "shared"},
    "DeleteShareGroupOffsets": {"before": "shared"},
}

# The items repeated for each verb of NATS, as lines with a number in them, by the verbs' names in the parser
# (crates/nats-wire/src/client_op.rs). `before` is sent once; `payload` makes the items larger.
NATS = {
    "CONNECT": {"small": b'CONNECT {"verbose":false,"headers":true,"no_responders":true,"name":"########"}\r\n',
                "nested": b'CONNECT {"jwt":' + b"[" * 2000 + b"]" * 2000 + b"}\r\n",
                "verbose": b'CONNECT {"verbose":true}\r\n'},
    "PUB": {"nobody": b"PUB nobody 0\r\n\r\n", "another subject each": b"PUB sweep.######## 0\r\n\r\n", "with a reply": b"PUB nobody reply 0\r\n\r\n",
            "to itself": (b"SUB self 1\r\n", b"PUB self 0\r\n\r\n"), "to a thousand": (b"".join(b"SUB many %d\r\n" % n for n in range(1000)), b"PUB many 0\r\n\r\n"),
            "to a queue of a thousand": (b"".join(b"SUB many q %d\r\n" % n for n in range(1000)), b"PUB many 0\r\n\r\n"),
            "many words": b"PUB " + b"a." * 1000 + b"######## 0\r\n\r\n"},
    "HPUB": {"nobody": b"HPUB nobody 12 12\r\nNATS/1.0\r\n\r\n\r\n",
             "many headers": b"HPUB nobody %d %d\r\nNATS/1.0\r\n" % (12 + 50_000 * 5, 12 + 50_000 * 5) + b"a:b\r\n" * 50_000 + b"\r\n\r\n"},
    "SUB": {"same": b"SUB same ########\r\n", "another each": b"SUB sweep.######## ########\r\n", "wildcards": b"SUB *.########.> ########\r\n",
            "queues": b"SUB same ######## ########\r\n", "the same again": b"SUB same 1\r\n", "many words": b"SUB " + b"*." * 120 + b"######## ########\r\n",
            "words up to the line's limit": b"SUB " + b"*." * 2000 + b"######## ########\r\n",
            "illegal": b"SUB a..b ########\r\n"},
    "UNSUB": {"unknown": b"UNSUB ########\r\n", "there and gone": b"SUB gone 1\r\nUNSUB 1\r\n", "with a limit": b"SUB limited ########\r\nUNSUB ######## 5\r\n"},
    "PING": {"same": b"PING\r\n"},
    "PONG": {"same": b"PONG\r\n"},
    "+OK": {"same": b"+OK\r\n"},
    "INFO": {"same": b"INFO {}\r\n"},
    "-ERR": {"same": b"-ERR 'no'\r\n"},
}

# Frames of WebSocket. Functions make those that inflate.
WEBSOCKET = {
    "messages that inflate": payloads.deflated,
    "one byte each": b"".join(payloads.websocket_frame(bytes([byte])) for byte in b"PING\r\n"),
    "blocks that inflate to nothing": payloads.blocks_of_nothing(),
    "messages that inflate to nothing": payloads.websocket_frame(b"\0", 0xC2),
    "empty": payloads.websocket_frame(b""),
    "pings": payloads.websocket_frame(b"", 0x89),
    "pongs": payloads.websocket_frame(b"", 0x8A),
}

# Every page that `/` lists, and its queries.
HTTP = {
    **{path: ("",) for path in ("/healthz", "/metrics", "/clusterz", "/varz", "/routez", "/gatewayz", "/leafz", "/accountz", "/accstatz", "/jsz", "/stacksz",
                                "/ipqueuesz")},
    "/connz": ("", "?subs=detail&limit=1000000"),
    "/subsz": ("", "?subs=1&limit=1000000", "?subs=1&test=page.1.x"),
    "/subscriptionsz": ("?subs=1&limit=1000000",),
}
