//! Quotas of clients (KIP-546, KIP-219, KIP-599, KIP-612). A slow machine lets less pass, so tests of rates
//! only check upper bounds here. `quota_rates` has the lower ones.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::{Duration, Instant};

use tailrace_kafka_wire::messages::*;

use crate::common::rig::{bytes_of, fetch_request, numbered, produce_request};
use crate::common::{Client, TestServer, topic};

const TOPIC: &str = "t";
const INVALID_REQUEST: i16 = 42;
const UNSUPPORTED_VERSION: i16 = 35;
const THROTTLING_QUOTA_EXCEEDED: i16 = 89;

/// A part of an entity.
type Part<'a> = (&'a str, Option<&'a str>);

/// A limit to set, or to remove.
type Op<'a> = (&'a str, Option<f64>);

/// The whole answer to a change that succeeded.
const CHANGED: (i16, Option<String>) = (0, None);

fn alteration(entity: &[Part<'_>], ops: &[Op<'_>]) -> alter_client_quotas_request::EntryData {
    let part = |&(kind, name): &Part<'_>| alter_client_quotas_request::EntityData {
        entity_type: kind.to_owned(),
        entity_name: name.map(str::to_owned),
        ..Default::default()
    };
    let op = |&(key, value): &Op<'_>| alter_client_quotas_request::OpData {
        key: key.to_owned(),
        value: value.unwrap_or_default(),
        remove: value.is_none(),
        ..Default::default()
    };
    alter_client_quotas_request::EntryData {
        entity: entity.iter().map(part).collect(),
        ops: ops.iter().map(op).collect(),
        ..Default::default()
    }
}

async fn alter(
    client: &mut Client,
    entity: &[Part<'_>],
    ops: &[Op<'_>],
    validate_only: bool,
) -> (i16, Option<String>) {
    let entries = vec![alteration(entity, ops)];
    let request = AlterClientQuotasRequest { entries, validate_only, ..Default::default() };
    let mut answer = client.call(1, &request).await;
    let entry = answer.entries.remove(0);
    assert_eq!(entry.entity.len(), entity.len());
    (entry.error_code, entry.error_message)
}

/// Sets one limit for all clients that have no other.
pub(super) async fn limit(client: &mut Client, key: &str, limit: f64) {
    assert_eq!(alter(client, &[("user", None)], &[(key, Some(limit))], false).await, CHANGED);
}

/// Describes entities as `user=alice,client-id=: producer_byte_rate=1`. The error is a code.
async fn describe(
    client: &mut Client,
    components: &[(&str, i8, Option<&str>)],
    strict: bool,
) -> Result<Vec<String>, i16> {
    let component = |&(kind, match_type, name): &(&str, i8, Option<&str>)| {
        describe_client_quotas_request::ComponentData {
            entity_type: kind.to_owned(),
            match_type,
            r#match: name.map(str::to_owned),
            ..Default::default()
        }
    };
    let components = components.iter().map(component).collect();
    let answer =
        client.call(1, &DescribeClientQuotasRequest { components, strict, ..Default::default() }).await;
    if answer.error_code != 0 {
        assert_eq!(answer.entries, None);
        return Err(answer.error_code);
    }
    let entries = answer.entries.unwrap().into_iter().map(|entry| {
        let parts = entry.entity.iter();
        let parts = parts.map(|p| format!("{}={}", p.entity_type, p.entity_name.as_deref().unwrap_or("")));
        let values = entry.values.iter().map(|value| format!("{}={}", value.key, value.value));
        format!("{}: {}", parts.collect::<Vec<_>>().join(","), values.collect::<Vec<_>>().join(","))
    });
    Ok(entries.collect())
}

#[tokio::test]
async fn quotas_are_set_described_and_removed() {
    let server = TestServer::start().await;
    let mut client = server.connect().await;
    let (producer, consumer) = ("producer_byte_rate", "consumer_byte_rate");
    let both: &[Part<'_>] = &[("user", Some("alice")), ("client-id", None)];
    let changes: [(&[Part<'_>], Vec<Op<'_>>); 5] = [
        (both, vec![(producer, Some(1000.0)), (consumer, Some(2000.0))]),
        (&[("client-id", Some("c"))], vec![("controller_mutation_rate", Some(0.5))]),
        (&[("ip", Some("::ffff:1.2.3.4"))], vec![("connection_creation_rate", Some(7.0))]),
        (&[("user", None)], vec![(producer, Some(1.0)), ("request_percentage", Some(0.5))]),
        (&[("user", None)], vec![(producer, None), (consumer, None), ("request_percentage", None)]),
    ];
    for (entity, ops) in changes {
        assert_eq!(alter(&mut client, entity, &ops, false).await, CHANGED);
    }
    let rehearsed = alter(&mut client, both, &[(producer, Some(5.0))], true).await;
    assert_eq!(rehearsed, CHANGED, "and nothing changes");
    let alice = "user=alice,client-id=: producer_byte_rate=1000,consumer_byte_rate=2000";
    let of_client = "client-id=c: controller_mutation_rate=0.5";
    let address = "ip=1.2.3.4: connection_creation_rate=7";
    let mut all = describe(&mut client, &[], false).await.unwrap();
    all.sort();
    assert_eq!(all, [of_client, address, alice]);
    for (components, strict, expected) in [
        (vec![], true, vec![]),
        (vec![("user", 0, Some("alice"))], false, vec![alice]),
        (vec![("user", 0, Some("alice"))], true, vec![]),
        (vec![("user", 2, None), ("client-id", 1, None)], true, vec![alice]),
        (vec![("client-id", 0, Some("c"))], false, vec![of_client]),
        (vec![("client-id", 1, None)], false, vec![alice]),
        (vec![("ip", 0, Some("1.2.3.4"))], true, vec![address]),
        (vec![("ip", 1, None)], false, vec![]),
    ] {
        assert_eq!(describe(&mut client, &components, strict).await.unwrap(), expected, "{components:?}");
    }
    assert_eq!(alter(&mut client, both, &[(producer, None)], false).await, CHANGED);
    let left = describe(&mut client, &[("user", 2, None)], false).await.unwrap();
    assert_eq!(left, ["user=alice,client-id=: consumer_byte_rate=2000"]);
}

#[tokio::test]
async fn what_cannot_be_a_quota_is_refused() {
    let server = TestServer::start().await;
    let mut client = server.connect().await;
    let producer = "producer_byte_rate";
    let (user, address): (&[Part<'_>], &[Part<'_>]) = (&[("user", Some("a"))], &[("ip", Some("1.2.3.4"))]);
    let refused: [(&[Part<'_>], Vec<Op<'_>>, &str); 16] = [
        (&[], vec![(producer, Some(1.0))], "Invalid empty client quota entity"),
        (&[("nope", Some("a"))], vec![], "Unhandled client quota entity type: nope"),
        (&[("user", Some(""))], vec![], "Empty user not supported"),
        (&[("user", None), ("user", None)], vec![], "Invalid client quota entity, duplicate"),
        (&[("user", None), ("ip", None)], vec![], "Invalid quota entity combination"),
        (&[("ip", Some("localhost"))], vec![], "is not a valid IP"),
        (user, vec![("nope", Some(1.0))], "Invalid configuration key nope"),
        (user, vec![("nope", None)], "Invalid configuration key nope"),
        (user, vec![("connection_creation_rate", Some(1.0))], "Invalid configuration key"),
        (address, vec![(producer, Some(1.0))], "Invalid configuration key"),
        (user, vec![(producer, Some(1.0)), (producer, None)], "Duplicate quota key"),
        (user, vec![(producer, Some(0.0))], "Quota producer_byte_rate must be greater than 0"),
        (user, vec![(producer, Some(-1.0))], "Quota producer_byte_rate must be greater than 0"),
        (user, vec![(producer, Some(f64::NAN))], "Quota producer_byte_rate must be greater than 0"),
        (user, vec![(producer, Some(1.5))], "producer_byte_rate cannot be a fractional value"),
        (user, vec![(producer, Some(f64::INFINITY))], "is too large"),
    ];
    for (entity, ops, text) in refused {
        let (code, message) = alter(&mut client, entity, &ops, false).await;
        assert_eq!(code, INVALID_REQUEST, "{entity:?} {ops:?}");
        assert!(message.as_deref().unwrap().contains(text), "{message:?} for {text}");
    }
    assert_eq!(alter(&mut client, user, &[("request_percentage", None)], false).await, CHANGED);
    assert_eq!(describe(&mut client, &[], false).await.unwrap(), [""; 0]);
    for (components, code) in [
        (vec![("user", 2, None), ("user", 1, None)], INVALID_REQUEST),
        (vec![("user", 2, None), ("ip", 2, None)], INVALID_REQUEST),
        (vec![("user", 0, None)], INVALID_REQUEST),
        (vec![("user", 1, Some("a"))], INVALID_REQUEST),
        (vec![("user", 3, None)], INVALID_REQUEST),
        (vec![("", 2, None)], INVALID_REQUEST),
        (vec![("nope", 2, None)], UNSUPPORTED_VERSION),
    ] {
        assert_eq!(describe(&mut client, &components, false).await, Err(code), "{components:?}");
    }
}

#[tokio::test]
async fn one_entity_of_a_request_fails_and_another_one_does_not() {
    let server = TestServer::start().await;
    let mut client = server.connect().await;
    let key = "producer_byte_rate";
    let entries = vec![
        alteration(&[("user", Some("a"))], &[(key, Some(0.0))]),
        alteration(&[("user", Some("b"))], &[(key, Some(1.0))]),
    ];
    let answer = client.call(1, &AlterClientQuotasRequest { entries, ..Default::default() }).await;
    assert_eq!(answer.entries.iter().map(|e| e.error_code).collect::<Vec<_>>(), [INVALID_REQUEST, 0]);
    assert_eq!(describe(&mut client, &[], false).await.unwrap(), ["user=b: producer_byte_rate=1"]);
}

/// Produces as fast as the server reads, for so long, with batches of `bytes`. Returns the number of bytes.
async fn produced(client: &mut Client, bytes: usize, time: Duration) -> usize {
    let request = produce_request(TOPIC, 0, 1, numbered(0, 1, bytes));
    let (began, mut sent) = (Instant::now(), 0);
    while began.elapsed() < time {
        client.call(9, &request).await;
        sent += bytes;
    }
    sent
}

#[tokio::test]
async fn a_producer_does_not_exceed_its_quota() {
    for bytes in [1000, 100_000] {
        let server = TestServer::start().await;
        let mut client = server.connect().await;
        client.create_topic(TOPIC, 1, &[]).await;
        limit(&mut client, "producer_byte_rate", 50_000.0).await;
        let mut other = server.connect().await;
        let time = Duration::from_secs(4);
        let began = Instant::now();
        let (one, two) = tokio::join!(produced(&mut client, bytes, time), produced(&mut other, bytes, time));
        // At first, ten seconds of the quota may pass. Each client may be one batch beyond it.
        let seconds = began.elapsed().as_secs_f64() + 10.0;
        let most = 50_000.0 * seconds * 1.2 + 2.0 * bytes as f64;
        let sent = one + two;
        assert!((sent as f64) < most, "{sent} bytes in batches of {bytes}, at most {most}");
    }
}

#[tokio::test]
async fn a_connection_is_not_read_for_as_long_as_the_answer_says() {
    let server = TestServer::start().await;
    let mut client = server.connect().await;
    client.create_topic(TOPIC, 1, &[]).await;
    limit(&mut client, "producer_byte_rate", 10_000.0).await;
    let produce = produce_request(TOPIC, 0, 1, numbered(0, 1, 120_000));
    let began = Instant::now();
    let answer = client.call(9, &produce).await;
    // (12,000 - 10,000) / 10,000 x 10 s.
    assert!((1500..=2500).contains(&answer.throttle_time_ms), "{}", answer.throttle_time_ms);
    let throttle = Duration::from_millis(u64::try_from(answer.throttle_time_ms).unwrap());
    assert_eq!(answer.responses[0].partition_responses[0].error_code, 0, "it was appended");
    let metadata = MetadataRequest { topics: None, ..Default::default() };
    client.call(9, &metadata).await;
    assert!(began.elapsed() >= throttle, "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_fetch_that_violates_its_quota_is_empty_and_a_batch_beyond_the_quota_still_passes() {
    let server = TestServer::start().await;
    let mut client = server.connect().await;
    client.create_topic(TOPIC, 1, &[]).await;
    for _ in 0..3 {
        client.call(9, &produce_request(TOPIC, 0, 1, numbered(0, 1, 50_000))).await;
    }
    // Ten seconds of this are less than a batch.
    limit(&mut client, "consumer_byte_rate", 4000.0).await;
    let mut first = server.connect().await;
    let answer = first.call(11, &fetch_request(TOPIC, 0, 0)).await;
    assert!(answer.throttle_time_ms > 0, "it is beyond the quota");
    let fetched = bytes_of(&answer.responses[0].partitions[0]).len();
    assert!((50_000..100_000).contains(&fetched), "{fetched}: it is one batch");
    let mut second = server.connect().await;
    let answer = second.call(11, &fetch_request(TOPIC, 0, 1)).await;
    assert!(answer.throttle_time_ms > 0);
    assert_eq!((answer.error_code, answer.responses.len(), answer.session_id), (0, 0, 0));
}

#[tokio::test]
async fn a_fetch_is_cut_so_that_it_keeps_to_its_quota() {
    let server = TestServer::start().await;
    let mut client = server.connect().await;
    client.create_topic(TOPIC, 1, &[]).await;
    for _ in 0..20 {
        client.call(9, &produce_request(TOPIC, 0, 1, numbered(0, 1, 10_000))).await;
    }
    limit(&mut client, "consumer_byte_rate", 5000.0).await;
    let mut reader = server.connect().await;
    let answer = reader.call(11, &fetch_request(TOPIC, 0, 0)).await;
    let fetched = bytes_of(&answer.responses[0].partitions[0]).len();
    assert!((10_000..=50_000).contains(&fetched), "{fetched}");
    assert_eq!(answer.throttle_time_ms, 0);
}

#[tokio::test]
async fn partitions_beyond_the_quota_are_refused_and_old_clients_are_held_up() {
    let server = TestServer::start().await;
    let mut client = server.connect().await;
    limit(&mut client, "controller_mutation_rate", 0.1).await;
    let create = |name: &str, partitions| CreateTopicsRequest {
        topics: vec![topic(name, partitions, &[])],
        ..Default::default()
    };
    let code = |answer: &CreateTopicsResponse| answer.topics[0].error_code;
    let rehearsal = CreateTopicsRequest { validate_only: true, ..create("none", 100) };
    assert_eq!(client.call(7, &rehearsal).await.throttle_time_ms, 0, "nothing changes");
    // The bucket holds 1.1.
    let answer = server.connect().await.call(6, &create("a", 30)).await;
    assert_eq!((code(&answer), answer.throttle_time_ms), (0, 0), "one request may overdraw");
    let answer = server.connect().await.call(6, &create("b", 1)).await;
    assert_eq!(code(&answer), THROTTLING_QUOTA_EXCEEDED);
    assert!((1..=289_000).contains(&answer.throttle_time_ms), "{}", answer.throttle_time_ms);
    let answer = server.connect().await.call(5, &create("c", 1)).await;
    assert_eq!(code(&answer), 0, "it does not know the error");
    assert!(answer.throttle_time_ms > 0);
    let names = vec!["a".to_owned()];
    let delete = DeleteTopicsRequest { topic_names: names, timeout_ms: 10_000, ..Default::default() };
    let answer = server.connect().await.call(5, &delete).await;
    assert_eq!(answer.responses[0].error_code, THROTTLING_QUOTA_EXCEEDED);
    let more = create_partitions_request::CreatePartitionsTopic {
        name: "c".to_owned(),
        count: 2,
        ..Default::default()
    };
    let extend = CreatePartitionsRequest { topics: vec![more], timeout_ms: 10_000, ..Default::default() };
    let answer = server.connect().await.call(3, &extend).await;
    assert_eq!(answer.results[0].error_code, THROTTLING_QUOTA_EXCEEDED);
    let answer = server.connect().await.call(2, &extend).await;
    assert_eq!(answer.results[0].error_code, 0);
    assert!(answer.throttle_time_ms > 0);
}

/// Asks for all topics until an answer says that the client is held up. Returns for how long.
async fn until_held_up(client: &mut Client) -> Duration {
    let metadata = MetadataRequest { topics: None, ..Default::default() };
    for _ in 0..10_000 {
        let throttle_ms = client.call(9, &metadata).await.throttle_time_ms;
        if throttle_ms > 0 {
            return Duration::from_millis(u64::try_from(throttle_ms).unwrap());
        }
    }
    panic!("the client is never held up");
}

#[tokio::test]
async fn a_client_that_takes_too_much_time_of_threads_is_held_up_for_a_second_at_most() {
    let server = TestServer::start().await;
    let mut client = server.connect().await;
    client.create_topic(TOPIC, 1, &[]).await;
    client.call(9, &produce_request(TOPIC, 0, 1, numbered(0, 1, 100))).await;
    // A millisecond in ten seconds.
    limit(&mut client, "request_percentage", 0.01).await;
    let mut busy = server.connect().await;
    let throttle = until_held_up(&mut busy).await;
    assert!(throttle <= Duration::from_secs(1), "{throttle:?}");
    let began = Instant::now();
    // The rate is above the limit for much longer, so all answers say so, and a fetch gets nothing.
    let answer = busy.call(11, &fetch_request(TOPIC, 0, 0)).await;
    // The time began a little earlier, when the server sent its answer.
    let held = began.elapsed() + Duration::from_millis(100);
    assert!(held >= throttle, "it is not read for {throttle:?}, but for {held:?}");
    assert!((1..=1000).contains(&answer.throttle_time_ms), "{}", answer.throttle_time_ms);
    assert_eq!((answer.error_code, answer.responses.len()), (0, 0));
    let mut other = server.connect().await;
    let produced = other.call(9, &produce_request(TOPIC, 0, 1, numbered(0, 1, 100))).await;
    assert!(produced.throttle_time_ms > 0, "all connections of the user share the quota");
    assert_eq!(produced.responses[0].partition_responses[0].error_code, 0, "it was appended");
    let held = server.metric("tailrace_quota_violations_total{quota=\"request_percentage\"}").await;
    assert!(held >= 3.0, "{held}");
}

#[tokio::test]
async fn time_without_work_and_other_users_do_not_count_as_time_of_threads() {
    let server = TestServer::start().await;
    let mut client = server.connect().await;
    client.create_topic(TOPIC, 1, &[]).await;
    // A tenth of a thread: what a waiting fetch would exceed if its wait counted.
    limit(&mut client, "request_percentage", 10.0).await;
    let mut fetch = fetch_request(TOPIC, 0, 0);
    (fetch.max_wait_ms, fetch.min_bytes) = (2000, 1);
    let mut waiting = server.connect().await;
    assert_eq!(waiting.call(11, &fetch).await.throttle_time_ms, 0);
    let of_bob = [("user", Some("bob"))];
    let limits = [("request_percentage", Some(0.000_1))];
    assert_eq!(alter(&mut client, &of_bob, &limits, false).await, CHANGED);
    let metadata = MetadataRequest { topics: None, ..Default::default() };
    for _ in 0..10 {
        assert_eq!(waiting.call(9, &metadata).await.throttle_time_ms, 0);
    }
}

#[tokio::test]
async fn connections_beyond_the_quota_of_an_address_are_closed() {
    let server = TestServer::start().await;
    let mut client = server.connect().await;
    let entity = [("ip", Some("127.0.0.1"))];
    let key = "connection_creation_rate";
    assert_eq!(alter(&mut client, &entity, &[(key, Some(1.0))], false).await, CHANGED);
    let metadata = MetadataRequest { topics: Some(Vec::new()), ..Default::default() };
    let (began, mut served) = (Instant::now(), 0);
    for _ in 0..20 {
        served += u32::from(server.connect().await.try_call(9, &metadata).await.is_some());
    }
    let most = 10.0 + began.elapsed().as_secs_f64() * 1.2 + 1.0;
    assert!(f64::from(served) <= most, "{served} connections, at most {most}");
    assert!(client.try_call(9, &metadata).await.is_some(), "open ones stay");
}
