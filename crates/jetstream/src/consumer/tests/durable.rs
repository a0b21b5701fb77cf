//! Failovers: what is saved, what is delivered again, and bytes that are no state.

use super::*;

#[test]
fn after_a_failover_settled_messages_stay_settled_and_others_come_again() {
    let mut rig = Rig::new(rules(), "abcdef");
    rig.pull("a", "5").seen();
    rig.ack(1, "").ack(3, "").ack(4, "").save();
    rig.crash();
    assert_eq!((rig.floor(), rig.numbers()), ((1, 1), (3, 0, 0)));
    rig.pull("b", "9");
    // Numbers go on behind what was reserved: none is given out twice.
    assert_eq!(rig.seen(), ["b: 2 #8193 x1 +2", "b: 5 #8194 x1 +1", "b: 6 #8195 x1 +0"]);
}

#[test]
fn deliveries_that_were_counted_go_on_counting() {
    let mut rig = Rig::new(Rules { max_deliver: 3, ..rules() }, "ab");
    rig.pull("a", "5").seen();
    rig.ack(1, "-NAK").ack(1, "-NAK").save();
    assert_eq!(rig.seen().last().map(String::as_str), Some("a: 1 #4 x3 +0"));
    rig.crash().pull("b", "5");
    // The first one was delivered as often as allowed.
    assert_eq!(rig.seen(), ["max deliveries 1 x3", "b: 2 #8193 x2 +0"]);
    assert_eq!(rig.numbers(), (0, 1, 1));
}

#[test]
fn the_delay_of_a_nak_outlives_a_failover() {
    let mut rig = Rig::new(rules(), "ab");
    rig.pull("a", "1").ack(1, "-NAK 60s").save();
    rig.seen();
    rig.crash().pull("b", "5");
    assert_eq!(rig.seen(), ["b: 2 #8193 x1 +0"]);
    assert_eq!(rig.numbers(), (0, 2, 0));
    rig.pass(29 * SECOND).ack(2, "").pass(31 * SECOND);
    assert_eq!(rig.seen(), ["b: 1 #8194 x2 +0"]);
    rig.ack(1, "");
    assert_eq!(rig.numbers(), (0, 0, 0));
}

#[test]
fn acks_for_deliveries_of_an_earlier_leader_are_accepted() {
    let mut rig = Rig::new(Rules { retention: Retention::WorkQueue, ..rules() }, "abcd");
    rig.pull("a", "3").seen();
    rig.crash();
    rig.ack_sync(2, "").save();
    assert_eq!(rig.seen(), ["done 2..=2", "sync: empty"]);
    assert_eq!(rig.numbers(), (3, 0, 0));
    rig.ack_sync(2, "").save();
    assert_eq!(rig.seen(), ["sync: empty"]);
    // Forged: no leader has given out such a number, or no such message is there.
    rig.ack_with("$JS.ACK.S.C.1.3.9999999.0.0", "", Some("sync"));
    rig.ack_with("$JS.ACK.S.C.1.5.1.0.0", "", Some("sync")).save();
    assert!(rig.seen().is_empty());
    rig.crash().pull("b", "9");
    assert_eq!(rig.seen(), ["b: 1 #16385 x1 +2", "b: 3 #16386 x1 +1", "b: 4 #16387 x1 +0"]);
}

#[test]
fn acks_ahead_are_bounded() {
    let mut rig = Rig::new(rules(), "abcdef");
    rig.pull("a", "6").seen();
    rig.crash();
    rig.consumer.bounds.ranges_max = 2;
    rig.ack_sync(2, "").ack_sync(4, "").ack_sync(6, "").save();
    assert_eq!(rig.seen(), ["sync: empty", "sync: empty"]);
}

#[test]
fn ack_all_ahead_settles_what_lies_below() {
    let mut rig = Rig::new(Rules { ack: AckPolicy::All, ..rules() }, "abcd");
    rig.pull("a", "3").seen();
    rig.crash();
    rig.ack_sync(3, "").save();
    assert_eq!(rig.seen(), ["sync: empty"]);
    assert_eq!((rig.floor().1, rig.numbers()), (3, (1, 0, 0)));
}

#[test]
fn nothing_is_numbered_beyond_what_is_reserved() {
    let mut rig = Rig::new(Rules { max_ack_pending: 0, ..rules() }, &"x".repeat(30));
    rig.consumer.bounds.reserve_step = 4;
    rig.setup.bounds.reserve_step = 4;
    rig.crash();
    let at = rig.at();
    rig.consumer.pull(&"a".into(), b"30", &mut rig.log, at, &mut rig.out);
    let first = rig.consumer.consumer_seq;
    assert_eq!(rig.consumer.serve(100, &mut rig.log, at, &mut rig.out), Served::Save);
    assert_eq!(rig.consumer.consumer_seq, first + 4);
    assert_eq!(rig.consumer.save_need(), SaveNeed::Urgent);
    rig.serve();
    assert_eq!(rig.consumer.consumer_seq, first + 30);
    let last = rig.consumer.consumer_seq;
    rig.crash();
    assert!(rig.consumer.consumer_seq >= last);
}

#[test]
fn a_clean_shutdown_leaves_no_gap_in_the_numbers() {
    let mut rig = Rig::new(rules(), "abc");
    rig.pull("a", "2").seen();
    rig.consumer.shut_down(&mut rig.out);
    rig.save();
    rig.crash().pull("b", "1");
    assert_eq!(rig.seen(), ["b: 1 #3 x1 +2"]);
}

#[test]
fn an_update_has_only_what_changed_since_the_snapshot() {
    let mut rig = Rig::new(Rules { max_ack_pending: 0, ..rules() }, &"x".repeat(4_000));
    rig.pull("a", "4000").seen();
    for at in 1..1_000 {
        rig.ack(at * 4, "");
    }
    let mut snapshot = Vec::new();
    let version = rig.consumer.encode_snapshot(&mut snapshot);
    rig.consumer.saved(version);
    rig.stored = (snapshot, None);
    rig.ack(2, "");
    rig.save();
    let (snapshot, update) = (&rig.stored.0, rig.stored.1.as_ref().expect("an update"));
    assert!(update.len() < 40 && snapshot.len() > 1_000, "{} of {} bytes", update.len(), snapshot.len());
    rig.crash();
    assert_eq!(rig.info().num_pending, 3_000);
}

#[test]
fn an_idle_consumers_state_is_small() {
    let mut rig = Rig::new(rules(), "abc");
    rig.pull("a", "3").ack(1, "").ack(2, "").ack(3, "");
    rig.save();
    let bytes = rig.stored.1.expect("an update");
    assert!(bytes.len() <= 16, "{} bytes", bytes.len());
}

/// The form is fixed: see the module `durable`.
#[test]
fn the_bytes_of_a_state_are_as_written_down() {
    let mut rig = Rig::new(Rules { max_deliver: 5, retention: Retention::Interest, ..rules() }, "abcdef");
    rig.pull("a", "5").ack(1, "").ack(3, "").ack(5, "");
    let mut bytes = Vec::new();
    rig.consumer.encode_snapshot(&mut bytes);
    let expected = [
        [1, 0, 2].as_slice(),   // version, snapshot, number
        &[1, 1, 1],             // settled through, floor of the stream, of the consumer
        &[0x80, 0x40],          // reserved: 8192
        &[0],                   // no cut
        &[2, 3, 0, 2, 0],       // ranges: 3, 5
        &[2, 2, 1, 0, 2, 1, 0], // counts: 2 and 4, once, at once
        &[0],                   // nothing given up
    ];
    assert_eq!(bytes, expected.concat());
}

#[test]
fn damaged_bytes_are_refused() {
    let head = [1, 0, 0, 0, 0, 0, 0, 0];
    let decode = |tail: &[u8]| DurableState::decode(&[&head[..], tail].concat(), None);
    assert!(decode(&[0, 0, 0]).is_ok());
    assert_eq!(decode(&[0, 0, 0, 9]), Err(DecodeError::Trailing(1)));
    assert_eq!(decode(&[0, 0]), Err(DecodeError::Damaged));
    assert_eq!(decode(&[0xff; 11]), Err(DecodeError::Damaged));
    // A count far beyond the bytes costs nothing.
    assert_eq!(decode(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]), Err(DecodeError::Damaged));
    // Ranges that do not ascend.
    assert_eq!(decode(&[2, 5, 1, 0, 1, 0, 0]), Err(DecodeError::Damaged));
    assert_eq!(DurableState::decode(&[2], None), Err(DecodeError::Version(2)));
    assert_eq!(DurableState::decode(&[1, 1], None), Err(DecodeError::Kind(1)));
    assert_eq!(DurableState::decode(&[1, 9], None), Err(DecodeError::Kind(9)));
    let snapshot = [&head[..], &[0, 0, 0]].concat();
    let update = [1, 1, 7, 0, 0, 0, 0, 0, 0, 0];
    let error = DecodeError::OtherSnapshot { expected: 0, found: 7 };
    assert_eq!(DurableState::decode(&snapshot, Some(&update)), Err(error));
}

#[test]
fn no_damage_of_a_state_panics() {
    let mut rig = Rig::new(Rules { max_deliver: 5, retention: Retention::Interest, ..rules() }, "abcdefgh");
    rig.pull("a", "6").ack(2, "").ack(4, "-NAK 5s").save();
    let mut bytes = Vec::new();
    rig.consumer.encode_snapshot(&mut bytes);
    for at in 0..bytes.len() {
        assert!(DurableState::decode(&bytes[..at], None).is_err());
        for value in 0..=255 {
            let mut damaged = bytes.clone();
            damaged[at] = value;
            let Ok(state) = DurableState::decode(&damaged, None) else { continue };
            let at = rig.at();
            let mut consumer = Consumer::load(rig.setup.clone(), &state, &mut rig.log, at);
            let mut out = Outbox::default();
            let version = consumer.encode_snapshot(&mut Vec::new());
            consumer.saved(version);
            consumer.pull(&"x".into(), b"9", &mut rig.log, at, &mut out);
            consumer.serve(20, &mut rig.log, at, &mut out);
            consumer.recheck(&mut rig.log);
        }
    }
}
