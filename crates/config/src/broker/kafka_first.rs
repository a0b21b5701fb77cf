//! Kafka's settings of the broker from A to G: topics, quotas, groups and connections.

/// Adds these settings to those before them, and passes all on to the next family.
macro_rules! kafka_first_settings {
    ($next:ident $($rest:ident)*; $($before:tt)*) => {
        $next! { $($rest)*; $($before)*
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
        }
    };
}
pub(super) use kafka_first_settings;
