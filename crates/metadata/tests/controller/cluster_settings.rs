//! Settings of cluster nodes: contradictions are refused, and a server is standalone by default.

use std::collections::BTreeMap;

use tailrace_config::{BrokerConfig, ConfigError, DynamicConfigs, ReplicaSelector};
use tailrace_metadata::Controller;

fn resolve(settings: &[(&str, &str)]) -> Result<BrokerConfig, ConfigError> {
    let fixed: BTreeMap<_, _> =
        settings.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    BrokerConfig::resolve(&fixed, &DynamicConfigs::default())
}

#[test]
fn a_node_is_alone_unless_it_listens_for_others() {
    let alone = resolve(&[]).unwrap();
    assert_eq!((alone.cluster_address(), alone.broker_rack.as_deref()), (None, None));
    assert_eq!(alone.replica_selector_class, ReplicaSelector::Leader);
    let among = resolve(&[
        ("cluster.listen", "[::1]:0"),
        ("tailrace.cluster.seeds", "a.example:9190, [::1]:9191"),
        ("tailrace.cluster.advertised", "a.example:9190"),
        ("broker.rack", "r1"),
        ("replica.selector.class", "org.apache.kafka.common.replica.RackAwareReplicaSelector"),
    ])
    .unwrap();
    assert_eq!((among.cluster_address(), among.broker_rack.as_deref()), (Some("[::1]:0"), Some("r1")));
    assert_eq!(among.tailrace_cluster_seeds, ["a.example:9190", "[::1]:9191"]);
    assert_eq!(among.replica_selector_class, ReplicaSelector::RackAware);
}

#[test]
fn settings_that_no_cluster_works_with() {
    let listen = ("cluster.listen", "127.0.0.1:0");
    let many = vec!["a:1"; 65].join(",");
    let rack = "r".repeat(256);
    let cases: [(&[(&str, &str)], &str); 15] = [
        (&[("cluster.listen", "here")], "expected HOST:PORT or off"),
        (&[("cluster.listen", "a:b:1")], "expected HOST:PORT or off"),
        (&[("cluster.listen", "a:99999")], "expected HOST:PORT or off"),
        (&[listen, ("tailrace.cluster.advertised", "a:0")], "expected HOST:PORT"),
        (&[listen, ("tailrace.nats.advertised", "a")], "expected HOST:PORT"),
        (
            &[listen, ("tailrace.cluster.seeds", "a:1,b")],
            "Invalid value b for configuration tailrace.cluster.seeds",
        ),
        (&[listen, ("tailrace.cluster.seeds", "a:0")], "separated by commas"),
        (&[listen, ("tailrace.cluster.seeds", &many)], "at most 64 addresses"),
        (&[("tailrace.cluster.seeds", "a:1")], "cluster.listen must be set with it"),
        (&[("broker.rack", &rack)], "at most 255 bytes"),
        (&[("tailrace.cluster.tls", "true")], "tailrace.cluster.tls.key.file"),
        (
            &[("tailrace.raft.heartbeat.ticks", "10")],
            "tailrace.raft.election.ticks=10 does not fit tailrace.raft.heartbeat.ticks=10",
        ),
        (
            &[("tailrace.cluster.queue.bytes.max", "2000000")],
            "tailrace.cluster.queue.bytes.max=2000000 does not fit tailrace.cluster.frame.bytes.max=104857600",
        ),
        (&[("broker.session.timeout.ms", "999")], "at least 1000"),
        (&[("replica.selector.class", "org.example.Mine")], "String must be one of: org.apache.kafka"),
    ];
    for (settings, words) in cases {
        let text = resolve(settings).unwrap_err().to_string();
        assert!(text.contains(words), "{settings:?}: {text}");
    }
}

#[test]
fn a_standalone_node_has_one_replica_of_internal_topics() {
    let image = Controller::new(BTreeMap::new()).unwrap().image();
    for topic in ["__consumer_offsets", "__transaction_state", "__share_group_state", "__jetstream_state"] {
        assert_eq!(image.internal_replication_factor(topic), 1);
    }
    let broker = image.broker();
    assert_eq!(broker.offsets_topic_replication_factor, 3);
    assert_eq!(broker.transaction_state_log_replication_factor, 3);
    assert_eq!(broker.share_coordinator_state_topic_replication_factor, 3);
    assert_eq!(broker.tailrace_jetstream_state_topic_replication_factor, 3);
}
