"""Differences that are known, documented, and to become fewer.

Each is a step that shows it, sent by a connection of its own. A conversation with such steps that differs is
played again without them, and must not differ then. So no other difference hides behind these.
"""
from conversation import Step

CONNECT = b'CONNECT {"verbose":false,"pedantic":false,"headers":true}\r\n'


def hpub(subject, reply, lines, payload=b"x"):
    block = b"NATS/1.0\r\n" + lines + b"\r\n"
    return b"HPUB %s %s%d %d\r\n%s%s\r\n" % (subject, reply + b" " if reply else b"", len(block), len(block) + len(payload), block, payload)


def ask(lines):
    """Publishes to the topic that captures, and hears the answer."""
    return [[CONNECT, b"SUB ack.K.* ack\r\n"], [hpub(b"cap.k", b"ack.K.1", lines)]], (b"ack.K.1",)


# name: (reason, kinds of settings in which it shows, what is sent, subjects at which answers come)
DIFFERENCES = {
    "leading-zeros": (
        "A size that was published with leading zeros is delivered without them (docs/nats.md): tailrace keeps numbers, not their digits.",
        None, lambda: ([[CONNECT, b"SUB k.zeros 1\r\nPUB k.zeros 002\r\nhi\r\n"]], ()),
    ),
    "line-feed-behind-a-verb": (
        "nats-server takes a line feed directly behind `SUB ` for the first byte of the arguments, so that the line goes on. tailrace ends the line.",
        None, lambda: ([[CONNECT, b"SUB \nk.feed 1\r\nPUB k.feed 1\r\nx\r\n"]], ()),
    ),
    "info-of-a-client": (
        "nats-server closes when a field of INFO that a client sends has the wrong type. tailrace looks whether it is an object: nobody uses what it says.",
        None, lambda: ([[CONNECT, b'INFO {"port":"x"}\r\n']], ()),
    ),
    "pedantic-before-the-payload": (
        "nats-server says `Invalid Publish Subject` when it has read the line of PUB, tailrace when it has the payload: if that has no line end, never.",
        None, lambda: ([[b'CONNECT {"verbose":false,"pedantic":true}\r\nPUB k..k 1\r\nxx\r\n']], ()),
    ),
    "expected-sequence": (
        "tailrace does not look at expected sequences yet, and refuses them (10164, docs/mapping.md); nats-server compares them.",
        ("plain",), lambda: ask(b"Nats-Expected-Last-Sequence: 0\r\n"),
    ),
    "expected-subject-sequence": (
        "The same of the last sequence of a subject.",
        ("plain",), lambda: ask(b"Nats-Expected-Last-Subject-Sequence: 77777777\r\n"),
    ),
    "duplicates": (
        "A repeated Nats-Msg-Id is stored again (docs/mapping.md); nats-server answers `duplicate`.",
        ("plain",), lambda: ([[CONNECT, b"SUB ack.K.* ack\r\n"], [hpub(b"cap.k", b"ack.K.1", b"Nats-Msg-Id: same\r\n")], [hpub(b"cap.k", b"ack.K.2", b"Nats-Msg-Id: same\r\n")]], (b"ack.K.1",)),
    ),
    "expected-message-id": (
        "tailrace does not know the id of the last message, and refuses; nats-server compares.",
        ("plain",), lambda: ([[CONNECT, b"SUB ack.K.* ack\r\n", hpub(b"cap.k", b"", b"Nats-Msg-Id: last-one\r\n")], [hpub(b"cap.k", b"ack.K.1", b"Nats-Expected-Last-Msg-Id: last-one\r\n")]], (b"ack.K.1",)),
    ),
    "large-headers": (
        "A stream of nats-server takes header blocks up to 64 KiB (10097), a topic up to the payload's limit.",
        ("plain",), lambda: ask(b"a: " + b"x" * 70_000 + b"\r\n"),
    ),
    "time-zones": (
        "nats-server refuses Nats-Schedule-Time-Zone of a zone that it does not know even without a schedule; tailrace has no list of zones.",
        ("plain",), lambda: ask(b"Nats-Schedule-Time-Zone: Nowhere/Else\r\n"),
    ),
    "traces": (
        "tailrace sends no traces to Nats-Trace-Dest (docs/nats.md).",
        None, lambda: ([[CONNECT, b"SUB k.trace 1\r\n", hpub(b"k.traced", b"", b"Nats-Trace-Dest: k.trace\r\n")]], ()),
    ),
    "trace-of-old-servers": (
        "nats-server rewrites Nats-Trace-Dest of a message with Nats-Trace-Origin-Account. tailrace changes no header block.",
        None, lambda: ([[CONNECT, b"SUB k.old 1\r\n", hpub(b"k.old", b"", b"Nats-Trace-Dest: x\r\nNats-Trace-Origin-Account: y\r\n")]], ()),
    ),
    "star-lets-in-everything-below": (
        "Who may subscribe to `a.*` may subscribe to `a.>` in nats-server, which takes the `>` for a word there, and then hears `a.b.c`. In tailrace he may not.",
        ("users",), lambda: ([[b'CONNECT {"verbose":false,"user":"sub","pass":"s"}\r\nSUB a.> 1\r\n']], ()),
    ),
    "somebody-else": (
        "A second CONNECT with the credentials of another user makes the connection his in nats-server. In tailrace it stays whose it was (docs/nats.md).",
        ("users",), lambda: ([[b'CONNECT {"verbose":false,"user":"root","pass":"r00t"}\r\nCONNECT {"user":"deny","pass":"d"}\r\nPUB a.b 1\r\nx\r\n']], ()),
    ),
}


def add(draw, conversation):
    """Inserts one of them somewhere into a conversation."""
    fitting = [name for name, (_, kinds, _) in DIFFERENCES.items() if kinds is None or conversation.kind in kinds]
    name = draw.pick(*fitting)
    says, acks = DIFFERENCES[name][2]()
    conversation.ways["K"] = ("tcp",)
    if conversation.kind == "users":
        says = [[op.replace(b"CONNECT {", b'CONNECT {"user":"root","pass":"r00t",', 1) if b'"user"' not in op else op for op in ops] for ops in says]
    at = draw.random.randrange(len(conversation.steps) + 1)
    steps = [Step("K", "says", ops, acks=acks if number == len(says) - 1 else (), known=(name,)) for number, ops in enumerate(says)]
    conversation.steps[at:at] = steps
