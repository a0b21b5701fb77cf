#!/bin/bash
# Plays the same conversations with nats-server and with tailrace, and compares every byte that comes back:
# interop/differential/nats.sh [--quick | --minutes N] [--seed N]
#
# A conversation has several connections, by TCP and WebSocket, and is drawn from a seed: wildcards, queue
# groups, requests, headers, no echo, verbose and pedantic clients, limits, users and permissions, topics that
# capture (streams in nats-server), drains, odd bytes, second CONNECTs. Differences are played again. Then the
# script prints the shortest conversation that still differs, with the seed of the whole.
#
# --quick: about half a minute, for a debug build. --minutes N: runs this long; every entry of the list of
# known differences (nats/known.py) must still occur, and one that does not is named, and is a failure. --seed
# N: starts with the conversation of this seed (its number is the seed), and without --quick and --minutes
# plays only that one. --list: the known differences.
#
# nats/normal.py lists what is not compared.
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
case ${1:-} in --help) sed -n '2,/^set/{s/^# \?//;/^set/d;p}' "$0"; exit 0 ;; --list) exec python3 "$INTEROP/differential/nats/main.py" --list ;; esac
install_nats_server || die "nats-server cannot be built"
install_tailrace || die "tailrace does not build"
DIFFERENTIAL_WORK=$(mktemp -d "${TMPDIR:-/tmp}/interop-differential.XXXXXX")
export DIFFERENTIAL_WORK
trap 'rm -rf "$DIFFERENTIAL_WORK"' EXIT
python3 "$INTEROP/differential/nats/main.py" "$@" < /dev/null
