"""Nodes of a cluster as processes, for tests that need more than a running server: each is started, killed,
frozen and cut off by itself."""
import os, signal, subprocess, time, urllib.request
from harness import Failure, check, eventually
from ports import free_ports

BINARY = os.environ.pop("TAILRACE_BIN")  # the server would take this variable for a setting
# A member that starts may have to wait for the session of the node that it replaces (9 s).
READY_SECONDS_MAX, STOP_SECONDS_MAX = 60, 60
everyone = []


class Node:
    """`within` is a prefix of its command: a network namespace, another clock. All other options go to --set."""

    def __init__(self, folder, number, seeds=(), host="127.0.0.1", within=(), name=None, ports=None, **settings):
        self.name, self.number, self.seeds, self.within, self.settings = name or f"n{number}", number, list(seeds), list(within), settings
        self.data, self.log_path = f"{folder}/{self.name}", f"{folder}/{self.name}.log"
        self.kafka, self.nats, self.http, self.listen = [f"{host}:{port}" for port in ports or free_ports(4)]
        self.process, self.binary, self.log_begins = None, BINARY, 0
        everyone.append(self)

    def command(self):
        words = [*self.within, self.binary, "serve", "--data-dir", self.data, "--node-id", str(self.number), "--kafka", self.kafka, "--nats", self.nats,
                 "--http", self.http, "--cluster-listen", self.listen]
        for seed in self.seeds:
            words += ["--seed", seed]
        for key, value in self.settings.items():
            words += ["--set", f"{key.replace('__', '.')}={value}"]
        return words

    def launch(self):
        """Starts it, without waiting."""
        self.out = open(f"{self.log_path}.out", "w")
        with open(self.log_path, "a") as log:
            self.log_begins = log.tell()
            self.process = subprocess.Popen(self.command(), stdin=subprocess.DEVNULL, stdout=self.out, stderr=log)
        return self

    def is_ready(self):
        with open(f"{self.log_path}.out") as out:
            return any(line.startswith("ready") for line in out)

    def start(self):
        self.launch()
        return self.ready()

    def ready(self):
        eventually(lambda: self.is_ready() or self.process.poll() is not None, f"{self.name} is ready", READY_SECONDS_MAX)
        check(self.is_ready(), f"{self.name} ended with {self.process.poll()}: {self.last_words()}")
        return self

    def refuses_to_start(self, seconds=30):
        """Checks that it ends by itself with an error. Returns its last words."""
        self.launch()
        try:
            status = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise Failure(f"{self.name} did not end within {seconds} s; ready: {self.is_ready()}; last words: {self.last_words()}")
        check(status == 1, f"{self.name} ended with {status}")
        return self.last_words()

    def log(self):
        with open(self.log_path, errors="replace") as log:
            return log.read()

    def since_start(self):
        """What it has logged since its last start."""
        with open(self.log_path, errors="replace") as log:
            log.seek(self.log_begins)
            return log.read()

    def last_words(self):
        return (self.log().strip().splitlines() or [""])[-1]

    def signal(self, number):
        self.process.send_signal(number)

    def kill(self):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
        if self.process:
            self.process.wait()
        return self

    def stop(self):
        self.process.terminate()
        try:
            status = self.process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.kill()
            raise Failure(f"{self.name} did not stop within {STOP_SECONDS_MAX} s of SIGTERM")
        check(status == 0, f"{self.name} ended with {status} after SIGTERM: {self.last_words()}")
        return self

    def page(self, path):
        with urllib.request.urlopen(f"http://{self.http}{path}", timeout=10) as answer:
            return answer.read().decode()

    def metric(self, name, **labels):
        """The sum over all rows of this name that have these labels."""
        total = 0.0
        for line in self.page("/metrics").splitlines():
            head, _, value = line.rpartition(" ")
            if head.split("{")[0] == name and all(f'{k}="{v}"' in head for k, v in labels.items()):
                total += float(value)
        return total


def three(folder, begin=True, **settings):
    """Three nodes that are ready. `settings` apply to all; a setting that is a list has a value for each."""
    nodes = []
    for number in (1, 2, 3):
        own = {k: v[number - 1] if isinstance(v, list) else v for k, v in settings.items()}
        nodes.append(Node(folder, number, [nodes[0].listen] if nodes else [], **own))
    for node in nodes if begin else []:
        node.start()
    return nodes


def bootstrap(nodes):
    return ",".join(n.kafka for n in nodes)


def tailrace(*words, seconds=60, status=0):
    """The output of the command. With `status` None any exit status is accepted."""
    done = subprocess.run([BINARY, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=seconds)
    check(status is None or done.returncode == status, f"tailrace {' '.join(words)} ended with {done.returncode}: {done.stdout[-400:]}")
    return done.stdout


def end_all():
    for node in everyone:
        node.kill()
    everyone.clear()
