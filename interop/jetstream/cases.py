"""What is asked: legal configurations, values at their bounds, each rule broken, and pairs of rules broken, which
shows the order in which they are checked."""

import itertools

NS = 1_000_000_000

# One broken rule each, to be combined: fields of a stream's configuration.
STREAM_FAULTS = [
    {"description": "x" * 4097},
    {"num_replicas": 6},
    {"num_replicas": -1},
    {"max_age": -1},
    {"max_age": 5},
    {"duplicate_window": -1},
    {"duplicate_window": 5},
    {"deny_purge": True, "allow_rollup_hdrs": True},
    {"allow_msg_counter": True, "discard": "new"},
    {"allow_msg_counter": True, "retention": "interest"},
    {"discard_new_per_subject": True},
    {"subject_delete_marker_ttl": 5},
    {"subject_delete_marker_ttl": -1},
    {"allow_msg_schedules": True, "discard": "new"},
    {"persist_mode": "async", "storage": "memory"},
    {"mirror": {"name": "O"}},
    {"sources": [{"name": "bad.name"}]},
    {"sources": [{"name": "O", "external": {"api": "$JS.API", "deliver": "d.*"}}]},
    {"subjects": ["a..b"]},
    {"subjects": ["$JS.API.>"]},
    {"subject_transform": {"src": "a", "dest": "b.$1"}},
    {"republish": {"src": "a.>", "dest": "a.>"}},
    {"placement": {"preferred": "n"}},
    {"num_replicas": 3},
]

STREAM_CASES = [
    {},
    {"subjects": []},
    {"subjects": None},
    {"description": "d" * 4096, "metadata": {"b": "1", "a": "2", "_nats.req.level": "9", "_nats.ver": "x"}},
    {"metadata": {"k": "v" * (128 * 1024)}},
    {"name": ""},
    {"name": "a.b"},
    {"name": "a b"},
    {"name": "a/b"},
    {"name": "n" * 256},
    {"name": "n" * 255},
    {"retention": "interest"},
    {"retention": "workqueue"},
    {"retention": "Limits"},
    {"retention": "x"},
    {"retention": 1},
    {"retention": None},
    {"discard": "NEW"},
    {"discard": "x"},
    {"storage": "memory"},
    {"storage": "disk"},
    {"compression": "s2"},
    {"compression": "gzip"},
    {"compression": 7},
    {"compression": None},
    {"persist_mode": "async"},
    {"persist_mode": "async", "allow_atomic": True},
    {"persist_mode": ""},
    {"persist_mode": "x"},
    {"max_msgs": 0, "max_bytes": -5, "max_msgs_per_subject": -7, "max_msg_size": -9, "max_consumers": -3},
    {"max_msgs": 10, "max_bytes": 1000, "max_msgs_per_subject": 3, "max_msg_size": 9, "max_consumers": 2},
    {"max_msg_size": 2147483647},
    {"max_msg_size": 2147483648},
    {"max_msgs": 9223372036854775808},
    {"max_msgs": 1.5},
    {"max_msgs": 1e3},
    {"max_msgs": "1"},
    {"max_msgs": True},
    {"max_msgs": {}},
    {"max_msgs": []},
    {"max_msgs": None},
    {"subjects": "a"},
    {"subjects": [1]},
    {"subjects": [None]},
    {"name": 1},
    {"sealed": "x"},
    {"metadata": {"a": 1}},
    {"metadata": []},
    {"metadata": {"a": None}},
    {"mirror": []},
    {"sources": {}},
    {"sources": [1]},
    {"sources": [None]},
    {"mirror": {"nam": "x"}},
    {"mirror": {"name": 1}},
    {"consumer_limits": {"max_ack_pending": "x"}},
    {"placement": {"tags": [1]}},
    {"unknown": 1},
    {"unknown": 1, "max_msgs": "x"},
    {"max_msgs": "x", "unknown": 1},
    {"max_age": "1h"},
    {"max_age": 100_000_000},
    {"max_age": 99_999_999},
    {"max_age": 60 * NS},
    {"max_age": 60 * NS, "duplicate_window": 61 * NS},
    {"max_age": 600 * NS},
    {"duplicate_window": 100_000_000},
    {"duplicate_window": 99_999_999},
    {"num_replicas": 0},
    {"num_replicas": 2},
    {"num_replicas": 5},
    {"no_ack": True},
    {"first_seq": 10},
    {"first_seq": -1},
    {"sealed": True},
    {"mirror_direct": True},
    {"allow_direct": True},
    {"deny_delete": True, "deny_purge": True},
    {"deny_purge": True, "subject_delete_marker_ttl": NS},
    {"allow_rollup_hdrs": True},
    {"discard": "new", "discard_new_per_subject": True, "max_msgs_per_subject": 1},
    {"discard": "new", "discard_new_per_subject": True},
    {"consumer_limits": {"inactive_threshold": 5, "max_ack_pending": 6}},
    {"allow_msg_ttl": True},
    {"subject_delete_marker_ttl": NS},
    {"subject_delete_marker_ttl": NS - 1},
    {"allow_msg_counter": True},
    {"allow_msg_counter": True, "allow_msg_ttl": True},
    {"allow_msg_counter": True, "allow_msg_schedules": True},
    {"allow_msg_schedules": True},
    {"allow_atomic": True},
    {"allow_batched": True},
    {"subjects": ["a", "a"]},
    {"subjects": ["a.*", "a.b"]},
    {"subjects": ["a.b", "a.>", "b"]},
    {"subjects": ["a b"]},
    {"subjects": [">"]},
    {"subjects": [">"], "no_ack": True},
    {"subjects": [">"], "no_ack": True, "num_replicas": 3},
    {"subjects": ["*"]},
    {"subjects": ["*.>"]},
    {"subjects": ["$JS.EVENT.ADVISORY.>"]},
    {"subjects": ["$SYS.ACCOUNT.>"]},
    {"subjects": ["$SYS.>"]},
    {"subjects": ["$NRG.x"]},
    {"subjects": ["$JSC.*"]},
    {"subjects": ["$JS.API.INFO"], "no_ack": True},
    {"subjects": ["foo.*.bar", "foo.>.x"]},
    {"subjects": ["o.x"]},
    {"subjects": ["o.>", "z"]},
    {"subject_transform": {"src": "a.*", "dest": "b.{{wildcard(1)}}"}},
    {"subject_transform": {"src": "", "dest": "b.>"}},
    {"subject_transform": {"src": "a..b", "dest": "b"}},
    {"subject_transform": {"src": "a", "dest": ""}},
    {"subject_transform": {"src": "a", "dest": "b..c"}},
    {"subject_transform": {"src": "a", "dest": "b c"}},
    {"subject_transform": {"src": "a", "dest": "b.>.c"}},
    {"subject_transform": {"src": "a.>", "dest": "b"}},
    {"subject_transform": {"src": "*", "dest": "{{foo(1)}}"}},
    {"subject_transform": {"src": "*", "dest": "{{partition()}}"}},
    {"subject_transform": {"src": "*", "dest": "{{partition(3)}}"}},
    {"subject_transform": {"src": "*", "dest": "{{partition(3,1,2)}}"}},
    {"subject_transform": {"src": "*", "dest": "{{Partition(99999999999)}}"}},
    {"subject_transform": {"src": "*", "dest": "{{PARTITION(1)}}"}},
    {"subject_transform": {"src": "*", "dest": "{{ SplitFromLeft ( 1 , 2 ) }}"}},
    {"subject_transform": {"src": "*", "dest": "{{splitFromRight(1)}}"}},
    {"subject_transform": {"src": "*", "dest": "{{sliceFromLeft(1,2,3)}}"}},
    {"subject_transform": {"src": "*", "dest": "{{sliceFromRight(a,2)}}"}},
    {"subject_transform": {"src": "*", "dest": "{{left(1,x)}}"}},
    {"subject_transform": {"src": "*", "dest": "{{right(1,2)}}.{{random(5)}}"}},
    {"subject_transform": {"src": "*", "dest": "{{split(1,-)}}"}},
    {"subject_transform": {"src": "*", "dest": "{{split(1,- )}}"}},
    {"subject_transform": {"src": "*", "dest": "{{random(1,2)}}"}},
    {"subject_transform": {"src": "*", "dest": "x.$2"}},
    {"subject_transform": {"src": "*", "dest": "x.$KV"}},
    {"subject_transform": {"src": "*", "dest": "x.*"}},
    {"subject_transform": {"source": "*"}},
    {"republish": {"dest": "b.>"}},
    {"republish": {"src": "a.>", "dest": "b.>", "headers_only": True}},
    {"republish": {"src": "a.*", "dest": "b.$2"}},
    {"republish": {"src": ">", "dest": ">"}},
    {"subjects": ["a.>"], "subject_transform": {"src": "a.>", "dest": "c.>"}, "republish": {"src": ">", "dest": ">"}},
    {"republish": {"src": "a.>"}},
    {"placement": {}},
    {"placement": {"cluster": "x"}},
    {"placement": {"cluster": "", "tags": []}},
    {"sources": [{"name": "O"}]},
    {"sources": [{"name": "O"}, {"name": "O"}]},
    {"sources": [{"name": "O", "filter_subject": "o.a"}, {"name": "O", "filter_subject": "o.b"}]},
    {"sources": [{"name": "O", "filter_subject": "a..b"}]},
    {"sources": [{"name": "O", "filter_subject": "o.a", "subject_transforms": [{"src": "a", "dest": "b"}]}]},
    {"sources": [{"name": "O", "subject_transforms": [{"src": "o.*", "dest": "x.$1"}, {"src": "o.a", "dest": ""}]}]},
    {"sources": [{"name": "O", "subject_transforms": [{"src": "a..", "dest": "x"}]}]},
    {"sources": [{"name": "O", "subject_transforms": [{"src": "a", "dest": "x.$1"}]}]},
    {"sources": [{"name": "O", "opt_start_seq": 3}]},
    {"sources": [{"name": "O", "opt_start_time": "2026-01-02T03:04:05.60+02:00"}]},
    {"sources": [{"name": "O", "opt_start_time": "yesterday"}]},
    {"sources": [{"name": "O", "opt_start_time": 5}]},
    {"sources": [{"name": "O", "opt_start_time": None}]},
    {"sources": [{"name": "O", "external": {"api": "$JS.x.API", "deliver": "d"}}]},
    {"sources": [{"name": "O", "external": {"api": "$JS.*.API", "deliver": ""}}]},
    {"sources": [{"name": "O", "consumer": {"name": "c"}}]},
    {"sources": [{"name": "O", "consumer": {"name": "c", "deliver_subject": "d"}}]},
    {"sources": [{"name": "S"}]},
    {"sources": [{"name": "M"}]},
    {"max_msg_size": 5, "sources": [{"name": "O"}]},
    {"subjects": None, "mirror": {"name": "O"}},
    {"subjects": None, "mirror": {"name": "O"}, "mirror_direct": True},
    {"subjects": None, "mirror": {"name": "X", "filter_subject": "a.*"}},
    {"subjects": None, "mirror": {"name": "O", "filter_subject": "a..b"}},
    {"subjects": None, "mirror": {"name": "O", "opt_start_seq": 2, "opt_start_time": "2026-01-02T03:04:05Z"}},
    {"subjects": None, "mirror": {"name": ""}},
    {"subjects": None, "mirror": {"name": "S"}},
    {"subjects": None, "mirror": {"name": "O"}, "first_seq": 5},
    {"subjects": None, "mirror": {"name": "O"}, "sources": [{"name": "O"}]},
    {"subjects": None, "mirror": {"name": "O"}, "allow_msg_counter": True},
    {"subjects": None, "mirror": {"name": "O"}, "allow_atomic": True},
    {"subjects": None, "mirror": {"name": "O"}, "allow_batched": True},
    {"subjects": None, "mirror": {"name": "O"}, "allow_msg_schedules": True},
    {"subjects": None, "mirror": {"name": "O"}, "subject_delete_marker_ttl": NS},
    {"subjects": None, "mirror": {"name": "O"}, "max_msg_size": 5},
    {"subjects": None, "mirror": {"name": "O", "filter_subject": "a", "subject_transforms": [{"src": "a", "dest": "b"}]}},
    {"subjects": None, "mirror": {"name": "O", "subject_transforms": [{"src": "a", "dest": "b"}, {"src": ">", "dest": ""}]}},
    {"subjects": None, "mirror": {"name": "O", "subject_transforms": [{"src": "a", "dest": "$1"}]}},
    {"subjects": None, "mirror": {"name": "O", "subject_transforms": [{"src": "..", "dest": ""}]}},
    {"subjects": None, "mirror": {"name": "O", "consumer": {"name": "c", "deliver_subject": "d.*"}}},
    {"subjects": None, "mirror": {"name": "O", "external": {"api": "$JS.API", "deliver": "d"}}},
    {"subjects": None, "mirror": {"name": "O", "external": {"api": "$JS.d.API", "deliver": "d.>"}}},
    {"sources": [{"name": "O"}], "allow_msg_schedules": True},
]

PEDANTIC = [
    {},
    {"max_msgs": -2},
    {"max_msgs": 0},
    {"max_bytes": -2},
    {"max_msgs_per_subject": -2},
    {"max_msg_size": -2},
    {"max_consumers": -2},
    {"max_age": NS},
    {"subject_delete_marker_ttl": NS},
    {"subject_delete_marker_ttl": NS, "allow_msg_ttl": True},
    {"allow_msg_schedules": True},
    {"republish": {"dest": "b.>"}},
    {"subjects": None, "mirror": {"name": "D"}},
    {"subjects": ["a.>"], "subject_transform": {"src": "a.>", "dest": "c.>"}, "republish": {"src": ">", "dest": ">"}},
]

BROKEN_JSON = [
    "", "{", "x", "[]", "null", '""', "1", "true", '{"name":"S"', '{"name":"S"} x', '{"name":"S"}{"max_msgs":5}',
    '{"name":}', "{name:1}", '{"name":"S",}', '{"name":"S" "a":1}', '{"name" "S"}', '{"name":"S"}\n\n ', '{"name":"\\x"}',
    '{"name":"S","max_msgs":01}', '{"name":"S","max_msgs":1.}', '{"name":"S","max_msgs":-}', '{"name":"S","max_msgs":1e}',
    '{"name":"S","a":tru}', '{"name":"S","a":nul}', '{"name":"S","a":fals}', '{"name":"S\n"}', '{"name":"\\u00zz"}',
    '{"NAME":"S","Subjects":["a"],"MAX_MSGS":5}', '{"name":"S","name":"T"}', '{"name":"S","\u017fubject\u017f":["k"]}',
    '{"name":"S","x\\"y":1}', '{"name":"S","max_msgs":1,"max_msgs":null}', '{"name":"\\u0053","description":"<&>\\ud83d\\ude00\\ud83d"}',
    '{"name":"S","metadata":{"a":"1"},"metadata":{"b":"2"}}', '{"pedantic":1,"name":"S"}', '{"name":"S","Pedantic":false}',
]

UPDATES = [
    {},
    {"name": "T"},
    {"description": "new"},
    {"storage": "memory"},
    {"retention": "interest"},
    {"retention": "workqueue"},
    {"sealed": True},
    {"sealed": True, "max_age": 60 * NS, "allow_rollup_hdrs": True},
    {"num_replicas": 3},
    {"subjects": ["b"]},
    {"subjects": ["o.x"]},
    {"max_msgs": 5, "max_bytes": 6, "max_age": NS, "max_msgs_per_subject": 7},
    {"discard": "new"},
    {"discard": "new", "discard_new_per_subject": True},
    {"allow_direct": True},
    {"mirror_direct": True},
    {"deny_delete": False},
    {"allow_msg_ttl": True},
    {"allow_msg_counter": True},
    {"allow_msg_schedules": True},
    {"persist_mode": "async"},
    {"allow_atomic": True},
    {"first_seq": 9},
    {"mirror": {"name": "O"}, "subjects": None},
    {"sources": [{"name": "O"}]},
    {"sources": [{"name": "O", "filter_subject": "a..b"}]},
    {"compression": "s2"},
    {"placement": {"cluster": "y"}},
    {"consumer_limits": {"max_ack_pending": 10}},
    {"consumer_limits": {"inactive_threshold": 10}},
    {"metadata": {"a": "b"}},
    {"duplicate_window": NS},
    {"republish": {"src": "a", "dest": "z"}},
    {"subject_transform": {"src": "a.*", "dest": "z.$1"}},
    {"subject_delete_marker_ttl": NS},
]

PLAIN = {"name": "S", "subjects": ["a.>"]}


def patched(base, *patches):
    config = dict(base)
    for patch in patches:
        config.update(patch)
    return {name: value for name, value in config.items() if value is not None or name not in ("subjects",)}


def origins(record):
    """Other streams: an origin, one with direct get, one that takes from S."""
    record.reset()
    record.ask("STREAM.CREATE.O", {"name": "O", "subjects": ["o.>"], "max_msg_size": 9})
    record.ask("STREAM.CREATE.D", {"name": "D", "subjects": ["d.>"], "allow_direct": True})
    record.ask("STREAM.CREATE.M", {"name": "M", "sources": [{"name": "S", "filter_subject": "a.x"}]})


def created(record, config, name=None):
    """Creates a stream, and deletes it again."""
    name = name or config.get("name", "S")
    if not isinstance(name, str) or "." in name or " " in name or not name:
        name = "S"
    answer = record.ask("STREAM.CREATE." + name, config)
    if answer and "error" not in answer:
        record.ask("STREAM.DELETE." + name, "")


def streams(record):
    origins(record)
    for case in STREAM_CASES:
        created(record, patched(PLAIN, case))
    for case in PEDANTIC:
        created(record, patched(PLAIN, case, {"pedantic": True}))
    for one, other in itertools.combinations(STREAM_FAULTS, 2):
        if not set(one) & set(other) and hash_of(repr((one, other))) % 4 < 3:
            created(record, patched(PLAIN, one, other))
    for text in BROKEN_JSON:
        record.ask("STREAM.CREATE.S", text)
        record.ask("STREAM.DELETE.S", "")
    record.ask("STREAM.CREATE.S", PLAIN)
    same = [
        {}, {"subjects": ["a.>"], "metadata": {"_nats.req.level": "7"}}, {"max_msgs": -1, "duplicate_window": 120 * NS},
        {"max_msgs": 5}, {"subjects": ["a.>", "q"]}, {"metadata": {"a": "b"}}, {"num_replicas": 1},
    ]
    for case in same:
        record.ask("STREAM.CREATE.S", patched(PLAIN, case))
    record.ask("STREAM.CREATE.T", PLAIN)
    record.ask("STREAM.CREATE.T", {"name": "T", "subjects": ["a.b"]})
    record.ask("STREAM.CREATE.O2", {"name": "O2", "subjects": ["x", "y"]})
    record.ask("STREAM.CREATE.O2", {"name": "O2", "subjects": ["y", "x"]})
    record.ask("STREAM.UPDATE.X", {"name": "X", "subjects": ["x.x"]})
    record.ask("STREAM.UPDATE.X", {"name": "Y"})
    bases = [
        {},
        {"deny_delete": True, "deny_purge": True, "allow_msg_ttl": True, "max_msgs_per_subject": 4},
        {"retention": "workqueue", "allow_msg_schedules": True},
        {"subjects": None, "mirror": {"name": "O"}},
    ]
    for base in bases:
        for case in UPDATES:
            config = patched(PLAIN, base)
            record.ask("STREAM.DELETE.S", "")
            record.ask("STREAM.CREATE.S", config)
            record.ask("STREAM.UPDATE.S", patched(config, case))
    record.ask("STREAM.DELETE.S", "")
    record.ask("STREAM.CREATE.S", PLAIN)
    record.ask("STREAM.UPDATE.S", patched(PLAIN, {"sealed": True}))
    record.ask("STREAM.UPDATE.S", PLAIN)
    record.ask("STREAM.UPDATE.S", patched(PLAIN, {"max_msgs": -3, "pedantic": True}))


CONSUMER_CASES = [
    {},
    {"name": "other"},
    {"durable_name": "C"},
    {"durable_name": "D"},
    {"description": "x" * 4097},
    {"deliver_policy": "last"}, {"deliver_policy": "new"}, {"deliver_policy": "undefined"}, {"deliver_policy": "x"},
    {"deliver_policy": "last_per_subject"},
    {"deliver_policy": "last_per_subject", "filter_subject": "a.>"},
    {"deliver_policy": "by_start_sequence"},
    {"deliver_policy": "by_start_sequence", "opt_start_seq": 5},
    {"deliver_policy": "by_start_sequence", "opt_start_seq": 5, "opt_start_time": "2026-01-01T00:00:00Z"},
    {"deliver_policy": "by_start_time"},
    {"deliver_policy": "by_start_time", "opt_start_time": "2026-01-01T00:00:00Z"},
    {"deliver_policy": "by_start_time", "opt_start_time": "2026-01-01T00:00:00+01:30", "opt_start_seq": 2},
    {"deliver_policy": "all", "opt_start_seq": 2}, {"deliver_policy": "last", "opt_start_seq": 2},
    {"deliver_policy": "new", "opt_start_time": "2026-01-01T00:00:00Z"},
    {"deliver_policy": "last_per_subject", "opt_start_seq": 2},
    {"ack_policy": "none"}, {"ack_policy": "all"}, {"ack_policy": "flow_control"}, {"ack_policy": "x"},
    {"ack_policy": None},
    {"ack_policy": "explicit", "ack_wait": 5}, {"ack_policy": "explicit", "ack_wait": -1},
    {"ack_policy": "explicit", "backoff": [5, 6]}, {"ack_policy": "explicit", "backoff": [5, 6], "max_deliver": 1},
    {"ack_policy": "explicit", "backoff": [5, 6], "max_deliver": 2}, {"backoff": [5, -6]}, {"backoff": ["1s"]},
    {"max_deliver": -5}, {"max_deliver": 3}, {"max_deliver": "3"},
    {"filter_subject": "a.b"}, {"filter_subject": "nothing.there"}, {"filter_subject": ">"}, {"filter_subject": "a..b"},
    {"filter_subjects": ["a.b", "a.c"]}, {"filter_subjects": ["a.b", "a.*"]}, {"filter_subjects": [""]},
    {"filter_subjects": ["a b"]}, {"filter_subjects": ["a.b"], "filter_subject": "a.c"}, {"filter_subjects": ["a.b", "a.b"]},
    {"replay_policy": "original"}, {"replay_policy": "x"},
    {"rate_limit_bps": 100}, {"sample_freq": "100%"}, {"sample_freq": "30"}, {"sample_freq": "x%"}, {"sample_freq": "-1"},
    {"sample_freq": "99999999999999999999"}, {"sample_freq": "%"},
    {"max_waiting": 5}, {"max_waiting": -5}, {"max_ack_pending": -7, "ack_policy": "explicit"}, {"max_ack_pending": 5},
    {"max_batch": -1, "max_expires": -1, "max_bytes": -1}, {"max_batch": 1, "max_expires": 1_000_000, "max_bytes": 1},
    {"max_expires": 5},
    {"flow_control": True}, {"idle_heartbeat": NS}, {"idle_heartbeat": -1}, {"headers_only": True},
    {"deliver_subject": "d.x"}, {"deliver_subject": "d.*"}, {"deliver_subject": "d..x"}, {"deliver_subject": "a.x"},
    {"deliver_subject": "d.x", "deliver_group": "g"}, {"deliver_subject": "d.x", "max_waiting": 5},
    {"deliver_subject": "d.x", "max_ack_pending": 5}, {"deliver_subject": "d.x", "idle_heartbeat": 5},
    {"deliver_subject": "d.x", "flow_control": True}, {"deliver_subject": "d.x", "flow_control": True, "idle_heartbeat": NS},
    {"deliver_subject": "d.x", "rate_limit_bps": 8000, "max_batch": 3},
    {"deliver_subject": "d.x", "ack_policy": "flow_control"},
    {"deliver_subject": "d.x", "ack_policy": "flow_control", "max_deliver": 3},
    {"deliver_subject": "d.x", "ack_policy": "flow_control", "ack_wait": 3},
    {"deliver_subject": "d.x", "ack_policy": "flow_control", "max_ack_pending": -1},
    {"inactive_threshold": 5 * NS}, {"inactive_threshold": -1},
    {"num_replicas": 1}, {"num_replicas": 2}, {"num_replicas": -1}, {"mem_storage": True},
    {"direct": True}, {"direct": True, "deliver_subject": "d.x", "durable_name": "C"},
    {"metadata": {"a": "b", "_nats.req.level": "5"}}, {"metadata": {"k": "v" * (128 * 1024)}},
    {"pause_until": "2099-01-01T00:00:00+01:00"}, {"pause_until": "2000-01-01T00:00:00Z"}, {"pause_until": "x"},
    {"priority_policy": "overflow"}, {"priority_policy": "overflow", "priority_groups": ["g"]},
    {"priority_policy": "pinned_client", "priority_groups": ["g", "h"]},
    {"priority_policy": "pinned_client", "priority_groups": ["g"], "priority_timeout": NS},
    {"priority_policy": "prioritized", "priority_groups": ["g"], "priority_timeout": -1},
    {"priority_policy": "overflow", "priority_groups": [""]}, {"priority_policy": "overflow", "priority_groups": ["a b"]},
    {"priority_policy": "overflow", "priority_groups": ["g" * 17]}, {"priority_groups": ["g"]}, {"priority_timeout": NS},
    {"priority_policy": "overflow", "priority_groups": ["g"], "deliver_subject": "d.x"}, {"priority_policy": "x"},
    {"priority_policy": "none"},
    {"unknown": 1}, {"Ack_Policy": "explicit"},
]

CONSUMER_FAULTS = [
    {"durable_name": "a>b", "name": ""},
    {"num_replicas": -1},
    {"backoff": [-1]},
    {"ack_wait": -1},
    {"backoff": [5, 6], "max_deliver": 1},
    {"description": "x" * 4097},
    {"deliver_subject": "d.*"},
    {"deliver_subject": "a.x"},
    {"deliver_subject": "d.x", "max_waiting": 5},
    {"rate_limit_bps": 5},
    {"idle_heartbeat": 5},
    {"flow_control": True},
    {"max_expires": 5},
    {"direct": True},
    {"filter_subject": "a..b"},
    {"filter_subjects": [""]},
    {"filter_subjects": ["a.*", "a.b"]},
    {"opt_start_seq": 3},
    {"sample_freq": "x"},
    {"priority_policy": "overflow"},
    {"priority_groups": ["g"]},
]

CONSUMER_UPDATES = [
    {}, {"description": "new"}, {"ack_policy": "all"}, {"deliver_policy": "new"}, {"mem_storage": True},
    {"replay_policy": "original"}, {"max_waiting": 7}, {"deliver_subject": "d.y"}, {"max_ack_pending": 7},
    {"ack_wait": 7 * NS}, {"backoff": [NS, 2 * NS], "max_deliver": 5}, {"max_deliver": 4}, {"filter_subject": "a.c"},
    {"filter_subject": "", "filter_subjects": ["a.c", "a.d"]}, {"sample_freq": "5"}, {"headers_only": True},
    {"inactive_threshold": 60 * NS}, {"max_batch": 3, "max_expires": NS, "max_bytes": 9}, {"metadata": {"x": "y"}},
    {"priority_policy": "overflow", "priority_groups": ["g"]}, {"pause_until": "2099-01-01T00:00:00Z"},
    {"num_replicas": 1}, {"opt_start_seq": 4}, {"deliver_policy": "by_start_sequence", "opt_start_seq": 4},
    {"flow_control": True}, {"idle_heartbeat": NS}, {"rate_limit_bps": 8}, {"deliver_group": "g"},
]


def consumer(record, config, name="C", **rest):
    body = {"stream_name": "S", "config": patched({"name": name} if name else {}, config)}
    body.update(rest)
    answer = record.ask("CONSUMER.CREATE.S" + ("." + name if name else ""), body)
    return answer


def consumers(record):
    record.reset()
    record.ask("STREAM.CREATE.S", PLAIN)

    def gone(answer, name="C"):
        if answer and "error" not in answer:
            record.ask("CONSUMER.DELETE.S." + name, "")

    for case in CONSUMER_CASES:
        gone(consumer(record, case))
    for one, other in itertools.combinations(CONSUMER_FAULTS, 2):
        if not set(one) & set(other):
            gone(consumer(record, patched(one, other)))
    pedantic = [
        {}, {"max_deliver": -2}, {"max_waiting": -1}, {"max_ack_pending": -2}, {"max_batch": -1}, {"max_expires": -1},
        {"max_bytes": -1}, {"idle_heartbeat": -1}, {"inactive_threshold": -1}, {"priority_timeout": -1},
        {"backoff": [5], "ack_wait": 6}, {"backoff": [5], "ack_wait": 5},
        {"ack_policy": "flow_control", "deliver_subject": "d.x"},
    ]
    for case in pedantic:
        gone(consumer(record, case, pedantic=True))
    forms(record)
    for base in [{"ack_policy": "explicit", "filter_subject": "a.b", "durable_name": "C"}, {"deliver_subject": "d.x"}]:
        for case in CONSUMER_UPDATES:
            consumer(record, base)
            gone(consumer(record, patched(base, case)))
    base = {"ack_policy": "explicit"}
    consumer(record, base, action="update")
    consumer(record, base, action="create")
    consumer(record, base, action="create")
    consumer(record, patched(base, {"description": "x"}), action="create")
    consumer(record, patched(base, {"description": "x"}), action="update")
    consumer(record, base, action="x")
    record.ask("CONSUMER.INFO.S.C", "")
    work_queue(record)
    limited(record)


def forms(record):
    """The subjects that create consumers, and bodies that do not fit them."""
    body = {"stream_name": "S", "config": {}}
    record.ask("CONSUMER.CREATE.S", {"stream_name": "T", "config": {}})
    record.ask("CONSUMER.CREATE.X", {"stream_name": "X", "config": {}})
    record.ask("CONSUMER.CREATE.S", {"stream_name": "S", "config": {"durable_name": "C"}})
    record.ask("CONSUMER.CREATE.S", {"stream_name": "S", "config": {"name": "a/b"}})
    record.ask("CONSUMER.CREATE.S.a\\b", body)
    record.ask("CONSUMER.CREATE.S.C", {"stream_name": "S", "config": {"durable_name": "D"}})
    record.ask("CONSUMER.CREATE.S.C.a.b", {"stream_name": "S", "config": {"filter_subject": "a.c"}})
    record.ask("CONSUMER.CREATE.S.C.a.b", {"stream_name": "S", "config": {"filter_subjects": ["a.b"]}})
    record.ask("CONSUMER.CREATE.S.C.a.b", body)
    record.ask("CONSUMER.CREATE.S.C.a.b", {"stream_name": "S", "config": {"filter_subject": "a.b"}})
    record.ask("CONSUMER.DELETE.S.C", "")
    record.ask("CONSUMER.DURABLE.CREATE.S.C", body)
    record.ask("CONSUMER.DURABLE.CREATE.S.C", {"stream_name": "S", "config": {"durable_name": "D"}})
    record.ask("CONSUMER.DURABLE.CREATE.S.C", {"stream_name": "S", "config": {"durable_name": "C", "name": "x"}})
    record.ask("CONSUMER.DELETE.S.C", "")
    record.ask("CONSUMER.CREATE.S.C", {"stream_name": "S", "config": {"num_replicas": 3}})
    for text in ["", "{", "[]", '{"stream_name":"S","config":{"x":1}}', '{"stream_name":"S","config":{"max_deliver":"x"}}',
                 '{"stream_name":"S","x":1}', '{"stream_name":"S","config":1}', '{"stream_name":"S","action":1}']:
        record.ask("CONSUMER.CREATE.S.C", text)
    answer = record.ask("CONSUMER.CREATE.S", body)
    record.reset()
    record.ask("STREAM.CREATE.S", PLAIN)
    return answer


def work_queue(record):
    explicit = {"ack_policy": "explicit"}
    for retention in ["workqueue", "interest"]:
        record.reset()
        record.ask("STREAM.CREATE.S", patched(PLAIN, {"retention": retention, "max_consumers": 4}))
        consumer(record, {}, "N")
        consumer(record, {"deliver_subject": "d.x"}, "P")
        consumer(record, {"ack_policy": "all"}, "L")
        consumer(record, patched(explicit, {"deliver_policy": "new"}), "W")
        consumer(record, patched(explicit, {"num_replicas": 3}), "R")
        consumer(record, patched(explicit, {"filter_subject": "a.b"}), "A")
        consumer(record, explicit, "B")
        consumer(record, patched(explicit, {"filter_subject": "a.*"}), "B")
        consumer(record, patched(explicit, {"filter_subject": "a.c"}), "B")
        consumer(record, patched(explicit, {"filter_subject": "a.b"}), "B")
        consumer(record, patched(explicit, {"filter_subjects": ["a.d", "a.e"]}), "M")
        consumer(record, patched(explicit, {"filter_subject": "a.f"}), "E")
        consumer(record, patched(explicit, {"filter_subject": "a.g"}), "F")
        record.ask("CONSUMER.NAMES.S", "")
    record.reset()
    record.ask("STREAM.CREATE.S", patched(PLAIN, {"retention": "workqueue"}))
    consumer(record, explicit, "A")
    consumer(record, explicit, "B")
    consumer(record, patched(explicit, {"filter_subject": "a.b"}), "B")


def limited(record):
    """A stream that bounds its consumers."""
    record.reset()
    limits = {"consumer_limits": {"max_ack_pending": 10, "inactive_threshold": 10 * NS}}
    record.ask("STREAM.CREATE.S", patched(PLAIN, limits))
    cases = [{}, {"max_ack_pending": 11}, {"max_ack_pending": 5}, {"inactive_threshold": 11 * NS},
             {"inactive_threshold": 5 * NS}, {"ack_policy": "explicit"}]
    for case in cases:
        consumer(record, case)
        consumer(record, case, pedantic=True)
        record.ask("CONSUMER.DELETE.S.C", "")
    consumer(record, {"ack_policy": "explicit"})
    record.ask("STREAM.UPDATE.S", patched(PLAIN, {"consumer_limits": {"max_ack_pending": 5}}))
    record.ask("STREAM.UPDATE.S", patched(PLAIN, {"consumer_limits": {"inactive_threshold": 5 * NS}}))
    record.ask("STREAM.UPDATE.S", patched(PLAIN, {"consumer_limits": {"max_ack_pending": 20}}))


def apis(record):
    """Requests that carry no configuration, on streams without messages."""
    record.reset()
    for suffix in ["STREAM.NAMES", "STREAM.LIST"]:
        for body in ["", "{}", "x", '{"offset":5}', '{"offset":-5}', '{"offset":"x"}', '{"x":1}', '{"subject":"b"}', "[]"]:
            record.ask(suffix, body)
    record.ask("STREAM.CREATE.S", PLAIN)
    record.ask("STREAM.CREATE.B", {"name": "B", "subjects": ["b", "c.*"], "first_seq": 8})
    for suffix in ["STREAM.NAMES", "STREAM.LIST"]:
        for body in ["", '{"offset":1}', '{"offset":9}', '{"subject":"b"}', '{"subject":"a.*"}', '{"subject":"c.>"}', '{"subject":"z"}']:
            record.ask(suffix, body)
    every = ["", "{}", "{ }", "x", "{", "[]", "null", '{"x":1}', '{"X":1}', '{"offset":1}', '{"seq":1}', '{"seq":-1}', '{"seq":"1"}',
             '{"keep":1}', '{"seq":1,"keep":1}', '{"filter":"a.b"}', '{"deleted_details":true}', '{"subjects_filter":">"}',
             '{"subjects_filter":">","offset":1}', '{"no_erase":true}', '{"seq":5,"no_erase":true}', '{"last_by_subj":"a.b"}',
             '{"next_by_subj":"a.b"}', '{"seq":1,"last_by_subj":"a"}', '{"seq":1,"next_by_subj":"a"}', '{"batch":3}', '{"seq":1,"batch":3}',
             '{"last_by_subj":"a","next_by_subj":"b"}', '{"start_time":"2026-01-01T00:00:00Z"}', '{"start_time":"x"}', '{"no_hdr":true}',
             '{"seq":1,"start_time":"2026-01-01T00:00:00Z"}', '{"max_bytes":5,"seq":1}', '{"multi_last":["a"]}', '{"group":"g"}',
             '{"group":"a b"}', '{"group":""}']
    record.ask("CONSUMER.CREATE.S.C", {"stream_name": "S", "config": {"ack_policy": "explicit"}})
    verbs = ["STREAM.INFO.S", "STREAM.PURGE.S", "STREAM.MSG.GET.S", "STREAM.MSG.DELETE.S", "CONSUMER.NAMES.S", "CONSUMER.LIST.S",
             "CONSUMER.INFO.S.C", "CONSUMER.UNPIN.S.C"]
    for verb in verbs:
        for body in every:
            record.ask(verb, body)
    missing = ["STREAM.INFO.X", "STREAM.PURGE.X", "STREAM.DELETE.X", "CONSUMER.NAMES.X", "CONSUMER.LIST.X", "CONSUMER.INFO.X.C",
               "CONSUMER.INFO.S.X", "CONSUMER.DELETE.X.C", "CONSUMER.DELETE.S.X", "CONSUMER.PAUSE.S.X", "CONSUMER.PAUSE.X.C"]
    for verb in missing:
        record.ask(verb, "")
    record.ask("STREAM.MSG.GET.X", '{"seq":1}')
    record.ask("STREAM.MSG.DELETE.X", '{"seq":1}')
    record.ask("STREAM.DELETE.S", '{"x":1}')
    record.ask("CONSUMER.DELETE.S.C", "x")
    pauses = ["", "{}", '{"pause_until":"2099-01-01T00:00:00+02:00"}', '{"pause_until":"2000-01-01T00:00:00Z"}',
              '{"pause_until":"x"}', '{"x":1}', '{"pause_until":null}', '{"pause_until":5}', "x"]
    for body in pauses:
        record.ask("CONSUMER.PAUSE.S.C", body)
        record.ask("CONSUMER.INFO.S.C", "")
    for level in ["5", "6", "x", "-1", ""]:
        record.ask("STREAM.NAMES", "", "NATS/1.0\r\nNats-Required-Api-Level: %s\r\n\r\n" % level)
    record.ask("STREAM.UPDATE.S", patched(PLAIN, {"deny_delete": True, "deny_purge": True}))
    record.ask("STREAM.PURGE.S", "")
    record.ask("STREAM.MSG.DELETE.S", '{"seq":1}')
    record.ask("STREAM.UPDATE.S", patched(PLAIN, {"sealed": True, "deny_delete": True, "deny_purge": True}))
    record.ask("STREAM.PURGE.S", "")
    record.ask("STREAM.MSG.DELETE.S", '{"seq":1}')


# Without Nats-Expected-Last-Msg-Id: a stream of nats-server 2.15.2 with three replicas that refuses one says
# nothing to what is published after it.
HEADERS = [
    "Nats-Expected-Stream: S", "Nats-Expected-Stream: X", "Nats-Expected-Last-Sequence: 0", "Nats-Expected-Last-Sequence: 99",
    "Nats-Expected-Last-Sequence: x", "Nats-Expected-Last-Sequence: -1", "Nats-Expected-Last-Subject-Sequence: 0",
    "Nats-Expected-Last-Subject-Sequence: 7", "Nats-Expected-Last-Subject-Sequence-Subject: a.>",
    "Nats-Rollup: sub", "Nats-Rollup: SUB", "Nats-Rollup: all", "Nats-Rollup: x", "Nats-TTL: 5",
    "Nats-TTL: 0", "Nats-TTL: 0s", "Nats-TTL: 500ms", "Nats-TTL: 1s", "Nats-TTL: 1h30m", "Nats-TTL: never", "Nats-TTL: abc",
    "Nats-TTL: -1", "Nats-Incr: 1", "Nats-Incr: x", "Nats-Schedule: @at 2099-01-01T00:00:00Z", "Nats-Schedule: x", "Nats-Schedule-Next: purge",
    "Nats-Scheduler: a.s", "Nats-Stream-Source: X 1", "Nats-Msg-Id: first", "nats-msg-id: first", "Nats-Msg-Id:    first",
    "Nats-Schedule-Time-Zone: Nowhere/Land", "Nats-Schedule-Time-Zone: ", "NoColon", "X: Nats-Msg-Id: first",
]

SCHEDULES = [
    ["Nats-Schedule: @every 1h"], ["Nats-Schedule: @every 1h", "Nats-Schedule-Target: a.t"],
    ["Nats-Schedule: @every 500ms", "Nats-Schedule-Target: a.t"], ["Nats-Schedule: @daily", "Nats-Schedule-Target: a.s"],
    ["Nats-Schedule: @daily", "Nats-Schedule-Target: z.t"], ["Nats-Schedule: @daily", "Nats-Schedule-Target: a.*"],
    ["Nats-Schedule: 0 0 0 30 2 *", "Nats-Schedule-Target: a.t"], ["Nats-Schedule: 0 0 0 1 1 *", "Nats-Schedule-Target: a.t"],
    ["Nats-Schedule: @daily", "Nats-Schedule-Target: a.t", "Nats-Schedule-Source: a.t"],
    ["Nats-Schedule: @daily", "Nats-Schedule-Target: a.t", "Nats-Schedule-Source: a.u"],
    ["Nats-Schedule: @daily", "Nats-Schedule-Target: a.t", "Nats-Schedule-Source: z.u"],
    ["Nats-Schedule: @daily", "Nats-Schedule-Target: a.t", "Nats-Schedule-TTL: x"],
    ["Nats-Schedule: @daily", "Nats-Schedule-Target: a.t", "Nats-Schedule-TTL: 5"],
    ["Nats-Schedule: @daily", "Nats-Schedule-Target: a.t", "Nats-Schedule-Rollup: all"],
    ["Nats-Schedule: @daily", "Nats-Schedule-Target: a.t", "Nats-Schedule-Rollup: sub"],
    ["Nats-Schedule: @daily", "Nats-Schedule-Target: a.t", "Nats-Rollup: all"],
    ["Nats-Schedule: @daily", "Nats-Schedule-Target: a.t", "Nats-Rollup: sub"],
    ["Nats-Schedule: @daily", "Nats-Schedule-Target: a.t", "Nats-Schedule-Time-Zone: Europe/Berlin"],
    ["Nats-Schedule: @at 2099-01-01T00:00:00Z", "Nats-Schedule-Target: a.t", "Nats-Schedule-Time-Zone: Europe/Berlin"],
    ["Nats-Schedule: @every 5s", "Nats-Schedule-Target: a.t", "Nats-Schedule-Time-Zone: Europe/Berlin"],
    ["Nats-Schedule-Next: purge"], ["Nats-Schedule-Next: purge", "Nats-Scheduler: a.x"],
    ["Nats-Schedule-Next: purge", "Nats-Scheduler: a.s"], ["Nats-Schedule-Next: x", "Nats-Scheduler: a.x"],
    ["Nats-Schedule-Next: purge", "Nats-Scheduler: a.none"], ["Nats-Schedule-Next: purge", "Nats-Scheduler: a.*"],
]


def block(lines):
    return "".join(line + "\r\n" for line in lines)


def publishes(record):
    """Publishing to streams with three replicas: the order of checks of a cluster."""
    base = {"name": "S", "subjects": ["a.>"], "num_replicas": 3, "storage": "memory"}
    variants = [
        {},
        {"allow_msg_ttl": True, "allow_rollup_hdrs": True, "allow_msg_schedules": True},
    ]
    for variant in variants:
        record.reset()
        record.ask("STREAM.CREATE.S", patched(base, variant))
        record.publish("a.x", block(["Nats-Msg-Id: first"]), "hello")
        for header in HEADERS:
            record.publish("a.s", block([header]), "x")
        for lines in SCHEDULES:
            record.publish("a.s", block(lines), "x")
        for one, other in itertools.combinations(HEADERS, 2):
            if one.split(":")[0] != other.split(":")[0] and hash_of(one + other) % 3 == 0:
                record.publish("a.s", block([one, other]), "")
    limits(record, base)
    counters(record, base)


def hash_of(text):
    value = 0
    for byte in text.encode():
        value = (value * 31 + byte) % 1_000_003
    return value


def limits(record, base):
    record.reset()
    record.ask("STREAM.CREATE.S", patched(base, {"max_msgs": 2, "discard": "new", "max_msg_size": 40}))
    for payload in ["1", "x" * 41, "2", "3"]:
        record.publish("a.x", "", payload)
    record.publish("a.x", block(["Nats-Msg-Id: 0123456789012345678901234567"]), "")
    record.reset()
    record.ask("STREAM.CREATE.S", patched(base, {"max_bytes": 60, "discard": "new"}))
    for payload in ["1", "2", "3", "4"]:
        record.publish("a.x", "", payload)
    record.reset()
    per_subject = {"max_msgs_per_subject": 1, "discard": "new", "discard_new_per_subject": True, "allow_rollup_hdrs": True}
    record.ask("STREAM.CREATE.S", patched(base, per_subject))
    for subject in ["a.x", "a.x", "a.y"]:
        record.publish(subject, "", "1")
    record.publish("a.x", block(["Nats-Rollup: sub"]), "1")
    record.reset()
    record.ask("STREAM.CREATE.S", patched(base, {"max_msgs_per_subject": 1, "discard": "new"}))
    for subject in ["a.x", "a.x", "a.y"]:
        record.publish(subject, "", "1")
    record.reset()
    record.ask("STREAM.CREATE.S", patched(base, {"retention": "interest"}))
    record.publish("a.x", block(["Nats-Msg-Id: i"]), "1")
    record.publish("a.x", block(["Nats-Msg-Id: i"]), "1")
    record.publish("a.x", block(["Nats-Expected-Last-Sequence: 1"]), "1")
    record.reset()
    record.ask("STREAM.CREATE.S", patched(base, {"subject_transform": {"src": "a.*", "dest": "b.$1"}}))
    record.publish("a.x", "", "1")
    record.publish("a.x", block(["Nats-Expected-Last-Subject-Sequence: 1"]), "1")
    record.publish("a.x", block(["Nats-Expected-Last-Subject-Sequence: 0", "Nats-Expected-Last-Subject-Sequence-Subject: a.x"]), "1")
    record.publish("a.x", block(["Nats-Expected-Last-Subject-Sequence: 3", "Nats-Expected-Last-Subject-Sequence-Subject: b.*"]), "1")


def counters(record, base):
    record.reset()
    record.ask("STREAM.CREATE.S", patched(base, {"allow_msg_counter": True, "allow_rollup_hdrs": True}))
    for value in ["1", "+2", "-10", "99999999999999999999999999", "x", "", "1.5"]:
        record.publish("a.x", block(["Nats-Incr: " + value]))
    record.publish("a.x", block(["Nats-Incr: 1"]), "payload")
    record.publish("a.x", "", "payload")
    for other in ["Nats-Rollup: sub", "Nats-Expected-Stream: S", "Nats-Expected-Last-Sequence: 1", "Nats-TTL: 5", "Nats-Msg-Id: c"]:
        record.publish("a.x", block(["Nats-Incr: 1", other]))
    record.publish("a.x", block(["Nats-Incr: 1", "Nats-Msg-Id: c"]))
