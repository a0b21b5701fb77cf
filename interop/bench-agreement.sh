#!/bin/bash
# Does `tailrace bench run` agree with independent generators?
# interop/bench-agreement.sh [OPTION...] [SYSTEM...]
#
# Systems: echo (bare TCP), nats, tailrace-nats, redis, http. Generators: ours; plain (tools/rate.c, in C:
# wrk2's method for http, otherwise one thread that sends and one that reads); and, except for http, openloop
# of shared/peers (Go; nats.go, go-redis). All load the same server in turn, and each round starts with
# another one. Prints p50 and p99 of each round, and for all rounds medians, ranges, ratios, and whether the
# rounds can be told apart (as `bench compare` asks: how often would the rounds of two, dealt to two sets at
# random, differ as much?). Status 1 if messages were lost or repeated. A difference is a finding, not a
# failure.
#
#   --rates "1000 3000"   messages per second
#   --rounds 5   --seconds 10   --warm-up 2   --size 128 (bytes)
#   --stall SECONDS       stops the server (SIGSTOP) for this long, three seconds into the measurement: all
#                         generators must charge the stall alike
#   --realtime            runs generators and servers before all other programs (chrt; root), for a shared
#                         machine
#   --wire                also measures the server's time by the kernel's timestamps of packets
#                         (tools/wire.py; root; not for http), and says where p50 goes
#   --peers DIR           where openloop's source is (default: ../shared/peers beside the checkout;
#                         without it openloop is left out); OPENLOOP names a binary
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
. "$INTEROP/bench-servers.sh"
RATES='1000 3000' ROUNDS=5 MEASURED=10 WARM=2 SIZE=128 STALL='' WIRE='' FIRST=() PEERS=$ROOT/../shared/peers SYSTEMS=()
while [ $# -gt 0 ]; do case $1 in
  --rates) RATES=${2:?}; shift ;; --rounds) ROUNDS=${2:?}; shift ;; --seconds) MEASURED=${2:?}; shift ;; --warm-up) WARM=${2:?}; shift ;;
  --size) SIZE=${2:?}; shift ;; --stall) STALL=${2:?}; shift ;; --peers) PEERS=${2:?}; shift ;;
  --realtime) FIRST=(chrt -f 10) ;;
  --wire) WIRE=1 ;;
  -h|--help) sed -n '2,22s/^# \{0,1\}//p' "$0"; exit 0 ;;
  -*) die "unknown flag $1" ;;
  *) SYSTEMS+=("$1") ;;
esac; shift; done
[ ${#SYSTEMS[@]} -gt 0 ] || SYSTEMS=(echo nats tailrace-nats redis http)
LATE_SECONDS_MAX=60 # beyond the planned length of a run

WORK=$(mktemp -d "${TMPDIR:-/tmp}/bench-agreement.XXXXXX") SERVERS=() FAILED=0
declare -A ADDRESS PID
cleanup() { end_servers; if [ -n "${KEEP:-}" ]; then echo "kept in $WORK"; else rm -rf "$WORK"; fi; }
trap cleanup EXIT
trap 'exit 130' INT TERM

# ---- what the script needs ----
install_openloop() {
  [ -z "${OPENLOOP:-}" ] || return 0
  [ -d "$PEERS/openloop" ] || { echo "SKIPPED openloop: it is not in $PEERS"; return 1; }
  OPENLOOP=$INTEROP/go/target/openloop
  mkdir -p "$INTEROP/go/target"
  [ -x "$OPENLOOP" ] || (cd "$PEERS" && retry quiet "$INTEROP/go/target/log" go build -o "$OPENLOOP" ./openloop) || die "openloop cannot be built"
}
install_plain() { cc -O2 -Wall -pthread -o "$WORK/rate" "$INTEROP/tools/rate.c" || die "tools/rate.c cannot be built"; }
start_echo() { # tcp|http: prints nothing; ends when its standard input does, or when killed by its id
  ECHO_SERVER=${ECHO_SERVER:-${CARGO_TARGET_DIR:-$ROOT/target}/release/examples/echo}
  [ -x "$ECHO_SERVER" ] || (cd "$ROOT" && cargo build --release -q -p tailrace-bench --example echo) || die "the echo server cannot be built"
  [ -p "$WORK/silence" ] || { mkfifo "$WORK/silence"; exec 9<> "$WORK/silence"; }
  "$ECHO_SERVER" "$1" < "$WORK/silence" > "$WORK/echo-$1" 2> "$WORK/echo-$1.log" &
  ready "echo-$1" $! grep -q : "$WORK/echo-$1"
}
first() { "${FIRST[@]}" "$@"; }
start() { # SYSTEM
  local address
  case $1 in
    nats) install_nats_server || die "nats-server cannot be fetched"
      address=$(free_address); nats_server nats "$address" '' ;;
    tailrace-nats) tailrace_server tailrace && address=$FOUND_NATS ;;
    redis) have redis-server || die "redis-server is not installed"
      address=$(free_address) && start_redis alone "$address" ;;
    echo) start_echo tcp && address=$(cat "$WORK/echo-tcp") ;;
    http) start_echo http && address=$(cat "$WORK/echo-http") ;;
    *) die "unknown system $1" ;;
  esac || exit 1
  ADDRESS[$1]=$address PID[$1]=${SERVERS[-1]}
  [ ${#FIRST[@]} = 0 ] || chrt -a -f -p 10 "${PID[$1]}" > /dev/null || die "chrt: real-time priority needs root"
}

# ---- one run: prints p50 and p99 in microseconds, and p50 and p99 of the generator's own lateness ----
ours() { # SYSTEM RATE
  local name=$1 json=$WORK/ours.json
  case $1 in echo) name=tcp-echo ;; esac
  first timeout $((MEASURED + WARM + LATE_SECONDS_MAX)) "$TAILRACE_BIN" bench run -q -o json --system "$name" --address "${ADDRESS[$1]}" --rate "$2" --size "$SIZE" \
    --duration "${MEASURED}s" --warm-up "${WARM}s" --connections "$(connections "$1")" > "$json" 2> "$WORK/ours.err" || [ $? = 1 ] || return 1
  python3 "$INTEROP/tools/agreement.py" ours $((MEASURED * $2)) < "$json"
}
protocol() { case $1 in tailrace-nats) echo nats ;; *) echo "$1" ;; esac; }
plain() {
  local line
  read -r -a line <<< "$(first "$WORK/rate" "$(protocol "$1")" "${ADDRESS[$1]%:*}" "$(port_of "${ADDRESS[$1]}")" "$2" "$WARM" "$MEASURED" "$(connections "$1")" "$SIZE" 2> "$WORK/plain.err")"
  [ "${line[0]:-0}" = $((MEASURED * $2)) ] && echo "${line[1]} ${line[2]} ${line[5]} ${line[6]}"
}
openloop() {
  first "$OPENLOOP" -sys "$(protocol "$1")" -addr "${ADDRESS[$1]}" -size "$SIZE" -rate "$2" -dur "${MEASURED}s" -warm "${WARM}s" > "$WORK/openloop" 2> "$WORK/openloop.err" || return 1
  python3 "$INTEROP/tools/agreement.py" openloop < "$WORK/openloop"
}
connections() { case $1 in http) echo 4 ;; *) echo 1 ;; esac; } # one request at a time per connection
stalled() { # SYSTEM COMMAND...: stops the server during the command
  local pid=${PID[$1]} stopper=; shift
  [ -z "$STALL" ] || { first bash -c "sleep $((WARM + 3)); kill -STOP $pid; sleep $STALL; kill -CONT $pid" & stopper=$!; }
  "$@"; local rc=$?
  [ -z "$stopper" ] || wait "$stopper"
  return $rc
}
watched() { # SYSTEM COMMAND...: watches the packets during the command; prints their p50 and p99 after its output
  local system=$1 watcher=; shift
  if [ -n "$WIRE" ] && [ "$system" != http ]; then
    python3 "$INTEROP/tools/wire.py" "$(protocol "$system")" "$(port_of "${ADDRESS[$system]}")" "$WARM" "$SIZE" > "$WORK/wire" 2> "$WORK/wire.err" &
    watcher=$!
    until grep -q ready "$WORK/wire"; do kill -0 "$watcher" 2> /dev/null || { cat "$WORK/wire.err" >&2; return 1; }; sleep 0.05; done
  fi
  local printed rc
  printed=$("$@"); rc=$?
  [ -z "$watcher" ] || { kill "$watcher"; wait "$watcher" && printed+=" $(tail -1 "$WORK/wire" | cut -d' ' -f1,2)"; }
  echo "$printed"
  return $rc
}
one() { # WHO SYSTEM RATE ROUND
  local found
  if found=$(watched "$2" stalled "$2" "$1" "$2" "$3"); then echo "$2 $3 $4 $1 $found" >> "$WORK/rows"; else echo "FAIL $2 at $3/s, round $4: $1: $(cat "$WORK/$1.err" 2>/dev/null | tail -3)"; FAILED=1; fi
}

GENERATORS=(ours plain)
install_plain
! install_openloop || GENERATORS+=(openloop)
install_tailrace || die "tailrace cannot be built"
for system in "${SYSTEMS[@]}"; do start "$system"; done
echo "$(date -u +%FT%TZ), $(uname -sr), $(nproc) processors, load $(cut -d' ' -f1-3 /proc/loadavg) before${FIRST[*]:+, with ${FIRST[*]}}; ${MEASURED} s each after $WARM s, $SIZE B${STALL:+, stopped for $STALL s}"
: > "$WORK/rows"
for round in $(seq "$ROUNDS"); do
  for rate in $RATES; do for system in "${SYSTEMS[@]}"; do
    for turn in "${!GENERATORS[@]}"; do
      who=${GENERATORS[$(((turn + round) % ${#GENERATORS[@]}))]}
      [ "$system $who" = "http openloop" ] || one "$who" "$system" "$rate" "$round"
    done
  done; done
done
python3 "$INTEROP/tools/agreement.py" table < "$WORK/rows"
echo "load $(cut -d' ' -f1-3 /proc/loadavg) after"
exit $FAILED
