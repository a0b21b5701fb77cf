#!/bin/bash
# The adapters of `tailrace bench` against the systems themselves:
# interop/bench-systems.sh [--full] [GROUP...]
#
# Groups: harness (noop, tcp-echo, http), nng and zeromq (with their own libraries), redis, mosquitto,
# postgres, rabbitmq (AMQP, MQTT, STOMP), tailrace (over NATS and Kafka); with --full also nats (core and
# JetStream), kafka (with librdkafka, too), activemq, and nsq. Each group starts its servers on free ports of
# loopback, with data in a folder of its own, and ends them.
#
# Per system: the tests of crates/bench/tests/systems that speak to it (every message comes back once, in
# order, undamaged; a stall shows at its true length), which must have run; `tailrace bench run` with checked
# counts, also over TLS and with credentials; refusals, each of which is one line and status 1; and, with
# --full, what `bench clean` finds and removes of a killed run. Prints PASS or FAIL for each check, and
# SKIPPED with the reason if a server cannot be installed. Status 1 if a check failed. KEEP=1 keeps data and
# logs.
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
. "$INTEROP/bench-servers.sh"
FULL='' GROUPS_WANTED=()
while [ $# -gt 0 ]; do case $1 in
  --full) FULL=1 ;;
  -h|--help) sed -n '2,15s/^# \{0,1\}//p' "$0"; exit 0 ;;
  -*) die "unknown flag $1" ;;
  *) GROUPS_WANTED+=("$1") ;;
esac; shift; done
[ ${#GROUPS_WANTED[@]} -gt 0 ] || GROUPS_WANTED=(rabbitmq postgres nng zeromq redis mosquitto tailrace harness ${FULL:+kafka activemq nats nsq})
GROUPS_AT_ONCE=4 # the checks mostly wait
RATE=500 SECONDS_MEASURED=2 RUN_SECONDS_MAX=120 TEST_SECONDS_MAX=300
ANSWER_SECONDS_MAX=60 # counts must be right on a busy machine, too: a late message is not lost

pass() { echo "PASS $*"; }
fail() { echo "FAIL $*"; }

# ---- the three kinds of checks ----
tested() { # SYSTEM REQUIRED TEST [VARIABLE=VALUE...]: a test of crates/bench/tests/systems, which must have run
  local system=$1 required=$2 test=$3 log=$WORK/$1-$3.log; shift 3
  (cd "$ROOT/crates/bench" && env "$@" TAILRACE_BENCH_REQUIRED="$required" timeout $TEST_SECONDS_MAX "$TESTS_BIN" --exact "$test" --nocapture) > "$log" 2>&1
  if [ $? = 0 ] && grep -q '^test result: ok. 1 passed; 0 failed' "$log" && ! grep -q '^not tried' "$log"; then pass "$system: test $test"
  else fail "$system: test $test"; tail -15 "$log"; fi
}
bench() { timeout $RUN_SECONDS_MAX "$BENCH_BIN" bench run -q --rate $RATE --warm-up 200ms "$@" < /dev/null; }
counted() { # NAME a|r|ar ARGUMENT...: a run of the program; a late generator (status 1) is not the system's fault
  local name=$1 expected=$2 wrong rc; shift 2
  bench --duration ${SECONDS_MEASURED}s --timeout ${ANSWER_SECONDS_MAX}s -o json "$@" > "$WORK/$name.json" 2> "$WORK/$name.err"; rc=$?
  [ $rc -le 1 ] && [ -s "$WORK/$name.json" ] || { fail "$name: bench run ended with status $rc: $(tail -3 "$WORK/$name.err")"; return; }
  if wrong=$(python3 "$INTEROP/tools/bench_counts.py" $((RATE * SECONDS_MEASURED)) "$expected" < "$WORK/$name.json" 2>&1); then
    pass "$name: $((RATE * SECONDS_MEASURED)) messages counted ($(python3 -c 'import json, sys; print(json.load(sys.stdin)["system_version"] or "reports no version")' < "$WORK/$name.json"))"
  else fail "$name: $wrong"; fi
}
refused() { # NAME WORDS ARGUMENT...: nothing on standard output, one line with the words on standard error, status 1
  local name=$1 words=$2 rc out=$WORK/refused-$1; shift 2
  bench --duration 1s "$@" > "$out.out" 2> "$out.err"; rc=$?
  if [ $rc = 1 ] && [ ! -s "$out.out" ] && [ "$(wc -l < "$out.err")" = 1 ] && grep -qF -- "$words" "$out.err"; then pass "$name is refused: $(cut -c1-160 "$out.err")"
  else fail "$name: status $rc, not one line with '$words': $(head -c 600 "$out.err" "$out.out")"; fi
}

# Checks of what a killed run leaves. TOOL stands for two functions: TOOL_names prints what is on the server,
# by the server's own means, and TOOL_make makes something there. Names that only look like ours must stay.
# NAME SYSTEM TOOL ARGUMENT...: kills a run. What the run had named must exist, be listed and be removed, and
# nothing else may be.
cleaned() {
  [ -n "$FULL" ] || return 0
  local name=$1 system=$2 tool=$3 out=$WORK/cleaned-$1 said; shift 3
  earlier_are_gone "$tool"
  strangers "$tool" > "$out.before" || { fail "$name: nothing can be made with $tool"; return; }
  killed "$out" "$tool" "$system" "$@"
  said=$(sed -n 's/.*creates the [a-z]* \([^ ,;]*\) to \([^ ,;]*\)[,;].*/\1 \2/p' "$out.run" | tr ' ' '\n' | sort)
  # A list that was empty when the run was killed no longer exists.
  { cat "$out.before"; "${tool}_names" | sort | comm -12 - <(echo "$said"); } | sort > "$out.expected"
  judged_clean "$name" "$out" "$tool" "$system" "$@"
}
# NAME OUT TOOL SYSTEM ARGUMENT...: of what exists (OUT.expected), everything except what existed before is
# listed, and removed only with --yes.
judged_clean() {
  local name=$1 out=$2 tool=$3 system=$4; shift 4
  comm -13 "$out.before" "$out.expected" > "$out.ours"
  "${tool}_names" | sort > "$out.there"
  left "$system" "$@" | sed 's/^[a-z]* //' | sort > "$out.listed"
  "${tool}_names" | sort > "$out.untouched"
  left "$system" "$@" --yes > "$out.removed"
  "${tool}_names" | sort > "$out.after"
  if { [ -s "$out.ours" ] || [ "$(cat "$out.seen")" -ge 2 ]; } && cmp "$out.expected" "$out.there" && cmp "$out.ours" "$out.listed" && cmp "$out.expected" "$out.untouched" && cmp "$out.before" "$out.after"; then
    pass "$name: a killed run left $(paste -sd ' ' "$out.ours"); bench clean removed that, and nothing of $(paste -sd ' ' "$out.before")"
  else fail "$name: bench clean: $(tail -n 20 "$out.run" "$out.expected" "$out.there" "$out.listed" "$out.untouched" "$out.after" "$WORK/clean.err")"; fi
}
earlier_are_gone() { # TOOL: waits until servers have removed what ended runs left, which would be missed later
  local end=$((SECONDS + 60))
  while "$1_names" | grep -qE '^tailrace-bench[.-][0-9]{2,}[.-][0-9]+(#ephemeral)?$' && [ $SECONDS -lt $end ]; do sleep 0.2; done
}
strangers() { # TOOL: makes names that are not ours, and prints everything that exists
  local tool=$1 one separator=.
  [ "$tool" != jetstream ] || separator=-
  for one in mine 7.0.1; do "${tool}_make" "tailrace-bench$separator${one//./$separator}" || return 1; done
  "${tool}_make" "tailrace-benchmark${separator}7${separator}0" || return 1
  "${tool}_names" | sort
}
killed() { # OUT TOOL SYSTEM ARGUMENT...: a run over two connections, killed once both of what it makes exist
  local out=$1 tool=$2 system=$3 pid there end=$((SECONDS + 60)) before; shift 3
  before=$(wc -l < "$out.before")
  # A list exists only while it has elements: the run sends more than one BRPOP after the other can take.
  [ "$system" != redis-lists ] || set -- "$@" --rate 100000
  "$BENCH_BIN" bench run --system "$system" --connections 2 --duration 300s "$@" > "$out.run" 2>&1 < /dev/null & pid=$!
  SERVERS+=($pid)
  until there=$("${tool}_names" | wc -l) && [ "$there" -ge $((before + 2)) ] || [ $SECONDS -ge $end ]; do sleep 0.2; done
  echo $((there - before)) > "$out.seen"
  kill -KILL $pid 2>/dev/null; wait $pid 2>/dev/null
}
leaves_nothing() { # NAME SYSTEM TOOL ARGUMENT...: kills a run; what it had on the server goes by itself
  [ -n "$FULL" ] || return 0
  local name=$1 system=$2 tool=$3 out=$WORK/leaves-$1 end; shift 3
  earlier_are_gone "$tool"
  "${tool}_names" | sort > "$out.before"
  killed "$out" "$tool" "$system" "$@"
  end=$((SECONDS + 30))
  until "${tool}_names" | sort > "$out.after" && cmp -s "$out.before" "$out.after" || [ $SECONDS -ge $end ]; do sleep 0.5; done
  if [ "$(cat "$out.seen")" -lt 2 ]; then fail "$name: nothing of the run was seen while it went on: $(cat "$out.run")"
  elif ! cmp -s "$out.before" "$out.after"; then fail "$name: a killed run left $(cat "$out.after")"
  elif left "$system" "$@" > /dev/null; then fail "$name: bench clean knows of what a run leaves, and it leaves nothing"
  else pass "$name: a killed run left nothing"; fi
}
names_first() { # SYSTEM...: the run says what it makes before it meets the server, which does not exist here
  local system out=$WORK/names-first
  for system in "$@"; do
    bench_loud --system "$system" --connections 2 --address 127.0.0.1:1 > "$out.out" 2> "$out.err"
    if sed -n 1p "$out.err" | grep -q 'creates the [a-z]* tailrace-bench.* to tailrace-bench.* removes leftovers' && sed -n 2p "$out.err" | grep -q 'cannot connect'; then
      pass "$system: a run names what it makes before it makes it"
    else fail "$system: what it makes is not named first: $(cat "$out.err")"; fi
  done
}
bench_loud() { timeout $RUN_SECONDS_MAX "$BENCH_BIN" bench run --rate 100 --duration 1s "$@" < /dev/null; }
left() { timeout 20 "$BENCH_BIN" bench clean "$@" < /dev/null 2>> "$WORK/clean.err"; }

# NAME a|r|ar WORDS ARGUMENT...: a server that demands a client certificate gets one. Without one it refuses
# in WORDS, and it refuses a foreign one by TLS.
wants_certificate() {
  local name=$1 expected=$2 words=$3; shift 3
  set -- "$@" --set tls-ca="$CA"
  counted "$name-certificate" "$expected" "$@" --set tls-cert="$WORK/tls/client.pem" --set tls-key="$WORK/tls/client.key"
  refused "$name without the certificate that it demands" "$words" "$@"
  refused "$name with the certificate of a stranger" "TLS: " "$@" --set tls-cert="$(other_authority)" --set tls-key="$WORK/other.key"
}

# ---- the groups ----
group_harness() { # its tests need nothing else, and run with all others
  counted noop a --system noop
  counted tcp-echo r --system tcp-echo
  counted http r --system http --connections 4
  names_first jetstream redis-streams redis-lists rabbitmq stomp nsq kafka tailrace-kafka
}
redis_tool() { redis-cli -h "${REDIS_OPEN%:*}" -p "$(port_of "$REDIS_OPEN")" "$@"; }
redis_names() { redis_tool --raw keys '*' | grep .; }
redis_make() { [ "$(redis_tool set "$1" 1)" = OK ]; }
channels_names() { redis_tool --raw pubsub channels | sed "/^$/d"; } # no channel is an empty line
jetstream_names() { curl -fsS "http://$NATS_MONITOR/jsz?streams=1" | python3 -c 'import json, sys; [print(s["name"]) for a in json.load(sys.stdin).get("account_details", []) for s in a.get("stream_detail", [])]'; }
jetstream_make() { python3 "$INTEROP/tools/make_stream.py" "$NATS_OPEN" "$1"; }
kafka_tool() { java -Xmx128m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp "$KAFKA_LIBS/*" org.apache.kafka.tools.TopicCommand --bootstrap-server "$KAFKA" "$@" 2>> "$WORK/kafka-tool.log"; }
kafka_names() { kafka_tool --list; }
kafka_make() { kafka_tool --create --topic "$1" > "$WORK/kafka-make.log" 2>&1; }
tailrace_names() { "$BENCH_BIN" topic list -b "$TAILRACE_KAFKA" | awk '/^tailrace-/ { print $1 }'; }
tailrace_make() { "$BENCH_BIN" topic create "$1" -b "$TAILRACE_KAFKA" > "$WORK/tailrace-make.log" 2>&1; }
rabbitmq_names() { rabbitmq_tool list_queues -q --no-table-headers name; }
rabbitmq_make() { curl -fsS -u guest:guest -H 'content-type: application/json' -X PUT -d '{"durable": true}' "http://$RABBITMQ_MANAGEMENT/api/queues/%2F/$1"; }
nsq_names() { curl -fsS "http://$NSQ_HTTP/stats?format=json" | python3 -c 'import json, sys; [print(t["topic_name"]) for t in json.load(sys.stdin)["topics"]]'; }
nsq_make() { curl -fsS -X POST "http://$NSQ_HTTP/topic/create?topic=$1"; }
postgres_names() { PGPASSWORD=s3cret psql -h "${POSTGRES%:*}" -p "$(port_of "$POSTGRES")" -U postgres -Atc "select pid from pg_stat_activity where application_name = 'tailrace bench' union select oid from pg_class where relname like 'tailrace%'"; }

# An nsqd that is busy when a run is killed reads what was published after it has noticed that the subscriber
# is gone, and keeps the topic. nsqd is stopped for that moment.
cleaned_nsq() {
  local out=$WORK/cleaned-nsq pid tries=0
  strangers nsq > "$out.before" || { fail "nsq: no topics can be made"; return; }
  cp "$out.before" "$out.expected"
  while cmp -s "$out.before" "$out.expected" && [ $((tries += 1)) -le 30 ]; do
    "$BENCH_BIN" bench run --system nsq --address "$NSQD" --connections 2 --rate 3000 --duration 60s > "$out.run" 2>&1 < /dev/null & pid=$!
    SERVERS+=($pid)
    until nsq_names | grep -q '^tailrace-bench.*#ephemeral' || ! alive $pid; do sleep 0.1; done
    sleep 1 # messages flow
    kill -STOP $NSQD_PID; sleep 0.3; kill -KILL $pid; wait $pid 2>/dev/null; kill -CONT $NSQD_PID
    nsq_settles "$out.expected"
  done
  judged_clean nsq "$out" nsq nsq --address "$NSQD" --set http="$NSQ_HTTP"
}
nsq_settles() { # FILE: what exists when no topic has a subscriber any more
  local end=$((SECONDS + 30))
  while curl -fsS "http://$NSQ_HTTP/stats?format=json" | grep -q '"client_id"' && [ $SECONDS -lt $end ]; do sleep 0.2; done
  nsq_names | sort > "$1"
}
group_nsq() {
  install_nsqd || { echo "SKIPPED nsq: nsqd cannot be fetched"; return; }
  start_nsqd || return
  tested nsq nsq servers::nsq TAILRACE_BENCH_NSQ="$NSQD"
  counted nsq ar --system nsq --address "$NSQD"
  counted nsq-unbuffered ar --system nsq --address "$NSQD" --set output_buffer_timeout=-1
  wants_certificate nsq ar "TLS: " --system nsq --address "$NSQD_MUTUAL"
  counted nsq-tls ar --system nsq --address "$NSQD" --set tls-ca="$CA"
  cleaned_nsq
  refused "nsq with a payload of 2 MiB" "E_BAD_MESSAGE" --system nsq --address "$NSQD" --size 2MiB
}
brokerless() { # without its library it is tested with all others
  tested "$1 with its own library" python "brokerless::$1_library" TAILRACE_BENCH_PYTHON="$BENCH_PYTHON"
  counted "$1" r --system "$1"
  counted "$1-pub-sub" r --system "$1" --set pattern=pub-sub
  counted "$1-request" r --system "$1" --set pattern=request
}
group_nng() { brokerless nng; }
group_zeromq() { brokerless zeromq; }
group_redis() {
  have redis-server || { fail "redis: redis-server is not installed"; return; }
  local open closed
  open=$(free_address) && start_redis open "$open" && closed=$(free_address) && start_redis closed "$closed" --requirepass s3cret || return
  tested redis redis servers::redis_and_streams TAILRACE_BENCH_REDIS="$open"
  counted redis ar --system redis --address "$open"
  counted redis-streams ar --system redis-streams --address "$open"
  refused "redis without its password" NOAUTH --system redis --address "$closed"
  refused "redis-streams without its password" NOAUTH --system redis-streams --address "$closed"
  refused "redis with a payload of 2 MiB" "invalid bulk length" --system redis --address "$open" --size 2MiB
  counted redis-lists ar --system redis-lists --address "$open"
  REDIS_OPEN=$open
  cleaned redis-streams redis-streams redis --address "$open"
  cleaned redis-lists redis-lists redis --address "$open"
  leaves_nothing redis redis channels --address "$open"
  start_redis_secure || return
  printf 's3cret\n' > "$WORK/redis-password"
  counted redis-tls ar --system redis --address "$REDIS_SECURE" --set tls-ca="$CA" --set password-file="$WORK/redis-password"
  counted redis-tls-alice ar --system redis-streams --address "$REDIS_SECURE" --set tls-ca="$CA" --set user=alice --set password=alices
  wants_certificate redis ar "TLS: " --system redis --address "$REDIS_MUTUAL" --set password=s3cret
  refused "redis with a wrong password" WRONGPASS --system redis --address "$closed" --set password=guess
  refused "redis over TLS that nobody trusts" "invalid peer certificate" --system redis --address "$REDIS_SECURE" --set tls-ca="$(other_authority)" --set password=s3cret
  redis_closed_to_publishers "$open"
  refused "redis without permission to publish" NOPERM --system redis --address "$open"
}
group_mosquitto() {
  have mosquitto || { fail "mosquitto: it is not installed"; return; }
  start_mosquitto || return
  tested mosquitto mqtt servers::mqtt TAILRACE_BENCH_MQTT="$MQTT_OPEN"
  counted mosquitto ar --system mqtt --address "$MQTT_OPEN"
  counted mosquitto-qos0 r --system mqtt --address "$MQTT_OPEN" --set qos=0
  counted mosquitto-alice ar --system mqtt --address "$MQTT_CLOSED" --set user=alice --set password=s3cret
  refused "mosquitto with a wrong password" "not authorised" --system mqtt --address "$MQTT_CLOSED" --set user=alice --set password=guess
  counted mosquitto-tls ar --system mqtt --address "$MQTT_SECURE" --set tls-ca="$CA" --set user=alice --set password=s3cret
  wants_certificate mosquitto ar "TLS: " --system mqtt --address "$MQTT_MUTUAL"
  refused "mosquitto without a password" "not authorised" --system mqtt --address "$MQTT_CLOSED"
  refused "mosquitto without permission to read" "delivering a message that it had acknowledged" --system mqtt --address "$MQTT_CLOSED" --set user=bob --set password=s3cret
  refused "mosquitto without permission to publish" "delivering a message that it had acknowledged" --system mqtt --address "$MQTT_CLOSED" --set user=carol --set password=s3cret
  refused "mosquitto with a payload of 2 MiB" "onnection" --system mqtt --address "$MQTT_OPEN" --size 2MiB
}
other_authority() { # a certificate that signed nothing
  [ -s "$WORK/other.pem" ] || openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout "$WORK/other.key" -out "$WORK/other.pem" -subj /CN=other -days 2 2> /dev/null
  echo "$WORK/other.pem"
}
group_postgres() {
  find_postgres || { fail "postgres: PostgreSQL is not installed"; return; }
  tested postgres postgres servers::postgres
  start_postgres || return
  counted postgres ar --system postgres --address "$POSTGRES" --set password=s3cret
  counted postgres-tls ar --system postgres --address "$POSTGRES" --set tls-ca="$CA" --set password=s3cret
  wants_certificate postgres ar "connection requires a valid client certificate" --system postgres --address "$POSTGRES" --set password=s3cret --set database=template1
  leaves_nothing postgres postgres postgres --address "$POSTGRES" --set password=s3cret
  refused "postgres over TLS that nobody trusts" "invalid peer certificate" --system postgres --address "$POSTGRES" --set tls-ca="$(other_authority)" --set password=s3cret
  refused "postgres with a wrong password" "password authentication failed" --system postgres --address "$POSTGRES" --set password=guess
  refused "postgres with a user who is not there" "password authentication failed" --system postgres --address "$POSTGRES" --set user=bob --set password=s3cret
  refused "postgres with a payload of 6000 bytes" "too large for NOTIFY" --system postgres --address "$POSTGRES" --size 6000
}
group_rabbitmq() {
  have rabbitmq-server || { fail "rabbitmq: rabbitmq-server is not installed"; return; }
  start_rabbitmq || return
  local tests=() # together: this is the longest group
  tested rabbitmq rabbitmq servers::rabbitmq TAILRACE_BENCH_RABBITMQ="$AMQP" & tests+=($!)
  tested "rabbitmq's MQTT" mqtt servers::mqtt TAILRACE_BENCH_MQTT="$RABBITMQ_MQTT" & tests+=($!)
  tested "rabbitmq's STOMP" stomp servers::stomp TAILRACE_BENCH_STOMP="$RABBITMQ_STOMP" & tests+=($!)
  wait "${tests[@]}"
  counted rabbitmq ar --system rabbitmq --address "$AMQP"
  counted rabbitmq-transient ar --system rabbitmq --address "$AMQP" --set durable=false
  counted rabbitmq-mqtt ar --system mqtt --address "$RABBITMQ_MQTT" --set user=guest --set password=guest
  counted rabbitmq-stomp ar --system stomp --address "$RABBITMQ_STOMP" --set expires=1
  counted rabbitmq-quorum ar --system rabbitmq --address "$AMQP" --set queue=quorum
  counted rabbitmq-stream ar --system rabbitmq --address "$AMQP" --set queue=stream
  wants_certificate rabbitmq ar "TLS: " --system rabbitmq --address "$AMQPS"
  wants_certificate rabbitmq-mqtt ar "TLS: " --system mqtt --address "$RABBITMQ_MQTTS" --set user=guest --set password=guest
  wants_certificate rabbitmq-stomp ar "TLS: " --system stomp --address "$RABBITMQ_STOMPS" --set expires=1
  local queue
  for queue in classic quorum stream; do cleaned "rabbitmq-$queue" rabbitmq rabbitmq --address "$AMQP" --set management="$RABBITMQ_MANAGEMENT" --set queue=$queue --set expires=0; done
  cleaned rabbitmq-stomp stomp rabbitmq --address "$RABBITMQ_STOMP" --set management="$RABBITMQ_MANAGEMENT" --set expires=0
  leaves_nothing rabbitmq-mqtt mqtt rabbitmq --address "$RABBITMQ_MQTT" --set user=guest --set password=guest
  leaves_no_queue
  refused "rabbitmq with a wrong password" ACCESS_REFUSED --system rabbitmq --address "$AMQP" --set password=guess
  refused "rabbitmq with a virtual host that is not there" "NOT_ALLOWED" --system rabbitmq --address "$AMQP" --set vhost=/nowhere
  refused "rabbitmq without permission" ACCESS_REFUSED --system rabbitmq --address "$AMQP" --set user=bob --set password=s3cret
  refused "rabbitmq with a payload of 2 MiB" PRECONDITION_FAILED --system rabbitmq --address "$AMQP" --size 2MiB
  refused "rabbitmq's MQTT with a wrong password" "user or password" --system mqtt --address "$RABBITMQ_MQTT" --set user=guest --set password=guess
  refused "rabbitmq's STOMP with a wrong password" "Bad CONNECT" --system stomp --address "$RABBITMQ_STOMP" --set password=guess
  refused "rabbitmq's STOMP without permission" "refused" --system stomp --address "$RABBITMQ_STOMP" --set user=bob --set password=s3cret
}
leaves_no_queue() { # RabbitMQ removes the queue of STOMP itself, a second after the run
  local end=$((SECONDS + 30)) name list=(stomp --address "$RABBITMQ_STOMP" --set management="$RABBITMQ_MANAGEMENT")
  name=$("$BENCH_BIN" bench run --system stomp --address "$RABBITMQ_STOMP" --rate 100 --duration 1s --warm-up 200ms --set expires=1 2>&1 > /dev/null < /dev/null | sed -n 's/.*creates the queue \([^ ,;]*\)[,;].*/\1/p')
  while left "${list[@]}" | grep -q " $name\$" && [ $SECONDS -lt $end ]; do sleep 0.5; done
  if [ -n "$name" ] && [ $SECONDS -lt $end ]; then pass "rabbitmq's STOMP: the queue $name is gone after its run"; else fail "rabbitmq's STOMP: the queue '$name' is left: $(left "${list[@]}")"; fi
}
group_tailrace() {
  start_tailrace || return
  tested tailrace tailrace-nats servers::tailrace_nats TAILRACE_BENCH_TAILRACE_NATS="$TAILRACE_NATS"
  counted tailrace-nats r --system tailrace-nats --address "$TAILRACE_NATS"
  refused "tailrace with a payload of 2 MiB" "Maximum Payload" --system tailrace-nats --address "$TAILRACE_NATS" --size 2MiB
  tested tailrace tailrace-kafka servers::tailrace_kafka TAILRACE_BENCH_TAILRACE_KAFKA="$TAILRACE_KAFKA"
  counted tailrace-kafka ar --system tailrace-kafka --address "$TAILRACE_KAFKA"
  refused "tailrace over Kafka with a payload of 2 MiB" "MESSAGE_TOO_LARGE" --system tailrace-kafka --address "$TAILRACE_KAFKA" --size 2MiB
  cleaned tailrace-kafka tailrace-kafka tailrace --address "$TAILRACE_KAFKA"
  start_tailrace_secure || return
  counted tailrace-nats-tls r --system tailrace-nats --address "$TAILRACE_NATS_SECURE" --set tls-ca="$CA" --set user=alice --set password=s3cret
  counted tailrace-kafka-tls ar --system tailrace-kafka --address "$TAILRACE_KAFKA_SECURE" --set tls-ca="$CA"
  start_tailrace_mutual || return
  wants_certificate tailrace-nats r "TLS: " --system tailrace-nats --address "$TAILRACE_NATS_MUTUAL"
  wants_certificate tailrace-kafka ar "TLS: " --system tailrace-kafka --address "$TAILRACE_KAFKA_MUTUAL"
  refused "tailrace without the TLS that it demands" "demands TLS" --system tailrace-nats --address "$TAILRACE_NATS_SECURE" --set user=alice --set password=s3cret
  start_tailrace_closed || return
  counted tailrace-nats-alice r --system tailrace-nats --address "$TAILRACE_NATS_CLOSED" --set user=alice --set password=s3cret
  refused "tailrace with a wrong password" "Authorization Violation" --system tailrace-nats --address "$TAILRACE_NATS_CLOSED" --set user=alice --set password=guess
  refused "tailrace without its password" "Authorization Violation" --system tailrace-nats --address "$TAILRACE_NATS_CLOSED"
}
group_nats() {
  install_nats_server || { echo "SKIPPED nats: nats-server cannot be fetched"; return; }
  start_nats || return
  tested nats nats servers::nats_and_jetstream TAILRACE_BENCH_NATS="$NATS_OPEN"
  counted nats r --system nats --address "$NATS_OPEN"
  counted jetstream ar --system jetstream --address "$NATS_OPEN"
  counted jetstream-memory ar --system jetstream --address "$NATS_OPEN" --set storage=memory
  wants_certificate nats r "TLS: " --system nats --address "$NATS_MUTUAL"
  wants_certificate jetstream ar "TLS: " --system jetstream --address "$NATS_MUTUAL"
  counted nats-alice r --system nats --address "$NATS_CLOSED" --set user=alice --set password=s3cret
  counted nats-tls-token r --system nats --address "$NATS_SECURE" --set tls-ca="$CA" --set token=s3cret
  counted jetstream-tls-token ar --system jetstream --address "$NATS_SECURE" --set tls-ca="$CA" --set token=s3cret
  NATS_NKEY=$NATS_SEED counted nats-nkey r --system nats --address "$NATS_KEY" --set nkey-env=NATS_NKEY
  cleaned jetstream jetstream jetstream --address "$NATS_OPEN"
  refused "nats with a payload of 2 MiB" "Maximum Payload" --system nats --address "$NATS_OPEN" --size 2MiB
  refused "jetstream with a payload of 2 MiB" "Maximum Payload" --system jetstream --address "$NATS_OPEN" --size 2MiB
  refused "nats without its password" "Authorization Violation" --system nats --address "$NATS_CLOSED"
  refused "nats without permission to publish" "Permissions Violation" --system nats --address "$NATS_READ_ONLY"
  refused "jetstream on a server without it" "is JetStream enabled" --system jetstream --address "$NATS_PLAIN"
}
group_kafka() {
  install_java || { echo "SKIPPED kafka: Kafka's jars cannot be fetched"; return; }
  start_kafka || return
  tested kafka kafka servers::kafka TAILRACE_BENCH_KAFKA="$KAFKA"
  counted kafka ar --system kafka --address "$KAFKA"
  counted kafka-acks1 ar --system kafka --address "$KAFKA" --set acks=1
  counted kafka-acks0 r --system kafka --address "$KAFKA" --set acks=0
  refused "kafka with a payload of 2 MiB" "MESSAGE_TOO_LARGE" --system kafka --address "$KAFKA" --size 2MiB
  refused "kafka with a topic setting that is not there" "INVALID_CONFIG" --system kafka --address "$KAFKA" --set topic.colour=red
  cleaned kafka kafka kafka --address "$KAFKA"
  wants_certificate kafka ar "TLS: " --system kafka --address "$KAFKA_MUTUAL"
  counted kafka-tls-plain ar --system kafka --address "$KAFKA_SECURE" --set tls-ca="$CA" --set user=alice --set password=s3cret
  refused "kafka with a wrong password" "SASL_AUTHENTICATION_FAILED" --system kafka --address "$KAFKA_SECURE" --set tls-ca="$CA" --set user=alice --set password=guess
  kafka_user bob s3cret && counted kafka-tls-scram ar --system kafka --address "$KAFKA_SECURE" --set tls-ca="$CA" --set user=bob --set password=s3cret --set mechanism=SCRAM-SHA-256
  tested "kafka through librdkafka" kafka servers::kafka_librdkafka TAILRACE_BENCH_KAFKA="$KAFKA"
  counted kafka-librdkafka ar --system kafka-librdkafka --address "$KAFKA"
  counted kafka-librdkafka-acks1 ar --system kafka-librdkafka --address "$KAFKA" --set client.acks=1
  refused "librdkafka with a payload of 2 MiB that only the broker refuses" "too large" --system kafka-librdkafka --address "$KAFKA" --size 2MiB --set client.message.max.bytes=8000000
}
group_activemq() {
  install_activemq || { echo "SKIPPED activemq: ActiveMQ's jars cannot be fetched"; return; }
  start_activemq || return
  tested activemq stomp servers::stomp TAILRACE_BENCH_STOMP="$ACTIVEMQ_OPEN"
  counted activemq ar --system stomp --address "$ACTIVEMQ_OPEN"
  counted activemq-topic ar --system stomp --address "$ACTIVEMQ_OPEN" --set destination=/topic/
  counted activemq-alice ar --system stomp --address "$ACTIVEMQ_CLOSED" --set user=alice --set password=s3cret
  refused "activemq with a wrong password" "User name [alice] or password is invalid" --system stomp --address "$ACTIVEMQ_CLOSED" --set user=alice --set password=guess
  refused "activemq without permission" "not authorized" --system stomp --address "$ACTIVEMQ_CLOSED" --set user=bob --set password=s3cret
  refused "activemq with a payload of 8 MiB" "maximum data length" --system stomp --address "$ACTIVEMQ_OPEN" --size 8MiB
}

# ---- running them ----
run_group() { # in a process of its own, which ends what it started
  WORK=$WORK_ALL/$1 SERVERS=()
  mkdir -p "$WORK"
  trap end_servers EXIT
  trap 'exit 130' INT TERM
  "group_$1"
  end_servers
}
install_libraries() { install_brokerless || { fail "the libraries pynng and pyzmq cannot be installed"; BENCH_PYTHON=''; }; }
build_tests() { # the tests' binary, and a program with all systems
  local features=() log=$WORK_ALL/build.log
  [ -z "$FULL" ] || features=(--features tailrace-bench/kafka)
  # With the features of the whole workspace, to reuse what `cargo test` has built.
  (cd "$ROOT" && cargo test --workspace "${features[@]}" --test systems --no-run) > "$log" 2>&1 || { tail -20 "$log"; die "the tests of bench cannot be built"; }
  TESTS_BIN=$(sed -n 's/.*Executable .*systems.*(\(.*\))$/\1/p' "$log" | tail -1)
  case $TESTS_BIN in /*) ;; *) TESTS_BIN=$ROOT/$TESTS_BIN ;; esac
  [ -x "$TESTS_BIN" ] || die "cargo names no binary of the tests"
  install_tailrace || die "tailrace cannot be built"
  BENCH_BIN=$TAILRACE_BIN
  [ -z "$FULL" ] || knows_librdkafka || {
    (cd "$ROOT" && cargo build -p tailrace --features bench-kafka) > "$log" 2>&1 || { tail -20 "$log"; die "tailrace with Kafka's client cannot be built"; }
    BENCH_BIN=${CARGO_TARGET_DIR:-$ROOT/target}/debug/tailrace
  }
}
knows_librdkafka() { case $("$BENCH_BIN" bench run --system kafka-librdkafka --address 127.0.0.1:1 --set colour=red 2>&1) in *'no librdkafka'*) return 1 ;; esac; }

WORK_ALL=$(mktemp -d "${TMPDIR:-/tmp}/bench-systems.XXXXXX") JOBS=()
cleanup() {
  trap '' INT TERM
  [ ${#JOBS[@]} = 0 ] || kill "${JOBS[@]}" 2>/dev/null
  wait
  if [ -n "${KEEP:-}" ]; then echo "kept in $WORK_ALL"; else rm -rf "$WORK_ALL"; fi
}
trap cleanup EXIT
trap 'exit 130' INT TERM
chmod 711 "$WORK_ALL" # PostgreSQL runs as another user
for group in "${GROUPS_WANTED[@]}"; do declare -F "group_$group" > /dev/null || die "unknown group $group"; done
case " ${GROUPS_WANTED[*]} " in *" nng "*|*" zeromq "*) install_libraries > "$WORK_ALL/libraries.out"; cat "$WORK_ALL/libraries.out" ;; esac
build_tests
echo "built after $SECONDS s"
for group in "${GROUPS_WANTED[@]}"; do
  while [ "$(jobs -rp | wc -l)" -ge $GROUPS_AT_ONCE ]; do wait -n; done
  { began=$SECONDS; run_group "$group" > "$WORK_ALL/$group.out" 2>&1; echo "$group: $(grep -c '^PASS' "$WORK_ALL/$group.out") passed, $(grep -c '^FAIL' "$WORK_ALL/$group.out") failed ($((SECONDS - began)) s)" >> "$WORK_ALL/$group.out"; cat "$WORK_ALL/$group.out"; } &
  JOBS+=($!)
done
wait
PASSED=$(cat "$WORK_ALL"/*.out | grep -c '^PASS') FAILED=$(cat "$WORK_ALL"/*.out | grep -c '^FAIL')
echo "$PASSED passed, $FAILED failed ($SECONDS s)"
[ "$FAILED" = 0 ] && [ "$PASSED" != 0 ]
