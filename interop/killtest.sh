#!/bin/bash
# Every acknowledged record survives kill -9:
# interop/killtest.sh [--target tailrace|kafka] [--rounds 20] [--seed N]
#
# Three idempotent producers with acks=all run at full speed while the server is killed and restarted at
# random moments. Then every acknowledged record must exist once, in order, byte for byte. A kill keeps the
# page cache, so this says nothing about fsync. It says that recovery, producer state and acknowledgements fit
# together.
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
TARGET=tailrace ROUNDS=20 SEED=${RANDOM}${RANDOM}
while [ $# -gt 0 ]; do case $1 in
  --target) TARGET=${2:?}; shift ;; --rounds) ROUNDS=${2:?}; shift ;; --seed) SEED=${2:?}; shift ;; *) die "unknown argument $1" ;;
esac; shift; done
install_python || die "the Python client cannot be installed"
if [ "$TARGET" = kafka ]; then install_java || die "Kafka's jars cannot be installed"; else install_tailrace || die "tailrace does not build"; fi
export INTEROP_STATE INTEROP_SERVER=$INTEROP/server.sh BOOTSTRAP
INTEROP_STATE=$(mktemp -d "${TMPDIR:-/tmp}/interop-kill.XXXXXX")
cleanup() { "$INTEROP_SERVER" stop "$INTEROP_STATE" KILL 2>/dev/null; [ -n "${KEEP:-}" ] || rm -rf "$INTEROP_STATE"; }
trap cleanup EXIT
BOOTSTRAP=$("$INTEROP_SERVER" start "$INTEROP_STATE" "$TARGET") || die "the server did not start"
"$PYTHON" "$INTEROP/python/kill.py" "$ROUNDS" "$SEED" < /dev/null || { echo "data and log: KEEP=1 $0 --target $TARGET --rounds $ROUNDS --seed $SEED" >&2; exit 1; }
