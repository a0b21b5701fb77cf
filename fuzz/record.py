#!/usr/bin/env python3
"""Runs in place of tailrace and records what real clients send, as seeds for the fuzz targets kafka_request
and nats_protocol.

Start it in place of the binary, for example from the suites of interop/:

    TAILRACE=target/release/tailrace FOLDER=/tmp/recorded TAILRACE_BIN=$PWD/fuzz/record.py interop/run.sh --smoke python go nats-go

It gives `serve` other ports than the requested ones, and listens at the requested ones itself. It passes
everything else on unchanged. seeds.py makes more seeds, from the data folders of servers.
"""
import ctypes, hashlib, os, pathlib, signal, socket, subprocess, sys, threading

BINARY, FOLDER = os.environ["TAILRACE"], pathlib.Path(os.environ["FOLDER"])
# A fuzz target takes at most 4096 bytes.
BYTES_MAX = 4096
PR_SET_PDEATHSIG = 1


def keep(target, name, content):
    """Writes the content once: the name says what it is, the hash tells contents apart."""
    folder = FOLDER / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}_{hashlib.sha256(content).hexdigest()[:8]}").write_bytes(content)


class KafkaRequests:
    """Keeps each request without its length, by API and version."""

    def __init__(self):
        self.buffer = bytearray()

    def take(self, data):
        self.buffer += data
        while len(self.buffer) >= 4:
            length = int.from_bytes(self.buffer[:4], "big")
            if len(self.buffer) < 4 + length:
                return
            frame = bytes(self.buffer[4:4 + length])
            del self.buffer[:4 + length]
            if 4 <= len(frame) <= BYTES_MAX:
                keep("kafka_request", f"{int.from_bytes(frame[:2], 'big'):03}_v{int.from_bytes(frame[2:4], 'big'):02}", frame)


class NatsInput:
    """Keeps what one read returned, after a byte that says where the target splits it."""

    def __init__(self, side):
        self.side = side

    def take(self, data):
        if len(data) < BYTES_MAX:
            keep("nats_protocol", self.side, bytes([len(data) // 2 % 256]) + data)


class Deaf:
    def take(self, data):
        pass


def pump(source, sink, listener):
    try:
        while data := source.recv(1 << 16):
            listener.take(data)
            sink.sendall(data)
    except OSError:
        pass
    finally:
        for one in (source, sink):
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


def stand_before(address, server, listeners):
    """Listens at an address, and forwards connections to the server."""
    host, port = address.rsplit(":", 1)
    door = socket.create_server((host, int(port)))

    def serve():
        while True:
            client, _ = door.accept()
            try:
                there = socket.create_connection(server)
            except OSError:
                client.close()
                continue
            for one in (client, there):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for source, sink, listener in zip((client, there), (there, client), listeners()):
                threading.Thread(target=pump, args=(source, sink, listener), daemon=True).start()
    threading.Thread(target=serve, daemon=True).start()


def main():
    arguments = sys.argv[1:]
    if arguments[:1] != ["serve"]:
        os.execv(BINARY, [BINARY, *arguments])
    told = {flag: arguments[arguments.index(flag) + 1] for flag in ("--kafka", "--nats")}
    for flag in told:
        arguments[arguments.index(flag) + 1] = "127.0.0.1:0"
    arguments += ["--set", f"advertised.listeners=PLAINTEXT://{told['--kafka']}"]

    def end_with_me():
        # The server ends even if this process is killed.
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)

    server = subprocess.Popen([BINARY, *arguments], stdout=subprocess.PIPE, text=True, preexec_fn=end_with_me)
    signal.signal(signal.SIGTERM, lambda *_: server.terminate())
    for line in server.stdout:
        if line.startswith("ready"):
            there = dict(word.split("=", 1) for word in line.split()[1:])
            for name, listeners in (("kafka", lambda: (KafkaRequests(), Deaf())), ("nats", lambda: (NatsInput("client"), NatsInput("server")))):
                host, port = there[name].rsplit(":", 1)
                stand_before(told[f"--{name}"], (host, int(port)), listeners)
                line = line.replace(f"{name}={there[name]}", f"{name}={told[f'--{name}']}")
        print(line, end="", flush=True)
    sys.exit(server.wait())


main()
