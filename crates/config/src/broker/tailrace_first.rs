//! Our own settings from A to K: the audit log, the cluster, disks, HTTP and Kafka clients.

/// Adds these settings to those before them, and passes all on to the next family.
macro_rules! tailrace_first_settings {
    ($next:ident $($rest:ident)*; $($before:tt)*) => {
        $next! { $($rest)*; $($before)*
        /// File of the audit log: one JSON object in each line, see docs/security.md. Empty: the audit log
        /// has no file of its own, and is part of the server's log.
        tailrace_audit_log_file: String = K::new("tailrace.audit.log.file", Text).default("");
        /// Size at which the file of the audit log is renamed (NAME.1, NAME.2, ...) and a new one begun.
        tailrace_audit_log_file_bytes: u64 = K::new("tailrace.audit.log.file.bytes", Long).default("104857600").bytes()
            .between(65_536, 1 << 40);
        /// Number of renamed files of the audit log that are kept. The oldest is deleted.
        tailrace_audit_log_files: u32 = K::new("tailrace.audit.log.files", Int).default("10").count("files").between(1, 1000);
        /// Whether the events of the audit log also go to the topic __tailrace_audit_log, which only users
        /// with ALTER on the cluster can read. Needs authorizer.class.name. Set it on all nodes.
        tailrace_audit_log_topic: bool = K::new("tailrace.audit.log.topic", Boolean).default("false");
        /// Replication factor of the topic of the audit log when it is created. If there are fewer nodes,
        /// each node gets a replica.
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
        /// Maximum number of bytes of requests to JetStream's API that wait for their answers, in the whole
        /// process: subjects, headers and bodies. Further requests are refused.
        tailrace_jetstream_api_bytes_max: u64 = K::new("tailrace.jetstream.api.bytes.max", Long).default("67108864")
            .bytes().between(65_536, 1 << 40);
        /// Maximum number of requests to JetStream's API that wait for their answers, in the whole process.
        /// Further requests are refused.
        tailrace_jetstream_api_requests_max: u32 = K::new("tailrace.jetstream.api.requests.max", Int).default("10000")
            .count("requests").between(1, 1_000_000);
        /// Maximum number of messages that may wait for acknowledgements of one consumer, about 60 bytes
        /// each. A consumer whose max_ack_pending is higher is refused with error 10121. nats.go asks for
        /// as many as one of its subscriptions has room for, unless it is told otherwise.
        tailrace_jetstream_consumer_ack_pending_max: u32 = K::new("tailrace.jetstream.consumer.ack.pending.max", Int)
            .default("1048576").count("messages").between(1, 10_000_000);
        /// Whether NATS clients get an answer from JetStream's API. It is incomplete so far:
        /// docs/jetstream.md says what is missing. Without it they learn that there is no JetStream.
        tailrace_jetstream_enable: bool = K::new("tailrace.jetstream.enable", Boolean).default("false");
        /// Maximum memory of the tables of all streams that this node leads. A table has 16 bytes for each
        /// message of its stream, and about 35 bytes and the name for each subject. A stream whose table does
        /// not fit answers with error 10047 (insufficient storage resources available).
        tailrace_jetstream_memory_bytes_max: u64 = K::new("tailrace.jetstream.memory.bytes.max", Long)
            .default("1073741824").bytes().at_least(1_048_576);
        /// Maximum number of pull requests that wait at one node: those of its clients, and those for streams
        /// that it leads. Further requests are told "409 Exceeded MaxWaiting".
        tailrace_jetstream_pulls_max: u32 = K::new("tailrace.jetstream.pulls.max", Int)
            .default("100000").count("requests").between(1, 10_000_000);
        /// Number of partitions of __jetstream_state, which has the durable consumers of streams, when it is
        /// created. Must not change afterwards.
        tailrace_jetstream_state_topic_num_partitions: i32 =
            K::new("tailrace.jetstream.state.topic.num.partitions", Int)
            .default("16").count("partitions").between(1, 1000);
        /// Replication factor of __jetstream_state when it is created. If there are fewer nodes, each node
        /// gets a replica.
        tailrace_jetstream_state_topic_replication_factor: i16 =
            K::new("tailrace.jetstream.state.topic.replication.factor", Short).default("3").count("replicas").at_least(1);
        /// Segment size of __jetstream_state when it is created: a segment that reaches it is closed, and the
        /// next one started.
        tailrace_jetstream_state_topic_segment_bytes: i32 = K::new("tailrace.jetstream.state.topic.segment.bytes", Int)
            .default("104857600").bytes().at_least(1);
        /// Maximum number of consumers of one stream, about 3 KiB each. Beyond it a consumer is refused with
        /// error 10026.
        tailrace_jetstream_stream_consumers_max: u32 = K::new("tailrace.jetstream.stream.consumers.max", Int)
            .default("10000").count("consumers").between(1, 1_000_000);
        /// Maximum number of ids (`Nats-Msg-Id`) that are remembered of one stream: those of messages that
        /// came within its duplicate window. One takes about 100 bytes. A further message with an id is
        /// refused with error 10167 (too many requests).
        tailrace_jetstream_stream_ids_max: u32 = K::new("tailrace.jetstream.stream.ids.max", Int)
            .default("1000000").count("ids").between(1, 100_000_000);
        /// Maximum number of messages that one stream may hold. One that holds more answers with error 10047.
        tailrace_jetstream_stream_messages_max: u64 = K::new("tailrace.jetstream.stream.messages.max", Long)
            .default("100000000").count("messages").between(1, 1_000_000_000);
        /// Maximum number of subjects that have messages in one stream. One that has more answers with error
        /// 10047.
        tailrace_jetstream_stream_subjects_max: u64 = K::new("tailrace.jetstream.stream.subjects.max", Long)
            .default("10000000").count("subjects").between(1, 1_000_000_000);
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
        }
    };
}
pub(super) use tailrace_first_settings;
