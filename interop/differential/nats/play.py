"""Plays a conversation with one server, and records what each connection got.

After each write the connection sends a PING and waits for its PONG; then every other connection does the
same. So everything that the write caused has arrived before the next one, and the PONGs in the record show
when it came. A connection in the middle of an operation sends no PING.
"""
import itertools, re, selectors, socket, time
import normal, wire

# An answer that takes longer counts as missing. A conversation with a missing answer is played again with
# more patience.
PATIENCE, MORE_PATIENCE = 0.5, 8.0
# Time without input after which a connection that cannot send PING counts as quiet.
QUIET = 0.02


class Person:
    """One connection."""

    def __init__(self, name, server, way, patience):
        self.name, self.patience, self.is_ws = name, patience, way[0] == "ws"
        self.way = way
        self.received, self.payload, self.found, self.control = bytearray(), bytearray(), [], []
        self.ended, self.is_open, self.missing = False, False, False
        self.subscriptions, self.said = {}, b""
        self.takes_headers = True
        self.socket = socket.create_connection(("127.0.0.1", server.ws if self.is_ws else server.port), timeout=20)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        self.head = None
        if self.is_ws:
            self.write(wire.upgrade(way[1], way[3]))
            self.until(lambda: self.head is not None)
            if self.head != 101:
                self.ended = True
        self.until(lambda: self.found)

    def write(self, data):
        try:
            self.socket.setblocking(True)
            self.socket.sendall(data)
        except OSError:
            pass
        finally:
            self.socket.setblocking(False)

    def say(self, data):
        if not self.is_ws:
            return self.write(data)
        sizes, at, out, first = self.way[2], 0, b"", True
        while at < len(data) or first:
            end = at + sizes[at % len(sizes)]
            # nats-server's treatment of a CR that ends no line depends on where frames end, so such a line
            # goes in one frame.
            begin, stop = data.rfind(b"\n", 0, end) + 1, data.find(b"\n", end) + 1 or len(data)
            if b"\r" in data[begin : stop - 2]:
                end = stop
            out += wire.masked(data[at:end], 2 if first else 0, end >= len(data))
            first, at = False, end
        self.write(out)

    def read(self, wait):
        """Returns true if something came."""
        if self.ended:
            return False
        with selectors.DefaultSelector() as selector:
            selector.register(self.socket, selectors.EVENT_READ)
            if not selector.select(wait):
                return False
        try:
            data = self.socket.recv(1 << 20)
        except OSError:
            data = b""
        if not data:
            self.ended = True
            return False
        self.received += data
        self.take()
        return True

    def take(self):
        if not self.is_ws:
            self.payload += self.received
            self.received.clear()
            self.found += wire.frames(self.payload)
            return
        if self.head is None:
            end = self.received.find(b"\r\n\r\n")
            if end < 0:
                return
            self.head = int(self.received.split(b" ", 2)[1])
            del self.received[: end + 4]
            if self.head != 101:
                return
        for opcode, payload in wire.unmasked(self.received):
            if opcode in (0, 1, 2):
                self.payload += payload
            elif opcode == 8:
                self.control.append(("closes", int.from_bytes(payload[:2], "big")))
            else:
                self.control.append(("frame", opcode, payload))
        self.found += wire.frames(self.payload)

    def until(self, there):
        end = time.monotonic() + self.patience
        while not there() and not self.ended:
            left = end - time.monotonic()
            if left <= 0:
                self.missing = True
                return
            self.read(left)

    def pongs(self):
        return sum(1 for verb, _ in self.found if verb == "PONG")

    def ask(self):
        """Sends PING and waits for the PONG."""
        if self.ended or self.is_open:
            return
        before = self.pongs()
        self.say(b"PING\r\n")
        self.until(lambda: self.pongs() > before)

    def rest(self):
        while self.read(QUIET):
            pass


PLAYS = itertools.count(1)


def play(conversation, server, patience=PATIENCE):
    """What came, in a form in which two servers can be compared, and whether an answer was missing."""
    people, number = {}, next(PLAYS)
    try:
        for step in conversation.steps:
            person = people.get(step.who)
            if person is None:
                person = people[step.who] = Person(step.who, server, conversation.ways[step.who], patience)
            was = person.ended
            take_step(person, step, number)
            if person.ended and not was:
                await_end(server, people)
            for other in people.values():
                if other is not person:
                    other.ask()
                    if other.is_open:
                        other.rest()
        for person in people.values():
            # Deliveries to a connection in the middle of an operation, and an end that is on its way.
            person.rest()
        missing = any(person.missing for person in people.values())
        return normal.transcript(people, number), missing
    finally:
        for person in people.values():
            person.socket.close()
        settle(server)


def take_step(person, step, number):
    if step.act == "leaves":
        person.socket.close()
        person.ended = person.is_open = True
        return
    if person.ended:
        return
    data = with_number(b"".join(step.ops), number)
    person.is_open = step.is_open
    note_subscriptions(person, data if step.is_open else data + b"PING\r\n")
    if step.is_open:
        person.say(data)
        person.rest()
        return
    before = person.pongs() + data.upper().count(b"PING")
    person.say(data + b"PING\r\n")
    person.until(lambda: person.pongs() > before or person.ended)
    for subject in (with_number(subject, number) for subject in step.acks):
        person.until(lambda: any(verb in ("MSG", "HMSG") and line.split(b" ")[1] == subject for verb, line in person.found))


def with_number(data, number):
    """Names of acknowledgements and ids of messages must belong to this play, because nats-server has a
    duplicate window."""
    data = re.sub(rb"\back\.", b"ack%d." % number, data)
    return data.replace(b"Nats-Msg-Id: 00000000-", b"Nats-Msg-Id: %08d-" % number)


SUB = re.compile(rb"SUB[ \t\r]+([^ \t\r\n]+)[ \t\r]+(?:([^ \t\r\n]+)[ \t\r]+)?([^ \t\r\n]+)[ \t\r]*\r?\n", re.I)


CONNECT = re.compile(rb"CONNECT([^\r\n]*)", re.I)
TAKES_HEADERS = re.compile(rb'"headers": *true', re.I)


def note_subscriptions(person, data):
    """Which sids may be members of a queue group, and whether its headers are left out of what the client
    gets."""
    if any(not TAKES_HEADERS.search(options) for options in CONNECT.findall(data)):
        person.takes_headers = False
    # A line may come in two steps.
    person.said += data
    for _, queue, sid in SUB.findall(person.said):
        person.subscriptions.setdefault(sid, set()).add(queue)


def await_end(server, people):
    """Waits until the server has finished with a connection that ended, and with its subscriptions."""
    end, left = time.monotonic() + MORE_PATIENCE, sum(not person.ended for person in people.values())
    while server.connections() > left and time.monotonic() < end:
        time.sleep(0.001)
    before = None
    while (now := server.subscriptions()) != before and time.monotonic() < end:
        before = now


def settle(server):
    """Waits until the server has forgotten the subscriptions of a conversation: they must not answer the next
    one's requests."""
    end = time.monotonic() + MORE_PATIENCE
    while server.subscriptions() > server.own_subscriptions:
        if time.monotonic() > end:
            raise RuntimeError(f"{server.name} keeps subscriptions of connections that are gone")
        time.sleep(0.001)
