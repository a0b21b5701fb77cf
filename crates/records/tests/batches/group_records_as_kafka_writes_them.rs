//! Values of consumer and share groups, byte for byte as Kafka 4.3.1's serializers write them.

use bytes::Bytes;
use tailrace_records::internal::{
    ClassicMemberMetadata, ConsumerGroupKey, ConsumerGroupMember, ConsumerGroupMetadata,
    CurrentMemberAssignment, HeldPartitions, NamedTopicPartitions, RegularExpression,
    ShareCurrentMemberAssignment, ShareGroupMember, ShareGroupMetadata, ShareGroupStatePartitions,
    TargetAssignmentMember, TargetAssignmentMetadata,
};

const TOPIC: [u8; 16] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16];

fn hex(bytes: &Bytes) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn text(text: &str) -> String {
    text.to_owned()
}

#[test]
fn a_consumer_groups_member() {
    let member = ConsumerGroupMember {
        instance_id: Some(text("i")),
        rack_id: None,
        client_id: text("c"),
        client_host: text("/h"),
        subscribed_topic_names: vec![text("a"), text("b")],
        subscribed_topic_regex: Some(text("x.*")),
        rebalance_timeout_ms: 300_000,
        server_assignor: Some(text("range")),
        classic: Some(ClassicMemberMetadata {
            session_timeout_ms: 45_000,
            protocols: vec![(text("range"), Bytes::from_static(&[0, 1]))],
        }),
    };
    let expected = "00000269000263032f68030261026204782e2a000493e00672616e6765010011010000afc8020672616e6765\
                    0300010000";
    assert_eq!(hex(&member.encode()), expected);
}

#[test]
fn assignments_of_a_consumer_group() {
    let held = |partitions, epochs| HeldPartitions { topic: TOPIC, partitions, epochs };
    let current = CurrentMemberAssignment {
        epoch: 5,
        previous_epoch: 4,
        state: 2,
        assigned: vec![held(vec![1, 2], Some(vec![4, 5]))],
        pending_revocation: vec![held(vec![3], None)],
    };
    let expected = "0000000000050000000402020102030405060708090a0b0c0d0e0f1003000000010000000201000903000000\
                    0400000005020102030405060708090a0b0c0d0e0f1002000000030000";
    assert_eq!(hex(&current.encode()), expected);

    let metadata = TargetAssignmentMetadata { epoch: 3, timestamp_ms: 1_700_000_000_000 };
    assert_eq!(hex(&metadata.encode()), "0000000000030100080000018bcfe56800");

    let target = TargetAssignmentMember { partitions: vec![(TOPIC, vec![0, 3])] };
    let expected = "0000020102030405060708090a0b0c0d0e0f100300000000000000030000";
    assert_eq!(hex(&target.encode()), expected);
}

#[test]
fn a_consumer_group_and_its_expressions() {
    let group = ConsumerGroupMetadata { epoch: 7, metadata_hash: 9 };
    assert_eq!(hex(&group.encode()), "0000000000070100080000000000000009");

    let topics = vec![text("a"), text("ab")];
    let expression = RegularExpression { topics, version: 12, timestamp_ms: 34 };
    assert_eq!(hex(&expression.encode()), "0000030261036162000000000000000c000000000000002200");

    let key = ConsumerGroupKey::RegularExpression { group: text("g"), expression: text("a.*") };
    assert_eq!(hex(&key.encode()), "00100001670003612e2a");
}

#[test]
fn share_groups() {
    let group = ShareGroupMetadata { epoch: 4, metadata_hash: -5 };
    assert_eq!(hex(&group.encode()), "000000000004fffffffffffffffb00");

    let member = ShareGroupMember {
        rack_id: None,
        client_id: text("c"),
        client_host: text("/h"),
        subscribed_topic_names: vec![text("jobs")],
    };
    assert_eq!(hex(&member.encode()), "0000000263032f6802056a6f627300");

    let assigned = vec![(TOPIC, vec![0, 1])];
    let current = ShareCurrentMemberAssignment { epoch: 2, previous_epoch: 1, state: 1, assigned };
    let expected = "0000000000020000000101020102030405060708090a0b0c0d0e0f100300000000000000010000";
    assert_eq!(hex(&current.encode()), expected);

    let named = NamedTopicPartitions { topic: TOPIC, name: text("jobs"), partitions: vec![0, 1, 2] };
    let state = ShareGroupStatePartitions {
        initializing: vec![named],
        initialized: vec![],
        deleting: vec![(TOPIC, text("old"))],
        generation: 0,
    };
    let expected = "0000020102030405060708090a0b0c0d0e0f10056a6f627304000000000000000100000002000102010203\
                    0405060708090a0b0c0d0e0f10046f6c640000";
    assert_eq!(hex(&state.encode()), expected);
}
