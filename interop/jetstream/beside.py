#!/usr/bin/env python3
"""Asks tailrace and nats-server the same about JetStream's API, and compares the answers field by field.

    NATS_SERVER=/path/to/nats-server TAILRACE_BIN=/path/to/tailrace ./beside.py [AREA ...] [--seed N] [--messages N]

Areas are streams, apis, messages, consumers and deliveries, and publish, which has to be named. It sends random
messages with random headers, sound and hostile ones, into streams with every rule. There the real side has three
nodes: a single nats-server checks in another order.

nats-server 2.15.2 is what docs/jetstream.md names. Whatever differs is printed, unless DIFFERENCES has it with
its reason. What tailrace refuses because it is not there yet is counted: the stream is then deleted at both, so
that they stay alike.
"""

import collections
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time

from cases import apis, consumers, streams
from deliveries import deliveries
from record import parse
from server import Cluster, Connection, Single, free_ports

NOT_YET = "not supported yet"

# What differs, and why: the request, the codes of the errors of both (0 for none), the reason.
DIFFERENCES = [
    (r"STREAM\.PURGE\..*", None, {10110}, "purging by subject, or beyond the end, is not there yet"),
    (r"STREAM\.MSG\.DELETE\..*", None, {10057}, "deleting messages is not there yet"),
    (r"CONSUMER\.(UNPIN|RESET)\..*", None, {10012}, "unpinning and resetting are not there yet"),
    (r"STREAM\.(CREATE|UPDATE)\..*", None, {10052}, "names and subjects that no topic can have"),
]
CAPTURE = re.compile("tailrace.subjects|subjects with a comma|stream name is too long, or differs")


class Tailrace:
    """One server of ours."""

    def __init__(self, binary):
        self.binary, self.folder = binary, tempfile.mkdtemp()

    def __enter__(self):
        kafka, nats, http = free_ports(3)
        log = open(os.path.join(self.folder, "log"), "w")
        addresses = ["--kafka", "127.0.0.1:%d" % kafka, "--nats", "127.0.0.1:%d" % nats, "--http", "127.0.0.1:%d" % http]
        settings = ["--set", "tailrace.jetstream.enable=true", "--set", "tailrace.disk.free.warning.bytes=0"]
        command = [self.binary, "serve", "--data-dir", os.path.join(self.folder, "data")] + addresses + settings
        self.process = subprocess.Popen(command, stdout=log, stderr=log)
        deadline = time.monotonic() + 30
        while True:
            try:
                return Connection(nats)
            except OSError:
                if time.monotonic() > deadline or self.process.poll() is not None:
                    raise RuntimeError("tailrace did not start: " + open(log.name).read())
                time.sleep(0.1)

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(timeout=60)
        shutil.rmtree(self.folder, ignore_errors=True)


def timeless(value):
    """Without the times of the last delivery and the last acknowledgement, and what is left of a pause."""
    if isinstance(value, dict):
        times = ("last_active", "pause_remaining")
        return {name: "T" if name in times else timeless(inner) for name, inner in value.items()}
    return [timeless(inner) for inner in value] if isinstance(value, list) else value


def plain(answer):
    """What counts of an answer. Beside an error nats-server also writes empty fields."""
    answer = timeless(answer)
    if isinstance(answer, str):
        return re.sub(r"Nats-Time-Stamp: \S+", "Nats-Time-Stamp: T", answer)
    if isinstance(answer, dict) and "error" in answer:
        return {"type": answer.get("type"), "error": answer["error"]}
    return answer


def code(answer):
    return answer["error"]["err_code"] if isinstance(answer, dict) and "error" in answer else 0


def fields(ours, theirs, path=""):
    """The fields that differ."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for name in sorted(set(ours) | set(theirs)):
            yield from fields(ours.get(name), theirs.get(name), path + "." + name)
    elif ours != theirs:
        yield path or ".", ours, theirs


class Beside:
    """Has the methods of the recorder, and compares instead."""

    def __init__(self, ours, theirs):
        self.ours, self.theirs = ours, theirs
        self.asked = self.failures = 0
        self.other_replicas = False
        # Whether the consumer has given a message up.
        self.given_up = False
        # Streams that were purged at nats-server only.
        self.purged = set()
        self.meant, self.not_yet = collections.Counter(), collections.Counter()

    def reset(self):
        for server in (self.ours, self.theirs):
            for name in json.loads(server.request("$JS.API.STREAM.NAMES", b""))["streams"] or []:
                server.request("$JS.API.STREAM.DELETE." + name, b"")

    def ask(self, suffix, body, headers=None):
        body = body if isinstance(body, (bytes, str)) else json.dumps(body, separators=(",", ":"))
        raw = body.encode("utf-8", "surrogateescape") if isinstance(body, str) else body
        answers = []
        for server in (self.ours, self.theirs):
            answer = server.request("$JS.API." + suffix, raw, headers)
            answers.append(plain(None if answer is None else parse(answer)))
        self.compare(suffix, raw, *answers)
        return answers[0] if code(answers[0]) else answers[1]

    def publish(self, subject, headers="", payload=""):
        block = "NATS/1.0\r\n" + headers + "\r\n" if headers else None
        answers = [server.request(subject, payload.encode(), block) for server in (self.ours, self.theirs)]
        parsed = [None if answer is None else parse(answer) for answer in answers]
        self.compare(subject, (headers + payload).encode(), *parsed)
        return parsed[1]

    def create(self, config):
        """A stream; ours has one replica."""
        self.other_replicas = True
        for server, replicas in ((self.ours, 1), (self.theirs, config["num_replicas"])):
            body = json.dumps({**config, "num_replicas": replicas})
            answer = json.loads(server.request("$JS.API.STREAM.CREATE." + config["name"], body.encode()))
            if "error" in answer:
                raise RuntimeError("%s: %s" % (body, answer))

    def compare(self, suffix, raw, ours, theirs):
        self.asked += 1
        text = ours["error"]["description"] if code(ours) else ""
        captured = CAPTURE.search(text)
        if NOT_YET in text and suffix.startswith("STREAM.") and code(ours) == 10052:
            self.not_yet[text] += 1
            if "first sequences" in text:
                # nats-server 2.15.2 gives it to the next stream of this name, too.
                self.purged.add(suffix.split(".", 2)[2])
            return self.alike(suffix)
        if captured and not code(theirs):
            self.meant["names and subjects that no topic can have"] += 1
            return self.alike(suffix)
        for pattern, theirs_may, ours_may, why in DIFFERENCES:
            if "names and" in why or not re.fullmatch(pattern, suffix) or ours == theirs:
                continue
            if (ours_may is None or code(ours) in ours_may) and (theirs_may is None or code(theirs) in theirs_may):
                self.meant[why] += 1
                if code(ours) == 10110 and not code(theirs):
                    self.purged.add(suffix.rsplit(".", 1)[-1])
                return None
        differ = [field for field in fields(ours, theirs) if not self.is_expected(suffix, *field)]
        if differ:
            self.failures += 1
            print("DIFFERS %s %s" % (suffix, raw[:200].decode("utf-8", "replace")))
            for path, one, other in differ[:6]:
                print("    %s: ours %s, theirs %s" % (path, json.dumps(one)[:160], json.dumps(other)[:160]))
        return None

    def is_expected(self, suffix, path, ours, theirs):
        """Consumers, and what purging leaves, show in the state of a stream. nats-server keeps an empty list of
        tags apart from none, and lists sequence 0 of an empty stream as deleted."""
        if ours is None and (path, theirs) in ((".state.deleted", [0]), (".state.num_deleted", 1)):
            return True
        if suffix == "CONSUMER.CREATE.S" and path == ".name" and len(str(ours)) == len(str(theirs)) == 8:
            # The server has named it.
            return True
        if self.given_up and (path.startswith(".ack_floor.") or path == ".num_redelivered"):
            # A message that was delivered as often as it may be is done with; nats-server still counts it.
            return True
        is_purged = suffix.rsplit(".", 1)[-1] in self.purged
        if self.other_replicas and path == ".config.num_replicas":
            return True
        return path == ".config.placement" or is_purged and path.startswith(".state.")

    def alike(self, suffix):
        name = suffix.split(".", 2)[2]
        for server in (self.ours, self.theirs):
            server.request("$JS.API.STREAM.DELETE." + name, b"")

    def report(self, name):
        for why, count in sorted(self.meant.items()):
            print("meant: %d times: %s" % (count, why))
        for why, count in sorted(self.not_yet.items()):
            print("not yet: %d times: %s" % (count, why))
        print("%s: %d requests, %d differ" % (name, self.asked, self.failures))
        return self.failures


def messages(record):
    """What is published, and read again in every way."""
    record.reset()
    record.ask("STREAM.CREATE.S", {"name": "S", "subjects": ["a.>"], "allow_direct": True})
    record.ask("STREAM.CREATE.N", {"name": "N", "subjects": ["n"]})
    record.ask("STREAM.INFO.S", "")
    for at in range(12):
        headers = "X: %d\r\n" % at if at % 3 == 0 else ""
        record.publish("a.%d" % (at % 4), headers, "m%d" % at)
    record.publish("n", "", "")
    gets = [
        {"seq": 1}, {"seq": 4}, {"seq": 12}, {"seq": 13}, {"seq": 0}, {"last_by_subj": "a.1"}, {"last_by_subj": "a.*"},
        {"last_by_subj": "a.9"}, {"last_by_subj": "z"}, {"last_by_subj": ">"}, {"next_by_subj": "a.2"},
        {"seq": 4, "next_by_subj": "a.2"}, {"seq": 4, "next_by_subj": "a.>"}, {"seq": 12, "next_by_subj": "a.0"},
        {"seq": 99, "next_by_subj": "a.0"}, {"seq": 1, "no_hdr": True}, {"start_time": "2020-01-01T00:00:00Z"},
        {"start_time": "2099-01-01T00:00:00Z"}, {"start_time": "2020-01-01T00:00:00Z", "next_by_subj": "a.3"},
        {"seq": 1, "last_by_subj": "a.1"}, {"seq": 1, "batch": 2},
    ]
    for get in gets:
        record.ask("STREAM.MSG.GET.S", get)
        if "batch" not in get:
            record.ask("DIRECT.GET.S", get)
    for subject in ["a.0", "a.3", "a.9", "a.*", "b"]:
        record.ask("DIRECT.GET.S." + subject, "")
    record.ask("DIRECT.GET.S.a.0", '{"no_hdr":true}')
    record.ask("DIRECT.GET.S.a.0", '{"seq":1}')
    record.ask("DIRECT.GET.S", "")
    record.ask("DIRECT.GET.S", "x")
    record.ask("DIRECT.GET.N", {"seq": 1})
    record.ask("DIRECT.GET.X", {"seq": 1})
    for info in ["", {"subjects_filter": ">"}, {"subjects_filter": "a.1"}, {"subjects_filter": "z"},
                 {"subjects_filter": ">", "offset": 3}, {"subjects_filter": ">", "offset": 9}, {"deleted_details": True}]:
        record.ask("STREAM.INFO.S", info)
    record.ask("STREAM.LIST", "")
    record.ask("STREAM.UPDATE.S", {"name": "S", "subjects": ["a.>"], "allow_direct": True, "max_msgs": 5})
    record.ask("STREAM.INFO.S", "")
    record.ask("STREAM.MSG.GET.S", {"seq": 1})
    for purge in [{"seq": 9}, {"seq": 9}, {"keep": 3}, {"keep": 3}, {"keep": 1, "filter": ">"}, {"seq": 13}, "", ""]:
        record.ask("STREAM.PURGE.S", purge)
        record.ask("STREAM.INFO.S", {"deleted_details": True, "subjects_filter": ">"})
    record.publish("a.1", "", "again")
    record.ask("STREAM.INFO.S", "")
    for purge in [{"seq": 1, "keep": 1}, {"seqs": 1}, "x", "{", {"seq": -1}]:
        record.ask("STREAM.PURGE.S", purge)


# Streams of the area `publish`, as what differs from one that stores everything.
RULES = [
    {},
    {"allow_rollup_hdrs": True},
    {"max_msgs": 7},
    {"max_msgs_per_subject": 2, "allow_rollup_hdrs": True, "discard": "new"},
    {"max_msgs": 7, "discard": "new"},
    {"max_msgs": 7, "max_msgs_per_subject": 2, "discard": "new", "allow_rollup_hdrs": True},
    {"max_bytes": 600, "discard": "new"},
    {"max_bytes": 600},
    {"max_msgs_per_subject": 2, "discard": "new", "discard_new_per_subject": True, "allow_rollup_hdrs": True},
    {"max_msg_size": 90, "allow_rollup_hdrs": True},
    {"deny_purge": True},
    {"storage": "memory", "max_bytes": 400, "discard": "new"},
]
HOSTILE = [
    "Nats-Expected-Last-Sequence: x", "Nats-Expected-Last-Sequence: -1",
    "Nats-Expected-Last-Sequence: 99999999999999999999", "Nats-Expected-Last-Sequence:",
    "Nats-Expected-Last-Subject-Sequence: 1x", "Nats-Expected-Last-Subject-Sequence: 0x1",
    "Nats-Expected-Stream: T", "Nats-Expected-Stream: s", "Nats-Expected-Stream:  S", "Nats-Rollup: ALL",
    "Nats-Rollup: x\"y", "Nats-Rollup: ", "nats-rollup: all", "Nats-TTL: 5", "Nats-TTL: 0", "Nats-TTL: abc",
    "Nats-TTL: never", "Nats-Incr: 1", "Nats-Incr: x", "Nats-Batch-Id: b", "Nats-Schedule: @every 5s",
    "Nats-Schedule-Next: purge", "Nats-Scheduler: a.1", "Nats-Stream-Source: x", "Nats-Expected-Last-Msg-Id: none",
    "Nats-Expected-Last-Subject-Sequence-Subject: a.*", "Nats-Expected-Last-Subject-Sequence-Subject: a..b",
    "X-Nats-Msg-Id: 1", "NatS-Msg-Id: 1", "Nats-Msg-Id2: 1", "Nats-Msg-Id: " + "i" * 300,
]


def some_headers(dice, model):
    """Headers that often just meet, or just miss, what is in the stream."""
    lines = []

    def near(value):
        return str(max(0, value + dice.choice([0, 0, 0, 1, -1])))

    if dice.random() < 0.3:
        lines.append("Nats-Msg-Id: id%d" % dice.randrange(30))
    if dice.random() < 0.2:
        lines.append("Nats-Expected-Last-Sequence: " + near(model["last"]))
    if dice.random() < 0.3:
        other = dice.choice(["", "", "a.1", "a.*", ">", "z.z"])
        if other:
            lines.append("Nats-Expected-Last-Subject-Sequence-Subject: " + other)
        lines.append("Nats-Expected-Last-Subject-Sequence: " + near(model["of"].get(other or model["subject"], 0)))
    if dice.random() < 0.1:
        lines.append("Nats-Expected-Last-Msg-Id: " + (model["id"] or "id1"))
    if dice.random() < 0.1:
        lines.append("Nats-Rollup: " + dice.choice(["sub", "sub", "all"]))
    if dice.random() < 0.1:
        lines.append("Nats-Expected-Stream: S")
    if dice.random() < 0.15:
        lines.append(dice.choice(HOSTILE))
    dice.shuffle(lines)
    return lines


def publish(record, seed, count):
    """Random messages, one after the other, and what is in the stream then."""
    for number, rules in enumerate(RULES):
        dice = random.Random("%d.%d" % (seed, number))
        record.reset()
        record.create({"name": "S", "subjects": ["a.>"], "num_replicas": 3, "allow_direct": True, **rules})
        model = {"last": 0, "of": {}, "id": "", "subject": ""}
        for at in range(count // len(RULES)):
            model["subject"] = "a.%d" % dice.randrange(4)
            lines = some_headers(dice, model)
            headers = "".join(line + "\r\n" for line in lines)
            answer = record.publish(model["subject"], headers, "x" * dice.randrange(60))
            if isinstance(answer, dict) and "error" not in answer and not answer.get("duplicate"):
                model["last"] = answer["seq"]
                for name in (model["subject"], "a.*", ">"):
                    model["of"][name] = answer["seq"]
                model["id"] = next((line[13:] for line in lines if line.startswith("Nats-Msg-Id: ")), "")
            if at % 40 == 39:
                record.ask("STREAM.INFO.S", {"subjects_filter": ">", "deleted_details": True})
        record.ask("STREAM.INFO.S", {"subjects_filter": ">", "deleted_details": True})
        state = json.loads(record.ours.request("$JS.API.STREAM.INFO.S", b""))["state"]
        for seq in range(state["first_seq"], state["last_seq"] + 1):
            record.ask("STREAM.MSG.GET.S", {"seq": seq})


def option(name, default):
    """Takes `--name N` from the command line."""
    if name not in sys.argv:
        return default
    at = sys.argv.index(name)
    value = int(sys.argv[at + 1])
    del sys.argv[at : at + 2]
    return value


def run(ours, theirs, name, cases):
    beside = Beside(ours, theirs)
    cases(beside)
    return beside.report(name)


def main():
    seed, count = option("--seed", 27), option("--messages", 2400)
    only = sys.argv[1:] or ["streams", "apis", "messages", "consumers", "deliveries"]
    failures = 0
    if "publish" in only:
        with Cluster(os.environ.get("NATS_SERVER", "nats-server")) as theirs:
            with Tailrace(os.environ.get("TAILRACE_BIN", "tailrace")) as ours:
                print("publish: seed %d" % seed)
                failures += run(ours, theirs, "publish", lambda record: publish(record, seed, count))
    with Single(os.environ.get("NATS_SERVER", "nats-server")) as theirs:
        with Tailrace(os.environ.get("TAILRACE_BIN", "tailrace")) as ours:
            for name, cases in [("streams", streams), ("apis", apis), ("messages", messages),
                                ("consumers", consumers), ("deliveries", deliveries)]:
                if name in only:
                    failures += run(ours, theirs, name, cases)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
