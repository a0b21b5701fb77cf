#!/bin/bash
# The same random conversations with tailrace and with the system that it stands in for, answer by answer:
# interop/differential.sh nats|kafka|all [--quick | --minutes N] [--seed N]
#
# nats: nats-server, byte for byte. kafka: Apache Kafka's broker, error codes, offsets, records, states of groups. What may differ stands
# in a list with its reason (differential/nats, differential/kafka); a long run names what is listed and no longer happens.
# --quick: a minute or two each. --minutes: how long each goes on. --seed: where the seeds begin; a failing one is printed, with the
# shortest conversation that was found to show the same.
set -uo pipefail
DIR=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/differential
WHAT=${1:-all} RC=0; shift
# Kafka's is quick unless it is told how many minutes.
play() { local one=$1; shift; [ "$one" = nats ] || set -- "${@/#--quick/}"; set -- $*; "$DIR/$one.sh" "$@"; }
case $WHAT in
  nats|kafka) play "$WHAT" "$@" ;;
  all) for one in nats kafka; do play "$one" "$@" || RC=1; done; exit $RC ;;
  *) sed -n '2,/^set/{s/^# \?//;/^set/d;p}' "$0"; [ "$WHAT" = --help ]; exit $(($? ? 2 : 0)) ;;
esac
