#!/bin/bash
# Users and rules with real tools and clients: interop/security.sh [--full] [--target kafka]
#
# A server that requires a login and asks its rules. Kafka's console tools make users (kafka-configs), rules
# (kafka-acls) and delegation tokens (kafka-delegation-tokens). confluent-kafka, kafka-python, aiokafka,
# franz-go, sarama, kafkajs and Kafka's Java client log in and may do what the rules say and nothing else. A
# user is removed while its client works. Quotas are made with kafka-configs, and their clients keep to them
# (tools/quotas.sh, python/security_quotas.py). At the end two nodes have four listeners each, PLAINTEXT, SSL,
# SASL_PLAINTEXT and SASL_SSL, beside their port for nodes, and clients come by each of them.
#
# --full: the last four with every mechanism, transactions, removed users and certificates, and beside a
# server with TLS whose logins last three seconds. Without it each of them has one mechanism.
# --target kafka: the same against Kafka 4.3.1 with StandardAuthorizer, which proves the tests. Without TLS,
# listeners and removed users: Kafka lets those stay.
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
export SECURITY_TARGET=tailrace
while [ $# -gt 0 ]; do case $1 in
  --full) export SECURITY_MODE=full ;;
  --target) SECURITY_TARGET=${2:?}; shift ;;
  *) sed -n '2,/^set/{s/^# \?//;/^set/d;p}' "$0"; exit 2 ;;
esac; shift; done
[ "$SECURITY_TARGET" = kafka ] || install_tailrace || die "tailrace does not build"
install_java || die "Kafka's jars cannot be installed"
install_python || die "the Python clients cannot be installed"
install_go || die "the Go clients cannot be installed"
install_js || die "kafkajs cannot be installed"
TMP=$(mktemp -d "${TMPDIR:-/tmp}/interop-security.XXXXXX") FAILED=0 SERVERS=()
finish() { stop_tools 2>/dev/null; for pid in ${SERVERS[@]+"${SERVERS[@]}"}; do kill "$pid" 2>/dev/null; wait "$pid" 2>/dev/null; done; [ -n "${KEEP:-}" ] || rm -rf "$TMP"; }
trap finish EXIT
. "$INTEROP/tools/lib.sh"
. "$INTEROP/tools/quotas.sh"

"$PYTHON" "$INTEROP/python/tokens.py" "$TMP" nobody > "$TMP/token" || die "no keys for tokens"
serve() { # NAME SETTING=VALUE...: starts a server; its address is in ADDRESS
  local name=$1 settings=() one pid; shift
  for one in "$@"; do settings+=(--set "$one"); done
  cat > "$TMP/$name.toml" <<CONFIG
nats = "off"
kafka = "127.0.0.1:0"
http = "127.0.0.1:0"
"tailrace.nats.websocket" = false
"tailrace.kafka.authentication" = "required"
"authorizer.class.name" = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
"super.users" = "User:admin"
"tailrace.first.user" = "admin"
"delegation.token.secret.key" = "interop-secret-of-tokens"
"group.initial.rebalance.delay.ms" = 0
"sasl.enabled.mechanisms" = "SCRAM-SHA-256,SCRAM-SHA-512,PLAIN,OAUTHBEARER"
"sasl.oauthbearer.jwks.endpoint.url" = "file://$TMP/jwks.json"
"sasl.oauthbearer.expected.issuer" = "https://issuer.example"
"sasl.oauthbearer.expected.audience" = "tailrace"
CONFIG
  TAILRACE_FIRST_PASSWORD=admin-secret "$TAILRACE_BIN" serve --config "$TMP/$name.toml" --data-dir "$TMP/$name.data" ${settings[@]+"${settings[@]}"} > "$TMP/$name.out" 2> "$TMP/$name.log" < /dev/null &
  pid=$!; SERVERS+=("$pid")
  for _ in $(seq 600); do grep -q '^ready' "$TMP/$name.out" && break; kill -0 "$pid" 2>/dev/null || break; sleep 0.1; done
  ADDRESS=$(sed -n 's/^ready.* kafka=\([^ ]*\).*/\1/p' "$TMP/$name.out")
  [ -n "$ADDRESS" ] || { cat "$TMP/$name.log" >&2; die "the server $name did not start"; }
}
serve_kafka() { # the same, with the users of PLAIN in its configuration
  local ports one users='user_admin="admin-secret"' url=file://$TMP/jwks.json pid
  for one in alice bob; do users+=" user_$one=\"$one-secret\""; done
  for one in franz-go sarama kafkajs kafka-clients; do users+=" user_user-$one=\"fleet-secret\""; done
  read -r -a ports <<< "$(python3 "$INTEROP/python/ports.py" 2)"
  ADDRESS=127.0.0.1:${ports[0]}
  cat > "$TMP/kafka.properties" <<CONFIG
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:${ports[1]}
listeners=SASL_PLAINTEXT://$ADDRESS,CONTROLLER://127.0.0.1:${ports[1]}
advertised.listeners=SASL_PLAINTEXT://$ADDRESS
listener.security.protocol.map=CONTROLLER:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT
controller.listener.names=CONTROLLER
inter.broker.listener.name=SASL_PLAINTEXT
sasl.mechanism.inter.broker.protocol=PLAIN
sasl.enabled.mechanisms=SCRAM-SHA-256,SCRAM-SHA-512,PLAIN,OAUTHBEARER
listener.name.sasl_plaintext.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username="admin" password="admin-secret" $users;
listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.sasl_plaintext.oauthbearer.sasl.jaas.config=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;
listener.name.sasl_plaintext.oauthbearer.sasl.server.callback.handler.class=org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler
listener.name.sasl_plaintext.oauthbearer.sasl.oauthbearer.jwks.endpoint.url=$url
listener.name.sasl_plaintext.oauthbearer.sasl.oauthbearer.expected.issuer=https://issuer.example
listener.name.sasl_plaintext.oauthbearer.sasl.oauthbearer.expected.audience=tailrace
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:admin;User:ANONYMOUS
delegation.token.secret.key=interop-secret-of-tokens
log.dirs=$TMP/kafka.data
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
CONFIG
  local java=(java -Xms128m -Xmx512m -XX:+UseSerialGC "-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=$url" -cp "$KAFKA_LIBS/*")
  "${java[@]}" kafka.tools.StorageTool format -t AAAAAAAAAAAAAAAAAAAAAA -c "$TMP/kafka.properties" --add-scram 'SCRAM-SHA-512=[name=admin,password=admin-secret]' > "$TMP/server.log" 2>&1 || die "format: $(tail -3 "$TMP/server.log")"
  "${java[@]}" kafka.Kafka "$TMP/kafka.properties" >> "$TMP/server.log" 2>&1 < /dev/null &
  pid=$!; SERVERS+=("$pid")
  for _ in $(seq 600); do (exec 3<> "/dev/tcp/127.0.0.1/${ports[0]}") 2>/dev/null && return; kill -0 "$pid" 2>/dev/null || break; sleep 0.1; done
  die "Kafka did not start: $(tail -3 "$TMP/server.log")"
}
if [ "$SECURITY_TARGET" = kafka ]; then serve_kafka; else serve server; fi
export BOOTSTRAP=$ADDRESS SECURITY_FOLDER=$TMP
[ "$SECURITY_TARGET" = kafka ] || "$INTEROP/nats/certificates.sh" "$TMP" > "$TMP/certificates.log" 2>&1 || die "no certificates: $(tail -3 "$TMP/certificates.log")"
if [ "${SECURITY_MODE:-}" = full ] && [ "$SECURITY_TARGET" = tailrace ]; then
  cat "$TMP/client.key" "$TMP/client.pem" > "$TMP/both.pem"
  serve tls tailrace.kafka.tls=true "tailrace.tls.certificate.file=$TMP/server.pem" "tailrace.tls.key.file=$TMP/server.key" "tailrace.tls.ca.file=$TMP/ca.pem" \
    tailrace.tls.client.auth=required 'ssl.principal.mapping.rules=RULE:^CN=interop client$/certified/' connections.max.reauth.ms=3000
  export SECURITY_TLS=$ADDRESS
fi

properties() { # NAME MECHANISM USER PASSWORD
  local module=org.apache.kafka.common.security.scram.ScramLoginModule
  [ "$2" != PLAIN ] || module=org.apache.kafka.common.security.plain.PlainLoginModule
  printf 'security.protocol=SASL_PLAINTEXT\nsasl.mechanism=%s\nsasl.jaas.config=%s required username="%s" password="%s";\nrequest.timeout.ms=15000\ndefault.api.timeout.ms=20000\n' \
    "$2" "$module" "$3" "$4" > "$TMP/$1.properties"
}
properties admin SCRAM-SHA-512 admin admin-secret
properties alice SCRAM-SHA-256 alice alice-secret
properties alice-plain PLAIN alice alice-secret
properties bob SCRAM-SHA-512 bob bob-secret
properties wrong SCRAM-SHA-256 alice alice-guess
as() { echo --command-config "$TMP/$1.properties"; }
tokens() { tool org.apache.kafka.tools.DelegationTokenCommand --bootstrap-server "$BOOTSTRAP" "$@"; }
acls() { tool org.apache.kafka.tools.AclCommand --bootstrap-server "$BOOTSTRAP" "$@"; }
start_tools

users_tool() {
  begin "kafka-configs makes, describes and removes users"
  # shellcheck disable=SC2046
  configs $(as admin) --alter --entity-type users --entity-name alice --add-config 'SCRAM-SHA-256=[password=alice-secret]' > "$TMP/out"; has "Completed updating config for user alice"
  configs $(as admin) --alter --entity-type users --entity-name bob --add-config 'SCRAM-SHA-512=[iterations=8192,password=bob-secret]' > "$TMP/out"; has "Completed updating config for user bob"
  configs $(as admin) --describe --entity-type users > "$TMP/out"; has "SCRAM credential configs for user-principal 'bob' are SCRAM-SHA-512=iterations=8192"; has "'alice' are SCRAM-SHA-256=iterations=4096"
  configs $(as admin) --alter --entity-type users --entity-name carol --add-config 'SCRAM-SHA-512=[password=carol-secret]' > "$TMP/out"
  configs $(as admin) --alter --entity-type users --entity-name carol --delete-config SCRAM-SHA-512 > "$TMP/out"; has "Completed updating config for user carol"
  configs $(as admin) --alter --entity-type users --entity-name carol --delete-config SCRAM-SHA-512 > "$TMP/out"; has "Attempt to delete a user credential that does not exist"
  configs $(as alice) --alter --entity-type users --entity-name alice --add-config 'SCRAM-SHA-256=[password=more]' > "$TMP/out"; has ClusterAuthorizationException
  verdict
}
acls_tool() {
  begin "kafka-acls adds, lists and removes rules"
  topics $(as admin) --create --topic orders > "$TMP/out"; has "Created topic orders"
  topics $(as admin) --create --topic secrets > "$TMP/out"; has "Created topic secrets"
  acls $(as admin) --add --allow-principal User:alice --producer --topic orders > "$TMP/out"; lacks Error
  acls $(as admin) --add --allow-principal User:alice --consumer --topic orders --group alice- --resource-pattern-type literal > "$TMP/out"; lacks Error
  acls $(as admin) --add --allow-principal User:alice --operation Read --group alice- --resource-pattern-type prefixed > "$TMP/out"; lacks Error
  acls $(as admin) --list --topic orders > "$TMP/out"; has "principal=User:alice, host=*, operation=WRITE, permissionType=ALLOW"; has "operation=CREATE"
  acls $(as admin) --add --deny-principal User:bob --operation All --topic orders > "$TMP/out"; lacks Error
  acls $(as admin) --list --principal User:bob > "$TMP/out"; has "permissionType=DENY"
  acls $(as admin) --remove --force --deny-principal User:bob --operation All --topic orders > "$TMP/out"; lacks Error
  acls $(as admin) --list --principal User:bob > "$TMP/out"; lacks DENY
  acls $(as alice) --list > "$TMP/out"; has ClusterAuthorizationException
  verdict
}
console_tools() {
  begin "the console tools do what the rules say"
  seq -f 'order %g' 1 50 > "$TMP/lines"
  produce --command-config "$TMP/alice.properties" --topic orders < "$TMP/lines" > "$TMP/out"; lacks Exception
  consume --command-config "$TMP/alice-plain.properties" --topic orders --group alice-console --from-beginning --max-messages 50 | grep '^order' > "$TMP/got"
  cmp -s "$TMP/lines" "$TMP/got" || BAD="what came out differs: $(head -3 "$TMP/got" | tr '\n' '|')"
  topics $(as alice) --list > "$TMP/out"; has orders; lacks secrets
  topics $(as bob) --list > "$TMP/out"; lacks orders; lacks secrets
  topics $(as alice) --describe --topic secrets > "$TMP/out"; has "does not exist"
  topics $(as alice) --create --topic another > "$TMP/out"; has "uthorization failed"
  topics $(as alice) --delete --topic orders > "$TMP/out"; has "uthorization failed"
  verdict
}
# The tokens of alice, as soon as there are COUNT of them. Kafka's broker learns of a change after its answer.
described() { # COUNT
  local tries=1
  [ "$SECURITY_TARGET" = kafka ] && tries=10
  while :; do
    tokens $(as alice) --describe --owner-principal User:alice > "$TMP/out"
    tries=$((tries - 1))
    grep -q "Total number of tokens : $1" "$TMP/out" || [ "$tries" -eq 0 ] && break
  done
  has "Total number of tokens : $1"
}
tokens_tool() {
  begin "kafka-delegation-tokens makes, shows, renews and ends tokens, and clients log in with them"
  local id hmac
  tokens $(as alice) --create --max-life-time-period -1 --renewer-principal User:bob > "$TMP/out"; has "Created delegation token with tokenId"
  id=$(sed -n 's/.*Created delegation token with tokenId : //p' "$TMP/out")
  hmac=$(awk -v id="$id" '$1 == id { print $2 }' "$TMP/out")
  described 1; has "$hmac"
  tokens $(as bob) --describe --owner-principal User:alice > "$TMP/out"; has "$id"
  printf 'security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\nsasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required username="%s" password="%s" tokenauth="true";\nrequest.timeout.ms=15000\ndefault.api.timeout.ms=20000\n' "$id" "$hmac" > "$TMP/token.properties"
  topics $(as token) --list > "$TMP/out"; has orders; lacks secrets
  tokens $(as token) --create --max-life-time-period -1 > "$TMP/out"; has "are not allowed on PLAINTEXT/1-way SSL channels and on delegation token authenticated channels"
  tokens $(as alice) --create --max-life-time-period -1 --owner-principal User:bob > "$TMP/out"; has DelegationTokenAuthorization
  tokens $(as bob) --renew --renew-time-period 3600000 --hmac "$hmac" > "$TMP/out"; has "Completed renew operation"
  tokens $(as alice) --expire --expiry-time-period -1 --hmac "$hmac" > "$TMP/out"; has "Completed expire operation"
  topics $(as token) --list > "$TMP/out"; has "invalid credentials with SASL mechanism SCRAM-SHA-512"
  described 0
  grep -qF "$hmac" "$TMP/server.log" && BAD="${BAD:-the secret of a token is in the log}"
  verdict
}
login_tools() {
  begin "a wrong password is an error at once"
  topics $(as wrong) --list > "$TMP/out"; has "invalid credentials with SASL mechanism SCRAM-SHA-256"
  verdict
}
removed_user() {
  begin "a removed user's client is cut off"
  "$PYTHON" "$INTEROP/python/security.py" --until-cut > "$TMP/cut" 2>&1 &
  local client=$!
  for _ in $(seq 200); do grep -qs '^works' "$TMP/cut" && break; sleep 0.1; done
  configs $(as admin) --alter --entity-type users --entity-name alice --delete-config SCRAM-SHA-256 > "$TMP/out"; has "Completed updating config for user alice"
  wait "$client" || BAD="the client was not cut off: $(tail -2 "$TMP/cut" | tr '\n' '|')"
  verdict
}
users_tool; quota_user; quotas_tool; begin_throttled
acls_tool; console_tools; tokens_tool; login_tools; mutations_tool
"$PYTHON" "$INTEROP/python/security.py" || FAILED=$((FAILED + 1))
"$PYTHON" "$INTEROP/python/security_clients.py" || FAILED=$((FAILED + 1))
end_throttled
[ "$SECURITY_TARGET" = kafka ] || removed_user
[ "$SECURITY_TARGET" = kafka ] || "$PYTHON" "$INTEROP/python/security_listeners.py" || FAILED=$((FAILED + 1))
grep -q 'alice-secret\|admin-secret\|bob-secret\|slow-secret\|anna-secret\|fleet-secret\|interop-secret' "$TMP"/*.log && { echo "FAIL a password is in the log"; FAILED=$((FAILED + 1)); }
[ "$FAILED" = 0 ] || { echo "--- last lines of the server's log"; tail -20 "$TMP/server.log"; }
[ "$FAILED" = 0 ]
