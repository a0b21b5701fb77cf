//! Hostile requests: whatever they hold, the answer is an error or a configuration that is accepted again.

mod world;

use proptest::prelude::*;
use serde_json::{Value, json};
use tailrace_jetstream::limits::{JSON_DEPTH_MAX, LIST_ELEMENTS_MAX, REQUEST_BYTES_MAX};
use world::World;

fn asked(world: &mut World, suffix: &str, body: &str) -> Value {
    world.answer(&json!({"s": suffix, "b": body}))
}

fn err_code(answer: &Value) -> Option<u64> {
    answer["error"]["err_code"].as_u64()
}

#[test]
fn requests_have_a_bound_of_bytes_depth_and_elements() {
    let mut world = World::default();
    let mut create = |body: &str| err_code(&asked(&mut world, "STREAM.CREATE.S", body));
    let blanks = " ".repeat(REQUEST_BYTES_MAX);
    assert_eq!(create(&format!("{{\"name\":\"S\"}}{blanks}")), Some(10025));
    let deep = format!("{{\"name\":\"S\",\"x\":{}", "[".repeat(JSON_DEPTH_MAX));
    assert_eq!(create(&deep), Some(10025));
    let subjects = |count: usize| {
        let subjects: Vec<_> = (0..count).map(|at| format!("s.{at}")).collect();
        json!({"name": "S", "subjects": subjects}).to_string()
    };
    assert_eq!(create(&subjects(LIST_ELEMENTS_MAX + 1)), Some(10025));
    assert_eq!(create(&subjects(LIST_ELEMENTS_MAX)), None);
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        prop_oneof![Just(-1i64), Just(0), Just(1), Just(1_000_000_000), any::<i64>()].prop_map(Value::from),
        prop_oneof![
            "[a-c.*>]{0,5}",
            Just("new".to_owned()),
            Just("limits".to_owned()),
            Just("none".to_owned())
        ]
        .prop_map(Value::from),
    ];
    leaf.prop_recursive(2, 8, 3, |inner| {
        let key = prop_oneof![Just("name"), Just("src"), Just("dest"), Just("filter_subject")];
        let object = prop::collection::btree_map(key, inner.clone(), 0..3);
        prop_oneof![
            prop::collection::vec(inner, 0..3).prop_map(Value::from),
            object.prop_map(|fields| fields
                .into_iter()
                .map(|(key, value)| (key.to_owned(), value))
                .collect::<Value>()),
        ]
    })
}

const FIELDS: &[&str] = &[
    "subjects",
    "retention",
    "max_msgs",
    "max_age",
    "discard",
    "storage",
    "num_replicas",
    "mirror",
    "sources",
    "republish",
    "subject_transform",
    "sealed",
    "metadata",
    "ack_policy",
    "deliver_policy",
    "filter_subject",
    "filter_subjects",
    "backoff",
    "max_deliver",
    "deliver_subject",
    "priority_groups",
    "priority_policy",
    "opt_start_seq",
    "inactive_threshold",
];

fn object() -> impl Strategy<Value = Value> {
    let fields = prop::collection::vec((prop::sample::select(FIELDS), json_value()), 0..6);
    fields
        .prop_map(|fields| fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect::<Value>())
}

proptest! {
    #[test]
    fn a_stream_that_was_created_is_created_again_from_its_echo(mut config in object()) {
        config["name"] = "S".into();
        let mut world = World::default();
        let first = asked(&mut world, "STREAM.CREATE.S", &config.to_string());
        if err_code(&first).is_none() {
            let echo = asked(&mut world, "STREAM.CREATE.S", &first["config"].to_string());
            prop_assert_eq!(&first["config"], &echo["config"]);
            let updated = asked(&mut world, "STREAM.UPDATE.S", &first["config"].to_string());
            prop_assert_eq!(&first["config"], &updated["config"]);
        }
    }

    #[test]
    fn a_consumer_that_was_created_is_created_again_from_its_echo(config in object()) {
        let mut world = World::default();
        asked(&mut world, "STREAM.CREATE.S", r#"{"name":"S","subjects":["s.>"]}"#);
        let body = |config: &Value| json!({"stream_name": "S", "config": config}).to_string();
        let first = asked(&mut world, "CONSUMER.CREATE.S.C", &body(&config));
        if err_code(&first).is_none() {
            let echo = asked(&mut world, "CONSUMER.CREATE.S.C", &body(&first["config"]));
            prop_assert_eq!(&first["config"], &echo["config"]);
        }
    }

    #[test]
    fn no_body_makes_a_request_panic(body in ".{0,60}", at in 0usize..8) {
        let suffixes = [
            "STREAM.CREATE.S", "STREAM.UPDATE.S", "STREAM.PURGE.S", "STREAM.MSG.GET.S", "CONSUMER.CREATE.S.C",
            "CONSUMER.PAUSE.S.C", "CONSUMER.UNPIN.S.C", "STREAM.NAMES",
        ];
        asked(&mut World::default(), suffixes[at], &body);
    }
}
