#!/bin/bash
# Kafka Streams counts words exactly once: interop/groups-mainjob.sh [--target tailrace|kafka] [--megabytes 5]
#                                                                    [--kills 1] [--full]
#
# A text of at least this many megabytes (the words of the Rust sources in the cargo registry) goes in line by
# line while Kafka Streams counts them with exactly_once_v2 and the server is killed with SIGKILL. The counts
# must be those of awk.
# --full: 200 MB and three kills.
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
TARGET=tailrace MEGABYTES=5 KILLS=1
while [ $# -gt 0 ]; do case $1 in
  --target) TARGET=${2:?}; shift ;; --megabytes) MEGABYTES=${2:?}; shift ;; --kills) KILLS=${2:?}; shift ;; --full) MEGABYTES=200 KILLS=3 ;; *) die "unknown argument $1" ;;
esac; shift; done
install_python || die "the Python client cannot be installed"
install_java || die "Kafka's jars cannot be installed"
[ "$TARGET" = kafka ] || install_tailrace || die "tailrace does not build"
export INTEROP_STATE INTEROP_TARGET=$TARGET INTEROP_SERVER=$INTEROP/server.sh BOOTSTRAP
INTEROP_STATE=$(mktemp -d "${TMPDIR:-/tmp}/interop-words.XXXXXX")
cleanup() { "$INTEROP_SERVER" stop "$INTEROP_STATE" KILL 2>/dev/null; [ -n "${KEEP:-}" ] || rm -rf "$INTEROP_STATE"; }
trap cleanup EXIT
trap 'exit 130' INT TERM
BOOTSTRAP=$("$INTEROP_SERVER" start "$INTEROP_STATE" "$TARGET") || die "the server did not start"
"$PYTHON" "$INTEROP/python/wordcount.py" "$MEGABYTES" "$KILLS" 0 < /dev/null
