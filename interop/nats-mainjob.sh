#!/bin/bash
# The main job of the NATS front on real subjects:
# interop/nats-mainjob.sh [--messages 10000000] [--subscriptions 1000]
#
# The paths of the files in the cargo registry become subjects. NATS clients publish to them at full speed
# while wildcard subscriptions come and go. A topic captures all messages, and a Kafka client (franz-go) reads
# it meanwhile. Counts and checksums must agree for each subject, in order. See go/natsjob.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
MESSAGES=10000000 SUBSCRIPTIONS=1000
while [ $# -gt 0 ]; do case $1 in
  --messages) MESSAGES=${2:?}; shift ;; --subscriptions) SUBSCRIPTIONS=${2:?}; shift ;; *) die "unknown argument $1" ;;
esac; shift; done

install_go || die "the Go clients cannot be installed"
install_tailrace || die "tailrace does not build"
export INTEROP_STATE INTEROP_SERVER=$INTEROP/server.sh
WORK=$(mktemp -d "${TMPDIR:-/tmp}/interop-nats.XXXXXX") INTEROP_STATE=$WORK/state
cleanup() { "$INTEROP_SERVER" stop "$INTEROP_STATE" KILL 2>/dev/null || true; [ -n "${KEEP:-}" ] || rm -rf "$WORK"; }
trap cleanup EXIT

# crate-1.2.3/src/lib.rs becomes crate-1_2_3.src.lib_rs. The order does not depend on the file system.
sources=${CARGO_HOME:-$HOME/.cargo}/registry/src
[ -d "$sources" ] || sources=$ROOT
(cd "$sources" && find . -type f -print) | sed -E 's#^\./([^/]*\.[^/]*/)?##; s#[^A-Za-z0-9_/-]#_#g; s#/#.#g' | LC_ALL=C sort -u > "$WORK/subjects"
[ -s "$WORK/subjects" ] || die "no files under $sources"

BOOTSTRAP=$("$INTEROP_SERVER" start "$INTEROP_STATE" tailrace)
began=$SECONDS
"$GO_JOB_BIN" -nats "$(cat "$INTEROP_STATE/nats")" -kafka "$BOOTSTRAP" -messages "$MESSAGES" -subscriptions "$SUBSCRIPTIONS" < "$WORK/subjects" || FAILED=1
echo "$MESSAGES messages: $((SECONDS - began)) s; the server's memory: $(awk '/^VmHWM/ {print int($2 / 1024)}' "/proc/$(cat "$INTEROP_STATE/pid")/status") MiB at most"
[ -z "${FAILED:-}" ] || tail -5 "$INTEROP_STATE/log"
[ -z "${FAILED:-}" ]
