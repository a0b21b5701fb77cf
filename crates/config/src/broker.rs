//! The settings of the broker: the table and the typed struct. The keys that hold broker-wide defaults for
//! topics and groups are not here. `keys` derives them from the topic and group tables.

use std::sync::Arc;

use tailrace_types::{DECOMPRESSED_BYTES_MAX, NodeId, i64_of};

use super::choice::{
    AuthorizerClass, KafkaAuthentication, LogFormat, MigrationPolicy, NatsAuthentication, NatsTls,
    ReplicaSelector, Secret, TlsClientAuth,
};
use super::group::GroupConfig;
use super::key::ConfigKind::{Boolean, Class, Double, Int, List, Long, Password, Short, String as Text};
use super::key::{ConfigKey, Unit};
use super::layers::{DynamicConfigs, Layers};
use super::listeners::KafkaListener;
use super::table::settings;
use super::topic::TopicConfig;

use ConfigKey as K;

const HOUR_MS: i64 = 3_600_000;
const DAY_MS: i64 = 86_400_000;

/// Largest value of `tailrace.nats.max.payload.bytes`. It is also NATS's own maximum.
const NATS_PAYLOAD_MAX: i64 = 67_108_864;

settings! {
    /// The effective configuration of this process: dynamic settings, the start configuration and the
    /// defaults, merged.
    #[derive(Clone, Debug, PartialEq)]
    pub struct BrokerConfig, table BROKER_KEYS {
        /// Time for which a request waits for the markers of the producer's previous transaction. After that
        /// the answer is CONCURRENT_TRANSACTIONS, and the client retries.
        add_partitions_to_txn_max_timeout_ms: i64 = K::new("add.partitions.to.txn.max.timeout.ms", Int).default("100").ms()
            .at_least(1);
        /// The address that clients are told to connect to, HOST:PORT. Set it behind a proxy, in a container,
        /// or when listening on all addresses. If it is not set, clients are told the address they connected
        /// to. With listeners, one address for each name: NAME://HOST:PORT,NAME://HOST:PORT. A listener that
        /// is not named here is advertised as if this were not set.
        advertised_listeners: Option<Vec<String>> = K::new("advertised.listeners", List);
        /// Whether everybody may use a resource that no rule names. Only with authorizer.class.name.
        allow_everyone_if_no_acl_found: bool = K::new("allow.everyone.if.no.acl.found", Boolean).default("false");
        /// Decides who may do what. Empty: everybody may do everything. The other value is Kafka's name of
        /// the rules that `kafka-acls` and `tailrace acl` change.
        authorizer_class_name: AuthorizerClass = K::new("authorizer.class.name", Class).default("")
            .one_of(AuthorizerClass::NAMES);
        /// Whether a topic is created when a client asks for its metadata and it does not exist.
        auto_create_topics_enable: bool = K::new("auto.create.topics.enable", Boolean).default("true");
        /// Whether leadership moves back to the preferred replica (the first one in a partition's assignment)
        /// when that replica is available again.
        auto_leader_rebalance_enable: bool = K::new("auto.leader.rebalance.enable", Boolean).default("true");
        /// The rack (or room, or availability zone) of this node. Replicas of a partition are spread over
        /// racks, and consumers may read from a replica in their own rack (client.rack). Spreading needs a
        /// rack on every node.
        broker_rack: Option<String> = K::new("broker.rack", Text);
        /// Time without contact after which the controller considers a node dead. Clients are then no longer
        /// told about it, and its replicas do not count as in sync.
        broker_session_timeout_ms: u64 = K::new("broker.session.timeout.ms", Int).default("9000").ms().at_least(1000);
        /// Address at which other nodes of the cluster reach this one, HOST:PORT, or `off` for a standalone
        /// server. Port 0 picks a free port.
        cluster_listen: String = K::new("cluster.listen", Text).default("off");
        /// How long the answer to a failed login is delayed, and with it the end of the connection. Doubles
        /// with each further failure of the same address, up to 5 s.
        connection_failed_authentication_delay_ms: u64 = K::new("connection.failed.authentication.delay.ms", Int)
            .default("100").ms().between(0, 5000);
        /// Time after which an idle connection, one without requests, is closed.
        connections_max_idle_ms: u64 = K::new("connections.max.idle.ms", Long).default("600000").ms().at_least(1);
        /// Time after which a Kafka client that logged in must log in again on the same connection. 0: never.
        connections_max_reauth_ms: u64 = K::new("connections.max.reauth.ms", Long).default("0").ms().at_least(0);
        /// Whether a node that is shutting down first hands its leaderships over to other replicas.
        controlled_shutdown_enable: bool = K::new("controlled.shutdown.enable", Boolean).default("true");
        /// Data folder: everything the server stores is in it. Only one process at a time may use it.
        data_dir: String = K::new("data.dir", Text).default("./tailrace-data");
        /// Replication factor of topics that are created without one.
        default_replication_factor: i16 = K::new("default.replication.factor", Int).default("1").count("replicas")
            .between(1, 32_767);
        /// Interval at which delegation tokens that have expired are removed. They are not accepted before
        /// that either.
        delegation_token_expiry_check_interval_ms: u64 = K::new("delegation.token.expiry.check.interval.ms", Long)
            .default("3600000").ms().at_least(1);
        /// How long a delegation token is valid without being renewed.
        delegation_token_expiry_time_ms: i64 = K::new("delegation.token.expiry.time.ms", Long).default("86400000").ms()
            .at_least(1);
        /// How long a delegation token can be renewed.
        delegation_token_max_lifetime_ms: i64 = K::new("delegation.token.max.lifetime.ms", Long).default("604800000").ms()
            .at_least(1);
        /// The key that makes the secrets of delegation tokens, at least 16 bytes, the same on every node.
        /// Prefer the environment (TAILRACE_DELEGATION_TOKEN_SECRET_KEY), or a file that only the server can
        /// read. Without it there are no delegation tokens. With another one, those that exist are void.
        delegation_token_secret_key: Secret = K::new("delegation.token.secret.key", Password);
        /// Whether clients may delete topics.
        delete_topic_enable: bool = K::new("delete.topic.enable", Boolean).default("true");
        /// Maximum size of a fetch response, whatever the client asks for. The first batch is sent even if it
        /// is larger.
        fetch_max_bytes: u32 = K::new("fetch.max.bytes", Int).default("57671680").bytes().at_least(1024);
        /// Maximum rate, in bytes per second, at which new replicas on this node receive data while they do
        /// not vote yet. It applies to the replicas listed in follower.replication.throttled.replicas of
        /// their topics, all together.
        follower_replication_throttled_rate: u64 = K::new("follower.replication.throttled.rate", Long)
            .default("9223372036854775807").bytes().at_least(0).dynamic();
        /// Assignors that members of consumer groups (KIP-848) may ask for: uniform and range. The first one
        /// listed is used for groups whose members do not ask for one.
        group_consumer_assignors: Vec<String> = K::new("group.consumer.assignors", List).default("uniform,range")
            .one_of(&["uniform", "range"]);
        /// Maximum of consumer.assignment.interval.ms, for consumer groups (KIP-848).
        group_consumer_max_assignment_interval_ms: i32 = K::new("group.consumer.max.assignment.interval.ms", Int)
            .default("15000").ms().at_least(0);
        /// Maximum of consumer.heartbeat.interval.ms, for consumer groups (KIP-848).
        group_consumer_max_heartbeat_interval_ms: i32 = K::new("group.consumer.max.heartbeat.interval.ms", Int)
            .default("15000").ms().at_least(1);
        /// Maximum of consumer.session.timeout.ms, for consumer groups (KIP-848).
        group_consumer_max_session_timeout_ms: i32 = K::new("group.consumer.max.session.timeout.ms", Int)
            .default("60000").ms().at_least(1);
        /// Maximum number of members of a consumer group (KIP-848). Further members are refused with
        /// GROUP_MAX_SIZE_REACHED. The limit is never above 100,000.
        group_consumer_max_size: i32 = K::new("group.consumer.max.size", Int).default("2147483647").count("members")
            .at_least(1);
        /// Whether a group can be converted to the other protocol while it has members. `upgrade`: a classic
        /// group becomes a consumer group when a member of the new protocol joins. `downgrade`: a consumer
        /// group becomes a classic group when the last member of the new protocol leaves. `bidirectional`
        /// allows both, `disabled` neither.
        group_consumer_migration_policy: MigrationPolicy = K::new("group.consumer.migration.policy", Text)
            .default("bidirectional").one_of(&["disabled", "upgrade", "downgrade", "bidirectional"]);
        /// Minimum of consumer.assignment.interval.ms, for consumer groups (KIP-848).
        group_consumer_min_assignment_interval_ms: i32 = K::new("group.consumer.min.assignment.interval.ms", Int)
            .default("0").ms().at_least(0);
        /// Minimum of consumer.heartbeat.interval.ms, for consumer groups (KIP-848).
        group_consumer_min_heartbeat_interval_ms: i32 = K::new("group.consumer.min.heartbeat.interval.ms", Int)
            .default("5000").ms().at_least(1);
        /// Minimum of consumer.session.timeout.ms, for consumer groups (KIP-848).
        group_consumer_min_session_timeout_ms: i32 = K::new("group.consumer.min.session.timeout.ms", Int)
            .default("45000").ms().at_least(1);
        /// Interval at which the regular expressions of a consumer group are resolved again. New topics are
        /// noticed at once; this covers all other changes.
        group_consumer_regex_refresh_interval_ms: i32 = K::new("group.consumer.regex.refresh.interval.ms", Int)
            .default("600000").ms().at_least(10_000);
        /// Time for which an empty classic group waits for more members before its first generation starts.
        /// Each member that joins in the meantime extends the wait by the same time, up to the longest
        /// rebalance timeout of the members.
        group_initial_rebalance_delay_ms: i32 = K::new("group.initial.rebalance.delay.ms", Int).default("3000").ms()
            .at_least(0);
        /// Longest session timeout that a member of a classic group may ask for.
        group_max_session_timeout_ms: i32 = K::new("group.max.session.timeout.ms", Int).default("1800000").ms();
        /// Maximum number of members of a classic group. Further members are refused with
        /// GROUP_MAX_SIZE_REACHED. The limit is never above 100,000.
        group_max_size: i32 = K::new("group.max.size", Int).default("2147483647").count("members").at_least(1);
        /// Shortest session timeout that a member of a classic group may ask for. A short timeout detects
        /// dead members sooner, at the cost of more heartbeats.
        group_min_session_timeout_ms: i32 = K::new("group.min.session.timeout.ms", Int).default("6000").ms();
        /// Assignors of share groups. `simple` is the only one.
        group_share_assignors: Vec<String> = K::new("group.share.assignors", List).default("simple")
            .one_of(&["simple"]);
        /// Time after which the coordinator asks again for the state of a share group's new partitions, if it
        /// has not been initialized by then.
        group_share_initialize_retry_interval_ms: i32 = K::new("group.share.initialize.retry.interval.ms", Int)
            .default("30000").ms().at_least(1);
        /// Maximum of share.assignment.interval.ms, for share groups.
        group_share_max_assignment_interval_ms: i32 = K::new("group.share.max.assignment.interval.ms", Int)
            .default("15000").ms().at_least(0);
        /// Maximum of share.delivery.count.limit.
        group_share_max_delivery_count_limit: i32 = K::new("group.share.max.delivery.count.limit", Int)
            .default("10").count("deliveries").between(5, 25);
        /// Maximum of share.heartbeat.interval.ms, for share groups.
        group_share_max_heartbeat_interval_ms: i32 = K::new("group.share.max.heartbeat.interval.ms", Int)
            .default("15000").ms().at_least(1);
        /// Maximum of share.partition.max.record.locks.
        group_share_max_partition_max_record_locks: i32 = K::new("group.share.max.partition.max.record.locks", Int)
            .default("4000").count("records").between(2000, 10_000);
        /// Maximum of share.record.lock.duration.ms.
        group_share_max_record_lock_duration_ms: i32 = K::new("group.share.max.record.lock.duration.ms", Int)
            .default("60000").ms().between(30_000, 3_600_000);
        /// Maximum of share.session.timeout.ms, for share groups.
        group_share_max_session_timeout_ms: i32 = K::new("group.share.max.session.timeout.ms", Int)
            .default("60000").ms().at_least(1);
        /// Maximum number of share sessions of all groups together. Beyond it, consumers get
        /// SHARE_SESSION_LIMIT_REACHED and retry.
        group_share_max_share_sessions: u32 = K::new("group.share.max.share.sessions", Int).default("2000")
            .count("sessions").at_least(1);
        /// Maximum number of members of a share group. Further members are refused with
        /// GROUP_MAX_SIZE_REACHED.
        group_share_max_size: i32 = K::new("group.share.max.size", Int).default("200").count("members").between(1, 1000);
        /// Minimum of share.assignment.interval.ms, for share groups.
        group_share_min_assignment_interval_ms: i32 = K::new("group.share.min.assignment.interval.ms", Int)
            .default("0").ms().at_least(0);
        /// Minimum of share.delivery.count.limit.
        group_share_min_delivery_count_limit: i32 = K::new("group.share.min.delivery.count.limit", Int)
            .default("2").count("deliveries").between(2, 5);
        /// Minimum of share.heartbeat.interval.ms, for share groups.
        group_share_min_heartbeat_interval_ms: i32 = K::new("group.share.min.heartbeat.interval.ms", Int)
            .default("5000").ms().at_least(1);
        /// Minimum of share.partition.max.record.locks.
        group_share_min_partition_max_record_locks: i32 = K::new("group.share.min.partition.max.record.locks", Int)
            .default("100").count("records").between(100, 2000);
        /// Minimum of share.record.lock.duration.ms.
        group_share_min_record_lock_duration_ms: i32 = K::new("group.share.min.record.lock.duration.ms", Int)
            .default("15000").ms().between(1000, 30_000);
        /// Minimum of share.session.timeout.ms, for share groups.
        group_share_min_session_timeout_ms: i32 = K::new("group.share.min.session.timeout.ms", Int)
            .default("45000").ms().at_least(1);
        /// Maximum of streams.assignment.interval.ms, for streams groups.
        group_streams_max_assignment_interval_ms: i32 = K::new("group.streams.max.assignment.interval.ms", Int)
            .default("15000").ms().at_least(0).accepted();
        /// Maximum of streams.heartbeat.interval.ms, for streams groups.
        group_streams_max_heartbeat_interval_ms: i32 = K::new("group.streams.max.heartbeat.interval.ms", Int)
            .default("15000").ms().at_least(1).accepted();
        /// Maximum of streams.session.timeout.ms, for streams groups.
        group_streams_max_session_timeout_ms: i32 = K::new("group.streams.max.session.timeout.ms", Int)
            .default("60000").ms().at_least(1).accepted();
        /// Maximum of streams.num.standby.replicas.
        group_streams_max_standby_replicas: i32 = K::new("group.streams.max.standby.replicas", Int)
            .default("2").count("replicas").at_least(0).accepted();
        /// Minimum of streams.assignment.interval.ms, for streams groups.
        group_streams_min_assignment_interval_ms: i32 = K::new("group.streams.min.assignment.interval.ms", Int)
            .default("0").ms().at_least(0).accepted();
        /// Minimum of streams.heartbeat.interval.ms, for streams groups.
        group_streams_min_heartbeat_interval_ms: i32 = K::new("group.streams.min.heartbeat.interval.ms", Int)
            .default("5000").ms().at_least(1).accepted();
        /// Minimum of streams.session.timeout.ms, for streams groups.
        group_streams_min_session_timeout_ms: i32 = K::new("group.streams.min.session.timeout.ms", Int)
            .default("45000").ms().at_least(1).accepted();
        /// Address of the HTTP listener (health and metrics), HOST:PORT. Port 0 picks a free port.
        http: String = K::new("http", Text).default("127.0.0.1:8222");
        /// Address of the Kafka listener, HOST:PORT. Port 0 picks a free port. For several listeners, or one
        /// with a name, set listeners instead.
        kafka: String = K::new("kafka", Text).default("127.0.0.1:9092");
        /// Interval between checks for partitions that are not led by their preferred replica.
        leader_imbalance_check_interval_seconds: u64 = K::new("leader.imbalance.check.interval.seconds", Long)
            .default("300").count("s").between(1, 86_400);
        /// Percentage of a node's preferred partitions (those of which it is the first replica) that other
        /// nodes may lead. Above it, their leadership moves back to the node.
        leader_imbalance_per_broker_percentage: u32 = K::new("leader.imbalance.per.broker.percentage", Int)
            .default("10").count("percent").between(0, 100);
        /// Maximum rate, in bytes per second, at which this node sends data to new replicas while they do not
        /// vote yet. It applies to the partitions for which leader.replication.throttled.replicas of the
        /// topic lists this node, all together.
        leader_replication_throttled_rate: u64 = K::new("leader.replication.throttled.rate", Long)
            .default("9223372036854775807").bytes().at_least(0).dynamic();
        /// The protocol of each listener in listeners: NAME:PROTOCOL,NAME:PROTOCOL. The protocols are
        /// PLAINTEXT, SSL, SASL_PLAINTEXT and SASL_SSL. Once it is set, the default's entries are gone.
        listener_security_protocol_map: String = K::new("listener.security.protocol.map", Text)
            .default("PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL");
        /// Kafka listeners by name: NAME://HOST:PORT,NAME://HOST:PORT. listener.security.protocol.map says
        /// what each speaks. Without a host, one listens on all IPv4 addresses. Empty: the listener without a
        /// name, whose settings are kafka, tailrace.kafka.tls and tailrace.kafka.authentication. A listener's
        /// own listener.name.NAME.sasl.enabled.mechanisms and listener.name.NAME.ssl.client.auth (none,
        /// requested, required), with the name in lower case, win over sasl.enabled.mechanisms and
        /// tailrace.tls.client.auth.
        listeners: Vec<String> = K::new("listeners", List).default("");
        /// Time for which compaction pauses when no partition is worth compacting.
        log_cleaner_backoff_ms: u64 = K::new("log.cleaner.backoff.ms", Long).default("15000").ms().at_least(0).dynamic();
        /// Memory for the keys of the partitions that are being compacted, of all threads together. A key
        /// takes 18 to 24 bytes. If the keys of a partition do not fit, compaction needs several rounds. Each
        /// thread reserves address space for its share, at least 32 MiB, while it compacts; memory is taken
        /// as needed.
        log_cleaner_dedupe_buffer_size: u64 = K::new("log.cleaner.dedupe.buffer.size", Long).default("134217728").bytes()
            .at_least(1_048_576).dynamic();
        /// Whether compaction runs at all, for topics with cleanup.policy=compact.
        log_cleaner_enable: bool = K::new("log.cleaner.enable", Boolean).default("true");
        /// Fraction of the memory for keys that may be used. Values above 0.95 count as 0.95.
        log_cleaner_io_buffer_load_factor: f64 = K::new("log.cleaner.io.buffer.load.factor", Double).default("0.9")
            .dynamic();
        /// Memory for reading and writing during compaction, of all threads together. A thread takes at least
        /// 64 KiB, and enough for one batch.
        log_cleaner_io_buffer_size: u64 = K::new("log.cleaner.io.buffer.size", Int).default("524288").bytes().at_least(0)
            .dynamic();
        /// Maximum rate, in bytes per second, of reads and writes by compaction, of all threads together.
        log_cleaner_io_max_bytes_per_second: f64 = K::new("log.cleaner.io.max.bytes.per.second", Double)
            .default("1.7976931348623157E308").dynamic();
        /// Threads that compact partitions, each one partition at a time. 0 turns compaction off.
        log_cleaner_threads: u32 = K::new("log.cleaner.threads", Int).default("1").count("threads").between(0, 64)
            .dynamic();
        /// Default of flush.ms for topics when log.flush.interval.ms is not set.
        log_flush_scheduler_interval_ms: i64 = K::new("log.flush.scheduler.interval.ms", Long)
            .default("9223372036854775807").ms().at_least(0);
        /// Format of the process's own log on standard error: text lines, or one JSON object per line.
        log_format: LogFormat = K::new("log.format", Text).default("text").one_of(&["text", "json"]);
        /// Level of the process's own log: error, warn, info, debug or trace. It can be set per module, as in
        /// info,tailrace_log=debug.
        log_level: String = K::new("log.level", Text).default("info");
        /// Interval between checks for segments that retention allows to be deleted.
        log_retention_check_interval_ms: u64 = K::new("log.retention.check.interval.ms", Long).default("300000").ms()
            .at_least(1);
        /// Default of retention.ms in hours, when neither log.retention.ms nor log.retention.minutes is set.
        /// Negative: no limit.
        log_retention_hours: i32 = K::new("log.retention.hours", Int).default("168").unit(Unit::Hours).at_least(-1);
        /// Default of retention.ms in minutes, when log.retention.ms is not set. Negative: no limit.
        log_retention_minutes: Option<i64> = K::new("log.retention.minutes", Int).unit(Unit::Minutes).at_least(-1);
        /// Default of segment.ms in hours, when log.roll.ms is not set.
        log_roll_hours: i32 = K::new("log.roll.hours", Int).default("168").unit(Unit::Hours).at_least(1);
        /// Default of segment.jitter.ms in hours, when log.roll.jitter.ms is not set.
        log_roll_jitter_hours: i32 = K::new("log.roll.jitter.hours", Int).default("0").unit(Unit::Hours).at_least(0);
        /// Maximum number of connections, of all listeners together. Further connections are closed at once.
        /// An idle connection costs one file descriptor and a few KiB.
        max_connections: u32 = K::new("max.connections", Int).default("10000").count("connections").between(1, 1_000_000)
            .dynamic();
        /// Maximum number of connections from one IP address, counted separately for Kafka clients and for
        /// NATS clients. Further connections are closed at once.
        max_connections_per_ip: u32 = K::new("max.connections.per.ip", Int).default("10000").count("connections")
            .between(1, 1_000_000).dynamic();
        /// Maximum number of incremental fetch sessions that are cached. When all slots are taken, further
        /// clients fetch without a session.
        max_incremental_fetch_session_cache_slots: u32 = K::new("max.incremental.fetch.session.cache.slots", Int)
            .default("1000").count("sessions").between(0, 1_000_000);
        /// Address of the NATS listener, HOST:PORT, or `off` for none. Port 0 picks a free port.
        nats: String = K::new("nats", Text).default("127.0.0.1:4222");
        /// Id of this node, unique in its cluster. It is written to the data folder and must not change.
        node_id: i32 = K::new("node.id", Int).default("1").at_least(0).aliases(&["broker.id"]);
        /// Number of partitions of topics that are created without one.
        num_partitions: i32 = K::new("num.partitions", Int).default("1").count("partitions").at_least(1);
        /// Maximum length of the metadata text that a client may store with a committed offset, in UTF-16
        /// code units, as Kafka counts. A longer text is refused with OFFSET_METADATA_TOO_LARGE.
        offset_metadata_max_bytes: i32 = K::new("offset.metadata.max.bytes", Int).default("4096").bytes()
            .between(0, 1_048_576);
        /// Interval between checks for committed offsets that are older than offsets.retention.minutes.
        offsets_retention_check_interval_ms: u64 = K::new("offsets.retention.check.interval.ms", Long).default("600000").ms()
            .at_least(1);
        /// Time for which the committed offsets of a group are kept after its last member has left (KIP-211).
        /// The offsets of a consumer that is not a group member are kept for this time after each commit.
        offsets_retention_minutes: i32 = K::new("offsets.retention.minutes", Int).default("10080").unit(Unit::Minutes)
            .at_least(1);
        /// Number of partitions of __consumer_offsets when it is created. It determines which groups share a
        /// coordinator, and cannot be changed later.
        offsets_topic_num_partitions: i32 = K::new("offsets.topic.num.partitions", Int).default("50").count("partitions")
            .between(1, 10_000);
        /// Replication factor of __consumer_offsets when it is created. If there are fewer nodes, each node
        /// gets a replica.
        offsets_topic_replication_factor: i16 = K::new("offsets.topic.replication.factor", Short).default("3")
            .count("replicas").at_least(1);
        /// Segment size of __consumer_offsets when it is created. Small segments are compacted sooner.
        offsets_topic_segment_bytes: i32 = K::new("offsets.topic.segment.bytes", Int).default("104857600").bytes()
            .at_least(1_048_576);
        /// Interval between checks for expired producer ids.
        producer_id_expiration_check_interval_ms: u64 = K::new("producer.id.expiration.check.interval.ms", Int)
            .default("600000").ms().at_least(1);
        /// Time after an idempotent producer's last batch in a partition at which the partition forgets its
        /// producer id.
        producer_id_expiration_ms: i64 = K::new("producer.id.expiration.ms", Int).default("86400000").ms().at_least(1)
            .dynamic();
        /// Memory that requests may take in the whole process, from the arrival of their length until they
        /// are answered. When it is used up, the server pauses reading from connections. It must hold the
        /// largest request. Kafka's -1 (no limit) is refused: nothing is unbounded.
        queued_max_request_bytes: u64 = K::new("queued.max.request.bytes", Long).default("104857600").bytes().at_least(1);
        /// From which replica consumers fetch: always the leader, or one in their own rack (KIP-392).
        replica_selector_class: ReplicaSelector = K::new("replica.selector.class", Class).one_of(ReplicaSelector::NAMES);
        /// Mechanisms with which Kafka clients may log in: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER.
        /// Kafka's default is GSSAPI, which tailrace does not have.
        sasl_enabled_mechanisms: Vec<String> = K::new("sasl.enabled.mechanisms", List)
            .default("SCRAM-SHA-256,SCRAM-SHA-512,PLAIN")
            .one_of(&["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]);
        /// How much the clocks of the tokens' issuer and of this machine may differ.
        sasl_oauthbearer_clock_skew_seconds: u32 = K::new("sasl.oauthbearer.clock.skew.seconds", Int).default("30")
            .unit(Unit::Seconds).between(0, 600);
        /// Audiences, of which a token must name one. Kafka accepts any if none is set. Here OAUTHBEARER
        /// needs one: otherwise a token that was issued for another service would open this one.
        sasl_oauthbearer_expected_audience: Vec<String> = K::new("sasl.oauthbearer.expected.audience", List).default("");
        /// The only issuer of tokens. Kafka accepts any if none is set. Here OAUTHBEARER needs it.
        sasl_oauthbearer_expected_issuer: String = K::new("sasl.oauthbearer.expected.issuer", Text).default("");
        /// Interval between two fetches of the keys. A token that names an unknown key starts one earlier, at
        /// most 16 times a minute.
        sasl_oauthbearer_jwks_endpoint_refresh_ms: u64 = K::new("sasl.oauthbearer.jwks.endpoint.refresh.ms", Long)
            .default("3600000").ms().between(1_000, 7 * DAY_MS);
        /// Longest pause between two attempts to fetch the keys, while they fail.
        sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms: u64 =
            K::new("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", Long).default("10000").ms()
            .between(100, DAY_MS);
        /// Pause after the first failed attempt to fetch the keys. It doubles with each further one.
        sasl_oauthbearer_jwks_endpoint_retry_backoff_ms: u64 =
            K::new("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", Long).default("100").ms()
            .between(100, DAY_MS);
        /// The issuer's public keys, a JSON Web Key Set: a file (file:///PATH), which is read again when it
        /// changes, or the address of a web server (https://HOST/PATH). Redirects are not followed.
        sasl_oauthbearer_jwks_endpoint_url: String = K::new("sasl.oauthbearer.jwks.endpoint.url", Text).default("");
        /// The claim of a token that has its scopes. They must be well-formed, and decide nothing.
        sasl_oauthbearer_scope_claim_name: String = K::new("sasl.oauthbearer.scope.claim.name", Text).default("scope");
        /// The claim of a token that has the user's name.
        sasl_oauthbearer_sub_claim_name: String = K::new("sasl.oauthbearer.sub.claim.name", Text).default("sub");
        /// Maximum size of a request before and during the login.
        sasl_server_max_receive_size: u32 = K::new("sasl.server.max.receive.size", Int).default("524288").bytes()
            .between(1024, 1_048_576);
        /// Number of updates of a share-partition's state in __share_group_state after which the whole state
        /// is written again, as a snapshot.
        share_coordinator_snapshot_update_records_per_snapshot: u32 =
            K::new("share.coordinator.snapshot.update.records.per.snapshot", Int).default("500").count("records")
            .between(0, 500);
        /// Number of partitions of __share_group_state when it is created. Must not change afterwards.
        share_coordinator_state_topic_num_partitions: i32 = K::new("share.coordinator.state.topic.num.partitions", Int)
            .default("50").count("partitions").at_least(1);
        /// Replication factor of __share_group_state when it is created. If there are fewer nodes, each node
        /// gets a replica.
        share_coordinator_state_topic_replication_factor: i16 = K::new("share.coordinator.state.topic.replication.factor", Short)
            .default("3").count("replicas").at_least(1);
        /// Segment size of __share_group_state when it is created: a segment that reaches it is closed, and
        /// the next one started.
        share_coordinator_state_topic_segment_bytes: i32 = K::new("share.coordinator.state.topic.segment.bytes", Int)
            .default("104857600").bytes().at_least(1);
        /// Size of the kernel's receive buffer of a connection. -1 leaves it to the kernel, which adapts it.
        /// Other values up to 1023 are raised to the kernel's minimum.
        socket_receive_buffer_bytes: i32 = K::new("socket.receive.buffer.bytes", Int).default("-1").bytes().at_least(-1);
        /// Maximum size of a request. A connection that announces a larger one is closed.
        socket_request_max_bytes: u32 = K::new("socket.request.max.bytes", Int).default("104857600").bytes().at_least(1);
        /// Size of the kernel's send buffer of a connection. -1 leaves it to the kernel, which adapts it.
        socket_send_buffer_bytes: i32 = K::new("socket.send.buffer.bytes", Int).default("-1").bytes().at_least(-1);
        /// Rules that make a user's name of the subject of a client's certificate, separated by commas:
        /// RULE:pattern/replacement/ with L or U for lower or upper case, or DEFAULT for the whole subject.
        /// The first that matches counts. A client whose certificate gets no name must log in by SASL. Only
        /// with tailrace.kafka.tls and tailrace.tls.client.auth=required.
        ssl_principal_mapping_rules: String = K::new("ssl.principal.mapping.rules", Text).default("DEFAULT");
        /// Users who may do everything, whatever the rules say: `User:alice;User:bob`. With
        /// authorizer.class.name there must be at least one.
        super_users: String = K::new("super.users", Text).default("");
        /// File of the audit log: one JSON object in each line, see docs/security.md. Empty: the audit log
        /// has no file of its own, and is part of the server's log.
        tailrace_audit_log_file: String = K::new("tailrace.audit.log.file", Text).default("");
        /// Size at which the file of the audit log is renamed (NAME.1, NAME.2, ...) and a new one begun.
        tailrace_audit_log_file_bytes: u64 = K::new("tailrace.audit.log.file.bytes", Long).default("104857600").bytes()
            .between(65_536, 1 << 40);
        /// Number of renamed files of the audit log that are kept. The oldest is deleted.
        tailrace_audit_log_files: u32 = K::new("tailrace.audit.log.files", Int).default("10").count("files").between(1, 1000);
        /// Whether the events of the audit log also go to the topic __tailrace_audit_log, which only users with
        /// ALTER on the cluster can read. Needs authorizer.class.name. Set it on all nodes.
        tailrace_audit_log_topic: bool = K::new("tailrace.audit.log.topic", Boolean).default("false");
        /// Replication factor of the topic of the audit log when it is created. If there are fewer nodes, each
        /// node gets a replica.
        tailrace_audit_log_topic_replication_factor: i16 = K::new("tailrace.audit.log.topic.replication.factor", Short)
            .default("3").count("replicas").at_least(1);
        /// Size of the topic of the audit log above which its oldest events are deleted, when it is created.
        /// Later, change retention.bytes of the topic.
        tailrace_audit_log_topic_retention_bytes: u64 = K::new("tailrace.audit.log.topic.retention.bytes", Long)
            .default("1073741824").bytes().between(1_048_576, 1 << 40);
        /// Time for which the topic of the audit log keeps events, when it is created. Later, change
        /// retention.ms of the topic.
        tailrace_audit_log_topic_retention_ms: u64 = K::new("tailrace.audit.log.topic.retention.ms", Long)
            .default("2592000000").ms().between(60_000, 1 << 40);
        /// Whether the rules of authorizer.class.name are only tried: what they would refuse is logged and
        /// counted, and carried out.
        tailrace_authorizer_report_only: bool = K::new("tailrace.authorizer.report.only", Boolean).default("false").dynamic();
        /// Interval between checkpoints of a partition. After a crash, everything written since the last
        /// checkpoint is read again.
        tailrace_checkpoint_interval_ms: u64 = K::new("tailrace.checkpoint.interval.ms", Long).default("5000").ms()
            .at_least(1);
        /// The address that other nodes are told to connect to, HOST:PORT. Empty: that of cluster.listen.
        tailrace_cluster_advertised: String = K::new("tailrace.cluster.advertised", Text).default("");
        /// Maximum size of a frame between nodes. The connection to a node that announces a larger one is
        /// closed. It must hold the largest batch.
        tailrace_cluster_frame_bytes_max: u32 = K::new("tailrace.cluster.frame.bytes.max", Int).default("104857600").bytes()
            .between(1_048_576, 1_073_741_824);
        /// Maximum number of nodes of the cluster. Further nodes are refused when they ask to join. Each node
        /// keeps a connection to every other.
        tailrace_cluster_nodes_max: u32 = K::new("tailrace.cluster.nodes.max", Int).default("64").count("nodes")
            .between(1, 1000);
        /// Maximum number of bytes queued for one other node. Beyond it, replication messages are dropped and
        /// sent again later, and requests are refused. It must hold the largest frame.
        tailrace_cluster_queue_bytes_max: u64 = K::new("tailrace.cluster.queue.bytes.max", Long).default("134217728").bytes()
            .between(1_048_576, 1_099_511_627_776);
        /// Addresses of nodes in the cluster to join, HOST:PORT, separated by commas. Without any, a node
        /// with an empty data folder starts a new cluster.
        tailrace_cluster_seeds: Vec<String> = K::new("tailrace.cluster.seeds", List).default("");
        /// Whether nodes use TLS between each other. Each node shows a certificate and verifies the other's.
        tailrace_cluster_tls: bool = K::new("tailrace.cluster.tls", Boolean).default("false");
        /// PEM file of the authorities that must have issued the certificates of other nodes.
        tailrace_cluster_tls_ca_file: String = K::new("tailrace.cluster.tls.ca.file", Text).default("");
        /// PEM file of the certificate that this node shows to other nodes, followed by the intermediate
        /// certificates up to a root.
        tailrace_cluster_tls_certificate_file: String = K::new("tailrace.cluster.tls.certificate.file", Text).default("");
        /// PEM file of that certificate's private key, unencrypted. Only the server should be able to read
        /// it.
        tailrace_cluster_tls_key_file: String = K::new("tailrace.cluster.tls.key.file", Text).default("");
        /// Maximum number of unanswered requests of one connection. When it is reached, the server pauses
        /// reading from that connection.
        tailrace_connection_in_flight_max: u32 = K::new("tailrace.connection.in.flight.max", Int).default("64")
            .count("requests").between(1, 100_000);
        /// Number of nodes that vote in the metadata quorum. The others follow. With 3 voters, one may fail;
        /// with 5, two.
        tailrace_controller_voters: u32 = K::new("tailrace.controller.voters", Int).default("3").count("nodes").between(1, 9);
        /// Maximum size of a compressed batch after decompression, when it is validated. Protects against
        /// decompression bombs: one worker thread may hold this much. Batches that were already accepted can
        /// still be compacted and searched by timestamp, whatever the value is later.
        tailrace_decompressed_bytes_max: u64 = K::new("tailrace.decompressed.bytes.max", Long).default("67108864").bytes()
            .between(1024, i64_of(DECOMPRESSED_BYTES_MAX));
        /// When fewer bytes than this are free on the disk of the data folder, /healthz warns (and still
        /// answers 200). With 0 it warns only while writes are refused because the disk is full. The default
        /// is one segment of the default size.
        tailrace_disk_free_warning_bytes: u64 = K::new("tailrace.disk.free.warning.bytes", Long).default("1073741824").bytes()
            .at_least(0).dynamic();
        /// Threads that sync partitions to stable storage. Up to this many syncs run at the same time.
        tailrace_flush_threads: u32 = K::new("tailrace.flush.threads", Int).default("8").count("threads")
            .between(1, 256);
        /// Password of tailrace.first.user. Prefer the environment (TAILRACE_FIRST_PASSWORD), or a file that
        /// only the server can read. Not needed after the first start.
        tailrace_first_password: Secret = K::new("tailrace.first.password", Password);
        /// User who is created, for SCRAM and PLAIN, if there are no users at all. Usually named in
        /// super.users.
        tailrace_first_user: String = K::new("tailrace.first.user", Text).default("");
        /// Whether the HTTP listener (health, metrics, WebSocket) accepts TLS only.
        tailrace_http_tls: bool = K::new("tailrace.http.tls", Boolean).default("false");
        /// Threads for reads that miss the page cache and for other work that may block on a disk.
        tailrace_io_threads: u32 = K::new("tailrace.io.threads", Int).default("4").count("threads").between(1, 256);
        /// Whether Kafka clients log in (SASL): `none`, `requested` (a client that does not is ANONYMOUS), or
        /// `required`. A client whose certificate has a name (ssl.principal.mapping.rules) need not.
        tailrace_kafka_authentication: KafkaAuthentication = K::new("tailrace.kafka.authentication", Text).default("none")
            .one_of(&["none", "requested", "required"]);
        /// Time that a Kafka client has for its login, from the first byte of the connection.
        tailrace_kafka_login_timeout_ms: u64 = K::new("tailrace.kafka.login.timeout.ms", Long).default("10000").ms()
            .at_least(1);
        /// Maximum number of connections of Kafka clients that have not logged in yet, on all listeners
        /// where clients must log in. Further connections are closed without an answer, and count as
        /// tailrace_kafka_connections_refused{reason="tailrace.kafka.logins.max"}. A connection makes room
        /// when its client has logged in, or after tailrace.kafka.login.timeout.ms.
        tailrace_kafka_logins_max: u32 = K::new("tailrace.kafka.logins.max", Int).default("1000").count("connections")
            .between(1, 1_000_000);
        /// Like tailrace.kafka.logins.max, for the connections from one address, so that one machine cannot
        /// take all places. Networks of IPv6 (/64) count as one address.
        tailrace_kafka_logins_max_per_ip: u32 = K::new("tailrace.kafka.logins.max.per.ip", Int).default("500")
            .count("connections").between(1, 1_000_000);
        /// Whether the Kafka listener accepts TLS only. Kafka clients call it security.protocol=SSL.
        tailrace_kafka_tls: bool = K::new("tailrace.kafka.tls", Boolean).default("false");
        /// The address of this node that NATS clients of all nodes are told (`connect_urls`), HOST:PORT.
        /// Empty: that of nats, unless it listens on all interfaces: then clients are told no address. Used
        /// in clusters only.
        tailrace_nats_advertised: String = K::new("tailrace.nats.advertised", Text).default("");
        /// Time from accepting a NATS connection until its CONNECT, if authentication is on. After that the
        /// connection is closed with 'Authentication Timeout'.
        tailrace_nats_auth_timeout_ms: u64 = K::new("tailrace.nats.auth.timeout.ms", Long).default("2000").ms()
            .between(1, HOUR_MS);
        /// Whether NATS clients must log in: `none` (only if tailrace.nats.user, token, nkey or users.file
        /// say so), or `required`. With `required`, or with authorizer.class.name, the users of the cluster
        /// (kafka-configs) can log in with `user` and `pass`.
        tailrace_nats_authentication: NatsAuthentication = K::new("tailrace.nats.authentication", Text).default("none")
            .one_of(&["none", "required"]);
        /// Maximum number of publish acknowledgements of captured messages that may wait for durable records,
        /// in the whole process. At the limit, the server pauses reading from connections that publish
        /// further messages with a reply subject. Each acknowledgement takes about 100 bytes and its reply
        /// subject.
        tailrace_nats_capture_acks_max: u32 = K::new("tailrace.nats.capture.acks.max", Int).default("65536")
            .count("acknowledgements").between(1, 16_777_216);
        /// Maximum number of bytes of captured messages that may wait for the leaders of their partitions, in
        /// the whole process, if several nodes may lead them. Further messages are refused.
        tailrace_nats_capture_forward_bytes_max: u64 = K::new("tailrace.nats.capture.forward.bytes.max", Long)
            .default("67108864").bytes().between(1_048_576, 1_099_511_627_776);
        /// Time for which a captured message is offered to the leader of its partition. It is offered again
        /// while there is no leader or no answer. After that the message is refused.
        tailrace_nats_capture_forward_timeout_ms: u64 = K::new("tailrace.nats.capture.forward.timeout.ms", Long)
            .default("10000").ms().between(1, HOUR_MS);
        /// Maximum number of bytes of the subjects and queue groups that the clients of one other node
        /// subscribe to, as this node remembers them. Further subscriptions there do not receive what is
        /// published here.
        tailrace_nats_cluster_interest_bytes_max: u64 = K::new("tailrace.nats.cluster.interest.bytes.max", Long)
            .default("134217728").bytes().between(65_536, 1_099_511_627_776);
        /// The same limit as a number of subjects: different subjects, each with its queue group. One takes
        /// about 300 bytes and its text.
        tailrace_nats_cluster_interest_max: u32 = K::new("tailrace.nats.cluster.interest.max", Int).default("1000000")
            .count("subjects").between(1, 100_000_000);
        /// Maximum number of bytes of NATS messages queued for one other node. Messages published beyond it
        /// do not reach that node's subscribers, and are counted.
        tailrace_nats_cluster_queue_bytes_max: u64 = K::new("tailrace.nats.cluster.queue.bytes.max", Long)
            .default("67108864").bytes().between(65_536, 1_099_511_627_776);
        /// Time over which a server in lame duck mode closes its NATS connections, one after the other, so
        /// that their clients do not all move to the next server at the same moment.
        tailrace_nats_lame_duck_duration_ms: u64 = K::new("tailrace.nats.lame.duck.duration.ms", Long).default("120000").ms()
            .between(0, DAY_MS);
        /// Time for which a server in lame duck mode keeps serving all connections before it starts to close
        /// them.
        tailrace_nats_lame_duck_grace_ms: u64 = K::new("tailrace.nats.lame.duck.grace.ms", Long).default("10000").ms()
            .between(0, DAY_MS);
        /// Maximum number of bytes of Kafka batches that may wait for delivery to live NATS subscribers, in
        /// the whole process. Beyond it the oldest are skipped: subscribers miss them, the log keeps them,
        /// and a metric counts them.
        tailrace_nats_live_lag_max_bytes: u64 = K::new("tailrace.nats.live.lag.max.bytes", Long).default("67108864").bytes()
            .between(1024, 1_099_511_627_776);
        /// Maximum number of NATS connections. Further connections are refused with 'maximum connections
        /// exceeded'.
        tailrace_nats_max_connections: u32 = K::new("tailrace.nats.max.connections", Int).default("65536")
            .count("connections").between(1, 10_000_000);
        /// Maximum length of a line of the NATS protocol without its payload, and therefore of a subject. A
        /// client that sends a longer line is disconnected with 'maximum control line exceeded'.
        tailrace_nats_max_control_line_bytes: u32 = K::new("tailrace.nats.max.control.line.bytes", Int).default("4096")
            .bytes().between(128, 65_535);
        /// Maximum size of a NATS message, including headers. A client that announces a larger one is
        /// disconnected with 'Maximum Payload Violation'. Topics that capture messages accept batches large
        /// enough for it.
        tailrace_nats_max_payload_bytes: u32 = K::new("tailrace.nats.max.payload.bytes", Int).default("1048576").bytes()
            .between(1, NATS_PAYLOAD_MAX);
        /// Maximum number of bytes that may wait to be sent to one NATS connection. A client that falls
        /// further behind is disconnected as a slow consumer. It must hold the largest message.
        tailrace_nats_max_pending_bytes: u64 = K::new("tailrace.nats.max.pending.bytes", Long).default("67108864").bytes()
            .between(1024, 1_099_511_627_776);
        /// Maximum number of pattern shapes that one NATS connection may subscribe to. A shape is the number
        /// of words and which of them are wildcards. Patterns without wildcards do not count. A pattern of
        /// more than 32 words counts once for each 32. Further shapes are refused with 'maximum subscriptions
        /// exceeded'.
        tailrace_nats_max_subscription_shapes: u32 = K::new("tailrace.nats.max.subscription.shapes", Int).default("64")
            .count("shapes").between(1, 1_000_000);
        /// Maximum number of subscriptions of one NATS connection, about 500 bytes each. Further
        /// subscriptions are refused with 'maximum subscriptions exceeded'.
        tailrace_nats_max_subscriptions: u32 = K::new("tailrace.nats.max.subscriptions", Int).default("65536")
            .count("subscriptions").between(1, 100_000_000);
        /// Public nkey (starting with U) of the only user that may connect to the NATS listener, by signing
        /// the server's challenge. For more users, and for permissions, use tailrace.nats.users.file.
        tailrace_nats_nkey: String = K::new("tailrace.nats.nkey", Text).default("");
        /// Whether this node hides the cluster from its NATS clients, and itself from the clients of other
        /// nodes: it sends no `connect_urls`, and other nodes do not list its address in theirs.
        tailrace_nats_no_advertise: bool = K::new("tailrace.nats.no.advertise", Boolean).default("false");
        /// Password of tailrace.nats.user, in plain text or as a bcrypt hash. Prefer the environment, or a
        /// file that only the server can read, to the command line.
        tailrace_nats_password: Secret = K::new("tailrace.nats.password", Password);
        /// Interval between PINGs to a NATS client that sends nothing.
        tailrace_nats_ping_interval_ms: u64 = K::new("tailrace.nats.ping.interval.ms", Long).default("120000").ms()
            .between(1, DAY_MS);
        /// Number of PINGs that a NATS client may leave unanswered. At the next one it is disconnected with
        /// 'Stale Connection'.
        tailrace_nats_ping_max: u32 = K::new("tailrace.nats.ping.max", Int).default("2").count("PINGs").between(1, 1000);
        /// Name of this server in its NATS INFO. Empty: tailrace- and the node's id.
        tailrace_nats_server_name: String = K::new("tailrace.nats.server.name", Text).default("");
        /// Whether NATS connections must be encrypted: off, or required. Clients learn this from the server's
        /// first line and then upgrade, unless tailrace.nats.tls.handshake.first is set.
        tailrace_nats_tls: NatsTls = K::new("tailrace.nats.tls", Text).default("off").one_of(&["off", "required"]);
        /// Whether a NATS connection starts with the TLS handshake, so that not even the server's first line
        /// is readable. Clients must be configured for it (tls_first, tlsHandshakeFirst).
        tailrace_nats_tls_handshake_first: bool = K::new("tailrace.nats.tls.handshake.first", Boolean).default("false");
        /// Whether the certificate of a NATS client names its user: the first of its e-mail addresses, DNS
        /// names, URIs and subject that is a user of tailrace.nats.users.file, or else the name by
        /// ssl.principal.mapping.rules, if that is a user of the cluster. Others are refused. Needs
        /// tailrace.nats.tls=required and tailrace.tls.client.auth=required.
        tailrace_nats_tls_verify_and_map: bool = K::new("tailrace.nats.tls.verify.and.map", Boolean).default("false");
        /// Token that every client of the NATS listener must present, in plain text or as a bcrypt hash. It
        /// cannot be combined with users.
        tailrace_nats_token: Secret = K::new("tailrace.nats.token", Password);
        /// The NATS account that hears the server's events and may ask it about everything ($SYS.>). Empty:
        /// that of the operator, or $SYS.
        tailrace_nats_system_account: String = K::new("tailrace.nats.system.account", Text).default("");
        /// File with the claims (JWT) of the operator. With it, NATS clients log in with claims of users
        /// alone, and accounts are those whose claims the operator has signed. See docs/security.md.
        tailrace_nats_operator_file: String = K::new("tailrace.nats.operator.file", Text).default("");
        /// File with the claims (JWT) of accounts, one on each line, signed by the operator. It is
        /// read at the start, and again when it changes.
        tailrace_nats_operator_accounts_file: String = K::new("tailrace.nats.operator.accounts.file", Text).default("");
        /// The NATS account in which topics live: what Kafka clients produce is heard there, and what is
        /// published there is captured. Users of the cluster belong to it. Other accounts reach topics by
        /// imports.
        tailrace_nats_topics_account: String = K::new("tailrace.nats.topics.account", Text).default("$G");
        /// Name of the only user that may connect to the NATS listener, with tailrace.nats.password. For more
        /// users, and for permissions, use tailrace.nats.users.file.
        tailrace_nats_user: String = K::new("tailrace.nats.user", Text).default("");
        /// TOML file of the users that may connect to the NATS listener, with their passwords or nkeys and
        /// their permissions: see docs/security.md. It is read at the start.
        tailrace_nats_users_file: String = K::new("tailrace.nats.users.file", Text).default("");
        /// Whether NATS clients may connect to the HTTP listener by WebSocket.
        tailrace_nats_websocket: bool = K::new("tailrace.nats.websocket", Boolean).default("true");
        /// Whether WebSocket messages are compressed (permessage-deflate) for clients that ask for it.
        tailrace_nats_websocket_compression: bool = K::new("tailrace.nats.websocket.compression", Boolean).default("true");
        /// Name of the cookie with the claims (JWT) of a NATS client that connects by WebSocket, if its
        /// CONNECT has none. Needs tailrace.nats.operator.file. Empty: none.
        tailrace_nats_websocket_jwt_cookie: String = K::new("tailrace.nats.websocket.jwt.cookie", Text).default("");
        /// Origins (SCHEME://HOST:PORT) whose web pages may open a WebSocket; * allows all. Empty: only pages
        /// served from this server's own address. Programs other than browsers send no origin and are always
        /// allowed.
        tailrace_nats_websocket_origins: Vec<String> = K::new("tailrace.nats.websocket.origins", List).default("");
        /// The same for its password. Empty: none.
        tailrace_nats_websocket_pass_cookie: String = K::new("tailrace.nats.websocket.pass.cookie", Text).default("");
        /// The same for its token. Empty: none.
        tailrace_nats_websocket_token_cookie: String = K::new("tailrace.nats.websocket.token.cookie", Text).default("");
        /// The same for its user name. Empty: none.
        tailrace_nats_websocket_user_cookie: String = K::new("tailrace.nats.websocket.user.cookie", Text).default("");
        /// Time for which a NATS client may accept no byte of the data that waits for it. After that it is
        /// disconnected as a slow consumer.
        tailrace_nats_write_deadline_ms: u64 = K::new("tailrace.nats.write.deadline.ms", Long).default("10000").ms()
            .between(1, DAY_MS);
        /// PEM file of the authorities that the certificate of the server with the keys of tokens must come
        /// from. Empty: those of the system.
        tailrace_oauthbearer_jwks_ca_file: String = K::new("tailrace.oauthbearer.jwks.ca.file", Text).default("");
        /// Whether the keys of tokens may come without TLS (http://) from this machine: from 127.0.0.1, ::1
        /// or localhost.
        tailrace_oauthbearer_jwks_http_loopback: bool =
            K::new("tailrace.oauthbearer.jwks.http.loopback", Boolean).default("false");
        /// Time for which fetched keys count while newer ones cannot be fetched. After that no token is
        /// accepted until a fetch succeeds. It must be longer than sasl.oauthbearer.jwks.endpoint.refresh.ms.
        tailrace_oauthbearer_jwks_keep_ms: u64 = K::new("tailrace.oauthbearer.jwks.keep.ms", Long).default("86400000").ms()
            .between(2_000, 30 * DAY_MS);
        /// Is put in front of the name in a token. With a prefix, the issuer of tokens cannot name a user
        /// that exists here for another reason, such as one of super.users.
        tailrace_oauthbearer_name_prefix: String = K::new("tailrace.oauthbearer.name.prefix", Text).default("");
        /// Maximum number of open segment files, of all partitions together. The least recently used are
        /// closed.
        tailrace_open_segments_max: u32 = K::new("tailrace.open.segments.max", Int).default("4096").count("segments")
            .between(16, 1_000_000);
        /// Maximum number of partitions, of all topics together. Creating more is refused with
        /// POLICY_VIOLATION.
        tailrace_partitions_max: u32 = K::new("tailrace.partitions.max", Int).default("20000").count("partitions")
            .between(1, 1_000_000);
        /// Ticks without contact with the leader after which a replica starts an election. The actual number
        /// is drawn at random each time, between this value and twice as many.
        tailrace_raft_election_ticks: u32 = K::new("tailrace.raft.election.ticks", Int).default("10").count("ticks")
            .between(2, 1000);
        /// Ticks between two heartbeats of a leader. Must be lower than tailrace.raft.election.ticks.
        tailrace_raft_heartbeat_ticks: u32 = K::new("tailrace.raft.heartbeat.ticks", Int).default("2").count("ticks")
            .between(1, 999);
        /// Length of a tick, the unit in which replicas count time. It must be the same on all nodes.
        tailrace_raft_tick_ms: u64 = K::new("tailrace.raft.tick.ms", Int).default("50").ms().between(1, 60_000);
        /// Time after which a part of the log that is not read must be verified again. Before a batch is
        /// handed out, its checksum is checked, and that it belongs at its position, unless its part of the
        /// log has been verified since the start and was last read within this time (up to twice as long). -1
        /// verifies nothing and leaves it to the client and to the scrubber; 0 verifies every read.
        tailrace_read_verify_after_ms: i64 = K::new("tailrace.read.verify.after.ms", Long).default("-1").ms().at_least(-1)
            .dynamic();
        /// Each change of this value abandons data that is damaged and that no replica has any longer. The
        /// value is an arbitrary word, a colon, and the name of a topic; for one partition only, another
        /// colon and its number follow. `tailrace cluster repair` sets it.
        tailrace_repair_request: String = K::new("tailrace.repair.request", Text).default("").dynamic();
        /// Maximum size of a request of any API but Produce. A connection that announces a larger one is
        /// closed. In Kafka, socket.request.max.bytes applies to all APIs.
        tailrace_request_other_max_bytes: u32 = K::new("tailrace.request.other.max.bytes", Int).default("16777216").bytes()
            .at_least(1);
        /// Time from the first byte of a request to its last. After that the connection is closed. The
        /// default is the time after which clients abandon a request.
        tailrace_request_read_timeout_ms: u64 = K::new("tailrace.request.read.timeout.ms", Long).default("30000").ms()
            .at_least(1);
        /// Time for which a client may accept no byte of a response that waits for it. After that the
        /// connection is closed.
        tailrace_response_write_timeout_ms: u64 = K::new("tailrace.response.write.timeout.ms", Long).default("30000").ms()
            .at_least(1);
        /// Maximum rate, in bytes per second, at which this node reads its disk to verify it (scrubbing). 0
        /// starts no rounds by itself, and sets no limit for the rounds that tailrace.scrub.request asks for.
        tailrace_scrub_bytes_per_second: u64 = K::new("tailrace.scrub.bytes.per.second", Long).default("4194304").bytes()
            .at_least(0).dynamic();
        /// Time from the start of one scrubbing round, in which a node verifies everything on its disk, to
        /// the start of the next. 0 and -1 start no rounds by themselves. The first round starts when a tenth
        /// of the interval has passed since the node's start.
        tailrace_scrub_interval_ms: i64 = K::new("tailrace.scrub.interval.ms", Long).default("604800000").ms().at_least(-1)
            .dynamic();
        /// Each change of this value starts a scrubbing round at once. The value is an arbitrary word. After
        /// an @ follows the rate of that round in bytes per second, if it is not
        /// tailrace.scrub.bytes.per.second (0: no limit). After a colon follows the name of a topic, if only
        /// that topic is to be verified. `tailrace cluster scrub` sets it.
        tailrace_scrub_request: String = K::new("tailrace.scrub.request", Text).default("").dynamic();
        /// Step in which disk space is preallocated for an active segment beyond its size, from its first
        /// record on. 0 preallocates nothing. Each partition that is written to takes up to this much more
        /// disk.
        tailrace_segment_preallocate_bytes: u64 = K::new("tailrace.segment.preallocate.bytes", Long).default("4194304")
            .bytes().between(0, 1_073_741_824);
        /// Time that a shutdown waits for requests in flight to be answered. After that, connections are
        /// closed. Whatever was acknowledged is on disk in any case.
        tailrace_shutdown_grace_ms: u64 = K::new("tailrace.shutdown.grace.ms", Long).default("10000").ms().at_least(0);
        /// PEM file of the authorities whose client certificates are accepted. Read with
        /// tailrace.tls.client.auth=required.
        tailrace_tls_ca_file: String = K::new("tailrace.tls.ca.file", Text).default("");
        /// PEM file of the certificate that every TLS listener shows, followed by the intermediate
        /// certificates up to a root. It is read again when it changes.
        tailrace_tls_certificate_file: String = K::new("tailrace.tls.certificate.file", Text).default("");
        /// Whether clients of every TLS listener must show a certificate issued by an authority of
        /// tailrace.tls.ca.file: none or required.
        tailrace_tls_client_auth: TlsClientAuth = K::new("tailrace.tls.client.auth", Text).default("none")
            .one_of(&["none", "required"]);
        /// Time that a client may take for the TLS handshake. After that the connection is closed.
        tailrace_tls_handshake_timeout_ms: u64 = K::new("tailrace.tls.handshake.timeout.ms", Long).default("5000").ms()
            .between(1, 600_000);
        /// PEM file of the certificate's private key, unencrypted. Only the server should be able to read it.
        tailrace_tls_key_file: String = K::new("tailrace.tls.key.file", Text).default("");
        /// Maximum number of partitions of one topic. Creating more is refused with POLICY_VIOLATION.
        tailrace_topic_partitions_max: u32 = K::new("tailrace.topic.partitions.max", Int).default("10000")
            .count("partitions").between(1, 1_000_000);
        /// Maximum number of transactional ids in one partition of `__transaction_state`. At the limit,
        /// InitProducerId with a new id is refused with POLICY_VIOLATION until some ids have expired. Each
        /// takes about 300 bytes of memory and its id.
        tailrace_transactional_ids_max: u32 = K::new("tailrace.transactional.ids.max", Int).default("20000")
            .count("transactional ids").between(1, 10_000_000);
        /// Threads that run connections. 0 starts one per processor.
        tailrace_worker_threads: u32 = K::new("tailrace.worker.threads", Int).default("0").count("threads").between(0, 1024);
        /// Interval between checks for transactions that have been open for longer than their producer's
        /// transaction timeout.
        transaction_abort_timed_out_transaction_cleanup_interval_ms: i64 =
            K::new("transaction.abort.timed.out.transaction.cleanup.interval.ms", Int).default("10000").ms().at_least(1);
        /// Longest transaction timeout that a producer may ask for. Longer ones are refused with
        /// INVALID_TRANSACTION_TIMEOUT.
        transaction_max_timeout_ms: i32 = K::new("transaction.max.timeout.ms", Int).default("900000").ms().at_least(1);
        /// Interval between checks for expired transactional ids.
        transaction_remove_expired_transaction_cleanup_interval_ms: i64 =
            K::new("transaction.remove.expired.transaction.cleanup.interval.ms", Int).default("3600000").ms().at_least(1);
        /// Default of min.insync.replicas for `__transaction_state`. A standalone server has one replica.
        transaction_state_log_min_isr: i32 = K::new("transaction.state.log.min.isr", Int).default("1").count("replicas")
            .at_least(1);
        /// Number of partitions of `__transaction_state` when it is created. It must not change afterwards.
        transaction_state_log_num_partitions: i32 = K::new("transaction.state.log.num.partitions", Int).default("50")
            .count("partitions").between(1, 10_000);
        /// Replication factor of `__transaction_state` when it is created. If there are fewer nodes, each
        /// node gets a replica.
        transaction_state_log_replication_factor: i16 = K::new("transaction.state.log.replication.factor", Short)
            .default("3").count("replicas").at_least(1);
        /// Segment size of `__transaction_state`: a segment that reaches it is closed, and a new one started.
        transaction_state_log_segment_bytes: i32 = K::new("transaction.state.log.segment.bytes", Int).default("104857600")
            .bytes().at_least(1_048_576);
        /// Time after its last use at which a transactional id expires.
        transactional_id_expiration_ms: i64 = K::new("transactional.id.expiration.ms", Int).default("604800000").ms()
            .at_least(1);
    }
    with {
        /// The effective configuration of a topic without overrides.
        pub topic_defaults: TopicConfig,
        /// The effective configuration of a group without overrides.
        pub group_defaults: Arc<GroupConfig>,
        /// The origins of all values.
        layers: Layers,
        /// The Kafka listeners that the settings make.
        pub(crate) listeners_resolved: Arc<[KafkaListener]>,
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

    /// The settings that were changed at run time.
    pub fn dynamic(&self) -> &DynamicConfigs {
        self.layers.dynamic()
    }

    /// Address of the listener for other nodes. `None` in a standalone server.
    pub fn cluster_address(&self) -> Option<&str> {
        Some(self.cluster_listen.as_str()).filter(|address| *address != "off")
    }

    /// Address of the NATS listener. `None` if it is off.
    pub fn nats_address(&self) -> Option<&str> {
        Some(self.nats.as_str()).filter(|address| *address != "off")
    }

    /// The name of this server in its NATS INFO.
    pub fn nats_server_name(&self) -> String {
        match self.tailrace_nats_server_name.as_str() {
            "" => format!("tailrace-{}", self.node_id),
            name => name.to_owned(),
        }
    }
}
