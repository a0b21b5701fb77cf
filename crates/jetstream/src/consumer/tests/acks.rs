//! The rows of the table of acknowledgements, redelivery, and the ack floor.

use super::*;

fn delivered(rules: Rules, subjects: &str) -> Rig {
    let mut rig = Rig::new(rules, subjects);
    rig.pull("a", "100");
    rig.seen();
    rig
}

#[test]
fn an_ack_settles_and_its_answer_waits_until_it_is_saved() {
    let mut rig = delivered(rules(), "xyz");
    rig.ack_sync(1, "");
    assert!(rig.seen().is_empty(), "nothing is answered before it is durable");
    assert_eq!(rig.consumer.save_need(), SaveNeed::Some);
    rig.save();
    assert_eq!(rig.seen(), ["sync: empty"]);
    assert_eq!(rig.consumer.save_need(), SaveNeed::None);
    assert_eq!((rig.floor(), rig.numbers()), ((1, 1), (0, 2, 0)));
    rig.ack(2, "+ACK").ack(3, "+OK");
    assert_eq!((rig.floor(), rig.numbers()), ((3, 3), (0, 0, 0)));
}

#[test]
fn a_consumer_without_durable_state_answers_at_once() {
    let mut rig = delivered(Rules { durable: false, ..rules() }, "x");
    assert_eq!(rig.ack_sync(1, "").seen(), ["sync: empty"]);
    assert_eq!(rig.consumer.save_need(), SaveNeed::None);
}

#[test]
fn a_second_ack_is_answered_and_one_for_what_was_never_delivered_is_not() {
    let mut rig = delivered(rules(), "x");
    rig.ack(1, "").save();
    rig.ack_sync(1, "");
    assert_eq!((rig.seen().len(), rig.consumer.save_need()), (0, SaveNeed::Some));
    rig.save();
    assert_eq!(rig.seen(), ["sync: empty"]);
    rig.publish("y");
    rig.consumer.pause(i64::MAX, Moment { now_ns: 0, random: 0 }, &mut Outbox::default());
    rig.publish("z");
    for subject in ["$JS.ACK.S.C.1.3.3.0.0", "$JS.ACK.S.C.1.0.1.0.0", "$JS.ACK.S.C.1.99.1.0.0"] {
        rig.ack_with(subject, "", Some("sync")).save();
    }
    assert_eq!(rig.seen(), ["a: 2 #2 x1 +0"]);
}

#[test]
fn acks_out_of_order_move_the_floor_only_behind_the_first_pending_message() {
    let mut rig = delivered(rules(), "abcdef");
    rig.ack(2, "").ack(4, "").ack(3, "");
    assert_eq!(rig.floor(), (0, 0));
    rig.ack(1, "");
    assert_eq!(rig.floor(), (4, 4));
    rig.ack(6, "");
    assert_eq!(rig.floor(), (4, 4));
    rig.ack(5, "");
    assert_eq!(rig.floor(), (6, 6));
}

/// Seen at nats-server 2.15.2: of messages 1 to 9, 1, 4, and 7 match and are pending. The ack of 1 gives the
/// floor (1, 3), the deletion of 4 (2, 6), the ack of 7 (3, 7).
#[test]
fn the_ack_floor_moves_over_what_does_not_match_or_is_gone() {
    let mut rig = Rig::filtered(rules(), "x..x..x..", "x");
    rig.pull("a", "5");
    assert_eq!(rig.seen(), ["a: 1 #1 x1 +2", "a: 4 #2 x1 +1", "a: 7 #3 x1 +0"]);
    rig.ack(1, "");
    // Up to the sequence before the next pending one, as in nats-server.
    assert_eq!(rig.floor(), (1, 3));
    rig.delete_message(4);
    assert_eq!(rig.seen(), [r#"terminated 4 "Unacknowledged message was deleted""#]);
    assert_eq!(rig.floor(), (2, 6));
    rig.ack(7, "");
    // Not further than the last delivery, though nothing comes up to 9.
    assert_eq!(rig.floor(), (3, 7));
    assert_eq!(rig.consumer.settled_through(), 9);
}

#[test]
fn a_nak_delivers_again_and_counts() {
    let mut rig = delivered(rules(), "xy");
    rig.ack_sync(1, "-NAK");
    assert_eq!(rig.seen(), ["naked 1", "sync: empty", "a: 1 #3 x2 +0"]);
    assert_eq!(rig.numbers(), (0, 2, 1));
    // An old delivery's subject counts the same: there is no fencing by number.
    rig.ack_with("$JS.ACK.S.C.1.1.1.0.0", "", None);
    assert_eq!(rig.floor(), (1, 1));
}

#[test]
fn a_nak_with_delay_waits_for_it() {
    for payload in ["-NAK {\"delay\": 2000000000}", "-NAK 2s"] {
        let backoff_ns = vec![SECOND, 60 * SECOND];
        let mut rig = delivered(Rules { backoff_ns, ..rules() }, "x");
        rig.ack(1, payload).pass(2 * SECOND - 1);
        assert_eq!(rig.seen(), ["naked 1"]);
        rig.pass(1);
        assert_eq!(rig.seen(), ["a: 1 #2 x2 +0"]);
        // The wait after that is that of the second delivery.
        rig.pass(60 * SECOND - MS);
        assert!(rig.seen().is_empty());
    }
}

#[test]
fn progress_restarts_the_ack_wait() {
    let mut rig = delivered(rules(), "x");
    rig.pass(29 * SECOND).ack_sync(1, "+WPI");
    assert_eq!(rig.seen(), ["sync: empty"]);
    rig.pass(29 * SECOND);
    assert!(rig.seen().is_empty());
    rig.pass(SECOND);
    assert_eq!(rig.seen(), ["a: 1 #2 x2 +0"]);
}

#[test]
fn term_ends_a_message_with_an_advisory() {
    let mut rig = delivered(Rules { retention: Retention::WorkQueue, ..rules() }, "x");
    rig.ack_sync(1, "+TERM broken  ");
    assert_eq!(rig.seen(), [r#"terminated 1 "broken""#]);
    rig.save();
    assert_eq!(rig.seen(), ["done 1..=1", "sync: empty"]);
    assert_eq!(rig.numbers(), (0, 0, 0));
    // Seen at nats-server 2.15.2: the second time is answered and told again.
    rig.ack_sync(1, "+TERM again").save();
    assert_eq!(rig.seen(), [r#"terminated 1 "again""#, "sync: empty"]);
}

#[test]
fn next_acknowledges_and_pulls_with_the_reply_as_inbox() {
    let mut rig = Rig::new(rules(), "xyz");
    rig.pull("a", "1").seen();
    let subject = rig.subjects[&1].clone();
    rig.ack_with(&subject, "+NXT {\"batch\": 2}", Some("b"));
    assert_eq!(rig.seen(), ["b: 2 #2 x1 +1", "b: 3 #3 x1 +0"]);
    assert_eq!(rig.floor(), (1, 1));
    let subject = rig.subjects[&2].clone();
    rig.ack_with(&subject, "+NXT", Some("c")).publish("u");
    assert_eq!(rig.seen(), ["c: 4 #4 x1 +0"]);
    assert!(rig.consumer.waiting.iter().next().is_none());
}

#[test]
fn an_unknown_payload_is_answered_and_changes_nothing() {
    let mut rig = delivered(rules(), "x");
    assert_eq!(rig.ack_sync(1, "hello").seen(), ["sync: empty"]);
    assert_eq!(rig.numbers(), (0, 1, 0));
}

#[test]
fn expired_messages_come_again_by_sequence_and_naked_ones_behind_them() {
    let mut rig = Rig::new(rules(), "abcd");
    rig.pull("a", "4").seen();
    rig.pass(30 * SECOND);
    rig.ack(2, "-NAK");
    rig.publish("e").pull("b", "9");
    let seen = rig.seen();
    // 2 was queued already: its NAK changes nothing. New messages come last.
    let expected =
        ["naked 2", "b: 1 #5 x2 +1", "b: 2 #6 x2 +1", "b: 3 #7 x2 +1", "b: 4 #8 x2 +1", "b: 5 #9 x1 +0"];
    assert_eq!(seen, expected);
    let mut rig = Rig::new(rules(), "abcd");
    rig.pull("a", "2").seen();
    rig.pass(10 * SECOND).pull("a", "2").seen();
    rig.pass(20 * SECOND).ack(4, "-NAK").ack(3, "-NAK").pull("b", "9");
    let seen = rig.seen();
    let order = ["b: 1 #5 x2 +0", "b: 2 #6 x2 +0", "b: 4 #7 x2 +0", "b: 3 #8 x2 +0"];
    assert_eq!(seen[2..], order);
}

#[test]
fn backoff_gives_each_delivery_its_wait_and_the_last_repeats() {
    let backoff_ns = vec![SECOND, 3 * SECOND, 5 * SECOND];
    let mut rig = delivered(Rules { backoff_ns, ..rules() }, "x");
    for (wait, line) in
        [(1, "a: 1 #2 x2 +0"), (3, "a: 1 #3 x3 +0"), (5, "a: 1 #4 x4 +0"), (5, "a: 1 #5 x5 +0")]
    {
        rig.pass(wait * SECOND - MS);
        assert!(rig.seen().is_empty());
        rig.pass(MS);
        assert_eq!(rig.seen(), [line]);
    }
}

#[test]
fn max_deliver_tells_at_the_next_expiry_and_leaves_the_message_in_the_stream() {
    let limits = Rules { max_deliver: 2, ack_wait_ns: SECOND, retention: Retention::WorkQueue, ..rules() };
    let mut rig = delivered(limits, "xy");
    rig.ack(2, "").save();
    assert_eq!(rig.seen(), ["done 2..=2"]);
    rig.pass(SECOND);
    assert_eq!(rig.seen(), ["a: 1 #3 x2 +0"]);
    rig.pass(SECOND);
    assert_eq!(rig.seen(), ["max deliveries 1 x2"]);
    assert_eq!((rig.floor(), rig.numbers()), ((3, 2), (0, 0, 0)));
    assert!(rig.consumer.needs(1), "it is not done");
    rig.save();
    assert!(rig.pass(100 * SECOND).seen().is_empty(), "it is not delivered again, and not told again");
    rig.crash();
    assert!(rig.pull("b", "9").seen().is_empty());
    // A late acknowledgement still ends it.
    rig.ack_sync(1, "").save();
    assert_eq!(rig.seen(), ["done 1..=1", "sync: empty"]);
    assert!(!rig.consumer.needs(1));
}

#[test]
fn a_nak_of_the_last_delivery_gives_up_when_it_would_be_delivered_again() {
    let mut rig = delivered(Rules { max_deliver: 1, ..rules() }, "x");
    rig.ack(1, "-NAK");
    assert_eq!(rig.seen(), ["naked 1", "max deliveries 1 x1"]);
    assert_eq!(rig.floor(), (1, 1));
}

#[test]
fn given_up_messages_are_bounded() {
    let limits = Rules { max_deliver: 1, ack_wait_ns: SECOND, retention: Retention::Interest, ..rules() };
    let mut rig = delivered(limits, &"x".repeat(20));
    rig.consumer.bounds.given_up_max = 5;
    rig.pass(2 * SECOND);
    assert_eq!((1..=20).filter(|seq| rig.consumer.needs(*seq)).collect::<Vec<_>>(), [16, 17, 18, 19, 20]);
}

#[test]
fn at_max_ack_pending_only_redeliveries_go_out() {
    let mut rig = Rig::new(Rules { max_ack_pending: 2, ..rules() }, "abcd");
    rig.pull("a", "9");
    assert_eq!(rig.seen(), ["a: 1 #1 x1 +3", "a: 2 #2 x1 +2"]);
    assert_eq!(rig.ack(2, "-NAK").seen(), ["naked 2", "a: 2 #3 x2 +2"]);
    assert_eq!(rig.ack(1, "").seen(), ["a: 3 #4 x1 +1"]);
}

#[test]
fn the_nodes_bound_on_pending_messages_holds_without_a_limit() {
    let mut rig = Rig::new(Rules { max_ack_pending: 0, ..rules() }, "abcd");
    rig.consumer.bounds.pending_max = 3;
    assert_eq!(rig.pull("a", "9").seen().len(), 3);
}

#[test]
fn ack_all_moves_the_floor_to_that_message() {
    let all = Rules { ack: AckPolicy::All, retention: Retention::Interest, ..rules() };
    let mut rig = delivered(all, "abcde");
    rig.ack_sync(3, "").save();
    assert_eq!(rig.seen(), ["done 1..=3", "sync: empty"]);
    assert_eq!((rig.floor(), rig.numbers()), ((3, 3), (0, 2, 0)));
    // What lies below is answered, and changes nothing.
    rig.ack_sync(2, "").save();
    assert_eq!(rig.seen(), ["sync: empty"]);
    assert_eq!(rig.floor(), (3, 3));
    rig.pass(30 * SECOND);
    assert_eq!(rig.seen(), ["a: 4 #6 x2 +0", "a: 5 #7 x2 +0"]);
    rig.ack(5, "");
    assert_eq!(rig.floor(), (7, 5));
}

#[test]
fn ack_none_is_done_at_delivery() {
    let none = Rules { ack: AckPolicy::None, retention: Retention::Interest, ..rules() };
    let mut rig = Rig::new(none, "xy");
    rig.pull("a", "2");
    assert_eq!(rig.seen(), ["done 1..=1", "a: 1 #1 x1 +1", "done 2..=2", "a: 2 #2 x1 +0"]);
    assert_eq!((rig.floor(), rig.numbers()), ((2, 2), (0, 0, 0)));
    // Seen at nats-server 2.15.2: 503 for an ack with a reply, as nobody listens.
    assert!(!rig.consumer.takes_acks());
    rig.ack_sync(1, "").save();
    assert!(rig.seen().is_empty());
}

#[test]
fn samples_tell_how_long_an_ack_took() {
    let mut rig = delivered(Rules { sample_percent: 100, ..rules() }, "xy");
    rig.pass(1500 * MS).ack(1, "");
    assert_eq!(rig.seen(), ["sample 1 1500ms"]);
    let mut rig = delivered(Rules { sample_percent: 30, ..rules() }, &"x".repeat(100));
    for seq in 1..=100 {
        rig.pass(1).ack(seq, "");
    }
    let samples = rig.seen().len();
    assert!((15..50).contains(&samples), "{samples} samples");
}

#[test]
fn an_update_of_ack_wait_moves_the_deadlines() {
    let mut rig = delivered(rules(), "x");
    let at = rig.at();
    let update = Rules { ack_wait_ns: 2 * SECOND, ..rules() };
    rig.consumer.update(update, FiltersChanged(false), &mut rig.log, at);
    rig.pass(2 * SECOND);
    assert_eq!(rig.seen(), ["a: 1 #2 x2 +0"]);
}

#[test]
fn a_delivery_that_did_not_arrive_does_not_count() {
    let mut rig = Rig::new(Rules { max_deliver: 1, ..rules() }, "x");
    rig.pull("a", "1").seen();
    rig.consumer.not_delivered(1);
    assert_eq!(rig.pull("b", "1").seen(), ["b: 1 #2 x1 +0"]);
}

#[test]
fn a_reset_starts_again_where_it_may() {
    let mut rig = delivered(rules(), "abcd");
    rig.ack(1, "").ack(2, "").ack(4, "");
    assert_eq!(rig.consumer.reset(0, 0, &mut rig.log), Ok(3));
    assert_eq!((rig.floor(), rig.numbers()), ((0, 2), (2, 0, 0)));
    // Numbers begin at 1 again, as in nats-server.
    assert_eq!(rig.pull("b", "9").seen(), ["a: 3 #1 x1 +1", "b: 4 #2 x1 +0"]);
    assert_eq!(rig.consumer.reset(2, 0, &mut rig.log), Ok(2));
    let by_seq = Rules { start: StartRule::Sequence(3), ..rules() };
    let mut rig = Rig::new(by_seq, "abcd");
    assert_eq!(rig.consumer.reset(2, 0, &mut rig.log), Err(ResetError::BelowStartSeq));
    assert_eq!(rig.consumer.reset(3, 0, &mut rig.log), Ok(3));
    let mut rig = Rig::new(Rules { start: StartRule::Time, ..rules() }, "abcd");
    assert_eq!(rig.consumer.reset(2, 3, &mut rig.log), Err(ResetError::BelowStartTime));
    assert_eq!(rig.consumer.reset(4, 3, &mut rig.log), Ok(4));
    let mut rig = Rig::new(Rules { start: StartRule::Other, ..rules() }, "abcd");
    assert_eq!(rig.consumer.reset(1, 0, &mut rig.log), Err(ResetError::NotAllowed));
    assert_eq!(rig.consumer.reset(0, 0, &mut rig.log), Ok(1));
}

#[test]
fn a_save_from_before_a_reset_reserves_nothing() {
    let mut rig = delivered(rules(), "x");
    let version = rig.consumer.encode_snapshot(&mut Vec::new());
    rig.consumer.reset(0, 0, &mut rig.log).expect("it is allowed");
    rig.consumer.saved(version);
    let at = rig.at();
    assert_eq!(rig.consumer.serve(1, &mut rig.log, at, &mut rig.out), Served::Save);
}
