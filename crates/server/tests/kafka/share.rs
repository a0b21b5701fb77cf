//! Share groups' records: each goes to one member at a time, comes again if it is not accepted, and never again once it
//! was. By plain requests: a member joins and leaves, so that there is a group; whoever fetches then need not be one.

use std::time::{Duration, Instant};

use crate::common;
use crate::common::rig::{SCRUBBING, damage_second_batch, eventually, now, numbered};
use crate::common::{Client, PATIENCE, TestServer, error};
use tailrace_kafka_wire::messages::alter_share_group_offsets_request::{
    AlterShareGroupOffsetsRequestPartition, AlterShareGroupOffsetsRequestTopic,
};
use tailrace_kafka_wire::messages::delete_share_group_offsets_request::DeleteShareGroupOffsetsRequestTopic;
use tailrace_kafka_wire::messages::describe_share_group_offsets_request::DescribeShareGroupOffsetsRequestGroup;
use tailrace_kafka_wire::messages::describe_share_group_offsets_response::DescribeShareGroupOffsetsResponseGroup;
use tailrace_kafka_wire::messages::incremental_alter_configs_request::{
    AlterConfigsResource, AlterableConfig,
};
use tailrace_kafka_wire::messages::share_fetch_response::PartitionData;
use tailrace_kafka_wire::messages::{
    AlterShareGroupOffsetsRequest, AlterShareGroupOffsetsResponse, DeleteGroupsRequest,
    DeleteShareGroupOffsetsRequest, DeleteTopicsRequest, DescribeShareGroupOffsetsRequest,
    IncrementalAlterConfigsRequest, ShareAcknowledgeRequest, ShareFetchRequest, ShareFetchResponse,
    ShareGroupDescribeRequest, ShareGroupHeartbeatRequest, share_acknowledge_request, share_fetch_request,
};
use tailrace_kafka_wire::{ErrorCode, Records};
use tailrace_records::{BatchBuilder, BatchOptions, DecodedBatch, split_batches};

const GROUP: &str = "workers";

/// `ConfigResource.Type.GROUP`.
const GROUP_RESOURCE: i8 = 32;

const ACCEPT: i8 = 1;
const RELEASE: i8 = 2;
const REJECT: i8 = 3;
const RENEW: i8 = 4;

/// First offset, last offset, and what is said of them.
type Said<'a> = (i64, i64, &'a [i8]);

/// One member with a connection and a session of its own.
struct Member {
    client: Client,
    name: String,
    topic: [u8; 16],
    epoch: i32,
}

impl Member {
    async fn new(server: &TestServer, name: &str, topic: [u8; 16]) -> Self {
        Self { client: server.connect().await, name: name.to_owned(), topic, epoch: 0 }
    }

    fn next_epoch(&mut self) -> i32 {
        self.epoch += 1;
        self.epoch - 1
    }

    fn fetch_request(&mut self, said: &[Said<'_>], max_wait_ms: i32) -> ShareFetchRequest {
        let batches = said.iter().map(|&(first_offset, last_offset, types)| {
            share_fetch_request::AcknowledgementBatch {
                first_offset,
                last_offset,
                acknowledge_types: types.to_vec(),
                ..Default::default()
            }
        });
        let partition = share_fetch_request::FetchPartition {
            partition_index: 0,
            acknowledgement_batches: batches.collect(),
            ..Default::default()
        };
        let topic = share_fetch_request::FetchTopic {
            topic_id: self.topic,
            partitions: vec![partition],
            ..Default::default()
        };
        ShareFetchRequest {
            group_id: Some(GROUP.to_owned()),
            member_id: Some(self.name.clone()),
            share_session_epoch: self.next_epoch(),
            max_wait_ms,
            min_bytes: 1,
            max_bytes: 1 << 20,
            max_records: 500,
            batch_size: 500,
            topics: vec![topic],
            ..Default::default()
        }
    }

    async fn fetch(&mut self, max_wait_ms: i32) -> Vec<(i64, i64, i16)> {
        self.fetch_and_say(&[], max_wait_ms).await.0
    }

    async fn fetch_at_least(&mut self, min_bytes: i32, max_wait_ms: i32) -> Vec<(i64, i64, i16)> {
        let request = ShareFetchRequest { min_bytes, ..self.fetch_request(&[], max_wait_ms) };
        let answer = self.client.call(2, &request).await;
        assert_eq!(error(answer.error_code), ErrorCode::None);
        partition_of(&answer).map(acquired).unwrap_or_default()
    }

    /// What was acquired, and the code for what was said.
    async fn fetch_and_say(
        &mut self,
        said: &[Said<'_>],
        max_wait_ms: i32,
    ) -> (Vec<(i64, i64, i16)>, ErrorCode) {
        let request = self.fetch_request(said, max_wait_ms);
        let answer = self.client.call(2, &request).await;
        assert_eq!(error(answer.error_code), ErrorCode::None);
        match partition_of(&answer) {
            Some(data) => {
                assert_eq!(error(data.error_code), ErrorCode::None);
                check_records(data);
                (acquired(data), error(data.acknowledge_error_code))
            }
            None => (Vec::new(), ErrorCode::None),
        }
    }

    async fn say(&mut self, said: &[Said<'_>]) -> ErrorCode {
        let epoch = self.next_epoch();
        self.say_at(epoch, said).await
    }

    async fn say_at(&mut self, epoch: i32, said: &[Said<'_>]) -> ErrorCode {
        let batches = said.iter().map(|&(first_offset, last_offset, types)| {
            share_acknowledge_request::AcknowledgementBatch {
                first_offset,
                last_offset,
                acknowledge_types: types.to_vec(),
                ..Default::default()
            }
        });
        let partition = share_acknowledge_request::AcknowledgePartition {
            partition_index: 0,
            acknowledgement_batches: batches.collect(),
            ..Default::default()
        };
        let topic = share_acknowledge_request::AcknowledgeTopic {
            topic_id: self.topic,
            partitions: vec![partition],
            ..Default::default()
        };
        let request = ShareAcknowledgeRequest {
            group_id: Some(GROUP.to_owned()),
            member_id: Some(self.name.clone()),
            share_session_epoch: epoch,
            is_renew_ack: said.iter().any(|(_, _, types)| types.contains(&RENEW)),
            topics: vec![topic],
            ..Default::default()
        };
        let answer = self.client.call(2, &request).await;
        match answer.responses.first() {
            Some(topic) => error(topic.partitions[0].error_code),
            None => error(answer.error_code),
        }
    }
}

fn partition_of(answer: &ShareFetchResponse) -> Option<&PartitionData> {
    answer.responses.first().map(|topic| &topic.partitions[0])
}

fn acquired(data: &PartitionData) -> Vec<(i64, i64, i16)> {
    let records = data.acquired_records.iter();
    records.map(|records| (records.first_offset, records.last_offset, records.delivery_count)).collect()
}

/// Every acquired record is in the answer.
fn check_records(data: &PartitionData) {
    let Records::Bytes(bytes) = &data.records else { panic!("records in memory") };
    let mut offsets = Vec::new();
    for batch in split_batches(bytes) {
        let (_, batch) = batch.expect("whole batches only");
        let batch = DecodedBatch::new(batch, usize::MAX).expect("a sound batch");
        offsets.extend(batch.records().map(|record| record.expect("a sound record").offset.get()));
    }
    for records in &data.acquired_records {
        for offset in records.first_offset..=records.last_offset {
            assert!(offsets.contains(&offset), "{offset} is acquired and not there: {offsets:?}");
        }
    }
}

/// A server with a topic of one partition; the group begins at its first record and holds records for `lock_ms`.
async fn rig(lock_ms: u32) -> (TestServer, Client, [u8; 16]) {
    rig_with(lock_ms, &[]).await
}

async fn rig_with(lock_ms: u32, topic: &[(&str, &str)]) -> (TestServer, Client, [u8; 16]) {
    rig_set(lock_ms, topic, &[]).await
}

async fn rig_set(
    lock_ms: u32,
    topic: &[(&str, &str)],
    more: &[(&str, &str)],
) -> (TestServer, Client, [u8; 16]) {
    let settings = [
        ("log.cleaner.backoff.ms", "20"),
        ("group.share.min.record.lock.duration.ms", "1000"),
        ("share.coordinator.state.topic.num.partitions", "3"),
        ("group.share.assignment.interval.ms", "0"),
    ];
    let server = TestServer::with(&[&settings[..], more].concat()).await;
    let mut client = server.connect().await;
    let topic = client.create_topic("jobs", 1, topic).await;
    let lock_ms = lock_ms.to_string();
    configure(
        &mut client,
        &[("share.auto.offset.reset", "earliest"), ("share.record.lock.duration.ms", &lock_ms)],
    )
    .await;
    join_and_leave(&mut client, topic).await;
    (server, client, topic)
}

async fn configure(client: &mut Client, configs: &[(&str, &str)]) {
    let configs = configs.iter().map(|&(name, value)| AlterableConfig {
        name: name.to_owned(),
        value: Some(value.to_owned()),
        ..Default::default()
    });
    let resource = AlterConfigsResource {
        resource_type: GROUP_RESOURCE,
        resource_name: GROUP.to_owned(),
        configs: configs.collect(),
        ..Default::default()
    };
    let request = IncrementalAlterConfigsRequest { resources: vec![resource], ..Default::default() };
    let answer = client.call(1, &request).await;
    assert_eq!(answer.responses[0].error_code, 0, "{:?}", answer.responses[0].error_message);
}

/// Long enough for everything that is not waited for on purpose.
const LONG: u32 = 30_000;

#[tokio::test]
async fn each_record_goes_to_one_member_and_never_again_once_accepted() {
    let (mut server, mut client, topic) = rig(LONG).await;
    client.produce("jobs", 0, &[1, 2, 3]).await;
    client.produce("jobs", 0, &[4, 5]).await;
    let mut anna = Member::new(&server, "anna", topic).await;
    let mut ben = Member::new(&server, "ben", topic).await;
    assert_eq!(anna.fetch(0).await, [(0, 4, 1)]);
    assert_eq!(ben.fetch(0).await, [], "anna has them all");
    assert_eq!(ben.say(&[(0, 0, &[ACCEPT])]).await, ErrorCode::InvalidRecordState);
    assert_eq!(anna.say(&[(0, 2, &[ACCEPT, ACCEPT, RELEASE])]).await, ErrorCode::None);
    assert_eq!(ben.fetch(0).await, [(2, 2, 2)]);
    assert_eq!(anna.say(&[(3, 3, &[REJECT])]).await, ErrorCode::None);
    server.restart().await;
    // Who held records holds them no more; what was accepted and rejected stays so.
    let mut carla = Member::new(&server, "carla", topic).await;
    assert_eq!(carla.fetch(0).await, [(2, 2, 2), (4, 4, 1)]);
    assert_eq!(carla.say(&[(2, 2, &[ACCEPT]), (4, 4, &[ACCEPT])]).await, ErrorCode::None);
    let mut copy = server.crashed_copy().await;
    let mut dora = Member::new(&copy, "dora", topic).await;
    assert_eq!(dora.fetch(0).await, []);
    copy.stop().await;
}

#[tokio::test]
async fn waiting_members_wake_for_new_and_for_released_records() {
    let (server, mut client, topic) = rig(LONG).await;
    let mut anna = Member::new(&server, "anna", topic).await;
    let mut ben = Member::new(&server, "ben", topic).await;
    let began = Instant::now();
    let (got, _) = tokio::join!(anna.fetch(20_000), async {
        // Nobody tells when a fetch waits. One that comes later gets the same.
        tokio::time::sleep(Duration::from_millis(100)).await;
        client.produce("jobs", 0, &[1, 2]).await
    });
    assert_eq!(got, [(0, 1, 1)]);
    let (got, code) = tokio::join!(ben.fetch(20_000), async {
        // The same.
        tokio::time::sleep(Duration::from_millis(100)).await;
        anna.say(&[(1, 1, &[RELEASE])]).await
    });
    assert_eq!((got, code), (vec![(1, 1, 2)], ErrorCode::None));
    assert!(began.elapsed() < Duration::from_secs(15));
}

#[tokio::test]
async fn a_fetch_waits_for_its_least_bytes_and_holds_nothing_meanwhile() {
    let (server, mut client, topic) = rig(LONG).await;
    let mut anna = Member::new(&server, "anna", topic).await;
    let mut ben = Member::new(&server, "ben", topic).await;
    let began = Instant::now();
    assert_eq!(anna.fetch_at_least(0, 20_000).await, [], "nothing is wanted, so nothing is waited for");
    assert!(began.elapsed() < Duration::from_secs(15));

    client.produce("jobs", 0, &[1, 2]).await;
    let began = Instant::now();
    assert_eq!(anna.fetch_at_least(1 << 20, 500).await, [(0, 1, 1)], "what there is, after the time");
    assert!(began.elapsed() >= Duration::from_millis(500), "{:?}", began.elapsed());
    assert_eq!(anna.say(&[(0, 1, &[RELEASE])]).await, ErrorCode::None);

    let (annas, bens) = tokio::join!(anna.fetch_at_least(1 << 20, 1_000), ben.fetch(0));
    assert_eq!((annas, bens), (vec![], vec![(0, 1, 2)]), "who waits for more does not keep others from it");
}

#[tokio::test]
async fn a_fetch_that_waits_for_bytes_is_answered_when_they_are_there() {
    let (server, mut client, topic) = rig(LONG).await;
    let mut anna = Member::new(&server, "anna", topic).await;
    let mut ben = Member::new(&server, "ben", topic).await;
    let size = i32::try_from(common::batch(BatchOptions::default(), &[1, 2]).len()).expect("a small batch");
    let began = Instant::now();
    let (got, ()) = tokio::join!(anna.fetch_at_least(3 * size, 20_000), async {
        for _ in 0..3 {
            client.produce("jobs", 0, &[1, 2]).await;
        }
    });
    assert_eq!(got, [(0, 5, 1)], "all three batches were waited for");
    // Released records count as fresh ones do.
    let (got, ()) = tokio::join!(ben.fetch_at_least(2 * size, 20_000), async {
        assert_eq!(anna.say(&[(0, 1, &[RELEASE])]).await, ErrorCode::None);
        assert_eq!(anna.say(&[(4, 5, &[RELEASE])]).await, ErrorCode::None);
    });
    assert_eq!(got, [(0, 1, 2), (4, 5, 2)]);
    // More than an answer may have is not waited for.
    let most = ShareFetchRequest { min_bytes: i32::MAX, max_bytes: size, ..ben.fetch_request(&[], 20_000) };
    client.produce("jobs", 0, &[1, 2]).await;
    let answer = ben.client.call(2, &most).await;
    assert_eq!(partition_of(&answer).map(acquired), Some(vec![(6, 7, 1)]));
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
}

/// A producer that does not wait makes a batch of each record: one fetch takes in hundreds, whose headers lie across the pieces in which
/// they are read.
#[tokio::test]
async fn hundreds_of_small_batches_are_acquired_at_once() {
    let (server, mut client, topic) = rig(LONG).await;
    for number in 0..400_usize {
        let batch = numbered(number as u64, 1, 150 + number * 37 % 150);
        assert_eq!(client.produce_to("jobs", 0, -1, batch).await.error_code, 0);
    }
    let mut anna = Member::new(&server, "anna", topic).await;
    assert_eq!(anna.fetch(0).await, [(0, 399, 1)]);
}

#[tokio::test]
async fn records_come_again_when_their_lock_ends_unless_it_is_renewed() {
    let (server, mut client, topic) = rig(1000).await;
    client.produce("jobs", 0, &[1, 2]).await;
    let mut anna = Member::new(&server, "anna", topic).await;
    let mut ben = Member::new(&server, "ben", topic).await;
    assert_eq!(anna.fetch(0).await, [(0, 1, 1)]);
    let acquired = Instant::now();
    // Part of the lock must pass before it is renewed: its time is what is tested.
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert_eq!(anna.say(&[(1, 1, &[RENEW])]).await, ErrorCode::None);
    assert_eq!(ben.fetch(20_000).await, [(0, 0, 2)]);
    assert!(acquired.elapsed() >= Duration::from_millis(950), "{:?}", acquired.elapsed());
    assert_eq!(ben.fetch(20_000).await, [(1, 1, 2)]);
    assert!(acquired.elapsed() >= Duration::from_millis(1550), "{:?}", acquired.elapsed());
    assert_eq!(anna.say(&[(0, 0, &[ACCEPT])]).await, ErrorCode::InvalidRecordState, "too late");
}

#[tokio::test]
async fn a_member_that_goes_away_leaves_its_records_to_others() {
    let (server, mut client, topic) = rig(LONG).await;
    client.produce("jobs", 0, &[1, 2, 3]).await;
    let mut anna = Member::new(&server, "anna", topic).await;
    assert_eq!(anna.fetch(0).await, [(0, 2, 1)]);
    let mut ben = Member::new(&server, "ben", topic).await;
    let (got, ()) = tokio::join!(ben.fetch(20_000), async {
        // Nobody tells when a fetch waits. One that comes later gets the same.
        tokio::time::sleep(Duration::from_millis(100)).await;
        drop(anna);
    });
    assert_eq!(got, [(0, 2, 2)], "the connection ended");
    assert_eq!(ben.say_at(-1, &[(0, 0, &[ACCEPT])]).await, ErrorCode::None);
    let mut carla = Member::new(&server, "carla", topic).await;
    // From the third delivery on (half of five) they come a few at a time.
    assert_eq!(carla.fetch(0).await, [(1, 2, 3)], "the session ended");
    assert_eq!(ben.say_at(5, &[(1, 1, &[ACCEPT])]).await, ErrorCode::ShareSessionNotFound);
}

#[tokio::test]
async fn acknowledgements_travel_with_fetches() {
    let (server, mut client, topic) = rig(LONG).await;
    client.produce("jobs", 0, &[1, 2, 3]).await;
    let mut anna = Member::new(&server, "anna", topic).await;
    assert_eq!(anna.fetch(0).await, [(0, 2, 1)]);
    let said: &[Said<'_>] = &[(0, 1, &[ACCEPT]), (2, 2, &[RELEASE])];
    assert_eq!(anna.fetch_and_say(said, 0).await, (vec![(2, 2, 2)], ErrorCode::None));
    let wrong: &[Said<'_>] = &[(2, 2, &[9])];
    assert_eq!(anna.fetch_and_say(wrong, 0).await.1, ErrorCode::InvalidRequest);
    let hidden: &[Said<'_>] = &[(2, 2, &[RENEW])];
    assert_eq!(
        anna.fetch_and_say(hidden, 0).await.1,
        ErrorCode::InvalidRequest,
        "the request does not say so"
    );
    let mut renewal = anna.fetch_request(hidden, 0);
    renewal.is_renew_ack = true;
    let refused = anna.client.call(2, &renewal).await;
    assert_eq!(error(refused.error_code), ErrorCode::InvalidRequest, "renewals fetch nothing");
    let only = ShareFetchRequest { max_bytes: 0, min_bytes: 0, max_records: 0, max_wait_ms: 0, ..renewal };
    let answer = anna.client.call(2, &only).await;
    let data = partition_of(&answer).expect("an answer to the renewal");
    assert_eq!((error(data.acknowledge_error_code), acquired(data).len()), (ErrorCode::None, 0));
    assert_eq!(answer.acquisition_lock_timeout_ms, 30_000);
}

#[tokio::test]
async fn rejected_and_exhausted_records_do_not_come_again() {
    let (server, mut client, topic) = rig(LONG).await;
    configure(&mut client, &[("share.delivery.count.limit", "2")]).await;
    client.produce("jobs", 0, &[1, 2]).await;
    let mut anna = Member::new(&server, "anna", topic).await;
    assert_eq!(anna.fetch(0).await, [(0, 1, 1)]);
    assert_eq!(anna.fetch_and_say(&[(0, 1, &[REJECT, RELEASE])], 0).await.0, [(1, 1, 2)]);
    assert_eq!(anna.fetch_and_say(&[(1, 1, &[RELEASE])], 0).await, (vec![], ErrorCode::None));
    client.produce("jobs", 0, &[3]).await;
    assert_eq!(anna.fetch(0).await, [(2, 2, 1)]);
}

#[tokio::test]
async fn limits_are_those_of_the_mode() {
    let (server, mut client, topic) = rig(LONG).await;
    for _ in 0..3 {
        client.produce("jobs", 0, &[1, 2, 3, 4, 5]).await;
    }
    let mut anna = Member::new(&server, "anna", topic).await;
    let batches = ShareFetchRequest { max_records: 6, batch_size: 2, ..anna.fetch_request(&[], 0) };
    let answer = anna.client.call(2, &batches).await;
    let data = partition_of(&answer).expect("records");
    check_records(data);
    assert_eq!(acquired(data), [(0, 4, 1), (5, 9, 1)]);
    let strict = ShareFetchRequest { max_records: 2, share_acquire_mode: 1, ..anna.fetch_request(&[], 0) };
    let answer = anna.client.call(2, &strict).await;
    let data = partition_of(&answer).expect("records");
    check_records(data);
    assert_eq!(acquired(data), [(10, 11, 1)]);
    let old = ShareFetchRequest { max_records: 1, ..anna.fetch_request(&[], 0) };
    let answer = anna.client.call(1, &old).await;
    assert_eq!(acquired(partition_of(&answer).expect("records")), [(12, 14, 1)]);
}

#[tokio::test]
async fn sessions_and_their_faults() {
    let settings = [("group.share.max.share.sessions", "1"), ("group.share.assignment.interval.ms", "0")];
    let server = TestServer::with(&settings).await;
    let mut client = server.connect().await;
    let topic = client.create_topic("jobs", 1, &[]).await;
    let mut stranger = Member::new(&server, "stranger", topic).await;
    let request = stranger.fetch_request(&[], 0);
    let answer = stranger.client.call(2, &request).await;
    let code = error(partition_of(&answer).expect("an error").error_code);
    assert_eq!(code, ErrorCode::UnknownServerError, "nobody ever joined the group");
    assert_eq!(stranger.say_at(-1, &[]).await, ErrorCode::InvalidRecordState, "it holds none");
    join_and_leave(&mut client, topic).await;
    let mut anna = Member::new(&server, "anna", topic).await;
    let code = |answer: ShareFetchResponse| error(answer.error_code);
    let early = ShareFetchRequest { share_session_epoch: 1, ..anna.fetch_request(&[], 0) };
    assert_eq!(code(anna.client.call(2, &early).await), ErrorCode::ShareSessionNotFound);
    assert_eq!(anna.say_at(-1, &[]).await, ErrorCode::ShareSessionNotFound);
    let close = ShareFetchRequest { share_session_epoch: -1, ..early.clone() };
    assert_eq!(code(anna.client.call(2, &close).await), ErrorCode::ShareSessionNotFound);
    anna.epoch = 0;
    assert_eq!(anna.fetch(0).await, []);
    let again = ShareFetchRequest { share_session_epoch: 2, ..early.clone() };
    assert_eq!(code(anna.client.call(2, &again).await), ErrorCode::InvalidShareSessionEpoch);
    assert_eq!(anna.say_at(0, &[]).await, ErrorCode::InvalidShareSessionEpoch);
    let mut ben = Member::new(&server, "ben", topic).await;
    let full = ben.fetch_request(&[], 0);
    assert_eq!(code(ben.client.call(2, &full).await), ErrorCode::ShareSessionLimitReached);
    let mut first = anna.fetch_request(&[(0, 0, &[ACCEPT])], 0);
    first.share_session_epoch = 0;
    assert_eq!(
        code(anna.client.call(2, &first).await),
        ErrorCode::InvalidRequest,
        "nothing can be acquired yet"
    );
    for (group, member) in
        [(None, Some("m")), (Some(""), Some("m")), (Some("g"), None), (Some("g"), Some(""))]
    {
        let request = ShareFetchRequest {
            group_id: group.map(str::to_owned),
            member_id: member.map(str::to_owned),
            ..early.clone()
        };
        assert_eq!(code(anna.client.call(2, &request).await), ErrorCode::InvalidRequest);
    }
    drop(anna);
    eventually("the session ends with its connection", async || {
        let mut carla = Member::new(&server, "carla", topic).await;
        let request = carla.fetch_request(&[], 0);
        code(carla.client.call(2, &request).await) == ErrorCode::None
    })
    .await;
}

#[tokio::test]
async fn unknown_topics_and_partitions_are_said_to_be_so() {
    let (server, _client, topic) = rig(LONG).await;
    let mut anna = Member::new(&server, "anna", [9; 16]).await;
    let request = anna.fetch_request(&[], 0);
    let answer = anna.client.call(2, &request).await;
    assert_eq!(error(partition_of(&answer).expect("an error").error_code), ErrorCode::UnknownTopicId);
    let mut ben = Member::new(&server, "ben", topic).await;
    let mut request = ben.fetch_request(&[], 0);
    for wrong in [1, -1, i32::MAX] {
        request.topics[0].partitions[0].partition_index = wrong;
        request.share_session_epoch = 0;
        let answer = ben.client.call(2, &request).await;
        let code = error(partition_of(&answer).expect("an error").error_code);
        assert_eq!(code, ErrorCode::UnknownTopicOrPartition);
    }
}

#[tokio::test]
async fn a_group_begins_where_it_is_configured_to_and_a_restart_does_not_change_that() {
    let (mut server, mut client, topic) = rig(LONG).await;
    configure(&mut client, &[("share.auto.offset.reset", "latest")]).await;
    client.produce("jobs", 0, &[1, 2]).await;
    let mut anna = Member::new(&server, "anna", topic).await;
    assert_eq!(anna.fetch(0).await, []);
    client.produce("jobs", 0, &[3]).await;
    server.restart().await;
    let mut anna = Member::new(&server, "anna", topic).await;
    assert_eq!(anna.fetch(0).await, [(2, 2, 1)], "it was decided before the restart");
}

#[tokio::test]
async fn records_that_are_deleted_are_passed_over() {
    use tailrace_kafka_wire::messages::DeleteRecordsRequest;
    use tailrace_kafka_wire::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
    let (server, mut client, topic) = rig(LONG).await;
    client.produce("jobs", 0, &[1, 2, 3, 4]).await;
    let mut anna = Member::new(&server, "anna", topic).await;
    let strict = ShareFetchRequest { max_records: 1, share_acquire_mode: 1, ..anna.fetch_request(&[], 0) };
    assert_eq!(acquired(partition_of(&anna.client.call(2, &strict).await).expect("a record")), [(0, 0, 1)]);
    let partitions = vec![DeleteRecordsPartition { partition_index: 0, offset: 3, ..Default::default() }];
    let topics = vec![DeleteRecordsTopic { name: "jobs".to_owned(), partitions, ..Default::default() }];
    let request = DeleteRecordsRequest { topics, timeout_ms: 5_000, ..Default::default() };
    assert_eq!(client.call(2, &request).await.topics[0].partitions[0].error_code, 0);
    assert_eq!(anna.fetch(0).await, [(3, 3, 1)]);
    assert_eq!(anna.say(&[(0, 0, &[ACCEPT])]).await, ErrorCode::None, "it is final anyway");
}

/// A member of the group joins and leaves, so that there is a group with a state of the topic's partition.
#[tokio::test]
async fn batches_that_compaction_has_emptied_are_passed_over() {
    let settings = [
        ("cleanup.policy", "compact"),
        ("internal.segment.bytes", "300"),
        ("min.cleanable.dirty.ratio", "0.01"),
    ];
    let (server, mut client, topic) = rig_with(LONG, &settings).await;
    let mut builder = BatchBuilder::new(BatchOptions::default());
    builder.push(now(), Some(b"another key"), Some(b"value"), &[]).expect("there is room");
    let first = client.produce_batch("jobs", 0, builder.build()).await;
    assert_eq!((first.error_code, first.base_offset), (0, 0));
    for offset in 1..20 {
        assert_eq!(client.produce("jobs", 0, &[now().0]).await, offset);
    }
    // All but the first and those in the active segment go; the last batch of a segment stays, without its record.
    let is_compacted = || async { server.metric("tailrace_compaction_removed_records_total").await >= 10.0 };
    eventually("the cleaner has been there", is_compacted).await;
    let mut anna = Member::new(&server, "anna", topic).await;
    let mut all = Vec::new();
    loop {
        // Everything that is acquired must be there: `fetch` sees to that.
        let acquired = anna.fetch(0).await;
        if acquired.is_empty() {
            break;
        }
        all.extend(acquired);
    }
    assert_eq!(all.first(), Some(&(0, 0, 1)), "{all:?}");
    assert_eq!(all.last().map(|&(_, last, _)| last), Some(19), "{all:?}");
}

async fn join_and_leave(client: &mut Client, topic: [u8; 16]) {
    let mut request = ShareGroupHeartbeatRequest {
        group_id: GROUP.to_owned(),
        member_id: "7d4efac4-6d4f-4f4e-9c4b-3f5a5a1f0a01".to_owned(),
        subscribed_topic_names: Some(vec!["jobs".to_owned()]),
        ..Default::default()
    };
    let (mut assigned, deadline) = (Vec::new(), Instant::now() + PATIENCE);
    while !assigned.contains(&topic) {
        assert!(Instant::now() < deadline, "{assigned:?}");
        let answer = client.call(1, &request).await;
        assert_eq!(error(answer.error_code), ErrorCode::None, "{:?}", answer.error_message);
        request.member_epoch = answer.member_epoch;
        let topics = answer.assignment.into_iter().flat_map(|assignment| assignment.topic_partitions);
        assigned.extend(topics.map(|topic| topic.topic_id));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    request.member_epoch = -1;
    let answer = client.call(1, &request).await;
    assert_eq!(error(answer.error_code), ErrorCode::None, "{:?}", answer.error_message);
}

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
    // Nothing is there of a group that does not exist, as in Kafka.
    assert_eq!(describe(&mut client, "strangers").await, []);
    let mut anna = Member::new(&server, "anna", topic).await;
    assert_eq!(anna.fetch(0).await, [(0, 4, 1)]);
    assert_eq!(describe(&mut client, GROUP).await, [(0, 0, 5)]);
    assert_eq!(anna.say(&[(0, 0, &[ACCEPT]), (3, 3, &[ACCEPT])]).await, ErrorCode::None);
    assert_eq!(describe(&mut client, GROUP).await, [(0, 1, 3)], "one of four is done");
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
    assert_eq!(ben.fetch(0).await, [(2, 4, 1)], "everything from there on, accepted or not");
    assert_eq!(ben.say_at(-1, &[]).await, ErrorCode::None);
    let deleted = client.call(0, &delete).await;
    assert_eq!((deleted.error_code, deleted.responses[0].error_code), (0, 0));
    assert_eq!(describe(&mut client, GROUP).await, []);
    // As Kafka 4.3.1 says it of a topic that the group knows nothing of.
    let again = client.call(0, &delete).await;
    let answer = &again.responses[0];
    assert_eq!((again.error_code, error(answer.error_code)), (0, ErrorCode::UnknownTopicOrPartition));
    assert_eq!(answer.error_message.as_deref(), Some("There is no offset information to delete."));
}

async fn delete_group(client: &mut Client, group: &str) -> ErrorCode {
    let request = DeleteGroupsRequest { groups_names: vec![group.to_owned()], ..Default::default() };
    error(client.call(2, &request).await.results[0].error_code)
}

/// What a group had is gone with it. Also over a kill -9.
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
    assert_eq!(describe(&mut client, GROUP).await, [(0, 1, 1)], "nothing has happened to it");
    assert_eq!(client.call(1, &beat(-1)).await.error_code, 0);
    assert_eq!(delete_group(&mut client, GROUP).await, ErrorCode::None);
}

/// As Kafka 4.3.1 does: a group that does not exist is made, without members, if one of the topics exists.
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

#[tokio::test]
async fn records_that_are_damaged_for_good_are_passed_over() {
    let (server, mut client, topic) = rig_set(LONG, &[], &SCRUBBING).await;
    for _ in 0..3 {
        client.produce("jobs", 0, &[1, 2, 3]).await;
    }
    damage_second_batch(&server, "jobs-0");
    eventually("the damage is found", || async {
        server.get("/healthz").await.1.contains("jobs-0 is damaged")
    })
    .await;
    let mut anna = Member::new(&server, "anna", topic).await;
    assert_eq!(anna.fetch(0).await, [(0, 2, 1)]);
    assert_eq!(anna.fetch_at_least(1 << 20, 500).await, [(6, 8, 1)]);
    assert_eq!(server.metric("tailrace_share_damaged_records_total").await, 3.0);
}
