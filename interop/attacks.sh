#!/bin/bash
# What a stranger can cost: interop/attacks.sh [--quick] [--frame MIB]; ONLY=TEXT plays the cells whose names have it, KEEP=1 keeps data and logs.
#
# Each cell attacks a server of its own with a few connections, by frames that no client sends, while a prober (attacks/probe) asks it on every
# protocol, every 5 ms: nobody may wait longer than 50 ms, and the process may not take more than queued.max.request.bytes and 64 MiB above what it
# had. "row N" are the attacks that were found by hand, with their parameters; "sweep" goes through all APIs and verbs, with items repeated up to
# --frame MIB (24; quick: a quarter), by the table in attacks/apis.py.
#
# --quick: those that take a second or two, for a debug build on a machine that is not quiet, as .ci/run has it: nobody may wait for a second
# longer than the machine itself kept its prober waiting, and what is to be answered at once has some seconds. What was found by hand cost
# others 0.7 to 90 s with a release build, and ten times as much with a debug build, so that each of these faults fails it still. --table: no attack, but the figures of the last runs as a table in Markdown. --list: the cells.
# Figures hold for a release build on a quiet machine. What the machine itself kept waiting is measured, too ("machine"), and told.
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
case ${1:-} in --help) sed -n '2,/^set/{s/^# \?//;/^set/d;p}' "$0"; exit 0 ;; --table|--list) exec python3 "$INTEROP/attacks/main.py" "$@" ;; esac
install_probe() {
  local dir=$INTEROP/attacks
  newer "$dir/target/stamp" "$dir/probe" || return 0
  mkdir -p "$dir/target"
  (cd "$dir/probe" && quiet ../target/log go vet . && quiet ../target/log go build -o ../target/probe .) && touch "$dir/target/stamp"
}
install_probe || die "the prober cannot be built"
install_tailrace || die "tailrace does not build"
ATTACKS_WORK=$(mktemp -d "${TMPDIR:-/tmp}/interop-attacks.XXXXXX")
export ATTACKS_WORK
trap 'rm -rf "$ATTACKS_WORK"' EXIT
python3 "$INTEROP/attacks/main.py" "$@" < /dev/null
