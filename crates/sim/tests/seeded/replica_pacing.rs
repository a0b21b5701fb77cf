//! New replicas that are brought up to date slowly on purpose: their messages are held up, and raft does not
//! take that for loss.
#![expect(clippy::unwrap_used, reason = "tests report failures by panicking")]

use tailrace_log::LogConfig;
use tailrace_replication::raft::{MemberChange, PeerMessage, Replica, ReplicaId};
use tailrace_sim::SimDisk;

use crate::common::trio::{NOW, Trio, append, disk, open_with, options};

const LEARNER: ReplicaId = ReplicaId(2);
const BATCHES: usize = 40;
const BATCH_BYTES: usize = 200_000;

/// The first replica leads alone and has a log of several messages. The second one is to follow.
fn long_log() -> Trio {
    let disks = vec![disk(), disk()];
    let open =
        |(id, disk): (u64, &SimDisk)| open_with(disk, LogConfig::default(), options(id, &[1])).unwrap();
    let replicas = (1..).zip(&disks).map(open).collect();
    let mut trio = Trio { disks, replicas };
    lead_alone(&mut trio);
    for _ in 0..BATCHES {
        append(trio.at(1), &"x".repeat(BATCH_BYTES)).unwrap();
        trio.sync(1);
    }
    trio.at(1).change_members(MemberChange::AddLearner(LEARNER), NOW).unwrap();
    trio.sync(1);
    assert_eq!(trio.at(1).members().learners, [LEARNER]);
    trio
}

fn lead_alone(trio: &mut Trio) {
    trio.at(1).campaign(NOW);
    trio.sync(1);
    assert!(trio.at(1).leads().is_some());
}

/// Ticks the leader and delivers all messages that follow, except those with entries, which are returned.
fn beat(trio: &mut Trio, is_slow: bool) -> Vec<PeerMessage> {
    trio.at(1).tick(NOW);
    let mut held = Vec::new();
    loop {
        trio.sync(1);
        trio.sync(2);
        trio.at(1).pace(|id| is_slow && id == LEARNER);
        let mut messages = trio.at(1).take_messages();
        messages.extend(trio.at(2).take_messages());
        if messages.is_empty() {
            return held;
        }
        for message in messages {
            if message.append_bytes().is_some() {
                held.push(message);
            } else {
                let to = message.to().0;
                trio.at(to).receive(message, NOW);
            }
        }
    }
}

/// Ticks until messages with entries are sent. Returns the number of ticks and these messages.
fn sent_within(trio: &mut Trio, ticks: usize) -> Option<(usize, Vec<PeerMessage>)> {
    (1..=ticks).find_map(|tick| Some((tick, beat(trio, true))).filter(|(_, held)| !held.is_empty()))
}

fn end(replica: &Replica<SimDisk>) -> i64 {
    replica.reader().log_end().get()
}

#[test]
fn it_is_sent_one_message_at_a_time_and_nothing_twice() {
    let mut trio = long_log();
    let (mut messages, mut bytes) = (0, 0);
    while !trio.at(1).has_caught_up(LEARNER) {
        let (_, mut held) = sent_within(&mut trio, 4).expect("the next message follows the answer");
        for _ in 0..50 {
            held.extend(beat(&mut trio, true));
        }
        assert_eq!(held.len(), 1, "more than one message at a time");
        let message = held.remove(0);
        (messages, bytes) = (messages + 1, bytes + message.append_bytes().unwrap());
        trio.at(2).receive(message, NOW);
        // The loop above looks at what the answer causes.
        trio.sync(2);
        for answer in trio.at(2).take_messages() {
            trio.at(1).receive(answer, NOW);
        }
        trio.at(1).pace(|_| true);
        assert!(messages < BATCHES, "the learner makes no progress");
    }
    assert!(messages >= (BATCHES * BATCH_BYTES) >> 21, "{messages} messages");
    assert!(bytes < BATCHES * (BATCH_BYTES + 1000), "{bytes} bytes");
    assert_eq!(end(trio.at(2)), BATCHES as i64);
}

#[test]
fn who_has_caught_up_or_is_named_no_more_gets_many_messages_again() {
    for by_catching_up in [true, false] {
        let mut trio = long_log();
        assert_eq!(sent_within(&mut trio, 4).unwrap().1.len(), 1);
        assert!(trio.at(1).is_paced(LEARNER));
        if by_catching_up {
            for _ in 0..2000 {
                for message in beat(&mut trio, true) {
                    trio.at(2).receive(message, NOW);
                }
            }
            assert!(trio.at(1).has_caught_up(LEARNER));
        } else {
            for _ in 0..100 {
                for message in beat(&mut trio, false) {
                    trio.at(2).receive(message, NOW);
                }
            }
        }
        assert!(!trio.at(1).is_paced(LEARNER));
        assert_eq!(end(trio.at(2)), BATCHES as i64);
        let mut sent = 0;
        for _ in 0..BATCHES {
            append(trio.at(1), &"y".repeat(BATCH_BYTES)).unwrap();
            trio.at(1).pace(|_| false);
            sent += trio.at(1).take_messages().iter().filter(|m| m.append_bytes().is_some()).count();
        }
        assert_eq!(sent, 8, "as many as may be in flight");
    }
}

#[test]
fn what_is_lost_is_sent_again_in_the_end() {
    let mut trio = long_log();
    let (_, lost) = sent_within(&mut trio, 4).unwrap();
    let (ticks, again) = sent_within(&mut trio, 300).expect("the message is sent again");
    assert!(ticks > 200, "after {ticks} ticks");
    assert_eq!(again, lost);
}

#[test]
fn what_could_not_be_sent_waits_a_little_and_not_for_the_next_append() {
    let mut trio = long_log();
    sent_within(&mut trio, 4).unwrap();
    trio.at(1).unreachable(LEARNER, NOW);
    for _ in 0..10 {
        append(trio.at(1), "meanwhile").unwrap();
        assert_eq!(beat(&mut trio, true), []);
    }
    let (ticks, again) = sent_within(&mut trio, 20).expect("the message is sent again");
    assert!(ticks > 5, "after {ticks} more ticks");
    assert_eq!(again.len(), 1);
}
