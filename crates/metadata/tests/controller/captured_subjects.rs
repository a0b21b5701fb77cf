//! The subjects a topic may capture, the message of each refusal, and the size of its batches.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use tailrace_config::{DynamicConfigs, PATTERNS_BYTES_MAX, PATTERNS_MAX};
use tailrace_metadata::*;
use tailrace_types::{TimestampMs, TopicId, TopicName};

const SUBJECTS: &str = "tailrace.subjects";
const SIZE: &str = "max.message.bytes";
/// The minimum batch size of a topic that captures messages of the default size. See docs/configuration.md.
const LEAST: u32 = 1_048_576 + 16_384 + 4096 + 256;

struct Fixture {
    controller: Controller,
    ids: u128,
}

impl Fixture {
    fn new(fixed: &[(&str, &str)]) -> Self {
        let fixed: BTreeMap<_, _> = fixed.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        Self { controller: Controller::new(fixed).expect("legal"), ids: 0 }
    }

    fn run(&mut self, command: &Command) -> Result<(), String> {
        let before = self.controller.image();
        let records = match self.controller.plan(command) {
            Ok(records) => records,
            Err(error) => {
                assert_eq!(before, self.controller.image(), "a refusal changes nothing");
                return Err(error.to_string());
            }
        };
        for record in records {
            let record = MetadataRecord::decode(&record.encode()).expect("records can be read back");
            self.controller.apply(&record).expect("planned records apply");
        }
        Ok(())
    }

    fn create(&mut self, name: &str, configs: &[(&str, &str)]) -> Result<(), String> {
        self.ids += 1;
        let id = TopicId(self.ids.to_be_bytes());
        let mut create = CreateTopic::with_defaults(name, id, TimestampMs(1), Requester::Broker);
        create.configs = configs.iter().map(|(k, v)| ((*k).to_owned(), Some((*v).to_owned()))).collect();
        self.run(&Command::CreateTopic(create))
    }

    fn bind(&mut self, name: &str, subjects: &str) -> Result<(), String> {
        self.create(name, &[(SUBJECTS, subjects)])
    }

    fn alter(&mut self, topic: &str, action: ConfigAction, key: &str, value: &str) -> Result<(), String> {
        let op = ConfigOp { key: key.to_owned(), action, value: Some(value.to_owned()) };
        let change = ConfigChange::Incremental(vec![op]);
        self.run(&Command::AlterTopicConfigs { topic: topic.to_owned(), change })
    }

    fn set(&mut self, topic: &str, subjects: &str) -> Result<(), String> {
        self.alter(topic, ConfigAction::Set, SUBJECTS, subjects)
    }

    fn patterns(&self, topic: &str) -> Vec<String> {
        let image = self.controller.image();
        let config = &image.topic(topic).unwrap().config;
        config.tailrace_subjects.patterns().iter().map(ToString::to_string).collect()
    }

    fn size(&self, topic: &str) -> u32 {
        let image = self.controller.image();
        let described = image.describe_topic(topic).unwrap();
        let shown = described.iter().find(|entry| entry.name == SIZE).unwrap().value.clone().unwrap();
        let holds = image.topic(topic).unwrap().config.max_message_bytes;
        assert_eq!(shown, holds.to_string(), "what is shown is what holds");
        holds
    }
}

fn overlap(topic: &str, pattern: &str, other: &str, other_pattern: &str) -> String {
    format!(
        "tailrace.subjects: '{pattern}' of topic '{topic}' overlaps '{other_pattern}' of topic '{other}'; a subject \
         can be captured only once"
    )
}

#[test]
fn overlapping_topics_are_refused_at_creation_and_later() {
    let mut f = Fixture::new(&[]);
    f.bind("orders", "orders.>").unwrap();
    for (pattern, refused) in [
        ("orders.eu", true),
        ("orders.*", true),
        ("orders.>", true),
        ("orders.eu.>", true),
        ("orders", false),
        ("order.>", false),
        ("Orders.eu", false),
    ] {
        let expected = if refused { Err(overlap("new", pattern, "orders", "orders.>")) } else { Ok(()) };
        assert_eq!(f.bind("new", pattern), expected, "{pattern}");
        if !refused {
            let topic = TopicRef::Name("new".to_owned());
            f.run(&Command::DeleteTopic { topic, by: Requester::Client }).unwrap();
        }
    }
    f.bind("audit", "audit.*.eu").unwrap();
    assert_eq!(f.set("audit", "x.y, orders.*"), Err(overlap("audit", "orders.*", "orders", "orders.>")));
    assert_eq!(
        f.alter("audit", ConfigAction::Append, SUBJECTS, "orders.us"),
        Err(overlap("audit", "orders.us", "orders", "orders.>"))
    );
    assert_eq!(f.set("orders", "audit.a.*"), Err(overlap("orders", "audit.a.*", "audit", "audit.*.eu")));
    assert_eq!(f.patterns("audit"), ["audit.*.eu"]);
}

#[test]
fn a_topic_can_change_its_own_patterns_and_leave_them_to_others() {
    let mut f = Fixture::new(&[]);
    f.bind("a", "x.>, y.1").unwrap();
    assert_eq!(f.patterns("a"), ["x.>", "y.1"]);
    f.set("a", "x.*,y.1").unwrap();
    f.alter("a", ConfigAction::Append, SUBJECTS, "z.1,x.*").unwrap();
    assert_eq!(f.patterns("a"), ["x.*", "y.1", "z.1"]);
    f.alter("a", ConfigAction::Subtract, SUBJECTS, "x.*").unwrap();
    f.bind("b", "x.>").unwrap();
    f.set("a", "").unwrap();
    assert!(f.patterns("a").is_empty());
    f.set("b", "x.>,y.>,z.>").unwrap();
    f.run(&Command::DeleteTopic { topic: TopicRef::Name("b".to_owned()), by: Requester::Client }).unwrap();
    f.set("a", "x.>").unwrap();
    assert_eq!(f.set("a", "x.>,x.1"), Err(overlap("a", "x.1", "a", "x.>")));
    assert_eq!(f.set("a", "x.1,x.1"), Err(overlap("a", "x.1", "a", "x.1")));
}

#[test]
fn bindings_come_back_when_the_records_are_replayed() {
    let mut f = Fixture::new(&[]);
    f.bind("a", "x.>,y").unwrap();
    f.alter("a", ConfigAction::Set, "tailrace.subjects.ack", "false").unwrap();
    let mut replayed = Controller::new(BTreeMap::new()).unwrap();
    for record in f.controller.snapshot_records() {
        replayed.apply(&record).unwrap();
    }
    assert_eq!(replayed.image(), f.controller.image());
    let config = replayed.image().topic("a").unwrap().config.clone();
    assert!(!config.tailrace_subjects_ack);
    assert_eq!(config.tailrace_subjects.patterns().len(), 2);
}

#[test]
fn patterns_that_are_none_are_refused_with_their_position() {
    let mut f = Fixture::new(&[]);
    for (subjects, reason) in [
        ("a..b", "'a..b' is not a NATS subject: empty word at byte 2"),
        ("a.>.b", "'a.>.b' is not a NATS subject: `>` at byte 2 is not the last word"),
        ("a b", "'a b' is not a NATS subject: byte 0x20 at 1 is not allowed"),
        ("a,,b", "'' is not a NATS subject: empty NATS subject"),
        ("a.\u{7f}", "'a.\u{7f}' is not a NATS subject: byte 0x7f at 2 is not allowed"),
    ] {
        let expected = format!("Invalid value {subjects} for configuration tailrace.subjects: {reason}");
        assert_eq!(f.bind("t", subjects), Err(expected));
    }
    let long = format!("a.{}", "x".repeat(4095));
    assert!(f.bind("t", &long).unwrap_err().contains("4097 bytes: the limit is 4096"));
    f.bind("t", "a.b*,ü.>").unwrap();
    assert_eq!(f.patterns("t"), ["a.b*", "ü.>"]);
}

#[test]
fn what_belongs_to_nats_itself_is_not_captured() {
    let mut f = Fixture::new(&[]);
    for subjects in ["$JS.API.>", "$JS.*", "$SYS.>", "_INBOX.a.b", "_R_.a", "$SYS.REQ.SERVER.PING"] {
        let error = f.bind("t", subjects).unwrap_err();
        assert!(error.contains("which belongs to NATS itself"), "{error}");
    }
    for subjects in [">", "*", "*.>", "*.orders.>"] {
        let error = f.bind("t", subjects).unwrap_err();
        let expected = format!(
            "Invalid value {subjects} for configuration tailrace.subjects: '{subjects}' starts with a wildcard, so it \
             would also capture $JS.>, $SYS.>, _INBOX.>, _R_.>, which belong to NATS itself; start with a word, \
             as in orders.{subjects}"
        );
        assert_eq!(error, expected);
    }
    // Buckets of keys and objects, and words that only look similar, may be captured.
    f.bind("t", "$KV.config.>,$O.files.>,_INBOXES.>,$JSX.>,a._INBOX.>").unwrap();
}

#[test]
fn internal_topics_capture_nothing() {
    let mut f = Fixture::new(&[]);
    let words = "tailrace.subjects: topic '__consumer_offsets' is internal and cannot capture NATS subjects";
    assert_eq!(f.bind(CONSUMER_OFFSETS_TOPIC, "a.>"), Err(words.to_owned()));
    f.create(CONSUMER_OFFSETS_TOPIC, &[]).unwrap();
    assert_eq!(f.set(CONSUMER_OFFSETS_TOPIC, "a.>"), Err(words.to_owned()));
}

#[test]
fn patterns_are_bounded_in_number_and_bytes() {
    let mut f = Fixture::new(&[]);
    let patterns = |count: usize| (0..count).map(|n| format!("a.{n}")).collect::<Vec<_>>().join(",");
    f.bind("t", &patterns(PATTERNS_MAX)).unwrap();
    assert!(f.bind("u", &patterns(PATTERNS_MAX + 1)).unwrap_err().contains("1001 patterns are more than"));
    let word = |n: u8| char::from(n).to_string().repeat(PATTERNS_BYTES_MAX / 16);
    let long = (b'a'..b'q').map(word).collect::<Vec<_>>().join(",");
    f.bind("v", &long).unwrap();
    assert!(f.bind("w", &format!("{long},z")).unwrap_err().contains("32769 bytes, the limit is 32768"));
}

#[test]
fn a_topic_that_captures_takes_a_batch_with_the_largest_message() {
    let mut f = Fixture::new(&[]);
    f.create("plain", &[]).unwrap();
    assert_eq!(f.size("plain"), 1_048_588);
    f.bind("bound", "a.>").unwrap();
    assert_eq!(f.size("bound"), LEAST);
    let refusal = |value: u32| {
        Err(format!(
            "Invalid value {value} for configuration max.message.bytes: a topic with tailrace.subjects needs at least \
             {LEAST} bytes, since tailrace.nats.max.payload.bytes is 1048576; raise it or leave it out"
        ))
    };
    let small = (LEAST - 1).to_string();
    assert_eq!(f.create("small", &[(SUBJECTS, "b.>"), (SIZE, &small)]), refusal(LEAST - 1));
    assert_eq!(f.alter("bound", ConfigAction::Set, SIZE, "1000"), refusal(1000));
    f.alter("bound", ConfigAction::Set, SIZE, &LEAST.to_string()).unwrap();
    f.alter("bound", ConfigAction::Set, SIZE, "8000000").unwrap();
    assert_eq!(f.size("bound"), 8_000_000);
    f.create("small", &[(SIZE, "1000")]).unwrap();
    assert_eq!(f.set("small", "b.>"), refusal(1000));
    // A topic without subjects has no minimum.
    f.set("bound", "").unwrap();
    f.alter("bound", ConfigAction::Set, SIZE, "1000").unwrap();
    assert_eq!(f.size("bound"), 1000);
}

#[test]
fn larger_messages_at_the_next_start_raise_the_size_and_keep_nothing_from_starting() {
    let mut f = Fixture::new(&[(SIZE, "500")]);
    f.bind("inherits", "a.>").unwrap();
    f.create("sets", &[(SUBJECTS, "b.>"), (SIZE, "2000000")]).unwrap();
    f.create("plain", &[]).unwrap();
    assert_eq!(["inherits", "sets", "plain"].map(|topic| f.size(topic)), [LEAST, 2_000_000, 500]);
    let fixed = [("tailrace.nats.max.payload.bytes", "6400000")];
    let fixed = fixed.into_iter().map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
    let mut restarted = Controller::new(fixed).unwrap();
    for record in f.controller.snapshot_records() {
        restarted.apply(&record).unwrap();
    }
    f.controller = restarted;
    let least = 6_400_000 + 100_000 + 4096 + 256;
    assert_eq!(["inherits", "sets"].map(|topic| f.size(topic)), [least, least]);
}

#[test]
fn the_payload_must_fit_what_may_wait_for_a_client() {
    let fixed = [("tailrace.nats.max.payload.bytes", "5000"), ("tailrace.nats.max.pending.bytes", "4000")];
    let fixed = fixed.into_iter().map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
    let error = tailrace_config::BrokerConfig::resolve(&fixed, &DynamicConfigs::default()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "tailrace.nats.max.pending.bytes=4000 does not fit tailrace.nats.max.payload.bytes=5000: the queue of a \
         client must hold the largest message"
    );
}

#[test]
fn a_change_is_checked_against_ten_thousand_topics_in_little_time() {
    let mut f = Fixture::new(&[]);
    for number in 0..10_000_u128 {
        // Literals, and wildcards in the middle and at the end, all under the same first words.
        let subjects = format!("devices.{number}.>,sites.*.{number},names.a.b.{number}");
        let record = MetadataRecord::TopicCreated {
            name: TopicName::new(&format!("t{number}")).unwrap(),
            id: TopicId((number + 1000).to_be_bytes()),
            partitions: 1,
            replication_factor: 1,
            created_at: TimestampMs(1),
            configs: BTreeMap::from([(SUBJECTS.to_owned(), subjects)]),
            replicas: Vec::new(),
        };
        f.controller.apply(&record).unwrap();
    }
    let most = (0..PATTERNS_MAX).map(|number| format!("devices.x{number}.>")).collect::<Vec<_>>().join(",");
    let begun = Instant::now();
    f.bind("one", "devices.one.>").unwrap();
    f.bind("many", &most).unwrap();
    assert_eq!(f.bind("late", "sites.5.77"), Err(overlap("late", "sites.5.77", "t77", "sites.*.77")));
    // 30,000 walks each, in an unoptimized build.
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}
