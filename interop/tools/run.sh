#!/bin/bash
# Kafka's own console tools against the server, as a user types them; then DumpLogSegments over every segment
# on disk. interop/run.sh runs this. Deliberately absent: tools for groups and transactions (groups.sh),
# quotas and ACLs.
set -uo pipefail
STATE=${INTEROP_STATE:?} FAILED=0 TMP=$(mktemp -d)
trap 'stop_tools; rm -rf "$TMP"' EXIT
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
start_tools

topic_tool() {
  begin "kafka-topics creates, lists, describes, alters"
  topics --create --topic tool --partitions 2 --replication-factor "${INTEROP_REPLICAS:-1}" --config retention.ms=86400000 > "$TMP/out"; has "Created topic tool"
  topics --list > "$TMP/out"; has tool
  topics --alter --topic tool --partitions 3 > "$TMP/out"; lacks Error
  topics --describe --topic tool > "$TMP/out"; has "PartitionCount: 3"; has "retention.ms=86400000"; has "Partition: 2"
  verdict
}
produce_tool() {
  begin "kafka-console-producer and -consumer"
  seq -f 'line %g' 1 500 > "$TMP/lines"
  produce --topic tool-lines --compression-codec lz4 < "$TMP/lines" > "$TMP/out"; lacks ERROR
  consume --topic tool-lines --partition 0 --offset earliest --max-messages 500 > "$TMP/got"
  cmp -s "$TMP/lines" "$TMP/got" || BAD="what came out differs: $(head -3 "$TMP/got" | tr '\n' '|')"
  consume --topic tool-lines --partition 0 --offset 490 --max-messages 10 > "$TMP/got"
  cmp -s <(tail -10 "$TMP/lines") "$TMP/got" || BAD="from offset 490: $(head -3 "$TMP/got" | tr '\n' '|')"
  verdict
}
keyed_tool() {
  begin "console tools with keys, headers, timestamps and offsets"
  printf 'a:1,b:2\tkey1\tvalue one\nnone:\tkey2\tvalue two\n' | produce --topic tool-keyed --reader-property parse.key=true --reader-property parse.headers=true > "$TMP/out"; lacks ERROR
  consume --topic tool-keyed --partition 0 --offset earliest --max-messages 2 --formatter-property print.key=true --formatter-property print.headers=true \
    --formatter-property print.offset=true --formatter-property print.timestamp=true > "$TMP/out"
  has "Offset:0"; has "a:1,b:2"; has "key1"; has "value two"; has CreateTime
  verdict
}
codec_tool() {
  begin "kafka-console-producer with every codec"
  local c; for c in none gzip snappy lz4 zstd; do produce --topic tool-codec --compression-codec $c < "$TMP/lines" > "$TMP/out"; lacks ERROR; done
  consume --topic tool-codec --partition 0 --offset earliest --max-messages 2500 > "$TMP/got"
  cmp -s <(for _ in 1 2 3 4 5; do cat "$TMP/lines"; done) "$TMP/got" || BAD="what came out differs"
  verdict
}
offsets_tool() {
  begin "kafka-get-offsets"
  offsets --topic tool-lines > "$TMP/out"; has "tool-lines:0:500"
  offsets --topic tool-lines --time earliest > "$TMP/out"; has "tool-lines:0:0"
  offsets --topic tool-lines --time max-timestamp > "$TMP/out"; has "tool-lines:0:"; lacks Error
  offsets --topic tool --time latest > "$TMP/out"; has "tool:2:0"
  verdict
}
configs_tool() {
  begin "kafka-configs describes and alters"
  configs --alter --entity-type topics --entity-name tool --add-config max.message.bytes=2000000 --delete-config retention.ms > "$TMP/out"; has "Completed updating config"
  configs --describe --entity-type topics --entity-name tool > "$TMP/out"; has "max.message.bytes=2000000"; lacks "retention.ms=86400000"
  configs --describe --all --entity-type topics --entity-name tool > "$TMP/out"; has "cleanup.policy=delete"
  verdict
}
delete_records_tool() {
  begin "kafka-delete-records"
  echo '{"partitions":[{"topic":"tool-lines","partition":0,"offset":100}],"version":1}' > "$TMP/delete.json"
  tool org.apache.kafka.tools.DeleteRecordsCommand --bootstrap-server "$BOOTSTRAP" --offset-json-file "$TMP/delete.json" > "$TMP/out"; has "low_watermark: 100"
  offsets --topic tool-lines --time earliest > "$TMP/out"; has "tool-lines:0:100"
  verdict
}
log_dirs_tool() {
  begin "kafka-log-dirs"
  tool org.apache.kafka.tools.LogDirsCommand --bootstrap-server "$BOOTSTRAP" --describe --topic-list tool-lines > "$TMP/out"; has '"partition":"tool-lines-0"'; lacks '"error":"'
  verdict
}
cluster_tools() {
  begin "kafka-cluster, kafka-broker-api-versions, kafka-transactions describe-producers"
  tool org.apache.kafka.tools.ClusterTool cluster-id --bootstrap-server "$BOOTSTRAP" > "$TMP/out"; has "Cluster ID:"
  tool org.apache.kafka.tools.BrokerApiVersionsCommand --bootstrap-server "$BOOTSTRAP" > "$TMP/out"; has "Produce(0): "; has "DescribeTopicPartitions(75)"; lacks Exception
  tool org.apache.kafka.tools.TransactionsCommand --bootstrap-server "$BOOTSTRAP" describe-producers --topic tool-lines --partition 0 > "$TMP/out"; has ProducerId; lacks Exception
  verdict
}
performance_tool() {
  begin "kafka-producer-perf-test"
  tool org.apache.kafka.tools.ProducerPerformance --topic tool-perf --num-records 50000 --record-size 500 --throughput -1 --bootstrap-server "$BOOTSTRAP" > "$TMP/out"
  has "50000 records sent"
  verdict
}
delete_tool() {
  begin "kafka-topics deletes"
  topics --delete --topic tool-codec > "$TMP/out"; lacks Error
  topics --list > "$TMP/out"; lacks tool-codec
  topics --describe --topic tool-codec > "$TMP/out"; has "does not exist"
  verdict
}
# Once the server has stopped, Kafka itself must be able to read every segment on disk.
dump_segments() {
  local file count=0 records=0 segment_bytes=1048576
  begin "DumpLogSegments --deep-iteration reads every segment"
  topics --create --topic tool-segments --partitions 1 --config segment.bytes=$segment_bytes > "$TMP/out"
  tool org.apache.kafka.tools.ProducerPerformance --topic tool-segments --num-records 10000 --record-size 500 --throughput -1 --bootstrap-server "$BOOTSTRAP" > "$TMP/out"; has "10000 records sent"
  "$INTEROP_SERVER" stop "$STATE"
  while IFS= read -r file; do
    case $file in */__cluster_metadata-0/*) continue ;; esac
    count=$((count + 1))
    [ -s "$file" ] || continue
    tool org.apache.kafka.tools.DumpLogSegments --deep-iteration --files "$file" < /dev/null > "$TMP/out"
    lacks "isvalid: false"; lacks Exception; lacks "Mismatches"; lacks "invalid"
    # The tool believes that every file starts at offset 0, so "-1 is followed by BASE" means nothing.
    ! grep 'is followed by' "$TMP/out" | grep -qv '^ *-1 is followed' || BAD="a gap in $file: $(grep 'is followed by' "$TMP/out" | head -2 | tr '\n' '|')"
    case $file in */tool-segments-0/*) records=$((records + $(grep -c '^| offset:' "$TMP/out"))) ;; esac
  done < <(find "$STATE/data" -name '[0-9]*.log' | sort | if [ "$INTEROP_MODE" = smoke ]; then grep tool-segments; else cat; fi)
  [ "$records" = 10000 ] || BAD="${BAD:-found $records records of tool-segments in the dumps, not 10000}"
  [ "$count" -ge 3 ] || BAD="${BAD:-only $count segments on disk}"
  "$INTEROP_SERVER" again "$STATE"
  verdict
}

seq -f 'line %g' 1 500 > "$TMP/lines"
wanted topics smoke && topic_tool
wanted produce smoke && produce_tool
wanted keyed && keyed_tool
wanted codec && codec_tool
wanted offsets && offsets_tool
wanted configs && configs_tool
wanted delete-records && delete_records_tool
wanted log-dirs && log_dirs_tool
wanted cluster && cluster_tools
wanted performance && performance_tool
wanted codec && delete_tool
wanted dump smoke && dump_segments
[ $FAILED = 0 ]
