"""The writes of a conversation, their order, and their connections.

A conversation is a list of steps. A step is one write of one connection, or its end. A connection is opened
when it is first named. A write consists of operations (bytes), so that a failing conversation can be
shortened by leaving some out.
"""
import time
from dataclasses import dataclass, field


@dataclass
class Step:
    who: str
    # "says", "leaves"
    act: str
    ops: list = field(default_factory=list)
    # The last operation is incomplete: no PING can follow.
    is_open: bool = False
    # Subjects at which acknowledgements of captured messages must come before the next step.
    acks: tuple = ()
    # Names of known differences that it may show.
    known: tuple = ()


@dataclass
class Conversation:
    seed: int
    kind: str
    # How each connection connects: name -> ("tcp",) or ("ws", path, sizes of frames)
    ways: dict
    steps: list

    def with_steps(self, steps):
        return Conversation(self.seed, self.kind, self.ways, steps)

    def known(self):
        return sorted({name for step in self.steps for name in step.known})

    def without_known(self):
        return self.with_steps([step for step in self.steps if not step.known])

    def script(self):
        """Formats the step as the scripts of crates/server/tests/nats/conversations do."""
        lines = [f"# seed {self.seed}, settings: {self.kind}"]
        for name, way in sorted(self.ways.items()):
            if way[0] != "tcp" and any(step.who == name for step in self.steps):
                lines.append(f"# {name} comes by WebSocket at {way[1]}")
        for step in self.steps:
            lines.append(f"{step.who} leaves" if step.act == "leaves" else f"{step.who} > {escaped(b''.join(step.ops))}")
        return "\n".join(lines)


def escaped(data):
    names = {13: "\\r", 10: "\\n", 9: "\\t", 92: "\\\\"}
    return "".join(names.get(byte) or (chr(byte) if 32 <= byte < 127 else f"\\x{byte:02x}") for byte in data)


# The search for the shortest conversation ends after this time with the shortest so far.
SHORTENING_SECONDS_MAX = 60


def shortened(conversation, differs):
    """Leaves out steps, then operations, as long as the conversation still differs. Nothing can be left out
    of the result."""
    end = time.monotonic() + SHORTENING_SECONDS_MAX

    def try_steps(steps):
        return bool(steps) and time.monotonic() < end and differs(conversation.with_steps(steps))

    steps = list(conversation.steps)
    size = max(1, len(steps) // 2)
    while size:
        at = 0
        while at < len(steps):
            fewer = steps[:at] + steps[at + size :]
            if try_steps(fewer):
                steps = fewer
            else:
                at += size
        size //= 2
    for at in range(len(steps)):
        op = 0
        while op < len(steps[at].ops) and len(steps[at].ops) > 1:
            was = steps[at]
            ops = was.ops[:op] + was.ops[op + 1 :]
            steps[at] = Step(was.who, was.act, ops, was.is_open and op < len(was.ops) - 1, was.acks, was.known)
            if not try_steps(steps):
                steps[at] = was
                op += 1
    return conversation.with_steps(steps)
