"""Run by interop/attacks.sh: every cell, a line each, and the figures in target/figures.json.

main.py [--quick] [--frame MIB]   plays
main.py --table                   prints the figures of the last runs as Markdown
main.py --list                    names the cells
"""
import argparse, os, platform, signal, subprocess, sys, time
from dataclasses import asdict, dataclass
from typing import Callable
import measure, table
from measure import Attack, Failure, Server

HERE = measure.HERE
ONLY = os.environ.get("ONLY", "")
FIGURES = HERE / "target/figures.json"


# Errors that keep a cell from being played. Any other error is a fault of the suite.
UNPLAYABLE = (OSError, RuntimeError, subprocess.SubprocessError, ValueError, KeyError, AssertionError, measure.wire.kproto.Closed)


@dataclass
class Cell:
    name: str
    play: Callable
    quick: bool = False
    # Settings that the server needs besides its defaults.
    settings: Callable = lambda: ()
    # If nothing was left on the server, the next cell of this kind may use it again.
    shares: bool = False


class Bench:
    """Hands out servers: a fresh one, or a shared one that is as clean as a fresh one."""

    def __init__(self):
        self.shared = None

    def server(self, cell):
        if cell.shares and self.shared and self.shared.is_clean:
            return self.shared
        self.end()
        server = Server(cell.settings())
        self.shared = server if cell.shares else None
        return server

    def back(self, server, spoilt):
        if server is self.shared and not spoilt:
            return
        if server is self.shared:
            self.shared = None
        server.stop()

    def end(self):
        if self.shared:
            self.shared.stop()
            self.shared = None


def once(bench, cell, quick):
    """Plays a cell once. Returns the figures, and what is wrong with them."""
    server = bench.server(cell)
    attack, spoilt = Attack(server, quick), True
    try:
        try:
            cell.play(attack)
            faults = []
        except Failure as failure:
            faults = [str(failure)]
        faults += attack.figures.faults(quick)
        spoilt = attack.figures.gone
        return attack.figures, faults
    finally:
        bench.back(server, spoilt)


def play(bench, cell, quick):
    """Plays a cell, again if the machine was not quiet. Prints the result, and returns the figures."""
    began = time.monotonic()
    for _ in range(measure.TRIES):
        try:
            figures, faults = once(bench, cell, quick)
        except UNPLAYABLE as error:
            figures, faults = measure.Figures(), [f"could not be played: {error!r}"]
        if not faults or figures.machine_ms <= measure.MACHINE_MS_MAX:
            break
    if faults and figures.machine_ms > measure.MACHINE_MS_MAX:
        faults.append(f"the machine itself stood still for {figures.machine_ms:.0f} ms")
    verdict = f"FAIL attacks: {cell.name}: {'; '.join(faults)}" if faults else f"PASS attacks: {cell.name}"
    print(f"{verdict} | {figures.text()} ({time.monotonic() - began:.1f} s)", flush=True)
    return {**asdict(figures), "gap_ms": figures.gap_ms, "faults": faults}


def machine():
    commit = subprocess.run(["git", "-C", str(HERE), "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    return {"commit": commit, "cpus": os.cpu_count(), "kernel": platform.release(), "when": time.strftime("%Y-%m-%d")}


def cells(frame_mib):
    import handshakes, logins, rows, sweep
    return rows.cells(Cell) + logins.cells(Cell) + handshakes.cells(Cell) + sweep.cells(Cell, frame_mib)


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--quick", action="store_true")
    arguments.add_argument("--table", action="store_true")
    arguments.add_argument("--list", action="store_true")
    arguments.add_argument("--frame", type=float)
    given = arguments.parse_args()
    if given.table:
        print(table.markdown(FIGURES, {cell.name for cell in cells(1)}))
        return 0
    frame_mib = given.frame or (0.25 if given.quick else 24)
    chosen = [cell for cell in cells(frame_mib) if ONLY in cell.name and (cell.quick or not given.quick)]
    if given.list:
        print(*(cell.name for cell in chosen), sep="\n")
        return 0
    bench, figures, began, where = Bench(), {}, time.monotonic(), machine()
    # SIGTERM for this process ends the server, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        for cell in chosen:
            figures[cell.name] = play(bench, cell, given.quick) | where
    finally:
        bench.end()
        table.keep(FIGURES, figures)
    failed = sum(bool(one["faults"]) for one in figures.values())
    print(f"attacks: {len(chosen)} cells, {failed} failed, {time.monotonic() - began:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
