"""Judges a page of `tailrace bench report` that Chromium has opened: page.py PAGE SYSTEM...

Reads PAGE.dom (the document), PAGE.log (what Chromium logged) and PAGE.png (the screenshot). The first two systems have no server of their own.
"""
import re
import struct
import sys
import zlib
from html.parser import HTMLParser

LATENCY = ["latency by percentile", "longest latency of each second, first round",
           "messages that ended in each second, first round", "lateness of the generator by percentile"]
RESOURCES = ["processor time", "memory in RAM", "context switches", "read by calls", "written by calls",
             "page cache: read in", "page cache: made dirty"]
PIXELS_MIN = 200  # of a curve's colour in the screenshot; a legend alone has fewer than 100


class Charts(HTMLParser):
    """Titles of charts, in each the curves by label with their points and colours."""

    def __init__(self):
        super().__init__()
        self.found, self.chart = {}, None

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        if tag == "svg":
            self.chart = self.found.setdefault(attributes.get("data-title", ""), {})
        elif tag == "polyline" and self.chart is not None:
            points = attributes.get("points", "").split()
            self.chart[attributes.get("data-label", "")] = (points, attributes.get("stroke", ""))

    def handle_endtag(self, tag):
        if tag == "svg":
            self.chart = None


def colours(path):
    """How many pixels of each colour a PNG picture with 8 bits for each of three or four channels has."""
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
    raw, line, counts = zlib.decompress(packed), bytearray(width * step), {}
    for row in range(height):
        begin = row * (width * step + 1)
        way, now = raw[begin], bytearray(raw[begin + 1:begin + 1 + width * step])
        if way:
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
        line = now
        for x in range(0, len(now), step):
            pixel = bytes(now[x:x + 3])
            counts[pixel] = counts.get(pixel, 0) + 1
    return counts


def wrong(page, systems):
    """The first thing that is wrong, or None, and how many curves there are."""
    log = open(page + ".log", errors="replace").read()
    errors = [line for line in log.splitlines() if "CONSOLE" in line and re.search(r"Uncaught|Error|error", line)]
    if errors:
        return "script error: " + errors[0], 0
    charts = Charts()
    charts.feed(open(page + ".dom").read())
    seen, strokes = 0, set()
    for titles, labels in ((LATENCY, systems), (RESOURCES, [f"{system}, generator" for system in systems] + [f"{systems[-1]}, server"])):
        for title in titles:
            chart = next((chart for name, chart in charts.found.items() if name.endswith(": " + title)), None)
            if chart is None:
                return f"no chart '{title}'", seen
            for label in labels:
                points, stroke = chart.get(label, ((), ""))
                if len(points) < 2:
                    return f"{title}: no curve of {label}", seen
                seen += 1
                strokes.add(stroke)
    counts = colours(page + ".png")
    for stroke in strokes:
        if counts.get(bytes.fromhex(stroke[1:]), 0) < PIXELS_MIN:
            return f"the screenshot does not show {stroke}", seen
    return None, seen


found, seen = wrong(sys.argv[1], sys.argv[2:])
print(found or f"{seen} curves in document and screenshot")
sys.exit(1 if found else 0)
