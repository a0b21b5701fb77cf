//! Replaying the metadata log, or a snapshot of it, produces the image that was live when it was written.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use tailrace_metadata::*;
use tailrace_types::{NodeId, PartitionId, ReplicaId, TimestampMs, TopicId};

use crate::{access_rig, cluster_rig};

/// Few names and values, so that commands affect each other. Some collide, some are illegal.
const NAMES: &[&str] = &["a", "a.b", "a_b", "c", "d-e", "..", "__consumer_offsets"];
const SETTINGS: &[(&str, &str)] = &[
    ("retention.ms", "5"),
    ("retention.ms", "x"),
    ("flush.messages", " 9 "),
    ("cleanup.policy", "delete"),
    ("cleanup.policy", "compact"),
    ("min.compaction.lag.ms", "1"),
    ("min.compaction.lag.ms", "8"),
    ("max.compaction.lag.ms", "7"),
    ("log.cleaner.max.compaction.lag.ms", "7"),
    ("max.connections", "5"),
    ("log.retention.ms", "77"),
    ("share.delivery.count.limit", "7"),
    ("share.session.timeout.ms", "50000"),
    ("nope", "1"),
];

/// Chooses the first name as often as all others together.
fn name() -> impl Strategy<Value = String> {
    prop_oneof![Just(NAMES[0]), prop::sample::select(NAMES)].prop_map(str::to_owned)
}

fn requester() -> impl Strategy<Value = Requester> {
    prop_oneof![4 => Just(Requester::Client), 1 => Just(Requester::Broker)]
}

fn pair() -> impl Strategy<Value = (String, Option<String>)> {
    (prop::sample::select(SETTINGS), prop::bool::weighted(0.95))
        .prop_map(|((key, value), given)| (key.to_owned(), given.then(|| value.to_owned())))
}

fn change() -> impl Strategy<Value = ConfigChange> {
    let op = (pair(), 0..4_i8).prop_map(|((key, value), code)| ConfigOp {
        key,
        value,
        action: ConfigAction::from_code(code).expect("0 to 3"),
    });
    prop_oneof![
        prop::collection::vec(pair(), 0..3).prop_map(ConfigChange::Replace),
        prop::collection::vec(op, 0..3).prop_map(ConfigChange::Incremental),
    ]
}

fn node_id() -> impl Strategy<Value = NodeId> {
    (1..5_i32).prop_map(NodeId)
}

fn assignment() -> impl Strategy<Value = Option<Vec<Vec<NodeId>>>> {
    prop::option::weighted(0.3, prop::collection::vec(prop::collection::vec(node_id(), 1..3), 1..3))
}

fn create() -> impl Strategy<Value = Command> {
    let counts = (-1..4_i32, -1..4_i16, assignment());
    (name(), 1..20_u8, counts, prop::collection::vec(pair(), 0..2), requester()).prop_map(
        |(name, id, (partitions, replication_factor, assignment), configs, by)| {
            let (id, now) = (TopicId([id; 16]), TimestampMs(i64::from(id)));
            Command::CreateTopic(CreateTopic {
                name,
                id,
                partitions,
                replication_factor,
                configs,
                assignment,
                now,
                by,
            })
        },
    )
}

#[derive(Clone, Debug)]
enum Exchange {
    Move(Vec<NodeId>),
    Back,
    Finish,
    Lose(u8),
}

fn exchange() -> impl Strategy<Value = Exchange> {
    let nodes: Vec<NodeId> = (1..5).map(NodeId).collect();
    prop_oneof![
        3 => prop::sample::subsequence(nodes, 1..4).prop_shuffle().prop_map(Exchange::Move),
        2 => Just(Exchange::Back),
        1 => Just(Exchange::Finish),
        3 => (1..5_u8).prop_map(Exchange::Lose),
    ]
}

fn node() -> impl Strategy<Value = RegisterNode> {
    let known = prop::option::weighted(0.1, 1..4_u32);
    (node_id(), 0..2_u8, 0..2_u8, 2..4_u16, known).prop_map(|(node, disk, rack, max, known)| RegisterNode {
        directory: [node.0.unsigned_abs() as u8 * 16 + disk; 16],
        rack: (rack > 0).then(|| "r".to_owned()),
        levels: (1, max),
        listeners: cluster_rig::listeners(&["IN", "OUT"][..usize::from(rack) * usize::from(disk + 1)]),
        replica: known.map(|incarnation| cluster_rig::replica(node.0, incarnation)),
        renews: known == Some(1),
        ..cluster_rig::node(node.0)
    })
}

fn cluster_command() -> impl Strategy<Value = Command> {
    let found = node().prop_map(|node| Command::FoundCluster {
        cluster_id: "c".to_owned(),
        node: RegisterNode { node: NodeId(1), ..node },
    });
    let reassign = (name(), 0..3_i32, prop::option::of(prop::collection::vec(node_id(), 1..4)));
    prop_oneof![
        2 => found,
        6 => node().prop_map(Command::RegisterNode),
        6 => (node_id(), any::<bool>()).prop_map(|(node, fenced)| Command::FenceNode { node, fenced }),
        2 => node_id().prop_map(|node| Command::RemoveNode { node }),
        8 => reassign.prop_map(|(topic, partition, nodes)| Command::ReassignPartition {
            topic,
            partition: PartitionId(partition),
            nodes,
        }),
        1 => (2..5_i16).prop_map(|level| Command::UpdateFeatures(vec![FeatureUpdate {
            name: CLUSTER_LEVEL.to_owned(),
            level,
            direction: FeatureDirection::Upgrade,
        }])),
    ]
}

fn command() -> impl Strategy<Value = Command> {
    let reference = prop_oneof![
        name().prop_map(TopicRef::Name),
        (1..20_u8).prop_map(|id| TopicRef::Id(TopicId([id; 16]))),
    ];
    let scope = prop_oneof![
        Just(BrokerScope::Cluster),
        Just(BrokerScope::Node(NodeId(1))),
        Just(BrokerScope::Node(NodeId(2)))
    ];
    prop_oneof![
        5 => create(),
        2 => (reference, requester()).prop_map(|(topic, by)| Command::DeleteTopic { topic, by }),
        2 => (name(), 0..9_i32, assignment(), requester())
            .prop_map(|(topic, count, assignment, by)| Command::CreatePartitions { topic, count, assignment, by }),
        20 => cluster_command(),
        3 => (name(), change()).prop_map(|(topic, change)| Command::AlterTopicConfigs { topic, change }),
        3 => (scope, change()).prop_map(|(scope, change)| Command::AlterBrokerConfigs { scope, change }),
        3 => (prop::sample::select(&["", "g", "h"][..]), change())
            .prop_map(|(group, change)| Command::AlterGroupConfigs { group: group.to_owned(), change }),
        1 => Just(Command::FinalizeFeatures),
        2 => (prop::sample::select(&["group.version", "metadata.version", "nope"][..]), -1..3_i16, any::<bool>())
            .prop_map(|(name, level, up)| Command::UpdateFeatures(vec![FeatureUpdate {
                name: name.to_owned(),
                level,
                direction: if up { FeatureDirection::Upgrade } else { FeatureDirection::SafeDowngrade },
            }])),
        1 => Just(Command::AllocateProducerIds),
        15 => access_rig::command(),
    ]
}

/// In half of the cases, starts with a cluster of three nodes and a topic. Otherwise starts with a standalone
/// server, which may found a cluster later.
fn commands() -> impl Strategy<Value = Vec<Command>> {
    let founded = any::<bool>().prop_map(|founded| {
        let fence = |node| Command::FenceNode { node: NodeId(node), fenced: false };
        let join = |node| [Command::RegisterNode(cluster_rig::node(node)), fence(node)];
        let found = Command::FoundCluster { cluster_id: "c".to_owned(), node: cluster_rig::node(1) };
        let topic = cluster_rig::topic(NAMES[0], 1, &[&[1], &[2]]);
        let all = std::iter::once(found).chain(join(2)).chain(join(3)).chain([topic]);
        all.filter(|_| founded).collect::<Vec<_>>()
    });
    (founded, prop::collection::vec(command(), 0..40))
        .prop_map(|(first, then)| first.into_iter().chain(then).collect())
}

fn fixed() -> BTreeMap<String, String> {
    BTreeMap::from([("tailrace.partitions.max".to_owned(), "12".to_owned())])
}

fn replay<'a>(log: impl IntoIterator<Item = &'a Vec<u8>>) -> Controller {
    let mut controller = Controller::new(fixed()).expect("legal");
    for bytes in log {
        let record = MetadataRecord::decode(bytes).expect("was encoded");
        controller.apply(&record).expect("was applied before");
    }
    controller
}

/// All replica ids that were given out, with their disks. An id whose disk was lost must never be given out
/// again.
#[derive(Default)]
struct GivenIds {
    /// Ids of group 0, each with the folder it was given to.
    controller: BTreeMap<ReplicaId, [u8; 16]>,
    folders: BTreeMap<NodeId, [u8; 16]>,
    /// Ids of partitions, each with the folder in which it started.
    partitions: BTreeMap<(TopicId, PartitionId, ReplicaId), [u8; 16]>,
}

impl GivenIds {
    fn take(&mut self, record: &MetadataRecord) {
        match record {
            MetadataRecord::NodeRegistered(node) => {
                let folder = self.controller.entry(node.replica).or_insert(node.directory);
                assert_eq!(*folder, node.directory, "{} was given to another folder", node.replica);
                self.folders.insert(node.node, node.directory);
            }
            // In this test, unlike in reality, the id of a deleted topic may be used again.
            MetadataRecord::TopicDeleted { id } => self.partitions.retain(|(topic, ..), _| topic != id),
            MetadataRecord::TopicCreated { id, replicas, .. } => self.begin(*id, 0, replicas),
            MetadataRecord::PartitionsAdded { id, partitions, replicas } => {
                self.begin(*id, *partitions - i32::try_from(replicas.len()).expect("few"), replicas);
            }
            MetadataRecord::PartitionReplicas { id, partition, replicas, .. } => {
                replicas.iter().for_each(|replica| self.use_replica((*id, *partition, *replica)));
            }
            _ => {}
        }
    }

    fn begin(&mut self, topic: TopicId, first: i32, assignment: &[Vec<ReplicaId>]) {
        for (partition, replicas) in (first..).zip(assignment) {
            replicas.iter().for_each(|replica| self.use_replica((topic, PartitionId(partition), *replica)));
        }
    }

    fn use_replica(&mut self, replica: (TopicId, PartitionId, ReplicaId)) {
        let folder = self.folders.get(&replica.2.node()).copied().expect("registered");
        let begun = self.partitions.entry(replica).or_insert(folder);
        assert_eq!(*begun, folder, "{replica:?} lost its disk and is there again");
    }
}

/// Checks what must hold in every image.
fn check(image: &MetadataImage) {
    assert!(image.topics().map(|t| t.partitions).sum::<i32>() <= 12);
    let topics: Vec<_> = image.topics().collect();
    for (i, topic) in topics.iter().enumerate() {
        assert_eq!(image.topic_by_id(topic.id), Some(*topic));
        assert!(topics[..i].iter().all(|other| other.name.folded() != topic.name.folded()));
        let resolved =
            tailrace_config::TopicConfig::resolve(&topic.overrides, image.broker()).expect("legal");
        assert_eq!(*topic.config, resolved);
        assert!(image.describe_topic(topic.name.as_str()).is_some());
    }
    for partition in image.topics().flat_map(|topic| topic.assignment()).map(|(_, partition)| partition) {
        let nodes: BTreeSet<NodeId> = partition.replicas.iter().map(|replica| replica.node()).collect();
        assert!(!nodes.is_empty() && nodes.len() == partition.replicas.len(), "{partition:?}");
        assert!(nodes.iter().all(|node| image.is_live(*node) || image.node(*node).is_some()));
        assert!(partition.present().all(|replica| replica.incarnation() < partition.next_incarnation));
    }
    assert!(topics.is_sorted_by_key(|topic| topic.name.as_str()));
}

/// A letter that may appear in a record.
fn letter() -> impl Strategy<Value = u8> {
    prop::sample::select(&b"0123456789-[]{},:\"Aa="[..])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn log_and_snapshot_lead_to_the_live_image(commands in commands()) {
        let mut live = Controller::new(fixed()).expect("legal");
        let (mut log, mut ids) = (Vec::new(), GivenIds::default());
        for command in &commands {
            let before = live.image();
            let bytes = serde_json::to_vec(command).expect("commands serialize");
            prop_assert_eq!(&serde_json::from_slice::<Command>(&bytes).expect("was just written"), command);
            match live.plan(command) {
                Ok(records) => {
                    prop_assert_eq!(&live.plan(command), &Ok(records.clone()), "planning changes nothing");
                    for record in records {
                        ids.take(&record);
                        let bytes = record.encode();
                        prop_assert_eq!(MetadataRecord::decode(&bytes), Ok(record.clone()));
                        live.apply(&record).expect("planned records apply");
                        log.push(bytes);
                    }
                }
                Err(_) => prop_assert_eq!(&before, &live.image()),
            }
            check(&live.image());
        }
        prop_assert_eq!(live.image(), replay(&log).image());
        let snapshot: Vec<Vec<u8>> = live.snapshot_records().iter().map(MetadataRecord::encode).collect();
        prop_assert_eq!(live.image(), replay(&snapshot).image());
        prop_assert_eq!(replay(&snapshot).snapshot_records(), live.snapshot_records());
    }

    /// One partition is moved back and forth while nodes lose their disks. A lost replica must never be used
    /// again.
    #[test]
    fn replicas_that_were_lost_never_come_again(exchanges in prop::collection::vec(exchange(), 0..40)) {
        let mut rig = cluster_rig::Rig::cluster(4);
        rig.run(&cluster_rig::topic("a", 1, &[&[1, 2, 3]])).expect("legal");
        let mut disks = [0_u8; 5];
        for exchange in exchanges {
            if let Exchange::Lose(node) = exchange {
                disks[usize::from(node)] += 1;
                let directory = [disks[usize::from(node)] * 5 + node; 16];
                let lost = RegisterNode { directory, ..cluster_rig::node(node.into()) };
                rig.run(&Command::FenceNode { node: lost.node, fenced: true }).expect("registered");
                rig.run(&Command::RegisterNode(lost)).expect("legal");
            } else if let Exchange::Finish = exchange {
                rig.finish("a", 0);
            } else {
                let nodes = if let Exchange::Move(nodes) = exchange { Some(nodes) } else { None };
                let (topic, partition, is_move) = ("a".to_owned(), PartitionId(0), nodes.is_some());
                if let Err(error) = rig.run(&Command::ReassignPartition { topic, partition, nodes }) {
                    prop_assert!(error == ControlError::NoReassignment && !is_move, "{}", error);
                }
            }
        }
        let (topic, partition) = ("a".to_owned(), PartitionId(0));
        if rig.run(&Command::ReassignPartition { topic, partition, nodes: None }) == Ok(1) {
            let back = rig.partition("a", 0);
            let is_new = |replica: &ReplicaId| back.removing.iter().any(|gone| gone.node() == replica.node());
            prop_assert!(back.incoming().all(|replica| is_new(&replica)), "{:?}", back);
        }
        let mut ids = GivenIds::default();
        rig.log.iter().for_each(|record| ids.take(record));
    }

    #[test]
    fn damaged_records_are_errors_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        prop_assert!(MetadataRecord::decode(&bytes).is_err());
    }
}

proptest! {
    // Few of them are still JSON.
    #![proptest_config(ProptestConfig { cases: 8192, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn records_with_wrong_bytes_are_read_or_refused(
        (_, text) in prop::sample::select(encodings()),
        wrong in prop::collection::vec((any::<prop::sample::Index>(), letter()), 1..5),
    ) {
        let mut bytes = text.as_bytes().to_vec();
        for (at, byte) in wrong {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Ok(read) = MetadataRecord::decode(&bytes) {
            prop_assert_eq!(MetadataRecord::decode(&read.encode()), Ok(read));
        }
    }
}

/// Without this test, most cases of the properties could be refusals.
#[test]
fn commands_of_each_kind_are_carried_out() {
    let mut runner = TestRunner::deterministic();
    let mut carried_out: BTreeMap<String, usize> = BTreeMap::new();
    for _ in 0..1024 {
        let mut controller = Controller::new(fixed()).expect("legal");
        for command in commands().new_tree(&mut runner).expect("nothing is filtered").current() {
            let count = carried_out.entry(kind(&command)).or_default();
            for record in controller.plan(&command).unwrap_or_default() {
                *count += 1;
                controller.apply(&record).expect("planned records apply");
            }
        }
    }
    println!("{carried_out:?}");
    assert!(carried_out.values().all(|records| *records >= 10), "{carried_out:?}");
}

/// Returns the name of a command.
fn kind(command: &Command) -> String {
    let text = format!("{command:?}");
    text.split(|letter: char| !letter.is_alphabetic()).next().unwrap_or_default().to_owned()
}

fn encodings() -> Vec<(MetadataRecord, &'static str)> {
    let id = TopicId([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]);
    let configs = BTreeMap::from([("retention.ms".to_owned(), "5".to_owned())]);
    let of = |node, incarnation| ReplicaId::new(NodeId(node), incarnation);
    vec![
        (
            MetadataRecord::TopicCreated {
                name: "orders".parse().expect("legal"),
                id,
                partitions: 3,
                replication_factor: 1,
                created_at: TimestampMs(9),
                configs: configs.clone(),
                replicas: Vec::new(),
            },
            r#"{"version":1,"type":"topic-created","name":"orders","id":"AQIDBAUGBwgJCgsMDQ4PEA","partitions":3,"replication_factor":1,"created_at":9,"configs":{"retention.ms":"5"}}"#,
        ),
        (
            MetadataRecord::TopicDeleted { id },
            r#"{"version":1,"type":"topic-deleted","id":"AQIDBAUGBwgJCgsMDQ4PEA"}"#,
        ),
        (
            MetadataRecord::PartitionsAdded { id, partitions: 4, replicas: Vec::new() },
            r#"{"version":1,"type":"partitions-added","id":"AQIDBAUGBwgJCgsMDQ4PEA","partitions":4}"#,
        ),
        (
            MetadataRecord::TopicConfigs { id, configs: configs.clone() },
            r#"{"version":1,"type":"topic-configs","id":"AQIDBAUGBwgJCgsMDQ4PEA","configs":{"retention.ms":"5"}}"#,
        ),
        (
            MetadataRecord::BrokerConfigs {
                cluster: BTreeMap::new(),
                nodes: BTreeMap::from([(NodeId(1), configs.clone())]),
            },
            r#"{"version":1,"type":"broker-configs","cluster":{},"nodes":[{"node":1,"configs":{"retention.ms":"5"}}]}"#,
        ),
        (
            MetadataRecord::ProducerIds { first: 0.into(), next: 1000.into() },
            r#"{"version":1,"type":"producer-ids","first":0,"next":1000}"#,
        ),
        (
            MetadataRecord::GroupConfigs {
                group: "g".to_owned(),
                configs: BTreeMap::from([("share.auto.offset.reset".to_owned(), "earliest".to_owned())]),
            },
            r#"{"version":2,"type":"group-configs","group":"g","configs":{"share.auto.offset.reset":"earliest"}}"#,
        ),
        (
            MetadataRecord::Features {
                epoch: 3,
                levels: BTreeMap::from([("transaction.version".to_owned(), 2)]),
            },
            r#"{"version":2,"type":"features","epoch":3,"levels":{"transaction.version":2}}"#,
        ),
        (
            MetadataRecord::PartitionsAdded { id, partitions: 4, replicas: vec![vec![of(1, 1), of(2, 1)]] },
            r#"{"version":3,"type":"partitions-added","id":"AQIDBAUGBwgJCgsMDQ4PEA","partitions":4,"replicas":[[4294967297,4294967298]]}"#,
        ),
        (
            MetadataRecord::ClusterFounded { node: NodeId(1), cluster_id: "c".to_owned(), epoch: 0 },
            r#"{"version":3,"type":"cluster-founded","node":1,"cluster_id":"c","epoch":0}"#,
        ),
        (
            MetadataRecord::NodeRegistered(NodeRegistration {
                node: NodeId(2),
                directory: id.0,
                epoch: 7,
                replica: of(2, 7),
                cluster: "a:1".to_owned(),
                kafka: "a:2".to_owned(),
                listeners: Vec::new(),
                nats: None,
                http: Some("a:3".to_owned()),
                rack: Some("r".to_owned()),
                levels: (1, 2),
            }),
            r#"{"version":3,"type":"node-registered","node":2,"directory":"AQIDBAUGBwgJCgsMDQ4PEA","epoch":7,"replica":30064771074,"cluster":"a:1","kafka":"a:2","nats":null,"http":"a:3","rack":"r","levels":[1,2]}"#,
        ),
        (
            MetadataRecord::NodeRegistered(NodeRegistration {
                node: NodeId(2),
                directory: id.0,
                epoch: 7,
                replica: of(2, 7),
                cluster: "a:1".to_owned(),
                kafka: "a:2".to_owned(),
                listeners: vec![KafkaEndpoint {
                    name: "IN".to_owned(),
                    protocol: tailrace_config::SecurityProtocol::SaslSsl,
                    address: "a:2".to_owned(),
                }],
                nats: None,
                http: None,
                rack: None,
                levels: (1, 2),
            }),
            r#"{"version":4,"type":"node-registered","node":2,"directory":"AQIDBAUGBwgJCgsMDQ4PEA","epoch":7,"replica":30064771074,"cluster":"a:1","kafka":"a:2","listeners":[{"name":"IN","protocol":"SASL_SSL","address":"a:2"}],"nats":null,"http":null,"rack":null,"levels":[1,2]}"#,
        ),
        (
            MetadataRecord::NodeFenced { node: NodeId(2), fenced: true },
            r#"{"version":3,"type":"node-fenced","node":2,"fenced":true}"#,
        ),
        (MetadataRecord::NodeRemoved { node: NodeId(2) }, r#"{"version":3,"type":"node-removed","node":2}"#),
        (
            MetadataRecord::PartitionReplicas {
                id,
                partition: PartitionId(5),
                replicas: vec![of(3, 2)],
                adding: vec![of(3, 2)],
                removing: vec![of(1, 1)],
                lost: vec![of(1, 1)],
                next_incarnation: 3,
            },
            r#"{"version":3,"type":"partition-replicas","id":"AQIDBAUGBwgJCgsMDQ4PEA","partition":5,"replicas":[8589934595],"adding":[8589934595],"removing":[4294967297],"lost":[4294967297],"next_incarnation":3}"#,
        ),
    ]
    .into_iter()
    .chain(access_rig::encodings())
    .collect()
}

#[test]
fn the_encoding_is_fixed() {
    for (record, text) in encodings() {
        assert_eq!(String::from_utf8(record.encode()).unwrap(), text);
        assert_eq!(MetadataRecord::decode(text.as_bytes()), Ok(record));
    }
}

#[test]
fn a_newer_version_is_named_beside_ours() {
    let newer = br#"{"version":5,"type":"something-new","x":[1,2]}"#;
    assert_eq!(
        MetadataRecord::decode(newer).unwrap_err().to_string(),
        "metadata record has version 5, this build reads up to 4; start a newer tailrace"
    );
    let damaged: &[&[u8]] = &[
        b"",
        b"{}",
        br#"{"version":0,"type":"producer-ids","first":0,"next":1}"#,
        br#"{"version":-1}"#,
        br#"{"version":1,"type":"something-new"}"#,
        br#"{"version":1,"type":"topic-deleted","id":"short"}"#,
        br#"{"version":1,"type":"topic-created","name":"a/b","id":"AQIDBAUGBwgJCgsMDQ4PEA","partitions":1,"replication_factor":1,"created_at":0,"configs":{}}"#,
        br#"{"version":1,"type":"topic-deleted","id":"AQIDBAUGBwgJCgsMDQ4PEA"} x"#,
        br#"{"version":3,"type":"partitions-added","id":"AQIDBAUGBwgJCgsMDQ4PEA","partitions":1,"replicas":[[1]]}"#,
        br#"{"version":3,"type":"partitions-added","id":"AQIDBAUGBwgJCgsMDQ4PEA","partitions":1,"replicas":[[8589934591]]}"#,
    ];
    for bytes in damaged {
        let error = MetadataRecord::decode(bytes).unwrap_err().to_string();
        assert!(error.starts_with("metadata record cannot be read: "), "{error}");
    }
}
