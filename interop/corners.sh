#!/bin/bash
# Corners of a cluster of three real nodes: interop/corners.sh
# ONLY=REGEX runs those whose names match, KEEP=1 keeps data and logs.
#
# Reading from the nearest replica, TLS between nodes, NATS clients on different nodes, cuts of a network of
# namespaces (skipped if they cannot be made), foreign folders, numbers and bytes, min.insync.replicas, all
# nodes stopped at once, decommission, throttles of replication, a rolling upgrade to a build of the next
# level (TAILRACE_NEXT_BIN, built if not given), clocks that are hours apart (skipped without libfaketime).
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
[ $# = 0 ] || { sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 2; }
install_python || die "the Python clients cannot be installed"
install_java || die "Kafka's tools cannot be installed"
install_go || die "franz-go cannot be installed"
install_tailrace || die "tailrace does not build"
if [ -z "${TAILRACE_NEXT_BIN:-}" ]; then
  next=${CARGO_TARGET_DIR:-$ROOT/target}/next-level
  (cd "$ROOT" && RUSTFLAGS="${RUSTFLAGS:-} --cfg tailrace_next_level" cargo build --quiet -p tailrace --target-dir "$next") || die "the build of the next level fails"
  export TAILRACE_NEXT_BIN=$next/debug/tailrace
fi
exec "$PYTHON" "$INTEROP/python/corners.py" < /dev/null
