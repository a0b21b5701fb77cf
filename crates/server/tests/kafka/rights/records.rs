//! Rights for records: transactional batches, sessions, and fetches that wait while a right is taken away.

use tailrace_identity::acl::Operation::{Describe, Read, Write};
use tailrace_identity::acl::ResourceKind::{Group, Topic, TransactionalId};
use tailrace_kafka_wire::ErrorCode::{
    self, ClusterAuthorizationFailed, InvalidTopicException, OperationNotAttempted, TopicAuthorizationFailed,
    TransactionalIdAuthorizationFailed, UnknownTopicOrPartition,
};
use tailrace_kafka_wire::messages::add_partitions_to_txn_request::{
    AddPartitionsToTxnRequest, AddPartitionsToTxnTopic,
};
use tailrace_kafka_wire::messages::{CreateTopicsRequest, InitProducerIdRequest, ProduceRequest};
use tailrace_kafka_wire::request_frame;
use tailrace_records::BatchOptions;
use tailrace_types::{ProducerEpoch, ProducerId};
use tokio::io::AsyncWriteExt;

use super::Rig;
use crate::common::rig::{fetch_request, only_answer, produce_request};
use crate::common::{Client, OK, batch, error, topic};

async fn end_of(client: &mut Client, topic: &str) -> i64 {
    let mut request = fetch_request(topic, 0, 0);
    request.max_wait_ms = 0;
    client.call(12, &request).await.responses[0].partitions[0].high_watermark
}

fn transactional() -> BatchOptions {
    BatchOptions {
        producer_id: ProducerId(1),
        producer_epoch: ProducerEpoch(0),
        base_sequence: 0,
        transactional: true,
        ..Default::default()
    }
}

async fn produced(client: &mut Client, id: Option<&str>, batch: bytes::Bytes) -> ErrorCode {
    let request =
        ProduceRequest { transactional_id: id.map(str::to_owned), ..produce_request("t", 0, -1, batch) };
    error(only_answer(client.call(11, &request).await).error_code)
}

/// CVE-2018-17196: the batches say whether a request is transactional.
#[tokio::test]
async fn a_transactional_batch_needs_the_right_for_its_transactional_id() {
    let mut rig = Rig::new().await;
    rig.admin.create_topic("t", 1, &[]).await;
    rig.allow(&[(Write, Topic, "t"), (Write, TransactionalId, "mine")]).await;
    let mut client = rig.anonymous().await;
    for id in [None, Some("other")] {
        let code = produced(&mut client, id, batch(transactional(), &[1])).await;
        assert_eq!(code, TransactionalIdAuthorizationFailed, "{id:?}");
    }
    assert_eq!(end_of(&mut rig.admin, "t").await, 0);
    let code = produced(&mut client, Some("mine"), batch(transactional(), &[1])).await;
    assert_ne!(code, TransactionalIdAuthorizationFailed);
    // An id beside other batches means nothing.
    assert_eq!(produced(&mut client, Some("other"), batch(BatchOptions::default(), &[1])).await, OK);
}

#[tokio::test]
async fn a_refused_transactional_id_refuses_all_partitions_of_the_request() {
    let mut rig = Rig::new().await;
    rig.admin.create_topic("t", 2, &[]).await;
    rig.allow(&[(Write, Topic, "t")]).await;
    let mut client = rig.anonymous().await;
    let mut request = produce_request("t", 0, -1, batch(transactional(), &[1]));
    let other = produce_request("t", 1, -1, batch(BatchOptions::default(), &[1])).topic_data.remove(0);
    request.topic_data[0].partition_data.extend(other.partition_data);
    request.transactional_id = Some("other".to_owned());
    let answer = client.call(11, &request).await.responses.remove(0);
    let codes: Vec<_> = answer.partition_responses.iter().map(|data| error(data.error_code)).collect();
    assert_eq!(codes, [TransactionalIdAuthorizationFailed; 2]);
    assert_eq!(end_of(&mut rig.admin, "t").await, 0);
}

#[tokio::test]
async fn only_the_topics_without_a_right_are_refused() {
    let mut rig = Rig::new().await;
    rig.admin.create_topic("t", 1, &[]).await;
    rig.admin.create_topic("u", 1, &[]).await;
    rig.allow(&[(Write, Topic, "t")]).await;
    let mut client = rig.anonymous().await;
    let mut request = produce_request("u", 0, -1, batch(BatchOptions::default(), &[1]));
    request.topic_data.extend(produce_request("t", 0, -1, batch(BatchOptions::default(), &[1])).topic_data);
    request.topic_data.extend(produce_request("no", 0, -1, batch(BatchOptions::default(), &[1])).topic_data);
    let answers = client.call(9, &request).await.responses;
    let codes: Vec<_> = answers.iter().map(|topic| error(topic.partition_responses[0].error_code)).collect();
    assert_eq!(codes, [TopicAuthorizationFailed, OK, TopicAuthorizationFailed]);
    assert_eq!((end_of(&mut rig.admin, "u").await, end_of(&mut rig.admin, "t").await), (0, 1));
}

#[tokio::test]
async fn a_client_without_acks_is_cut_off() {
    let mut rig = Rig::new().await;
    rig.admin.create_topic("t", 1, &[]).await;
    let mut client = rig.anonymous().await;
    let request = produce_request("t", 0, 0, batch(BatchOptions::default(), &[1]));
    assert!(client.try_call(9, &request).await.is_none());
    assert_eq!(end_of(&mut rig.admin, "t").await, 0);
}

/// In Kafka the client id `__admin_client`, which anybody can choose, opens them.
#[tokio::test]
async fn internal_topics_are_not_written_by_anybody() {
    let mut rig = Rig::new().await;
    let commits = tailrace_kafka_wire::messages::FindCoordinatorRequest {
        key_type: 0,
        coordinator_keys: vec!["g".to_owned()],
        ..Default::default()
    };
    rig.admin.call(4, &commits).await;
    let request = tailrace_kafka_wire::messages::JoinGroupRequest {
        group_id: "g".to_owned(),
        session_timeout_ms: 6_000,
        ..Default::default()
    };
    rig.admin.call(4, &request).await;
    for name in ["__consumer_offsets", "__transaction_state", "__share_group_state", "__jetstream_state"] {
        rig.admin
            .call(7, &CreateTopicsRequest { topics: vec![topic(name, 1, &[])], ..Default::default() })
            .await;
        for client_id in ["test", "__admin_client"] {
            let request = produce_request(name, 0, -1, batch(BatchOptions::default(), &[1]));
            let frame = request_frame(1, Some(client_id), 9, &request).unwrap().into_bytes().unwrap();
            rig.admin.stream().write_all(&frame).await.unwrap();
            let (_, answer) = rig.admin.answer::<ProduceRequest>(9).await;
            let code = error(answer.responses[0].partition_responses[0].error_code);
            let is_there = rig.server.node().image().topic(name).is_some();
            let expected = if is_there { InvalidTopicException } else { UnknownTopicOrPartition };
            assert_eq!(code, expected, "{name} by {client_id}");
        }
    }
    assert!(rig.server.node().image().topic("__consumer_offsets").is_some(), "there was nothing to write to");
}

#[tokio::test]
async fn a_session_is_asked_again_at_each_fetch() {
    let mut rig = Rig::new().await;
    for name in ["t", "u"] {
        rig.admin.create_topic(name, 1, &[]).await;
    }
    rig.allow(&[(Read, Topic, "t"), (Read, Topic, "u")]).await;
    let mut client = rig.anonymous().await;
    let mut request = fetch_request("t", 0, 0);
    request.topics.extend(fetch_request("u", 0, 0).topics);
    (request.session_epoch, request.max_wait_ms) = (0, 0);
    let begun = client.call(12, &request).await;
    assert_ne!(begun.session_id, 0);
    rig.forget(&[(Read, Topic, "t")]).await;
    rig.admin.produce("t", 0, &[1]).await;
    request.topics.clear();
    (request.session_id, request.session_epoch) = (begun.session_id, 1);
    let next = client.call(12, &request).await;
    let [told] = &next.responses[..] else { panic!("one topic has news: {next:?}") };
    assert_eq!(told.topic, "t");
    assert_eq!(error(told.partitions[0].error_code), TopicAuthorizationFailed);
    assert_eq!(told.partitions[0].high_watermark, -1);
}

#[tokio::test]
async fn a_fetch_that_waits_gets_nothing_once_its_right_is_taken_away() {
    let mut rig = Rig::new().await;
    rig.admin.create_topic("t", 1, &[]).await;
    rig.allow(&[(Read, Topic, "t")]).await;
    let mut client = rig.anonymous().await;
    let request = fetch_request("t", 0, 0);
    let (mut rig, answer) = {
        let waiting = client.call(12, &request);
        let revoke = async {
            // The fetch is most likely waiting by then. If not, it is refused at once, which is as right.
            tokio::time::sleep(std::time::Duration::from_millis(200)).await;
            rig.forget(&[(Read, Topic, "t")]).await;
            rig.admin.produce("t", 0, &[1]).await;
            rig
        };
        let (answer, rig) = tokio::join!(waiting, revoke);
        (rig, answer)
    };
    assert_eq!(error(answer.responses[0].partitions[0].error_code), TopicAuthorizationFailed);
    assert_eq!(end_of(&mut rig.admin, "t").await, 1);
}

#[tokio::test]
async fn a_transaction_gets_all_partitions_or_none() {
    let mut rig = Rig::new().await;
    rig.admin.create_topic("t", 1, &[]).await;
    rig.admin.create_topic("u", 1, &[]).await;
    rig.allow(&[(Write, TransactionalId, "x"), (Write, Topic, "t")]).await;
    let mut client = rig.anonymous().await;
    let init = InitProducerIdRequest {
        transactional_id: Some("x".to_owned()),
        transaction_timeout_ms: 60_000,
        ..Default::default()
    };
    let producer = client.call(4, &init).await;
    assert_eq!(error(producer.error_code), OK);
    let topic = |name: &str| AddPartitionsToTxnTopic {
        name: name.to_owned(),
        partitions: vec![0],
        ..Default::default()
    };
    let request = AddPartitionsToTxnRequest {
        v3_and_below_transactional_id: "x".to_owned(),
        v3_and_below_producer_id: producer.producer_id,
        v3_and_below_producer_epoch: producer.producer_epoch,
        v3_and_below_topics: vec![topic("t"), topic("u"), topic("none")],
        ..Default::default()
    };
    let answer = client.call(3, &request).await.results_by_topic_v3_and_below;
    let codes: Vec<_> =
        answer.iter().map(|topic| error(topic.results_by_partition[0].partition_error_code)).collect();
    assert_eq!(codes, [OperationNotAttempted, TopicAuthorizationFailed, TopicAuthorizationFailed]);
}

#[tokio::test]
async fn a_producer_id_is_for_clients_that_may_write_something() {
    let rig = Rig::new().await;
    let mut client = rig.anonymous().await;
    let request = InitProducerIdRequest { transactional_id: None, ..Default::default() };
    assert_eq!(error(client.call(4, &request).await.error_code), ClusterAuthorizationFailed);
    rig.allow(&[(Read, Topic, "t"), (Read, Group, "g"), (Describe, Topic, "t")]).await;
    assert_eq!(error(client.call(4, &request).await.error_code), ClusterAuthorizationFailed);
    rig.allow(&[(Write, Topic, "t")]).await;
    assert_eq!(error(client.call(4, &request).await.error_code), OK);
    rig.deny((Write, Topic, "t")).await;
    assert_eq!(error(client.call(4, &request).await.error_code), ClusterAuthorizationFailed);
}
