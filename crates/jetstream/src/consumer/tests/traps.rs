//! The traps and complaints of other implementations, one test each.

use super::*;

#[test]
fn the_last_message_has_no_pending_ones_behind_it() {
    let mut rig = Rig::new(rules(), "xyz");
    rig.pull("a", "3");
    assert_eq!(rig.seen(), ["a: 1 #1 x1 +2", "a: 2 #2 x1 +1", "a: 3 #3 x1 +0"]);
}

#[test]
fn the_consumer_sequence_rises_with_each_redelivery() {
    let mut rig = Rig::new(rules(), "x");
    rig.pull("a", "3").ack(1, "-NAK").ack(1, "-NAK");
    let messages: Vec<String> = rig.seen().into_iter().filter(|line| line.starts_with("a:")).collect();
    assert_eq!(messages, ["a: 1 #1 x1 +0", "a: 1 #2 x2 +0", "a: 1 #3 x3 +0"]);
}

#[test]
fn a_pull_whose_inbox_is_gone_gets_nothing_and_counts_no_delivery() {
    let mut rig = Rig::new(rules(), "");
    rig.pull("gone", "5").pull("b", "1");
    rig.log.gone_inboxes.insert("gone".into());
    assert_eq!(rig.publish("x").seen(), ["b: 1 #1 x1 +0"]);
    assert_eq!(rig.info().num_waiting, 0);
    rig.pull("c", "1").consumer.lost_interest("c");
    assert_eq!(rig.info().num_waiting, 0);
    assert!(rig.publish("y").seen().is_empty());
}

#[test]
fn heartbeats_follow_the_position_while_messages_are_filtered_out() {
    let mut rig = Rig::filtered(rules(), "x", "x");
    rig.pull("a", r#"{"batch":5,"expires":10000000000,"idle_heartbeat":1000000000}"#).seen();
    rig.publish("...").pass(SECOND);
    assert_eq!(rig.seen(), ["a: 100 Idle Heartbeat | Nats-Last-Consumer: 1 | Nats-Last-Stream: 4"]);
}

fn last_per_subject(subjects: &str) -> Rig {
    let mut log = Log::default();
    for subject in subjects.chars() {
        log.append(subject, START_NS);
    }
    let cut = log.cut();
    Rig::on(rules(), log, Start { first: 1, cut: Some(cut) })
}

#[test]
fn last_per_subject_gives_each_subject_once_by_sequence_then_what_is_new() {
    let mut rig = last_per_subject("aabcab");
    assert_eq!(rig.info().num_pending, 3);
    rig.pull("i", "9");
    assert_eq!(rig.seen(), ["i: 4 #1 x1 +2", "i: 5 #2 x1 +1", "i: 6 #3 x1 +0"]);
    rig.publish("aa");
    assert_eq!(rig.seen(), ["i: 7 #4 x1 +1", "i: 8 #5 x1 +0"]);
}

/// Seen at nats-server 2.15.2, with the same counts: 1 (+2), the update, then 3 (+1) and 4 (+0).
#[test]
fn a_key_updated_between_cut_and_delivery_comes_once_and_the_count_ends_at_zero() {
    let mut rig = last_per_subject("abc");
    rig.pull("i", "1");
    assert_eq!(rig.seen(), ["i: 1 #1 x1 +2"]);
    // With one message per subject an update replaces: the old one is gone.
    rig.publish("b").delete_message(2);
    assert_eq!(rig.info().num_pending, 2);
    rig.pull("i", "9");
    assert_eq!(rig.seen(), ["i: 3 #2 x1 +1", "i: 4 #3 x1 +0"]);
    assert_eq!(rig.info().num_pending, 0);
}

#[test]
fn last_per_subject_over_a_failover_goes_on_where_it_was() {
    let mut rig = last_per_subject("aabcab");
    rig.pull("i", "2").ack(4, "").save();
    rig.seen();
    rig.publish("z").crash();
    assert_eq!(rig.info().num_pending, 3);
    rig.pull("i", "9");
    assert_eq!(rig.seen(), ["i: 5 #8193 x1 +2", "i: 6 #8194 x1 +1", "i: 7 #8195 x1 +0"]);
}

#[test]
fn a_start_beyond_the_end_waits_for_that_sequence() {
    let log = Log::default();
    let mut rig = Rig::on(rules(), log, Start { first: 3, cut: None });
    rig.pull("a", "1");
    rig.publish("xy");
    assert!(rig.seen().is_empty());
    assert_eq!(rig.publish("z").seen(), ["a: 3 #1 x1 +0"]);
}

/// Seen at nats-server 2.15.2: floor (3, 5), one message left, and the ack is answered.
#[test]
fn a_purge_takes_pending_messages_along_and_acks_for_them_are_answered() {
    let mut rig = Rig::new(rules(), "abcdef");
    rig.pull("a", "3").seen();
    let first = rig.subjects[&1].clone();
    rig.log.messages.retain(|seq, _| *seq > 5);
    rig.consumer.removed_below(6, Removal::Purge, &mut rig.log, &mut rig.out);
    assert_eq!((rig.floor(), rig.numbers()), ((3, 5), (1, 0, 0)));
    rig.ack_with(&first, "", Some("sync")).save();
    assert_eq!(rig.seen(), ["sync: empty"]);
    assert_eq!(rig.pull("b", "9").seen(), ["b: 6 #4 x1 +0"]);
}

/// nats-server 2.15.2 says floor (3, 1) here: its consumer sequence is beyond that of message 2, which is
/// pending. Ours is the one that fits.
#[test]
fn a_purge_by_filter_leaves_the_others_pending() {
    let mut rig = Rig::new(rules(), "abababab");
    rig.pull("i", "4").seen();
    rig.log.messages.retain(|_, stored| stored.subject != 'a');
    rig.consumer.recheck(&mut rig.log);
    assert_eq!((rig.floor(), rig.numbers()), ((1, 1), (2, 2, 0)));
    rig.ack_sync(1, "").save();
    assert_eq!(rig.seen(), ["sync: empty"]);
    rig.pass(30 * SECOND).pull("i", "9");
    assert_eq!(rig.seen(), ["i: 2 #5 x2 +2", "i: 4 #6 x2 +2", "i: 6 #7 x1 +1", "i: 8 #8 x1 +0"]);
}

#[test]
fn messages_that_limits_delete_are_terminated() {
    let mut rig = Rig::new(Rules { retention: Retention::WorkQueue, ..rules() }, "abcd");
    rig.pull("a", "2").seen();
    rig.log.messages.retain(|seq, _| *seq > 3);
    rig.consumer.removed_below(4, Removal::Limits, &mut rig.log, &mut rig.out);
    let why = r#""Message deleted by stream limits""#;
    assert_eq!(rig.seen(), [format!("terminated 1 {why}"), format!("terminated 2 {why}")]);
    assert_eq!((rig.floor(), rig.numbers()), ((2, 3), (1, 0, 0)));
}

#[test]
fn a_deleted_message_is_not_counted_and_not_delivered() {
    let mut rig = Rig::new(rules(), "abcd");
    rig.pull("a", "1").seen();
    rig.delete_message(3);
    assert_eq!(rig.info().num_pending, 2);
    rig.pull("a", "9");
    assert_eq!(rig.seen(), ["a: 2 #2 x1 +1", "a: 4 #3 x1 +0"]);
    // Gone while it waits for redelivery, and nobody told: it is found out when it is read.
    rig.log.messages.remove(&2);
    rig.ack(2, "-NAK");
    assert_eq!(rig.seen(), ["naked 2", r#"terminated 2 "Unacknowledged message was deleted""#]);
}

#[test]
fn a_change_of_filters_counts_again_and_leaves_the_position() {
    let mut rig = Rig::filtered(rules(), "axbxab", "a");
    rig.pull("i", "1").seen();
    rig.log.filter = vec!['a', 'b'];
    rig.log.appended = 4;
    let at = rig.at();
    rig.consumer.update(rules(), FiltersChanged(true), &mut rig.log, at);
    assert_eq!(rig.info().num_pending, 3);
    rig.pull("i", "9");
    assert_eq!(rig.seen(), ["i: 3 #2 x1 +2", "i: 5 #3 x1 +1", "i: 6 #4 x1 +0"]);
}

#[test]
fn the_backoff_goes_on_after_a_failover() {
    let backoff_ns = vec![SECOND, 100 * SECOND];
    let mut rig = Rig::new(Rules { backoff_ns, ..rules() }, "x");
    rig.pull("a", "9").pass(SECOND).save();
    rig.crash().seen();
    rig.pull("a", "9");
    assert_eq!(rig.seen(), ["a: 1 #8193 x3 +0"]);
    rig.pass(99 * SECOND);
    assert!(rig.seen().is_empty());
    rig.pass(SECOND);
    assert_eq!(rig.seen(), ["a: 1 #8194 x4 +0"]);
}

#[test]
fn a_pause_holds_over_a_failover() {
    let mut rig = Rig::new(rules(), "x");
    rig.setup.paused_until_ns = START_NS + 10 * SECOND;
    rig.crash().pull("a", "1");
    assert!(rig.seen().is_empty());
    rig.pass(10 * SECOND);
    assert_eq!(rig.seen(), ["paused=false", "a: 1 #8193 x1 +0"]);
}

#[test]
fn a_message_that_must_be_read_first_holds_the_order() {
    let mut rig = Rig::new(rules(), "ab");
    rig.log.unread.insert(1);
    rig.pull("a", r#"{"batch":2,"no_wait":true}"#);
    assert!(rig.seen().is_empty(), "it is not over: there are messages");
    rig.log.unread.clear();
    assert_eq!(rig.serve().seen(), ["a: 1 #1 x1 +1", "a: 2 #2 x1 +0"]);
}

#[test]
fn headers_only_counts_what_is_sent() {
    let mut rig = Rig::new(Rules { headers_only: true, ..rules() }, "xy");
    rig.log.messages.values_mut().for_each(|stored| stored.payload = 1_000_000);
    rig.pull("a", r#"{"batch":1,"max_bytes":200}"#);
    let block = "NATS/1.0\r\nNats-Msg-Size: 1000000\r\n\r\n";
    let left = 200 - 1 - rig.subjects[&1].len() - block.len();
    let unserved = format!("Nats-Pending-Messages: 0 | Nats-Pending-Bytes: {left}");
    assert_eq!(rig.seen(), ["a: 1 #1 x1 +1".to_owned(), format!("a: 409 Batch Completed | {unserved}")]);
    rig.log.messages.values_mut().for_each(|stored| stored.headers = 20);
    rig.pull("a", r#"{"batch":1,"max_bytes":200}"#);
    let left = 200 - 1 - rig.subjects[&2].len() - 20 - "Nats-Msg-Size: 1000000\r\n".len();
    assert!(rig.seen()[1].ends_with(&format!("Nats-Pending-Bytes: {left}")));
}

#[test]
fn a_redelivered_message_that_was_acked_meanwhile_is_not_sent() {
    let mut rig = Rig::new(rules(), "xy");
    rig.pull("a", "2").seen();
    rig.pass(30 * SECOND).ack(1, "").pull("b", "9");
    assert_eq!(rig.seen(), ["b: 2 #3 x2 +0"]);
}
