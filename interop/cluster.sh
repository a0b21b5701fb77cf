#!/bin/bash
# Three real nodes under faults:
# interop/cluster.sh [--minutes 1] [--seed N] [--faults LIST] [--set K=V,...] [--java] [--claims] [--compact]
# interop/cluster.sh --failover 20
#
# Idempotent producers, transactional copiers, groups and readers (franz-go and librdkafka) run while nodes
# are killed, frozen and shut down, and links between them are cut, in one direction too. The seed decides the
# schedule. Then everything heals, every record is read back, and the history of all clients is judged: lost,
# doubled, re-ordered or changed records, records of aborted or unfinished transactions, readers and group
# offsets that go back, replicas that differ. Any of these is exit status 1.
#
# --java: Kafka's own system-test clients are the load instead: VerifiableProducer, VerifiableConsumer of both
# protocols, VerifiableShareConsumer and TransactionalMessageCopier. They are killed and restarted while nodes
# are, too.
# --claims: clients also create and delete topics, and increment epochs of producers; porcupine judges whether
# the answers are linearizable.
# --compact: transactional copies go to a compacted topic.
# --faults: kill kill2 killall stop stop2 term rolling cut oneway deaf mute isolate split refuse reset delay;
# disk, which has to mount; rot, which flips bytes in files of one node at a time and waits until it is whole
# again.
# --failover kills the leader of a partition this many times; the next acknowledged write must come
# within 2 s.
# KEEP=1 keeps data and logs.
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
DIR=$INTEROP/cluster
case " $* " in *" --help "*) sed -n '2,/^set/{s/^# \?//;/^set/d;p}' "${BASH_SOURCE[0]}"; exit 0 ;; esac
ARGUMENTS=()
for argument in "$@"; do
  if [ "$argument" = --java ]; then
    install_java || die "Kafka's jars cannot be installed"
    ARGUMENTS+=(-java "$KAFKA_LIBS")
  else ARGUMENTS+=("$argument"); fi
done
install_python || die "the Python clients cannot be installed"
install_tailrace || die "tailrace does not build"
mkdir -p "$DIR/target"
(cd "$DIR" && retry quiet target/log go build -o target/cluster .) || die "the harness does not build"
# adya, a port of Jepsen's Elle that others maintain, judges what the copiers did.
ELLE=$ROOT/target/tools/bin/adya # where cargo xtask judge puts it
[ -x "$ELLE" ] || retry quiet "$DIR/target/log" cargo install --quiet --locked --no-default-features --version 0.1.0 --root "$ROOT/target/tools" adya || die "adya cannot be installed"
# Both judges must find planted anomalies, or their silence means nothing.
(cd "$DIR" && ELLE=$ELLE quiet target/log go test .) || die "a judge misses an anomaly"
STATE=$(mktemp -d "${TMPDIR:-/tmp}/interop-cluster.XXXXXX")
cleanup() {
  local file pid
  for file in "$STATE"/*.pid; do
    pid=$(cat "$file" 2>/dev/null) && grep -qs -- "$STATE" "/proc/$pid/cmdline" && kill -KILL "$pid" 2>/dev/null
  done
  for file in "$STATE"/disk*; do
    [ -d "$file" ] || continue
    [ -z "${KEEP:-}" ] || { rm "$STATE/n${file##*disk}" && cp -r "$file/data" "$STATE/n${file##*disk}"; }
    umount -l "$file" 2>/dev/null
  done
  if [ -n "${KEEP:-}" ]; then echo "data and logs: $STATE"; else rm -rf "$STATE"; fi
}
trap cleanup EXIT
trap 'exit 130' INT TERM
"$DIR/target/cluster" -binary "$TAILRACE_BIN" -state "$STATE" -python "$PYTHON" -script "$DIR/librdkafka.py" "${ARGUMENTS[@]}" < /dev/null || exit 1
[ ! -s "$STATE/offsets.jsonl" ] || {
  "$ELLE" check -m rw-register --wfr-keys -c strict-serializable "$STATE/offsets.jsonl" > "$STATE/elle" || { head -50 "$STATE/elle"; echo "FAIL offsets of the copiers are not strictly serializable"; exit 1; }
  echo "PASS adya: $(grep -c '"ok"' "$STATE/offsets.jsonl") transactions of the copiers are strictly serializable"
}
