//! What members acquire, acknowledge and get again.

use std::time::{Duration, Instant};

use super::{
    ACCEPT, LONG, Member, REJECT, RELEASE, RENEW, Said, acquired, check_records, configure, join_and_leave,
    partition_of, rig, rig_set, rig_with,
};
use crate::common;
use crate::common::rig::{SCRUBBING, damage_second_batch, eventually, now, numbered};
use crate::common::{TestServer, error};
use tailrace_kafka_wire::ErrorCode;
use tailrace_kafka_wire::messages::{ShareFetchRequest, ShareFetchResponse};
use tailrace_records::{BatchBuilder, BatchOptions};

#[tokio::test]
async fn each_record_goes_to_one_member_and_never_again_once_accepted() {
    let (mut server, mut client, topic) = rig(LONG).await;
    client.produce("jobs", 0, &[1, 2, 3]).await;
    client.produce("jobs", 0, &[4, 5]).await;
    let mut anna = Member::new(&server, "anna", topic).await;
    let mut ben = Member::new(&server, "ben", topic).await;
    assert_eq!(anna.fetch(0).await, [(0, 4, 1)]);
    assert_eq!(ben.fetch(0).await, [], "anna has acquired all records");
    assert_eq!(ben.say(&[(0, 0, &[ACCEPT])]).await, ErrorCode::InvalidRecordState);
    assert_eq!(anna.say(&[(0, 2, &[ACCEPT, ACCEPT, RELEASE])]).await, ErrorCode::None);
    assert_eq!(ben.fetch(0).await, [(2, 2, 2)]);
    assert_eq!(anna.say(&[(3, 3, &[REJECT])]).await, ErrorCode::None);
    server.restart().await;
    // Members no longer hold the records that they had acquired. Accepted and rejected records stay so.
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
        // Nothing reports when a fetch is waiting. One that comes later gets the same records.
        tokio::time::sleep(Duration::from_millis(100)).await;
        client.produce("jobs", 0, &[1, 2]).await
    });
    assert_eq!(got, [(0, 1, 1)]);
    let (got, code) = tokio::join!(ben.fetch(20_000), async {
        // As above.
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
    assert_eq!(anna.fetch_at_least(0, 20_000).await, [], "the request wants no bytes, so it does not wait");
    assert!(began.elapsed() < Duration::from_secs(15));

    client.produce("jobs", 0, &[1, 2]).await;
    let began = Instant::now();
    assert_eq!(
        anna.fetch_at_least(1 << 20, 500).await,
        [(0, 1, 1)],
        "the available records, after the wait time"
    );
    assert!(began.elapsed() >= Duration::from_millis(500), "{:?}", began.elapsed());
    assert_eq!(anna.say(&[(0, 1, &[RELEASE])]).await, ErrorCode::None);

    let (annas, bens) = tokio::join!(anna.fetch_at_least(1 << 20, 1_000), ben.fetch(0));
    assert_eq!(
        (annas, bens),
        (vec![], vec![(0, 1, 2)]),
        "a member that waits for more does not block others"
    );
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
    assert_eq!(got, [(0, 5, 1)], "the fetch waited for all three batches");
    // Released records count towards the minimum, just as new ones do.
    let (got, ()) = tokio::join!(ben.fetch_at_least(2 * size, 20_000), async {
        assert_eq!(anna.say(&[(0, 1, &[RELEASE])]).await, ErrorCode::None);
        assert_eq!(anna.say(&[(4, 5, &[RELEASE])]).await, ErrorCode::None);
    });
    assert_eq!(got, [(0, 1, 2), (4, 5, 2)]);
    // A fetch does not wait for more than its answer may hold.
    let most = ShareFetchRequest { min_bytes: i32::MAX, max_bytes: size, ..ben.fetch_request(&[], 20_000) };
    client.produce("jobs", 0, &[1, 2]).await;
    let answer = ben.client.call(2, &most).await;
    assert_eq!(partition_of(&answer).map(acquired), Some(vec![(6, 7, 1)]));
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
}

/// A producer that does not wait makes one batch of each record. One fetch then acquires hundreds of batches,
/// some of whose headers cross the borders of the chunks that are read.
#[tokio::test]
async fn hundreds_of_small_batches_are_acquired_at_once() {
    let (server, mut client, topic) = rig(LONG).await;
    // The server reads 64 KiB of headers at a time, starting at a batch. With this size, the end of such a
    // read cuts a header in two.
    let cuts_a_header = |bytes: &usize| (1..61).contains(&(65_536 % numbered(0, 1, *bytes).len()));
    let bytes = (150..300).find(cuts_a_header).expect("there is such a size");
    for number in 0..400 {
        let batch = numbered(number, 1, bytes);
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
    // Part of the lock time must pass before the renewal, because its time is what this tests.
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert_eq!(anna.say(&[(1, 1, &[RENEW])]).await, ErrorCode::None);
    assert_eq!(ben.fetch(20_000).await, [(0, 0, 2)]);
    assert!(acquired.elapsed() >= Duration::from_millis(950), "{:?}", acquired.elapsed());
    assert_eq!(ben.fetch(20_000).await, [(1, 1, 2)]);
    assert!(acquired.elapsed() >= Duration::from_millis(1550), "{:?}", acquired.elapsed());
    assert_eq!(
        anna.say(&[(0, 0, &[ACCEPT])]).await,
        ErrorCode::InvalidRecordState,
        "the acquisition has expired"
    );
}

#[tokio::test]
async fn a_member_that_goes_away_leaves_its_records_to_others() {
    let (server, mut client, topic) = rig(LONG).await;
    client.produce("jobs", 0, &[1, 2, 3]).await;
    let mut anna = Member::new(&server, "anna", topic).await;
    assert_eq!(anna.fetch(0).await, [(0, 2, 1)]);
    let mut ben = Member::new(&server, "ben", topic).await;
    let (got, ()) = tokio::join!(ben.fetch(20_000), async {
        // Nothing reports when a fetch is waiting. One that comes later gets the same records.
        tokio::time::sleep(Duration::from_millis(100)).await;
        drop(anna);
    });
    assert_eq!(got, [(0, 2, 2)], "the connection ended");
    assert_eq!(ben.say_at(-1, &[(0, 0, &[ACCEPT])]).await, ErrorCode::None);
    let mut carla = Member::new(&server, "carla", topic).await;
    // From the third delivery on (half of five), only a few records are delivered at a time.
    assert_eq!(carla.fetch(0).await, [(1, 2, 3)], "the share session ended");
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
        "the request is not marked as a renewal"
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
    assert_eq!(code, ErrorCode::UnknownServerError, "no member ever joined the group");
    assert_eq!(
        stranger.say_at(-1, &[]).await,
        ErrorCode::InvalidRecordState,
        "the stranger has acquired no records"
    );
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
    assert_eq!(anna.fetch(0).await, [(2, 2, 1)], "the start offset was decided before the restart");
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
    assert_eq!(anna.say(&[(0, 0, &[ACCEPT])]).await, ErrorCode::None, "the acknowledgement is final anyway");
}

#[tokio::test]
async fn batches_that_compaction_has_emptied_are_passed_over() {
    let settings = [
        ("cleanup.policy", "compact"),
        ("internal.segment.bytes", "300"),
        ("min.cleanable.dirty.ratio", "0.01"),
    ];
    let (server, mut client, topic) = rig_with(LONG, &settings).await;
    let mut builder = BatchBuilder::new(BatchOptions::default());
    builder.push(now(), Some(b"another key"), Some(b"value"), &[]).expect("the record fits into the batch");
    let first = client.produce_batch("jobs", 0, builder.build()).await;
    assert_eq!((first.error_code, first.base_offset), (0, 0));
    for offset in 1..20 {
        assert_eq!(client.produce("jobs", 0, &[now().0]).await, offset);
    }
    // Compaction removes all records but the first and those in the active segment. The last batch of a
    // segment stays, without its record.
    let is_compacted = || async { server.metric("tailrace_compaction_removed_records_total").await >= 10.0 };
    eventually("the log is compacted", is_compacted).await;
    let mut anna = Member::new(&server, "anna", topic).await;
    let mut all = Vec::new();
    loop {
        // Every acquired record must be in the answer: `fetch` checks that.
        let acquired = anna.fetch(0).await;
        if acquired.is_empty() {
            break;
        }
        all.extend(acquired);
    }
    assert_eq!(all.first(), Some(&(0, 0, 1)), "{all:?}");
    assert_eq!(all.last().map(|&(_, last, _)| last), Some(19), "{all:?}");
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
