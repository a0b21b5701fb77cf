#!/usr/bin/env python3
"""Asks nats-server about JetStream's API and writes down what it answers, as JSON lines.

    NATS_SERVER=/path/to/nats-server ./record.py OUT_DIR

nats-server 2.15.2 comes from the Go module proxy:
`go install github.com/nats-io/nats-server/v2@v2.15.2`. The lines go to
`crates/jetstream/tests/recorded`, where a test replays them through the pure functions. Times, and names that
the server makes up, are replaced by fixed ones.
"""

import json
import os
import re
import sys

from cases import apis, consumers, publishes, streams
from server import Cluster, Single

SHORT = "io.nats.jetstream.api.v1."
TIMES = {"created", "ts", "last_active", "leader_since", "active", "pinned_ts"}


def scrub(value, key=""):
    """Replaces what differs from run to run."""
    if isinstance(value, dict):
        return {name: scrub(inner, name) for name, inner in value.items() if name != "cluster"}
    if isinstance(value, list):
        return [scrub(inner) for inner in value]
    if key in TIMES and value != "0001-01-01T00:00:00Z":
        return "T"
    if key in ("first_ts", "last_ts", "time") and value != "0001-01-01T00:00:00Z":
        return "T"
    if key == "pause_remaining":
        return 1
    if key in ("_nats.ver",):
        return "V"
    if key == "type" and isinstance(value, str):
        return value.replace(SHORT, "~")
    return value


def parse(text):
    """The answer as JSON if it is that, as text if not."""
    try:
        return scrub(json.loads(text))
    except ValueError:
        return text.decode("utf-8", "replace")


class Recorder:
    def __init__(self, server, path):
        self.server, self.out = server, open(path, "w")
        with open(os.path.join(os.path.dirname(path), "words.txt")) as words:
            self.words = words.read().splitlines()

    def write(self, line):
        """One line. Runs of a letter are written as ~LETTER*COUNT~, and the pieces of words.txt as ~LINE~."""
        text = json.dumps(line, ensure_ascii=True, separators=(",", ":"))
        text = re.sub(r"([a-z])\1{99,}", lambda run: "~%s*%d~" % (run[1], len(run[0])), text)
        for at, word in enumerate(self.words):
            text = text.replace(word, "~%d~" % at)
        self.out.write(text + "\n")

    def reset(self):
        """An account without streams."""
        names = json.loads(self.server.request("$JS.API.STREAM.NAMES", b""))["streams"] or []
        for name in names:
            self.server.request("$JS.API.STREAM.DELETE." + name, b"")
        self.write({"reset": True})

    def ask(self, suffix, body, headers=None):
        """One request of the API."""
        body = body if isinstance(body, (bytes, str)) else json.dumps(body, separators=(",", ":"))
        raw = body.encode("utf-8", "surrogateescape") if isinstance(body, str) else body
        answer = self.server.request("$JS.API." + suffix, raw, headers)
        parsed = None if answer is None else parse(answer)
        if isinstance(parsed, dict) and re.fullmatch(r"[A-Za-z0-9]{8}", str(parsed.get("name", ""))):
            text = json.dumps(parsed).replace(parsed["name"], "GENERATE")
            parsed = json.loads(text)
        line = {"s": suffix, "b": raw.decode("latin-1") if isinstance(body, bytes) else body, "a": parsed}
        if headers:
            line["h"] = headers
        self.write(line)
        return parsed

    def publish(self, subject, headers="", payload=""):
        """One message, with its acknowledgement."""
        block = "NATS/1.0\r\n" + headers + "\r\n" if headers else ""
        answer = self.server.request(subject, payload.encode(), block or None, timeout=1)
        self.write({"p": subject, "h": block, "m": payload, "a": None if answer is None else parse(answer)})


def main():
    out = sys.argv[1]
    only = sys.argv[2:] or ["streams", "consumers", "apis", "publishes"]
    single = [("streams", streams), ("consumers", consumers), ("apis", apis)]
    binary = os.environ.get("NATS_SERVER", "nats-server")
    if any(name in only for name, _ in single):
        with Single(binary) as server:
            for name, cases in single:
                if name in only:
                    cases(Recorder(server, os.path.join(out, name + ".jsonl")))
    if "publishes" in only:
        with Cluster(binary) as server:
            publishes(Recorder(server, os.path.join(out, "publishes.jsonl")))


if __name__ == "__main__":
    main()
