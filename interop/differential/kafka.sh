#!/bin/bash
# Random conversations with real Kafka 4.3.1 and with tailrace, side by side:
# interop/differential/kafka.sh [--minutes N] [--seed N]
#
# Topics, records, live settings, producers, transactions, classic groups, groups of KIP-848, share groups and
# restarts, drawn from a seed. Compares answers: error codes, offsets, records at both isolation levels,
# states. Names replace ids, and times are left out. kafka/known.py lists the known differences. Any other
# difference ends the run with its seed and a shortened list of operations.
#
# Without --minutes it is the quick run, 60 seconds including the start of both servers. --only N plays one
# conversation of a seed and reports each operation; --keep-going continues after differences. Needs Java,
# Maven (Kafka's jars) and Python. TAILRACE_BIN: the server, otherwise a debug build.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
install_java || die "Kafka's jars cannot be installed"
if [ -z "${TAILRACE_BIN:-}" ]; then
  (cd "$ROOT" && cargo build -q -p tailrace) || die "tailrace does not build"
  export TAILRACE_BIN=${CARGO_TARGET_DIR:-$ROOT/target}/debug/tailrace
fi
# One partition of offsets, as server.sh gives Kafka: groups that share it share their place in transactions.
export TAILRACE_ARGS="--set offsets.topic.num.partitions=1 ${TAILRACE_ARGS:-}"
# Members are silent while the slower server restarts. Kafka saves its log starts periodically, every 60 s by
# default: records deleted since then are back after a kill.
export KAFKA_EXTRA=$'log.flush.start.offset.checkpoint.interval.ms=500\ngroup.consumer.session.timeout.ms=60000\ngroup.share.session.timeout.ms=60000'
export TAILRACE_ARGS="$TAILRACE_ARGS --set group.consumer.session.timeout.ms=60000 --set group.share.session.timeout.ms=60000"
export DIFFERENTIAL_FOLDER
DIFFERENTIAL_FOLDER=$(mktemp -d "${TMPDIR:-/tmp}/differential-kafka.XXXXXX")
trap '[ -n "${KEEP:-}" ] || rm -rf "$DIFFERENTIAL_FOLDER"' EXIT
python3 "$INTEROP/differential/kafka/main.py" "$@" &
trap 'kill "$!" 2>/dev/null' TERM INT
status=0; wait "$!" || status=$?
# A signal ends the first wait, not the run.
while kill -0 "$!" 2>/dev/null; do wait "$!" || true; done
exit $status
