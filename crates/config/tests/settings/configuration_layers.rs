//! Which value wins when several places set it, and which settings contradict each other.

use std::collections::{BTreeMap, BTreeSet};

use tailrace_config::*;

fn texts(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn broker(fixed: &[(&str, &str)]) -> Result<BrokerConfig, ConfigError> {
    BrokerConfig::resolve(&texts(fixed), &DynamicConfigs::default())
}

fn topic(fixed: &[(&str, &str)], overrides: &[(&str, &str)]) -> TopicConfig {
    TopicConfig::resolve(&texts(overrides), &broker(fixed).expect("legal")).expect("legal")
}

fn refusal(fixed: &[(&str, &str)]) -> String {
    broker(fixed).expect_err("must be refused").to_string()
}

#[test]
fn every_key_has_a_default_that_is_legal_and_documentation() {
    for key in topic_keys().iter().chain(group_keys()).chain(broker_keys()) {
        key.default_value();
        assert!(key.documentation_text().ends_with('.'), "{}", key.name);
        assert!(!key.documentation.contains("  "), "{}", key.name);
        assert!(!key.sensitive || key.default.is_none(), "{}", key.name);
    }
    let names: BTreeSet<_> = broker_keys().iter().map(|key| key.name).collect();
    assert_eq!(names.len(), broker_keys().len(), "names are unique");
    for key in broker_keys() {
        for alias in key.aliases {
            assert!(!names.contains(alias), "{alias} is both a key and an alias");
        }
    }
}

#[test]
fn coarse_defaults_agree_with_the_topics_own() {
    for key in topic_keys().iter().filter(|key| key.synonyms.len() > 1) {
        let last = key.synonyms.last().unwrap();
        let Value::Number(coarse) = broker_key(last.name).unwrap().default_value() else {
            panic!("{}", last.name)
        };
        let Value::Number(own) = key.default_value() else { panic!("{}", key.name) };
        assert_eq!(coarse * last.factor, own, "{}", key.name);
    }
}

#[test]
fn a_topics_override_wins_over_the_broker_and_that_over_the_default() {
    assert_eq!(topic(&[], &[]).retention_ms, Some(604_800_000));
    assert_eq!(topic(&[("log.retention.hours", "1")], &[]).retention_ms, Some(3_600_000));
    let fixed = [("log.retention.hours", "1"), ("log.retention.minutes", "1")];
    assert_eq!(topic(&fixed, &[]).retention_ms, Some(60_000));
    let fixed = [("log.retention.minutes", "1"), ("log.retention.ms", "7")];
    assert_eq!(topic(&fixed, &[]).retention_ms, Some(7));
    assert_eq!(topic(&fixed, &[("retention.ms", "5")]).retention_ms, Some(5));
    assert_eq!(topic(&fixed, &[("retention.ms", "-1")]).retention_ms, None);
    assert_eq!(topic(&[("log.retention.hours", "-1")], &[]).retention_ms, None);
}

#[test]
fn a_topic_setting_can_be_given_broker_wide_under_its_own_name() {
    assert_eq!(topic(&[("retention.ms", "9")], &[]).retention_ms, Some(9));
    assert_eq!(topic(&[("tailrace.retention.records", "9")], &[]).tailrace_retention_records, Some(9));
    assert_eq!(topic(&[("max.message.bytes", "9")], &[]).max_message_bytes, 9);
    let both = [("flush.messages", "2"), ("log.flush.interval.messages", "2")];
    assert_eq!(topic(&both, &[]).flush_messages, 2);
    let both = [("flush.messages", "2"), ("log.flush.interval.messages", "3")];
    assert_eq!(
        refusal(&both),
        "flush.messages and log.flush.interval.messages are two names of one setting but have different values; \
         set only one of them"
    );
}

#[test]
fn changes_at_run_time_win_and_those_of_the_node_over_those_of_the_cluster() {
    let fixed = texts(&[("log.retention.ms", "1")]);
    let cluster = texts(&[("log.retention.ms", "2"), ("max.connections", "20")]);
    let node = texts(&[("log.retention.ms", "3")]);
    let dynamic = DynamicConfigs { cluster, node };
    let config = BrokerConfig::resolve(&fixed, &dynamic).unwrap();
    assert_eq!(config.topic_defaults.retention_ms, Some(3));
    assert_eq!(config.max_connections, 20);

    let described = describe_topic(&texts(&[("retention.ms", "4")]), &config).unwrap();
    let entry = described.iter().find(|entry| entry.name == "retention.ms").unwrap();
    let found: Vec<_> =
        entry.synonyms.iter().map(|s| (s.name, s.value.as_deref().unwrap(), s.source)).collect();
    assert_eq!(
        found,
        [
            ("retention.ms", "4", ConfigSource::DynamicTopic),
            ("log.retention.ms", "3", ConfigSource::DynamicBroker),
            ("log.retention.ms", "2", ConfigSource::DynamicDefaultBroker),
            ("log.retention.ms", "1", ConfigSource::StaticBroker),
            ("log.retention.hours", "168", ConfigSource::Default),
        ]
    );
    let cluster = describe_cluster(&config);
    assert_eq!(
        cluster.iter().map(|entry| entry.name).collect::<Vec<_>>(),
        ["log.retention.ms", "max.connections"]
    );
    assert_eq!(cluster[0].source, ConfigSource::DynamicDefaultBroker);
}

#[test]
fn the_broker_is_described_with_what_is_set_and_what_is_not() {
    let config =
        broker(&[("log.retention.hours", "5"), ("broker.id", "7"), ("flush.messages", "10")]).unwrap();
    assert_eq!(config.node_id, 7);
    let described = describe_broker(&config);
    let entry = |name: &str| described.iter().find(|entry| entry.name == name).unwrap();
    assert_eq!(entry("log.retention.ms").value, None);
    assert_eq!(entry("log.retention.ms").source, ConfigSource::Default);
    assert_eq!(entry("log.retention.hours").source, ConfigSource::StaticBroker);
    assert_eq!(entry("log.flush.interval.messages").value.as_deref(), Some("10"));
    assert_eq!(entry("log.flush.interval.messages").source, ConfigSource::StaticBroker);
    assert!(entry("node.id").read_only && !entry("max.connections").read_only);
    assert!(described.iter().all(|entry| entry.name != "internal.segment.bytes"));
    // A coarser key that is set is named as the source, where Kafka would say "default".
    let topic = describe_topic(&BTreeMap::new(), &config).unwrap();
    let retention = topic.iter().find(|entry| entry.name == "retention.ms").unwrap();
    assert_eq!(
        (retention.value.as_deref(), retention.source),
        (Some("18000000"), ConfigSource::StaticBroker)
    );
}

/// File, environment and command line end up in one map. Everything in it has the source
/// STATIC_BROKER_CONFIG, even if it equals the default.
#[test]
fn whatever_was_set_at_the_start_is_said_to_be_static() {
    let mut described_keys = 0;
    for key in broker_keys() {
        let default = key.default_value().text();
        let selector = "org.apache.kafka.common.replica.RackAwareReplicaSelector";
        let file = "file:///keys.json";
        let values = [default.as_deref().unwrap_or_default(), "7", "PLAINTEXT://10.0.0.1:7", selector, file];
        // A password needs a user name.
        let with = match key.name {
            "tailrace.nats.password" => vec![("tailrace.nats.user", "alice")],
            "tailrace.first.password" => vec![("tailrace.first.user", "alice")],
            "listener.security.protocol.map" => vec![("listeners", "PLAINTEXT://10.0.0.1:7")],
            _ => Vec::new(),
        };
        let resolve = |text| Some((text, broker(&[&[(key.name, text)], &with[..]].concat()).ok()?));
        let mut legal = values.into_iter().filter(|text| !text.is_empty() || key.default.is_some());
        let (text, config) = legal.find_map(resolve).unwrap_or_else(|| panic!("no value for {}", key.name));
        let described = describe_broker(&config);
        let entry = described.iter().find(|entry| entry.name == key.name).unwrap();
        assert_eq!(entry.source, ConfigSource::StaticBroker, "{} = {text:?}", key.name);
        let own: Vec<_> = entry.synonyms.iter().filter(|synonym| synonym.name == key.name).collect();
        let sources: Vec<_> = own.iter().map(|synonym| synonym.source).collect();
        let expected = [ConfigSource::StaticBroker, ConfigSource::Default];
        assert_eq!(sources, expected[..1 + usize::from(default.is_some())], "{} = {text:?}", key.name);
        assert_eq!(own[0].value.is_none(), key.sensitive, "{} = {text:?}", key.name);
        // No other key has that source.
        let others = described
            .iter()
            .filter(|entry| entry.name != key.name && with.iter().all(|one| one.0 != entry.name));
        let mut others = others.map(|entry| entry.source);
        assert!(others.all(|source| source == ConfigSource::Default), "{} = {text:?}", key.name);
        described_keys += 1;
    }
    assert_eq!(described_keys, broker_keys().len());
}

#[test]
fn durability_is_strict_unless_records_may_wait() {
    let durability =
        |fixed: &[(&str, &str)], overrides: &[(&str, &str)]| topic(fixed, overrides).durability();
    let max = "9223372036854775807";
    let relaxed = |flush_messages, flush_ms| Durability::Relaxed { flush_messages, flush_ms };
    assert_eq!(durability(&[], &[]), Durability::Strict);
    assert_eq!(durability(&[], &[("flush.ms", "1000")]), Durability::Strict);
    assert_eq!(durability(&[], &[("flush.messages", max)]), relaxed(None, None));
    assert_eq!(durability(&[], &[("flush.messages", "10"), ("flush.ms", "5")]), relaxed(Some(10), Some(5)));
    assert_eq!(durability(&[("flush.messages", max)], &[]), relaxed(None, None));
    assert_eq!(durability(&[("flush.messages", max)], &[("flush.messages", "1")]), Durability::Strict);
    let scheduler = [("flush.messages", max), ("log.flush.scheduler.interval.ms", "9")];
    assert_eq!(durability(&scheduler, &[]), relaxed(None, Some(9)));
}

#[test]
fn limits_become_options_and_tests_may_use_small_segments() {
    let config = topic(&[], &[("retention.bytes", "-2"), ("internal.segment.bytes", "100")]);
    assert_eq!(config.retention_bytes, None);
    assert_eq!(config.segment_bytes, 100);
    assert_eq!(topic(&[("internal.segment.bytes", "5")], &[]).segment_bytes, 5);
    assert_eq!(
        topic(&[], &[("cleanup.policy", "")]).cleanup_policy,
        CleanupPolicy { delete: false, compact: false }
    );
}

#[test]
fn addresses_are_advertised_with_or_without_protocol() {
    let advertised = |text: &str| {
        broker(&[("advertised.listeners", text)]).unwrap().kafka_listeners()[0].advertised.clone()
    };
    let listener = |host: &str, port| Some(AdvertisedListener { host: host.to_owned(), port });
    assert_eq!(advertised("kafka.example:9092"), listener("kafka.example", 9092));
    assert_eq!(advertised("PLAINTEXT://10.0.0.1:1"), listener("10.0.0.1", 1));
    assert_eq!(advertised("PLAINTEXT://[::1]:65535"), listener("::1", 65535));
    assert_eq!(advertised("[::1]:5").unwrap().to_string(), "[::1]:5");
    assert_eq!(advertised(""), None);
    for (text, reason) in [
        ("host", "expected HOST:PORT or PLAINTEXT://HOST:PORT"),
        (":9092", "expected HOST:PORT or PLAINTEXT://HOST:PORT"),
        ("a b:9092", "expected HOST:PORT or PLAINTEXT://HOST:PORT"),
        ("host:0", "0 is not a port; expected HOST:PORT or PLAINTEXT://HOST:PORT"),
        ("host:70000", "70000 is not a port; expected HOST:PORT or PLAINTEXT://HOST:PORT"),
        (
            "SSL://host:1",
            "the listener SSL is not in listeners, which is not set; expected HOST:PORT or PLAINTEXT://HOST:PORT",
        ),
        ("a:1,b:2", "several advertised listeners need listeners, with the same names"),
    ] {
        let expected = format!("Invalid value {text} for configuration advertised.listeners: {reason}");
        assert_eq!(refusal(&[("advertised.listeners", text)]), expected);
    }
}

#[test]
fn what_does_not_fit_is_refused_with_what_to_do() {
    assert_eq!(refusal(&[("zookeeper.connect", "x")]), "Unknown broker config name: zookeeper.connect");
    assert_eq!(
        refusal(&[("log.retention.hour", "1")]),
        "Unknown broker config name: log.retention.hour (did you mean log.retention.hours?)"
    );
    // A long name is cut, and compared with nothing.
    let long = format!("log.retention.hours{}", "é".repeat(5_000));
    let refused = refusal(&[(&long, "1")]);
    assert!(refused.starts_with("Unknown broker config name: log.retention.hoursé"), "{refused}");
    assert!(refused.ends_with("é...") && refused.len() < 140, "{refused}");
    assert_eq!(
        refusal(&[("remote.storage.enable", "false")]),
        "Unknown broker config name: remote.storage.enable (it is a topic config)"
    );
    assert_eq!(
        topic_key("num.partitions").unwrap_err().to_string(),
        "Unknown topic config name: num.partitions (it is a broker config)"
    );
    assert_eq!(
        refusal(&[("queued.max.request.bytes", "1000")]),
        "queued.max.request.bytes=1000 does not fit socket.request.max.bytes=104857600: \
         the budget for all requests must hold the largest one"
    );
    assert_eq!(
        refusal(&[("queued.max.request.bytes", "-1")]),
        "Invalid value -1 for configuration queued.max.request.bytes: Value must be at least 1"
    );
    assert_eq!(
        refusal(&[("num.partitions", "10001")]),
        "tailrace.topic.partitions.max=10000 does not fit num.partitions=10001: \
         a topic with the default number of partitions must be possible"
    );
    assert!(refusal(&[("log.format", "xml")]).contains("String must be one of: text, json"));
    assert_eq!(
        refusal(&[("log.roll.hours", "2562047788016")]),
        "Invalid value 2562047788016 for configuration log.roll.hours: Not a number of type INT"
    );
    let lags = [("log.cleaner.min.compaction.lag.ms", "2"), ("log.cleaner.max.compaction.lag.ms", "1")];
    assert_eq!(broker(&lags).unwrap_err().key(), "min.compaction.lag.ms");
}

#[test]
fn environment_variables_name_one_key_each() {
    let names: BTreeSet<String> = broker_keys().iter().map(ConfigKey::environment_name).collect();
    assert_eq!(names.len(), broker_keys().len());
    let key = |variable| broker_key_of_variable(variable).map(|key| key.name);
    assert_eq!(key("TAILRACE_DATA_DIR"), Some("data.dir"));
    assert_eq!(key("TAILRACE_IO_THREADS"), Some("tailrace.io.threads"));
    assert_eq!(key("TAILRACE_FLUSH_MESSAGES"), Some("log.flush.interval.messages"));
    assert_eq!(key("TAILRACE_NO_SUCH"), None);
}

#[test]
fn the_documentation_names_every_setting() {
    let text = configuration_markdown();
    for key in topic_keys().iter().chain(group_keys()).filter(|key| !key.internal) {
        assert!(text.contains(&format!("`{}`", key.name)), "{}", key.name);
    }
    for key in broker_keys().iter().filter(|key| key.default_of.is_none()) {
        let (heading, row) = (format!("### `{}`", key.name), format!("| `{}`", key.name));
        assert!(
            text.contains(if key.applies == Applies::Accepted { &row } else { &heading }),
            "{}",
            key.name
        );
    }
    assert!(!text.contains("\n\n\n"), "no double blank lines");
}

#[test]
fn tls_and_users_are_refused_where_a_companion_is_missing() {
    let files = [("tailrace.tls.certificate.file", "c.pem"), ("tailrace.tls.key.file", "k.pem")];
    let with = |more: &[(&str, &str)]| broker(&[&files[..], more].concat());
    for (settings, part) in [
        (&[("tailrace.kafka.tls", "true")][..], "tailrace.tls.certificate.file and tailrace.tls.key.file"),
        (&[("tailrace.http.tls", "true"), files[0]], "tailrace.tls.key.file"),
        (&[("tailrace.nats.tls", "required"), files[1]], "tailrace.tls.certificate.file"),
        (&[("tailrace.nats.tls.handshake.first", "true")], "tailrace.nats.tls=required"),
        (&[("tailrace.tls.client.auth", "required")], "tailrace.tls.ca.file"),
        (
            &[("tailrace.tls.client.auth", "required"), ("tailrace.tls.ca.file", "ca")],
            "no listener speaks TLS",
        ),
        (&[("tailrace.nats.user", "a")], "tailrace.nats.password"),
        (&[("tailrace.nats.password", "p")], "tailrace.nats.user"),
        (&[("tailrace.nats.token", "t"), ("tailrace.nats.nkey", "U")], "exclude each other"),
        (&[("tailrace.nats.websocket.origins", "example.com")], "https://HOST:PORT"),
        (&[("tailrace.nats.websocket.origins", "https://a.b/c")], "without a path"),
        (&[("tailrace.nats.tls", "optional")], "off, required"),
    ] {
        let said = refusal(settings);
        assert!(said.contains(part), "{settings:?}: {said}");
    }
    assert!(with(&[("tailrace.kafka.tls", "true"), ("tailrace.nats.tls", "required")]).is_ok());
    assert!(broker(&[("tailrace.nats.websocket.origins", "https://a.b,http://localhost:8080")]).is_ok());
}

#[test]
fn secrets_are_shown_nowhere() {
    let settings = [("tailrace.nats.user", "alice"), ("tailrace.nats.password", "sesame")];
    let config = broker(&settings).expect("legal");
    assert_eq!(config.tailrace_nats_password.expose(), "sesame");
    assert!(!format!("{config:?}").contains("sesame"));
    for entry in describe_broker(&config) {
        assert!(!format!("{entry:?}").contains("sesame"), "{}", entry.name);
    }
    let refused = refusal(&[("tailrace.nats.password", "sesame")]);
    assert!(!refused.contains("sesame"), "{refused}");
    let refused = refusal(&[("tailrace.nats.token", "sesame"), settings[0], ("tailrace.nats.password", "x")]);
    assert!(!refused.contains("sesame"), "{refused}");
}

#[test]
fn tokens_need_an_issuer_an_audience_and_keys() {
    let all = [
        ("sasl.enabled.mechanisms", "PLAIN,OAUTHBEARER"),
        ("sasl.oauthbearer.jwks.endpoint.url", "file:///etc/keys.json"),
        ("sasl.oauthbearer.expected.issuer", "https://idp"),
        ("sasl.oauthbearer.expected.audience", "kafka"),
    ];
    let config = broker(&all).unwrap();
    assert!(config.accepts_tokens());
    assert_eq!(config.token_keys(), Some(tailrace_config::TokenKeys::File("/etc/keys.json")));
    for (missing, (key, _)) in all.iter().enumerate().skip(1) {
        let mut rest = all.to_vec();
        rest.remove(missing);
        let reason = refusal(&rest);
        assert!(reason.contains(&format!("{key} must be set")), "{reason}");
    }
    for url in [
        "ftp://idp/keys",
        "HTTPS://idp/keys",
        "file:keys",
        "file://",
        "file:///",
        "file://host/keys",
        "/keys",
        "FILE:///keys",
        "file:///my%20keys",
        "file:///keys?x",
        "file:///keys#x",
    ] {
        let reason = refusal(&[("sasl.oauthbearer.jwks.endpoint.url", url)]);
        assert!(reason.contains("file:///PATH") || reason.contains("must not have %"), "{url}: {reason}");
    }
}

#[test]
fn the_key_of_delegation_tokens_is_long_and_never_shown() {
    let key = "delegation.token.secret.key";
    for short in ["s", "sesame sesame s"] {
        let reason = refusal(&[(key, short)]);
        assert!(reason.contains("at least 16 bytes") && !reason.contains("sesame"), "{reason}");
    }
    let config = broker(&[(key, "sesame sesame se")]).unwrap();
    assert!(!format!("{config:?}").contains("sesame"));
    assert!(describe_broker(&config).iter().all(|entry| !format!("{entry:?}").contains("sesame")));
    assert!(broker(&[]).unwrap().delegation_token_secret_key.is_empty());
}

#[test]
fn a_required_login_may_be_that_of_a_certificate() {
    let required = [("tailrace.kafka.authentication", "required"), ("sasl.enabled.mechanisms", "")];
    assert!(refusal(&required).contains("sasl.enabled.mechanisms must be set"));
    let certificates = [
        ("tailrace.kafka.tls", "true"),
        ("tailrace.tls.client.auth", "required"),
        ("tailrace.tls.certificate.file", "c.pem"),
        ("tailrace.tls.key.file", "k.pem"),
        ("tailrace.tls.ca.file", "a.pem"),
    ];
    assert!(broker(&[&required[..], &certificates[..]].concat()).unwrap().names_certificates());
    assert!(
        !broker(&certificates[..1].iter().chain(&certificates[2..]).copied().collect::<Vec<_>>())
            .unwrap()
            .names_certificates()
    );
}
