#!/bin/bash
# The page of `tailrace bench report` in a headless Chromium: interop/report.sh
#
# Measures three systems for some seconds, opens the report, takes a screenshot (KEEP=1 keeps it), and fails if a script error was logged, a
# curve of a system is missing from the document or its colour from the screenshot. Then it must fail on the same page with a curve
# removed, and with a script that fails: this proves it. Skipped where no Chromium is.
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
CHROMIUM=${CHROMIUM:-$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)}
[ -n "$CHROMIUM" ] || { echo "SKIPPED report in Chromium: no chromium is installed"; exit 0; }
install_tailrace || die "tailrace cannot be built"
WORK=$(mktemp -d "${TMPDIR:-/tmp}/report.XXXXXX")
cleanup() { if [ -n "${KEEP:-}" ]; then echo "kept in $WORK"; else rm -rf "$WORK"; fi; }
trap cleanup EXIT
trap 'exit 130' INT TERM

measure() { # the server under test of the third system is a proxy before an echo server, so that a server is sampled too
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
start = ["$TAILRACE_BIN", "bench", "proxy", "--listen", "127.0.0.1:$port", "--to", "127.0.0.1:$echo_port", "--to-client", "latency=2ms"]
version = ["$TAILRACE_BIN", "--version"]
[[workload]]
name = "short"
rate = 500
duration = "3s"
warm-up = "200ms"
PLAN
  "$TAILRACE_BIN" bench run "$WORK/plan.toml" --out "$WORK/results" -q; local rc=$?
  kill "$ECHO"; wait "$ECHO" 2> /dev/null
  # On a busy machine rounds are invalid, and are drawn as that.
  [ $rc -le 1 ] && "$TAILRACE_BIN" bench report "$WORK/results" --html "$WORK/report.html"
}
free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
browse() { # PAGE: leaves PAGE.dom, PAGE.log and PAGE.png
  local flags=(--headless --no-sandbox --disable-gpu --no-first-run --hide-scrollbars "--user-data-dir=$WORK/profile" --enable-logging=stderr)
  timeout 120 "$CHROMIUM" "${flags[@]}" --dump-dom "file://$1" > "$1.dom" 2> "$1.log" &&
    timeout 120 "$CHROMIUM" "${flags[@]}" --window-size=1200,6000 "--screenshot=$1.png" "file://$1" > /dev/null 2>> "$1.log"
}
check() { browse "$1" || { tail -5 "$1.log"; return 1; }; python3 "$INTEROP/tools/page.py" "$1" noop tcp-echo proxied; }
must_fail() { # NAME PAGE WORDS: the check must fail, and say this
  local said; said=$(check "$2") && { echo "FAIL $1: the check passed"; return 1; }
  case $said in *"$3"*) echo "PASS $1" ;; *) echo "FAIL $1: $said"; return 1 ;; esac
}

measure > "$WORK/log" 2>&1 || { tail -20 "$WORK/log"; echo "FAIL report in Chromium: no results"; exit 1; }
FAILED=0
if said=$(check "$WORK/report.html"); then echo "PASS report in Chromium: $said"; else echo "FAIL report in Chromium: $said"; FAILED=1; fi
sed '0,/<polyline data-label="proxied" /{/<polyline data-label="proxied" /d}' "$WORK/report.html" > "$WORK/removed.html"
cmp -s "$WORK/report.html" "$WORK/removed.html" && { echo "FAIL report without a curve: nothing was removed"; FAILED=1; }
must_fail "report without a curve is noticed" "$WORK/removed.html" "latency by percentile: no curve of proxied" || FAILED=1
sed 's|</body>|<script>missing()</script></body>|' "$WORK/report.html" > "$WORK/script.html"
must_fail "report with a script that fails is noticed" "$WORK/script.html" "script error" || FAILED=1
exit $FAILED
