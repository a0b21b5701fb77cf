#!/bin/bash
# Rights and logins beside the real servers, answer by answer:
# interop/security-beside.sh [kafka|nats|all] [--quick | --minutes N] [--seed N]
#
# kafka: Kafka 4.3.1 with StandardAuthorizer and tailrace get the same users and rules. Each user then sends
# every API that tailrace serves, in every version (quick: the first, the last and one more), about topics and
# groups that it may use, that it may not use, and that do not exist. Users have no rights, a single right,
# all rights but one, rights by prefix, by asterisk, for another host, and random rules. Before that: every
# API without a login, and logins with every wrong message. What is compared: codes, messages, names and masks
# of operations (differential/rights/main.py). differential/rights/known.py lists what may differ.
# nats: nats-server 2.15.2 with random lists of subjects for random users (differential/rights/nats.py).
#
# Without --minutes it is the quick run. A difference is printed with its seed, rules and both answers.
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
case ${1:-} in kafka|nats|all) WHAT=$1; shift ;; --help) sed -n '2,/^set/{s/^# \?//;/^set/d;p}' "$0"; exit 0 ;; *) WHAT=all ;; esac
if [ -z "${TAILRACE_BIN:-}" ]; then
  (cd "$ROOT" && cargo build -q -p tailrace) || die "tailrace does not build"
  export TAILRACE_BIN=${CARGO_TARGET_DIR:-$ROOT/target}/debug/tailrace
fi
RIGHTS_FOLDER=$(mktemp -d "${TMPDIR:-/tmp}/interop-rights.XXXXXX") RC=0
export RIGHTS_FOLDER
trap '[ -n "${KEEP:-}" ] || rm -rf "$RIGHTS_FOLDER"' EXIT
if [ "$WHAT" != nats ]; then
  install_java || die "Kafka's jars cannot be installed"
  python3 "$INTEROP/differential/rights/main.py" "$@" < /dev/null || RC=1
fi
if [ "$WHAT" != kafka ]; then
  install_nats_server || die "nats-server cannot be installed"
  python3 "$INTEROP/differential/rights/nats.py" "$@" < /dev/null || RC=1
fi
exit $RC
