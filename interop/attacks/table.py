"""The figures of the last runs, kept in a file and printed as Markdown."""
import fcntl, json


def keep(path, figures):
    """Adds the figures of a run, by the names of its cells."""
    path.parent.mkdir(exist_ok=True)
    with open(path, "a+") as file:
        # The lock keeps two runs at once from losing figures.
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        kept = json.loads(file.read() or "{}") | figures
        file.truncate(0)
        file.write(json.dumps(kept, indent=1))


def markdown(path, names):
    """The cells of these names, in the order in which they were first played."""
    if not path.exists():
        return "No figures yet: run the suite first."
    kept = {name: one for name, one in json.loads(path.read_text()).items() if name in names}
    lines = ["| what is sent | bytes sent | longest wait of others, ms | resident above the baseline, MiB | left after 5 s, MiB | metric, MiB | other figures | verdict |",
             "|---|---|---|---|---|---|---|---|"]
    for name, one in kept.items():
        waits = max(one["gaps"], key=one["gaps"].get, default="") if one["gaps"] else ""
        more = ", ".join(f"{what} {value}" for what, value in one["more"].items())
        verdict = "within bounds" if not one["faults"] else "; ".join(one["faults"])
        lines.append(f"| {name} | {one['sent']:,} | {one['gap_ms']:.0f} ({waits}) | {one['resident']:.0f} | {one['left']:.0f} | {one['metric']:.0f} | {more} | {verdict} |")
    runs = sorted({f"{one['commit']} on {one['cpus']} processors, {one['when']}" for one in kept.values()})
    return "\n".join([*lines, "", "Measured at " + "; ".join(runs) + "."])
