//! The Kafka listeners that settings make, and the settings that make none.

use std::collections::BTreeMap;

use tailrace_config::{
    BrokerConfig, ConfigError, DynamicConfigs, KafkaAuthentication, KafkaListener, SecurityProtocol,
    TlsClientAuth, start_setting,
};

/// Settings as they are set.
type Set<'a> = &'a [(&'a str, &'a str)];

fn broker(settings: Set<'_>) -> Result<BrokerConfig, ConfigError> {
    let settings: BTreeMap<_, _> = settings.iter().map(|&(k, v)| (k.to_owned(), v.to_owned())).collect();
    BrokerConfig::resolve(&settings, &DynamicConfigs::default())
}

const FILES: [(&str, &str); 3] = [
    ("tailrace.tls.certificate.file", "c.pem"),
    ("tailrace.tls.key.file", "k.pem"),
    ("tailrace.tls.ca.file", "a.pem"),
];

fn listeners(settings: &[(&str, &str)]) -> Vec<KafkaListener> {
    broker(&[&FILES, settings].concat()).expect("the settings are legal").kafka_listeners().to_vec()
}

/// Writes a listener in one line: name, protocol, address, advertised address.
fn line(listener: &KafkaListener) -> String {
    let advertised = listener.advertised.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string);
    format!("{} {} {} {advertised}", listener.label(), listener.protocol, listener.address)
}

#[test]
fn listeners_have_names_protocols_and_addresses() {
    let cases: &[(Set<'_>, &[&str])] = &[
        (&[], &["kafka PLAINTEXT 127.0.0.1:9092 -"]),
        (
            &[("kafka", "0.0.0.0:1"), ("tailrace.kafka.tls", "true"), ("advertised.listeners", "a:2")],
            &["kafka SSL 0.0.0.0:1 a:2"],
        ),
        (&[("tailrace.kafka.authentication", "requested")], &["kafka SASL_PLAINTEXT 127.0.0.1:9092 -"]),
        (&[("listeners", "PLAINTEXT://127.0.0.1:9092")], &["PLAINTEXT PLAINTEXT 127.0.0.1:9092 -"]),
        (
            &[("listeners", "plaintext://:0, SSL://[::1]:0 ,SASL_PLAINTEXT://h:0,SASL_SSL://[::]:9094")],
            &[
                "PLAINTEXT PLAINTEXT 0.0.0.0:0 -",
                "SSL SSL [::1]:0 -",
                "SASL_PLAINTEXT SASL_PLAINTEXT h:0 -",
                "SASL_SSL SASL_SSL [::]:9094 -",
            ],
        ),
        (
            &[
                ("listeners", "Inside://127.0.0.1:1,CLIENTS://:2"),
                ("listener.security.protocol.map", "CLIENTS:sasl_ssl, INSIDE:PLAINTEXT,UNUSED:SSL"),
                ("advertised.listeners", "clients://kafka.example:9092"),
            ],
            &["INSIDE PLAINTEXT 127.0.0.1:1 -", "CLIENTS SASL_SSL 0.0.0.0:2 kafka.example:9092"],
        ),
        // Behind one address with several ports, and the other way around. Kafka allows both.
        (
            &[
                ("listeners", "PLAINTEXT://127.0.0.1:9092,SSL://[::1]:9092"),
                ("advertised.listeners", "SSL://proxy:1,PLAINTEXT://[fe80::1]:1"),
            ],
            &["PLAINTEXT PLAINTEXT 127.0.0.1:9092 [fe80::1]:1", "SSL SSL [::1]:9092 proxy:1"],
        ),
    ];
    for (settings, expected) in cases {
        let found: Vec<_> = listeners(settings).iter().map(line).collect();
        assert_eq!(found, *expected, "{settings:?}");
    }
}

#[test]
fn each_listener_asks_its_clients_for_what_its_protocol_says() {
    let all = listeners(&[
        ("listeners", "PLAINTEXT://:1,SSL://:2,SASL_PLAINTEXT://:3,SASL_SSL://:4"),
        ("sasl.enabled.mechanisms", "PLAIN"),
        ("listener.name.sasl_ssl.sasl.enabled.mechanisms", "SCRAM-SHA-256,SCRAM-SHA-512"),
        ("listener.name.ssl.ssl.client.auth", "required"),
        ("listener.name.sasl_ssl.ssl.client.auth", "requested"),
    ]);
    let asked = |listener: &KafkaListener| {
        (listener.authentication, listener.mechanisms.join(","), listener.client_auth)
    };
    let (none, required) = (KafkaAuthentication::None, KafkaAuthentication::Required);
    assert_eq!(
        all.iter().map(asked).collect::<Vec<_>>(),
        [
            (none, String::new(), TlsClientAuth::None),
            (none, String::new(), TlsClientAuth::Required),
            (required, "PLAIN".to_owned(), TlsClientAuth::None),
            (required, "SCRAM-SHA-256,SCRAM-SHA-512".to_owned(), TlsClientAuth::Requested),
        ]
    );
    assert_eq!(
        all.iter().map(KafkaListener::demands_certificates).collect::<Vec<_>>(),
        [false, true, false, false]
    );
    // With SASL, the login names the user and not the certificate.
    assert_eq!(
        all.iter().map(KafkaListener::certificates_name_users).collect::<Vec<_>>(),
        [true, true, false, false]
    );
    let general = listeners(&[
        ("listeners", "SSL://:2,OPEN://:3"),
        ("listener.security.protocol.map", "SSL:SSL,OPEN:SSL"),
        ("tailrace.tls.client.auth", "required"),
        ("listener.name.open.ssl.client.auth", "none"),
    ]);
    assert_eq!(
        general.iter().map(|l| l.client_auth).collect::<Vec<_>>(),
        [TlsClientAuth::Required, TlsClientAuth::None]
    );
    assert_eq!(general[0].protocol, SecurityProtocol::Ssl);
}

#[test]
fn settings_that_fit_no_listeners_are_refused_by_name() {
    let many: Vec<_> = (0..33).map(|n| format!("N{n}://:0")).collect();
    let many = many.join(",");
    let long = format!("{}://:1", "N".repeat(65));
    let map = ("listener.security.protocol.map", "A:PLAINTEXT,B:SASL_PLAINTEXT");
    let cases: &[(Set<'_>, &str, &str)] = &[
        // One way to write listeners, and not both.
        (&[("listeners", "PLAINTEXT://:1"), ("kafka", "127.0.0.1:9092")], "listeners", "kafka is set, too"),
        (
            &[("listeners", "PLAINTEXT://:1"), ("tailrace.kafka.tls", "false")],
            "listeners",
            "tailrace.kafka.tls is set",
        ),
        (
            &[("listeners", "PLAINTEXT://:1"), ("tailrace.kafka.authentication", "none")],
            "listeners",
            "tailrace.kafka.authentication is set",
        ),
        (&[map], "listener.security.protocol.map", "listeners must be set with it"),
        (
            &[("listener.name.a.ssl.client.auth", "none")],
            "listener.name.a.ssl.client.auth",
            "listeners must be set with it",
        ),
        // What cannot be read.
        (&[("listeners", "PLAINTEXT")], "listeners", "Unable to parse 'PLAINTEXT' to a broker endpoint"),
        (&[("listeners", "127.0.0.1:9092")], "listeners", "Unable to parse"),
        (&[("listeners", "PLAINTEXT://127.0.0.1")], "listeners", "Unable to parse"),
        (&[("listeners", "PLAINTEXT://h/x:1")], "listeners", "Unable to parse"),
        (&[("listeners", "PLAINTEXT://h:-1")], "listeners", "Unable to parse"),
        (
            &[("listeners", "PLAINTEXT://h:65536")],
            "listeners",
            "'65536' of 'PLAINTEXT://h:65536' is not a port",
        ),
        (&[("listeners", "PLAINTEXT://h:")], "listeners", "is not a port"),
        (&[("listeners", "PLAINTEXT://:1,,")], "listeners", "Unable to parse ''"),
        (&[("listeners", "://h:1")], "listeners", "'' is not a listener's name"),
        (&[("listeners", "A.B://h:1")], "listeners", "'A.B' is not a listener's name"),
        (&[("listeners", &long)], "listeners", "is not a listener's name"),
        (&[("listeners", &many)], "listeners", "33 listeners, expected at most 32"),
        // What contradicts itself.
        (&[("listeners", "SSL://:1,ssl://:2")], "listeners", "different name, found SSL twice"),
        (&[("listeners", "PLAINTEXT://:1,SSL://h:1")], "listeners", "PLAINTEXT and SSL have port 1"),
        (&[("listeners", "PLAINTEXT://127.0.0.1:1,SSL://127.0.0.2:1")], "listeners", "have port 1"),
        (&[("listeners", "A://127.0.0.1:1,B://[::1]:1,C://h:1")], "listeners", "A and B have port 1"),
        (&[("listeners", "A://:1")], "listeners", "No security protocol defined for listener A"),
        (
            &[("listeners", "PLAINTEXT://:1"), map],
            "listeners",
            "No security protocol defined for listener PLAINTEXT",
        ),
        (
            &[("listeners", "A://:1"), ("listener.security.protocol.map", "A:TLS")],
            "listener.security.protocol.map",
            "Invalid security protocol `TLS`, expected PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL",
        ),
        (
            &[("listeners", "A://:1"), ("listener.security.protocol.map", "A")],
            "listener.security.protocol.map",
            "found 'A', expected NAME:PROTOCOL",
        ),
        (
            &[("listeners", "A://:1"), ("listener.security.protocol.map", "A:SSL,a:PLAINTEXT")],
            "listener.security.protocol.map",
            "A has two protocols",
        ),
        // Certificates.
        (&[("listeners", "PLAINTEXT://:1,SSL://:2")], "listeners", "tailrace.tls.certificate.file and"),
        (&[("listeners", "SASL_SSL://:2"), FILES[0]], "listeners", "tailrace.tls.key.file must be set"),
        (
            &[
                ("listeners", "SSL://:2"),
                FILES[0],
                FILES[1],
                ("listener.name.ssl.ssl.client.auth", "requested"),
            ],
            "listener.name.ssl.ssl.client.auth",
            "tailrace.tls.ca.file must be set with it",
        ),
        (
            &[("listeners", "PLAINTEXT://:2"), ("listener.name.plaintext.ssl.client.auth", "none")],
            "listener.name.plaintext.ssl.client.auth",
            "listener PLAINTEXT has the protocol PLAINTEXT, without TLS",
        ),
        (
            &[("listeners", "SSL://:2"), ("listener.name.ssl.ssl.client.auth", "maybe")],
            "listener.name.ssl.ssl.client.auth",
            "String must be one of: none, requested, required",
        ),
        // Mechanisms.
        (
            &[("listeners", "SASL_PLAINTEXT://:2"), ("sasl.enabled.mechanisms", "")],
            "sasl.enabled.mechanisms",
            "listener SASL_PLAINTEXT uses SASL and needs at least one mechanism",
        ),
        (
            &[("listeners", "A://:1,B://:2"), map, ("listener.name.b.sasl.enabled.mechanisms", "")],
            "listener.name.b.sasl.enabled.mechanisms",
            "needs at least one mechanism",
        ),
        (
            &[("listeners", "A://:1,B://:2"), map, ("listener.name.a.sasl.enabled.mechanisms", "PLAIN")],
            "listener.name.a.sasl.enabled.mechanisms",
            "listener A has the protocol PLAINTEXT, without SASL",
        ),
        (
            &[("listeners", "A://:1,B://:2"), map, ("listener.name.b.sasl.enabled.mechanisms", "GSSAPI")],
            "listener.name.b.sasl.enabled.mechanisms",
            "String must be one of: PLAIN",
        ),
        (
            &[
                ("listeners", "A://:1,B://:2"),
                map,
                ("listener.name.b.sasl.enabled.mechanisms", "OAUTHBEARER"),
            ],
            "sasl.enabled.mechanisms",
            "sasl.oauthbearer.jwks.endpoint.url must be set with OAUTHBEARER",
        ),
        // Settings of single listeners.
        (
            &[("listeners", "A://:1,B://:2"), map, ("listener.name.c.ssl.client.auth", "none")],
            "listener.name.c.ssl.client.auth",
            "listeners has no C; it has A, B",
        ),
        // What is advertised.
        (
            &[("listeners", "A://:1,B://:2"), map, ("advertised.listeners", "A://h:1,C://h:2")],
            "advertised.listeners",
            "found C, but listener names must be those of listeners: A, B",
        ),
        (
            &[("listeners", "A://:1,B://:2"), map, ("advertised.listeners", "A://h:1,A://h:2")],
            "advertised.listeners",
            "different name, found A twice",
        ),
        (
            &[("listeners", "A://:1,B://:2"), map, ("advertised.listeners", "h:1")],
            "advertised.listeners",
            "Unable to parse 'h:1'",
        ),
        (
            &[("listeners", "A://:1,B://:2"), map, ("advertised.listeners", "A://0.0.0.0:1")],
            "advertised.listeners",
            "cannot use the nonroutable meta-address 0.0.0.0 for A",
        ),
        (
            &[("listeners", "A://:1,B://:2"), map, ("advertised.listeners", "A://[::]:1")],
            "advertised.listeners",
            "nonroutable meta-address ::",
        ),
        (
            &[("listeners", "A://:1,B://:2"), map, ("advertised.listeners", "A://:1")],
            "advertised.listeners",
            "A needs a host and a port",
        ),
        (
            &[("listeners", "A://:1,B://:2"), map, ("advertised.listeners", "A://h:0")],
            "advertised.listeners",
            "A needs a host and a port",
        ),
    ];
    for (settings, key, part) in cases {
        let error = broker(settings).map(|config| config.kafka_listeners().to_vec()).unwrap_err();
        assert_eq!(error.key(), *key, "{settings:?}: {error}");
        assert!(error.to_string().contains(part), "{settings:?}: {error}");
    }
}

#[test]
fn a_setting_of_one_listener_is_known_by_its_name_and_key() {
    let key = |name: &str, value: &str| start_setting(name, value).map_err(|error| error.to_string());
    let mechanisms = "listener.name.clients.sasl.enabled.mechanisms";
    assert_eq!(key(mechanisms, "PLAIN"), Ok(mechanisms.to_owned()));
    assert_eq!(key("flush.messages", "7"), Ok("log.flush.interval.messages".to_owned()));
    for (name, part) in [
        ("listener.name.clients.max.connections", "(a listener can have its own sasl.enabled.mechanisms and"),
        ("listener.name.clients", "Unknown broker config name: listener.name.clients"),
        ("listener.name.", "Unknown broker config name"),
        ("listener.name.CLIENTS.ssl.client.auth", "(expected the listener's name in lower case)"),
        ("listener.name..ssl.client.auth", "(expected the listener's name in lower case)"),
    ] {
        let error = key(name, "none").unwrap_err();
        assert!(error.contains(part), "{error}");
    }
    // They cannot be changed at run time.
    let changed = BTreeMap::from([(mechanisms.to_owned(), "PLAIN".to_owned())]);
    let dynamic = DynamicConfigs { node: changed, cluster: BTreeMap::new() };
    let error = BrokerConfig::resolve(&BTreeMap::new(), &dynamic).unwrap_err();
    assert!(error.to_string().contains("Unknown broker config name"), "{error}");
}

#[test]
fn tokens_are_accepted_if_one_listener_does() {
    let tokens = [
        ("sasl.oauthbearer.jwks.endpoint.url", "file:///etc/keys.json"),
        ("sasl.oauthbearer.expected.issuer", "https://idp"),
        ("sasl.oauthbearer.expected.audience", "kafka"),
        ("listeners", "PLAINTEXT://:1,SASL_PLAINTEXT://:2"),
    ];
    let one = ("listener.name.sasl_plaintext.sasl.enabled.mechanisms", "OAUTHBEARER");
    assert!(broker(&[&tokens[..], &[one]].concat()).unwrap().accepts_tokens());
    assert!(!broker(&tokens).unwrap().accepts_tokens());
}
