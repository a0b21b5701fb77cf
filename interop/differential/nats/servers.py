"""Both servers, in the same settings: nats-server with a stream where tailrace has a topic.

Three kinds of settings, each with a pair of servers for the whole run:
plain      everything as it comes, and a topic (a stream) `S` that captures `cap.>`
small      small limits, so that conversations come to them
users      users with passwords and permissions
"""
import http.client, json, os, signal, socket, subprocess, sys, time
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "python"))
from ports import free_ports

# Time for the start of a debug build on a busy machine.
START_SECONDS_MAX = 60
STOP_SECONDS_MAX = 30
KINDS = ("plain", "small", "users")
STREAM, CAPTURED = "S", "cap.>"
# nats-server's name of a setting: tailrace's name, and the value.
LIMITS = {
    "max_payload": ("tailrace.nats.max.payload.bytes", 64),
    "max_control_line": ("tailrace.nats.max.control.line.bytes", 128),
    "max_subscriptions": ("tailrace.nats.max.subscriptions", 6),
}
# name: password, publish allow, publish deny, subscribe allow, subscribe deny
USERS = {
    "root": ("r00t", [], [], [], []),
    "pub": ("p", ["a.>", "b", "in.>"], ["a.secret"], [], []),
    "sub": ("s", [], [], ["a.*", "b", "in.>", "c q.*"], ["a.deny"]),
    "deny": ("d", [], ["a.>"], [], ["b.>", "a.b"]),
}


class Server:
    """A process that serves NATS on `port`, WebSocket on `ws`, and pages on `http`."""

    def start(self, command, log):
        with open(log, "wb") as out:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        end = time.monotonic() + START_SECONDS_MAX
        while not self.answers():
            if self.process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"{self.name} does not start: {Path(log).read_text(errors='replace')[-2000:]}")
            time.sleep(0.05)

    def answers(self):
        try:
            return self.page("/healthz")[0] == 200
        except OSError:
            return False

    def page(self, path):
        connection = http.client.HTTPConnection("127.0.0.1", self.http, timeout=20)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def subscriptions(self):
        return json.loads(self.page("/subsz")[1])["num_subscriptions"]

    def connections(self):
        return json.loads(self.page("/varz")[1])["connections"]

    def is_running(self):
        return self.process.poll() is None

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class NatsServer(Server):
    name = "nats-server"

    def __init__(self, kind, work):
        self.port, self.ws, self.http = free_ports(3)
        folder = work / f"nats-server-{kind}"
        folder.mkdir()
        lines = [f'listen: "127.0.0.1:{self.port}"', f'http: "127.0.0.1:{self.http}"']
        lines += [f'websocket {{ listen: "127.0.0.1:{self.ws}", no_tls: true }}', "ping_interval: 600"]
        lines += [f"jetstream {{ store_dir: {folder} }}"] if kind == "plain" else []
        lines += [f"{name}: {value}" for name, (_, value) in LIMITS.items()] if kind == "small" else []
        if kind == "users":
            lines += ["authorization { users: [", *map(nats_user, USERS.items()), "] }"]
        config = folder / "nats.conf"
        config.write_text("\n".join(lines) + "\n")
        self.start([os.environ["NATS_SERVER_BIN"], "-c", str(config)], folder / "log")
        if kind == "plain":
            self.make_stream()

    def make_stream(self):
        body = json.dumps({"name": STREAM, "subjects": [CAPTURED], "storage": "memory"}).encode()
        with socket.create_connection(("127.0.0.1", self.port), timeout=20) as s:
            s.sendall(b'CONNECT {"verbose":false}\r\nSUB made 1\r\n' + b"PUB $JS.API.STREAM.CREATE.S made %d\r\n%s\r\n" % (len(body), body))
            came = b""
            while b"did_create" not in came:
                came += s.recv(65536) or b"did_create closed"
        if b'"did_create":true' not in came:
            raise RuntimeError(f"no stream: {came!r}")


def nats_user(user):
    name, (password, publish, not_publish, subscribe, not_subscribe) = user
    rules = []
    for what, allow, deny in (("publish", publish, not_publish), ("subscribe", subscribe, not_subscribe)):
        lists = [f"{word}: {json.dumps(subjects)}" for word, subjects in (("allow", allow), ("deny", deny)) if subjects]
        rules += [f"{what}: {{ {', '.join(lists)} }}"] if lists else []
    rules = ", ".join(rules)
    return f'{{ user: "{name}", password: "{password}", permissions: {{ {rules} }} }}' if rules else f'{{ user: "{name}", password: "{password}" }}'


class Tailrace(Server):
    name = "tailrace"

    def __init__(self, kind, work):
        self.port, self.http, kafka = free_ports(3)
        self.ws = self.http
        folder = work / f"tailrace-{kind}"
        folder.mkdir()
        settings = {"tailrace.nats.ping.interval.ms": 600_000}
        if kind == "small":
            settings |= dict(LIMITS.values())
        if kind == "users":
            users = folder / "users.toml"
            users.write_text("".join(map(tailrace_user, USERS.items())))
            settings["tailrace.nats.users.file"] = users
        arguments = [argument for key, value in settings.items() for argument in ("--set", f"{key}={value}")]
        listeners = ["--nats", f"127.0.0.1:{self.port}", "--http", f"127.0.0.1:{self.http}", "--kafka", f"127.0.0.1:{kafka}"]
        self.start([os.environ["TAILRACE_BIN"], "serve", "--data-dir", str(folder / "data"), *listeners, *arguments], folder / "log")
        if kind == "plain":
            make = [os.environ["TAILRACE_BIN"], "topic", "create", STREAM, "--partitions", "1", "--subjects", CAPTURED, "--bootstrap", f"127.0.0.1:{kafka}"]
            subprocess.run(make, check=True, capture_output=True, timeout=START_SECONDS_MAX)
            self.await_topic()

    def await_topic(self):
        end = time.monotonic() + START_SECONDS_MAX
        with socket.create_connection(("127.0.0.1", self.port), timeout=1) as s:
            s.sendall(b'CONNECT {"verbose":false}\r\nSUB made 1\r\n')
            came = b""
            while b'"seq":' not in came:
                s.sendall(b"PUB cap.made made 0\r\n\r\n")
                try:
                    came += s.recv(65536)
                except TimeoutError:
                    if time.monotonic() > end:
                        raise RuntimeError("the topic captures nothing") from None


def tailrace_user(user):
    name, (password, publish, not_publish, subscribe, not_subscribe) = user
    text = f"[[users]]\nuser = {json.dumps(name)}\npassword = {json.dumps(password)}\n"
    for what, allow, deny in (("publish", publish, not_publish), ("subscribe", subscribe, not_subscribe)):
        lists = [f"{word} = {json.dumps(subjects)}" for word, subjects in (("allow", allow), ("deny", deny)) if subjects]
        text += f"{what} = {{ {', '.join(lists)} }}\n" if lists else ""
    return text


class Pair:
    """nats-server and tailrace with settings of one kind."""

    def __init__(self, kind, work):
        self.kind = kind
        self.servers = []
        try:
            for make in (NatsServer, Tailrace):
                self.servers.append(make(kind, work))
        except BaseException:
            self.stop()
            raise

    def stop(self):
        for server in self.servers:
            server.stop()
