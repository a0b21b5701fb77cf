//! What a consumer costs.

use super::*;

#[test]
fn an_idle_consumer_has_less_than_two_kilobytes() {
    let mut rig = Rig::new(rules(), &"x".repeat(1_000));
    rig.pull("a", "1000").seen();
    for seq in 1..=1_000 {
        rig.ack(seq, "");
    }
    let bytes = size_of::<Consumer>() + rig.consumer.pending.bytes();
    assert!(bytes < 2 * 1024, "{bytes} bytes");
}

#[test]
fn a_pending_message_has_about_sixty_bytes_at_most() {
    let mut rig = Rig::new(Rules { max_ack_pending: 0, ..rules() }, &"x".repeat(10_000));
    rig.pull("a", "10000").seen();
    let each = rig.consumer.pending.bytes() / 10_000;
    assert!(each <= 66, "{each} bytes each");
}

#[test]
fn a_waiting_request_has_about_two_hundred_bytes() {
    assert!(size_of::<crate::consumer::waiting::Request>() <= 176);
}

/// Prints what a delivery and its acknowledgement cost: with 1,000 pending messages and 512 waiting requests.
/// `cargo test --release -p tailrace-jetstream cost -- --ignored --nocapture`
#[test]
#[ignore = "a measurement"]
fn the_cost_of_a_delivery_and_its_ack() {
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
    let names = Names { stream: "S".into(), consumer: "C".into() };
    for (pending, name) in [(1_000, "in order"), (1_000, "at random")] {
        let mut view = Endless(1 << 40);
        let limits = Rules { durable: false, max_ack_pending: 0, ..rules() };
        let setup =
            Setup { names: names.clone(), rules: limits, bounds: Bounds::default(), paused_until_ns: 0 };
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
            let Some(Send::Message(delivery)) = out.now.pop() else { panic!("a message was expected") };
            held[which] = delivery.stream_seq;
            out.now.clear();
        }
        let each = started.elapsed() / rounds;
        println!("{name}: {each:?} for each delivery and ack, {pending} pending, 512 waiting");
    }
}
