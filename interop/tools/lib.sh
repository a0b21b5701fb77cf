# Sourced by the suites of console tools (bash): the tools, and checks of their output. Needs TMP, FAILED and
# BOOTSTRAP.
JVM=(-Xmx384m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xshare:auto)
INTEROP_CLASSES=$(dirname "${BASH_SOURCE[0]}")/../java/target/classes
TOOL_JARS=("$KAFKA_LIBS"/kafka-tools-[0-9]*.jar "$KAFKA_LIBS"/kafka_2.13-*.jar)
# All tools run in one JVM, see ToolShell. A lock file lets subshells and pipelines take turns.
start_tools() {
  local jar path=$INTEROP_CLASSES
  for jar in "$KAFKA_LIBS"/*.jar; do [[ " ${TOOL_JARS[*]} " == *" $jar "* ]] || path+=:$jar; done
  mkfifo "$TMP/commands" "$TMP/answers"
  java "${JVM[@]}" -cp "$path" tailrace.interop.ToolShell "${TOOL_JARS[@]}" < "$TMP/commands" > "$TMP/answers" 2> "$TMP/shell.log" &
  TOOLS=$!
  exec 8> "$TMP/commands" 9< "$TMP/answers"
}
stop_tools() { exec 8>&- 9<&-; kill "$TOOLS" 2>/dev/null; wait "$TOOLS" 2>/dev/null; }
# tool CLASS ARGUMENT...: runs the tool, with its output and exit status. Passes standard input on if it is a
# file or a pipe.
tool() {
  local out in=/dev/null line status
  out=$(mktemp "$TMP/tool.XXXXXX")
  if [ ! -t 0 ] && [ ! /dev/stdin -ef /dev/null ]; then in=$out.in; cat > "$in"; fi
  printf -v line '%s\x1f' "$out" "$in" "$@"
  exec 7> "$TMP/lock"; flock 7
  printf '%s\n' "${line%$'\x1f'}" >&8
  read -r -t 90 -u 9 status || status=125
  exec 7>&-
  cat "$out"; rm -f "$out" "$out.in"
  return "$status"
}
# Runs a tool in a JVM of its own: for tools that print when their process ends.
tool_alone() { timeout 60 java "${JVM[@]}" -cp "$KAFKA_LIBS/*" "$@" 2>&1; }
# The same without a time limit, and with our own programs.
tool_now() { exec java "${JVM[@]}" -cp "$INTEROP_CLASSES:$KAFKA_LIBS/*" "$@" > "$TMP/background" 2>&1; }
topics() { tool org.apache.kafka.tools.TopicCommand --bootstrap-server "$BOOTSTRAP" "$@"; }
configs() { tool kafka.admin.ConfigCommand --bootstrap-server "$BOOTSTRAP" "$@"; }
produce() { tool org.apache.kafka.tools.ConsoleProducer --bootstrap-server "$BOOTSTRAP" "$@"; }
consume() { tool org.apache.kafka.tools.consumer.ConsoleConsumer --bootstrap-server "$BOOTSTRAP" --timeout-ms "${CONSUME_MS:-20000}" "$@" | grep -v '^Processed a total'; }
offsets() { tool org.apache.kafka.tools.GetOffsetShell --bootstrap-server "$BOOTSTRAP" "$@"; }

# verdict NAME: prints what was found since `begin`. has, lacks (fixed text) and matches, lacksre (extended
# expression) judge $TMP/out. same compares.
begin() { NAME=$1 BAD=; }
has() { grep -qF -- "$1" "$TMP/out" || BAD="${BAD:-no '$1' in: $(tail -5 "$TMP/out" | tr '\n' '|')}"; }
lacks() { ! grep -qF -- "$1" "$TMP/out" || BAD="${BAD:-'$1' in: $(grep -F -- "$1" "$TMP/out" | head -3 | tr '\n' '|')}"; }
matches() { grep -qE -- "$1" "$TMP/out" || BAD="${BAD:-no /$1/ in: $(tail -5 "$TMP/out" | tr '\n' '|')}"; }
lacksre() { ! grep -qE -- "$1" "$TMP/out" || BAD="${BAD:-/$1/ in: $(grep -E -- "$1" "$TMP/out" | head -3 | tr '\n' '|')}"; }
same() { [ "$1" = "$2" ] || BAD="${BAD:-$3: got $2, want $1}"; }
verdict() { if [ -z "$BAD" ]; then echo "PASS tools: $NAME"; else echo "FAIL tools: $NAME: $BAD"; FAILED=$((FAILED + 1)); fi; }
wanted() { [[ $1 =~ ${ONLY:-} ]] && { [ "${2:-full}" = smoke ] || [ "$INTEROP_MODE" = full ]; }; }
