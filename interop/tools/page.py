"""Judges a page of `tailrace bench report` as Chromium draws it: page.py PAGE WIDTH EXPECTED [SYSTEM...]

Reads PAGE.WIDTH.dom (the document, with what tools/seen.js saw in it), PAGE.WIDTH.log (what Chromium logged)
and PAGE.WIDTH.png (the screenshot). EXPECTED has a phrase per line that a person must be able to read
somewhere on the page; `chart: PHRASE` must be in the picture of every chart. Each SYSTEM must have its
curves. The last one has a server of its own, which stalled for two seconds.
"""
import json
import re
import struct
import sys
import zlib
from collections import Counter

LATENCY = ["latency by percentile", "the longest wait over time", "messages that ended, over time", "lateness of the generator by percentile"]
RESOURCES = ["processor time, first round", "memory in RAM, first round", "context switches, first round"]
PIXELS_MIN = 200  # of a curve's colour in the screenshot; a legend alone has fewer than 100
HEIGHT_MIN = 9  # pixels of a label in a picture, so that a person can read it
COLOURS = ["0072b2", "d55e00", "009e73", "cc79a7", "e69f00", "56b4e9", "000000"]


def colours(path):
    """Returns how many pixels of each colour a PNG picture with 8 bits for each of three or four channels
    has."""
    data = open(path, "rb").read()
    at, header, packed = 8, None, b""
    while at < len(data):
        size, kind = struct.unpack(">I4s", data[at:at + 8])
        if kind == b"IHDR":
            header = struct.unpack(">IIBB", data[at + 8:at + 18])
        elif kind == b"IDAT":
            packed += data[at + 8:at + 8 + size]
        at += size + 12
    width, height, depth, kind = header
    step = {2: 3, 6: 4}[kind]
    assert depth == 8, depth
    raw, line, counts, row_counts = zlib.decompress(packed), bytearray(width * step), Counter(), None
    for row in range(height):
        begin = row * (width * step + 1)
        way, now = raw[begin], bytearray(raw[begin + 1:begin + 1 + width * step])
        if way == 2 and not any(now) and row_counts is not None:
            counts.update(row_counts)  # the row above again
            continue
        unfilter(way, now, line, step)
        line, row_counts = now, Counter(zip(now[0::step], now[1::step], now[2::step]))
        counts.update(row_counts)
    return counts


def unfilter(way, now, line, step):
    """Decodes a filtered row of a PNG picture. `line` is the row above."""
    if way == 0:
        return
    for i in range(len(now)):
        left = now[i - step] if i >= step else 0
        up, corner = line[i], line[i - step] if i >= step else 0
        if way == 4:
            guess = left + up - corner
            near = min((abs(guess - left), 0, left), (abs(guess - up), 1, up), (abs(guess - corner), 2, corner))
            add = near[2]
        else:
            add = (left, up, (left + up) // 2)[way - 1]
        now[i] = (now[i] + add) & 255


def curve(charts, title, label):
    """The points of the curve whose label starts like this, and its chart. None if there is none."""
    for chart in charts:
        if chart["title"].endswith(title):
            for name, points in chart["curves"].items():
                if name.startswith(label) and len(points) > 1:
                    return points, chart
    return None, None


def missing(charts, systems):
    """What is wrong with the curves, if anything, and how many there are."""
    wanted = [(title, f"{system}: ") for title in LATENCY for system in systems]
    wanted += [(title, f"{system}: generator") for title in RESOURCES for system in systems]
    wanted += [(title, f"{systems[-1]}: server") for title in RESOURCES]
    for title, label in wanted:
        if curve(charts, title, label)[0] is None:
            return f"{title}: no curve of {label.rstrip(': ')}", 0
    # A second without a message is a second at the bottom, from its start to its end.
    points, chart = curve(charts, "messages that ended, over time", f"{systems[-1]}: ")
    zero = sum(abs(y - chart["bottom"]) < 0.2 for _, y in points)
    if zero < 2:
        return f"the stall of {systems[-1]} is not at zero messages", 0
    points, chart = curve(charts, "the longest wait over time", f"{systems[-1]}: ")
    plain, _ = curve(charts, "the longest wait over time", f"{systems[0]}: ")
    highest = min(y for _, y in points)
    level = [x for x, y in points if y < highest + (chart["bottom"] - highest) / 5]
    if max(level) - min(level) < (max(x for x, _ in points) - min(x for x, _ in points)) * 0.25:
        return f"the stall of {systems[-1]} is no plateau: {level}", 0
    return None, len(wanted)


def unread(seen, expected):
    """The first phrase that a person cannot read, or None."""
    everything = seen["text"] + "\n" + "\n".join(text["text"] for chart in seen["charts"] for text in chart["texts"])
    everything = re.sub(r"\s+", " ", everything)
    for phrase in expected:
        if phrase.startswith("chart: "):
            phrase = phrase[len("chart: "):]
            for chart in seen["charts"]:
                if phrase not in " ".join(text["text"] for text in chart["texts"]):
                    return f"{chart['title']}: the picture does not say '{phrase}'"
        elif phrase not in everything:
            return f"nobody reads '{phrase}'"
    return None


def wrong(page, width, expected, systems):
    """The first thing that is wrong, or None, and what was seen."""
    log = open(f"{page}.{width}.log", errors="replace").read()
    errors = [line for line in log.splitlines() if "CONSOLE" in line and re.search(r"Uncaught|Error|error", line)]
    if errors:
        return "script error: " + errors[0], ""
    found = re.search(r'<script type="application/json" id="seen">(.*?)</script>', open(f"{page}.{width}.dom").read(), re.S)
    if not found:
        return "Chromium did not draw the page", ""
    seen = json.loads(found.group(1))
    if seen["box"]["wanted"] > seen["box"]["width"]:
        return f"the page is {seen['box']['wanted']} wide on a screen of {seen['box']['width']}", ""
    # A phone must scroll its tables. On a wide screen the last column must be visible.
    cut = [table for table in seen["tables"] if int(width) > 1000 and table["wanted"] > table["width"]]
    if cut:
        return f"the table '{cut[0]['head']}' is {cut[0]['wanted']} wide in {cut[0]['width']}", ""
    labels = [text for chart in seen["charts"] for text in chart["texts"] if text["upright"]]
    if not labels:
        return "no picture has labels", ""
    small = min(labels, key=lambda text: text["height"])
    if small["height"] < HEIGHT_MIN:
        return f"'{small['text']}' is {small['height']:.1f} pixels high", ""
    reason = unread(seen, expected)
    if reason:
        return reason, ""
    count = 0
    if systems:
        reason, count = missing(seen["charts"], systems)
        if reason:
            return reason, ""
        # On a narrow screen words cover much of a curve.
        counts = colours(f"{page}.{width}.png") if int(width) > 1000 else {}
        for colour in COLOURS[:len(systems)] if counts else []:
            if counts[tuple(bytes.fromhex(colour))] < PIXELS_MIN:
                return f"the screenshot does not show #{colour}", ""
    if not seen["tables"]:
        return "no table was seen", ""
    return None, f"{len(seen['charts'])} pictures, {count} curves, {len(expected)} phrases at {width} columns"


phrases = [line.rstrip("\n") for line in open(sys.argv[3]) if line.strip()]
reason, said = wrong(sys.argv[1], sys.argv[2], phrases, sys.argv[4:])
print(reason or said)
sys.exit(1 if reason else 0)
