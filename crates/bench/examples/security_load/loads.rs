//! The loads, by name.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tailrace_kafka_wire::messages::{
    AlterClientQuotasRequest, AlterUserScramCredentialsRequest, CreateAclsRequest, CreateTopicsRequest,
    DeleteAclsRequest, MetadataRequest, alter_client_quotas_request, alter_user_scram_credentials_request,
    create_acls_request, create_topics_request, delete_acls_request,
};

use crate::kafka::{Broker, FETCH_VERSION, PRODUCE_VERSION, batch, fetch, produce, user};
use crate::nats::Client;
use crate::scram::{ITERATIONS, User, salted};
use crate::stream::Way;
use crate::{Arguments, Failure, Figures};

/// Requests in flight on one connection.
const WINDOW: usize = 5;

// Codes of Kafka's ACLs.
const TOPIC: i8 = 2;
const GROUP: i8 = 3;
const LITERAL: i8 = 3;

/// Idle connections that are opened before the ones that count.
const FIRST: usize = 50;

/// TOPIC_AUTHORIZATION_FAILED.
const TOPIC_REFUSED: i16 = 29;

pub(crate) fn run(load: &str, arguments: &Arguments) -> Result<Figures, Failure> {
    match load {
        "topic" => topic(arguments),
        "set-up" => set_up(arguments),
        "produce" => produce_load(arguments),
        "fetch" => fetch_load(arguments),
        "publish" => publish_load(arguments),
        "logins" => logins(arguments),
        "handshakes" => handshakes(arguments),
        "idle" => idle(arguments),
        "rule" => rule(arguments),
        _ => Err("expected topic, set-up, produce, fetch, publish, logins, handshakes, idle or rule".into()),
    }
}

/// Creates a topic with one partition.
fn topic(arguments: &Arguments) -> Result<Figures, Failure> {
    let user = user(arguments)?;
    let mut broker = Broker::connect(&Way::of(arguments, "kafka")?, user.as_ref())?;
    let topic = create_topics_request::CreatableTopic {
        name: arguments.text("topic")?.to_owned(),
        num_partitions: 1,
        replication_factor: 1,
        ..Default::default()
    };
    let request = CreateTopicsRequest { topics: vec![topic], timeout_ms: 30_000, ..Default::default() };
    let answer = broker.call(5, &request)?;
    match answer.topics.first().map(|topic| (topic.error_code, &topic.error_message)) {
        Some((0, _)) => Ok(vec![]),
        refused => Err(format!("the topic was not created: {refused:?}").into()),
    }
}

/// Makes `users` users with `rules` rules for `topics` topics and as many groups, and a quota for each that
/// none of them reaches.
fn set_up(arguments: &Arguments) -> Result<Figures, Failure> {
    let (users, rules) = (arguments.number("users", 1000)?, arguments.number("rules", 10_000)?);
    let topic = arguments.text("topic")?;
    let admin = User::new("admin", arguments.text("admin")?);
    let way = Way::of(arguments, "kafka")?;
    let began = Instant::now();
    let mut broker = loop {
        // The first user is created a moment after the start.
        match Broker::connect(&way, Some(&admin)) {
            Err(_) if began.elapsed() < Duration::from_secs(10) => {
                thread::sleep(Duration::from_millis(100));
            }
            connected => break connected?,
        }
    };
    let password = arguments.text("password")?;
    for first in (0..users).step_by(100) {
        create_users(&mut broker, first..users.min(first + 100), password)?;
    }
    for first in (0..rules).step_by(500) {
        let all = (first..rules.min(first + 500)).map(|number| acl(number, users, topic));
        create_rules(&mut broker, all.collect())?;
    }
    // What the first user needs: user-0 reads and writes the topic and its subjects, and has every quota.
    let needed = [(TOPIC, topic, 3), (TOPIC, topic, 4)];
    let needed = needed.map(|(kind, name, operation)| allow("user-0", kind, name, operation));
    create_rules(&mut broker, needed.into())?;
    if arguments.number("quotas", 1)? > 0 {
        for first in (0..users).step_by(100) {
            create_quotas(&mut broker, first..users.min(first + 100))?;
        }
    }
    Ok(vec![("users", users as f64), ("rules", rules as f64)])
}

fn create_users(broker: &mut Broker, numbers: std::ops::Range<usize>, password: &str) -> Result<(), Failure> {
    let salt = b"a salt of the bench";
    let salted: Bytes = salted(password, salt, ITERATIONS)?.to_vec().into();
    let one = |number| alter_user_scram_credentials_request::ScramCredentialUpsertion {
        name: format!("user-{number}"),
        mechanism: 1,
        iterations: ITERATIONS as i32,
        salt: Bytes::from_static(salt),
        salted_password: salted.clone(),
        ..Default::default()
    };
    let upsertions = numbers.map(one).collect();
    let answer = broker.call(0, &AlterUserScramCredentialsRequest { upsertions, ..Default::default() })?;
    refused(answer.results.iter().map(|result| result.error_code))
}

fn create_rules(
    broker: &mut Broker,
    creations: Vec<create_acls_request::AclCreation>,
) -> Result<(), Failure> {
    let answer = broker.call(3, &CreateAclsRequest { creations, ..Default::default() })?;
    refused(answer.results.iter().map(|result| result.error_code))
}

fn create_quotas(broker: &mut Broker, numbers: std::ops::Range<usize>) -> Result<(), Failure> {
    use alter_client_quotas_request::{EntityData, EntryData, OpData};
    let keys = ["producer_byte_rate", "consumer_byte_rate", "request_percentage"];
    let op = |key: &str| OpData { key: key.to_owned(), value: 1e12, ..Default::default() };
    let entry = |number| {
        let entity_name = Some(format!("user-{number}"));
        let entity = vec![EntityData { entity_type: "user".to_owned(), entity_name, ..Default::default() }];
        EntryData { entity, ops: keys.map(op).into(), ..Default::default() }
    };
    let entries = numbers.map(entry).collect();
    let answer = broker.call(1, &AlterClientQuotasRequest { entries, ..Default::default() })?;
    refused(answer.entries.iter().map(|entry| entry.error_code))
}

fn refused(codes: impl Iterator<Item = i16>) -> Result<(), Failure> {
    match codes.into_iter().find(|code| *code != 0) {
        None => Ok(()),
        Some(code) => Err(format!("the set-up was refused: error {code}").into()),
    }
}

/// A rule for some user: half of them for topics of its own, the others for groups.
fn acl(number: usize, users: usize, topic: &str) -> create_acls_request::AclCreation {
    let name = format!("{topic}-{number}");
    let kind = if number.is_multiple_of(2) { TOPIC } else { GROUP };
    allow(&format!("user-{}", number % users), kind, &name, 3)
}

fn allow(user: &str, kind: i8, name: &str, operation: i8) -> create_acls_request::AclCreation {
    create_acls_request::AclCreation {
        resource_type: kind,
        resource_name: name.to_owned(),
        resource_pattern_type: LITERAL,
        principal: format!("User:{user}"),
        host: "*".to_owned(),
        operation,
        permission_type: 3,
        ..Default::default()
    }
}

/// Runs `connections` copies of `work` at the same time, for `seconds` from the moment at which all are
/// ready. Returns the sum of what they return, and the time that all together took.
fn together(
    arguments: &Arguments,
    work: impl Fn(&Arguments, usize, &dyn Fn() -> Instant) -> Result<f64, Failure> + Send + Sync + 'static,
) -> Result<(f64, f64), Failure> {
    let connections = arguments.number("connections", 1)?;
    let time = Duration::from_secs_f64(arguments.number("seconds", 3.0)?);
    let (barrier, work) = (Arc::new(Barrier::new(connections + 1)), Arc::new(work));
    let threads: Vec<_> = (0..connections)
        .map(|number| {
            let (barrier, work, arguments) = (Arc::clone(&barrier), Arc::clone(&work), arguments.clone());
            thread::spawn(move || {
                let has_begun = AtomicBool::new(false);
                let begin = || {
                    has_begun.store(true, Ordering::Relaxed);
                    barrier.wait();
                    Instant::now() + time
                };
                let done = work(&arguments, number, &begin);
                // A thread that fails before it begins must not keep the others waiting.
                if !has_begun.load(Ordering::Relaxed) {
                    barrier.wait();
                }
                done
            })
        })
        .collect();
    barrier.wait();
    let began = Instant::now();
    let mut sum = 0.0;
    for thread in threads {
        sum += thread.join().map_err(|_| "a thread panicked")??;
    }
    Ok((sum, began.elapsed().as_secs_f64()))
}

/// Appends batches, some of them in flight, for a time.
fn produce_load(arguments: &Arguments) -> Result<Figures, Failure> {
    let records: i32 = arguments.number("records", 100)?;
    let value_bytes: usize = arguments.number("bytes", 1024)?;
    let (batches, seconds) = together(arguments, move |arguments, _, begin| {
        let mut broker = Broker::connect(&Way::of(arguments, "kafka")?, user(arguments)?.as_ref())?;
        let request = produce(arguments.text("topic")?, &batch(records, value_bytes));
        let (end, mut sent, mut acknowledged) = (begin(), 0, 0);
        loop {
            let is_over = Instant::now() >= end;
            while !is_over && sent - acknowledged < WINDOW {
                broker.send(PRODUCE_VERSION, &request)?;
                sent += 1;
            }
            if sent == acknowledged {
                return Ok(acknowledged as f64);
            }
            let answer = broker.receive::<tailrace_kafka_wire::messages::ProduceRequest>(PRODUCE_VERSION)?;
            let outcome = answer.responses.first().and_then(|topic| topic.partition_responses.first());
            match outcome.map(|outcome| outcome.error_code) {
                Some(0) if answer.throttle_time_ms == 0 => acknowledged += 1,
                code => return Err(format!("{code:?}, throttled {} ms", answer.throttle_time_ms).into()),
            }
        }
    })?;
    let records = batches * f64::from(records);
    Ok(vec![
        ("records_per_s", records / seconds),
        ("bytes_per_s", records * value_bytes as f64 / seconds),
        ("records", records),
        ("bytes", records * value_bytes as f64),
    ])
}

/// Reads the topic from its start, again and again, for a time.
fn fetch_load(arguments: &Arguments) -> Result<Figures, Failure> {
    let (bytes, seconds) = together(arguments, |arguments, _, begin| {
        let mut broker = Broker::connect(&Way::of(arguments, "kafka")?, user(arguments)?.as_ref())?;
        let topic = arguments.text("topic")?;
        let (end, mut offset, mut bytes) = (begin(), 0, 0.0);
        while Instant::now() < end {
            let answer = broker.call(FETCH_VERSION, &fetch(topic, offset))?;
            let found = answer.responses.first().and_then(|topic| topic.partitions.first());
            let found = found.filter(|found| found.error_code == 0 && answer.throttle_time_ms == 0);
            let found = found.ok_or_else(|| format!("error {answer:?}"))?;
            let tailrace_kafka_wire::Records::Bytes(records) = &found.records else {
                return Err("no records".into());
            };
            bytes += records.len() as f64;
            let next = next_offset(records, found.high_watermark);
            offset = if next >= found.high_watermark { 0 } else { next };
        }
        Ok(bytes)
    })?;
    Ok(vec![("bytes_per_s", bytes / seconds), ("bytes", bytes)])
}

/// The offset after the last complete batch.
fn next_offset(mut records: &[u8], otherwise: i64) -> i64 {
    let mut next = otherwise;
    while let (Some(base), Some(length)) =
        (records.first_chunk::<8>(), records.get(8..12).and_then(<[u8]>::first_chunk))
    {
        let whole = 12 + usize::try_from(i32::from_be_bytes(*length)).unwrap_or(usize::MAX - 12);
        let Some(delta) = records.get(23..27).and_then(<[u8]>::first_chunk) else { break };
        if whole > records.len() {
            break;
        }
        next = i64::from_be_bytes(*base) + i64::from(i32::from_be_bytes(*delta)) + 1;
        records = &records[whole..];
    }
    next
}

/// Publishes messages in pieces of 64 KiB for a time, and waits until the server has taken them.
fn publish_load(arguments: &Arguments) -> Result<Figures, Failure> {
    let bytes: usize = arguments.number("bytes", 128)?;
    let (messages, seconds) = together(arguments, move |arguments, _, begin| {
        let mut client = Client::connect(&Way::of(arguments, "nats")?, arguments)?;
        let message = format!("PUB {} {bytes}\r\n{}\r\n", arguments.text("subject")?, "x".repeat(bytes));
        let count = (65_536 / message.len()).max(1);
        let piece = message.repeat(count);
        let (end, mut sent) = (begin(), 0);
        while Instant::now() < end {
            client.send(piece.as_bytes())?;
            sent += count;
        }
        client.until_pong()?;
        Ok(sent as f64)
    })?;
    Ok(vec![
        ("messages_per_s", messages / seconds),
        ("bytes_per_s", messages * bytes as f64 / seconds),
        ("messages", messages),
        ("bytes", messages * bytes as f64),
    ])
}

/// Connects, logs in with SCRAM-SHA-256 and closes, for a time.
fn logins(arguments: &Arguments) -> Result<Figures, Failure> {
    let user = Arc::new(user(arguments)?.ok_or("user= is missing")?);
    // The slow hash of the client is computed here.
    Broker::connect(&Way::of(arguments, "kafka")?, Some(&user))?;
    let (logins, seconds) = together(arguments, move |arguments, _, begin| {
        let way = Way::of(arguments, "kafka")?;
        let (end, mut logins) = (begin(), 0.0);
        while Instant::now() < end {
            Broker::connect(&way, Some(&user))?;
            logins += 1.0;
        }
        Ok(logins)
    })?;
    Ok(vec![("logins_per_s", logins / seconds), ("logins", logins)])
}

/// Makes whole TLS handshakes, one connection each, for a time. Kafka's listener is asked for metadata, so
/// that the server has to complete its side too.
fn handshakes(arguments: &Arguments) -> Result<Figures, Failure> {
    let (handshakes, seconds) = together(arguments, |arguments, _, begin| {
        let is_nats = arguments.given("nats").is_some();
        let way = Way::of(arguments, if is_nats { "nats" } else { "kafka" })?;
        let (end, mut handshakes) = (begin(), 0.0);
        while Instant::now() < end {
            if is_nats {
                Client::connect(&way, arguments)?;
            } else {
                let mut broker = Broker::connect(&way, None)?;
                broker.call(9, &MetadataRequest { topics: Some(Vec::new()), ..Default::default() })?;
            }
            handshakes += 1.0;
        }
        Ok(handshakes)
    })?;
    Ok(vec![("handshakes_per_s", handshakes / seconds), ("handshakes", handshakes)])
}

/// The resident memory of a process that is not a part of a file, such as its program. In bytes.
fn resident(pid: u32) -> Result<f64, Failure> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).ok_or("no RssAnon")?;
    let kib: f64 = line.split_whitespace().next().ok_or("no RssAnon")?.parse()?;
    Ok(kib * 1024.0)
}

/// Opens connections, each with one request or one PING, and measures what they take once they are idle.
/// A few come before, so that what the first one needs does not count.
fn idle(arguments: &Arguments) -> Result<Figures, Failure> {
    let (count, pid) = (arguments.number("connections", 1000)?, arguments.number("pid", 0)?);
    let settle = Duration::from_secs_f64(arguments.number("settle", 5.0)?);
    let is_nats = arguments.given("nats").is_some();
    let (way, user) = (Way::of(arguments, if is_nats { "nats" } else { "kafka" })?, user(arguments)?);
    let (mut before, mut brokers, mut clients) = (0.0, Vec::new(), Vec::new());
    for number in 0..count + FIRST {
        if number == FIRST {
            thread::sleep(settle);
            before = resident(pid)?;
        }
        if is_nats {
            clients.push(Client::connect(&way, arguments)?);
        } else {
            let mut broker = Broker::connect(&way, user.as_ref())?;
            broker.call(9, &MetadataRequest { topics: Some(Vec::new()), ..Default::default() })?;
            brokers.push(broker);
        }
    }
    // An idle connection gives its buffer back after a second or two.
    thread::sleep(settle);
    let taken = resident(pid)? - before;
    Ok(vec![("bytes_per_connection", taken / count as f64)])
}

/// Adds and removes a DENY, and measures how long the open connections of the user notice nothing.
fn rule(arguments: &Arguments) -> Result<Figures, Failure> {
    let times: usize = arguments.number("times", 20)?;
    let topic = arguments.text("topic")?;
    let way = Way::of(arguments, "kafka")?;
    let mut admin = Broker::connect(&way, Some(&User::new("admin", arguments.text("admin")?)))?;
    let mut broker = Broker::connect(&way, user(arguments)?.as_ref())?;
    let mut client = Client::connect(&Way::of(arguments, "nats")?, arguments)?;
    let request = produce(topic, &batch(1, 10));
    let deny = create_acls_request::AclCreation { permission_type: 2, ..allow("user-0", TOPIC, topic, 4) };
    let message = format!("PUB {topic} 1\r\nx\r\n");
    let (mut by_kafka, mut by_nats) = (Vec::new(), Vec::new());
    for time in 0..2 * times {
        let is_denied = time.is_multiple_of(2);
        // From the moment at which the administrator asks.
        let asked = Instant::now();
        if is_denied {
            create_rules(&mut admin, vec![deny.clone()])?;
        } else {
            remove(&mut admin, &deny)?;
        }
        let answer = |broker: &mut Broker| -> Result<bool, Failure> {
            let answer = broker.call(PRODUCE_VERSION, &request)?;
            Ok(answer.responses[0].partition_responses[0].error_code == TOPIC_REFUSED)
        };
        by_kafka.push(until(asked, || Ok(answer(&mut broker)? == is_denied))?);
        let refused = |client: &mut Client| -> Result<bool, Failure> {
            client.send(message.as_bytes())?;
            Ok(client.said_until_pong()?.is_some())
        };
        by_nats.push(until(asked, || Ok(refused(&mut client)? == is_denied))?);
    }
    let most = |times: &[f64]| times.iter().copied().fold(0.0, f64::max);
    Ok(vec![
        ("kafka_median_ms", median(&mut by_kafka)),
        ("kafka_max_ms", most(&by_kafka)),
        ("nats_median_ms", median(&mut by_nats)),
        ("nats_max_ms", most(&by_nats)),
    ])
}

fn remove(admin: &mut Broker, rule: &create_acls_request::AclCreation) -> Result<(), Failure> {
    let filter = delete_acls_request::DeleteAclsFilter {
        resource_type_filter: rule.resource_type,
        resource_name_filter: Some(rule.resource_name.clone()),
        pattern_type_filter: rule.resource_pattern_type,
        principal_filter: Some(rule.principal.clone()),
        host_filter: None,
        operation: rule.operation,
        permission_type: rule.permission_type,
        ..Default::default()
    };
    let answer = admin.call(3, &DeleteAclsRequest { filters: vec![filter], ..Default::default() })?;
    refused(answer.filter_results.iter().map(|result| result.error_code))
}

/// Returns the milliseconds since `asked` until the condition holds.
fn until(asked: Instant, mut holds: impl FnMut() -> Result<bool, Failure>) -> Result<f64, Failure> {
    while !holds()? {
        if asked.elapsed() > Duration::from_secs(30) {
            return Err("a rule does not hold after 30 s".into());
        }
    }
    Ok(asked.elapsed().as_secs_f64() * 1000.0)
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or_default()
}
