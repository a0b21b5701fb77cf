"""A server for each cell, the prober beside it, and the criteria by which a cell is judged."""
import json, os, shutil, subprocess, tempfile, time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
import wire
from wire import MIB

HERE = Path(__file__).resolve().parent
SERVER_SCRIPT = HERE.parent / "server.sh"
PROBE = HERE / "target/probe"
TOPIC = "probe"
# What one connection may cost the others: the longest wait of a probe on another connection, on two cores.
GAP_MS_MAX = float(os.environ.get("ATTACKS_GAP_MS", 50))
# Quick cells are also judged on busy machines: they fail from this wait on, beyond what the machine itself
# delayed its prober. The attacks found first cost seconds with a release build, and ten times as much with a
# debug build.
QUICK_GAP_MS_MAX = float(os.environ.get("ATTACKS_QUICK_GAP_MS", 1000))
# The documented budget (queued.max.request.bytes, by default), and what the goal allows on top of it.
BUDGET_MIB = int(os.environ.get("ATTACKS_BUDGET_MIB", 100))
BESIDE_MIB = 64
# If the machine delayed its own prober for longer, the cell says nothing about the server, and is played
# again.
MACHINE_MS_MAX = 20
TRIES = int(os.environ.get("ATTACKS_TRIES", 3))
# The server is killed when it takes more, to protect the machine.
GUARD_MIB = int(os.environ.get("ATTACKS_GUARD_MIB", 8192))
# Delay before what is left is measured.
LEFT_AFTER_SECONDS = 5
# The first user of servers that require a login of Kafka clients. Probes log in as this one.
USER, PASSWORD = "admin", "admin-secret"
# This much above the baseline counts as nothing: arenas and buffers that are warm.
LEFT_MIB_NOTHING = 16
KINDS = ("kafka", "produce", "nats", "pubsub", "http", "ws")


# The log may grow by a tenth of the bytes that were sent; this much counts as nothing.
LOG_SHARE_MAX = 0.1
LOG_BYTES_NOTHING = 64 << 10


class Failure(Exception):
    """A cell's requirement does not hold."""


def check(condition, what):
    if not condition:
        raise Failure(what)


@dataclass
class Figures:
    """What one attack has cost, in milliseconds and MiB."""
    gaps: dict = field(default_factory=dict)
    machine_ms: float = 0
    resident: float = 0
    left: float = 0
    metric: float = 0
    cpu_seconds: float = 0
    # How often the kernel had dropped pages of the server's code, so that the server waited for the disk.
    major_faults: int = 0
    sent: int = 0
    received: int = 0
    logged: int = 0
    # Bytes of log that count as nothing.
    log_free: int = LOG_BYTES_NOTHING
    # Connections that the server has closed without a whole answer, and the number of connections.
    closed: int = 0
    connections: int = 0
    killed: bool = False
    gone: bool = False
    # Figures that only this cell has, by name, with their units.
    more: dict = field(default_factory=dict)

    @property
    def gap_ms(self):
        return max(self.gaps.values(), default=0)

    def text(self):
        if not self.gaps:
            return "; ".join(f"{name} {value}" for name, value in self.more.items())
        worst = " ".join(f"{kind} {ms:.0f}" for kind, ms in self.gaps.items())
        parts = [f"gap {self.gap_ms:.0f} ms ({worst}; machine {self.machine_ms:.0f})",
                 f"resident +{self.resident:.0f} MiB, left {self.left:.0f}, metric {self.metric:.0f}, cpu {self.cpu_seconds:.1f} s"]
        if self.sent:
            parts.append(f"sent {size(self.sent)}, answered {size(self.received)}, logged {size(self.logged)}")
        if self.major_faults:
            parts.append(f"{self.major_faults} major faults")
        if self.closed:
            parts.append(f"{self.closed} of {self.connections} connections closed without an answer")
        return "; ".join(parts + [f"{name} {value}" for name, value in self.more.items()])

    def faults(self, quick):
        gap_ms_max = QUICK_GAP_MS_MAX + self.machine_ms if quick else GAP_MS_MAX
        if self.killed:
            yield f"the server took {GUARD_MIB} MiB and was killed"
        elif self.gone:
            yield "the server has ended"
        if self.gap_ms > gap_ms_max:
            yield f"others waited {self.gap_ms:.0f} ms, more than {gap_ms_max:.0f}"
        if self.resident > BUDGET_MIB + BESIDE_MIB:
            yield f"{self.resident:.0f} MiB resident, more than {BUDGET_MIB + BESIDE_MIB}"
        if self.logged > max(self.log_free, self.sent * LOG_SHARE_MAX):
            yield f"{size(self.logged)} of log for {size(self.sent)} sent"


def size(count):
    for unit, bytes_ in (("MiB", MIB), ("KiB", 1 << 10)):
        if count >= bytes_:
            return f"{count / bytes_:.1f} {unit}".replace(".0 ", " ")
    return f"{count} B"


class Server:
    """A fresh server, its topic, and the prober. Ends both by their ids."""

    def __init__(self, settings=()):
        # In memory if there is room, so that a slow disk does not affect the figures.
        shm = Path("/dev/shm")
        roomy = shm.is_dir() and shutil.disk_usage(shm).free > 4096 * MIB
        self.folder = Path(tempfile.mkdtemp(prefix="interop-attacks.", dir=shm if roomy else None))
        self.state = self.folder / "server"
        self.schema = SCHEMA
        self.probe = None
        arguments = " ".join(f"--set {one}" for one in settings)
        self.logs_in = "tailrace.kafka.authentication=required" in settings
        env = {**os.environ, "TAILRACE_ARGS": f"{arguments} {os.environ.get('TAILRACE_ARGS', '')}"}
        for name in list(env):
            if name.startswith("TAILRACE_") and name not in ("TAILRACE_BIN", "TAILRACE_ARGS"):
                del env[name]
        self.env = {k: v for k, v in env.items() if k not in ("NATS_FRONT", "INTEROP_NODES")}
        if self.logs_in:
            self.env["TAILRACE_FIRST_PASSWORD"] = PASSWORD
        try:
            subprocess.run([SERVER_SCRIPT, "start", str(self.state), "tailrace"], check=True, env=self.env, stdout=subprocess.DEVNULL)
            self.kafka, self.tls, self.nats, self.http = (self.said(name) for name in ("addr", "ssl", "nats", "http"))
            self.pid = int(self.said("pid"))
            self.topic_id = self.create(TOPIC, configs={"flush.messages": "1000000", "retention.bytes": str(16 * MIB)})
            self.start_probe()
        except BaseException:
            self.stop()
            raise

    def said(self, name):
        return (self.state / name).read_text().strip()

    @property
    def log(self):
        return self.state / "log"

    def call(self, name, version, body=None, seconds=30):
        conn = wire.kproto.Conn(self.schema, self.kafka, seconds)
        try:
            if self.logs_in:
                conn.call("SaslHandshake", 1, {"Mechanism": "PLAIN"})
                conn.call("SaslAuthenticate", 0, {"AuthBytes": f"\0{USER}\0{PASSWORD}".encode()})
            return conn.call(name, version, body)
        finally:
            conn.close()

    def create(self, name, partitions=1, configs=None):
        configs = [{"Name": k, "Value": v} for k, v in (configs or {}).items()]
        topic = {"Name": name, "NumPartitions": partitions, "ReplicationFactor": 1, "Configs": configs}
        answer = self.call("CreateTopics", 7, {"Topics": [topic], "timeoutMs": 30_000})["Topics"][0]
        check(answer["ErrorCode"] == 0, f"create {name}: {answer}")
        return answer["TopicId"]

    def start_probe(self):
        command = [PROBE, "-kafka", self.kafka, "-nats", self.nats, "-http", self.http, "-pid", str(self.pid), "-topic", TOPIC, "-guard", str(GUARD_MIB * MIB)]
        if self.logs_in:
            command += ["-user", f"{USER}:{PASSWORD}"]
        self.probe = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        # The first second is spent connecting, and first operations are slow.
        time.sleep(0.3)
        self.tell("begin")
        time.sleep(0.3)
        said = self.tell("end")
        missing = [kind for kind in KINDS if not said["probes"].get(kind)]
        if missing:
            raise RuntimeError(f"no answer to probes of {missing}")
        self.baseline = said["resident_now"]

    def tell(self, word):
        self.probe.stdin.write(word + "\n")
        self.probe.stdin.flush()
        line = self.probe.stdout.readline()
        if not line:
            raise RuntimeError("the prober has ended")
        return json.loads(line)

    @property
    def is_clean(self):
        """Whether nothing is left of what was done to the server."""
        said = self.tell("peek")
        return not said["gone"] and said["resident_now"] - self.baseline < LEFT_MIB_NOTHING * MIB

    def stop(self):
        if self.probe:
            self.probe.stdin.close()
            try:
                self.probe.wait(5)
            except subprocess.TimeoutExpired:
                self.probe.kill()
                self.probe.wait()
        if (self.state / "pid").exists():
            subprocess.run([SERVER_SCRIPT, "stop", str(self.state), "KILL"], env=self.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if os.environ.get("KEEP"):
            print(f"data and log: {self.folder}")
        else:
            shutil.rmtree(self.folder, ignore_errors=True)


class Attack:
    """What an attack works with: the server, connections that are closed in the end, and its figures."""

    def __init__(self, server, quick):
        self.server, self.quick, self.figures = server, quick, Figures()
        self.strangers = []

    def stranger(self, where=None, **how):
        return self.keep(wire.Stranger(where or self.server.kafka, **how))

    def nats(self, **how):
        return self.keep(wire.nats(self.server.nats, **how))

    def keep(self, one):
        self.strangers.append(one)
        return one

    def send(self, one, *data):
        """Sends in the background, and counts the bytes."""
        self.figures.sent += sum(map(len, data))
        one.send(*data)

    def until(self, condition, seconds):
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end:
                return False
            time.sleep(0.01)
        return True

    @contextmanager
    def watched(self, left=True):
        """The measured window. After it the strangers are gone, and what stays is measured."""
        server, figures = self.server, self.figures
        server.tell("begin")
        logged = server.log.stat().st_size
        try:
            yield
            self.take(server.tell("end"))
        finally:
            figures.connections = len(self.strangers)
            figures.closed += sum(one.closed and not one.received for one in self.strangers)
            figures.received += sum(one.received for one in self.strangers)
            for one in self.strangers:
                one.close()
        said = server.tell("peek")
        # The cost to others of ending many connections counts, too.
        if left and not said["gone"]:
            end = time.monotonic() + (1 if self.quick else LEFT_AFTER_SECONDS)
            while said["resident_now"] - server.baseline > LEFT_MIB_NOTHING * MIB and time.monotonic() < end:
                time.sleep(0.1)
                said = server.tell("peek")
            said = server.tell("end")
        self.take(said)
        figures.logged = server.log.stat().st_size - logged

    def take(self, said):
        figures, above = self.figures, self.server.baseline
        figures.gaps = {kind: said["gap_ms"][kind] for kind in KINDS}
        figures.machine_ms = said["gap_ms"]["machine"]
        figures.resident = max(0, said["resident_peak"] - above) / MIB
        figures.left = max(0, said["resident_now"] - above) / MIB
        figures.metric = said["metric_peak"] / MIB
        figures.cpu_seconds, figures.major_faults = said["cpu_s"], said["major_faults"]
        figures.killed, figures.gone = said["killed"], said["gone"]


SCHEMA = wire.Schema()
