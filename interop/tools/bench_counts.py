"""Judges a result of `tailrace bench run -o json`: bench_counts.py MESSAGES a|r|ar < RESULT

Each of the MESSAGES that were due must have been sent, have come back once (r), and have been acknowledged
(a), and nothing else may have happened. Otherwise prints what was wrong, and ends with status 1. Does not
check whether the generator was punctual, because the machine may be busy.
"""
import json
import sys

WRONG = ["unsent", "duplicates", "reordered", "lost", "corrupt", "foreign", "unknown", "broken_connections"]


def faults(result, messages, expected):
    counts, latency = result["counts"], result["latency"]
    acknowledged, received = messages * ("a" in expected), messages * ("r" in expected)
    wanted = {"due": messages, "sent": messages, "acknowledged": acknowledged, "received": received}
    wanted.update(dict.fromkeys(WRONG, 0))
    for name, number in wanted.items():
        if counts[name] != number:
            yield f"{name} is {counts[name]}, not {number}"
    for name, number in [("acknowledgement", acknowledged), ("receipt", received)]:
        timed = latency.get(name, {"count": 0})["count"]
        if timed != number:
            yield f"{timed} of {name} timed, not {number}"
    for name in latency:
        if name not in ("acknowledgement", "receipt", "lateness", "held"):
            yield f"there is {name}"
    for name in ("failures", "refusals"):
        yield from result[name]


def main():
    found = list(faults(json.load(sys.stdin), int(sys.argv[1]), sys.argv[2]))
    print("; ".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
