//! Arbitrary bytes as a consumer's durable state (a snapshot and an update, each behind its length), and then
//! as what clients send: each command is a byte for its kind, one for its length, and so many bytes. Nothing
//! must panic, no number is given to two deliveries, and the next leader can load what this one saves.
//!
//! Run: `cargo +nightly fuzz run jetstream_consumer -- -max_len=2048 -rss_limit_mb=512`

#![no_main]

use libfuzzer_sys::fuzz_target;
use tailrace_jetstream::consumer::{
    Ack, AckPolicy, AckSubject, Bounds, Candidate, Consumer, DurableState, Found, Mode, Moment, Names,
    Outbox, PriorityPolicy, PullRules, Removal, Retention, Rules, Send, Setup, StartRule, StreamView,
};

const MESSAGES: u64 = 200;

/// A stream of messages 1 to 200, as far as they are not deleted.
struct Stream {
    first: u64,
}

impl StreamView for Stream {
    fn next(&mut self, from: u64, cut: Option<u64>) -> Found {
        let seq = from.max(self.first);
        if seq > cut.unwrap_or(MESSAGES).min(MESSAGES) {
            return Found::Nothing { through: cut.unwrap_or(MESSAGES) };
        }
        let (timestamp_ns, subject_len, header_len, payload_len) = (1, 1, 0, 10);
        Found::Message(Candidate { seq, timestamp_ns, subject_len, header_len, payload_len })
    }

    fn get(&mut self, seq: u64) -> Found {
        if seq < self.first { Found::Nothing { through: seq } } else { self.next(seq, None) }
    }

    fn appended(&mut self) -> u64 {
        MESSAGES
    }

    fn count(&mut self, first: u64, last: u64, _: Option<u64>) -> u64 {
        (last.min(MESSAGES) + 1).saturating_sub(first.max(self.first))
    }

    fn last_seq(&mut self) -> u64 {
        MESSAGES
    }

    fn is_interested(&mut self, _: &str) -> bool {
        true
    }
}

fn setup(kind: u8) -> Setup {
    let pull = PullRules {
        waiting_max: 8,
        batch_max: 0,
        expires_max_ns: 0,
        bytes_max: 0,
        priority: [
            PriorityPolicy::None,
            PriorityPolicy::Overflow,
            PriorityPolicy::Pinned,
            PriorityPolicy::Prioritized,
        ][usize::from(kind & 3)],
        groups: vec!["g".into()],
        pin_ns: 1_000_000_000,
    };
    let rules = Rules {
        ack: if kind & 4 == 0 { AckPolicy::Explicit } else { AckPolicy::All },
        ack_wait_ns: 1_000_000_000,
        backoff_ns: if kind & 8 == 0 { vec![] } else { vec![1, 2_000_000] },
        max_deliver: u32::from(kind >> 4 & 3),
        max_ack_pending: 20,
        mode: Mode::Pull(pull),
        headers_only: kind & 64 != 0,
        replay_original: false,
        sample_percent: 50,
        inactive_ns: 5_000_000_000,
        start: StartRule::All,
        retention: Retention::WorkQueue,
        durable: true,
    };
    let names = Names { stream: "S".into(), consumer: "C".into() };
    let bounds = Bounds { reserve_step: 16, given_up_max: 8, ranges_max: 16, ..Bounds::default() };
    Setup { names, rules, bounds, paused_until_ns: 0 }
}

fn chunk<'a>(data: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, rest) = data.split_first()?;
    let (chunk, rest) = rest.split_at(rest.len().min(usize::from(*length)));
    *data = rest;
    Some(chunk)
}

fuzz_target!(|data: &[u8]| {
    let Some((kind, mut data)) = data.split_first() else { return };
    let (Some(snapshot), Some(update)) = (chunk(&mut data), chunk(&mut data)) else { return };
    let state = DurableState::decode(snapshot, Some(update))
        .or_else(|_| DurableState::decode(snapshot, None))
        .unwrap_or_default();
    let mut stream = Stream { first: 1 };
    let mut at = Moment { now_ns: 1_000_000_000_000, random: 1 };
    let mut consumer = Consumer::load(setup(*kind), &state, &mut stream, at);
    let mut out = Outbox::default();
    let mut numbered = 0;
    while let Some((command, rest)) = data.split_first() {
        data = rest;
        let Some(bytes) = chunk(&mut data) else { break };
        let first = u64::from(bytes.first().copied().unwrap_or(0));
        match command % 7 {
            0 => consumer.pull(&"inbox".into(), bytes, &mut stream, at, &mut out),
            1 => {
                let subject = format!("$JS.ACK.S.C.1.{first}.{first}.0.0");
                let subject = AckSubject::parse(&subject).expect("it is one");
                let payload = bytes.get(1..).unwrap_or_default();
                let reply = "reply".into();
                consumer.ack(Ack { subject, payload, reply: Some(&reply) }, &mut stream, at, &mut out);
            }
            2 => {
                at.now_ns += i64::from(*command) * 100_000_000;
                consumer.tick(&mut stream, at, &mut out);
            }
            3 => {
                stream.first = stream.first.max(first);
                consumer.removed_below(first, Removal::Limits, &mut stream, &mut out);
            }
            4 => {
                let text = String::from_utf8_lossy(bytes);
                let _ = AckSubject::parse(&text);
            }
            5 => consumer.not_delivered(first),
            _ => {
                let mut saved = Vec::new();
                let version = consumer.encode_snapshot(&mut saved);
                let loaded = DurableState::decode(&saved, None).expect("it can be loaded");
                assert_eq!(loaded.settled_through(), consumer.settled_through());
                consumer.saved(version);
            }
        }
        consumer.serve(50, &mut stream, at, &mut out);
        for send in out.now.drain(..) {
            let Send::Message(delivery) = send else { continue };
            assert!(delivery.consumer_seq > numbered, "numbers rise");
            numbered = delivery.consumer_seq;
        }
        out.after_save.clear();
        assert!(consumer.next_deadline_ns().is_none_or(|due_ns| due_ns > 0));
    }
});
