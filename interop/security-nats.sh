#!/bin/bash
# NATS's accounts, permissions, operator and system account beside the real server, answer by answer:
# interop/security-nats.sh [--full] [--only REGEX] [--verbose]
#
# nats-server 2.15.2 and tailrace get the same users and accounts, by their configuration and by claims (JWT)
# of an operator. nats.go plays the same scenes with both: streams and services of other accounts, private and
# with tokens, limits, permissions, queues, responses, nkeys, kinds of connection, the events of the system
# account and its requests, kicked clients. Claims are pushed, listed and pruned by the requests that nsc
# sends; users and activations are revoked, limits changed and keys removed while clients are connected. A
# service decides about clients (auth callout), rightly and in every wrong way, in clear and sealed.
# Certificates name users (verify_and_map) by each of their names.
# What is compared: every error that a client is told, every message, and the fields of every JSON answer.
# go/natsbeside/known.go lists what may differ, each with its reason, and each must still occur.
#
# --full: also three nodes of tailrace, where claims that one node was given hold on all.
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
ARGUMENTS=()
while [ $# -gt 0 ]; do case $1 in
  --full) ARGUMENTS+=(-full) ;;
  --verbose) ARGUMENTS+=(-verbose) ;;
  --only) ARGUMENTS+=(-only "${2:?}"); shift ;;
  *) sed -n '2,/^set/{s/^# \?//;/^set/d;p}' "$0"; exit $([ "$1" = --help ]; echo $?) ;;
esac; shift; done
if [ -z "${TAILRACE_BIN:-}" ]; then
  (cd "$ROOT" && cargo build -q -p tailrace) || die "tailrace does not build"
  export TAILRACE_BIN=${CARGO_TARGET_DIR:-$ROOT/target}/debug/tailrace
fi
install_go || die "the Go clients cannot be installed"
install_nats_server || die "nats-server cannot be installed"
TMP=$(mktemp -d "${TMPDIR:-/tmp}/interop-security-nats.XXXXXX")
trap '[ -n "${KEEP:-}" ] || rm -rf "$TMP"' EXIT
"$INTEROP/go/target/natsbeside" ${ARGUMENTS[@]+"${ARGUMENTS[@]}"} "$TMP" < /dev/null
