//! Subscribers whose publishers have another clock: every latency is known, and so are the losses.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use tailrace_bench::clock::{Clock, SECOND_NS};
use tailrace_bench::engine::{self, Interval, Listening, Load, LoadOptions, PartOutcome, Sent};
use tailrace_bench::error::RequesterError;
use tailrace_bench::payload::{Header, PayloadBuffer};
use tailrace_bench::requester::{Expects, Handed, PayloadBack, Readiness, Requester, Sink};

use crate::simulated::{MS, VirtualClock, agree};

/// The publisher's clock is an hour ahead.
const AHEAD_NS: u64 = 3600 * SECOND_NS;

/// Messages that arrive at given times.
struct Deliveries {
    left: BTreeMap<(u64, usize), Vec<u8>>,
    /// From this time on the estimated offset is this value.
    correction: Option<(u64, i64)>,
    offset_ns: Arc<AtomicI64>,
}

impl Requester for Deliveries {
    fn expects(&self) -> Expects {
        Expects { acknowledgement: false, payload: Some(PayloadBack::Receipt) }
    }

    fn set_up(&mut self) -> Result<(), RequesterError> {
        Ok(())
    }

    fn publish(&mut self, _sequence: u64, _payload: &[u8]) -> Result<Handed, RequesterError> {
        unreachable!("a subscriber publishes nothing")
    }

    fn flush(&mut self) -> Result<(), RequesterError> {
        Ok(())
    }

    fn receive(&mut self, clock: &dyn Clock, sink: &mut dyn Sink) -> Result<(), RequesterError> {
        let now = clock.now_ns();
        if let Some((_, offset_ns)) = self.correction.take_if(|(from_ns, _)| *from_ns <= now) {
            self.offset_ns.store(offset_ns, Ordering::Relaxed);
        }
        while let Some(first) = self.left.first_entry().filter(|first| first.key().0 <= now) {
            sink.payload(now, &first.remove());
        }
        Ok(())
    }

    fn readiness(&self) -> Readiness<'_> {
        Readiness::At(self.left.first_key_value().map_or(u64::MAX, |((at_ns, _), _)| *at_ns))
    }

    fn tear_down(&mut self) -> Result<(), RequesterError> {
        Ok(())
    }
}

/// A message of connection 4: its sequence, when it was due on the publisher's clock less the hour, and when
/// it arrives.
fn message(sequence: u64, due_ns: u64, comes_ns: u64) -> (u64, Vec<u8>) {
    let header = Header { run: 9, connection: 4, sequence, due_ns: due_ns + AHEAD_NS };
    (comes_ns, PayloadBuffer::new(64).fill(header).to_vec())
}

fn listen(
    messages: Vec<(u64, Vec<u8>)>,
    correction: Option<(u64, i64)>,
    sent: Option<u64>,
) -> (PartOutcome, u64) {
    let schedule = tailrace_bench::schedule::Schedule::constant("10".parse().unwrap()).unwrap();
    let mut options = LoadOptions::new(Load::Open(schedule));
    (options.warm_up_ns, options.duration_ns) = (SECOND_NS, SECOND_NS);
    (options.payload_bytes, options.run, options.timeout_ns) = (64, 9, 5 * SECOND_NS);
    let offset_ns = Arc::new(AtomicI64::new(-(AHEAD_NS as i64)));
    let left = messages.into_iter().enumerate().map(|(place, (at_ns, bytes))| ((at_ns, place), bytes));
    let requester =
        Box::new(Deliveries { left: left.collect(), correction, offset_ns: Arc::clone(&offset_ns) });
    let listening = vec![Listening { requester, connection: 4, publisher_begin_ns: AHEAD_NS, offset_ns }];
    let clock: Arc<dyn Clock> = Arc::new(VirtualClock::default());
    let told = Arc::new(Sent::default());
    told.tell(sent.map(|sent| (4, sent)).into_iter().collect());
    let mut observer = |_: &Interval<'_>| {};
    let outcome = engine::listen(&options, 0, listening, &told, &clock, &mut observer).unwrap().0;
    (outcome, clock.now_ns())
}

/// 20 messages, 100 ms apart, that take 3 ms each.
fn regular() -> Vec<(u64, Vec<u8>)> {
    (0..20).map(|n| message(n, n * 100 * MS, n * 100 * MS + 3 * MS)).collect()
}

#[test]
fn latencies_are_between_two_clocks() {
    let (outcome, ended_ns) = listen(regular(), None, Some(20));
    let receipt = &outcome.total.receipt.success;
    // Ten of them belong to the warm-up.
    assert_eq!((receipt.count(), receipt.max_ns()), (10, 3 * MS));
    assert!(agree(receipt.at_quantile_ns(0.0), 3 * MS, 0));
    let counts = outcome.total.counts;
    assert_eq!((counts.received, counts.lost, counts.negative, counts.sent), (10, 0, 0, 0));
    // It ends when everything has arrived.
    assert!(ended_ns < 2 * SECOND_NS, "{ended_ns}");
}

#[test]
fn what_was_sent_and_did_not_come_is_lost() {
    let mut messages = regular();
    messages.remove(15);
    // A message of the warm-up counts as well, as it does on one machine.
    messages.remove(2);
    messages.push(message(7, 700 * MS, 1900 * MS));
    let damaged = messages[3].1.iter().map(|byte| byte ^ 1).collect();
    messages.push((1950 * MS, damaged));
    let (outcome, ended_ns) = listen(messages, None, Some(21));
    let counts = outcome.total.counts;
    assert_eq!((counts.received, counts.lost), (9, 3));
    assert_eq!((counts.duplicates, counts.corrupt, counts.foreign), (1, 1, 0));
    // The wait ends as it does on one machine.
    assert!((10 * SECOND_NS..=12 * SECOND_NS + MS).contains(&ended_ns), "{ended_ns}");
}

#[test]
fn nothing_is_lost_where_nobody_knows_what_was_sent() {
    let mut messages = regular();
    messages.truncate(12);
    messages.swap(10, 11);
    let (outcome, _) = listen(messages, None, None);
    assert_eq!(outcome.total.counts.lost, 0);
}

#[test]
fn order_counts_and_what_is_too_late_is_a_timeout() {
    let mut messages = regular();
    messages[12] = message(12, 1200 * MS, 1450 * MS);
    messages[18] = message(18, 1800 * MS, 7 * SECOND_NS);
    let (outcome, _) = listen(messages, None, Some(20));
    let (total, counts) = (&outcome.total, outcome.total.counts);
    assert_eq!((counts.received, counts.reordered, counts.lost), (10, 2, 0));
    assert_eq!((total.receipt.success.max_ns(), total.receipt.success.count()), (250 * MS, 9));
    assert_eq!((total.receipt.timeout.max_ns(), total.receipt.timeout.count()), (5200 * MS, 1));
}

#[test]
fn a_receipt_before_its_due_time_is_nothing_and_is_counted() {
    // From second 1.5 on, the estimate is that the publisher's clock is 3,600 s less 4 ms ahead, so that 3 ms
    // become -1 ms.
    let correction = Some((1450 * MS, -(AHEAD_NS as i64) + 4 * MS as i64));
    let (outcome, _) = listen(regular(), correction, Some(20));
    let (receipt, counts) = (&outcome.total.receipt.success, outcome.total.counts);
    assert_eq!((counts.received, counts.negative, receipt.count()), (10, 5, 10));
    // 0 counts as 1 ns, the smallest value.
    assert_eq!((receipt.at_quantile_ns(0.5), receipt.max_ns()), (1, 3 * MS));
}
