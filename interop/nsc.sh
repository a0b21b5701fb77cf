#!/bin/bash
# nsc, the tool that administers accounts of NATS, with tailrace and beside nats-server: interop/nsc.sh
#
# It makes an operator, accounts and users, pushes and pulls their claims, prunes, revokes, limits, and
# connects with the credentials that it has made. Both servers get the same commands. What nsc prints must be
# the same, up to names and times, except for the lines of `known`. Needs Go.
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
NSC_VERSION=v2.8.6

nsc_is_here() {
  local dir=$INTEROP/go/target/nsc from
  [ ! -x "$dir/nsc" ] || return 0
  rm -rf "$dir" && mkdir -p "$dir" || return 1
  # Not by go install, which asks for a list of versions that not every proxy has.
  from=$(go mod download -json "github.com/nats-io/nsc/v2@$NSC_VERSION" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p') || return 1
  cp -R "$from" "$dir/src" && chmod -R u+w "$dir/src" || return 1
  (cd "$dir/src" && retry quiet "$dir/log" go build -mod=mod -o ../nsc .)
}

# Lines that one of both prints, each with its reason.
known() {
  cat <<'KNOWN'
< [ OK ] push to nats-server "nats://HOST" using system account "SYS":
<        [ OK ] push SHOP to nats-server with nats account resolver:
<               [ OK ] pushed "SHOP" to nats-server SERVER: jwt updated
<               [ OK ] pushed to a total of 1 nats-server
< rc 0
> [ERR ] push to nats-server "nats://HOST" using system account "SYS":
>        [ERR ] push SHOP to nats-server with nats account resolver:
>               [ERR ] server SERVER responded with error: mappings: mappings of subjects within an account are not supported
>               [ OK ] pushed to a total of 0 nats-server
> Error: all jobs failed
> rc 1
KNOWN
} # docs/security.md: subjects are not mapped within an account

nsc() { (cd "$TMP" && HOME=$TMP NKEYS_PATH=$TMP/keys XDG_CONFIG_HOME=$TMP/config XDG_DATA_HOME=$TMP/data \
  timeout 60 "$INTEROP/go/target/nsc/nsc" "$@" 2>&1); }
say() { echo "\$ nsc ${*/#nats:*/URL}"; nsc "$@"; echo "rc $?"; }

scene() { # what is typed, with the address of a server
  say edit operator --account-jwt-server-url "$1" --service-url "$1"
  say push -A
  say pull -A
  say validate -A
  say tool pub -a SHOP -u bob x hello
  say tool rtt -a SHOP -u bob
  say tool req -a SHOP -u bob nobody hello
  say add account -n TEMP
  say push -a TEMP
  say delete account -n TEMP --revoke --force
  say push --prune
  say edit account -n SHOP --conns 1
  say revocations add-user -a SHOP -n bob
  say push -a SHOP
  say tool rtt -a SHOP -u bob
  say revocations delete-user -a SHOP -n bob
  say edit account -n SHOP --conns -1
  say push -a SHOP
  say tool rtt -a SHOP -u bob
  say add mapping -a SHOP --from a --to b
  say push -a SHOP
  say delete mapping -a SHOP --from a
  say push -a SHOP
}

same() { # leaves out what differs in every run
  sed -E 's/127\.0\.0\.1:[0-9]+/HOST/g; s/nats-server (tailrace-1|N[A-Z0-9]{55})/nats-server SERVER/; s/server (tailrace-1|N[A-Z0-9]{55}) resp/server SERVER resp/; s/\b[AUO][A-Z0-9]{55}\b/KEY/g; s/= [0-9.]+[mnµ]?s$/= TIME/' "$1" | grep -v '^       .*account KEY'
}

wait_for() { # a pattern in a file
  for _ in $(seq 300); do grep -q "$1" "$2" 2> /dev/null && return 0; sleep 0.1; done
  tail -n 5 "$2" >&2; die "the server does not start"
}

begin() { # the same operator, accounts and users for both
  rm -rf "$TMP/keys" "$TMP/stores" && cp -R "$TMP/begin/keys" "$TMP/begin/stores" "$TMP" || die "no keys"
}

end() { kill "$SERVER" 2> /dev/null; wait "$SERVER" 2> /dev/null; SERVER=; }

export TMP
TMP=$(mktemp -d "${TMPDIR:-/tmp}/interop-nsc.XXXXXX")
SERVER=
trap '[ -z "$SERVER" ] || kill "$SERVER"; [ -n "${KEEP:-}" ] || rm -rf "$TMP"' EXIT
if [ -z "${TAILRACE_BIN:-}" ]; then
  (cd "$ROOT" && cargo build -q -p tailrace) || die "tailrace does not build"
  TAILRACE_BIN=${CARGO_TARGET_DIR:-$ROOT/target}/debug/tailrace
fi
install_nats_server || die "nats-server cannot be installed"
alone nsc nsc_is_here || die "nsc cannot be installed"

{ nsc env -s "$TMP/stores"; nsc add operator -n O --sys; for account in TOPICS SHOP; do nsc add account -n $account; done
  nsc add user -a TOPICS -n alice; nsc add user -a SHOP -n bob; } > "$TMP/made" || die "$(cat "$TMP/made")"
mkdir "$TMP/begin" && cp -R "$TMP/keys" "$TMP/stores" "$TMP/begin"
nsc describe operator --raw > "$TMP/operator.jwt"
nsc describe account -n SYS --raw > "$TMP/accounts.jwt"
TOPICS=$(nsc describe account -n TOPICS -J | sed -n 's/^ "sub": "\(A[A-Z0-9]*\)".*/\1/p')

begin
nsc generate config --nats-resolver --sys-account SYS --config-file "$TMP/resolver.conf" --force > /dev/null
sed -i.before "s#dir: .*#dir: '$TMP/jwt'#; s#allow_delete: false#allow_delete: true#" "$TMP/resolver.conf"
"$NATS_SERVER_BIN" -c "$TMP/resolver.conf" -a 127.0.0.1 -p -1 > "$TMP/nats-server.log" 2>&1 & SERVER=$!
wait_for 'Server is ready' "$TMP/nats-server.log"
scene "nats://$(sed -n 's/.*Listening for client connections on \([0-9.:]*\).*/\1/p' "$TMP/nats-server.log")" > "$TMP/of-nats-server"
end

begin
"$TAILRACE_BIN" serve --data-dir "$TMP/tailrace" --kafka 127.0.0.1:0 --nats 127.0.0.1:0 --http 127.0.0.1:0 \
  --set "tailrace.nats.operator.file=$TMP/operator.jwt" --set "tailrace.nats.topics.account=$TOPICS" \
  --set "tailrace.nats.operator.accounts.file=$TMP/accounts.jwt" > "$TMP/tailrace.log" 2>&1 & SERVER=$!
wait_for '^ready' "$TMP/tailrace.log"
scene "nats://$(sed -n 's/^ready.* nats=\([0-9.:]*\).*/\1/p' "$TMP/tailrace.log")" > "$TMP/of-tailrace"
end

commands=$(grep -c '^\$ nsc' "$TMP/of-tailrace")
[ "$commands" -gt 20 ] && grep -q 'jwt updated' "$TMP/of-tailrace" || die "nothing was compared"
diff <(same "$TMP/of-nats-server") <(same "$TMP/of-tailrace") | grep '^[<>]' > "$TMP/differs"
if diff <(known) "$TMP/differs"; then
  echo "nsc $NSC_VERSION: $commands commands, the same as with nats-server but for what is known"
else
  die "nsc prints other things than with nats-server (> is what differs now, < was known)"
fi
