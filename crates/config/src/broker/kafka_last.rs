//! Kafka's settings of the broker from H to S: listeners, logs, offsets, replicas and logins.

/// Adds these settings to those before them, and passes all on to the next family.
macro_rules! kafka_last_settings {
    ($next:ident $($rest:ident)*; $($before:tt)*) => {
        $next! { $($rest)*; $($before)*
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
        }
    };
}
pub(super) use kafka_last_settings;
