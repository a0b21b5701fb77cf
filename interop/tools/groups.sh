#!/bin/bash
# Kafka's own console tools for groups, transactions and the cluster, as a user types them. interop/run.sh
# runs this. Deliberately absent: tools for Streams groups; security.sh has those for quotas, ACLs and
# delegation tokens.
set -uo pipefail
FAILED=0 TMP=$(mktemp -d) BACKGROUND=()
trap 'for pid in "${BACKGROUND[@]}"; do kill "$pid" 2>/dev/null; done; stop_tools; rm -rf "$TMP"' EXIT
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
T=org.apache.kafka.tools
start_tools
groups() { tool $T.consumer.group.ConsumerGroupCommand --bootstrap-server "$BOOTSTRAP" "$@"; }
shares() { tool $T.consumer.group.ShareGroupCommand --bootstrap-server "$BOOTSTRAP" "$@"; }
all_groups() { tool $T.GroupsCommand --bootstrap-server "$BOOTSTRAP" "$@"; }
transactions() { tool $T.TransactionsCommand --bootstrap-server "$BOOTSTRAP" "$@"; }
# background COMMAND...: starts the command, and ends it with this script.
background() { tool_now "$@" & BACKGROUND+=($!); }
# seen TEXT COMMAND...: repeats the command until its output has the text, for at most half a minute.
seen() {
  local text=$1 end=$((SECONDS + 30)); shift
  until "$@" > "$TMP/out"; grep -qE -- "$text" "$TMP/out"; do
    [ $SECONDS -lt $end ] || { BAD="${BAD:-no '$text' in: $(tail -5 "$TMP/out" | tr '\n' '|')}"; return; }
  done
}

verifiable_tools() {
  begin "kafka-verifiable-producer and -consumer"
  tool_alone $T.VerifiableProducer --bootstrap-server "$BOOTSTRAP" --topic tool-group --max-messages 600 --acks -1 > "$TMP/out"; has '"sent":600'; has '"acked":600'
  tool_alone $T.VerifiableConsumer --bootstrap-server "$BOOTSTRAP" --topic tool-group --group-id tool-classic --group-protocol classic --max-messages 600 --reset-policy earliest > "$TMP/out"
  has partitions_assigned; has '"name":"records_consumed"'; has '"success":true'; has shutdown_complete
  tool_alone $T.VerifiableConsumer --bootstrap-server "$BOOTSTRAP" --topic tool-group --group-id tool-modern --group-protocol consumer --max-messages 600 --reset-policy earliest > "$TMP/out"
  has partitions_assigned; has '"success":true'; lacks '"success":false'
  verdict
}
list_tool() {
  begin "kafka-consumer-groups and kafka-groups list"
  groups --list > "$TMP/out"; has tool-classic; has tool-modern
  groups --list --state > "$TMP/out"; matches 'tool-classic +Empty'; matches 'tool-modern +Empty'
  groups --list --state Stable > "$TMP/out"; lacks tool-classic
  groups --list --type > "$TMP/out"; matches 'tool-classic +Classic'; matches 'tool-modern +Consumer'
  all_groups --list > "$TMP/out"; matches 'tool-classic +Classic +consumer'; matches 'tool-modern +Consumer +consumer'
  all_groups --list --group-type consumer > "$TMP/out"; has tool-modern; lacks tool-classic
  verdict
}
describe_tool() {
  local group
  begin "kafka-consumer-groups describes offsets, state and members"
  for group in tool-classic tool-modern; do
    groups --describe --group $group > "$TMP/out"; has "Consumer group '$group' has no active members."
    same 600 "$(awk '$2 == "tool-group" {n += $4} END {print n}' "$TMP/out")" "committed by $group"
    same 0 "$(awk '$2 == "tool-group" {n += $6} END {print n}' "$TMP/out")" "lag of $group"
  done
  background $T.consumer.ConsoleConsumer --bootstrap-server "$BOOTSTRAP" --topic tool-group --group tool-live
  seen 'tool-live.* Stable +1$' groups --describe --group tool-live --state
  seen 'tool-live .*/127\.0\.0\.1 .* 3 *$' groups --describe --group tool-live --members
  groups --describe --group tool-live --members --verbose > "$TMP/out"; matches 'tool-group\(0,1,2\)|tool-group:0,1,2'
  groups --describe --group tool-live --offsets > "$TMP/out"; matches 'tool-live +tool-group +0 .*console-consumer'
  groups --describe --group tool-none > "$TMP/out"; has GroupIdNotFoundException
  groups --describe --all-groups --state > "$TMP/out"; has tool-classic; has tool-live
  verdict
}
reset_tool() {
  begin "kafka-consumer-groups resets offsets"
  reset() { groups --reset-offsets --group tool-classic --topic tool-group "$@" > "$TMP/out"; }
  sum() { awk '$2 == "tool-group" {n += $4} END {print n + 0}' "$TMP/out"; }
  offsets --topic tool-group > "$TMP/ends"
  up_to() { awk -F: -v most="$1" '{n += $3 < most ? $3 : most} END {print n}' "$TMP/ends"; }
  reset --to-earliest --dry-run; same 0 "$(sum)" "dry run to earliest"
  groups --describe --group tool-classic > "$TMP/out"; same 600 "$(sum)" "after a dry run"
  reset --to-earliest --execute; same 0 "$(sum)" "to earliest"
  reset --shift-by 10 --execute; same "$(up_to 10)" "$(sum)" "shifted by 10"
  reset --to-offset 5 --execute; same "$(up_to 5)" "$(sum)" "to offset 5"
  reset --to-latest --execute; same 600 "$(sum)" "to latest"
  reset --to-datetime 2020-01-01T00:00:00.000 --execute; same 0 "$(sum)" "to a time"
  reset --to-offset 100000 --execute; same 600 "$(sum)" "beyond the end"
  groups --reset-offsets --group tool-classic --topic tool-group --to-current --export --dry-run > "$TMP/reset.csv"; grep -q '^tool-group,0,' "$TMP/reset.csv" || BAD="${BAD:-no CSV: $(head -3 "$TMP/reset.csv")}"
  groups --reset-offsets --group tool-live --topic tool-group --to-earliest --execute > "$TMP/out"; has "is inactive, but the current state is Stable"
  groups --describe --group tool-classic > "$TMP/out"; same 600 "$(sum)" "in the end"
  verdict
}
delete_group_tool() {
  begin "kafka-consumer-groups deletes offsets and groups"
  groups --delete-offsets --group tool-classic --topic tool-group:0 > "$TMP/out"; has Successful
  groups --describe --group tool-classic > "$TMP/out"; lacksre 'tool-group +0 '; matches 'tool-group +1 '
  groups --delete --group tool-live > "$TMP/out"; has "not empty"
  groups --delete --group tool-classic > "$TMP/out"; has "successful"
  groups --list > "$TMP/out"; lacks tool-classic
  groups --delete --group tool-none > "$TMP/out"; has "does not exist"
  verdict
}
group_configs_tool() {
  begin "kafka-configs describes and alters groups and brokers"
  configs --alter --entity-type groups --entity-name tool-modern --add-config consumer.heartbeat.interval.ms=2000,share.auto.offset.reset=earliest > "$TMP/out"; has "Completed updating config"
  configs --describe --entity-type groups --entity-name tool-modern > "$TMP/out"; has consumer.heartbeat.interval.ms=2000
  configs --alter --entity-type groups --entity-name tool-modern --delete-config consumer.heartbeat.interval.ms > "$TMP/out"; has "Completed updating config"
  configs --describe --entity-type groups --entity-name tool-modern > "$TMP/out"; lacks consumer.heartbeat.interval.ms=2000; has share.auto.offset.reset=earliest
  configs --alter --entity-type groups --entity-name tool-modern --add-config no.such=1 > "$TMP/out"; has InvalidConfig
  configs --alter --entity-type groups --entity-name tool-modern --add-config share.auto.offset.reset=sometimes > "$TMP/out"; has InvalidConfig
  configs --describe --entity-type brokers --entity-name 1 --all > "$TMP/out"; has group.max.session.timeout.ms; has transaction.max.timeout.ms; has log.cleaner.enable
  configs --alter --entity-type brokers --entity-name 1 --add-config log.cleaner.backoff.ms=5000 > "$TMP/out"; has "Completed updating config"
  configs --describe --entity-type brokers --entity-name 1 > "$TMP/out"; has log.cleaner.backoff.ms=5000
  configs --alter --entity-type brokers --entity-name 1 --delete-config log.cleaner.backoff.ms > "$TMP/out"; has "Completed updating config"
  verdict
}
transactions_tool() {
  begin "kafka-transactions lists, describes, aborts, finds hanging ones"
  background tailrace.interop.OpenTransaction tool-txn tool-group
  seen 'tool-txn .*Ongoing' transactions list
  transactions list --duration-filter 600000 > "$TMP/out"; lacks tool-txn
  transactions describe --transactional-id tool-txn > "$TMP/out"; has Ongoing; has tool-group-0
  transactions describe-producers --topic tool-group --partition 0 > "$TMP/out"; matches '^[0-9]+\s+[0-9]+\s+-?[0-9]+\s+-?[0-9]+\s+[0-9]+\s+[0-9]+\s*$'
  transactions find-hanging --broker-id 1 --max-transaction-timeout 1 > "$TMP/out"; lacks Exception; has Topic
  local start; start=$(transactions describe-producers --topic tool-group --partition 0 | awk '$1 ~ /^[0-9]+$/ && $6 ~ /^[0-9]+$/ {print $6}' | head -1)
  transactions abort --topic tool-group --partition 0 --start-offset "${start:-0}" > "$TMP/out"; lacks Exception
  seen '^ProducerId' transactions describe-producers --topic tool-group --partition 0
  awk '$1 ~ /^[0-9]+$/ && $6 ~ /^[0-9]+$/ {found = 1} END {exit found}' "$TMP/out" || BAD="${BAD:-still open after the abort: $(tail -2 "$TMP/out")}"
  transactions describe --transactional-id tool-none > "$TMP/out"; has "ID could not be found"
  verdict
}
share_tools() {
  begin "kafka-console-share-consumer and kafka-share-groups"
  configs --alter --entity-type groups --entity-name tool-share --add-config share.auto.offset.reset=earliest > "$TMP/out"; has "Completed updating config"
  tool $T.consumer.ConsoleShareConsumer --bootstrap-server "$BOOTSTRAP" --topic tool-group --group tool-share --max-messages 300 --timeout-ms 30000 > "$TMP/got" 2>&1
  same 300 "$(grep -cE '^([0-9]+|never committed)$' "$TMP/got")" "records of the share consumer"
  shares --list > "$TMP/out"; has tool-share
  shares --list --state > "$TMP/out"; matches 'tool-share +Empty'
  shares --describe --group tool-share > "$TMP/out"; matches 'tool-share +tool-group +[0-2]'
  shares --describe --group tool-share --state > "$TMP/out"; matches 'tool-share .*Empty +0'
  shares --reset-offsets --group tool-share --topic tool-group --to-earliest --execute > "$TMP/out"; matches 'tool-share +tool-group +0 +0|tool-group +0 +0'
  shares --delete-offsets --group tool-share --topic tool-group > "$TMP/out"; has Successful
  shares --delete --group tool-share > "$TMP/out"; has uccessful
  shares --list > "$TMP/out"; lacks tool-share
  tool_alone $T.VerifiableShareConsumer --bootstrap-server "$BOOTSTRAP" --topic tool-group --group-id tool-share-2 --offset-reset-strategy earliest --max-messages 300 > "$TMP/out"; has records_consumed; has offsets_acknowledged; lacks '"success":false'
  verdict
}
cluster_tools() {
  begin "kafka-features, kafka-metadata-quorum, kafka-leader-election, kafka-reassign-partitions"
  tool $T.FeatureCommand --bootstrap-server "$BOOTSTRAP" describe > "$TMP/out"; matches 'group.version.*FinalizedVersionLevel: 1'; matches 'transaction.version.*FinalizedVersionLevel: 2'; matches 'share.version.*FinalizedVersionLevel: 1'; has metadata.version
  tool $T.MetadataQuorumCommand --bootstrap-server "$BOOTSTRAP" describe --status > "$TMP/out"; matches 'LeaderId: +1'; has HighWatermark; has CurrentVoters
  tool $T.MetadataQuorumCommand --bootstrap-server "$BOOTSTRAP" describe --replication > "$TMP/out"; has Leader; has LogEndOffset
  tool $T.LeaderElectionCommand --bootstrap-server "$BOOTSTRAP" --election-type preferred --topic tool-group --partition 0 > "$TMP/out"; matches 'Valid replica already elected|No replica|Successfully completed'
  tool $T.LeaderElectionCommand --bootstrap-server "$BOOTSTRAP" --election-type preferred --all-topic-partitions > "$TMP/out"; lacks Exception
  tool $T.reassign.ReassignPartitionsCommand --bootstrap-server "$BOOTSTRAP" --list > "$TMP/out"; has "No partition reassignments found."
  tool $T.LogDirsCommand --bootstrap-server "$BOOTSTRAP" --describe --topic-list tool-group > "$TMP/out"; has '"partition":"tool-group-2"'; lacks '"error":"'
  offsets --topic tool-group --time latest > "$TMP/out"; has "tool-group:0:"; has "tool-group:2:"
  verdict
}
compact_tool() { # only the LATEST of every key is left
  begin "a compacted topic keeps the last of each key"
  topics --create --topic tool-compact --partitions 1 --config cleanup.policy=compact --config segment.bytes=1048576 --config min.cleanable.dirty.ratio=0.01 --config segment.ms=500 \
    --config max.compaction.lag.ms=500 > "$TMP/out"; has "Created topic"
  awk 'BEGIN {for (i = 0; i < 20000; i++) printf "key-%d\tvalue-%d\n", i % 50, i}' | produce --topic tool-compact --reader-property parse.key=true > "$TMP/out"; lacks ERROR
  sleep 1; echo $'last\tone' | produce --topic tool-compact --reader-property parse.key=true > "$TMP/out"
  seen '^value-19999$' kept_values
  same 50 "$(grep -c '^value-' "$TMP/out")" "records after compaction"
  same "$(seq 19950 19999 | sort | tr '\n' ' ')" "$(sed -n 's/^value-//p' "$TMP/out" | sort | tr '\n' ' ')" "values after compaction"
  offsets --topic tool-compact > "$TMP/out"; has tool-compact:0:20001
  verdict
}
kept_values() {
  CONSUME_MS=4000 consume --topic tool-compact --partition 0 --offset earliest --max-messages 100000 > "$TMP/values"
  if [ "$(wc -l < "$TMP/values")" -gt 60 ]; then echo "not compacted yet: $(wc -l < "$TMP/values") records"; else cat "$TMP/values"; fi
}

topics --create --topic tool-group --partitions 3 --replication-factor "${INTEROP_REPLICAS:-1}" > "$TMP/out"
wanted verifiable smoke && verifiable_tools
wanted list smoke && list_tool
wanted describe smoke && describe_tool
wanted reset && reset_tool
wanted delete-group && delete_group_tool
wanted group-configs && group_configs_tool
wanted transactions smoke && transactions_tool
wanted share smoke && share_tools
wanted cluster && cluster_tools
wanted compact smoke && compact_tool
[ $FAILED = 0 ]
