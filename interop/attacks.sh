#!/bin/bash
# What can a stranger cost? interop/attacks.sh [--quick] [--frame MIB]
# ONLY=TEXT plays the cells whose names contain it, KEEP=1 keeps data and logs.
#
# Each cell attacks a server of its own over a few connections, by frames that no client sends. Meanwhile a
# prober (attacks/probe) asks the server on every protocol, every 5 ms. No probe may wait longer than 50 ms,
# and the process may not take more than queued.max.request.bytes and 64 MiB above what it had. "row N" are
# the attacks that were found by hand, with their parameters. "sweep" goes through all APIs and verbs, with
# items repeated up to --frame MIB (24; quick: a quarter), by the table in attacks/apis.py.
#
# --quick: the cells that take a second or two, for a debug build on a busy machine, as .ci/run has it. No
# probe may wait more than a second longer than the machine itself delayed its prober, and answers that should
# come at once have some seconds. The attacks found by hand cost other clients 0.7 to 90 s with a release
# build, and ten times as much with a debug build, so each of these faults still fails the quick run.
# --table: no attack, but the figures of the last runs as a table in Markdown.
# --list: the cells.
#
# Figures are valid for a release build on a quiet machine. The delay of the machine itself is measured and
# reported, too ("machine").
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
