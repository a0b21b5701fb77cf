"""Starts nats-server, and speaks the client protocol to it over a plain socket."""

import os
import re
import shutil
import socket
import subprocess
import tempfile
import time


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


HEARTBEAT = "NATS/1.0 100 Idle Heartbeat"


def said(words, data):
    """A message: its subject, its reply, its headers and its payload."""
    words = [word.decode() for word in words]
    sizes = 2 if words[0] == "HMSG" else 1
    headers = data[: int(words[-2])].decode() if sizes == 2 else ""
    reply = words[3] if len(words) > 3 + sizes else ""
    return words[1], reply, headers, data[len(headers) :].decode()


class Connection:
    """One client. Requests are sent one at a time."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=10)
        self.rest = b""
        self.count = 0
        # What came for other subscriptions than that of answers.
        self.pushed = []
        self.line()
        self.send(b'CONNECT {"verbose":false,"headers":true,"no_responders":true}\r\nSUB _INBOX.r.* 1\r\nPING\r\n')
        while self.line() != b"PONG":
            pass

    def send(self, data):
        self.socket.sendall(data)

    def more(self):
        data = self.socket.recv(1 << 16)
        if not data:
            raise ConnectionError("closed")
        self.rest += data

    def line(self):
        while b"\r\n" not in self.rest:
            self.more()
        line, self.rest = self.rest.split(b"\r\n", 1)
        if line == b"PING":
            self.send(b"PONG\r\n")
        return line

    def take(self, size):
        while len(self.rest) < size + 2:
            self.more()
        data, self.rest = self.rest[:size], self.rest[size + 2 :]
        return data

    def request(self, subject, body, headers=None, timeout=5):
        """The answer; none if nobody gives one. A status comes back as its header block."""
        self.count += 1
        inbox = "_INBOX.r.%d" % self.count
        if headers is None:
            self.send(b"PUB %s %s %d\r\n%s\r\n" % (subject.encode(), inbox.encode(), len(body), body))
        else:
            block = headers.encode("latin-1")
            sizes = b"%d %d" % (len(block), len(block) + len(body))
            self.send(b"HPUB %s %s %s\r\n%s%s\r\n" % (subject.encode(), inbox.encode(), sizes, block, body))
        self.socket.settimeout(timeout)
        try:
            while True:
                words = self.line().split()
                if not words or words[0] not in (b"MSG", b"HMSG"):
                    continue
                data = self.take(int(words[-1]))
                if words[2] != b"1":
                    self.pushed.append(said(words, data))
                elif words[1].decode() == inbox:
                    return data
        except (socket.timeout, TimeoutError):
            return None
        finally:
            self.socket.settimeout(10)


    def deliveries(self, subject, body, timeout=3):
        """All messages that come for a pull, up to the status that ends it, or until nothing comes. Each is its
        subject, its reply, its headers and its payload."""
        self.count += 1
        inbox = "_INBOX.r.%d" % self.count
        self.send(b"PUB %s %s %d\r\n%s\r\n" % (subject.encode(), inbox.encode(), len(body), body))
        self.socket.settimeout(timeout)
        found = []
        try:
            while True:
                words = self.line().split()
                if not words or words[0] not in (b"MSG", b"HMSG"):
                    continue
                subject, reply, headers, payload = said(words, self.take(int(words[-1])))
                if words[2] != b"1":
                    self.pushed.append((subject, reply, headers, payload))
                    continue
                is_status = re.match(r"NATS/1.0 \d", headers) is not None
                found.append(("" if subject == inbox else subject, reply, headers, payload))
                if is_status and not headers.startswith("NATS/1.0 100"):
                    return found
        except (socket.timeout, TimeoutError):
            return found
        finally:
            self.socket.settimeout(10)

    def arrived(self, quiet):
        """What has come for other subscriptions, once nothing more than heartbeats has come for so many seconds."""
        until = time.monotonic() + quiet
        try:
            while (left := until - time.monotonic()) > 0:
                self.socket.settimeout(left)
                words = self.line().split()
                if not words or words[0] not in (b"MSG", b"HMSG"):
                    continue
                data = self.take(int(words[-1]))
                if words[2] == b"1":
                    continue
                self.pushed.append(said(words, data))
                if not self.pushed[-1][2].startswith(HEARTBEAT):
                    until = time.monotonic() + quiet
        except (socket.timeout, TimeoutError):
            pass
        finally:
            self.socket.settimeout(10)
        found, self.pushed = self.pushed, []
        return found


class Single:
    """One server."""

    def __init__(self, binary):
        self.binary, self.folder = binary, tempfile.mkdtemp()
        self.processes = []

    def start(self, config):
        path = os.path.join(self.folder, "server-%d.conf" % len(self.processes))
        with open(path, "w") as file:
            file.write(config)
        log = open(path + ".log", "w")
        process = subprocess.Popen([self.binary, "-c", path], stdout=log, stderr=log)
        self.processes.append(process)

    def __enter__(self):
        (port,) = free_ports(1)
        self.start('listen: "127.0.0.1:%d"\njetstream { store_dir: "%s/js" }\n' % (port, self.folder))
        return self.connected(port)

    def connected(self, port):
        deadline = time.monotonic() + 30
        while True:
            try:
                connection = Connection(port)
                answer = connection.request("$JS.API.INFO", b"", timeout=1)
                if answer and b'"error"' not in answer and b"503" not in answer:
                    return connection
            except OSError:
                pass
            if time.monotonic() > deadline:
                raise RuntimeError("nats-server did not start")
            time.sleep(0.2)

    def __exit__(self, *_):
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.wait(timeout=30)
        shutil.rmtree(self.folder, ignore_errors=True)


class Cluster(Single):
    """Three servers."""

    def __enter__(self):
        ports = free_ports(6)
        routes = ",".join("nats://127.0.0.1:%d" % port for port in ports[3:])
        for at in range(3):
            self.start(
                'server_name: n%d\nlisten: "127.0.0.1:%d"\njetstream { store_dir: "%s/js%d" }\n'
                'cluster { name: c, listen: "127.0.0.1:%d", routes: [%s] }\n'
                % (at, ports[at], self.folder, at, ports[3 + at], routes)
            )
        return self.connected(ports[0])
