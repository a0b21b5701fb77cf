//! What a delivery and its acknowledgement cost, with 1,000 pending messages and 512 waiting requests.
//!
//! ```text
//! cargo run --release -p tailrace-jetstream --example consumer_cost
//! ```

#![allow(clippy::print_stdout, reason = "it prints its results")]

use tailrace_jetstream::consumer::{
    Ack, AckPolicy, AckSubject, Bounds, Candidate, Consumer, Found, Mode, Moment, Names, Outbox,
    PriorityPolicy, PullRules, Retention, Rules, Send, Setup, Start, StartRule, StreamView,
};

const SECOND: i64 = 1_000_000_000;
const START_NS: i64 = 1_700_000_000 * SECOND;

/// A stream in which every message matches.
struct Endless(u64);
impl StreamView for Endless {
    fn next(&mut self, seq: u64, _: Option<u64>) -> Found {
        let (timestamp_ns, subject_len, header_len, payload_len) = (START_NS, 10, 0, 100);
        Found::Message(Candidate { seq, timestamp_ns, subject_len, header_len, payload_len })
    }
    fn get(&mut self, seq: u64) -> Found {
        self.next(seq, None)
    }
    fn appended(&mut self) -> u64 {
        self.0
    }
    fn count(&mut self, first: u64, last: u64, _: Option<u64>) -> u64 {
        self.0.min(last).saturating_sub(first)
    }
    fn last_seq(&mut self) -> u64 {
        self.0
    }
    fn is_interested(&mut self, _: &str) -> bool {
        true
    }
}

fn rules() -> Rules {
    Rules {
        ack: AckPolicy::Explicit,
        ack_wait_ns: 30 * SECOND,
        backoff_ns: Vec::new(),
        max_deliver: 0,
        max_ack_pending: 0,
        mode: Mode::Pull(PullRules {
            waiting_max: 512,
            batch_max: 0,
            expires_max_ns: 0,
            bytes_max: 0,
            priority: PriorityPolicy::None,
            groups: Vec::new(),
            pin_ns: 120 * SECOND,
        }),
        headers_only: false,
        replay_original: false,
        sample_percent: 0,
        inactive_ns: 0,
        start: StartRule::All,
        retention: Retention::Limits,
        durable: false,
    }
}

fn main() -> Result<(), &'static str> {
    let names = Names { stream: "S".into(), consumer: "C".into() };
    for (pending, name) in [(1_000, "in order"), (1_000, "at random")] {
        let mut view = Endless(1 << 40);
        let setup =
            Setup { names: names.clone(), rules: rules(), bounds: Bounds::default(), paused_until_ns: 0 };
        let at = Moment { now_ns: START_NS, random: 1 };
        let mut consumer = Consumer::create(setup, Start { first: 1, cut: None }, &mut view, at);
        let mut out = Outbox::default();
        for inbox in 0..512 {
            consumer.pull(&format!("_INBOX.{inbox}").into(), b"1000000", &mut view, at, &mut out);
        }
        consumer.serve(pending, &mut view, at, &mut out);
        out.now.clear();
        let mut held: Vec<u64> = (1..=pending as u64).collect();
        let rounds: u32 = 1_000_000;
        let mut random = 1_u64;
        let started = std::time::Instant::now();
        for round in 0..rounds {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let which =
                if name == "in order" { round as usize } else { (random >> 33) as usize } % held.len();
            let stream_seq = held[which];
            let subject = AckSubject {
                domain: None,
                stream: "S",
                consumer: "C",
                deliveries: 1,
                stream_seq,
                consumer_seq: stream_seq,
            };
            consumer.ack(Ack { subject, payload: b"", reply: None }, &mut view, at, &mut out);
            consumer.serve(1, &mut view, at, &mut out);
            let Some(Send::Message(delivery)) = out.now.pop() else { return Err("a message was expected") };
            held[which] = delivery.stream_seq;
            out.now.clear();
        }
        let each = started.elapsed() / rounds;
        println!("{name}: {each:?} for each delivery and ack, {pending} pending, 512 waiting");
    }
    Ok(())
}
