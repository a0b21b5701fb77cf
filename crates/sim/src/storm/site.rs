//! The computers of a run, and their nodes.

use std::collections::BTreeMap;
use std::time::Duration;

use tailrace_env::task;
use tailrace_metadata::{CONSUMER_OFFSETS_TOPIC, SHARE_GROUP_STATE_TOPIC, TRANSACTION_STATE_TOPIC};
use tailrace_types::{NodeId, PartitionId, TopicName, TopicPartition};

use super::access::{ADMIN, password};
use super::handover::hand_over;
use crate::computer::Computer;
use crate::rng::Rng;
use crate::world::{Machine, Network, Universe};

/// A node's data folder.
pub(super) const DATA_FOLDER: &str = "/data";

/// The topic that writers use, and that captures NATS messages.
pub(super) const TOPIC: &str = "storm";

/// The topic with two partitions that transactions write to.
pub(super) const DATA_TOPIC: &str = "data";

/// The topic that partition 0 of the data topic is copied to.
pub(super) const OUT_TOPIC: &str = "out";

/// The topic whose old records are deleted, by size and by request.
pub(super) const OLD_TOPIC: &str = "old";

/// The compacted topic.
pub(super) const COMPACTED_TOPIC: &str = "compacted";

/// The topic that a client deletes and recreates.
pub(super) const AGAIN_TOPIC: &str = "again";

/// The partitions of the data topic.
pub(super) const DATA_PARTITIONS: usize = 2;

/// All topics, with their number of partitions.
pub(super) const TOPICS: [(&str, i32); 5] =
    [(TOPIC, 1), (DATA_TOPIC, DATA_PARTITIONS as i32), (OUT_TOPIC, 1), (OLD_TOPIC, 1), (COMPACTED_TOPIC, 1)];

/// Which records a topic keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keeps {
    All,
    /// Records that are not old.
    Young,
    /// The latest record of each key.
    Latest,
    /// Committed records: the topic is compacted, and no key occurs twice.
    Committed,
}

impl Keeps {
    pub(super) fn of(topic: &str, habits: Habits) -> Self {
        match topic {
            OLD_TOPIC => Self::Young,
            COMPACTED_TOPIC => Self::Latest,
            DATA_TOPIC if habits.compacts_data => Self::Committed,
            _ => Self::All,
        }
    }

    /// Reports whether compaction removes batches, or the records of batches that only remember a producer.
    pub(super) fn is_compacted(self) -> bool {
        self == Self::Latest || self == Self::Committed
    }
}

/// Above this size, old records are deleted.
pub(super) const RETENTION_BYTES: u64 = 6_000;

/// The coordinators' topics. They exist from the start and have small segments, so that they are compacted.
pub(super) const INTERNAL_TOPICS: [&str; 3] =
    [CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, SHARE_GROUP_STATE_TOPIC];

/// The partitions of each internal topic.
pub(super) const INTERNAL_PARTITIONS: i32 = 2;

/// The replicas of a partition, if there are enough nodes.
pub(super) const REPLICAS: usize = 3;

/// A group member without a heartbeat for this long is removed.
pub(super) const SESSION_TIMEOUT: Duration = Duration::from_secs(3);

/// Kafka's name of the selector that lets consumers read from followers.
const RACK_AWARE: &str = "org.apache.kafka.common.replica.RackAwareReplicaSelector";

/// A small segment size, so that there are many segments.
const SEGMENT_BYTES: &str = "4000";

/// A node that is silent for this long is fenced, and another folder may take its place.
const BROKER_SESSION_TIMEOUT_MS: u64 = 2_000;

/// Time between two rounds in which a node reads everything on its disk.
const SCRUB_INTERVAL_MS: u64 = 1_000;

/// Time between two checks for old records.
const RETENTION_CHECK_INTERVAL_MS: u64 = 300;

/// Time between two checks for partitions to compact.
const CLEANER_BACKOFF_MS: u64 = 200;

/// Percentage of runs with a relaxed topic.
const RELAXED_PERCENT: u64 = 25;

/// Percentage of runs in which coordinators of transactions move.
const MOVES_PERCENT: u64 = 30;

/// Percentage of runs with tight nodes.
const TIGHT_PERCENT: u64 = 25;

/// The settings of tight nodes. Together, two large requests need more memory than there is for all of them.
const TIGHT: [(&str, &str); 14] = [
    ("tailrace.io.threads", "1"),
    ("tailrace.flush.threads", "1"),
    ("tailrace.connection.in.flight.max", "1"),
    ("tailrace.nats.capture.acks.max", "1"),
    ("tailrace.open.segments.max", "16"),
    ("tailrace.nats.live.lag.max.bytes", "131072"),
    ("socket.request.max.bytes", "131072"),
    ("queued.max.request.bytes", "131072"),
    ("tailrace.nats.max.payload.bytes", "4096"),
    ("tailrace.nats.max.pending.bytes", "8192"),
    ("tailrace.kafka.logins.max", "3"),
    ("tailrace.kafka.logins.max.per.ip", "3"),
    ("tailrace.nats.logins.max", "2"),
    ("tailrace.nats.logins.max.per.ip", "2"),
];

/// Percentage of runs in which answers are lost all the time.
const RESETS_PERCENT: u64 = 20;

/// Percentages of non-blocking reads whose data is not in memory. Each run picks one.
const COLD_PERCENTS: [u64; 4] = [0, 3, 25, 100];

/// The number of the clients' computer.
const CLIENT: u8 = 100;

/// The computers, and the universe they run in.
pub(super) struct Site {
    pub(super) universe: Universe,
    pub(super) network: Network,
    pub(super) computers: Vec<Computer>,
    /// The machine of the clients. It stays on.
    pub(super) client: &'static Machine,
    /// How often each computer's node was started.
    pub(super) starts: Vec<u32>,
    /// Consumers may read from followers.
    pub(super) followers_answer: bool,
    pub(super) habits: Habits,
    /// Until when faults affect each computer, and the one of the clients after them.
    pub(super) disturbed: Vec<Duration>,
    /// The deputy's right is about to be taken.
    pub(super) takes_right: bool,
}

/// How this run differs from others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Habits {
    /// The data topic is compacted.
    pub(super) compacts_data: bool,
    /// Old records are acknowledged before they are synced, so a power failure is harm.
    pub(super) relaxes_old: bool,
    /// Coordinators of transactions move while what they have written is in flight.
    pub(super) moves_coordinators: bool,
    /// Nodes have one thread of each kind, and hardly any room for queues.
    pub(super) is_tight: bool,
    /// Clients log in, rules decide what they may do, and both change.
    pub(super) has_users: bool,
    /// Connections are reset all the time: requests are carried out, but their answers are lost.
    pub(super) loses_answers: bool,
}

impl Site {
    pub(super) fn new(nodes: u8, has_users: bool, rng: &mut Rng) -> Self {
        let universe = Universe::new(rng.next_u64());
        let network = Network::new(&universe);
        let one = |number| Computer::new(&network, number, rng.next_u64());
        let mut computers: Vec<_> = (1..=nodes).map(one).collect();
        let (client, starts) = (network.switch_on(CLIENT), vec![0; computers.len()]);
        let followers_answer = rng.percent(50);
        let habits = Habits {
            compacts_data: rng.percent(50),
            relaxes_old: rng.percent(RELAXED_PERCENT),
            moves_coordinators: rng.percent(MOVES_PERCENT),
            is_tight: rng.percent(TIGHT_PERCENT),
            loses_answers: rng.percent(RESETS_PERCENT),
            has_users,
        };
        let cold = usize::try_from(rng.below(COLD_PERCENTS.len() as u64)).expect("a small number");
        computers.iter_mut().for_each(|computer| computer.set_cold(COLD_PERCENTS[cold]));
        let disturbed = vec![Duration::ZERO; computers.len() + 1];
        Self {
            universe,
            network,
            computers,
            client,
            starts,
            followers_answer,
            habits,
            disturbed,
            takes_right: false,
        }
    }

    /// Returns the properties that only some runs have.
    pub(super) fn kind(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let kinds = [
            ("a cluster of five nodes", self.computers.len() == 5),
            ("a cluster of one node", self.computers.len() == 1),
            ("a relaxed topic", self.habits.relaxes_old),
            ("a cluster with users and rules", self.habits.has_users),
            ("nodes with one thread of each kind and tight budgets", self.habits.is_tight),
        ];
        kinds.into_iter().map(|(what, has)| (what, u64::from(has)))
    }

    /// Counts the non-blocking reads that would have had to wait for a disk.
    pub(super) fn would_wait(&self) -> u64 {
        self.computers.iter().map(Computer::would_wait).sum()
    }

    /// Returns the number of a computer. The clients' computer follows the others.
    pub(super) fn number(&self, index: usize) -> u8 {
        if index < self.computers.len() { number(index) } else { CLIENT }
    }

    /// Records that a fault affects a computer until then.
    pub(super) fn disturb(&mut self, index: usize, until: Duration) {
        let index = index.min(self.computers.len());
        self.disturbed[index] = self.disturbed[index].max(until);
    }

    /// Starts the node of a computer.
    pub(super) fn boot(&mut self, index: usize) {
        self.starts[index] += 1;
        let mut settings = settings(number(index), self.computers.len(), self.followers_answer);
        if self.habits.is_tight {
            settings.extend(TIGHT.map(|(key, value)| (key.to_owned(), value.to_owned())));
        }
        if self.habits.has_users {
            settings.extend(with_users());
        }
        self.computers[index].boot(settings);
    }

    /// Makes a coordinator hand over to another node as soon as it ends a transaction within this time.
    pub(super) fn move_coordinator(&self, from: usize, to: usize, within: Duration) {
        let (computer, to) = (&self.computers[from], NodeId(number(to).into()));
        let Some(node) = computer.node() else { return };
        computer.machine().enter(|| task::spawn(hand_over(node, to, within)));
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.client.stop(true);
    }
}

fn number(index: usize) -> u8 {
    u8::try_from(index + 1).expect("a small number")
}

/// The address at which other nodes reach a computer. The first one founds the cluster.
fn cluster_address(number: u8) -> String {
    format!("10.0.0.{number}:7000")
}

/// The address at which Kafka clients reach a computer.
pub(super) fn kafka_address(number: u8) -> String {
    format!("10.0.0.{number}:9092")
}

/// The address at which NATS clients reach a computer.
pub(super) fn nats_address(number: u8) -> String {
    format!("10.0.0.{number}:4222")
}

fn settings(number: u8, nodes: usize, followers_answer: bool) -> BTreeMap<String, String> {
    let seeds: Vec<String> = (0..nodes).map(|index| cluster_address(self::number(index))).collect();
    let mut settings = vec![
        ("data.dir", DATA_FOLDER.to_owned()),
        ("node.id", number.to_string()),
        ("cluster.listen", cluster_address(number)),
        ("tailrace.cluster.seeds", seeds.join(",")),
        ("broker.session.timeout.ms", BROKER_SESSION_TIMEOUT_MS.to_string()),
        ("tailrace.scrub.interval.ms", SCRUB_INTERVAL_MS.to_string()),
        // Verify every read, so that data that rots between two scrub rounds is not returned.
        ("tailrace.read.verify.after.ms", "0".to_owned()),
        ("log.cleaner.backoff.ms", CLEANER_BACKOFF_MS.to_string()),
        ("log.retention.check.interval.ms", RETENTION_CHECK_INTERVAL_MS.to_string()),
        ("kafka", kafka_address(number)),
        ("nats", nats_address(number)),
        ("http", format!("10.0.0.{number}:8222")),
        ("share.coordinator.snapshot.update.records.per.snapshot", "5".to_owned()),
        ("group.share.min.record.lock.duration.ms", "1000".to_owned()),
        ("group.share.min.session.timeout.ms", SESSION_TIMEOUT.as_millis().to_string()),
        ("group.share.session.timeout.ms", SESSION_TIMEOUT.as_millis().to_string()),
        ("group.share.min.heartbeat.interval.ms", "300".to_owned()),
        ("group.share.heartbeat.interval.ms", "300".to_owned()),
        ("group.min.session.timeout.ms", SESSION_TIMEOUT.as_millis().to_string()),
        ("group.initial.rebalance.delay.ms", "100".to_owned()),
        ("group.consumer.min.session.timeout.ms", SESSION_TIMEOUT.as_millis().to_string()),
        ("group.consumer.session.timeout.ms", SESSION_TIMEOUT.as_millis().to_string()),
        ("group.consumer.min.heartbeat.interval.ms", "300".to_owned()),
        ("group.consumer.heartbeat.interval.ms", "300".to_owned()),
    ];
    if followers_answer {
        settings.push(("replica.selector.class", RACK_AWARE.to_owned()));
    }
    settings.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

/// The settings of nodes whose clients log in.
fn with_users() -> impl Iterator<Item = (String, String)> {
    let settings = [
        ("authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer".to_owned()),
        ("super.users", format!("User:{ADMIN}")),
        ("tailrace.first.user", ADMIN.to_owned()),
        ("tailrace.first.password", password(ADMIN, 0)),
        ("tailrace.kafka.authentication", "required".to_owned()),
        // Clients that fail on purpose share an address, and would wait for seconds.
        ("connection.failed.authentication.delay.ms", "0".to_owned()),
        ("tailrace.nats.authentication", "required".to_owned()),
        ("delegation.token.secret.key", "the key of all nodes".to_owned()),
    ];
    settings.into_iter().map(|(key, value)| (key.to_owned(), value))
}

/// Returns the settings that a topic is created with.
pub(super) fn topic_settings(topic: &str, habits: Habits) -> Vec<(String, Option<String>)> {
    let mut settings = vec![("internal.segment.bytes", SEGMENT_BYTES.to_owned())];
    if [TOPIC, DATA_TOPIC].contains(&topic) {
        settings.push(("tailrace.subjects", format!("{topic}.>")));
    }
    if topic == OLD_TOPIC && habits.relaxes_old {
        settings.push(("flush.messages", i64::MAX.to_string()));
    }
    if topic == OLD_TOPIC {
        settings.push(("retention.bytes", RETENTION_BYTES.to_string()));
    }
    if Keeps::of(topic, habits).is_compacted() || INTERNAL_TOPICS.contains(&topic) {
        settings.push(("cleanup.policy", "compact".to_owned()));
        settings.push(("min.cleanable.dirty.ratio", "0.01".to_owned()));
    }
    settings.into_iter().map(|(key, value)| (key.to_owned(), Some(value))).collect()
}

pub(super) fn topic_partition(topic: &str, partition: PartitionId) -> TopicPartition {
    TopicPartition::new(TopicName::new(topic).expect("the names are legal"), partition)
}

/// Returns the number of replicas of a partition. One topic has a replica on every node.
pub(super) fn replicas_of(topic: &str, nodes: usize) -> usize {
    if topic == TOPIC { nodes } else { nodes.min(REPLICAS) }
}

/// See [`crate::checks`].
pub(crate) mod checks {
    use std::io::IoSlice;
    use std::path::Path;

    use tailrace_log::{Disk, DiskFile, OpenMode};

    use super::*;
    use crate::CrashMode;

    /// A node that was killed before its sync may have left unsynced data. A vote that was read counts, so it
    /// must be durable.
    pub fn what_a_killed_node_left_is_durable_once_the_next_one_runs() {
        let (mut site, file) = (Site::new(1, false, &mut Rng::new(1)), Path::new("/data/left"));
        let disk = site.computers[0].disk();
        disk.create_dir(Path::new(DATA_FOLDER)).expect("the disk is empty");
        let left = disk.open(file, OpenMode::Create).expect("the disk is empty");
        left.write_all_at(&[IoSlice::new(b"a vote")], 0).expect("the disk has room");
        site.computers[0].crash(CrashMode::KeepAll);
        let content = |site: &Site| site.computers[0].disk().crash(CrashMode::LoseAll).content(file);
        assert_eq!(content(&site), None, "a power failure removes the file");
        site.boot(0);
        site.universe.run_for(Duration::from_secs(10));
        assert!(site.computers[0].node().is_some(), "{:?}", site.computers[0].failed());
        assert_eq!(content(&site).as_deref(), Some(&b"a vote"[..]));
    }

    /// In seed 3488 of that time, the replica of the metadata log stopped before the node had started, and
    /// nothing reopened it.
    pub fn a_node_that_finds_its_disk_full_while_it_starts_goes_on_when_there_is_room() {
        let (seconds, mut waited) = (Duration::from_secs, 0);
        for bytes in (8_000..14_000).step_by(500) {
            let mut site = Site::new(3, false, &mut Rng::new(bytes));
            (0..3).for_each(|index| site.boot(index));
            site.universe.run_for(seconds(10));
            site.computers[2].lose_disk(bytes);
            site.computers[2].disk().set_space(Some(bytes));
            site.boot(2);
            site.universe.run_for(seconds(20));
            let computer = &site.computers[2];
            if computer.failed().is_some() {
                continue;
            }
            waited += u32::from(computer.node().is_none());
            computer.disk().set_space(None);
            site.universe.run_for(seconds(20));
            assert!(site.computers[2].node().is_some(), "{bytes} bytes: the node still waits");
        }
        assert!(waited > 0, "the node never waited for space");
    }
}
