//! Our own settings for NATS clients.

/// Adds these settings to those before them, and passes all on to the next family.
macro_rules! tailrace_nats_settings {
    ($next:ident $($rest:ident)*; $($before:tt)*) => {
        $next! { $($rest)*; $($before)*
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
        /// Maximum number of connections of NATS clients that have not logged in yet, if there are users.
        /// Further connections are refused with 'maximum connections exceeded', and count as
        /// tailrace_nats_connections_refused{reason="tailrace.nats.logins.max"}. A connection makes room when
        /// its client has logged in, or after tailrace.nats.auth.timeout.ms.
        tailrace_nats_logins_max: u32 = K::new("tailrace.nats.logins.max", Int).default("10000").count("connections")
            .between(1, 10_000_000);
        /// Like tailrace.nats.logins.max, for the connections from one address, so that one machine cannot
        /// take all places. Networks of IPv6 (/64) count as one address.
        tailrace_nats_logins_max_per_ip: u32 = K::new("tailrace.nats.logins.max.per.ip", Int).default("5000")
            .count("connections").between(1, 10_000_000);
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
        /// File with the claims (JWT) of a user, a bearer, as whom NATS clients are checked whose CONNECT has
        /// no claims (nats-server's `default_sentinel`), so that an auth callout can decide about them. Needs
        /// tailrace.nats.operator.file. Empty: such clients are refused.
        tailrace_nats_operator_sentinel_file: String = K::new("tailrace.nats.operator.sentinel.file", Text).default("");
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
        }
    };
}
pub(super) use tailrace_nats_settings;
