//! The offsets and states that a group keeps of its partitions: described, set, deleted, and gone with the
//! group or the topic.

use super::{ACCEPT, GROUP, LONG, Member, join_and_leave, partition_of, rig};
use crate::common::{Client, TestServer, error};
use tailrace_kafka_wire::ErrorCode;
use tailrace_kafka_wire::messages::alter_share_group_offsets_request::{
    AlterShareGroupOffsetsRequestPartition, AlterShareGroupOffsetsRequestTopic,
};
use tailrace_kafka_wire::messages::delete_share_group_offsets_request::DeleteShareGroupOffsetsRequestTopic;
use tailrace_kafka_wire::messages::describe_share_group_offsets_request::DescribeShareGroupOffsetsRequestGroup;
use tailrace_kafka_wire::messages::describe_share_group_offsets_response::DescribeShareGroupOffsetsResponseGroup;
use tailrace_kafka_wire::messages::{
    AlterShareGroupOffsetsRequest, AlterShareGroupOffsetsResponse, DeleteGroupsRequest,
    DeleteShareGroupOffsetsRequest, DeleteTopicsRequest, DescribeShareGroupOffsetsRequest,
    ShareGroupDescribeRequest, ShareGroupHeartbeatRequest,
};

async fn described(client: &mut Client, group: &str) -> DescribeShareGroupOffsetsResponseGroup {
    let group = DescribeShareGroupOffsetsRequestGroup {
        group_id: group.to_owned(),
        topics: None,
        ..Default::default()
    };
    let request = DescribeShareGroupOffsetsRequest { groups: vec![group], ..Default::default() };
    client.call(1, &request).await.groups.remove(0)
}

async fn describe(client: &mut Client, group: &str) -> Vec<(i32, i64, i64)> {
    let answer = described(client, group).await;
    assert_eq!(answer.error_code, 0);
    let partitions = answer.topics.iter().flat_map(|topic| &topic.partitions);
    partitions.map(|partition| (partition.partition_index, partition.start_offset, partition.lag)).collect()
}

#[tokio::test]
async fn offsets_are_described_altered_and_deleted() {
    let (server, mut client, topic) = rig(LONG).await;
    client.produce("jobs", 0, &[1, 2, 3, 4, 5]).await;
    // As in Kafka, a group that does not exist has no state.
    assert_eq!(describe(&mut client, "strangers").await, []);
    let mut anna = Member::new(&server, "anna", topic).await;
    assert_eq!(anna.fetch(0).await, [(0, 4, 1)]);
    assert_eq!(describe(&mut client, GROUP).await, [(0, 0, 5)]);
    assert_eq!(anna.say(&[(0, 0, &[ACCEPT]), (3, 3, &[ACCEPT])]).await, ErrorCode::None);
    assert_eq!(describe(&mut client, GROUP).await, [(0, 1, 3)], "one of four records is acknowledged");
    let alter = |start_offset| {
        let partition =
            AlterShareGroupOffsetsRequestPartition { partition_index: 0, start_offset, ..Default::default() };
        let topic = AlterShareGroupOffsetsRequestTopic {
            topic_name: "jobs".to_owned(),
            partitions: vec![partition],
            ..Default::default()
        };
        AlterShareGroupOffsetsRequest {
            group_id: GROUP.to_owned(),
            topics: vec![topic],
            ..Default::default()
        }
    };
    let delete = DeleteShareGroupOffsetsRequest {
        group_id: GROUP.to_owned(),
        topics: vec![DeleteShareGroupOffsetsRequestTopic {
            topic_name: "jobs".to_owned(),
            ..Default::default()
        }],
        ..Default::default()
    };
    assert_eq!(error(client.call(0, &alter(0)).await.error_code), ErrorCode::NonEmptyGroup);
    assert_eq!(error(client.call(0, &delete).await.error_code), ErrorCode::NonEmptyGroup);
    assert_eq!(anna.say_at(-1, &[]).await, ErrorCode::None);
    let altered = client.call(0, &alter(2)).await;
    assert_eq!((altered.error_code, altered.responses[0].partitions[0].error_code), (0, 0));
    assert_eq!(altered.responses[0].topic_id, topic);
    let refused = client.call(0, &alter(-7)).await;
    assert_eq!(error(refused.responses[0].partitions[0].error_code), ErrorCode::InvalidRequest);
    assert_eq!(describe(&mut client, GROUP).await, [(0, 2, 3)]);
    let mut ben = Member::new(&server, "ben", topic).await;
    assert_eq!(ben.fetch(0).await, [(2, 4, 1)], "all records from there on, accepted or not");
    assert_eq!(ben.say_at(-1, &[]).await, ErrorCode::None);
    let deleted = client.call(0, &delete).await;
    assert_eq!((deleted.error_code, deleted.responses[0].error_code), (0, 0));
    assert_eq!(describe(&mut client, GROUP).await, []);
    // Kafka 4.3.1 gives this answer for a topic that the group does not know.
    let again = client.call(0, &delete).await;
    let answer = &again.responses[0];
    assert_eq!((again.error_code, error(answer.error_code)), (0, ErrorCode::UnknownTopicOrPartition));
    assert_eq!(answer.error_message.as_deref(), Some("There is no offset information to delete."));
}

async fn delete_group(client: &mut Client, group: &str) -> ErrorCode {
    let request = DeleteGroupsRequest { groups_names: vec![group.to_owned()], ..Default::default() };
    error(client.call(2, &request).await.results[0].error_code)
}

/// A deleted group loses its state, even across a kill -9.
#[tokio::test]
async fn a_group_that_is_deleted_and_made_again_gets_every_record() {
    let (mut server, mut client, topic) = rig(LONG).await;
    client.produce("jobs", 0, &[1, 2, 3, 4, 5]).await;
    for round in 0..3 {
        let mut anna = Member::new(&server, "anna", topic).await;
        assert_eq!(anna.fetch(0).await, [(0, 4, 1)], "round {round}");
        assert_eq!(anna.say(&[(0, 4, &[ACCEPT])]).await, ErrorCode::None);
        assert_eq!(anna.fetch(0).await, []);
        assert_eq!(anna.say_at(-1, &[]).await, ErrorCode::None);
        assert_eq!(describe(&mut client, GROUP).await, [(0, 5, 0)]);
        assert_eq!(delete_group(&mut client, GROUP).await, ErrorCode::None);
        assert_eq!(delete_group(&mut client, GROUP).await, ErrorCode::GroupIdNotFound);
        assert_eq!(describe(&mut client, GROUP).await, []);
        if round == 1 {
            server.restart().await;
            client = server.connect().await;
        }
        join_and_leave(&mut client, topic).await;
    }
    let mut copy = server.crashed_copy().await;
    let mut ben = Member::new(&copy, "ben", topic).await;
    assert_eq!(ben.fetch(0).await, [(0, 4, 1)]);
    copy.stop().await;
}

#[tokio::test]
async fn a_group_with_a_member_keeps_its_states() {
    let (server, mut client, topic) = rig(LONG).await;
    client.produce("jobs", 0, &[1, 2]).await;
    let mut anna = Member::new(&server, "anna", topic).await;
    assert_eq!(anna.fetch(0).await, [(0, 1, 1)]);
    assert_eq!(anna.say(&[(0, 0, &[ACCEPT])]).await, ErrorCode::None);
    let beat = |member_epoch| ShareGroupHeartbeatRequest {
        group_id: GROUP.to_owned(),
        member_id: "anna".to_owned(),
        member_epoch,
        subscribed_topic_names: (member_epoch == 0).then(|| vec!["jobs".to_owned()]),
        ..Default::default()
    };
    assert_eq!(client.call(1, &beat(0)).await.error_code, 0);
    assert_eq!(delete_group(&mut client, GROUP).await, ErrorCode::NonEmptyGroup);
    assert_eq!(describe(&mut client, GROUP).await, [(0, 1, 1)], "its state is unchanged");
    assert_eq!(client.call(1, &beat(-1)).await.error_code, 0);
    assert_eq!(delete_group(&mut client, GROUP).await, ErrorCode::None);
}

/// As in Kafka 4.3.1, this creates a group that does not exist, without members, if one of the topics exists.
#[tokio::test]
async fn offsets_that_are_set_make_the_group() {
    let mut server = TestServer::start().await;
    let mut client = server.connect().await;
    client.create_topic("jobs", 2, &[]).await;
    client.produce("jobs", 0, &[1, 2, 3, 4, 5]).await;
    let alter = |group: &str, topics: &[(&str, i32)]| AlterShareGroupOffsetsRequest {
        group_id: group.to_owned(),
        topics: topics
            .iter()
            .map(|(name, partition_index)| AlterShareGroupOffsetsRequestTopic {
                topic_name: (*name).to_owned(),
                partitions: vec![AlterShareGroupOffsetsRequestPartition {
                    partition_index: *partition_index,
                    start_offset: 3,
                    ..Default::default()
                }],
                ..Default::default()
            })
            .collect(),
        ..Default::default()
    };
    let codes = |answer: AlterShareGroupOffsetsResponse| {
        let partitions = answer.responses.iter().flat_map(|topic| &topic.partitions);
        (error(answer.error_code), partitions.map(|one| error(one.error_code)).collect::<Vec<_>>())
    };
    let (ok, unknown) = (ErrorCode::None, ErrorCode::UnknownTopicOrPartition);
    let answer = client.call(0, &alter("made", &[("jobs", 0), ("nothing", 0)])).await;
    assert_eq!(codes(answer), (ok, vec![ok, unknown]));
    assert_eq!(codes(client.call(0, &alter("made-for-nothing", &[("jobs", 7)])).await), (ok, vec![unknown]));
    assert_eq!(codes(client.call(0, &alter("not-made", &[("nothing", 0)])).await), (ok, vec![unknown]));
    assert_eq!(codes(client.call(0, &alter("", &[("jobs", 0)])).await).0, ErrorCode::InvalidGroupId);

    let group =
        |name: &str| ShareGroupDescribeRequest { group_ids: vec![name.to_owned()], ..Default::default() };
    for restarted in [false, true] {
        for (name, code) in [("made", ok), ("made-for-nothing", ok), ("not-made", ErrorCode::GroupIdNotFound)]
        {
            let described = client.call(1, &group(name)).await.groups.remove(0);
            assert_eq!(error(described.error_code), code, "{name}, restarted: {restarted}");
            if code == ok {
                assert_eq!((described.group_epoch, described.assignment_epoch), (1, 1), "{name}");
                assert_eq!((described.group_state.as_str(), described.members.len()), ("Empty", 0), "{name}");
            }
        }
        assert_eq!(describe(&mut client, "made").await, [(0, 3, 2)], "restarted: {restarted}");
        server.restart().await;
        client = server.connect().await;
    }

    let join = ShareGroupHeartbeatRequest {
        group_id: "made".to_owned(),
        member_id: "anna".to_owned(),
        subscribed_topic_names: Some(vec!["jobs".to_owned()]),
        ..Default::default()
    };
    assert_eq!(error(client.call(1, &join).await.error_code), ok);
    let busy = client.call(0, &alter("made", &[("jobs", 0)])).await;
    assert_eq!(codes(busy).0, ErrorCode::NonEmptyGroup);
    assert_eq!(describe(&mut client, "made").await[0], (0, 3, 2));
}

#[tokio::test]
async fn what_is_remembered_of_a_topic_goes_with_it() {
    let (server, mut client, topic) = rig(LONG).await;
    client.produce("jobs", 0, &[1]).await;
    let mut anna = Member::new(&server, "anna", topic).await;
    assert_eq!(anna.fetch(0).await, [(0, 0, 1)]);
    let request =
        DeleteTopicsRequest { topic_names: vec!["jobs".to_owned()], timeout_ms: 5_000, ..Default::default() };
    assert_eq!(client.call(5, &request).await.responses[0].error_code, 0);
    let request = anna.fetch_request(&[], 0);
    let answer = anna.client.call(2, &request).await;
    assert_eq!(error(partition_of(&answer).expect("an error").error_code), ErrorCode::UnknownTopicId);
    let topic = client.create_topic("jobs", 1, &[]).await;
    join_and_leave(&mut client, topic).await;
    client.produce("jobs", 0, &[1, 2]).await;
    let mut ben = Member::new(&server, "ben", topic).await;
    assert_eq!(ben.fetch(0).await, [(0, 1, 1)]);
}
