#!/bin/bash
# The main job on real input: interop/mainjob.sh [--target tailrace|kafka] [--megabytes 200]
#
# A text of at least this many megabytes (the Rust sources in the cargo registry) goes in line by line, once
# through `tailrace produce` and once through confluent-kafka, while the server is killed with SIGKILL and
# restarted. It comes out through `tailrace consume` and through franz-go, with the same SHA-256 each time. On
# Kafka only the real clients run.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
TARGET=tailrace MEGABYTES=200
while [ $# -gt 0 ]; do case $1 in
  --target) TARGET=${2:?}; shift ;; --megabytes) MEGABYTES=${2:?}; shift ;; *) die "unknown argument $1" ;;
esac; shift; done

# Only this script uses tailrace's own commands.
cli_create() { "$TAILRACE_BIN" topic create "$1" --partitions 1 --config max.message.bytes=20000000 -b "$BOOTSTRAP"; }
cli_produce() { "$TAILRACE_BIN" produce "$1" -b "$BOOTSTRAP" --acks all --compression lz4; }
cli_consume() { "$TAILRACE_BIN" consume "$1" -b "$BOOTSTRAP" --from beginning --count "$2" --format '%v\n' < /dev/null; }
kafka_create() { java -cp "$KAFKA_LIBS/*" org.apache.kafka.tools.TopicCommand --bootstrap-server "$BOOTSTRAP" --create --topic "$1" --config max.message.bytes=20000000 > /dev/null; }

install_python || die "the Python client cannot be installed"
install_go || die "the Go client cannot be installed"
if [ "$TARGET" = kafka ]; then install_java || die "Kafka's jars cannot be installed"; else install_tailrace || die "tailrace does not build"; fi
export INTEROP_STATE INTEROP_SERVER=$INTEROP/server.sh BOOTSTRAP
WORK=$(mktemp -d "${TMPDIR:-/tmp}/interop-main.XXXXXX") INTEROP_STATE=$WORK/state
cleanup() { "$INTEROP_SERVER" stop "$INTEROP_STATE" KILL 2>/dev/null || true; [ -n "${KEEP:-}" ] || rm -rf "$WORK"; }
trap cleanup EXIT
FAILED=0
verdict() { if [ "$2" = "$SHA" ]; then echo "PASS mainjob: $1"; else echo "FAIL mainjob: $1: SHA-256 $2, not $SHA"; FAILED=$((FAILED + 1)); fi; }
failed() { echo "FAIL mainjob: $1"; FAILED=$((FAILED + 1)); }
sha() { sha256sum | cut -d' ' -f1; }
kill_and_restart() { "$INTEROP_SERVER" stop "$INTEROP_STATE" KILL; "$INTEROP_SERVER" again "$INTEROP_STATE"; }

make_text() { # at least MEGABYTES, in whole lines
  local sources=${CARGO_HOME:-$HOME/.cargo}/registry/src
  [ -d "$sources" ] || sources=$ROOT
  find "$sources" -name '*.rs' -type f -print0 | sort -z | xargs -0 awk 1 > "$WORK/part"
  [ -s "$WORK/part" ] || die "no Rust sources under $sources"
  while :; do
    cat "$WORK/part" >> "$WORK/text"
    [ "$(stat -c %s "$WORK/text")" -lt $((MEGABYTES * 1000000)) ] || break
  done
  rm "$WORK/part"
}
make_text
SHA=$(sha < "$WORK/text") LINES_IN=$(wc -l < "$WORK/text")
echo "$(stat -c %s "$WORK/text") bytes, $LINES_IN lines, SHA-256 $SHA"
BOOTSTRAP=$("$INTEROP_SERVER" start "$INTEROP_STATE" "$TARGET")

read_with() { # TOPIC HOW-IT-WENT-IN
  verdict "$2, out through franz-go" "$("$GO_BIN" read "$1" "$LINES_IN" | sha)"
  [ "$TARGET" != tailrace ] || verdict "$2, out through tailrace consume" "$(cli_consume "$1" "$LINES_IN" | sha)"
}

# send TOPIC WHAT COMMAND...: sends the text while the server is killed a few times, and once more after the
# last acknowledgement. Then reads it.
send() {
  local topic=$1 what=$2 kills=0 sender; shift 2
  "$@" < "$WORK/text" & sender=$!
  while sleep 1.5; [ $kills -lt 3 ] && kill -0 $sender 2>/dev/null; do kill_and_restart; kills=$((kills + 1)); done
  wait $sender || failed "$what: not everything was acknowledged"
  kill_and_restart
  read_with "$topic" "$what, killed $((kills + 1)) times"
}
if [ "$TARGET" = tailrace ]; then cli_create text-c; else kafka_create text-c; fi
send text-c "in through confluent-kafka" "$PYTHON" "$INTEROP/python/lines.py" text-c

if [ "$TARGET" = tailrace ]; then
  cli_create text-cli
  send text-cli "in through tailrace produce" cli_produce text-cli
fi
[ $FAILED = 0 ]
