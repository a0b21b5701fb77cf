#!/bin/bash
# Users and rules on three nodes: interop/security-nodes.sh
# ONLY=REGEX runs the tests whose names match.
#
# A changed rule holds on every node within a second, for Kafka and for NATS clients (nats-py), and the time
# is printed. Controllers are killed while rules change and while a user is removed: what was acknowledged
# holds, and no request holds by half. A removed user's connections end on every node. An open cluster is
# moved to a closed one under load, by the steps of docs/security.md: no producer, consumer, NATS publisher
# or subscriber is refused, the first two with default settings are told of no error, and no acknowledged
# record is lost.
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
case ${1:-} in '') ;; *) sed -n '2,/^set/{s/^# \?//;/^set/d;p}' "$0"; exit $([ "$1" = --help ]; echo $?) ;; esac
install_java || die "Kafka's jars cannot be installed"
install_python || die "the Python clients cannot be installed"
install_tailrace || die "tailrace does not build"
NODES_FOLDER=$(mktemp -d "${TMPDIR:-/tmp}/interop-security-nodes.XXXXXX")
export NODES_FOLDER
trap '[ -n "${KEEP:-}" ] || rm -rf "$NODES_FOLDER"' EXIT
"$PYTHON" "$INTEROP/python/security_nodes.py" < /dev/null
