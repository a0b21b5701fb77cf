"""A conversation from a seed."""
import json, random
import known, servers
from conversation import Conversation, Step

PATHS = ("/", "/nats", "/a/b?c=d", "/%7e")
SIDS = (b"1", b"2", b"3", b"x", b"-1", b"0001", b"a-name-that-is-longer-than-fourteen-bytes")
# A sid is used for one queue only: it tells which group got a message.
QUEUES = ((b"q", b"q1"), (b"q", b"q2"), (b"r", b"q3"), (b"q.*", b"q4"))
WORDS = (b"a", b"b", b"c", b"foo")
ODD_SUBJECTS = (
    b"a..b", b".a", b"a.", b"..", b"*", b">", b"a.*", b"a.>", b"a.>.b", b">.a", b"a*", b"*a.b", b"a>", "é.ü".encode(), b"a.\xff\xfe", b"a\x00b.c",
    b"a\x0bb", b"_INBOX.x", b"$SYS.x", b"_R_.x", b"$GR.x.y", b"_GR_.x", b"_GR_.", b"$NRG.x", b"$JS.ACK.x", b"a." * 20 + b"a", b"\x7f", b"a,b", b"a/b", b"'a'",
)
ODD_LINES = (
    b"\r\n", b"\n", b"PUB\r\n", b"PUB a\r\n", b"PUB a b c 1\r\nx\r\n", b"PUB a -1\r\n", b"PUB a x\r\n", b"PUB a 99999999999\r\n", b"PUB a 1234567890\r\n",
    b"PUB a 2\r\nx\r\n\r\n", b"PUB a 1\r\nxy\r\n", b"PUB a 1\r\nx\n", b"PUB a 1\r\nx\r\r\n", b"PUBa 1\r\nx\r\n", b"PUB a +1\r\nx\r\n", b"PUB a 1 \r\nx\r\n",
    b"HPUB a 12\r\n", b"HPUB a 13 12\r\n", b"HPUB a x 12\r\n", b"HPUB a b c 12 12\r\n", b"HPUB a 0 1\r\nx\r\n", b"HPUB a -1 1\r\n", b"HPUB\r\n",
    b"SUB\r\n", b"SUB \r\n", b"SUB a\r\n", b"SUB a b c d\r\n", b"SUBa 1\r\n", b"UNSUB\r\n", b"UNSUB \r\n", b"UNSUB 1 2 3\r\n", b"UNSUBx\r\n",
    b"CONNECT\r\n", b"CONNECT {}x\r\n", b"CONNECT []\r\n", b"CONNECT {\"verbose\":1}\r\n", b"CONNECT {\"name\":\"a\tb\"}\r\n", b"CONNECT{}\r\n", b"CONNECT null\r\n",
    b"CONNECT {\"protocol\":2}\r\n", b"CONNECT {\"protocol\":-1}\r\n", b"CONNECT {\"protocol\":1.5}\r\n", b"CONNECT {\"account\":\"x\"}\r\n", b"CONNECT {\"new_account\":true}\r\n",
    b"CONNECT {\"import\":1}\r\n", b"CONNECT {\"import\":{\"allow\":[1]}}\r\n", b"CONNECT {\"export\":{\"deny\":null}}\r\n", b"CONNECT {\"jwt\":\"x\",\"nkey\":\"y\",\"sig\":\"z\"}\r\n",
    b"CONNECT {\"name\":\"\xe9\"}\r\n", b"CONNECT {\"lang\":\"\\ud800x\"}\r\n", b"CONNECT {\"NAME\":null,\"Echo\":true}\r\n", b"CONNECT {\"no_responders\":true,\"headers\":false}\r\n",
    b"CONNECT \"x\"\r\n", b"CONNECT {\"a\":[[[[{}]]]],\"b\":1e400,\"c\":-0}\r\n", b"CONNECT {'a':1}\r\n", b"CONNECT {\"echo\":null,}\r\n",
    b"PING x\r\n", b"PINGPONG\r\n", b"PING\n", b"PONG\r\n", b"+OK\r\n", b"+OKAY\r\n", b"-ERR\r\n", b"-ERR 'x'\r\n", b"INFO {}\r\n", b"INFO x\r\n", b"INFO{}\r\n", b"INFO\r\n", b"INFO [1]\r\n",
    b"MSG a 1 1\r\nx\r\n", b"HMSG a 1 12 12\r\n", b"RS+ a\r\n", b"LS+ a\r\n", b"A+ a\r\n", b"RMSG a\r\n", b"GET / HTTP/1.1\r\n\r\n", b"\x00\r\n", b"\xff\xff\r\n", b" PING\r\n", b"P\x00NG\r\n",
    b"SUB a\rq\r9\r\n", b"SUB a\r9\r\r\n", b"SUB a 99\r\n", b"SUB a\r99\n", b"UNSUB 9\r1\r\n", b"UNSUB 9\r\r\n", b"PUB a\rb 1\r\nx\r\n", b"PUB a 1\r\r\nx\r\n", b"PUB a\r 12\nx\r\n", b"CONNECT {}\r\r\n",
    b"SUB a _sys_ 9\r\n", b"UNSUB 1 0\r\n", b"UNSUB 1 -1\r\n", b"UNSUB 1 x\r\n", b"UNSUB 1 99999999999\r\n", b"UNSUB nobody\r\n", b"UNSUB nobody 1\r\n",
)
HEADERS = (
    b"", b"a: b\r\n", b"A:b\r\na:  c \r\n", b"no colon\r\n", b": empty\r\n", b"Nats-Msg-Id: 00000000-%d\r\n", b"Nats-Expected-Stream: S\r\n", b"Nats-Expected-Stream: T\r\n", b"nats-rollup: all\r\n",
    b"Nats-Rollup: sub\r\n", b"Nats-Rollup:\r\n", b"Nats-TTL: 5\r\n", b"Nats-TTL: 1m\r\n", b"Nats-TTL: 0\r\n", b"Nats-TTL: 00\r\n", b"Nats-TTL: x\r\n", b"Nats-TTL: never\r\nNats-Rollup: x\r\n", b"Nats-Incr: 1\r\n",
    b"Nats-Incr: x\r\n", b"Nats-Batch-Id: b\r\n", b"Nats-Batch-Sequence: 1\r\n", b"Nats-Schedule: @every 5s\r\n", b"Nats-Schedule-Target: cap.b\r\n", b"Nats-Scheduler: cap.s\r\n",
    b"Nats-Schedule-Next: purge\r\nNats-Scheduler: cap.s\r\n", b"Nats-Stream-Source: x\r\n", b"Nats-Expected-Last-Subject-Sequence-Subject: cap.a\r\n", b"Nats-Expected-Last-Msg-Id: never-said\r\n",
    b"Nats-Expected-Last-Sequence:\r\n", b"X-Nats-Rollup: sub\r\n", b"Nats-Trace-Only: true\r\n", b"Kafka-Key: k\r\n", b"Nats-Trace-Dest: x..y\r\nNats-Trace-Only: on\r\n",
)
# Only while no client can hear the trace, which tailrace does not send.
TRACES = (b"Nats-Trace-Dest: nobody.hears\r\nNats-Trace-Only: 1\r\n", b"Nats-Trace-Dest: nobody.hears\r\nNats-Trace-Only: no\r\n")


def has_return(op):
    """A carriage return within the line, not at its end."""
    return b"\r" in op.split(b"\n", 1)[0][:-1]


class Draw:
    def __init__(self, seed):
        self.seed, self.random = seed, random.Random(seed)
        self.kind = self.random.choices(servers.KINDS, (5, 2, 3))[0]
        self.names = "ABCD"[: self.random.choice((1, 2, 2, 3, 3, 4))]
        self.ways = {name: self.way() for name in self.names}
        self.said, self.message = set(), 0
        # The connection that hears acknowledgements.
        self.hears = set()
        # Some connection may be subscribed to everything.
        self.is_wide = False

    def chance(self, part):
        return self.random.random() < part

    def pick(self, *choices):
        return self.random.choice(choices)

    def way(self):
        if not self.chance(0.2):
            return ("tcp",)
        lines = [["Sec-WebSocket-Protocol: nats"], [], ["Origin: http://localhost"]][self.random.randrange(2)]
        return ("ws", self.pick(*PATHS), [self.random.choice((1, 7, 100, 4000)) for _ in range(3)], lines)

    def conversation(self):
        steps = []
        for _ in range(self.random.randrange(4, 16)):
            who = self.pick(*self.names)
            if who not in self.said:
                self.said.add(who)
                steps += self.hello(who)
            steps += self.turn(who)
        conversation = Conversation(self.seed, self.kind, self.ways, steps)
        if self.chance(0.06):
            known.add(self, conversation)
        return conversation

    # ---- steps ----

    def hello(self, who):
        ops = [] if self.kind != "users" and self.chance(0.15) else [self.connect(first=True)]
        if self.kind == "plain" and self.chance(0.7):
            ops.append(b"SUB ack.%s.* ack\r\n" % who.encode())
            self.hears.add(who)
        if self.chance(0.5):
            ops.append(b"SUB in.%s.* in\r\n" % who.encode())
        return [Step(who, "says", ops)] if ops else []

    def turn(self, who):
        draw = self.random.random()
        if draw < 0.05:
            self.said.discard(who)
            self.hears.discard(who)
            # A name that leaves does not come back: its connection is over.
            self.names = self.names.replace(who, "") or self.another()
            return [Step(who, "leaves")]
        if draw < 0.10:
            return self.split(who)
        if draw < 0.30 and self.kind == "plain":
            return [self.captured(who)]
        count = self.pick(1, 1, 2, 3, 6)
        ops = [self.operation(who) for _ in range(count)]
        # nats-server closes the connection for it, and still carries out what it has read.
        complaint = next((at for at, op in enumerate(ops) if op.startswith(b"-ERR ")), len(ops))
        ops = ops[: complaint + 1]
        if self.ways[who][0] == "ws":
            # Before it closes a WebSocket, nats-server loses its last output, and with it what came before in
            # the same write.
            ops = next(([op] for op in ops if op in ODD_LINES), ops)
            # A carriage return in the middle of a line is lost if a frame ends within the line.
            ops = [op for op in ops if not has_return(op)] or [b"PING\r\n"]
        # nats-server also loses it, or the byte after it, at the end of what it reads at once: 64 bytes, or
        # twice as many, and so on.
        ops = next(([op] for op in ops if has_return(op)), ops)
        return [Step(who, "says", ops)]

    def another(self):
        name = chr(ord(max(self.ways)) + 1)
        self.ways[name] = self.way()
        return name

    def split(self, who):
        """A write that ends in the middle of an operation, and the rest of it."""
        op = self.operation(who, odd=0.02)
        if len(op) < 2 or has_return(op):
            return [Step(who, "says", [op])]
        at = self.random.randrange(1, len(op))
        return [Step(who, "says", [op[:at]], is_open=True), Step(who, "says", [op[at:]])]

    def captured(self, who):
        subject = self.pick(b"cap.a", b"cap.b", b"cap.a.b")
        self.message += 1
        reply = b"ack.%s.%04d" % (who.encode(), self.message) if who in self.hears and self.chance(0.8) else None
        op = self.publish(subject, reply, headers=0.6)
        return Step(who, "says", [op], acks=(reply,) if reply else ())

    # ---- operations ----

    def operation(self, who, odd=0.07):
        draw = self.random.random()
        if draw < odd:
            self.hears.discard(who)
            return self.pick(*ODD_LINES)
        if draw < odd + 0.02:
            self.hears.discard(who)
            return self.connect(first=False)
        if draw < odd + 0.03:
            return b"".join(b"UNSUB %s\r\n" % sid for sid in (*SIDS, *(sid for _, sid in QUEUES), b"in"))
        if draw < 0.32:
            return self.subscribe()
        if draw < 0.40:
            return self.unsubscribe()
        if draw < 0.44:
            return self.pick(b"PING\r\n", b"ping\r\n", b"PONG\r\n", b"+OK\r\n", b"PING \t\r\n")
        return self.publish(self.subject(), self.reply(who))

    def connect(self, first):
        options = {}
        if first:
            options = {"verbose": self.chance(0.25), "pedantic": self.chance(0.25)}
            if self.chance(0.75):
                options |= {"headers": True} | ({"no_responders": True} if self.chance(0.5) else {})
        for name, values in (("echo", (True, False)), ("protocol", (0, 1)), ("name", ("x", "é", None)), ("lang", ("go",)), ("tls_required", (True, False)), ("colour", ([1, {}],))):
            if self.chance(0.3):
                options[name] = self.pick(*values)
        if not first:
            for name in ("verbose", "pedantic", "headers", "no_responders"):
                if self.chance(0.2):
                    options[name] = self.pick(True, False, None)
        if self.kind == "users" and first:
            name = self.pick("root", "root", *servers.USERS)
            options |= {"user": name, "pass": servers.USERS[name][0] if self.chance(0.95) else "wrong"}
        if self.kind == "users" and not first and self.chance(0.2):
            options |= {"pass": "wrong"}
        if self.kind != "users" and self.chance(0.1):
            options |= {"user": "somebody", "pass": "something", "auth_token": "t"}
        return b"CONNECT " + json.dumps(options, ensure_ascii=self.chance(0.5)).encode() + b"\r\n"

    def line(self, words):
        """A control line, written in one of the ways in which it may be."""
        if self.chance(0.85):
            return b" ".join(words) + b"\r\n"
        verb = self.pick(words[0], words[0].lower(), words[0].title())
        blank = self.pick(b" ", b"\t", b"  ", b" \t ")
        return blank.join([verb, *words[1:]]) + self.pick(b"", b" ", b"\t") + self.pick(b"\r\n", b"\n")

    def subscribe(self):
        subject = self.subject(wildcards=0.4)
        self.is_wide |= subject[:1] in (b"*", b">")
        if self.chance(0.25):
            return self.line([b"SUB", subject, *self.pick(*QUEUES)])
        return self.line([b"SUB", subject, self.pick(*SIDS)])

    def unsubscribe(self):
        if self.chance(0.2):
            return self.line([b"UNSUB", self.pick(*QUEUES)[1]])
        more = [self.pick(b"1", b"2", b"3")] if self.chance(0.5) else []
        return self.line([b"UNSUB", self.pick(*SIDS), *more])

    def subject(self, wildcards=0.0):
        if self.chance(0.08):
            odd = self.pick(*ODD_SUBJECTS)
            # A pattern that ends with ">" is admitted by another rule (known.py).
            return odd if self.kind != "users" or b".>" not in odd else b"a.b"
        if self.kind == "users" and self.chance(0.6):
            return self.pick(b"a.b", b"a.secret", b"a.deny", b"b", b"b.c", b"c", b"c.x", b"in.A.x", b"a.*" if wildcards else b"a.x", b">" if wildcards else b"a.y")
        if self.kind == "small" and self.chance(0.1):
            return b"a" * self.random.randrange(110, 132)
        words = [self.pick(*WORDS) for _ in range(self.pick(1, 1, 2, 2, 3, 4))]
        if self.chance(wildcards):
            words[self.random.randrange(len(words))] = b"*"
        if self.chance(wildcards / 2) and (self.kind != "users" or len(words) == 1):
            words[-1] = b">"
        return b".".join(words)

    def reply(self, who):
        draw = self.random.random()
        if draw < 0.7:
            return None
        if draw < 0.92:
            return b"in.%s.%d" % (self.pick(who, *self.names).encode(), self.random.randrange(3))
        return self.subject()

    def publish(self, subject, reply, headers=0.3):
        payload = self.payload()
        if not self.chance(headers):
            words = [b"PUB", subject, *([reply] if reply else []), b"%d" % len(payload)]
            return self.line(words) + payload + b"\r\n"
        block = self.block()
        length = len(block) + len(payload)
        words = [b"HPUB", subject, *([reply] if reply else []), b"%d" % len(block), b"%d" % length]
        return self.line(words) + block + payload + b"\r\n"

    def block(self):
        lines = self.pick(*(HEADERS if self.is_wide or self.chance(0.95) else TRACES))
        if b"%d" in lines:
            self.message += 1
            # The player puts its own number into the zeros: a repeated play must not be a duplicate.
            lines %= self.message * 1_000_000 + self.seed
        if self.chance(0.05):
            return self.pick(b"abc", b"NATS/1.0", b"NATS/1.0\r\n", b"NATS/1.0\r\n" + lines, b"HTTP/1.1\r\n" + lines + b"\r\n", b"nats/1.0\r\n\r\n")
        status = self.pick(*[b""] * 9, b" 503", b" 100 Idle")
        return b"NATS/1.0" + status + b"\r\n" + lines + b"\r\n"

    def payload(self):
        self.message += 1
        text = b"m%d" % self.message
        draw = self.random.random()
        if draw < 0.1:
            return b""
        if draw < 0.15:
            return text + self.pick(b"\r\n", b"\x00\xff", b"\r\nPING\r\n", b"PUB a 1\r\n")
        if draw < 0.17:
            return text + b"x" * self.pick(40, 60, 64, 100, 40_000, 70_000)
        return text


def conversation(seed):
    return Draw(seed).conversation()
