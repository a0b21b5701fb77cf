"""Random conversations with real Kafka and with tailrace, side by side: see ../kafka.sh."""
import argparse, json, random, signal, sys, time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
import generate, known
from side import Side, schema
from world import READS, World, fresh_prefix

LENGTH = 45
EQUAL_SECONDS_MAX = 10
SHRINK_SECONDS_MAX = {"quick": 15, "long": 120}
# In a quick run, the number of the conversation with a restart; in a long one, the interval between them.
RESTART_AT, RESTART_EVERY = 2, 12


class Difference:
    def __init__(self, number, operation, kafka, tailrace):
        self.number, self.operation, self.kafka, self.tailrace = number, operation, kafka, tailrace

    def same_kind(self, other):
        return other is not None and self.operation[0] == other.operation[0]

    def __str__(self):
        return f"{self.operation[0]} {json.dumps(self.operation[1])}\n    kafka:    {json.dumps(self.kafka)}\n    tailrace: {json.dumps(self.tailrace)}"


class Play:
    def __init__(self, sides, verbose):
        self.sides, self.verbose = sides, verbose
        self.pool = ThreadPoolExecutor(2)
        self.met, self.done = Counter(), Counter()

    def both(self, worlds, operation):
        kafka, tailrace = self.pool.map(lambda world: world.do(operation), worlds)
        end = time.monotonic() + EQUAL_SECONDS_MAX
        while operation[0] in READS and kafka != tailrace and known.which(operation, kafka, tailrace) is None and time.monotonic() < end:
            time.sleep(0.02)
            kafka, tailrace = self.pool.map(lambda world: world.do(operation), worlds)
        return kafka, tailrace

    def conversation(self, operations):
        """The first difference that is not known. None if there is none."""
        prefix = fresh_prefix()
        restarts = any(name == "restart" for name, _ in operations)
        worlds = [World(side, prefix, restarts) for side in self.sides]
        for number, operation in enumerate(operations):
            kafka, tailrace = self.both(worlds, operation)
            self.done[operation[0]] += 1
            if self.verbose:
                print(f"  {number} {operation} {kafka} {'' if kafka == tailrace else tailrace}", flush=True)
            if kafka == tailrace:
                continue
            name = known.which(operation, kafka, tailrace)
            if name is None:
                return Difference(number, operation, kafka, tailrace)
            self.met[name] += 1
            if name in known.PARTING:
                return None
        return None

    def shrink(self, operations, difference, seconds):
        """Leaves out the operations that the difference does not need."""
        operations = operations[:difference.number + 1]
        end, step = time.monotonic() + seconds, len(operations) // 2
        while step:
            at = 0
            while at < len(operations) - 1 and time.monotonic() < end:
                shorter = operations[:at] + operations[min(at + step, len(operations) - 1):]
                found = self.conversation(shorter)
                if difference.same_kind(found):
                    operations, difference = shorter[:found.number + 1], found
                else:
                    at += step
            step //= 2
        return operations, difference


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--seconds", type=float, default=60, help="of a quick run, the start of the servers included")
    parser.add_argument("--only", type=int, help="this conversation of the seed alone, told as it goes")
    parser.add_argument("--play", metavar="FILE", help="these operations, a line each, as a shortened list has them, told as it goes")
    parser.add_argument("--keep-going", action="store_true", help="after a difference, too")
    parser.add_argument("--themes", default=",".join(generate.THEMES), help="these alone, with commas between")
    return parser.parse_args()


def main():
    # The servers are stopped then, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    wanted, began = arguments(), time.monotonic()
    mode = "long" if wanted.minutes else "quick"
    end = began + (wanted.minutes * 60 if wanted.minutes else wanted.seconds)
    definitions = schema()
    sides = [Side("kafka", definitions), Side("tailrace", definitions)]
    play, failed, number = Play(sides, wanted.only is not None or wanted.play is not None), 0, 0
    try:
        list(play.pool.map(lambda side: side.start(), sides))
        print(f"kafka: both servers are up after {time.monotonic() - began:.0f} s", flush=True)
        if wanted.play:
            difference = play.conversation([json.loads(line) for line in open(wanted.play) if line.strip()])
            if difference is not None:
                print(f"FAIL kafka: operation {difference.number} differs\n  {difference}")
            return 0 if difference is None else 1
        while time.monotonic() < end if wanted.only is None else number <= wanted.only:
            if wanted.only is None or number == wanted.only:
                failed += not one(play, wanted, number, mode)
            number += 1
            if failed and not wanted.keep_going:
                break
    finally:
        for side in sides:
            side.stop()
    report(play, wanted.seed, number, mode, failed)
    return 1 if failed else 0


def one(play, wanted, number, mode):
    seed = wanted.seed
    restarts = number == RESTART_AT if mode == "quick" else number % RESTART_EVERY == RESTART_AT
    theme, operations = generate.conversation(f"{seed}:{number}", LENGTH, restarts, wanted.themes.split(","))
    difference = play.conversation(operations)
    if difference is None:
        return True
    print(f"FAIL kafka: seed {seed}, conversation {number} ({theme}): operation {difference.number} differs\n  {difference}", flush=True)
    short, difference = play.shrink(operations, difference, SHRINK_SECONDS_MAX[mode])
    print(f"  again with --seed {seed} --only {number}; shortened to {len(short)} operations:")
    for operation in short:
        print(f"    {json.dumps(operation)}")
    print(f"  {difference}", flush=True)
    return False


def report(play, seed, number, mode, failed):
    total = sum(play.done.values())
    print(f"kafka: seed {seed}, {number} conversations, {total} operations of {len(play.done)} kinds")
    for name, where, _ in known.KNOWN:
        if play.met[name]:
            print(f"  known: {name}, {play.met[name]} times ({where})")
        elif mode == "long":
            print(f"  NOT MET: the known difference \"{name}\" ({where}) did not show: take it off the list if it is gone")
    print(f"{'FAIL' if failed else 'PASS'} kafka: side by side", flush=True)


if __name__ == "__main__":
    sys.exit(main())
