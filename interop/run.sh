#!/bin/bash
# Real clients against the server:
# interop/run.sh [--target tailrace|kafka|nats] [--nodes N] [--smoke|--full] [SUITE...]
#
# Suites: python (confluent-kafka, kafka-python, aiokafka), go (franz-go), java (kafka-clients), tools
# (Kafka's console tools, DumpLogSegments), js (kafkajs), groups and transactions (members and copiers of
# every client in processes of their own, killed under load), group-tools (console tools for groups and
# transactions), streams (Kafka Streams, Connect), raw (every API at every version, and input that no client
# sends); nats-python (nats-py), nats-go (nats.go), nats-js (nats.js), nats-java (jnats), mixed (NATS clients
# and Kafka clients). Each suite installs what it needs, gets a fresh server, and prints PASS or FAIL per test
# and a summary line. Real Kafka and nats-server are other targets: they prove the tests. ONLY=REGEX runs the
# tests whose names match. --nodes 3: against a cluster of this many nodes, with as many replicas of every
# topic; without raw, which talks to one node only.
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
TARGET=tailrace; export INTEROP_MODE=full; SUITES=()
while [ $# -gt 0 ]; do case $1 in
  --target) TARGET=${2:?}; shift ;;
  --nodes) export INTEROP_NODES=${2:?} INTEROP_REPLICAS=$2; shift ;;
  --smoke) INTEROP_MODE=smoke ;;
  --full) INTEROP_MODE=full ;;
  -h|--help) sed -n '2,13s/^# \{0,1\}//p' "$0"; exit 0 ;;
  -*) die "unknown flag $1" ;;
  *) SUITES+=("$1") ;;
esac; shift; done
KAFKA_SUITES=(python go java tools js raw groups transactions group-tools streams) NATS_SUITES=(nats-python nats-go nats-js nats-java)
[ ${#SUITES[@]} -gt 0 ] || case $TARGET in
  kafka) SUITES=("${KAFKA_SUITES[@]}") ;;
  nats) SUITES=("${NATS_SUITES[@]}") ;;
  *) SUITES=("${KAFKA_SUITES[@]}" "${NATS_SUITES[@]}" mixed) ;;
esac
export INTEROP_TARGET=$TARGET
if [ "${INTEROP_NODES:-1}" -gt 1 ]; then
  [ "$TARGET" = tailrace ] || die "--nodes is for tailrace"
  [ "${SUITES[*]}" = raw ] && die "raw talks to one node only"
  SUITES=("${SUITES[@]/#raw/}")
fi

needs() { case $1 in tools|group-tools|raw) echo java ;; nats-*) echo "${1#nats-} go" ;; mixed) echo python go java ;; groups|transactions) echo python go java js ;; streams) echo python java ;; *) echo "${1#nats-}" ;; esac; }
install_for() { local what; for what in $(needs "$1"); do "install_$what" || return 1; done; }
suite_python() { "$PYTHON" "$INTEROP/python/main.py"; }
suite_go() { "$GO_BIN"; }
suite_java() { java -Xmx512m -XX:+UseSerialGC -cp "$INTEROP/java/target/classes:$KAFKA_LIBS/*" tailrace.interop.Main; }
suite_tools() { "$INTEROP/tools/run.sh"; }
suite_group-tools() { "$INTEROP/tools/groups.sh"; }
suite_js() { (cd "$INTEROP/js" && node main.js); }
suite_nats-python() { "$PYTHON" "$INTEROP/python/nats_main.py"; }
suite_nats-go() { "$GO_NATS_BIN"; }
suite_nats-java() { java -Xmx512m -XX:+UseSerialGC -cp "$INTEROP/java/target/classes:$KAFKA_LIBS/*" tailrace.interop.NatsMain; }
suite_nats-js() { (cd "$INTEROP/js" && node nats.js); }
suite_mixed() { GO_NATS_BIN=$GO_NATS_BIN "$PYTHON" "$INTEROP/python/mixed.py"; }
suite_groups() { "$PYTHON" "$INTEROP/python/groups.py"; }
suite_transactions() { "$PYTHON" "$INTEROP/python/transactions.py"; }
suite_streams() { "$PYTHON" "$INTEROP/python/streams.py"; }
suite_raw() { python3 "$INTEROP/raw/main.py"; }

STATE=
cleanup() { [ -z "$STATE" ] || { "$INTEROP/server.sh" stop "$STATE" KILL 2>/dev/null; [ -n "${KEEP:-}" ] || rm -rf "$STATE"; }; STATE=; }
trap cleanup EXIT
trap 'exit 130' INT TERM

run_suite() { # SUITE: counts the PASS and FAIL lines of its output
  local suite=$1 began=$SECONDS rc passed failed
  STATE=$(mktemp -d "${TMPDIR:-/tmp}/interop-$suite.XXXXXX")
  local TAILRACE_ARGS=${TAILRACE_ARGS:-}
  case $suite in nats-python|nats-go) TAILRACE_ARGS="$TAILRACE_ARGS --set tailrace.jetstream.enable=true" ;; esac
  export TAILRACE_ARGS
  if ! BOOTSTRAP=$("$INTEROP/server.sh" start "$STATE" "$TARGET"); then echo "FAIL $suite: the server did not start"; echo "FAIL" > "$STATE/lines"; rc=1
  else
    export BOOTSTRAP INTEROP_STATE=$STATE INTEROP_SERVER=$INTEROP/server.sh
    "suite_$suite" < /dev/null | tee "$STATE/lines"; rc=${PIPESTATUS[0]}
  fi
  passed=$(grep -c '^PASS' "$STATE/lines"); failed=$(grep -c '^FAIL' "$STATE/lines")
  [ "$rc" = 0 ] || [ "$failed" != 0 ] || { echo "FAIL $suite: ended with status $rc"; failed=1; }
  [ "$rc" != 0 ] || [ "$passed" != 0 ] || [ -n "${ONLY:-}" ] || { echo "FAIL $suite: no test ran"; failed=1; }
  [ "$failed" = 0 ] || [ ! -s "$STATE/log" ] || { echo "--- last lines of the server's log"; tail -20 "$STATE/log"; }
  echo "$suite: $passed passed, $failed failed ($((SECONDS - began)) s)"
  PASSED=$((PASSED + passed)) FAILED=$((FAILED + failed))
  cleanup
}

PASSED=0 FAILED=0
case $TARGET in tailrace) install_tailrace || die "tailrace does not build" ;; kafka) install_java || die "Kafka's jars cannot be installed" ;; nats) install_nats_server || die "nats-server cannot be installed" ;; *) die "unknown target $TARGET" ;; esac
for suite in ${SUITES[@]}; do
  declare -F "suite_$suite" > /dev/null || die "unknown suite $suite"
  if install_for "$suite"; then run_suite "$suite"
  else echo "FAIL $suite: installation"; FAILED=$((FAILED + 1)); fi
done
echo "$PASSED passed, $FAILED failed"
[ "$FAILED" = 0 ]
