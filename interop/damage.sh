#!/bin/bash
# When a disk lies: interop/damage.sh [--soak MINUTES] [--seed N]; ONLY=TEXT plays the cells whose names have it ("copies:": those of
# three nodes), KEEP=1 keeps data and logs.
#
# Every kind of file of a partition is damaged in every way, after a clean stop, after kill -9 and under a running server. What
# `log verify`, the server's health, librdkafka and `tailrace consume` say is what the table in python/damage.py says (in short it stands in
# docs/guarantees.md), the same after a restart, and `log repair` brings every record back from a copy.
#
# Then three nodes, and one, two or all three copies of a partition are damaged, in the same and in different places: the table in
# python/damage_copies.py. What one copy has is whole again on all of them within two minutes; what none has is named, and given up.
#
# --soak: a cluster of three under load instead (cluster.sh): transactions into a compacted topic, kills, full disks (as root), and flipped
# bytes in random files of one node at a time; in the end readers of committed records have what was committed, and the replicas are the same.
# Segments of internal topics are small, so that their compaction is in the mix and their logs do not fill the disks.
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
SOAK='' SEED=${RANDOM}
while [ $# -gt 0 ]; do case $1 in
  --soak) SOAK=${2:?}; shift ;; --seed) SEED=${2:?}; shift ;;
  --help) sed -n '2,/^set/{s/^# \?//;/^set/d;p}' "$0"; exit 0 ;; *) die "unknown argument $1" ;;
esac; shift; done
SEGMENTS=offsets.topic.segment.bytes=8388608,transaction.state.log.segment.bytes=8388608
# Full disks are file systems of their own: the right to mount is needed.
DISK=,disk; [ "$(id -u)" = 0 ] || DISK=''
[ -z "$SOAK" ] || exec "$INTEROP/cluster.sh" --minutes "$SOAK" --seed "$SEED" --faults "rot,rot,rot,kill,killall,term$DISK" --set "$SEGMENTS" --compact
install_python || die "the Python client cannot be installed"
install_tailrace || die "tailrace does not build"
export INTEROP_STATE INTEROP_SERVER=$INTEROP/server.sh
WORK=$(mktemp -d "${TMPDIR:-/tmp}/interop-damage.XXXXXX") RC=0
cleanup() {
  "$INTEROP_SERVER" stop "$INTEROP_STATE/server" KILL 2>/dev/null
  if [ -n "${KEEP:-}" ]; then echo "data and logs: $WORK"; else rm -rf "$WORK"; fi
}
trap cleanup EXIT
for script in damage damage_copies; do
  INTEROP_STATE=$WORK/$script
  mkdir -p "$INTEROP_STATE/server"
  "$PYTHON" "$INTEROP/python/$script.py" < /dev/null || RC=1
done
exit $RC
