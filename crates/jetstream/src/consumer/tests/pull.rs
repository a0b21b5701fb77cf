//! The rows of the table of pull statuses. Texts and headers are those of nats-server 2.15.2.

use super::*;

fn with_pull(change: impl FnOnce(&mut PullRules)) -> Rules {
    let mut pull = pull_rules();
    change(&mut pull);
    Rules { mode: Mode::Pull(pull), ..rules() }
}

#[test]
fn waiting_requests_are_served_in_turn_one_message_each() {
    let mut rig = Rig::new(rules(), "");
    rig.pull("a", "2").pull("b", "2").pull("c", "");
    rig.publish("xyzuv");
    let seen = ["a: 1 #1 x1 +4", "b: 2 #2 x1 +3", "c: 3 #3 x1 +2", "a: 4 #4 x1 +1", "b: 5 #5 x1 +0"];
    assert_eq!(rig.seen(), seen);
    assert_eq!(rig.info().num_waiting, 0);
}

#[test]
fn no_wait_without_messages_is_answered_404() {
    let mut rig = Rig::new(rules(), "");
    assert_eq!(rig.pull("a", r#"{"batch":5,"no_wait":true}"#).seen(), ["a: 404 No Messages"]);
}

#[test]
fn no_wait_that_got_some_ends_with_404_when_there_are_no_more() {
    let mut rig = Rig::new(rules(), "xy");
    let seen = ["a: 1 #1 x1 +1", "a: 2 #2 x1 +0", "a: 404 No Messages"];
    assert_eq!(rig.pull("a", r#"{"batch":5,"no_wait":true}"#).seen(), seen);
}

#[test]
fn no_wait_is_answered_408_while_earlier_requests_want_more_than_there_is() {
    let mut rig = Rig::new(Rules { max_ack_pending: 1, ..rules() }, "xyz");
    rig.pull("a", "5");
    assert_eq!(rig.seen(), ["a: 1 #1 x1 +2"]);
    rig.pull("b", r#"{"batch":1,"no_wait":true}"#);
    assert_eq!(rig.seen(), ["b: 408 Requests Pending"]);
}

#[test]
fn no_wait_with_expires_waits_for_the_first_message_and_takes_what_is_there() {
    let mut rig = Rig::new(rules(), "");
    rig.pull("a", r#"{"batch":5,"no_wait":true,"expires":5000000000}"#);
    assert!(rig.seen().is_empty());
    rig.publish("xy");
    assert_eq!(rig.seen(), ["a: 1 #1 x1 +1", "a: 2 #2 x1 +0", "a: 404 No Messages"]);
    rig.pull("b", r#"{"batch":5,"no_wait":true,"expires":5000000000}"#);
    rig.pass(6 * SECOND);
    let unserved = "Nats-Pending-Messages: 5 | Nats-Pending-Bytes: 0";
    assert_eq!(rig.seen(), [format!("b: 408 Request Timeout | {unserved}")]);
}

#[test]
fn expiry_is_answered_once_with_what_was_not_served() {
    let mut rig = Rig::new(rules(), "x");
    rig.pull("a", r#"{"batch":3,"max_bytes":1000,"expires":1000000000}"#);
    rig.pass(10 * SECOND);
    let (size, seen) = (reply_size(&rig, 1) + 11, rig.seen());
    let unserved = format!("Nats-Pending-Messages: 2 | Nats-Pending-Bytes: {}", 1000 - size);
    assert_eq!(seen, ["a: 1 #1 x1 +0".to_owned(), format!("a: 408 Request Timeout | {unserved}")]);
}

fn reply_size(rig: &Rig, seq: u64) -> usize {
    rig.subjects[&seq].len()
}

/// `{}` and `{"batch":0}` get one message, and count as 0 when they end (seen at nats-server 2.15.2).
#[test]
fn a_request_without_batch_gets_one_message_and_counts_as_none() {
    let mut rig = Rig::new(rules(), "");
    rig.pull("a", r#"{"expires":1000000000}"#).pass(2 * SECOND);
    let unserved = "Nats-Pending-Messages: 0 | Nats-Pending-Bytes: 0";
    assert_eq!(rig.seen(), [format!("a: 408 Request Timeout | {unserved}")]);
    assert_eq!(rig.publish("xy").pull("b", "{}").seen(), ["b: 1 #1 x1 +1"]);
}

#[test]
fn a_message_that_does_not_fit_ends_the_request() {
    let mut rig = Rig::new(rules(), "xy");
    rig.pull("probe", "1").ack(1, "");
    let size = reply_size(&rig, 1) + 11;
    rig.seen();
    rig.pull("a", &format!(r#"{{"batch":5,"max_bytes":{}}}"#, size - 1));
    let unserved = format!("Nats-Pending-Messages: 5 | Nats-Pending-Bytes: {}", size - 1);
    assert_eq!(rig.seen(), [format!("a: 409 Message Size Exceeds MaxBytes | {unserved}")]);
    // The message goes to the next one, which fits exactly: it ends without a status.
    rig.pull("b", &format!(r#"{{"batch":5,"max_bytes":{size}}}"#));
    assert_eq!(rig.seen(), ["b: 2 #2 x1 +0"]);
    assert_eq!(rig.info().num_waiting, 0);
}

#[test]
fn a_served_batch_with_bytes_left_says_so() {
    let mut rig = Rig::new(rules(), "x");
    rig.pull("a", r#"{"batch":1,"max_bytes":1000}"#);
    let left = 1000 - reply_size(&rig, 1) - 11;
    let unserved = format!("Nats-Pending-Messages: 0 | Nats-Pending-Bytes: {left}");
    assert_eq!(rig.seen(), ["a: 1 #1 x1 +0".to_owned(), format!("a: 409 Batch Completed | {unserved}")]);
}

#[test]
fn max_waiting_refuses_and_is_silent_to_clients_with_heartbeats() {
    let mut rig = Rig::new(with_pull(|pull| pull.waiting_max = 2), "");
    rig.pull("a", "1").pull("b", "1").pull("c", "1");
    assert_eq!(rig.seen(), ["c: 409 Exceeded MaxWaiting"]);
    rig.pull("c", r#"{"batch":1,"expires":60000000000,"idle_heartbeat":1000000000}"#);
    assert!(rig.seen().is_empty());
    // A request whose inbox is gone makes room.
    rig.log.gone_inboxes.insert("a".into());
    rig.pull("d", "1");
    assert!(rig.seen().is_empty());
    assert_eq!(rig.info().num_waiting, 2);
}

#[test]
fn the_nodes_bound_on_waiting_requests_counts_if_it_is_lower() {
    let mut rig = Rig::new(rules(), "");
    rig.consumer.bounds.waiting_max = 1;
    assert_eq!(rig.pull("a", "").pull("b", "").seen(), ["b: 409 Exceeded MaxWaiting"]);
}

#[test]
fn limits_of_requests_are_told() {
    let mut rig = Rig::new(
        with_pull(|pull| {
            pull.batch_max = 10;
            pull.expires_max_ns = 90 * SECOND;
            pull.bytes_max = 1024;
        }),
        "",
    );
    rig.pull("a", "11");
    rig.pull("b", r#"{"batch":1,"expires":90000000001}"#);
    rig.pull("c", r#"{"batch":1,"max_bytes":1025}"#);
    let seen = [
        "a: 409 Exceeded MaxRequestBatch of 10",
        "b: 409 Exceeded MaxRequestExpires of 1m30s",
        "c: 409 Exceeded MaxRequestMaxBytes of 1024",
    ];
    assert_eq!(rig.seen(), seen);
    assert!(rig.pull("d", r#"{"batch":10,"expires":90000000000,"max_bytes":1024}"#).seen().is_empty());
}

#[test]
fn bad_requests_are_told_why() {
    let mut rig = Rig::new(rules(), "");
    rig.consumer.bounds.request_bytes_max = 100;
    let cases = [
        (r#"{"expires":10,"idle_heartbeat":6}"#, "heartbeat value too large"),
        (r#"{"min_pending":1}"#, "Not a Overflow Priority consumer"),
        (r#"{"id":"x"}"#, "Not a Pinned Client Priority consumer"),
        (r#"{"priority":10}"#, "Priority must be between 0 and 9"),
        (r#"{"priority":-1}"#, "Priority must be between 0 and 9"),
    ];
    for (body, why) in cases {
        assert_eq!(rig.pull("a", body).seen(), [format!("a: 400 Bad Request - {why}")]);
    }
    assert_eq!(rig.pull("a", "{\"batch\":").seen(), ["a: 400 Bad Request - unexpected end of JSON input"]);
    let long = format!("{{\"x\":\"{}\"}}", "y".repeat(100));
    assert_eq!(rig.pull("a", &long).seen(), ["a: 400 Bad Request - request too large"]);
    let mut rig = Rig::new(with_priority(PriorityPolicy::Overflow), "");
    rig.pull("a", r#"{"batch":1}"#).pull("b", r#"{"group":"other"}"#);
    let seen = ["a: 400 Bad Request - Priority Group missing", "b: 400 Bad Request - Invalid Priority Group"];
    assert_eq!(rig.seen(), seen);
}

#[test]
fn a_pull_request_to_a_push_consumer_is_refused() {
    let mut rig = Rig::new(push::rules_of_push(), "");
    assert_eq!(rig.pull("a", "1").seen(), ["a: 409 Consumer is push based"]);
}

#[test]
fn the_end_of_a_consumer_is_told_to_all_that_wait() {
    let end = |call: fn(&mut Consumer, &mut Outbox)| {
        let mut rig = Rig::new(rules(), "");
        rig.pull("a", r#"{"batch":3,"max_bytes":9}"#).pull("b", "");
        call(&mut rig.consumer, &mut rig.out);
        let seen = rig.seen();
        assert_eq!(rig.publish("x").seen(), [""; 0], "nothing is delivered afterwards");
        assert_eq!(rig.consumer.next_deadline_ns(), None);
        seen
    };
    assert_eq!(end(Consumer::delete), ["a: 409 Consumer Deleted", "b: 409 Consumer Deleted"]);
    assert_eq!(end(Consumer::step_down), ["a: 409 Leadership Change", "b: 409 Leadership Change"]);
    let seen = [
        "a: 409 Server Shutdown | Nats-Pending-Messages: 3 | Nats-Pending-Bytes: 9",
        "b: 409 Server Shutdown | Nats-Pending-Messages: 1 | Nats-Pending-Bytes: 0",
    ];
    assert_eq!(end(Consumer::shut_down), seen);
}

#[test]
fn heartbeats_tell_the_position_while_nothing_comes() {
    let mut rig = Rig::filtered(rules(), "x", "x");
    rig.pull("a", r#"{"batch":5,"expires":10000000000,"idle_heartbeat":1000000000}"#);
    assert_eq!(rig.seen(), ["a: 1 #1 x1 +0"]);
    rig.pass(SECOND);
    assert_eq!(rig.seen(), ["a: 100 Idle Heartbeat | Nats-Last-Consumer: 1 | Nats-Last-Stream: 1"]);
    // A message restarts the interval.
    rig.pass(SECOND / 2).publish("x").pass(SECOND - MS);
    assert_eq!(rig.seen(), ["a: 2 #2 x1 +0"]);
    rig.pass(MS);
    assert_eq!(rig.seen(), ["a: 100 Idle Heartbeat | Nats-Last-Consumer: 2 | Nats-Last-Stream: 2"]);
}

#[test]
fn heartbeats_have_a_least_interval() {
    let mut rig = Rig::new(rules(), "");
    rig.pull("a", r#"{"expires":1000000000,"idle_heartbeat":1}"#).pass(100 * MS);
    assert_eq!(rig.seen().len(), 10);
}

fn with_priority(priority: PriorityPolicy) -> Rules {
    with_pull(|pull| {
        pull.priority = priority;
        pull.groups = vec!["g".into()];
    })
}

#[test]
fn overflow_requests_are_served_when_either_limit_is_reached() {
    let mut rig = Rig::new(with_priority(PriorityPolicy::Overflow), "");
    rig.pull("a", r#"{"batch":9,"group":"g","min_pending":3}"#);
    rig.pull("b", r#"{"batch":9,"group":"g","min_ack_pending":2}"#);
    assert!(rig.publish("xy").seen().is_empty());
    // Three are pending: the first request gets one, then two are left.
    assert_eq!(rig.publish("z").seen(), ["a: 1 #1 x1 +2"]);
    rig.pull("c", r#"{"batch":1,"group":"g"}"#);
    assert_eq!(rig.seen(), ["c: 2 #2 x1 +1", "b: 3 #3 x1 +0"]);
}

#[test]
fn prioritized_requests_are_served_lowest_first_and_in_turn_within() {
    let mut rig = Rig::new(with_priority(PriorityPolicy::Prioritized), "");
    rig.pull("low", r#"{"batch":3,"group":"g","priority":2}"#);
    rig.pull("a", r#"{"batch":2,"group":"g","priority":1}"#);
    rig.pull("b", r#"{"batch":1,"group":"g","priority":1}"#);
    rig.publish("uvwxyz");
    let seen: Vec<String> =
        rig.seen().iter().map(|line| line.split(':').next().unwrap_or_default().to_owned()).collect();
    assert_eq!(seen, ["a", "b", "a", "low", "low", "low"]);
}

#[test]
fn a_pin_stays_with_its_client_until_it_is_quiet_or_taken_away() {
    let rules = Rules { ack_wait_ns: 1000 * SECOND, ..with_priority(PriorityPolicy::Pinned) };
    let mut rig = Rig::new(rules, "");
    rig.pull("a", r#"{"batch":2,"group":"g"}"#).pull("b", r#"{"batch":9,"group":"g"}"#);
    rig.publish("xyz");
    assert_eq!(rig.seen(), ["pinned g", "a: 1 #1 x1 +2 pinned", "a: 2 #2 x1 +1 pinned"]);
    let pin = rig.info().pin.expect("somebody has it").1;
    rig.pull("c", r#"{"batch":1,"group":"g","id":"other"}"#);
    assert_eq!(rig.seen(), ["c: 423 Nats-Pin-Id mismatch"]);
    // A request of the owner prolongs the pin.
    rig.pass(100 * SECOND).pull("a", &format!(r#"{{"batch":2,"group":"g","id":"{pin}"}}"#));
    assert_eq!(rig.seen(), ["a: 3 #3 x1 +0 pinned"]);
    rig.pass(119 * SECOND).seen();
    assert!(rig.info().pin.is_some());
    let at = rig.at();
    rig.consumer.tick(&mut rig.log, Moment { now_ns: at.now_ns + SECOND, ..at }, &mut rig.out);
    assert_eq!(rig.seen(), ["unpinned g admin=false"]);
    // The owner's request is still there, with a pin that is void.
    let unserved = "Nats-Pending-Messages: 1 | Nats-Pending-Bytes: 0";
    let seen = rig.publish("u").seen();
    assert_eq!(seen[0], format!("a: 423 Nats-Wrong-Pin-Id | {unserved}"));
    assert_eq!(seen[1..], ["pinned g", "b: 4 #4 x1 +0 pinned"]);
    assert!(rig.consumer.unpin(true, &mut rig.out));
    assert_eq!(rig.seen(), ["unpinned g admin=true"]);
    assert!(!rig.consumer.unpin(true, &mut rig.out));
}

#[test]
fn a_message_too_large_for_a_request_gives_it_no_pin() {
    let mut rig = Rig::new(with_priority(PriorityPolicy::Pinned), "x");
    rig.pull("a", r#"{"batch":1,"group":"g","max_bytes":1}"#).pull("b", r#"{"batch":1,"group":"g"}"#);
    let seen = rig.seen();
    assert!(seen[0].starts_with("a: 409 Message Size Exceeds MaxBytes"), "{seen:?}");
    assert_eq!(seen[1..], ["pinned g", "b: 1 #1 x1 +0 pinned"]);
}

#[test]
fn an_unused_pull_consumer_ends_and_one_in_use_does_not() {
    let mut rig = Rig::new(Rules { inactive_ns: 5 * SECOND, ack_wait_ns: 60 * SECOND, ..rules() }, "x");
    rig.pass(4 * SECOND).pull("a", r#"{"batch":2,"expires":20000000000}"#);
    rig.pass(24 * SECOND).seen();
    // The client may work on its message for the ack wait.
    rig.pass(30 * SECOND);
    assert!(!rig.seen().contains(&"inactive".to_owned()));
    rig.ack(1, "").pass(40 * SECOND - MS);
    let seen = rig.seen();
    assert!(seen.contains(&"inactive".to_owned()), "{seen:?}");
}

#[test]
fn a_pause_stops_deliveries_and_not_acknowledgements() {
    let mut rig = Rig::new(rules(), "xyz");
    rig.pull("a", "1");
    let at = rig.at();
    rig.consumer.pause(at.now_ns + 10 * SECOND, at, &mut rig.out);
    rig.pull("a", r#"{"batch":2,"expires":60000000000,"idle_heartbeat":4000000000}"#).ack_sync(1, "").save();
    assert_eq!(rig.seen(), ["a: 1 #1 x1 +2", "paused=true", "sync: empty"]);
    assert_eq!(rig.info().paused_until_ns, Some(START_NS + 10 * SECOND));
    rig.pass(9 * SECOND);
    assert_eq!(rig.seen().len(), 2, "heartbeats go on");
    rig.pass(SECOND);
    assert_eq!(rig.seen(), ["paused=false", "a: 2 #2 x1 +1", "a: 3 #3 x1 +0"]);
}

#[test]
fn replay_original_keeps_the_pauses_of_the_past() {
    let mut log = Log::default();
    for second in [0, 2, 3] {
        log.append('x', START_NS - 100 * SECOND + second * SECOND);
    }
    let mut rig = Rig::on(Rules { replay_original: true, ..rules() }, log, Start { first: 1, cut: None });
    rig.pull("a", "9");
    assert_eq!(rig.seen().len(), 1);
    rig.pass(2 * SECOND - 1);
    assert_eq!(rig.seen().len(), 0);
    rig.pass(1).pass(SECOND);
    assert_eq!(rig.seen(), ["a: 2 #2 x1 +1", "a: 3 #3 x1 +0"]);
    rig.publish("y");
    assert_eq!(rig.seen(), ["a: 4 #4 x1 +0"], "what is new goes out at once");
}
