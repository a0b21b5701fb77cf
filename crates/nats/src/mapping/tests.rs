use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use tailrace_config::{BrokerConfig, CapturedSubjects, DynamicConfigs, TopicConfig};
use tailrace_nats_wire::{Message, header_lines};
use tailrace_records::{BatchBuilder, BatchOptions, DecodedBatch};
use tailrace_subjects::Limits;
use tailrace_types::TimestampMs;

use super::*;

type Headers = Vec<(Vec<u8>, Option<Vec<u8>>)>;

/// A record that owns its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Owned {
    key: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
    headers: Headers,
}

/// A message that owns its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Sent {
    subject: Vec<u8>,
    headers: Option<Vec<u8>>,
    payload: Vec<u8>,
}

fn bindings(patterns: &str) -> CapturedSubjects {
    let broker = BrokerConfig::resolve(&BTreeMap::new(), &DynamicConfigs::default()).unwrap();
    let overrides = BTreeMap::from([("tailrace.subjects".to_owned(), patterns.to_owned())]);
    TopicConfig::resolve(&overrides, &broker).unwrap().tailrace_subjects
}

fn record_of(scratch: &mut RecordScratch, message: &Message<'_>) -> Owned {
    scratch.with(message, |parts| Owned {
        key: Some(parts.key.to_vec()),
        value: parts.value.map(<[u8]>::to_vec),
        headers: parts.headers.iter().map(|(n, v)| (n.to_vec(), v.map(<[u8]>::to_vec))).collect(),
    })
}

fn published(subject: &str, headers: &str, payload: &str) -> Owned {
    let headers = (!headers.is_empty()).then_some(headers.as_bytes());
    let message = Message { subject: subject.as_bytes(), reply: None, headers, payload: payload.as_bytes() };
    record_of(&mut RecordScratch::default(), &message)
}

fn message_of(
    subjects: &TopicSubjects,
    record: &Owned,
    payload_bytes_max: usize,
    scratch: &mut MessageScratch,
) -> Result<Sent, Undeliverable> {
    let mut batch = BatchBuilder::new(BatchOptions::default());
    let headers: Vec<_> = record.headers.iter().map(|(n, v)| (&n[..], v.as_deref())).collect();
    batch.push(TimestampMs(1), record.key.as_deref(), record.value.as_deref(), &headers).unwrap();
    let bytes = batch.build();
    let decoded = DecodedBatch::new(&bytes, 1 << 30).unwrap();
    let record = decoded.records().next().unwrap().unwrap();
    // The router has these limits.
    let limits = Limits { any_bytes: true, ..Limits::default() };
    let limits = MessageLimits { payload_bytes_max, subject: &limits };
    subjects.message(&record, &limits, scratch).map(|message| Sent {
        subject: message.subject.to_vec(),
        headers: message.headers.map(<[u8]>::to_vec),
        payload: message.payload.to_vec(),
    })
}

/// Returns the subject and header block for a record in topic `orders`, which captures `orders.>` and
/// `shop.*.paid`.
fn delivered(key: Option<&[u8]>, headers: &[(&str, Option<&[u8]>)]) -> (String, String) {
    let headers = headers.iter().map(|(n, v)| (n.as_bytes().to_vec(), v.map(<[u8]>::to_vec))).collect();
    let record = Owned { key: key.map(<[u8]>::to_vec), value: Some(b"x".to_vec()), headers };
    let subjects = TopicSubjects::new("orders", &bindings("orders.>,shop.*.paid"));
    let sent = message_of(&subjects, &record, 1 << 20, &mut MessageScratch::default()).unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (text(sent.subject), sent.headers.map(text).unwrap_or_default())
}

fn owned(key: &str, value: Option<&str>, headers: &[(&str, Option<&str>)]) -> Owned {
    let bytes = |text: &str| text.as_bytes().to_vec();
    Owned {
        key: Some(bytes(key)),
        value: value.map(bytes),
        headers: headers.iter().map(|(n, v)| (bytes(n), v.map(bytes))).collect(),
    }
}

#[test]
fn a_message_becomes_a_record_with_its_subject_as_key() {
    assert_eq!(published("orders.eu", "", "hello"), owned("orders.eu", Some("hello"), &[]));
    assert_eq!(published("orders.eu", "", ""), owned("orders.eu", Some(""), &[]));
    assert_eq!(published("orders.eu", "NATS/1.0\r\n\r\n", "x"), owned("orders.eu", Some("x"), &[]));
}

#[test]
fn headers_keep_order_case_and_duplicates() {
    let block = "NATS/1.0\r\nb: 1\r\nB:  2 \r\nb:3\r\nempty:\r\n\r\n";
    let headers = [("b", Some("1")), ("B", Some("2")), ("b", Some("3")), ("empty", Some(""))];
    assert_eq!(published("s", block, "x"), owned("s", Some("x"), &headers));
}

#[test]
fn a_given_key_takes_the_place_of_the_subject() {
    let headers = [("Nats-Subject", Some("orders.eu")), ("a", Some("1"))];
    let block = "NATS/1.0\r\na: 1\r\nKafka-Key: k 1\r\n\r\n";
    assert_eq!(published("orders.eu", block, "x"), owned("k 1", Some("x"), &headers));
    // The second key is an ordinary header. The name is case-sensitive.
    let block = "NATS/1.0\r\nkafka-key: no\r\nKafka-Key: yes\r\nKafka-Key: again\r\n\r\n";
    let headers = [("Nats-Subject", Some("s")), ("kafka-key", Some("no")), ("Kafka-Key", Some("again"))];
    assert_eq!(published("s", block, "x"), owned("yes", Some("x"), &headers));
    assert_eq!(published("s", "NATS/1.0\r\nKafka-Key: s\r\n\r\n", "x"), owned("s", Some("x"), &[]));
}

#[test]
fn a_publisher_cannot_forge_the_subject() {
    let headers = [("Nats-Subject", Some("orders.eu")), ("Nats-Subject", Some("secret.x"))];
    let block = "NATS/1.0\r\nNats-Subject: secret.x\r\n\r\n";
    assert_eq!(published("orders.eu", block, "x"), owned("orders.eu", Some("x"), &headers));
}

#[test]
fn marked_keys_headers_and_null_values_are_unmarked() {
    let block = "NATS/1.0\r\nKafka-Key-Base64: AP8\r\nKafka-Header-Base64: YQ=Yg\r\nKafka-Header-Base64: YQ\r\n\
                 Kafka-Header-Base64: YQ=\r\nKafka-Value: null\r\n\r\n";
    let record = published("s", block, "");
    assert_eq!(record.key, Some(vec![0, 255]));
    assert_eq!(record.value, None);
    let headers = [("Nats-Subject", Some("s")), ("a", Some("b")), ("a", None), ("a", Some(""))];
    assert_eq!(record.headers, owned("", None, &headers).headers);
    // Invalid base64, and a null value with a payload, are ordinary headers.
    let block = "NATS/1.0\r\nKafka-Key-Base64: A\r\nKafka-Header-Base64: YQ=!\r\nKafka-Value: null\r\nKafka-Value: x\r\n\r\n";
    let headers = [
        ("Kafka-Key-Base64", Some("A")),
        ("Kafka-Header-Base64", Some("YQ=!")),
        ("Kafka-Value", Some("null")),
        ("Kafka-Value", Some("x")),
    ];
    assert_eq!(published("s", block, "p"), owned("s", Some("p"), &headers));
}

#[test]
fn a_block_that_cannot_be_taken_apart_is_kept_whole() {
    for block in [
        "HTTP/1.0\r\n\r\n",
        "NATS/1.0\r\na: b\r\n",
        "NATS/1.0",
        "NATS/1.0\r\nno colon\r\n\r\n",
        "NATS/1.0\r\n: no name\r\n\r\n",
        "NATS/1.0 503\r\n\r\n",
        "NATS/1.0\r\na: b\r\n\r\nc: d\r\n\r\n",
    ] {
        assert_eq!(published("s", block, "x"), owned("s", Some("x"), &[("Nats-Header-Block", Some(block))]));
    }
    let block = b"NATS/1.0\r\n\xff: b\r\n\r\n";
    let message = Message { subject: b"s", reply: None, headers: Some(block), payload: b"" };
    let record = record_of(&mut RecordScratch::default(), &message);
    assert_eq!(record.headers, [(b"Nats-Header-Block".to_vec(), Some(block.to_vec()))]);
}

#[test]
fn the_subject_is_the_header_or_the_key_or_the_topic() {
    let none = String::new;
    // The first header, if the bindings match it.
    let subject = |text: &'static str| [("Nats-Subject", Some(text.as_bytes()))];
    assert_eq!(delivered(None, &subject("orders.a")), ("orders.a".to_owned(), none()));
    assert_eq!(delivered(None, &subject("shop.1.paid")), ("shop.1.paid".to_owned(), none()));
    for outside in ["shop.1", "orders", "orders.*", "orders.>", "orders.a..b", "orders. a", "$SYS.x"] {
        let block = format!("NATS/1.0\r\nNats-Subject: {outside}\r\n\r\n");
        assert_eq!(delivered(None, &subject(outside)), ("orders".to_owned(), block), "{outside}");
    }
    let two = [("Nats-Subject", Some(&b"other"[..])), ("Nats-Subject", Some(b"orders.a"))];
    assert_eq!(delivered(None, &two).0, "orders");
    // The key, as it is if the bindings match it, or else after the topic's name.
    assert_eq!(delivered(Some(b"orders.eu"), &[]), ("orders.eu".to_owned(), none()));
    assert_eq!(delivered(Some(b"eu.new"), &[]), ("orders.eu.new".to_owned(), none()));
    assert_eq!(delivered(Some(b"17"), &[]), ("orders.17".to_owned(), none()));
    assert_eq!(delivered(None, &[]), ("orders".to_owned(), none()));
    for key in
        ["", ".", "a.", ".a", "a..b", "*", ">", "a.*", "a.>.b", "a b", "a\tb", "a\u{7f}", "a\r\nPING", "a\nb"]
    {
        let (subject, block) = delivered(Some(key.as_bytes()), &[]);
        assert_eq!(subject, "orders", "{key:?}");
        assert!(block.starts_with("NATS/1.0\r\nKafka-Key"), "{key:?}: {block}");
    }
    let long = "k".repeat(4096);
    assert_eq!(delivered(Some(long.as_bytes()), &[]).0, "orders");
    assert_eq!(delivered(Some(b"a*b"), &[]).0, "orders.a*b");
    // The header shows the key if the subject does not.
    let expected = "NATS/1.0\r\nKafka-Key: k 1\r\nh: v\r\n\r\n".to_owned();
    let headers = [("Nats-Subject", Some(&b"orders.a"[..])), ("h", Some(b"v"))];
    assert_eq!(delivered(Some(b"k 1"), &headers), ("orders.a".to_owned(), expected));
    assert_eq!(delivered(Some(b"orders.a"), &headers).1, "NATS/1.0\r\nh: v\r\n\r\n");
    assert_eq!(delivered(Some(b"\0\xff"), &[]).1, "NATS/1.0\r\nKafka-Key-Base64: AP8\r\n\r\n");
}

#[test]
fn what_a_header_cannot_carry_is_marked_and_never_written_raw() {
    let block = |name: &str, value: Option<&[u8]>| {
        let (_, block) = delivered(None, &[(name, value)]);
        block.strip_prefix("NATS/1.0\r\n").unwrap().strip_suffix("\r\n\r\n").unwrap().to_owned()
    };
    assert_eq!(block("a", Some("ü b\tc: d".as_bytes())), "a: ü b\tc: d");
    assert_eq!(block("a", Some(b"")), "a: ");
    assert_eq!(block("a", None), "Kafka-Header-Base64: YQ");
    assert_eq!(block("a", Some(b"\xff")), "Kafka-Header-Base64: YQ=_w");
    let values =
        ["x\r\ny: z", "x\ny", "x\r", " x", "x ", "\tx", "\u{a0}x", "\0", "\u{b}", "\u{2028}", "a\u{85}"];
    for value in values {
        let line = block("a", Some(value.as_bytes()));
        assert!(line.starts_with("Kafka-Header-Base64: YQ="), "{value:?}: {line:?}");
    }
    let names = [
        "",
        "a b",
        "a:b",
        "ü",
        "a\r\nb",
        "Kafka-Key",
        "Kafka-Key-Base64",
        "Kafka-Header-Base64",
        "Kafka-Value",
    ];
    for name in names {
        let line = block(name, Some(b"v"));
        assert!(line.starts_with("Kafka-Header-Base64: ") && line.ends_with("=dg"), "{name:?}: {line:?}");
    }
}

#[test]
fn a_null_value_is_an_empty_payload_that_says_so() {
    let subjects = TopicSubjects::new("t", &CapturedSubjects::default());
    let record = Owned { key: Some(b"k".to_vec()), value: None, headers: Vec::new() };
    let sent = message_of(&subjects, &record, 100, &mut MessageScratch::default()).unwrap();
    let headers = Some(b"NATS/1.0\r\nKafka-Value: null\r\n\r\n".to_vec());
    assert_eq!(sent, Sent { subject: b"t.k".to_vec(), headers, payload: Vec::new() });
}

#[test]
fn what_is_too_large_or_reserved_is_not_delivered() {
    let scratch = &mut MessageScratch::default();
    let subjects = TopicSubjects::new("t", &CapturedSubjects::default());
    let record = owned("k", Some("12345678"), &[]);
    assert!(message_of(&subjects, &record, 8, scratch).is_ok());
    assert_eq!(message_of(&subjects, &record, 7, scratch), Err(Undeliverable::TooLarge));
    let record = owned("k", Some("12345678"), &[("a", Some("b"))]);
    let block = b"NATS/1.0\r\na: b\r\n\r\n".len();
    assert!(message_of(&subjects, &record, 8 + block, scratch).is_ok());
    assert_eq!(message_of(&subjects, &record, 7 + block, scratch), Err(Undeliverable::TooLarge));
    // Two bytes of a record become 24. Writing stops at the limit.
    let record = Owned { key: None, value: None, headers: vec![(Vec::new(), Some(Vec::new())); 100_000] };
    let limits = Limits::default();
    let bound = MessageLimits { payload_bytes_max: 10_000, subject: &limits };
    assert_eq!(message_of(&subjects, &record, 10_000, scratch), Err(Undeliverable::TooLarge));
    assert!(scratch.capacity() < 20_000, "{} bytes", scratch.capacity());
    assert!(bound.record_bytes_max() < 2 * 100_000, "it is not even parsed");
    for (topic, reserved) in
        [("_INBOX", true), ("_INBOX.a", true), ("_R_", true), ("_INBOXES", false), ("a._INBOX", false)]
    {
        let subjects = TopicSubjects::new(topic, &CapturedSubjects::default());
        let found = message_of(&subjects, &record, 100, scratch);
        assert_eq!(found == Err(Undeliverable::Reserved), reserved, "{topic}");
    }
}

#[test]
fn names_that_are_no_subjects_appear_as_jetstream_shows_them() {
    for (topic, subject) in [("a.b", "a.b.k"), ("a..b", "a__b.k"), (".a", "_a.k"), ("a.", "a_.k")] {
        let subjects = TopicSubjects::new(topic, &CapturedSubjects::default());
        let sent =
            message_of(&subjects, &owned("k", None, &[]), 100, &mut MessageScratch::default()).unwrap();
        assert_eq!(sent.subject, subject.as_bytes());
    }
}

#[test]
fn the_first_words_of_all_subjects_are_known() {
    let subjects = TopicSubjects::new("shop.orders", &bindings("orders.>,shop.x,orders,$KV.a.>"));
    let words: Vec<_> =
        subjects.first_words().map(|word| String::from_utf8_lossy(word).into_owned()).collect();
    assert_eq!(words, ["$KV", "orders", "shop"]);
}

fn bytes(max: usize) -> impl Strategy<Value = Vec<u8>> {
    let odd = prop_oneof![
        Just(b'\r'),
        Just(b'\n'),
        Just(b' '),
        Just(b':'),
        Just(b'='),
        Just(0),
        Just(0xff),
        any::<u8>()
    ];
    let plain = b'a'..=b'z';
    prop_oneof![3 => vec(plain, 0..max), 2 => vec(odd, 0..max)]
}

fn names() -> impl Strategy<Value = Vec<u8>> {
    let known =
        [&b"Nats-Subject"[..], b"Kafka-Key", b"Kafka-Value", b"Kafka-Header-Base64", b"Kafka-Key-Base64"];
    let known = proptest::sample::select(known.map(<[u8]>::to_vec).to_vec());
    prop_oneof![3 => bytes(8), 1 => known]
}

fn records() -> impl Strategy<Value = Owned> {
    let key = option::weighted(0.9, prop_oneof![bytes(12), Just(b"orders.a".to_vec())]);
    let subjects = Just(b"orders.b".to_vec());
    let value = option::weighted(0.8, prop_oneof![4 => bytes(12), 1 => subjects]);
    let headers = vec((names(), value), 0..6);
    (key, option::weighted(0.8, bytes(20)), headers).prop_map(|(key, value, headers)| Owned {
        key,
        value,
        headers,
    })
}

proptest! {
    /// A record that becomes a message, which is published again, yields the same record, with its subject as
    /// a header if the key is different.
    #[test]
    fn a_record_survives_the_way_to_nats_and_back(list in vec(records(), 1..4)) {
        let subjects = TopicSubjects::new("orders", &bindings("orders.>"));
        let (mut to, mut back) = (MessageScratch::default(), RecordScratch::default());
        for record in list {
            let sent = message_of(&subjects, &record, 1 << 20, &mut to).unwrap();
            if let Some(block) = &sent.headers {
                // Every client finds lines, names and an end in the block.
                prop_assert!(block.ends_with(b"\r\n\r\n"));
                for line in header_lines(block).unwrap() {
                    let (name, value) = line.unwrap();
                    prop_assert!(name.iter().all(u8::is_ascii_graphic));
                    prop_assert!(std::str::from_utf8(value).is_ok_and(|text| text.trim() == text));
                }
            }
            let message = Message {
                subject: &sent.subject,
                reply: None,
                headers: sent.headers.as_deref(),
                payload: &sent.payload,
            };
            let again = record_of(&mut back, &message);
            let shown = record.key.is_none() || again.key == record.key;
            // A key that follows the topic's name in the subject comes back as part of it.
            let visible = record.key.as_ref().is_some_and(|key| sent.subject == [b"orders.", &key[..]].concat());
            prop_assert!(shown || visible, "{again:?}");
            prop_assert_eq!(&again.value, &record.value);
            // The headers are the same, except the one that was added or that was the subject's source.
            let first = |headers: &Headers| headers.first().is_some_and(|(name, _)| name == SUBJECT);
            let mut expected = record.headers.clone();
            let given = expected.iter().position(|(name, _)| name == SUBJECT);
            if let Some(at) = given && expected[at].1.as_ref() == Some(&sent.subject) {
                expected.remove(at);
            }
            let mut found = again.headers.clone();
            if first(&found) && found[0].1.as_ref() == Some(&sent.subject) {
                found.remove(0);
            }
            prop_assert_eq!(found, expected);
        }
    }

    /// Any bytes that a client sends as headers become a record, and nothing remains in the scratch.
    #[test]
    fn any_block_becomes_a_record(blocks in vec(bytes(60), 1..4), payload in bytes(10)) {
        let mut scratch = RecordScratch::default();
        for bytes in blocks {
            let mut block = b"NATS/1.0\r\n".to_vec();
            block.extend_from_slice(&bytes);
            let message = Message { subject: b"a.b", reply: None, headers: Some(&block), payload: &payload };
            let first = record_of(&mut scratch, &message);
            prop_assert_eq!(record_of(&mut RecordScratch::default(), &message), first);
        }
    }

    #[test]
    fn literal_subjects_match_as_the_matcher_says(
        pattern in "(a|b|\\*)(\\.(a|b|\\*)){0,3}(\\.>)?",
        subject in "(a|b)(\\.(a|b)){0,4}",
    ) {
        let parse = |text: &str| Pattern::parse(tailrace_subjects::Dialect::Nats, text, &Limits::default()).unwrap();
        prop_assert_eq!(matches(&parse(&pattern), subject.as_bytes()), parse(&pattern).covers(&parse(&subject)));
    }
}

#[test]
fn the_subject_of_a_stored_message_does_not_depend_on_the_patterns_of_its_stream() {
    let subjects = TopicSubjects::of_stream("ORDERS");
    let subject = |key: Option<&str>, header: Option<&str>| {
        let headers: Vec<_> = header.iter().map(|value| ("Nats-Subject", Some(*value))).collect();
        let record = Owned { key: key.map(|key| key.into()), ..owned("", Some("x"), &headers) };
        let sent = message_of(&subjects, &record, usize::MAX, &mut MessageScratch::default()).unwrap();
        (String::from_utf8(sent.subject).unwrap(), sent.headers.is_some())
    };
    let is = |text: &str, has_headers| (text.to_owned(), has_headers);
    assert_eq!(subject(Some("orders.eu"), None), is("orders.eu", false));
    // The server wrote the header first, because the key is another one, which it shows.
    assert_eq!(subject(Some("7"), Some("orders.eu")), is("orders.eu", true));
    assert_eq!(subject(Some("customer 7"), None), is("ORDERS", true));
    assert_eq!(subject(Some("a.*"), None), is("ORDERS", true));
    assert_eq!(subject(None, None), is("ORDERS", false));
}
