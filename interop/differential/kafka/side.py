"""One of the two servers: started and restarted by interop/server.sh, asked in raw frames of Kafka's
protocol.

A call retries on errors that pass by themselves (a coordinator that loads, markers that are being written):
those are not differences.
"""
import os, subprocess, sys, threading, time
from glob import glob
from pathlib import Path

INTEROP = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(INTEROP / "raw"))
import kproto  # noqa: E402

CALL_SECONDS_MAX, PATIENCE_SECONDS = 12, 30
# LEADER_NOT_AVAILABLE, NOT_LEADER_OR_FOLLOWER, COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE,
# NOT_COORDINATOR, NOT_ENOUGH_REPLICAS (no topic here asks for more than one: Kafka's leader, restarted, does
# not reach the coordinator yet), CONCURRENT_TRANSACTIONS.
PASSING = {5, 6, 14, 15, 16, 19, 51}
GROUP_KEY, TRANSACTION_KEY, SHARE_KEY = 0, 1, 2


def schema():
    return kproto.Schema(glob(os.environ["KAFKA_LIBS"] + "/kafka-clients-*.jar")[0])


def codes_of(value):
    """Every error code anywhere in an answer."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if name.endswith("ErrorCode"):
                yield inner
            else:
                yield from codes_of(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from codes_of(inner)


class Gone(Exception):
    """The server closed the connection, or did not answer in time."""


class Side:
    def __init__(self, name, definitions):
        self.name, self.schema = name, definitions
        self.state = Path(os.environ["DIFFERENTIAL_FOLDER"]) / name
        self.state.mkdir(parents=True)
        self.connections = threading.local()
        self.generation = 0

    def server(self, *words):
        done = subprocess.run([INTEROP / "server.sh", *words], capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{self.name}: {done.stderr.strip()[-500:]}")
        return done.stdout

    def start(self):
        self.server("start", str(self.state), self.name)
        self.address = (self.state / "addr").read_text().strip()
        # Kafka makes the topics of coordinators at the first request for one, and refuses until then.
        for kind, key in ((GROUP_KEY, "a"), (TRANSACTION_KEY, "a")):
            self.find(kind, key)
        self.warm()

    def warm(self):
        """Kafka makes the topic of share groups' states for the first of them."""
        name, epoch = "warm", 0
        self.call("CreateTopics", 7, {"Topics": [{"Name": name, "NumPartitions": 1, "ReplicationFactor": 1}], "timeoutMs": 10_000})
        member, end = "6b1d1c2e-0000-4000-8000-000000000000", time.monotonic() + 30
        while time.monotonic() < end:
            body = {"GroupId": name, "MemberId": member, "MemberEpoch": epoch, "RackId": None, "SubscribedTopicNames": None if epoch else [name]}
            answer = self.call("ShareGroupHeartbeat", 1, body)
            epoch = answer["MemberEpoch"]
            if answer["Assignment"] and answer["Assignment"]["TopicPartitions"]:
                break
            time.sleep(0.05)
        self.call("ShareGroupHeartbeat", 1, {"GroupId": name, "MemberId": member, "MemberEpoch": -1, "RackId": None, "SubscribedTopicNames": None})

    def restart(self, signal):
        self.server("restart", str(self.state), signal)
        self.generation += 1

    def stop(self):
        if (self.state / "pid").exists():
            self.server("stop", str(self.state), "KILL")

    def find(self, kind, key):
        return self.call("FindCoordinator", 6, {"KeyType": kind, "CoordinatorKeys": [key]})

    def connect(self):
        """A separate connection, for requests that may wait for others."""
        return kproto.Conn(self.schema, self.address, CALL_SECONDS_MAX)

    def connection(self):
        here = self.connections
        if getattr(here, "generation", None) != self.generation or here.connection is None:
            here.connection, here.generation = self.connect(), self.generation
        return here.connection

    def once(self, name, version, body, seconds=None):
        try:
            connection = self.connection()
            connection.s.settimeout(seconds or CALL_SECONDS_MAX)
            return connection.call(name, version, body)
        except (kproto.Closed, OSError, AssertionError) as error:
            self.connections.connection = None
            raise Gone(f"{name}: {type(error).__name__}") from error

    def call(self, name, version, body, seconds=None, passing=PASSING):
        end = time.monotonic() + PATIENCE_SECONDS
        while True:
            answer = self.once(name, version, body, seconds)
            if not any(code in passing for code in codes_of(answer)) or time.monotonic() > end:
                return answer
            time.sleep(0.01)
