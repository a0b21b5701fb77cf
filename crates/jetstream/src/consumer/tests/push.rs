//! Push consumers.

use super::*;

pub(super) fn rules_of_push() -> Rules {
    Rules { mode: Mode::Push(push_rules()), ..rules() }
}

fn push_rules() -> PushRules {
    PushRules { deliver: "d".into(), group: None, flow_control: false, heartbeat_ns: 0, rate_bps: 0 }
}

fn bind(rig: &mut Rig, is_bound: bool) {
    let at = rig.at();
    rig.consumer.set_bound(is_bound, at);
    rig.serve();
}

#[test]
fn messages_go_out_while_somebody_listens() {
    let mut rig = Rig::new(rules_of_push(), "xy");
    assert!(rig.serve().seen().is_empty());
    bind(&mut rig, true);
    assert_eq!(rig.seen(), ["d: 1 #1 x1 +1", "d: 2 #2 x1 +0"]);
    assert!(rig.info().push_bound);
    bind(&mut rig, false);
    assert!(rig.publish("z").seen().is_empty());
}

#[test]
fn heartbeats_go_out_when_nothing_else_does() {
    let push = PushRules { heartbeat_ns: SECOND, ..push_rules() };
    let mut rig = Rig::new(Rules { mode: Mode::Push(push), ..rules() }, "x");
    rig.pass(2 * SECOND);
    assert!(rig.seen().is_empty(), "nobody listens");
    bind(&mut rig, true);
    rig.seen();
    rig.pass(SECOND);
    assert_eq!(rig.seen(), ["d: 100 Idle Heartbeat | Nats-Last-Consumer: 1 | Nats-Last-Stream: 1"]);
}

fn flow_rig(payload: u32, count: usize) -> Rig {
    let push = PushRules { heartbeat_ns: SECOND, flow_control: true, ..push_rules() };
    let limits = Rules { mode: Mode::Push(push), max_ack_pending: 0, ..rules() };
    let mut rig = Rig::new(limits, &"x".repeat(count));
    rig.log.messages.values_mut().for_each(|stored| stored.payload = payload);
    bind(&mut rig, true);
    rig
}

/// Returns the number of messages, and the subject of the request among them.
fn flow(rig: &mut Rig) -> (usize, Option<String>) {
    let mut messages = 0;
    let mut request = None;
    rig.collect();
    for line in std::mem::take(&mut rig.seen) {
        if line == "d: 100 FlowControl Request" {
            request = stalled(&rig.consumer);
        } else if line.contains('#') {
            messages += 1;
        }
    }
    (messages, request)
}

fn stalled(consumer: &Consumer) -> Option<String> {
    match consumer.heartbeat() {
        StatusKind::IdleHeartbeat { stalled, .. } => stalled.map(|subject| subject.to_string()),
        _ => None,
    }
}

fn answer(rig: &mut Rig, subject: &str) {
    rig.consumer.flow_answer(subject, None, &mut rig.log, &mut rig.out);
    rig.serve();
}

/// 2 MiB at first, doubled with each answer to 32 MiB; a request when more than half is under way.
#[test]
fn the_window_stalls_and_doubles_with_answers() {
    let mut rig = flow_rig(100 << 10, 2_000);
    // 21 messages of 100 KiB are more than 2 MiB.
    let (messages, request) = flow(&mut rig);
    assert_eq!(messages, 21);
    let request = request.expect("an answer is asked for");
    let words: Vec<&str> = request.split('.').collect();
    assert_eq!((&words[..4], words[4].len()), (&["$JS", "FC", "S", "C"][..], 4));
    rig.pass(SECOND);
    let beat = format!("Nats-Last-Consumer: 21 | Nats-Last-Stream: 21 | Nats-Consumer-Stalled: {request}");
    assert_eq!(rig.seen(), [format!("d: 100 Idle Heartbeat | {beat}")]);
    answer(&mut rig, "$JS.FC.S.C.none");
    assert_eq!(flow(&mut rig).0, 0, "only the answer to the last request counts");
    let mut largest = 0;
    let mut asked = Some(request);
    while let Some(subject) = asked {
        answer(&mut rig, &subject);
        let (messages, next) = flow(&mut rig);
        largest = largest.max(messages);
        asked = next.or(stalled(&rig.consumer));
    }
    assert_eq!(rig.info().num_pending, 0);
    assert!((200..=340).contains(&largest), "{largest} messages are 32 MiB at most");
}

#[test]
fn a_rate_limit_spreads_messages() {
    // 8,000 bits are 1,000 bytes per second.
    let push = PushRules { rate_bps: 8_000, ..push_rules() };
    let mut rig = Rig::new(Rules { mode: Mode::Push(push), ..rules() }, &"x".repeat(50));
    rig.log.messages.values_mut().for_each(|stored| stored.payload = 450);
    rig.consumer.bounds.burst_bytes = 1_000;
    bind(&mut rig, true);
    let at_once = rig.seen().len();
    assert!((2..=3).contains(&at_once), "{at_once} messages of about 500 bytes at once");
    rig.pass(10 * SECOND);
    let later = rig.seen().len();
    assert!((18..=22).contains(&later), "{later} messages in 10 s");
}

#[test]
fn a_push_consumer_that_nobody_listens_to_ends() {
    let mut rig = Rig::new(Rules { inactive_ns: 5 * SECOND, ..rules_of_push() }, "");
    bind(&mut rig, true);
    assert!(rig.pass(20 * SECOND).seen().is_empty());
    bind(&mut rig, false);
    assert!(rig.pass(5 * SECOND - MS).seen().is_empty());
    assert_eq!(rig.pass(MS).seen(), ["inactive"]);
}

/// Ack policy `flow_control` (2.15): the answer's headers acknowledge.
#[test]
fn answers_to_flow_control_acknowledge_if_the_policy_says_so() {
    let push = PushRules { heartbeat_ns: SECOND, flow_control: true, ..push_rules() };
    let limits = Rules { mode: Mode::Push(push), ack: AckPolicy::FlowControl, max_ack_pending: 3, ..rules() };
    let mut rig = Rig::new(limits, "abcde");
    bind(&mut rig, true);
    // The limit of pending messages asks for an answer, too.
    let (messages, request) = flow(&mut rig);
    assert_eq!(messages, 3);
    let request = request.expect("an answer is asked for");
    let handled = Sequences { consumer: 3, stream: 3 };
    rig.consumer.flow_answer(&request, Some(handled), &mut rig.log, &mut rig.out);
    assert_eq!(flow(rig.serve()).0, 2);
    assert_eq!(rig.floor(), (3, 3));
    // At rest the heartbeat asks.
    rig.pass(SECOND);
    assert!(rig.seen().contains(&"d: 100 FlowControl Request".to_owned()));
}

#[test]
fn another_deliver_subject_starts_with_an_empty_window_and_unbound() {
    let mut rig = flow_rig(100 << 10, 30);
    flow(&mut rig);
    let push = PushRules { deliver: "e".into(), heartbeat_ns: SECOND, flow_control: true, ..push_rules() };
    let update = Rules { mode: Mode::Push(push), max_ack_pending: 0, ..rules() };
    let at = rig.at();
    rig.consumer.update(update, FiltersChanged(false), &mut rig.log, at);
    assert!(rig.serve().seen().is_empty());
    bind(&mut rig, true);
    let seen = rig.seen();
    assert_eq!(seen[0], "e: 22 #22 x1 +8");
    assert_eq!(seen.iter().filter(|line| line.contains('#')).count(), 9);
}
