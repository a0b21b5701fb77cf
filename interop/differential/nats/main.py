"""Run by interop/differential/nats.sh: draws conversations, plays each with both servers, and reports
differences."""
import argparse, os, sys, time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
import draw, known, normal, play, servers
from conversation import escaped, shortened

QUICK_SECONDS = 30
# After this many attempts, a known difference that never showed counts as gone.
TRIED_ENOUGH = 5
# Number of differences to show. If there are more, something is wrong as a whole.
SHOWN_MAX = 5


class Comparison:
    def __init__(self, work):
        self.pairs = {}
        self.pool = ThreadPoolExecutor(2)
        try:
            for kind in servers.KINDS:
                self.pairs[kind] = servers.Pair(kind, work)
                for server in self.pairs[kind].servers:
                    server.own_subscriptions = server.subscriptions()
        except BaseException:
            self.stop()
            raise

    def stop(self):
        for pair in self.pairs.values():
            pair.stop()

    def play(self, conversation, patience=play.PATIENCE):
        """What nats-server sent, what tailrace sent, and whether an answer was missing."""
        both = self.pairs[conversation.kind].servers
        (theirs, missing), (ours, missing_too) = self.pool.map(lambda server: play.play(conversation, server, patience), both)
        for server in both:
            if not server.is_running():
                raise RuntimeError(f"{server.name} is gone")
        return theirs, ours, missing or missing_too

    def difference(self, conversation):
        """What both sent, if that differs. Waits once more for a late answer."""
        theirs, ours, missing = self.play(conversation)
        if missing and not normal.same(theirs, ours):
            theirs, ours, _ = self.play(conversation, play.MORE_PATIENCE)
        return None if normal.same(theirs, ours) else (theirs, ours)


    def seems_to_differ(self, conversation):
        """The same without waiting once more: good enough to look for a shorter conversation."""
        theirs, ours, _ = self.play(conversation)
        return not normal.same(theirs, ours)


class Run:
    def __init__(self, comparison):
        self.comparison = comparison
        self.count = self.steps = self.failed = 0
        self.tried, self.happened = Counter(), Counter()

    def one(self, seed):
        conversation = draw.conversation(seed)
        names = conversation.known()
        self.count, self.steps = self.count + 1, self.steps + len(conversation.steps)
        self.tried.update(names)
        found = self.comparison.difference(conversation)
        if found and names:
            rest = conversation.without_known()
            if not rest.steps or not self.comparison.difference(rest):
                self.happened.update(names)
                return
            conversation = rest
        if found:
            self.tell(conversation, found)

    def tell(self, conversation, found):
        self.failed += 1
        if self.failed > SHOWN_MAX:
            return
        again = self.comparison.difference(conversation)
        if again is None:
            print(f"FAIL seed {conversation.seed}: differed once, and not when it was played again")
        else:
            shorter = shortened(conversation, self.comparison.seems_to_differ)
            if (found := self.comparison.difference(shorter)) is None:
                # It was only late.
                shorter, found = conversation, again
            conversation = shorter
            print(f"FAIL seed {conversation.seed}: the shortest conversation that differs:")
        print(conversation.script())
        show(*found)
        sys.stdout.flush()


def show(theirs, ours):
    for name in sorted(theirs.keys() | ours.keys()):
        left, right = theirs.get(name), ours.get(name)
        if normal.alike(left, right):
            continue
        print(f"-- {name}")
        for server, came in (("nats-server", left), ("tailrace", right)):
            print(f"{server:>11}: {shown(came)}")


def shown(came):
    if isinstance(came, bytes):
        return escaped(came[:400])
    if isinstance(came, (list, tuple)):
        return "[" + ", ".join(map(shown, came)) + "]"
    if isinstance(came, dict):
        return "{" + ", ".join(f"{name}: {shown(value)}" for name, value in came.items()) + "}"
    return str(came)


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--list", action="store_true")
    return parser.parse_args()


def gone(run):
    """Known differences that were tried and did not show."""
    return [name for name in known.DIFFERENCES if run.tried[name] >= TRIED_ENOUGH and not run.happened[name]]


def main():
    options = arguments()
    if options.list:
        for name, (why, *_) in known.DIFFERENCES.items():
            print(f"{name}: {why}")
        return 0
    only = options.seed is not None and not options.quick and options.minutes is None
    seed = options.seed if options.seed is not None else 1 if options.minutes is None else time.time_ns() // 1_000_000
    seconds = options.minutes * 60 if options.minutes is not None else QUICK_SECONDS
    comparison = Comparison(Path(os.environ["DIFFERENTIAL_WORK"]))
    run = Run(comparison)
    try:
        if only:
            print(draw.conversation(seed).script())
            run.one(seed)
        else:
            print(f"conversations from seed {seed} on, for {seconds:.0f} s")
            sys.stdout.flush()
            end = time.monotonic() + seconds
            while time.monotonic() < end and run.failed < SHOWN_MAX:
                run.one(seed + run.count)
    finally:
        comparison.stop()
    done = f"{run.count} conversations of {run.steps} steps, {sum(run.happened.values())} with a known difference"
    print(", ".join(f"{name} {run.happened[name]}/{run.tried[name]}" for name in known.DIFFERENCES if run.tried[name]))
    for name in gone(run):
        print(f"{'FAIL' if options.minutes is not None else 'NOTE'} {name} no longer differs: take it off the list (interop/differential/nats/known.py)")
        run.failed += options.minutes is not None
    print(f"{'FAIL' if run.failed else 'PASS'} differential nats: {done}, {run.failed} failures")
    return 1 if run.failed else 0


if __name__ == "__main__":
    sys.exit(main())
