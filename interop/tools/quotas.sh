# Sourced by security.sh (bash): quotas with kafka-configs, and clients that are throttled by them. Needs what
# lib.sh needs, and users with properties files of their names: admin may do everything, bob nothing.

# The throttled user's limit for producing and for consuming, in bytes per second.
export QUOTA_BYTES=20000

# quota VERB ENTITY...: what kafka-configs says of a change or a description, as the administrator.
quota() { configs --command-config "$TMP/admin.properties" "$@" > "$TMP/out"; }
changed() { quota --alter "$@"; has "Completed updating $WHOM"; lacks Error; }

quotas_tool() {
  begin "kafka-configs sets, describes and removes quotas"
  local slow=(--entity-type users --entity-name slow) anyone=(--entity-type users --entity-default)
  local client=(--entity-type clients --entity-name busy) any_client=(--entity-type clients --entity-default)
  local both=("${slow[@]}" --entity-type clients --entity-default) address=(--entity-type ips --entity-name 192.0.2.7)
  WHOM="config for user slow" changed "${slow[@]}" --add-config "producer_byte_rate=$QUOTA_BYTES,consumer_byte_rate=$QUOTA_BYTES,controller_mutation_rate=0.1"
  WHOM="default config for users in the cluster" changed "${anyone[@]}" --add-config producer_byte_rate=900000000,request_percentage=900
  WHOM="config for client busy" changed "${client[@]}" --add-config request_percentage=0.01
  WHOM="default config for clients in the cluster" changed "${any_client[@]}" --add-config consumer_byte_rate=800000000
  WHOM="config for user slow" changed "${both[@]}" --add-config controller_mutation_rate=0.1
  WHOM="config for ip 192.0.2.7" changed "${address[@]}" --add-config connection_creation_rate=7
  quota --describe "${slow[@]}"
  has "Quota configs for user-principal 'slow' are"; has "producer_byte_rate=$QUOTA_BYTES.0"; has "consumer_byte_rate=$QUOTA_BYTES.0"; has controller_mutation_rate=0.1
  quota --describe "${anyone[@]}"
  has "Quota configs for the default user-principal are"; has producer_byte_rate=9.0E8; has request_percentage=900.0
  quota --describe "${client[@]}"; has "Quota configs for client-id 'busy' are request_percentage=0.01"
  quota --describe "${any_client[@]}"; has "Quota configs for the default client-id are consumer_byte_rate=8.0E8"
  quota --describe "${both[@]}"; has "Quota configs for user-principal 'slow', the default client-id are controller_mutation_rate=0.1"
  quota --describe "${address[@]}"; has "Quota configs for ip '192.0.2.7' are connection_creation_rate=7.0"
  WHOM="default config for clients in the cluster" changed "${any_client[@]}" --delete-config consumer_byte_rate
  quota --describe "${any_client[@]}"; lacks consumer_byte_rate
  WHOM="config for user slow" changed "${both[@]}" --delete-config controller_mutation_rate
  quota --describe "${both[@]}"; lacks controller_mutation_rate
  WHOM="default config for users in the cluster" changed "${anyone[@]}" --delete-config request_percentage
  quota --describe "${anyone[@]}"; lacks request_percentage; has producer_byte_rate=9.0E8
  quota --alter "${slow[@]}" --add-config producer_byte_rate=-1; has "must be greater than 0"
  configs --command-config "$TMP/bob.properties" --alter "${slow[@]}" --add-config producer_byte_rate=1 > "$TMP/out"; has ClusterAuthorizationException
  quota --describe "${slow[@]}"; has "producer_byte_rate=$QUOTA_BYTES.0"
  verdict
}

# Makes the user whom the quotas are for, and what it may do.
quota_user() {
  local one
  quota --alter --entity-type users --entity-name slow --add-config 'SCRAM-SHA-256=[password=slow-secret]'
  properties slow SCRAM-SHA-256 slow slow-secret
  for one in slow-read slow-written; do topics --command-config "$TMP/admin.properties" --create --topic "$one" > "$TMP/out"; done
  acls --command-config "$TMP/admin.properties" --add --allow-principal User:slow --operation All --topic slow- --group slow- --resource-pattern-type prefixed > "$TMP/out"
}

mutations_tool() {
  begin "kafka-topics is told that it creates too many partitions"
  topics --command-config "$TMP/slow.properties" --create --topic slow-one --partitions 10 > "$TMP/out"; has "Created topic slow-one"
  topics --command-config "$TMP/slow.properties" --create --topic slow-two --partitions 10 > "$TMP/out"; has "quota has been exceeded"
  topics --command-config "$TMP/admin.properties" --create --topic slow-two --partitions 1 > "$TMP/out"; has "Created topic slow-two"
  verdict
}

# The clients are throttled while other tests run: they wait most of the time.
begin_throttled() { "$PYTHON" "$INTEROP/python/security_quotas.py" > "$TMP/throttled" 2>&1 & THROTTLED=$!; SERVERS+=("$THROTTLED"); }
end_throttled() { wait "$THROTTLED" || FAILED=$((FAILED + 1)); cat "$TMP/throttled"; }
