#!/bin/bash
# The same random conversations with tailrace and with the system that it replaces, compared answer by answer:
# interop/differential.sh nats|kafka|all [--quick | --minutes N] [--seed N]
#
# nats: nats-server, byte for byte. kafka: Apache Kafka's broker, error codes, offsets, records, states of
# groups. A list has what may differ, with the reason (differential/nats, differential/kafka). A long run
# names entries that no longer occur. --quick: a minute or two each. --minutes: the length of each. --seed:
# the first seed. A failing seed is printed, with the shortest conversation found that shows the same.
set -uo pipefail
DIR=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/differential
WHAT=${1:-all} RC=0; shift
# Kafka's run is the quick one unless it gets a number of minutes.
play() { local one=$1; shift; [ "$one" = nats ] || set -- "${@/#--quick/}"; set -- $*; "$DIR/$one.sh" "$@"; }
case $WHAT in
  nats|kafka) play "$WHAT" "$@" ;;
  all) for one in nats kafka; do play "$one" "$@" || RC=1; done; exit $RC ;;
  *) sed -n '2,/^set/{s/^# \?//;/^set/d;p}' "$0"; [ "$WHAT" = --help ]; exit $(($? ? 2 : 0)) ;;
esac
