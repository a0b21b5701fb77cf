# Sourced by the scripts of interop/ (bash): paths, installation of what a suite needs, and a server per
# suite. Packages come from the registries that the clients (pip, go, mvn, npm) are configured to use.
INTEROP=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd) ROOT=$(cd "$INTEROP/.." && pwd)
PYTHON=$INTEROP/python/.venv/bin/python GO_NATS_BIN=$INTEROP/go/target/interop-nats GO_JOB_BIN=$INTEROP/go/target/natsjob
export GO_NATSCREDS_BIN=$INTEROP/go/target/natscreds
export GO_BIN=$INTEROP/go/target/interop GO_MEMBER_BIN=$INTEROP/go/target/member GO_SECURITY_BIN=$INTEROP/go/target/security
export KAFKA_LIBS=$INTEROP/java/target/libs
NATS_SERVER_VERSION=v2.15.2
die() { echo "interop: $*" >&2; exit 1; }
# quiet LOG COMMAND...: shows the log only when the command fails.
quiet() { local log=$1; shift; "$@" > "$log" 2>&1 || { tail -40 "$log" >&2; return 1; }; }
retry() { local i; for i in 1 2 3; do "$@" && return 0; sleep $((i * 3)); done; return 1; }
# newer STAMP FILE...: whether a file is newer than the stamp of the last installation.
newer() { local stamp=$1; shift; [ ! -e "$stamp" ] || [ -n "$(find "$@" -newer "$stamp" -type f -print -quit)" ]; }

# alone NAME COMMAND...: one at a time for each name, because scripts that run side by side install the same.
alone() { local name=$1; shift; mkdir -p "$ROOT/target" && (flock 9 && "$@") 9> "$ROOT/target/interop-$name.lock"; }

install_python() { alone python python_is_here; }
install_go() { alone go go_is_here; }
install_java() { alone java java_is_here; }
install_js() { alone js js_is_here; }

python_is_here() {
  local dir=$INTEROP/python
  newer "$dir/.venv/stamp" "$dir/requirements.txt" || return 0
  python3 -m venv "$dir/.venv" || return 1
  retry quiet "$dir/.venv/log" "$PYTHON" -m pip install -q --disable-pip-version-check -r "$dir/requirements.txt" && touch "$dir/.venv/stamp"
}
go_is_here() {
  local dir=$INTEROP/go
  newer "$dir/target/stamp" "$dir" || return 0
  mkdir -p "$dir/target"
  (cd "$dir" && retry quiet target/log go build -o target/interop . && retry quiet target/log go build -o target/interop-nats ./nats && retry quiet target/log go build -o target/natsjob ./natsjob && retry quiet target/log go build -o target/member ./member && retry quiet target/log go build -o target/security ./security && retry quiet target/log go build -o target/natscreds ./natscreds && retry quiet target/log go build -o target/natsbeside ./natsbeside) && touch "$dir/target/stamp"
}
java_is_here() { # Kafka's jars (broker, tools, clients) and the compiled tests
  local dir=$INTEROP/java
  mkdir -p "$dir/target"
  if newer "$dir/target/libs/stamp" "$dir/pom.xml"; then
    (cd "$dir" && retry quiet target/log mvn -q -B dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory=target/libs) || return 1
    touch "$dir/target/libs/stamp"
  fi
  newer "$dir/target/stamp" "$dir/src" || return 0
  quiet "$dir/target/log" javac -nowarn -d "$dir/target/classes" -cp "$KAFKA_LIBS/*" $(find "$dir/src" -name '*.java') && touch "$dir/target/stamp"
}
js_is_here() {
  local dir=$INTEROP/js
  newer "$dir/node_modules/stamp" "$dir/package.json" "$dir/package-lock.json" || return 0
  mkdir -p "$dir/node_modules"
  (cd "$dir" && retry quiet "$dir/node_modules/log" npm ci --no-audit --no-fund --loglevel=error); local rc=$?
  [ $rc = 0 ] && touch "$dir/node_modules/stamp"
}
nats_server_is_here() {
  local dir=$INTEROP/go/target/nats-server
  [ ! -x "$dir/nats-server" ] || return 0
  mkdir -p "$dir"
  GOBIN=$dir retry quiet "$dir/log" go install "github.com/nats-io/nats-server/v2@$NATS_SERVER_VERSION"
}
install_nats_server() { # the other target of the NATS suites
  [ -n "${NATS_SERVER_BIN:-}" ] || alone nats-server nats_server_is_here || return 1
  export NATS_SERVER_BIN=${NATS_SERVER_BIN:-$INTEROP/go/target/nats-server/nats-server}
}
install_tailrace() {
  [ -n "${TAILRACE_BIN:-}" ] || { (cd "$ROOT" && cargo build --release -p tailrace) || return 1; }
  export TAILRACE_BIN=${TAILRACE_BIN:-${CARGO_TARGET_DIR:-$ROOT/target}/release/tailrace}
  [ -x "$TAILRACE_BIN" ] || die "no tailrace binary at $TAILRACE_BIN"
}
