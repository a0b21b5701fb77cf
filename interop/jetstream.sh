#!/bin/bash
# JetStream's API beside the real server, answer by answer: interop/jetstream.sh [AREA ...]
#
# nats-server 2.15.2 and tailrace are asked the same: configurations of streams, requests in every form,
# messages and reads of them, and random publishes with random headers (--seed N, --messages N). What is
# compared: every field of every answer. jetstream/beside.py lists the areas, and what may differ, each with
# its reason, and counts what tailrace refuses because it is not there yet.
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
case ${1:-} in -h | --help) sed -n '2,/^set/{s/^# \?//;/^set/d;p}' "$0"; exit $([ "$1" = --help ]; echo $?) ;; esac
if [ -z "${TAILRACE_BIN:-}" ]; then
  (cd "$ROOT" && cargo build -q -p tailrace) || die "tailrace does not build"
  export TAILRACE_BIN=${CARGO_TARGET_DIR:-$ROOT/target}/debug/tailrace
fi
install_nats_server || die "nats-server cannot be installed"
cd "$INTEROP/jetstream" && NATS_SERVER=$NATS_SERVER_BIN python3 beside.py "$@"
