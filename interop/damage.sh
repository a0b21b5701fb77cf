#!/bin/bash
# When a disk lies: interop/damage.sh [--soak MINUTES] [--seed N]
# ONLY=TEXT plays the cells whose names contain it ("copies:": those of three nodes), KEEP=1 keeps data and
# logs.
#
# Damages every kind of file of a partition in every way, after a clean stop, after kill -9 and under a
# running server. `log verify`, the server's health, librdkafka and `tailrace consume` must say what the table
# in python/damage.py says (docs/guarantees.md has it in short), also after a restart, and `log repair` must
# bring every record back from a copy.
#
# Then damages one, two or all three copies of a partition on three nodes, in the same and in different
# places: the table in python/damage_copies.py. Data that one copy still has must be whole again on all of
# them within two minutes. Data that none has is named, and given up.
#
# --soak: a cluster of three under load instead (cluster.sh): transactions into a compacted topic, kills, full
# disks (as root), and flipped bytes in random files of one node at a time. At the end readers of committed
# records must have what was committed, and the replicas must be the same. Segments of internal topics are
# small, so that they are compacted during the run and their logs do not fill the disks.
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
SOAK='' SEED=${RANDOM}
while [ $# -gt 0 ]; do case $1 in
  --soak) SOAK=${2:?}; shift ;; --seed) SEED=${2:?}; shift ;;
  --help) sed -n '2,/^set/{s/^# \?//;/^set/d;p}' "$0"; exit 0 ;; *) die "unknown argument $1" ;;
esac; shift; done
SEGMENTS=offsets.topic.segment.bytes=8388608,transaction.state.log.segment.bytes=8388608
# Full disks are separate file systems, which takes the right to mount.
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
