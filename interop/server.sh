#!/bin/bash
# Starts, stops and restarts the server under test. A state folder records what runs, so that a test in any
# language can restart it in the middle by calling this script.
#
#   server.sh start STATE tailrace|kafka|nats   fresh data, free ports; prints the bootstrap address (nats:
#                                               the NATS address)
#   server.sh stop STATE [TERM|KILL]       waits until the process is gone
#   server.sh again STATE                  starts on the same port and data folder
#   server.sh restart STATE [TERM|KILL]    stop, then again
#
# The state folder has the addresses: addr (Kafka: the first listener), ssl (its listener SSL, if
# TAILRACE_ARGS names one), nats, ws (of WebSocket), http; and what NATS_FRONT makes: ca.pem, client.pem,
# client.key, seed; and of creds, what go/natscreds makes.
#
# With INTEROP_NODES=3 tailrace is a cluster of three nodes, and the addresses are those of the first one;
# stop and again apply to all of them. The others are in STATE/node2 and so on, with the same files.
#
# Environment: TAILRACE_BIN, TAILRACE_ARGS (more arguments for `tailrace serve`), KAFKA_LIBS, KAFKA_EXTRA
# (more properties), NATS_SERVER_BIN, NATS_FRONT (how clients may connect to NATS: plain, user, token, nkey,
# creds, tls, tls-verify, tls-first). Deliberately absent: any knowledge of tests.
set -euo pipefail
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
KAFKA_LIBS=${KAFKA_LIBS:-$HERE/java/target/libs}
# A start may include recovery; a stop may have to flush.
START_SECONDS_MAX=120 STOP_SECONDS_MAX=60
command=${1:?start, stop, again or restart} state=${2:?state folder}
say() { cat "$state/$1"; }
die() { echo "server.sh: $*" >&2; exit 1; }
# A zombie counts as gone once its last thread is gone: until then it holds its files, and the lock of its
# folder.
alive() {
  local tasks
  [ -r "/proc/$1/stat" ] || return 1
  [ "$(sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | cut -c1)" = Z ] || return 0
  tasks=$(ls "/proc/$1/task" 2>/dev/null | wc -l)
  [ "$tasks" -gt 1 ]
}
# A server must not hold the pipes of the process that started it.
detached() { local fd; for fd in /proc/self/fd/*; do fd=${fd##*/}; [ "$fd" -le 2 ] || eval "exec $fd>&-" 2>/dev/null; done; exec setsid "$@"; }
# Below the range that the kernel gives to connections, so that no client gets the port while the server
# restarts.
free_ports() { python3 "$HERE/python/ports.py" "${1:-3}"; }

# ---- how clients may connect to NATS ---- The same for every server and client: alice with the password
# s3cret, the token open-sesame, the key in STATE/seed.
front() { if [ -f "$state/front" ]; then say front; else echo "${NATS_FRONT:-plain}" | tee "$state/front"; fi; }
make_front() {
  case $1 in
    nkey) [ -f "$state/nkey" ] || python3 "$HERE/nats/nkey.py" "$state/seed" > "$state/nkey" ;;
    creds) [ -f "$state/operator.jwt" ] || "${GO_NATSCREDS_BIN:-$HERE/go/target/natscreds}" "$state" ;;
    tls*) [ -f "$state/ca.pem" ] || "$HERE/nats/certificates.sh" "$state" >> "$state/log" 2>&1 || die "no certificates: $(tail -3 "$state/log")" ;;
  esac
}
tailrace_front() {
  local tls="tailrace.nats.tls=required tailrace.tls.certificate.file=$state/server.pem tailrace.tls.key.file=$state/server.key"
  case $1 in
    plain) ;;
    user) echo "tailrace.nats.user=alice tailrace.nats.password=s3cret" ;;
    token) echo "tailrace.nats.token=open-sesame" ;;
    nkey) echo "tailrace.nats.nkey=$(say nkey)" ;;
    creds) echo "tailrace.nats.operator.file=$state/operator.jwt tailrace.nats.operator.accounts.file=$state/accounts.jwt" ;;
    tls) echo "$tls" ;;
    tls-verify) echo "$tls tailrace.tls.ca.file=$state/ca.pem tailrace.tls.client.auth=required" ;;
    tls-first) echo "$tls tailrace.nats.tls.handshake.first=true" ;;
    *) die "unknown NATS_FRONT $1" ;;
  esac
}
nats_front() {
  local tls="cert_file: \"$state/server.pem\", key_file: \"$state/server.key\", timeout: 5"
  case $1 in
    plain) ;;
    user) echo 'authorization { user: alice, password: s3cret }' ;;
    token) echo 'authorization { token: open-sesame }' ;;
    nkey) echo "authorization { users: [ { nkey: $(say nkey) } ] }" ;;
    creds) cat "$state/resolver.conf" ;;
    tls) echo "tls { $tls }" ;;
    tls-verify) echo "tls { $tls, ca_file: \"$state/ca.pem\", verify: true }" ;;
    tls-first) echo "tls { $tls, handshake_first: true }" ;;
    *) die "unknown NATS_FRONT $1" ;;
  esac
}

# The same for tailrace and Kafka: with the new protocol a killed member is removed after 10 s. Locks of share
# groups may be short.
GROUP_SETTINGS="group.initial.rebalance.delay.ms=0
group.consumer.min.session.timeout.ms=6000
group.consumer.session.timeout.ms=10000
group.consumer.min.heartbeat.interval.ms=100
group.consumer.heartbeat.interval.ms=500
group.share.min.record.lock.duration.ms=1000"

folders() { local n; echo "$state"; for n in $(seq 2 "$(say nodes)"); do echo "$state/node$n"; done; }
launch_tailrace() {
  local setting settings=() front nodes=${INTEROP_NODES:-1} folder n=0 cluster=() kafka=() ports=()
  [ -f "$state/nodes" ] || echo "$nodes" > "$state/nodes"
  nodes=$(say nodes)
  front=$(front)
  make_front "$front"
  for setting in $GROUP_SETTINGS $(tailrace_front "$front"); do settings+=(--set "$setting"); done
  # Four for each node, all different: Kafka, NATS, HTTP, peers.
  [ -f "$state/ports" ] || free_ports $((4 * nodes)) > "$state/ports"
  if [ "$nodes" -gt 1 ]; then
    settings+=(--set "default.replication.factor=$nodes")
  fi
  for folder in $(folders); do
    read -r -a ports <<< "$(cut -d' ' -f$((4 * n + 1))-$((4 * n + 4)) "$state/ports")"
    n=$((n + 1))
    mkdir -p "$folder/data"
    [ "$nodes" = 1 ] || cluster=(--node-id "$n" --cluster-listen "127.0.0.1:${ports[3]}")
    [ "$n" = 1 ] || cluster+=(--seed "127.0.0.1:$(cut -d' ' -f4 "$state/ports")")
    : > "$folder/out"
    # Listeners with names take the place of the one without.
    case ${TAILRACE_ARGS:-} in *"--set listeners="*) kafka=() ;; *) kafka=(--kafka "127.0.0.1:${ports[0]}") ;; esac
    # shellcheck disable=SC2086
    detached env -u TAILRACE_BIN -u TAILRACE_ARGS "${TAILRACE_BIN:?}" serve --data-dir "$folder/data" ${kafka[@]+"${kafka[@]}"} --nats "127.0.0.1:${ports[1]}" \
      --http "127.0.0.1:${ports[2]}" ${cluster[@]+"${cluster[@]}"} "${settings[@]}" ${TAILRACE_ARGS:-} > "$folder/out" 2>> "$folder/log" < /dev/null &
    echo $! > "$folder/pid"
  done
  for folder in $(folders); do settled "$folder"; done
}
settled() { # FOLDER: waits for the node there, and records its addresses
  local line
  wait_until_ready "$1" grep -q '^ready' "$1/out"
  line=$(grep -m1 '^ready' "$1/out")
  sed -n 's/^ready.* kafka=\([A-Z]*:\/\/\)\?\([^ ,]*\).*/\2/p' <<< "$line" > "$1/addr"
  sed -n 's/^ready.* kafka=[^ ]*SSL:\/\/\([^ ,]*\).*/\1/p' <<< "$line" > "$1/ssl"
  sed -n 's/^ready.* nats=\([^ ]*\).*/\1/p' <<< "$line" > "$1/nats"
  sed -n 's/^ready.* http=\([^ ]*\).*/\1/p' <<< "$line" > "$1/http"
  cp "$1/http" "$1/ws"
  [ -s "$1/addr" ] || die "no kafka address in: $line"
}

kafka_java() { java -Xms128m -Xmx512m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp "$KAFKA_LIBS/*" "$@"; }
launch_kafka() {
  local ports
  if [ ! -f "$state/addr" ]; then
    read -r -a ports <<< "$(free_ports)"
    cat > "$state/server.properties" <<P
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:${ports[1]}
listeners=PLAINTEXT://127.0.0.1:${ports[0]},CONTROLLER://127.0.0.1:${ports[1]}${KAFKA_LISTENER_MORE:+,$KAFKA_LISTENER_MORE}
advertised.listeners=PLAINTEXT://127.0.0.1:${ports[0]}${KAFKA_LISTENER_MORE:+,$KAFKA_LISTENER_MORE}
controller.listener.names=CONTROLLER
log.dirs=$state/data
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
$GROUP_SETTINGS
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
${KAFKA_EXTRA:-}
P
    kafka_java kafka.tools.StorageTool format -t AAAAAAAAAAAAAAAAAAAAAA -c "$state/server.properties" >> "$state/log" 2>&1 || die "format failed: $(tail -3 "$state/log")"
    echo "127.0.0.1:${ports[0]}" > "$state/addr"
  fi
  detached java -Xms256m -Xmx512m -XX:+UseSerialGC -cp "$KAFKA_LIBS/*" kafka.Kafka "$state/server.properties" >> "$state/log" 2>&1 < /dev/null &
  echo $! > "$state/pid"
  wait_until_ready "$state" kafka_answers
}
kafka_answers() { (exec 3<> "/dev/tcp/127.0.0.1/$(say addr | cut -d: -f2)") 2>/dev/null; }

launch_nats() { # JetStream is on, so that publishing to it can be compared
  local ports
  if [ ! -f "$state/nats.conf" ]; then
    front > /dev/null
    make_front "$(say front)"
    read -r -a ports <<< "$(free_ports)"
    cat > "$state/nats.conf" <<C
listen: "127.0.0.1:${ports[0]}"
websocket { listen: "127.0.0.1:${ports[1]}", no_tls: true, compression: true }
http: "127.0.0.1:${ports[2]}"
jetstream { store_dir: "$state/data" }
$(nats_front "$(say front)")
${NATS_EXTRA:-}
C
    echo "127.0.0.1:${ports[0]}" > "$state/nats"
    echo "127.0.0.1:${ports[1]}" > "$state/ws"
    echo "127.0.0.1:${ports[2]}" > "$state/http"
    cp "$state/nats" "$state/addr"
  fi
  detached "${NATS_SERVER_BIN:?}" -c "$state/nats.conf" >> "$state/log" 2>&1 < /dev/null &
  echo $! > "$state/pid"
  wait_until_ready "$state" nats_answers
}
nats_answers() { (exec 3<> "/dev/tcp/127.0.0.1/$(say nats | cut -d: -f2)") 2>/dev/null; }

wait_until_ready() { # FOLDER CONDITION...
  local end=$((SECONDS + START_SECONDS_MAX)) folder=$1 pid
  shift
  pid=$(cat "$folder/pid")
  until "$@"; do
    alive "$pid" || die "the server ended while starting: $(tail -3 "$folder/log")"
    [ $SECONDS -lt $end ] || die "the server was not ready after $START_SECONDS_MAX s"
    sleep 0.05
  done
}
stop() {
  local pid pids end=$((SECONDS + STOP_SECONDS_MAX))
  pids=$(cat "$state/pid" "$state"/node*/pid 2>/dev/null || true) # there may be no other nodes
  for pid in $pids; do kill -s "${1:-TERM}" "$pid" 2>/dev/null || true; done
  for pid in $pids; do
    while alive "$pid"; do
      if [ $SECONDS -ge $end ]; then kill -s KILL $pids 2>/dev/null || true; die "the server did not stop within $STOP_SECONDS_MAX s of SIG${1:-TERM}"; fi
      sleep 0.05
    done
  done
}

case $command in
  start)
    mkdir -p "$state/data"
    echo "${3:?tailrace, kafka or nats}" > "$state/target"
    "launch_$3"; say addr ;;
  stop) stop "${3:-TERM}" ;;
  again) "launch_$(say target)" ;;
  restart) stop "${3:-TERM}"; "launch_$(say target)" ;;
  *) die "unknown command $command" ;;
esac
