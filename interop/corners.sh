#!/bin/bash
# Corners of a cluster of three real nodes: interop/corners.sh; ONLY=REGEX runs those whose names match, KEEP=1 keeps data and logs.
#
# Reading from the nearest replica, TLS between nodes, NATS clients on different nodes, cuts of a network of namespaces (left out
# where they cannot be made), folders, numbers and bytes that do not belong there, min.insync.replicas, all nodes stopped at once,
# taking a node out.
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
[ $# = 0 ] || { sed -n '2,6s/^# \{0,1\}//p' "$0"; exit 2; }
install_python || die "the Python clients cannot be installed"
install_tailrace || die "tailrace does not build"
exec "$PYTHON" "$INTEROP/python/corners.py" < /dev/null
