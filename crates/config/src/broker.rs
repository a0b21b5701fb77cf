//! The settings of the broker: table and typed struct. Keys for the defaults of topics and groups are not here: `keys`
//! derives them from the tables of those.

use std::sync::Arc;

use tailrace_types::{DECOMPRESSED_BYTES_MAX, NodeId, i64_of};

use super::choice::{
    AdvertisedListener, LogFormat, MigrationPolicy, NatsTls, ReplicaSelector, Secret, TlsClientAuth,
};
use super::group::GroupConfig;
use super::key::ConfigKind::{Boolean, Class, Double, Int, List, Long, Password, Short, String as Text};
use super::key::{ConfigKey, Unit};
use super::layers::{DynamicConfigs, Layers};
use super::table::settings;
use super::topic::TopicConfig;

use ConfigKey as K;

const HOUR_MS: i64 = 3_600_000;
const DAY_MS: i64 = 86_400_000;

/// Largest value of `tailrace.nats.max.payload.bytes`: what NATS itself allows at most.
const NATS_PAYLOAD_MAX: i64 = 67_108_864;

settings! {
    /// What holds for this process, after dynamic settings, the start configuration and the defaults were merged.
    #[derive(Clone, Debug, PartialEq)]
    pub struct BrokerConfig, table BROKER_KEYS {
        /// Time for which a request waits for the markers of the producer's previous transaction. Then it is answered with
        /// CONCURRENT_TRANSACTIONS, and the client tries again.
        add_partitions_to_txn_max_timeout_ms: i64 = K::new("add.partitions.to.txn.max.timeout.ms", Int).default("100").ms()
            .at_least(1);
        /// The address that clients are told to connect to, HOST:PORT or PLAINTEXT://HOST:PORT. Set it behind a
        /// proxy, in a container, or when listening on all addresses. Without it clients are told the address that
        /// they reached.
        advertised_listeners: Option<AdvertisedListener> = K::new("advertised.listeners", List);
        /// Whether a topic that a client asks for by name is created when it does not exist.
        auto_create_topics_enable: bool = K::new("auto.create.topics.enable", Boolean).default("true");
        /// Whether leadership goes back to the first replica of a partition's assignment, once that replica is there again.
        auto_leader_rebalance_enable: bool = K::new("auto.leader.rebalance.enable", Boolean).default("true");
        /// Where this node stands: a rack, a room, a zone. Replicas of a partition are spread over racks, and consumers may
        /// read from a replica in their own one (client.rack). Spreading needs a rack on every node.
        broker_rack: Option<String> = K::new("broker.rack", Text);
        /// Time without a sign of life after which the controller takes a node for gone. Clients are then no longer told
        /// of it, and it does not count as in sync.
        broker_session_timeout_ms: u64 = K::new("broker.session.timeout.ms", Int).default("9000").ms().at_least(1000);
        /// Address at which other nodes of the cluster reach this one, HOST:PORT, or `off` for a node that is alone. Port 0
        /// picks a free one.
        cluster_listen: String = K::new("cluster.listen", Text).default("off");
        /// Time after which a connection without requests is closed.
        connections_max_idle_ms: u64 = K::new("connections.max.idle.ms", Long).default("600000").ms().at_least(1);
        /// Whether a node that is told to stop hands its leaderships to other replicas first.
        controlled_shutdown_enable: bool = K::new("controlled.shutdown.enable", Boolean).default("true");
        /// Folder for everything that is kept. One process at a time may use it.
        data_dir: String = K::new("data.dir", Text).default("./tailrace-data");
        /// Replicas of a topic that is created without a number of its own.
        default_replication_factor: i16 = K::new("default.replication.factor", Int).default("1").count("replicas")
            .between(1, 32_767);
        /// Whether clients may delete topics.
        delete_topic_enable: bool = K::new("delete.topic.enable", Boolean).default("true");
        /// Upper bound of the bytes in one answer to a fetch, whatever the client asks for. The first batch is sent
        /// even if it is larger.
        fetch_max_bytes: u32 = K::new("fetch.max.bytes", Int).default("57671680").bytes().at_least(1024);
        /// Bytes per second that this node's new replicas take, as long as they have no vote: those in
        /// follower.replication.throttled.replicas of their topics, all together.
        follower_replication_throttled_rate: u64 = K::new("follower.replication.throttled.rate", Long)
            .default("9223372036854775807").bytes().at_least(0).dynamic();
        /// Whether Kafka computes assignments of consumer groups on a thread of their own. Here they are computed where they are
        /// needed.
        group_consumer_assignor_offload_enable: bool = K::new("group.consumer.assignor.offload.enable", Boolean)
            .default("true").accepted();
        /// Assignors that members of consumer groups (KIP-848) may ask for: uniform and range. The first is for groups whose
        /// members do not ask for one.
        group_consumer_assignors: Vec<String> = K::new("group.consumer.assignors", List).default("uniform,range")
            .one_of(&["uniform", "range"]);
        /// Largest value that consumer.assignment.interval.ms may have, for consumer groups (KIP-848).
        group_consumer_max_assignment_interval_ms: i32 = K::new("group.consumer.max.assignment.interval.ms", Int)
            .default("15000").ms().at_least(0);
        /// Largest value that consumer.heartbeat.interval.ms may have, for consumer groups (KIP-848).
        group_consumer_max_heartbeat_interval_ms: i32 = K::new("group.consumer.max.heartbeat.interval.ms", Int)
            .default("15000").ms().at_least(1);
        /// Largest value that consumer.session.timeout.ms may have, for consumer groups (KIP-848).
        group_consumer_max_session_timeout_ms: i32 = K::new("group.consumer.max.session.timeout.ms", Int)
            .default("60000").ms().at_least(1);
        /// Members of a consumer group (KIP-848). Further ones are refused with GROUP_MAX_SIZE_REACHED. Never more than
        /// 100,000.
        group_consumer_max_size: i32 = K::new("group.consumer.max.size", Int).default("2147483647").count("members")
            .at_least(1);
        /// Whether a group changes its kind while it has members: upgrade (a classic group becomes a consumer group when a
        /// member of the new protocol joins), downgrade (and a classic group again when the last of those goes),
        /// bidirectional or disabled.
        group_consumer_migration_policy: MigrationPolicy = K::new("group.consumer.migration.policy", Text)
            .default("bidirectional").one_of(&["disabled", "upgrade", "downgrade", "bidirectional"]);
        /// Smallest value that consumer.assignment.interval.ms may have, for consumer groups (KIP-848).
        group_consumer_min_assignment_interval_ms: i32 = K::new("group.consumer.min.assignment.interval.ms", Int)
            .default("0").ms().at_least(0);
        /// Smallest value that consumer.heartbeat.interval.ms may have, for consumer groups (KIP-848).
        group_consumer_min_heartbeat_interval_ms: i32 = K::new("group.consumer.min.heartbeat.interval.ms", Int)
            .default("5000").ms().at_least(1);
        /// Smallest value that consumer.session.timeout.ms may have, for consumer groups (KIP-848).
        group_consumer_min_session_timeout_ms: i32 = K::new("group.consumer.min.session.timeout.ms", Int)
            .default("45000").ms().at_least(1);
        /// Time after which it is looked up again what the regular expressions of a consumer group match. New topics are noticed
        /// at once; this is for all else.
        group_consumer_regex_refresh_interval_ms: i32 = K::new("group.consumer.regex.refresh.interval.ms", Int)
            .default("600000").ms().at_least(10_000);
        /// Time that Kafka's group coordinator waits for more writes to append them together. Here writes are appended at once
        /// and synced together.
        group_coordinator_append_linger_ms: i32 = K::new("group.coordinator.append.linger.ms", Int).default("-1").ms()
            .at_least(-1).accepted();
        /// Threads of Kafka's group coordinator for background work. Here groups share the worker threads.
        group_coordinator_background_threads: i32 = K::new("group.coordinator.background.threads", Int).default("2")
            .count("threads").at_least(1).accepted();
        /// Largest buffer that Kafka's group coordinator keeps for its writes. Here none is kept.
        group_coordinator_cached_buffer_max_bytes: i32 = K::new("group.coordinator.cached.buffer.max.bytes", Int)
            .default("1048588").bytes().at_least(524_288).accepted();
        /// Threads of Kafka's group coordinator. Here groups share the worker threads.
        group_coordinator_threads: i32 = K::new("group.coordinator.threads", Int).default("4").count("threads").at_least(1)
            .accepted();
        /// Time for which a classic group that was empty waits for more members, before its first generation begins. Each
        /// member that joins meanwhile extends the wait by as much, up to the longest rebalance timeout of the members.
        group_initial_rebalance_delay_ms: i32 = K::new("group.initial.rebalance.delay.ms", Int).default("3000").ms()
            .at_least(0);
        /// Longest session timeout that a member of a classic group may ask for.
        group_max_session_timeout_ms: i32 = K::new("group.max.session.timeout.ms", Int).default("1800000").ms();
        /// Members of a classic group. Further ones are refused with GROUP_MAX_SIZE_REACHED. Never more than 100,000.
        group_max_size: i32 = K::new("group.max.size", Int).default("2147483647").count("members").at_least(1);
        /// Shortest session timeout that a member of a classic group may ask for. A short one notices dead members early,
        /// at the price of more heartbeats.
        group_min_session_timeout_ms: i32 = K::new("group.min.session.timeout.ms", Int).default("6000").ms();
        /// Whether Kafka computes assignments of share groups on a thread of their own. Here they are computed where they are
        /// needed.
        group_share_assignor_offload_enable: bool = K::new("group.share.assignor.offload.enable", Boolean)
            .default("true").accepted();
        /// The assignor of share groups. There is only simple.
        group_share_assignors: Vec<String> = K::new("group.share.assignors", List).default("simple")
            .one_of(&["simple"]);
        /// Time after which the state of a share group's new partitions is asked for again, if it is not there by then.
        group_share_initialize_retry_interval_ms: i32 = K::new("group.share.initialize.retry.interval.ms", Int)
            .default("30000").ms().at_least(1);
        /// Largest value that share.assignment.interval.ms may have, for share groups.
        group_share_max_assignment_interval_ms: i32 = K::new("group.share.max.assignment.interval.ms", Int)
            .default("15000").ms().at_least(0);
        /// Largest value that share.delivery.count.limit may have.
        group_share_max_delivery_count_limit: i32 = K::new("group.share.max.delivery.count.limit", Int)
            .default("10").count("deliveries").between(5, 25);
        /// Largest value that share.heartbeat.interval.ms may have, for share groups.
        group_share_max_heartbeat_interval_ms: i32 = K::new("group.share.max.heartbeat.interval.ms", Int)
            .default("15000").ms().at_least(1);
        /// Largest value that share.partition.max.record.locks may have.
        group_share_max_partition_max_record_locks: i32 = K::new("group.share.max.partition.max.record.locks", Int)
            .default("4000").count("records").between(2000, 10_000);
        /// Largest value that share.record.lock.duration.ms may have.
        group_share_max_record_lock_duration_ms: i32 = K::new("group.share.max.record.lock.duration.ms", Int)
            .default("60000").ms().between(30_000, 3_600_000);
        /// Largest value that share.session.timeout.ms may have, for share groups.
        group_share_max_session_timeout_ms: i32 = K::new("group.share.max.session.timeout.ms", Int)
            .default("60000").ms().at_least(1);
        /// Share sessions of all groups together. Beyond it, consumers get SHARE_SESSION_LIMIT_REACHED and try again.
        group_share_max_share_sessions: u32 = K::new("group.share.max.share.sessions", Int).default("2000")
            .count("sessions").at_least(1);
        /// Members of a share group. Further ones are refused with GROUP_MAX_SIZE_REACHED.
        group_share_max_size: i32 = K::new("group.share.max.size", Int).default("200").count("members").between(1, 1000);
        /// Smallest value that share.assignment.interval.ms may have, for share groups.
        group_share_min_assignment_interval_ms: i32 = K::new("group.share.min.assignment.interval.ms", Int)
            .default("0").ms().at_least(0);
        /// Smallest value that share.delivery.count.limit may have.
        group_share_min_delivery_count_limit: i32 = K::new("group.share.min.delivery.count.limit", Int)
            .default("2").count("deliveries").between(2, 5);
        /// Smallest value that share.heartbeat.interval.ms may have, for share groups.
        group_share_min_heartbeat_interval_ms: i32 = K::new("group.share.min.heartbeat.interval.ms", Int)
            .default("5000").ms().at_least(1);
        /// Smallest value that share.partition.max.record.locks may have.
        group_share_min_partition_max_record_locks: i32 = K::new("group.share.min.partition.max.record.locks", Int)
            .default("100").count("records").between(100, 2000);
        /// Smallest value that share.record.lock.duration.ms may have.
        group_share_min_record_lock_duration_ms: i32 = K::new("group.share.min.record.lock.duration.ms", Int)
            .default("15000").ms().between(1000, 30_000);
        /// Smallest value that share.session.timeout.ms may have, for share groups.
        group_share_min_session_timeout_ms: i32 = K::new("group.share.min.session.timeout.ms", Int)
            .default("45000").ms().at_least(1);
        /// Largest value that streams.assignment.interval.ms may have, for streams groups.
        group_streams_max_assignment_interval_ms: i32 = K::new("group.streams.max.assignment.interval.ms", Int)
            .default("15000").ms().at_least(0).accepted();
        /// Largest value that streams.heartbeat.interval.ms may have, for streams groups.
        group_streams_max_heartbeat_interval_ms: i32 = K::new("group.streams.max.heartbeat.interval.ms", Int)
            .default("15000").ms().at_least(1).accepted();
        /// Largest value that streams.session.timeout.ms may have, for streams groups.
        group_streams_max_session_timeout_ms: i32 = K::new("group.streams.max.session.timeout.ms", Int)
            .default("60000").ms().at_least(1).accepted();
        /// Largest value that streams.num.standby.replicas may have.
        group_streams_max_standby_replicas: i32 = K::new("group.streams.max.standby.replicas", Int)
            .default("2").count("replicas").at_least(0).accepted();
        /// Smallest value that streams.assignment.interval.ms may have, for streams groups.
        group_streams_min_assignment_interval_ms: i32 = K::new("group.streams.min.assignment.interval.ms", Int)
            .default("0").ms().at_least(0).accepted();
        /// Smallest value that streams.heartbeat.interval.ms may have, for streams groups.
        group_streams_min_heartbeat_interval_ms: i32 = K::new("group.streams.min.heartbeat.interval.ms", Int)
            .default("5000").ms().at_least(1).accepted();
        /// Smallest value that streams.session.timeout.ms may have, for streams groups.
        group_streams_min_session_timeout_ms: i32 = K::new("group.streams.min.session.timeout.ms", Int)
            .default("45000").ms().at_least(1).accepted();
        /// Address of the HTTP listener (health and metrics), HOST:PORT. Port 0 picks a free one.
        http: String = K::new("http", Text).default("127.0.0.1:8222");
        /// Address of the Kafka listener, HOST:PORT. Port 0 picks a free one.
        kafka: String = K::new("kafka", Text).default("127.0.0.1:9092");
        /// Time between two looks for partitions whose leader is not the first of their replicas.
        leader_imbalance_check_interval_seconds: u64 = K::new("leader.imbalance.check.interval.seconds", Long)
            .default("300").count("s").between(1, 86_400);
        /// Share of the partitions for which a node is the first replica that others may lead, in percent. Beyond it they
        /// are handed back.
        leader_imbalance_per_broker_percentage: u32 = K::new("leader.imbalance.per.broker.percentage", Int)
            .default("10").count("percent").between(0, 100);
        /// Bytes per second that this node sends to new replicas, as long as they have no vote: of the partitions for which it
        /// stands in leader.replication.throttled.replicas of their topics, all together.
        leader_replication_throttled_rate: u64 = K::new("leader.replication.throttled.rate", Long)
            .default("9223372036854775807").bytes().at_least(0).dynamic();
        /// Time between two looks for partitions that are worth compacting, when the last one found none.
        log_cleaner_backoff_ms: u64 = K::new("log.cleaner.backoff.ms", Long).default("15000").ms().at_least(0).dynamic();
        /// Memory for the keys of the partitions that are being compacted, of all threads together. A key takes 18 to 24
        /// bytes; with room for fewer keys than a partition has, compaction needs several rounds. Each thread
        /// reserves address space for its share, 32 MiB at least, while it compacts; memory is taken as needed.
        log_cleaner_dedupe_buffer_size: u64 = K::new("log.cleaner.dedupe.buffer.size", Long).default("134217728").bytes()
            .at_least(1_048_576).dynamic();
        /// Whether topics with cleanup.policy=compact are compacted at all.
        log_cleaner_enable: bool = K::new("log.cleaner.enable", Boolean).default("true");
        /// Share of the memory for keys that may be used. Values above 0.95 count as 0.95.
        log_cleaner_io_buffer_load_factor: f64 = K::new("log.cleaner.io.buffer.load.factor", Double).default("0.9")
            .dynamic();
        /// Memory for reading and writing while compacting, of all threads together. A thread takes 64 KiB at least, and enough
        /// for one batch.
        log_cleaner_io_buffer_size: u64 = K::new("log.cleaner.io.buffer.size", Int).default("524288").bytes().at_least(0)
            .dynamic();
        /// Bytes per second that compaction may read and write, of all threads together.
        log_cleaner_io_max_bytes_per_second: f64 = K::new("log.cleaner.io.max.bytes.per.second", Double)
            .default("1.7976931348623157E308").dynamic();
        /// Partitions that are compacted at the same time, each by a thread of its own. 0 compacts none.
        log_cleaner_threads: u32 = K::new("log.cleaner.threads", Int).default("1").count("threads").between(0, 64)
            .dynamic();
        /// Default of flush.ms for topics when log.flush.interval.ms is not set.
        log_flush_scheduler_interval_ms: i64 = K::new("log.flush.scheduler.interval.ms", Long)
            .default("9223372036854775807").ms().at_least(0);
        /// How the process writes its own messages to standard error: lines for people, or one JSON object per line.
        log_format: LogFormat = K::new("log.format", Text).default("text").one_of(&["text", "json"]);
        /// Which of its own messages the process writes: error, warn, info, debug or trace, also per module as in
        /// info,tailrace_log=debug.
        log_level: String = K::new("log.level", Text).default("info");
        /// Time between two looks for segments that have outlived their retention.
        log_retention_check_interval_ms: u64 = K::new("log.retention.check.interval.ms", Long).default("300000").ms()
            .at_least(1);
        /// Default of retention.ms in hours, when neither log.retention.ms nor log.retention.minutes is set. Negative:
        /// no limit.
        log_retention_hours: i32 = K::new("log.retention.hours", Int).default("168").unit(Unit::Hours).at_least(-1);
        /// Default of retention.ms in minutes, when log.retention.ms is not set. Negative: no limit.
        log_retention_minutes: Option<i64> = K::new("log.retention.minutes", Int).unit(Unit::Minutes).at_least(-1);
        /// Default of segment.ms in hours, when log.roll.ms is not set.
        log_roll_hours: i32 = K::new("log.roll.hours", Int).default("168").unit(Unit::Hours).at_least(1);
        /// Default of segment.jitter.ms in hours, when log.roll.jitter.ms is not set.
        log_roll_jitter_hours: i32 = K::new("log.roll.jitter.hours", Int).default("0").unit(Unit::Hours).at_least(0);
        /// Connections at most, of all listeners together. Further ones are closed at once. Each costs one descriptor
        /// and a few KiB while idle.
        max_connections: u32 = K::new("max.connections", Int).default("10000").count("connections").between(1, 1_000_000)
            .dynamic();
        /// Connections at most from one address, of Kafka clients and as many of NATS clients. Further ones are closed at once.
        max_connections_per_ip: u32 = K::new("max.connections.per.ip", Int).default("10000").count("connections")
            .between(1, 1_000_000).dynamic();
        /// Incremental fetch sessions that are remembered. When all are taken, further clients fetch without one.
        max_incremental_fetch_session_cache_slots: u32 = K::new("max.incremental.fetch.session.cache.slots", Int)
            .default("1000").count("sessions").between(0, 1_000_000);
        /// Address of the NATS listener, HOST:PORT, or `off` for none. Port 0 picks a free one.
        nats: String = K::new("nats", Text).default("127.0.0.1:4222");
        /// Number of this node, unique in its cluster. It is written to the data folder and must not change.
        node_id: i32 = K::new("node.id", Int).default("1").at_least(0).aliases(&["broker.id"]);
        /// Partitions of a topic that is created without a number of its own.
        num_partitions: i32 = K::new("num.partitions", Int).default("1").count("partitions").at_least(1);
        /// Longest text that a client may store with a committed offset, in characters of UTF-16, as Kafka counts. Longer
        /// ones are refused with OFFSET_METADATA_TOO_LARGE.
        offset_metadata_max_bytes: i32 = K::new("offset.metadata.max.bytes", Int).default("4096").bytes()
            .between(0, 1_048_576);
        /// Time after which Kafka gives up writing committed offsets. Here a write ends with the disk's answer.
        offsets_commit_timeout_ms: i32 = K::new("offsets.commit.timeout.ms", Int).default("5000").ms().at_least(1)
            .accepted();
        /// Bytes that Kafka reads at a time when it loads groups and offsets. Here it is 1 MiB.
        offsets_load_buffer_size: i32 = K::new("offsets.load.buffer.size", Int).default("5242880").bytes().at_least(1)
            .accepted();
        /// Time between two looks for committed offsets that have outlived offsets.retention.minutes.
        offsets_retention_check_interval_ms: u64 = K::new("offsets.retention.check.interval.ms", Long).default("600000").ms()
            .at_least(1);
        /// Time for which the offsets of a group are kept after it has lost its last member (KIP-211). Those of a consumer
        /// without a group membership are kept for as long after each commit.
        offsets_retention_minutes: i32 = K::new("offsets.retention.minutes", Int).default("10080").unit(Unit::Minutes)
            .at_least(1);
        /// Compression of Kafka's committed offsets, by number. Here they are not compressed.
        offsets_topic_compression_codec: i32 = K::new("offsets.topic.compression.codec", Int).default("0").accepted();
        /// Partitions that __consumer_offsets is created with. It decides which groups share a coordinator, and cannot be
        /// changed later.
        offsets_topic_num_partitions: i32 = K::new("offsets.topic.num.partitions", Int).default("50").count("partitions")
            .between(1, 10_000);
        /// Replicas that __consumer_offsets is created with. Where there are fewer nodes, each of them has one.
        offsets_topic_replication_factor: i16 = K::new("offsets.topic.replication.factor", Short).default("3")
            .count("replicas").at_least(1);
        /// Size of a segment of __consumer_offsets, when it is created. Small segments are compacted soon.
        offsets_topic_segment_bytes: i32 = K::new("offsets.topic.segment.bytes", Int).default("104857600").bytes()
            .at_least(1_048_576);
        /// Time between two looks for producer ids that have expired.
        producer_id_expiration_check_interval_ms: u64 = K::new("producer.id.expiration.check.interval.ms", Int)
            .default("600000").ms().at_least(1);
        /// Time after its last batch in a partition at which an idempotent producer is forgotten there.
        producer_id_expiration_ms: i64 = K::new("producer.id.expiration.ms", Int).default("86400000").ms().at_least(1)
            .dynamic();
        /// Memory that requests may take from the arrival of their length until they are answered, for the whole
        /// process. When it is used up, reading from connections pauses. Must hold the largest request. Kafka's -1 (no
        /// limit) is refused: nothing is unbounded.
        queued_max_request_bytes: u64 = K::new("queued.max.request.bytes", Long).default("104857600").bytes().at_least(1);
        /// From which replica consumers are told to fetch: always the leader, or one in their own rack (KIP-392).
        replica_selector_class: ReplicaSelector = K::new("replica.selector.class", Class).one_of(ReplicaSelector::NAMES);
        /// Updates of a share-partition's state in __share_group_state until the whole state is written again.
        share_coordinator_snapshot_update_records_per_snapshot: u32 =
            K::new("share.coordinator.snapshot.update.records.per.snapshot", Int).default("500").count("records")
            .between(0, 500);
        /// Partitions of __share_group_state, when it is created. Must not change afterwards.
        share_coordinator_state_topic_num_partitions: i32 = K::new("share.coordinator.state.topic.num.partitions", Int)
            .default("50").count("partitions").at_least(1);
        /// Replicas that __share_group_state is created with. Where there are fewer nodes, each of them has one.
        share_coordinator_state_topic_replication_factor: i16 = K::new("share.coordinator.state.topic.replication.factor", Short)
            .default("3").count("replicas").at_least(1);
        /// Size at which a segment of __share_group_state is closed and the next begun, set when the topic is created.
        share_coordinator_state_topic_segment_bytes: i32 = K::new("share.coordinator.state.topic.segment.bytes", Int)
            .default("104857600").bytes().at_least(1);
        /// Size of the kernel's buffer for what a client sends on one connection. -1 leaves it to the kernel, which adapts
        /// it; other values up to 1023 are raised to the kernel's least.
        socket_receive_buffer_bytes: i32 = K::new("socket.receive.buffer.bytes", Int).default("-1").bytes().at_least(-1);
        /// Size of the largest request. A connection that announces a larger one is closed.
        socket_request_max_bytes: u32 = K::new("socket.request.max.bytes", Int).default("104857600").bytes().at_least(1);
        /// Size of the kernel's buffer for answers on one connection. -1 leaves it to the kernel, which adapts it.
        socket_send_buffer_bytes: i32 = K::new("socket.send.buffer.bytes", Int).default("-1").bytes().at_least(-1);
        /// Time between two checkpoints of a partition. What was written since the last one is read again after a crash.
        tailrace_checkpoint_interval_ms: u64 = K::new("tailrace.checkpoint.interval.ms", Long).default("5000").ms()
            .at_least(1);
        /// The address that other nodes are told to connect to, HOST:PORT. Empty: the one of cluster.listen.
        tailrace_cluster_advertised: String = K::new("tailrace.cluster.advertised", Text).default("");
        /// Size of the largest frame between nodes. A node that announces a larger one is cut off. Must hold the largest
        /// batch.
        tailrace_cluster_frame_bytes_max: u32 = K::new("tailrace.cluster.frame.bytes.max", Int).default("104857600").bytes()
            .between(1_048_576, 1_073_741_824);
        /// Nodes of the cluster. Further ones are refused when they ask to join. Each node keeps a connection to every other.
        tailrace_cluster_nodes_max: u32 = K::new("tailrace.cluster.nodes.max", Int).default("64").count("nodes")
            .between(1, 1000);
        /// Bytes that may wait to be sent to one other node. Beyond it messages of replication are dropped and sent again
        /// later, and requests are refused. Must hold the largest frame.
        tailrace_cluster_queue_bytes_max: u64 = K::new("tailrace.cluster.queue.bytes.max", Long).default("134217728").bytes()
            .between(1_048_576, 1_099_511_627_776);
        /// Addresses of nodes of the cluster to join, HOST:PORT, separated by commas. Without any, a node with an empty data
        /// folder founds a cluster of its own.
        tailrace_cluster_seeds: Vec<String> = K::new("tailrace.cluster.seeds", List).default("");
        /// Whether nodes speak TLS with each other. Each shows a certificate and checks the other's.
        tailrace_cluster_tls: bool = K::new("tailrace.cluster.tls", Boolean).default("false");
        /// PEM file of the authorities whose certificates other nodes must show.
        tailrace_cluster_tls_ca_file: String = K::new("tailrace.cluster.tls.ca.file", Text).default("");
        /// PEM file of the certificate that this node shows to other nodes, followed by those of the authorities between
        /// it and a root.
        tailrace_cluster_tls_certificate_file: String = K::new("tailrace.cluster.tls.certificate.file", Text).default("");
        /// PEM file of that certificate's private key, unencrypted. Nobody but the server should be able to read it.
        tailrace_cluster_tls_key_file: String = K::new("tailrace.cluster.tls.key.file", Text).default("");
        /// Requests of one connection that may be unanswered. When reached, reading from it pauses.
        tailrace_connection_in_flight_max: u32 = K::new("tailrace.connection.in.flight.max", Int).default("64")
            .count("requests").between(1, 100_000);
        /// Nodes that vote about metadata. The others follow. With 3 of them one may fail, with 5 two.
        tailrace_controller_voters: u32 = K::new("tailrace.controller.voters", Int).default("3").count("nodes").between(1, 9);
        /// Size that a compressed batch may expand to while it is checked. Protects against decompression bombs; one
        /// worker thread may hold this much. What was accepted is compacted, and looked into by time, whatever is set later.
        tailrace_decompressed_bytes_max: u64 = K::new("tailrace.decompressed.bytes.max", Long).default("67108864").bytes()
            .between(1024, i64_of(DECOMPRESSED_BYTES_MAX));
        /// When fewer bytes are free on the disk of the data folder, /healthz warns (and stays 200). 0 warns only while
        /// writes are refused for want of space. The default is one segment of the default size.
        tailrace_disk_free_warning_bytes: u64 = K::new("tailrace.disk.free.warning.bytes", Long).default("1073741824").bytes()
            .at_least(0).dynamic();
        /// Threads that sync partitions to stable storage. As many syncs run at the same time.
        tailrace_flush_threads: u32 = K::new("tailrace.flush.threads", Int).default("8").count("threads")
            .between(1, 256);
        /// Whether the HTTP listener (health, metrics, WebSocket) speaks TLS only.
        tailrace_http_tls: bool = K::new("tailrace.http.tls", Boolean).default("false");
        /// Threads for reads that miss the page cache and for other work that may block on a disk.
        tailrace_io_threads: u32 = K::new("tailrace.io.threads", Int).default("4").count("threads").between(1, 256);
        /// Whether the Kafka listener speaks TLS only. Kafka clients call it security.protocol=SSL.
        tailrace_kafka_tls: bool = K::new("tailrace.kafka.tls", Boolean).default("false");
        /// The address, HOST:PORT, that NATS clients of all nodes are told for this one (`connect_urls`). Empty: the one of
        /// nats; where that is of all interfaces, clients are told of none. Only of a node among others.
        tailrace_nats_advertised: String = K::new("tailrace.nats.advertised", Text).default("");
        /// Time from the acceptance of a NATS connection until its CONNECT, if authentication is on; then it is closed with
        /// 'Authentication Timeout'.
        tailrace_nats_auth_timeout_ms: u64 = K::new("tailrace.nats.auth.timeout.ms", Long).default("2000").ms()
            .between(1, HOUR_MS);
        /// Publish acknowledgements of captured messages that may wait for durable records, for the whole process. While as
        /// many wait, connections that publish further messages with a reply subject are not read from. Each takes about 100
        /// bytes and its reply subject.
        tailrace_nats_capture_acks_max: u32 = K::new("tailrace.nats.capture.acks.max", Int).default("65536")
            .count("acknowledgements").between(1, 16_777_216);
        /// Bytes of captured messages that may wait for the leaders of their partitions, where several nodes may lead them; for the
        /// whole process. Messages beyond it are refused.
        tailrace_nats_capture_forward_bytes_max: u64 = K::new("tailrace.nats.capture.forward.bytes.max", Long)
            .default("67108864").bytes().between(1_048_576, 1_099_511_627_776);
        /// Time for which a captured message is offered to the leader of its partition, again and again while there is none or no
        /// answer. Then it is refused.
        tailrace_nats_capture_forward_timeout_ms: u64 = K::new("tailrace.nats.capture.forward.timeout.ms", Long)
            .default("10000").ms().between(1, HOUR_MS);
        /// Bytes of the subjects and queue groups that one other node's clients may be subscribed to, as this node remembers
        /// them. Further subscriptions there do not get what is published here.
        tailrace_nats_cluster_interest_bytes_max: u64 = K::new("tailrace.nats.cluster.interest.bytes.max", Long)
            .default("134217728").bytes().between(65_536, 1_099_511_627_776);
        /// The same in numbers: different subjects, each with its queue group. One takes about 300 bytes and its text.
        tailrace_nats_cluster_interest_max: u32 = K::new("tailrace.nats.cluster.interest.max", Int).default("1000000")
            .count("subjects").between(1, 100_000_000);
        /// Bytes of NATS messages that may wait to be sent to one other node. What is published beyond it does not reach that
        /// node's subscribers, and is counted.
        tailrace_nats_cluster_queue_bytes_max: u64 = K::new("tailrace.nats.cluster.queue.bytes.max", Long)
            .default("67108864").bytes().between(65_536, 1_099_511_627_776);
        /// Time over which a server in lame duck mode closes its NATS connections, one after the other, so that their
        /// clients do not all go to the next server in the same moment.
        tailrace_nats_lame_duck_duration_ms: u64 = K::new("tailrace.nats.lame.duck.duration.ms", Long).default("120000").ms()
            .between(0, DAY_MS);
        /// Time for which a server in lame duck mode goes on serving everybody, before it begins to close connections.
        tailrace_nats_lame_duck_grace_ms: u64 = K::new("tailrace.nats.lame.duck.grace.ms", Long).default("10000").ms()
            .between(0, DAY_MS);
        /// Bytes of Kafka batches that may wait for their delivery to live NATS subscribers, for the whole process. Beyond
        /// it the oldest are skipped: subscribers miss them, the log keeps them, and a metric counts them.
        tailrace_nats_live_lag_max_bytes: u64 = K::new("tailrace.nats.live.lag.max.bytes", Long).default("67108864").bytes()
            .between(1024, 1_099_511_627_776);
        /// NATS connections at most. Further ones are refused with 'maximum connections exceeded'.
        tailrace_nats_max_connections: u32 = K::new("tailrace.nats.max.connections", Int).default("65536")
            .count("connections").between(1, 10_000_000);
        /// Longest line of the NATS protocol without its payload, hence also of a subject. A client that sends a longer one
        /// is cut off with 'maximum control line exceeded'.
        tailrace_nats_max_control_line_bytes: u32 = K::new("tailrace.nats.max.control.line.bytes", Int).default("4096")
            .bytes().between(128, 65_535);
        /// Size of the largest NATS message, headers included. A client that announces a larger one is cut off with
        /// 'Maximum Payload Violation'. Topics that capture messages take batches large enough for it.
        tailrace_nats_max_payload_bytes: u32 = K::new("tailrace.nats.max.payload.bytes", Int).default("1048576").bytes()
            .between(1, NATS_PAYLOAD_MAX);
        /// Bytes that may wait to be sent to one NATS connection. A client that falls further behind is cut off as a slow
        /// consumer. Must hold the largest message.
        tailrace_nats_max_pending_bytes: u64 = K::new("tailrace.nats.max.pending.bytes", Long).default("67108864").bytes()
            .between(1024, 1_099_511_627_776);
        /// Shapes of pattern that one NATS connection may be subscribed to: how many words, and which of them are wildcards.
        /// Patterns without wildcards are not counted, those of more than 32 words once for each 32. Further ones are refused
        /// with 'maximum subscriptions exceeded'.
        tailrace_nats_max_subscription_shapes: u32 = K::new("tailrace.nats.max.subscription.shapes", Int).default("64")
            .count("shapes").between(1, 1_000_000);
        /// Subscriptions of one NATS connection at most, some 500 bytes each. Further ones are refused with 'maximum
        /// subscriptions exceeded'.
        tailrace_nats_max_subscriptions: u32 = K::new("tailrace.nats.max.subscriptions", Int).default("65536")
            .count("subscriptions").between(1, 100_000_000);
        /// Public nkey (it begins with U) of the one user that may connect to the NATS listener by signing the server's
        /// challenge. More users, and permissions, are in tailrace.nats.users.file.
        tailrace_nats_nkey: String = K::new("tailrace.nats.nkey", Text).default("");
        /// Whether this node keeps the cluster from its NATS clients and itself from others': no `connect_urls` here, and not this
        /// node's address among those of other nodes.
        tailrace_nats_no_advertise: bool = K::new("tailrace.nats.no.advertise", Boolean).default("false");
        /// Password of tailrace.nats.user: plain, or a bcrypt hash. Better set in the environment or in a file that only
        /// the server can read than on the command line.
        tailrace_nats_password: Secret = K::new("tailrace.nats.password", Password);
        /// Time between two PINGs to a NATS client that sends nothing.
        tailrace_nats_ping_interval_ms: u64 = K::new("tailrace.nats.ping.interval.ms", Long).default("120000").ms()
            .between(1, DAY_MS);
        /// PINGs that a NATS client may leave unanswered. At the next one it is cut off with 'Stale Connection'.
        tailrace_nats_ping_max: u32 = K::new("tailrace.nats.ping.max", Int).default("2").count("PINGs").between(1, 1000);
        /// Name of this server in its NATS INFO. Empty: tailrace- and the number of the node.
        tailrace_nats_server_name: String = K::new("tailrace.nats.server.name", Text).default("");
        /// Whether NATS connections must be encrypted: off, or required. Clients learn it from the server's first line and
        /// upgrade then, unless tailrace.nats.tls.handshake.first is set.
        tailrace_nats_tls: NatsTls = K::new("tailrace.nats.tls", Text).default("off").one_of(&["off", "required"]);
        /// Whether a NATS connection begins with the TLS handshake, so that not even the server's first line is readable.
        /// Clients must be told (tls_first, tlsHandshakeFirst).
        tailrace_nats_tls_handshake_first: bool = K::new("tailrace.nats.tls.handshake.first", Boolean).default("false");
        /// Token that everybody who connects to the NATS listener must present: plain, or a bcrypt hash. It excludes
        /// users.
        tailrace_nats_token: Secret = K::new("tailrace.nats.token", Password);
        /// Name of the one user that may connect to the NATS listener, with tailrace.nats.password. More users, and
        /// permissions, are in tailrace.nats.users.file.
        tailrace_nats_user: String = K::new("tailrace.nats.user", Text).default("");
        /// TOML file of the users that may connect to the NATS listener, with their passwords or nkeys and their
        /// permissions: see docs/security.md. It is read at the start.
        tailrace_nats_users_file: String = K::new("tailrace.nats.users.file", Text).default("");
        /// Whether NATS clients may connect to the HTTP listener by WebSocket.
        tailrace_nats_websocket: bool = K::new("tailrace.nats.websocket", Boolean).default("true");
        /// Whether WebSocket messages are compressed (permessage-deflate) for clients that ask for it.
        tailrace_nats_websocket_compression: bool = K::new("tailrace.nats.websocket.compression", Boolean).default("true");
        /// Origins (SCHEME://HOST:PORT) whose web pages may open a WebSocket; * allows all. Empty: only pages that this
        /// server's own address served. Programs that are no browser send no origin and are not held back.
        tailrace_nats_websocket_origins: Vec<String> = K::new("tailrace.nats.websocket.origins", List).default("");
        /// Time for which a NATS client may take no byte of what waits for it; then it is cut off as a slow consumer.
        tailrace_nats_write_deadline_ms: u64 = K::new("tailrace.nats.write.deadline.ms", Long).default("10000").ms()
            .between(1, DAY_MS);
        /// Segment files that are kept open at most, of all partitions together. The least recently used are closed.
        tailrace_open_segments_max: u32 = K::new("tailrace.open.segments.max", Int).default("4096").count("segments")
            .between(16, 1_000_000);
        /// Partitions of all topics together. Creating more is refused with POLICY_VIOLATION.
        tailrace_partitions_max: u32 = K::new("tailrace.partitions.max", Int).default("20000").count("partitions")
            .between(1, 1_000_000);
        /// Ticks without a word of the leader after which a replica asks to be elected: this many to twice as many, drawn
        /// anew each time.
        tailrace_raft_election_ticks: u32 = K::new("tailrace.raft.election.ticks", Int).default("10").count("ticks")
            .between(2, 1000);
        /// Ticks between two heartbeats of a leader. Fewer than tailrace.raft.election.ticks.
        tailrace_raft_heartbeat_ticks: u32 = K::new("tailrace.raft.heartbeat.ticks", Int).default("2").count("ticks")
            .between(1, 999);
        /// Length of a tick, the unit in which replicas count time. It must be the same on all nodes.
        tailrace_raft_tick_ms: u64 = K::new("tailrace.raft.tick.ms", Int).default("50").ms().between(1, 60_000);
        /// A batch is checked (its checksum, and that it is the one that belongs there) before it is handed out if its part of the log
        /// was not checked since the start, or was left alone for so long (up to twice as long). -1 checks nothing, which leaves
        /// it to the client and to the scrubber; 0 checks each time.
        tailrace_read_verify_after_ms: i64 = K::new("tailrace.read.verify.after.ms", Long).default("-1").ms().at_least(-1)
            .dynamic();
        /// Gives up, whenever it changes, what is damaged and on no replica any more: a word of its own, a colon, the name of a
        /// topic, and, after another colon, the number of a partition if it is only that one. Set by `tailrace cluster repair`.
        tailrace_repair_request: String = K::new("tailrace.repair.request", Text).default("").dynamic();
        /// Size of the largest request of any API but Produce. A connection that announces a larger one is closed. Kafka has
        /// socket.request.max.bytes for all.
        tailrace_request_other_max_bytes: u32 = K::new("tailrace.request.other.max.bytes", Int).default("16777216").bytes()
            .at_least(1);
        /// Time from the first byte of a request until its last; then the connection is closed. The default is the time
        /// after which clients give a request up.
        tailrace_request_read_timeout_ms: u64 = K::new("tailrace.request.read.timeout.ms", Long).default("30000").ms()
            .at_least(1);
        /// Time for which a client may take no byte of an answer that waits for it; then the connection is closed.
        tailrace_response_write_timeout_ms: u64 = K::new("tailrace.response.write.timeout.ms", Long).default("30000").ms()
            .at_least(1);
        /// Bytes per second that this node reads to check what lies on its disk. 0 checks nothing by itself, and sets no limit
        /// to what tailrace.scrub.request asks for.
        tailrace_scrub_bytes_per_second: u64 = K::new("tailrace.scrub.bytes.per.second", Long).default("4194304").bytes()
            .at_least(0).dynamic();
        /// Time from the beginning of one round in which a node checks all that lies on its disk to the beginning of the next. 0
        /// and -1 check nothing by themselves. The first round begins when a tenth of it has passed since the start.
        tailrace_scrub_interval_ms: i64 = K::new("tailrace.scrub.interval.ms", Long).default("604800000").ms().at_least(-1)
            .dynamic();
        /// Begins a round at once whenever it changes: a word of its own; after an @ the bytes per second of that round, if not
        /// those of tailrace.scrub.bytes.per.second (0: no limit); after a colon the name of a topic, if only that is to be
        /// checked. Set by `tailrace cluster scrub`.
        tailrace_scrub_request: String = K::new("tailrace.scrub.request", Text).default("").dynamic();
        /// Step in which disk space of an active segment is reserved beyond its size, from its first record on. 0
        /// reserves nothing. Each partition that is written to takes up to this much more disk.
        tailrace_segment_preallocate_bytes: u64 = K::new("tailrace.segment.preallocate.bytes", Long).default("4194304")
            .bytes().between(0, 1_073_741_824);
        /// Time that a stop may take to answer what is in flight. After it, connections are cut; what was acknowledged
        /// is on disk in any case.
        tailrace_shutdown_grace_ms: u64 = K::new("tailrace.shutdown.grace.ms", Long).default("10000").ms().at_least(0);
        /// PEM file of the authorities whose client certificates are accepted. Read with tailrace.tls.client.auth=required.
        tailrace_tls_ca_file: String = K::new("tailrace.tls.ca.file", Text).default("");
        /// PEM file of the certificate that every TLS listener shows, followed by those of the authorities between it and
        /// a root. It is read again when it changes.
        tailrace_tls_certificate_file: String = K::new("tailrace.tls.certificate.file", Text).default("");
        /// Whether clients of every TLS listener must show a certificate that an authority of tailrace.tls.ca.file issued:
        /// none or required.
        tailrace_tls_client_auth: TlsClientAuth = K::new("tailrace.tls.client.auth", Text).default("none")
            .one_of(&["none", "required"]);
        /// Time that a client may take for the TLS handshake; then the connection is closed.
        tailrace_tls_handshake_timeout_ms: u64 = K::new("tailrace.tls.handshake.timeout.ms", Long).default("5000").ms()
            .between(1, 600_000);
        /// PEM file of the certificate's private key, unencrypted. Nobody but the server should be able to read it.
        tailrace_tls_key_file: String = K::new("tailrace.tls.key.file", Text).default("");
        /// Partitions of one topic. Creating more is refused with POLICY_VIOLATION.
        tailrace_topic_partitions_max: u32 = K::new("tailrace.topic.partitions.max", Int).default("10000")
            .count("partitions").between(1, 1_000_000);
        /// Transactional ids in one partition of `__transaction_state`. Where there are as many, InitProducerId of a new one is
        /// refused with POLICY_VIOLATION until some have expired. Each takes about 300 bytes of memory and its id.
        tailrace_transactional_ids_max: u32 = K::new("tailrace.transactional.ids.max", Int).default("20000")
            .count("transactional ids").between(1, 10_000_000);
        /// Threads that run connections. 0 starts one per processor.
        tailrace_worker_threads: u32 = K::new("tailrace.worker.threads", Int).default("0").count("threads").between(0, 1024);
        /// Time between two looks for transactions that have been open for longer than their producer's transaction timeout.
        transaction_abort_timed_out_transaction_cleanup_interval_ms: i64 =
            K::new("transaction.abort.timed.out.transaction.cleanup.interval.ms", Int).default("10000").ms().at_least(1);
        /// Longest transaction timeout that a producer may ask for. Longer ones are refused with
        /// INVALID_TRANSACTION_TIMEOUT.
        transaction_max_timeout_ms: i32 = K::new("transaction.max.timeout.ms", Int).default("900000").ms().at_least(1);
        /// Time between two looks for transactional ids that have expired.
        transaction_remove_expired_transaction_cleanup_interval_ms: i64 =
            K::new("transaction.remove.expired.transaction.cleanup.interval.ms", Int).default("3600000").ms().at_least(1);
        /// Default of min.insync.replicas for `__transaction_state`. One node is one replica.
        transaction_state_log_min_isr: i32 = K::new("transaction.state.log.min.isr", Int).default("1").count("replicas")
            .at_least(1);
        /// Partitions of `__transaction_state`, when it is created. It must not change afterwards.
        transaction_state_log_num_partitions: i32 = K::new("transaction.state.log.num.partitions", Int).default("50")
            .count("partitions").between(1, 10_000);
        /// Replicas that `__transaction_state` is created with. Where there are fewer nodes, each of them has one.
        transaction_state_log_replication_factor: i16 = K::new("transaction.state.log.replication.factor", Short)
            .default("3").count("replicas").at_least(1);
        /// Size at which a segment of `__transaction_state` is closed and a new one begun.
        transaction_state_log_segment_bytes: i32 = K::new("transaction.state.log.segment.bytes", Int).default("104857600")
            .bytes().at_least(1_048_576);
        /// Time after its last use at which a transactional id is forgotten.
        transactional_id_expiration_ms: i64 = K::new("transactional.id.expiration.ms", Int).default("604800000").ms()
            .at_least(1);
    }
    with {
        /// What holds for a topic without overrides.
        pub topic_defaults: TopicConfig,
        /// What holds for a group without overrides.
        pub group_defaults: Arc<GroupConfig>,
        /// Where each value comes from.
        layers: Layers,
    }
}

impl BrokerConfig {
    /// The number of this node.
    pub fn node(&self) -> NodeId {
        NodeId(self.node_id)
    }

    pub(crate) fn layers(&self) -> &Layers {
        &self.layers
    }

    /// What was changed at run time.
    pub fn dynamic(&self) -> &DynamicConfigs {
        self.layers.dynamic()
    }

    /// Address of the listener for other nodes; `None` for a node that is alone.
    pub fn cluster_address(&self) -> Option<&str> {
        Some(self.cluster_listen.as_str()).filter(|address| *address != "off")
    }

    /// Address of the NATS listener; `None` when it is off.
    pub fn nats_address(&self) -> Option<&str> {
        Some(self.nats.as_str()).filter(|address| *address != "off")
    }

    /// What this server calls itself in its NATS INFO.
    pub fn nats_server_name(&self) -> String {
        match self.tailrace_nats_server_name.as_str() {
            "" => format!("tailrace-{}", self.node_id),
            name => name.to_owned(),
        }
    }
}
