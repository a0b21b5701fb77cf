# Sourced by bench-systems.sh and bench-agreement.sh (bash): installs and starts the servers that
# `tailrace bench` is tried with. Each start function sets the variables that its callers need, leaves data
# and log in $WORK, and the process in SERVERS; end_servers ends them all. If a server does not start, the
# function prints FAIL with the end of the log. Redis, mosquitto, PostgreSQL and RabbitMQ come from Debian
# (`.ci/run` installs them).
SERVER_SECONDS_MAX=240 NSQ_VERSION=v1.3.0
have() { command -v "$1" > /dev/null 2>&1; }

# Nothing else listens on this address. Connections within the machine come from 127.0.0.1, so none of them
# takes the port meanwhile.
free_address() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.2", 0)); print("127.0.0.2:%d" % s.getsockname()[1])'; }
# The same for servers that need 127.0.0.1.
local_address() { echo "127.0.0.1:$(python3 "$INTEROP/python/ports.py" 1)"; }
port_of() { echo "${1##*:}"; }
accepts() { (exec 3<> "/dev/tcp/${1%:*}/${1##*:}") 2>/dev/null; }
alive() { kill -0 "$1" 2>/dev/null; }
ready() { # NAME PID COMMAND...: waits until the command succeeds
  local name=$1 pid=$2 end=$((SECONDS + SERVER_SECONDS_MAX)); shift 2
  SERVERS+=("$pid")
  until "$@" 2>/dev/null; do
    if ! alive "$pid" || [ $SECONDS -ge $end ]; then echo "FAIL $name does not start"; tail -5 "$WORK/$name.log"; return 1; fi
    sleep 0.1
  done
}
end_servers() {
  local pid end=$((SECONDS + 20)) running=("${SERVERS[@]}")
  SERVERS=()
  for pid in "${running[@]}"; do kill "$pid" 2>/dev/null; done
  for pid in "${running[@]}"; do
    while alive "$pid"; do
      if [ $SECONDS -ge $end ]; then kill -KILL "$pid" 2>/dev/null; break; fi
      sleep 0.1
    done
  done
}

# A private authority, ca.pem, and its certificates: server.pem for this machine, client.pem for alice, each
# with its key.
make_certificates() {
  local dir=$WORK/tls
  [ ! -s "$dir/server.pem" ] || return 0
  mkdir -p "$dir" && chmod 755 "$dir"
  printf 'subjectAltName=IP:127.0.0.1,IP:127.0.0.2,DNS:localhost\nbasicConstraints=CA:FALSE\n' > "$dir/extensions"
  printf 'basicConstraints=CA:FALSE\nextendedKeyUsage=clientAuth\n' > "$dir/client-extensions"
  (cd "$dir" && openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout ca.key -out ca.pem -subj /CN=bench-authority -days 2 &&
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout server.key -out server.csr -subj /CN=localhost &&
    openssl x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile extensions -out server.pem &&
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout client.key -out client.csr -subj /CN=alice &&
    openssl x509 -req -in client.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile client-extensions -out client.pem) > "$dir/log" 2>&1 ||
    { echo "FAIL certificates: $(tail -3 "$dir/log")"; return 1; }
  chmod 644 "$dir"/*.pem "$dir/server.key"
  CA=$dir/ca.pem
}

start_redis() { # NAME ADDRESS OPTION...
  local name=redis-$1 address=$2; shift 2
  redis-server --bind 127.0.0.2 --port "$(port_of "$address")" --save '' --appendonly no --dir "$WORK" --proto-max-bulk-len 1mb "$@" > "$WORK/$name.log" 2>&1 < /dev/null &
  ready "$name" $! accepts "$address"
}
start_redis_secure() { # over TLS only; alice and the default user have passwords; a second server demands certificates
  REDIS_SECURE=$(free_address) REDIS_MUTUAL=$(free_address)
  local tls=$WORK/tls
  make_certificates && start_redis secure "$REDIS_SECURE" --tls-port "$(port_of "$REDIS_SECURE")" --port 0 --tls-cert-file "$tls/server.pem" --tls-key-file "$tls/server.key" \
    --tls-ca-cert-file "$tls/ca.pem" --tls-auth-clients no --requirepass s3cret --user alice on '>alices' '~*' '&*' +@all &&
    start_redis mutual "$REDIS_MUTUAL" --tls-port "$(port_of "$REDIS_MUTUAL")" --port 0 --tls-cert-file "$tls/server.pem" --tls-key-file "$tls/server.key" \
      --tls-ca-cert-file "$tls/ca.pem" --tls-auth-clients yes --requirepass s3cret
}
redis_closed_to_publishers() { # ADDRESS: clients that connect from now on may not publish
  python3 -c '
import socket, sys
host, port = sys.argv[1].rsplit(":", 1)
with socket.create_connection((host, int(port)), 5) as s:
    s.sendall(b"ACL SETUSER default -publish\r\n")
    sys.exit(s.recv(100) != b"+OK\r\n")' "$1" || echo "FAIL redis: its permissions cannot be changed"
}

# alice may do everything, bob may not read, carol may not write (mosquitto tells neither of them).
start_mosquitto() {
  local user
  MQTT_OPEN=$(free_address) MQTT_CLOSED=$(free_address) MQTT_SECURE=$(free_address) MQTT_MUTUAL=$(free_address)
  make_certificates || return 1
  : > "$WORK/passwords"; chmod 600 "$WORK/passwords"
  for user in alice bob carol; do mosquitto_passwd -b "$WORK/passwords" $user s3cret || { echo "FAIL mosquitto: no password can be set"; return 1; }; done
  printf '%s\n' 'user alice' 'topic readwrite #' 'user bob' 'topic write #' 'user carol' 'topic read #' > "$WORK/acl"
  chmod 600 "$WORK/acl"
  cat > "$WORK/mosquitto.conf" <<C
user $(id -un)
persistence false
log_dest stderr
max_packet_size 1048576
per_listener_settings true
listener $(port_of "$MQTT_OPEN") 127.0.0.2
allow_anonymous true
listener $(port_of "$MQTT_CLOSED") 127.0.0.2
allow_anonymous false
password_file $WORK/passwords
acl_file $WORK/acl
listener $(port_of "$MQTT_SECURE") 127.0.0.2
allow_anonymous false
password_file $WORK/passwords
acl_file $WORK/acl
certfile $WORK/tls/server.pem
keyfile $WORK/tls/server.key
listener $(port_of "$MQTT_MUTUAL") 127.0.0.2
allow_anonymous true
cafile $WORK/tls/ca.pem
certfile $WORK/tls/server.pem
keyfile $WORK/tls/server.key
require_certificate true
C
  mosquitto -c "$WORK/mosquitto.conf" > "$WORK/mosquitto.log" 2>&1 < /dev/null &
  ready mosquitto $! accepts "$MQTT_CLOSED"
}

find_postgres() {
  local folder
  for folder in /usr/lib/postgresql/*/bin; do [ ! -x "$folder/initdb" ] || PATH=$folder:$PATH; done
  have initdb && have postgres
}
unprivileged() { if [ "$(id -u)" = 0 ]; then setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; else "$@"; fi; } # PostgreSQL refuses to run as root
start_postgres() { # user postgres, password s3cret; with TLS for clients that ask for it; template1 demands certificates
  local home=$WORK/postgres
  POSTGRES=$(free_address)
  mkdir -p "$home" && echo s3cret > "$home/password" && chmod 711 "$WORK"
  [ "$(id -u)" != 0 ] || chown -R 65534:65534 "$home"
  (cd "$home" && LC_ALL=C unprivileged initdb --username=postgres --no-sync --auth=scram-sha-256 --encoding=UTF8 --pwfile=password -D data) > "$WORK/postgres.log" 2>&1 ||
    { echo "FAIL postgres: initdb"; tail -5 "$WORK/postgres.log"; return 1; }
  printf '%s\n' 'hostssl template1 all 127.0.0.0/8 scram-sha-256 clientcert=verify-ca' 'host all all 127.0.0.0/8 scram-sha-256' > "$home/data/pg_hba.conf"
  [ "$(id -u)" != 0 ] || chown 65534:65534 "$home/data/pg_hba.conf"
  make_certificates && cp "$WORK/tls/ca.pem" "$WORK/tls/server.pem" "$WORK/tls/server.key" "$home" && chmod 600 "$home/server.key" || return 1
  [ "$(id -u)" != 0 ] || chown 65534:65534 "$home"/*.pem "$home/server.key"
  (cd "$home" && LC_ALL=C exec_unprivileged postgres -D data -h 127.0.0.2 -p "$(port_of "$POSTGRES")" -c unix_socket_directories= -c fsync=off \
    -c ssl=on -c ssl_cert_file="$home/server.pem" -c ssl_key_file="$home/server.key" -c ssl_ca_file="$home/ca.pem") >> "$WORK/postgres.log" 2>&1 < /dev/null &
  # Before it is ready it accepts connections and then refuses them.
  ready postgres $! grep -q 'ready to accept connections' "$WORK/postgres.log"
}
exec_unprivileged() { if [ "$(id -u)" = 0 ]; then exec setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; else exec "$@"; fi; }

# guest may do everything, bob may only connect. Erlang's port mapper is private, too. Each protocol has a
# port with TLS, which demands certificates, and there is the management API.
start_rabbitmq() {
  local home=$WORK/rabbitmq epmd distribution
  AMQP=$(free_address) RABBITMQ_MQTT=$(free_address) RABBITMQ_STOMP=$(free_address) epmd=$(local_address) distribution=$(local_address)
  AMQPS=$(free_address) RABBITMQ_MQTTS=$(free_address) RABBITMQ_STOMPS=$(free_address) RABBITMQ_MANAGEMENT=$(free_address)
  mkdir -p "$home" && make_certificates || return 1
  echo '[rabbitmq_mqtt,rabbitmq_stomp,rabbitmq_management].' > "$home/plugins"
  cat > "$home/rabbitmq.conf" <<C
listeners.tcp.1 = $AMQP
mqtt.listeners.tcp.1 = $RABBITMQ_MQTT
stomp.listeners.tcp.1 = $RABBITMQ_STOMP
listeners.ssl.1 = $AMQPS
mqtt.listeners.ssl.1 = $RABBITMQ_MQTTS
stomp.listeners.ssl.1 = $RABBITMQ_STOMPS
ssl_options.cacertfile = $WORK/tls/ca.pem
ssl_options.certfile = $WORK/tls/server.pem
ssl_options.keyfile = $WORK/tls/server.key
ssl_options.verify = verify_peer
ssl_options.fail_if_no_peer_cert = true
management.tcp.ip = ${RABBITMQ_MANAGEMENT%:*}
management.tcp.port = $(port_of "$RABBITMQ_MANAGEMENT")
max_message_size = 1048576
load_definitions = $home/definitions.json
C
  cat > "$home/definitions.json" <<J
{"users": [{"name": "guest", "password": "guest", "tags": "administrator"}, {"name": "bob", "password": "s3cret", "tags": ""}], "vhosts": [{"name": "/"}],
 "permissions": [{"user": "guest", "vhost": "/", "configure": ".*", "write": ".*", "read": ".*"},
                 {"user": "bob", "vhost": "/", "configure": "", "write": "", "read": ""}]}
J
  epmd -port "$(port_of "$epmd")" -address 127.0.0.1 > "$WORK/epmd.log" 2>&1 < /dev/null &
  SERVERS+=($!)
  RABBITMQ_ENVIRONMENT=(HOME="$home" RABBITMQ_NODENAME=bench$$@localhost RABBITMQ_DIST_PORT="$(port_of "$distribution")" RABBITMQ_CONFIG_FILE="$home/rabbitmq"
    RABBITMQ_MNESIA_BASE="$home/data" RABBITMQ_LOG_BASE="$home" RABBITMQ_ENABLED_PLUGINS_FILE="$home/plugins" RABBITMQ_PID_FILE="$home/pid"
    RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS="-kernel inet_dist_use_interface {127,0,0,1}" ERL_EPMD_PORT="$(port_of "$epmd")" ERL_EPMD_ADDRESS=127.0.0.1)
  # A broker that crashes leaves its dump in its working directory.
  (cd "$home" && exec env "${RABBITMQ_ENVIRONMENT[@]}" /usr/lib/rabbitmq/bin/rabbitmq-server) > "$WORK/rabbitmq.log" 2>&1 < /dev/null &
  ready rabbitmq $! grep -q 'Starting broker... completed with [0-9]* plugins' "$WORK/rabbitmq.log"
}

rabbitmq_tool() { env "${RABBITMQ_ENVIRONMENT[@]}" RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS= /usr/lib/rabbitmq/bin/rabbitmqctl "$@" 2>> "$WORK/rabbitmqctl.log"; }

start_tailrace() { # the plain server
  tailrace_server tailrace || return 1
  TAILRACE_NATS=$FOUND_NATS TAILRACE_KAFKA=$FOUND_KAFKA
}
start_tailrace_closed() {
  tailrace_server tailrace-closed --set tailrace.nats.user=alice --set tailrace.nats.password=s3cret || return 1
  TAILRACE_NATS_CLOSED=$FOUND_NATS
}
start_tailrace_secure() { # over TLS only; alice has a password, Kafka has no users
  make_certificates && tailrace_server tailrace-secure --set tailrace.nats.user=alice --set tailrace.nats.password=s3cret --set tailrace.nats.tls=required --set tailrace.kafka.tls=true \
    --set tailrace.tls.certificate.file="$WORK/tls/server.pem" --set tailrace.tls.key.file="$WORK/tls/server.key" || return 1
  TAILRACE_NATS_SECURE=$FOUND_NATS TAILRACE_KAFKA_SECURE=$FOUND_KAFKA
}
start_tailrace_mutual() { # demands certificates
  make_certificates && tailrace_server tailrace-mutual --set tailrace.nats.tls=required --set tailrace.kafka.tls=true --set tailrace.tls.client.auth=required \
    --set tailrace.tls.ca.file="$WORK/tls/ca.pem" --set tailrace.tls.certificate.file="$WORK/tls/server.pem" --set tailrace.tls.key.file="$WORK/tls/server.key" || return 1
  TAILRACE_NATS_MUTUAL=$FOUND_NATS TAILRACE_KAFKA_MUTUAL=$FOUND_KAFKA
}
tailrace_server() { # NAME ARGUMENT...
  local name=$1 line; shift
  : > "$WORK/$name.out"
  "$TAILRACE_BIN" serve --data-dir "$WORK/$name" --kafka 127.0.0.1:0 --nats 127.0.0.1:0 --http 127.0.0.1:0 "$@" > "$WORK/$name.out" 2> "$WORK/$name.log" < /dev/null &
  ready "$name" $! grep -q '^ready' "$WORK/$name.out" || return 1
  line=$(grep -m1 '^ready' "$WORK/$name.out")
  FOUND_NATS=$(sed -n 's/^ready.* nats=\([^ ]*\).*/\1/p' <<< "$line") FOUND_KAFKA=$(sed -n 's/^ready.* kafka=\([^ ]*\).*/\1/p' <<< "$line")
}

# With JetStream; with a password; closed to publishers; without JetStream; over TLS with a token; over TLS
# with client certificates; with an nkey, whose seed is NATS_SEED.
start_nats() {
  NATS_OPEN=$(free_address) NATS_CLOSED=$(free_address) NATS_READ_ONLY=$(free_address) NATS_PLAIN=$(free_address) NATS_SECURE=$(free_address) NATS_KEY=$(free_address) NATS_MUTUAL=$(free_address) NATS_MONITOR=$(free_address)
  # The example from NATS's documentation.
  NATS_SEED=SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY
  make_certificates &&
    nats_server nats-secure "$NATS_SECURE" "tls { cert_file: \"$WORK/tls/server.pem\", key_file: \"$WORK/tls/server.key\" }
authorization { token: \"s3cret\" }
jetstream { store_dir: \"$WORK/jetstream-secure\" }" &&
    nats_server nats-mutual "$NATS_MUTUAL" "tls { cert_file: \"$WORK/tls/server.pem\", key_file: \"$WORK/tls/server.key\", ca_file: \"$WORK/tls/ca.pem\", verify: true }
jetstream { store_dir: \"$WORK/jetstream-mutual\" }" &&
    nats_server nats-key "$NATS_KEY" 'authorization { users: [{ nkey: UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4 }] }' || return 1
  nats_server nats "$NATS_OPEN" "http: \"$NATS_MONITOR\"
jetstream { store_dir: \"$WORK/jetstream\" }" &&
    nats_server nats-closed "$NATS_CLOSED" 'authorization { user: alice, password: s3cret }' &&
    nats_server nats-read-only "$NATS_READ_ONLY" 'authorization { users: [{ user: bob, password: s3cret, permissions: { publish: "none", subscribe: ">" } }] }
no_auth_user: bob' &&
    nats_server nats-plain "$NATS_PLAIN" ''
}
nats_server() { # NAME ADDRESS LINES
  printf 'listen: "%s"\n%s\n' "$2" "$3" > "$WORK/$1.conf"
  "$NATS_SERVER_BIN" -c "$WORK/$1.conf" > "$WORK/$1.log" 2>&1 < /dev/null &
  ready "$1" $! accepts "$2"
}

# One combined node, as interop/server.sh starts it. A second listener has TLS, where alice (PLAIN) and bob
# (SCRAM-SHA-256) log in. A third one demands certificates.
start_kafka() {
  local state=$WORK/kafka tls=$WORK/tls
  make_certificates && cat "$tls/server.key" "$tls/server.pem" "$tls/ca.pem" > "$tls/kafka.pem" || return 1
  KAFKA_SECURE=$(local_address) KAFKA_MUTUAL=$(local_address)
  KAFKA=$(KAFKA_LISTENER_MORE=SASL_SSL://$KAFKA_SECURE,SSL://$KAFKA_MUTUAL KAFKA_EXTRA="listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_SSL:SASL_SSL,SSL:SSL
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256
listener.name.sasl_ssl.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required user_alice=\"s3cret\";
listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.ssl.ssl.client.auth=required
listener.name.ssl.ssl.truststore.type=PEM
listener.name.ssl.ssl.truststore.location=$tls/ca.pem
ssl.keystore.type=PEM
ssl.keystore.location=$tls/kafka.pem" "$INTEROP/server.sh" start "$state" kafka 2> "$WORK/kafka.log") || { echo "FAIL kafka does not start: $(tail -3 "$WORK/kafka.log")"; return 1; }
  SERVERS+=("$(cat "$state/pid")")
}

kafka_user() { # NAME PASSWORD: may log in by SCRAM-SHA-256
  java -Xmx128m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp "$INTEROP/java/target/libs/*" kafka.admin.ConfigCommand --bootstrap-server "$KAFKA" --alter \
    --add-config "SCRAM-SHA-256=[password=$2]" --entity-type users --entity-name "$1" > "$WORK/kafka-user.log" 2>&1 || { echo "FAIL kafka: no user can be added: $(tail -2 "$WORK/kafka-user.log")"; return 1; }
}

install_nsqd() { # from the module itself, which the build must not change
  local dir=$INTEROP/go/target/nsqd source
  NSQD_BIN=${NSQD_BIN:-$dir/nsqd}
  [ ! -x "$NSQD_BIN" ] || return 0
  mkdir -p "$dir"
  source=$(retry go mod download -json "github.com/nsqio/nsq@$NSQ_VERSION" 2> "$dir/log" | sed -n 's/.*"Dir": "\(.*\)".*/\1/p') && [ -d "$source" ] &&
    (cd "$source" && retry quiet "$dir/log" go build -o "$NSQD_BIN" ./apps/nsqd)
}
start_nsqd() { # the second one demands certificates
  NSQD=$(free_address) NSQ_HTTP=$(free_address) NSQD_MUTUAL=$(free_address)
  make_certificates && nsqd nsqd "$NSQD" --http-address "$NSQ_HTTP" || return 1
  NSQD_PID=${SERVERS[-1]}
  nsqd nsqd-mutual "$NSQD_MUTUAL" --http-address 127.0.0.2:0 --tls-root-ca-file "$WORK/tls/ca.pem" --tls-client-auth-policy require-verify --tls-required
}
nsqd() { # NAME ADDRESS ARGUMENT...
  local name=$1 address=$2; shift 2
  mkdir -p "$WORK/$name"
  "$NSQD_BIN" --tcp-address "$address" --https-address 127.0.0.2:0 --data-path "$WORK/$name" --tls-cert "$WORK/tls/server.pem" --tls-key "$WORK/tls/server.key" "$@" > "$WORK/$name.log" 2>&1 < /dev/null &
  ready "$name" $! accepts "$address"
}

install_activemq() {
  local dir=$INTEROP/activemq
  mkdir -p "$dir/target"
  newer "$dir/target/libs/stamp" "$dir/pom.xml" || return 0
  (cd "$dir" && retry quiet target/log mvn -q -B dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory=target/libs) && touch "$dir/target/libs/stamp"
}
start_activemq() { # ends when its standard input does, or when killed by its id
  mkfifo "$WORK/activemq.in"
  java -Xms64m -Xmx256m -XX:+UseSerialGC -Dorg.slf4j.simpleLogger.defaultLogLevel=warn -cp "$INTEROP/activemq/target/libs/*" "$INTEROP/activemq/Broker.java" "$WORK/activemq" \
    < "$WORK/activemq.in" > "$WORK/activemq.out" 2> "$WORK/activemq.log" &
  local pid=$! ports
  exec 9> "$WORK/activemq.in"
  ready activemq $pid grep -q '^ready' "$WORK/activemq.out" || return 1
  read -r -a ports < "$WORK/activemq.out"
  ACTIVEMQ_OPEN=127.0.0.1:${ports[1]} ACTIVEMQ_CLOSED=127.0.0.1:${ports[2]}
}

install_brokerless() { # pynng and pyzmq
  local dir=$INTEROP/python/brokerless
  BENCH_PYTHON=$dir/.venv/bin/python
  newer "$dir/.venv/stamp" "$dir/requirements.txt" || return 0
  python3 -m venv "$dir/.venv" && retry quiet "$dir/.venv/log" "$BENCH_PYTHON" -m pip install -q --disable-pip-version-check -r "$dir/requirements.txt" && touch "$dir/.venv/stamp"
}
