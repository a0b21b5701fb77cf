#!/bin/bash
# The page of `tailrace bench report` in a headless Chromium: interop/report.sh
#
# Measures three systems for some seconds, one of which stalls for two, and a load that waits for answers.
# Opens the page of that run, and the page of the same runs with one marked invalid, at 1,280 and 390 columns.
# Then reads what a person reads: verdicts, labels, seconds without a message. Fails if a script error was
# logged, a curve is missing from the document or its colour from the screenshot, a label is too small to be
# read, the page is wider than the screen, or a wide screen does not show a table to its last column. To prove
# the check, it must also fail on pages with a curve or a verdict removed, with a table that is too wide, and
# with a script that fails. KEEP=1 keeps pages and screenshots. Skipped without a Chromium.
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
CHROMIUM=${CHROMIUM:-$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)}
[ -n "$CHROMIUM" ] || { echo "SKIPPED report in Chromium: no chromium is installed"; exit 0; }
install_tailrace || die "tailrace cannot be built"
WORK=$(mktemp -d "${TMPDIR:-/tmp}/report.XXXXXX")
cleanup() { if [ -n "${KEEP:-}" ]; then echo "kept in $WORK"; else rm -rf "$WORK"; fi; }
trap cleanup EXIT
trap 'exit 130' INT TERM
SYSTEMS="noop tcp-echo proxied"

measure() { # the third system's server is a proxy before an echo server, so that a server is sampled too
  local port echo_port
  port=$(free_port) && echo_port=$(free_port) || return 1
  python3 "$INTEROP/tools/echo.py" "$echo_port" & ECHO=$!
  cat > "$WORK/plan.toml" <<PLAN
rounds = 2
pause = "0s"
[[system]]
system = "noop"
[[system]]
system = "tcp-echo"
[[system]]
name = "proxied"
system = "tcp-echo"
address = "127.0.0.1:$port"
start = ["$TAILRACE_BIN", "bench", "proxy", "--listen", "127.0.0.1:$port", "--to", "127.0.0.1:$echo_port", "--to-client", "latency=2ms,stall=2s:2s"]
version = ["$TAILRACE_BIN", "--version"]
[[workload]]
name = "short"
rate = 500
duration = "6s"
warm-up = "200ms"
PLAN
  # A run on a busy machine may be invalid. The page must say so then, and still passes this check.
  "$TAILRACE_BIN" bench run "$WORK/plan.toml" --out "$WORK/results" -q > "$WORK/said"
  kill "$ECHO"; wait "$ECHO" 2> /dev/null
  grep -q "$WORK/results/report.html" "$WORK/said" || { echo "the plan does not name the page"; return 1; }
  cp "$WORK/results/report.html" "$WORK/report.html" || return 1
  "$TAILRACE_BIN" bench run --system tcp-echo --mode closed --rate 200 --duration 2s --warm-up 0s --out "$WORK/closed" -q > /dev/null
  cp "$WORK/closed/report.html" "$WORK/closed.html"
}
free_port() { python3 "$INTEROP/python/ports.py" 1; }
invalid() { # the same runs with exactly one invalid
  cp -r "$WORK/results" "$WORK/late" || return 1
  python3 - "$WORK"/late/*/*/*/result.json <<'PY' || return 1
import json, sys
for path in sys.argv[1:]:
    result = json.load(open(path))
    result["valid"] = not path.endswith("/tcp-echo/short/round-2/result.json")
    result["verdict"] = {} if result["valid"] else {"invalid": ["the generator was late, by hand"]}
    json.dump(result, open(path, "w"))
PY
  "$TAILRACE_BIN" bench report "$WORK/late" --html "$WORK/invalid.html" --svg "$WORK/pictures" --png "$WORK/pictures"
}
browse() { # PAGE WIDTH: leaves PAGE.WIDTH.dom, PAGE.WIDTH.log and PAGE.WIDTH.png (first screens only: decoding is slow)
  local flags=(--headless --no-sandbox --disable-gpu --no-first-run --hide-scrollbars "--user-data-dir=$WORK/profile" --enable-logging=stderr)
  local height=14000 out=$1.$2
  python3 "$INTEROP/tools/frame.py" "$1" "$2" "$height" > "$out.html" &&
    timeout 240 "$CHROMIUM" "${flags[@]}" "--window-size=$2,$height" --dump-dom "file://$out.html" > "$out.dom" 2> "$out.log" &&
    timeout 240 "$CHROMIUM" "${flags[@]}" "--window-size=$2,2600" "--screenshot=$out.png" "file://$out.html" > /dev/null 2>> "$out.log"
}
check() { # PAGE WIDTH EXPECTED [SYSTEM...]
  browse "$1" "$2" || { tail -5 "$1.$2.log"; return 1; }
  python3 "$INTEROP/tools/page.py" "$@"
}
must_pass() { # NAME PAGE WIDTH EXPECTED [SYSTEM...]
  local name=$1 said; shift
  if said=$(check "$@"); then echo "PASS $name: $said"; else echo "FAIL $name: $said"; return 1; fi
}
must_fail() { # NAME WORDS PAGE WIDTH EXPECTED [SYSTEM...]: the check must fail, and say this
  local name=$1 words=$2 said; shift 2
  said=$(check "$@") && { echo "FAIL $name: the check passed"; return 1; }
  case $said in *"$words"*) echo "PASS $name" ;; *) echo "FAIL $name: $said"; return 1 ;; esac
}

measure > "$WORK/log" 2>&1 || { tail -20 "$WORK/log"; echo "FAIL report in Chromium: no results"; exit 1; }
invalid > "$WORK/log" 2>&1 || { tail -20 "$WORK/log"; echo "FAIL report in Chromium: no pictures"; exit 1; }
FAILED=0
cat > "$WORK/phrases" <<'PHRASES'
Latency of
proxied: reply
noop: acknowledgement
share of messages that waited no longer
milliseconds
seconds since the first message was due
messages per second
open loop, 500 messages per second, constant
UTC
how late the generator itself sent: the error of the ruler
from when a request was due until its answer had come
reconnections
cut off
PHRASES
# A person must be able to read these runs, whatever their verdicts are.
python3 - "$WORK"/results/*/*/*/result.json >> "$WORK/phrases" <<'PY'
import json, sys
for path in sys.argv[1:]:
    print(json.load(open(path))["verdict"]["word"])
PY
cat > "$WORK/late-phrases" <<'PHRASES'
INVALID: 1 of 6 runs
tcp-echo, round-2: the generator was late, by hand
tcp-echo, 2 rounds INVALID: 1 of 2 rounds
No result: what was measured says nothing about tcp-echo.
chart: tcp-echo: INVALID: 1 of 2 rounds
chart: (INVALID
PHRASES
cat > "$WORK/closed-phrases" <<'PHRASES'
CLOSED LOOP (waits for answers: hides stalls)
closed: reply, corrected
from the sending of a request until its answer had come
but a closed loop asks nothing while it waits
chart: CLOSED LOOP, waits for answers: hides stalls
PHRASES
for width in 1280 390; do
  must_pass "report in Chromium" "$WORK/report.html" $width "$WORK/phrases" $SYSTEMS || FAILED=1
  must_pass "report of an invalid run" "$WORK/invalid.html" $width "$WORK/late-phrases" $SYSTEMS || FAILED=1
  must_pass "report of a closed loop" "$WORK/closed.html" $width "$WORK/closed-phrases" || FAILED=1
done
for picture in "$WORK"/pictures/chart-*.svg; do
  grep -q '>INVALID' "$picture" || { echo "FAIL a picture without the verdict: $picture"; FAILED=1; }
done
grep -q 'href="chart-1.svg"' "$WORK/pictures/index.html" || { echo "FAIL the pictures have no index"; FAILED=1; }
sed '0,/<polyline data-label="proxied: reply/{/<polyline data-label="proxied: reply/d}' "$WORK/report.html" > "$WORK/removed.html"
cmp -s "$WORK/report.html" "$WORK/removed.html" && { echo "FAIL report without a curve: nothing was removed"; FAILED=1; }
sed -i '0,/<polyline data-label="proxied: reply/{/<polyline data-label="proxied: reply/d}' "$WORK/removed.html" # its dotted end
must_fail "report without a curve is noticed" "latency by percentile: no curve of proxied" "$WORK/removed.html" 1280 "$WORK/phrases" $SYSTEMS || FAILED=1
sed 's|tcp-echo: INVALID: 1 of 2 rounds||' "$WORK/invalid.html" > "$WORK/cropped.html"
must_fail "a picture without its verdict is noticed" "the picture does not say" "$WORK/cropped.html" 1280 "$WORK/late-phrases" $SYSTEMS || FAILED=1
sed 's|</body>|<script>missing()</script></body>|' "$WORK/report.html" > "$WORK/script.html"
must_fail "report with a script that fails is noticed" "script error" "$WORK/script.html" 1280 "$WORK/phrases" $SYSTEMS || FAILED=1
sed '0,/<table class="numbers runs">/s//<table class="numbers runs" style="width:2000px">/' "$WORK/report.html" > "$WORK/wide.html"
must_fail "a table that is cut off is noticed" "is 2000 wide in" "$WORK/wide.html" 1280 "$WORK/phrases" $SYSTEMS || FAILED=1
exit $FAILED
