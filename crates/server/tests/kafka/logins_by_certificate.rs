//! Logins of Kafka clients by the name in their certificate, alone and beside SASL.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use rcgen::ExtendedKeyUsagePurpose::ClientAuth;
use tailrace_identity::scram::ScramMechanism::Sha256;
use tailrace_kafka_wire::messages::{ApiVersionsRequest, CreateTopicsRequest, MetadataRequest};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use crate::common::certificates::{self, Authority};
use crate::common::logins::{add_user, handshake, plain};
use crate::common::{Client, TestServer, topic};

const ILLEGAL_STATE: i16 = 34;

type TlsClient = Client<TlsStream<TcpStream>>;

/// A server that takes `CN=SVC-x` for the user `x`. Only the user `orders` may do anything.
async fn server(authority: &Authority, authentication: &str) -> TestServer {
    let settings = authority.settings(&[
        ("tailrace.kafka.tls", "true"),
        ("tailrace.tls.client.auth", "required"),
        ("ssl.principal.mapping.rules", "RULE:^CN=SVC-([A-Z]+)$/$1/L"),
        ("tailrace.kafka.authentication", authentication),
        ("authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer"),
        ("super.users", "User:orders"),
        ("nats", "off"),
        ("tailrace.nats.websocket", "false"),
    ]);
    let settings: Vec<_> = settings.iter().map(|(key, value)| (*key, value.as_str())).collect();
    TestServer::with(&settings).await
}

/// Connects with a certificate for this common name.
async fn connect(server: &TestServer, authority: &Authority, common_name: &str) -> TlsClient {
    authority.issue_to("named", ClientAuth, common_name);
    let config = authority.client(Some((authority, "named")));
    Client::over(certificates::handshake(config, server.stream().await).await.unwrap())
}

async fn is_served(client: &mut TlsClient) -> bool {
    client.try_call(9, &MetadataRequest { topics: None, ..Default::default() }).await.is_some()
}

/// Creates a topic, and returns the error.
async fn create(client: &mut TlsClient, name: &str) -> i16 {
    let request = CreateTopicsRequest { topics: vec![topic(name, 1, &[])], ..Default::default() };
    client.call(7, &request).await.topics[0].error_code
}

#[tokio::test]
async fn the_certificate_names_the_user_whether_or_not_a_login_is_required() {
    let authority = Authority::new();
    for authentication in ["none", "requested", "required"] {
        let server = server(&authority, authentication).await;
        let mut client = connect(&server, &authority, "SVC-ORDERS").await;
        assert_eq!(create(&mut client, "t").await, 0, "{authentication}");
        let mut client = connect(&server, &authority, "SVC-STOCK").await;
        assert_ne!(create(&mut client, "u").await, 0, "{authentication}: another user");
    }
}

#[tokio::test]
async fn a_login_by_sasl_counts_and_not_the_certificate() {
    let authority = Authority::new();
    let server = server(&authority, "required").await;
    let mut admin = connect(&server, &authority, "SVC-ORDERS").await;
    for user in ["orders", "stock"] {
        add_user(&mut admin, user, Sha256, "open sesame").await;
    }
    assert_eq!(plain(&mut admin, "stock", "open sesame").await.error_code, 0);
    assert_ne!(create(&mut admin, "t").await, 0, "it gave up the rights of its certificate");
    assert_eq!(handshake(&mut admin, "PLAIN").await, ILLEGAL_STATE, "a single login follows");
    for common_name in ["SVC-STOCK", "nobody"] {
        let mut client = connect(&server, &authority, common_name).await;
        assert_eq!(plain(&mut client, "orders", "open sesame").await.error_code, 0);
        assert_eq!(create(&mut client, common_name).await, 0, "{common_name}");
    }
    let mut client = connect(&server, &authority, "SVC-ORDERS").await;
    assert_ne!(plain(&mut client, "orders", "open barley").await.error_code, 0);
    assert!(!is_served(&mut client).await, "a failed login ends the connection all the same");
}

#[tokio::test]
async fn a_certificate_without_a_name_is_good_for_nothing_but_a_login() {
    let authority = Authority::new();
    for authentication in ["none", "requested", "required"] {
        let server = server(&authority, authentication).await;
        let mut client = connect(&server, &authority, "nobody").await;
        let versions = ApiVersionsRequest {
            client_software_name: "test".to_owned(),
            client_software_version: "1".to_owned(),
            ..Default::default()
        };
        assert_eq!(client.call(4, &versions).await.error_code, 0);
        assert!(!is_served(&mut client).await, "{authentication}");
    }
}
