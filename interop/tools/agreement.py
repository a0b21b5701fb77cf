"""Figures of load generators, side by side: agreement.py ours MESSAGES | openloop | table

ours: reads a result of `tailrace bench run -o json`, openloop: a line of openloop. Prints p50 and p99 of the
latency (receipt or reply), and p50 and p99 of how late the generator itself was, in microseconds. Status 1 if
a message was lost, repeated, damaged or not timed. table: reads lines SYSTEM RATE ROUND GENERATOR and those
four figures, followed by p50 and p99 on the wire if they were measured. Prints each round, how `ours` and the
others agree over all of them, and where p50 goes.
"""
import itertools
import json
import math
import statistics
import sys

WRONG = ["unsent", "duplicates", "lost", "corrupt", "foreign", "unknown", "broken_connections"]


def ours(messages):
    result = json.load(sys.stdin)
    counts, latency = result["counts"], result["latency"]
    if counts["received"] != messages or any(counts[name] for name in WRONG):
        return None
    return [latency[name]["quantiles_ns"][quantile] / 1000 for name in ("receipt", "lateness") for quantile in ("0.5", "0.99")]


def openloop():
    """Columns: system, bytes, rate, pairs, sent, lost, duplicates, bad, failed, received/s; then five figures
    each of receipt, acknowledgement, lag."""
    columns = [word.strip() for word in sys.stdin.read().strip().splitlines()[-1].strip("|").split("|")]
    if any(int(columns[at]) for at in (5, 6, 7, 8)):
        return None
    return [float(columns[at]) for at in (10, 11, 20, 21)]


def p_value(first, second):
    """How often two sets dealt at random differ at least as much in the mean of their logarithms, as
    `bench compare` asks."""
    everything = [math.log(value) for value in first + second]
    whole, half = sum(everything), len(first)

    def apart(chosen):
        return abs(sum(chosen) / half - (whole - sum(chosen)) / len(second))

    dealt = list(itertools.combinations(everything, half))
    seen = apart(everything[:half])
    return sum(apart(chosen) >= seen - 1e-9 for chosen in dealt) / len(dealt)


def span(values):
    return f"{statistics.median(values):.0f} ({min(values):.0f} to {max(values):.0f})"


def table():
    runs = {}
    for row in sys.stdin:
        system, rate, number, who, *figures = row.split()
        runs.setdefault((system, int(rate)), {}).setdefault(who, {})[int(number)] = [float(figure) for figure in figures]
    print("\nMicroseconds: p50 / p99, and in brackets p99 of the generator's own lateness.\n")
    print("| System | per s | Round | ours | plain | openloop |")
    print("|---|---|---|---|---|---|")
    for (system, rate), generators in runs.items():
        for number in sorted(generators["ours"]):
            cells = [generators.get(who, {}).get(number) for who in ("ours", "plain", "openloop")]
            print(f"| {system} | {rate} | {number} |", *(f"{cell[0]:.0f} / {cell[1]:.0f} ({cell[3]:.0f}) |" if cell else "|" for cell in cells))
    print("\nMedian of the rounds (lowest to highest) in microseconds; ratio of ours to theirs; p: see above.\n")
    print("| System | per s | | ours | plain | ratio | p | openloop | ratio | p |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for (system, rate), generators in runs.items():
        for at, name in ((0, "p50"), (1, "p99")):
            columns = {who: [figures[at] for figures in rounds.values()] for who, rounds in generators.items()}
            mine, cells = columns.pop("ours"), []
            for who in ("plain", "openloop"):
                values = columns.get(who)
                cells += [span(values), f"{statistics.median(mine) / statistics.median(values):.2f}", f"{p_value(mine, values):.3f}"] if values else [""] * 3
            print(f"| {system} | {rate} | {name} | {span(mine)} |", " | ".join(cells), "|")
    if any(len(figures) > 4 for generators in runs.values() for rounds in generators.values() for figures in rounds.values()):
        where_p50_goes(runs)


def where_p50_goes(runs):
    """Medians of the rounds' p50. They are medians of different things, so the rest is only approximate per
    message."""
    print("\nWhere p50 goes, in microseconds: medians of the rounds. late: from when a message was due until the generator sent it; wire: from the")
    print("packet of the request to the packet of the answer, by the kernel; rest: sending, waking up and reading the clock.\n")
    print("| System | per s | Generator | p50 | late | wire | rest |")
    print("|---|---|---|---|---|---|---|")
    for (system, rate), generators in runs.items():
        for who, rounds in generators.items():
            columns = [[figures[at] for figures in rounds.values() if len(figures) > 4] for at in (0, 2, 4)]
            if columns[0]:
                whole, late, wire = map(statistics.median, columns)
                print(f"| {system} | {rate} | {who} | {whole:.0f} | {late:.0f} | {wire:.0f} | {whole - late - wire:.0f} |")


def main():
    if sys.argv[1] == "table":
        return table()
    figures = ours(int(sys.argv[2])) if sys.argv[1] == "ours" else openloop()
    if figures is None:
        return 1
    print(*(f"{figure:.1f}" for figure in figures))
    return 0


if __name__ == "__main__":
    sys.exit(main())
