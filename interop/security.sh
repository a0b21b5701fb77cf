#!/bin/bash
# Users and rules with real tools and clients: interop/security.sh
#
# A server that requires a login and asks its rules. Kafka's console tools make users (kafka-configs) and
# rules (kafka-acls). confluent-kafka, kafka-python and aiokafka log in with every mechanism that they have,
# and may do what the rules say and nothing else. At the end a user is removed while its client works.
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install_tailrace || die "tailrace does not build"
install_java || die "Kafka's jars cannot be installed"
install_python || die "the Python clients cannot be installed"
TMP=$(mktemp -d "${TMPDIR:-/tmp}/interop-security.XXXXXX") FAILED=0 SERVER=
finish() { stop_tools 2>/dev/null; [ -z "$SERVER" ] || { kill "$SERVER" 2>/dev/null; wait "$SERVER" 2>/dev/null; }; rm -rf "$TMP"; }
trap finish EXIT
. "$INTEROP/tools/lib.sh"

cat > "$TMP/config.toml" <<'CONFIG'
nats = "off"
kafka = "127.0.0.1:0"
http = "127.0.0.1:0"
"tailrace.nats.websocket" = false
"tailrace.kafka.authentication" = "required"
"authorizer.class.name" = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
"super.users" = "User:admin"
"tailrace.first.user" = "admin"
CONFIG
TAILRACE_FIRST_PASSWORD=admin-secret "$TAILRACE_BIN" serve --config "$TMP/config.toml" --data-dir "$TMP/data" > "$TMP/server.out" 2> "$TMP/server.log" < /dev/null &
SERVER=$!
for _ in $(seq 600); do grep -q '^ready' "$TMP/server.out" && break; kill -0 "$SERVER" 2>/dev/null || break; sleep 0.1; done
BOOTSTRAP=$(sed -n 's/^ready.* kafka=\([^ ]*\).*/\1/p' "$TMP/server.out")
[ -n "$BOOTSTRAP" ] || { cat "$TMP/server.log" >&2; die "the server did not start"; }
export BOOTSTRAP

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
  topics $(as alice) --create --topic another > "$TMP/out"; has "authorization failed"
  topics $(as alice) --delete --topic orders > "$TMP/out"; has "authorization failed"
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
users_tool; acls_tool; console_tools; login_tools
"$PYTHON" "$INTEROP/python/security.py" || FAILED=$((FAILED + 1))
removed_user
grep -q 'alice-secret\|admin-secret\|bob-secret' "$TMP/server.log" && { echo "FAIL a password is in the log"; FAILED=$((FAILED + 1)); }
[ "$FAILED" = 0 ] || { echo "--- last lines of the server's log"; tail -20 "$TMP/server.log"; }
[ "$FAILED" = 0 ]
