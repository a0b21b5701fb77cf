//! Our own settings from O to Z: partitions, scrubbing, TLS and topics; and Kafka's for transactions.

/// Adds these settings to those before them, and passes all on to the next family.
macro_rules! tailrace_last_settings {
    ($next:ident $($rest:ident)*; $($before:tt)*) => {
        $next! { $($rest)*; $($before)*
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
    };
}
pub(super) use tailrace_last_settings;
