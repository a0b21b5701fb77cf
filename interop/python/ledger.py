"""Compares what a group's members reported with what at-least-once delivery allows."""
from collections import defaultdict
from harness import Failure


def judge(members, ends, exclusive=True):
    """
    `ends` gives each partition's log end offset. Raises a Failure if a record was never seen; if a member
    that took a partition over started after a record that no member had seen, or before an offset whose
    commit was acknowledged earlier; if a member skipped or repeated records while it owned a partition; or
    (`exclusive`) if two owned a partition at the same time.
    """
    events = sorted(((e[0], who, e[1], e[2:]) for who, m in enumerate(members) for e in m.saw("assigned", "revoked", "lost", "left", "got", "committed")), key=lambda e: e[0])
    owner, seen, committed = {}, defaultdict(int), defaultdict(int)
    floor, cursor = {}, {}
    for at, who, event, words in events:
        if event == "assigned":
            for p in map(int, words):
                if exclusive and owner.get(p, who) != who:
                    raise Failure(f"partition {p} went to member {who} while member {owner[p]} had it")
                owner[p] = who
                floor[who, p] = committed[p]
                cursor.pop((who, p), None)
        elif event in ("revoked", "lost", "left"):
            for p in (list(owner) if event == "left" else map(int, words)):
                if owner.get(p) == who:
                    del owner[p]
        elif event == "got":
            p, first, last = map(int, words)
            due = cursor.get((who, p))
            if due is not None and first != due:
                raise Failure(f"partition {p}: member {who} got {first} where {due} was due")
            if due is None and first > seen[p]:
                raise Failure(f"partition {p}: member {who} started at {first}, but no member has seen {seen[p]}")
            if due is None and first < floor.get((who, p), 0):
                raise Failure(f"partition {p}: member {who} began at {first}, {floor[who, p]} was committed before it took over")
            cursor[who, p] = last + 1
            seen[p] = max(seen[p], last + 1)
        else:
            p, offset = map(int, words)
            committed[p] = max(committed[p], offset)
    for p, end in ends.items():
        if seen[p] != end:
            raise Failure(f"partition {p}: seen up to {seen[p]} of {end}")
