//! Users by client certificate (`verify_and_map` of nats-server): names in the certificate, users of the file
//! and of the cluster, and everything that is refused.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use rcgen::{CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, SanType, date_time_ymd};
use serde_json::Value;
use tailrace_identity::scram::ScramMechanism::Sha256;
use tailrace_kafka_wire::messages::AlterUserScramCredentialsRequest;
use tailrace_kafka_wire::messages::alter_user_scram_credentials_request::ScramCredentialDeletion;
use tempfile::TempDir;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use crate::common::certificates::{self, Authority};
use crate::common::lines::Lines;
use crate::common::logins::{add_user, plain};
use crate::common::{TestServer, local_disk};
use tailrace_server::{Startup, start};

const VIOLATION: &str = "-ERR 'Authorization Violation'";
const MAP: (&str, &str) = ("tailrace.nats.tls.verify.and.map", "true");

type Talker = Lines<TlsStream<TcpStream>>;

const USERS: &str = r#"
[[users]]
user = "alice@example.org"
publish = { deny = ["secret"] }

[[users]]
user = "app.example"

[[users]]
user = "spiffe://example/app"

[[users]]
user = "O=Example,CN=turned"

[[users]]
user = "CN=bob"
password = "sesame"

[[users]]
user = "CN=placed"
account = "SHOP"

[[accounts]]
name = "SHOP"
"#;

struct World {
    authority: Authority,
    server: TestServer,
    _folder: TempDir,
}

impl World {
    async fn new(users: &str, more: &[(&str, &str)]) -> Self {
        let (authority, folder) = (Authority::new(), TempDir::new().unwrap());
        let path = folder.path().join("users.toml");
        std::fs::write(&path, users).unwrap();
        let file = [("tailrace.nats.users.file", path.to_str().unwrap())];
        let file = if users.is_empty() { &[][..] } else { &file };
        let tls = [("tailrace.nats.tls", "required"), ("tailrace.tls.client.auth", "required"), MAP];
        let settings = authority.settings(&[&tls, file, more].concat());
        let settings: Vec<_> = settings.iter().map(|(key, value)| (*key, value.as_str())).collect();
        let server = TestServer::with(&settings).await;
        Self { authority, server, _folder: folder }
    }

    /// Connects with a certificate of these parameters. Fails if the handshake does.
    async fn try_connect(&self, params: &CertificateParams, options: &str) -> Option<Talker> {
        self.authority.issue_as("named", params);
        let mut plain = Lines::over(TcpStream::connect(self.server.nats()).await.unwrap());
        assert_eq!(plain.info().await["auth_required"], true);
        let config = self.authority.client(Some((&self.authority, "named")));
        let mut lines = Lines::over(certificates::handshake(config, plain.stream).await.ok()?);
        lines.send(&format!("CONNECT {{\"verbose\":false{options}}}\r\n")).await;
        Some(lines)
    }

    async fn connect(&self, params: &CertificateParams, options: &str) -> Talker {
        self.try_connect(params, options).await.unwrap()
    }

    async fn refused(&self, params: &CertificateParams, options: &str) {
        assert_eq!(
            self.connect(params, options).await.until_end().await,
            [VIOLATION],
            "{params:?} {options}"
        );
    }
}

/// A certificate for a client, with this subject and these alternative names.
fn named(subject: &[(DnType, &str)], names: &[SanType]) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    subject.iter().for_each(|(kind, value)| params.distinguished_name.push(kind.clone(), *value));
    params.subject_alt_names = names.to_vec();
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    params
}

fn common_name(name: &str) -> CertificateParams {
    named(&[(DnType::CommonName, name)], &[])
}

fn email(name: &str) -> SanType {
    SanType::Rfc822Name(name.try_into().unwrap())
}

fn dns(name: &str) -> SanType {
    SanType::DnsName(name.try_into().unwrap())
}

fn uri(name: &str) -> SanType {
    SanType::URI(name.try_into().unwrap())
}

/// Returns the name and the account of the user.
async fn who(lines: &mut Talker) -> (String, String) {
    lines.send("SUB _INBOX.1 9\r\nPUB $SYS.REQ.USER.INFO _INBOX.1 0\r\n\r\n").await;
    loop {
        let said = lines.until_pong().await;
        if let Some(body) = said.iter().find(|line| line.starts_with('{')) {
            let info: Value = serde_json::from_str(body).unwrap();
            let text = |member: &str| info["data"][member].as_str().unwrap().to_owned();
            return (text("user"), text("account"));
        }
    }
}

#[tokio::test]
async fn the_certificate_names_the_user_of_the_file_with_its_permissions_and_account() {
    let world = World::new(USERS, &[]).await;
    let plain = [(DnType::CommonName, "nobody")];
    for (params, expected) in [
        (named(&plain, &[dns("app.example"), email("alice@example.org")]), "alice@example.org"),
        (named(&plain, &[uri("spiffe://example/app"), dns("app.example")]), "app.example"),
        (named(&plain, &[uri("spiffe://example/app"), dns("other")]), "spiffe://example/app"),
        (
            named(&[(DnType::OrganizationName, "Example"), (DnType::CommonName, "turned")], &[]),
            "O=Example,CN=turned",
        ),
        (
            named(&[(DnType::CommonName, "turned"), (DnType::OrganizationName, "Example")], &[]),
            "O=Example,CN=turned",
        ),
        (common_name("placed"), "CN=placed"),
    ] {
        // The name in CONNECT does not count.
        let mut lines = world.connect(&params, ",\"user\":\"CN=bob\"").await;
        let account = if expected == "CN=placed" { "SHOP" } else { "$G" };
        assert_eq!(who(&mut lines).await, (expected.to_owned(), account.to_owned()));
        lines.send("PUB secret 1\r\n!\r\n").await;
        let said = lines.until_pong().await;
        let is_denied = expected == "alice@example.org";
        let violation = "-ERR 'Permissions Violation for Publish to \"secret\"'".to_owned();
        assert_eq!(said.contains(&violation), is_denied, "{expected}: {said:?}");
    }
}

#[tokio::test]
async fn a_certificate_that_names_no_user_is_refused() {
    let world = World::new(USERS, &[]).await;
    for params in [
        common_name("nobody"),
        common_name("alice@example.org"),
        named(&[(DnType::CommonName, "placed"), (DnType::OrganizationName, "Example")], &[]),
        named(
            &[(DnType::CommonName, "nobody")],
            &[email("mallory@example.org"), dns("alice@example.org.evil")],
        ),
        named(&[], &[]),
    ] {
        world.refused(&params, "").await;
        world.refused(&params, ",\"user\":\"CN=bob\",\"pass\":\"sesame\"").await;
    }
    // A user with a password must present it, too. One without must not.
    world.refused(&common_name("bob"), "").await;
    world.refused(&common_name("bob"), ",\"user\":\"CN=bob\",\"pass\":\"sesam\"").await;
    world.refused(&common_name("placed"), ",\"user\":\"CN=placed\",\"pass\":\"x\"").await;
    let mut bob = world.connect(&common_name("bob"), ",\"user\":\"x\",\"pass\":\"sesame\"").await;
    assert_eq!(who(&mut bob).await.0, "CN=bob");
}

#[tokio::test]
async fn expired_early_and_foreign_certificates_end_with_the_handshake() {
    let world = World::new(USERS, &[]).await;
    let (mut expired, mut early, mut server) =
        (common_name("placed"), common_name("placed"), common_name("placed"));
    expired.not_after = date_time_ymd(2020, 1, 1);
    early.not_before = date_time_ymd(4000, 1, 1);
    server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    for params in [expired, early, server] {
        // With TLS 1.3 the client learns of it when it reads.
        if let Some(mut lines) = world.try_connect(&params, "").await {
            assert_eq!(lines.until_end().await, [""; 0]);
        }
    }
    let stranger = Authority::new();
    stranger.issue_as("named", &common_name("placed"));
    let mut plain = Lines::over(TcpStream::connect(world.server.nats()).await.unwrap());
    plain.info().await;
    let config = world.authority.client(Some((&stranger, "named")));
    if let Ok(mut stream) = certificates::handshake(config, plain.stream).await {
        let mut said = Vec::new();
        let _ = stream.read_to_end(&mut said).await;
        assert!(said.is_empty());
    }
    world.connect(&common_name("placed"), "").await.until_pong().await;
}

#[tokio::test]
async fn users_of_the_cluster_are_named_as_for_kafka_until_they_are_removed() {
    let world = World::new(
        "",
        &[
            ("authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer"),
            ("super.users", "User:admin"),
            ("tailrace.first.user", "admin"),
            ("tailrace.first.password", "open sesame"),
            ("tailrace.kafka.authentication", "requested"),
            ("ssl.principal.mapping.rules", "RULE:^CN=SVC-([a-z]+)$/$1/"),
            ("connection.failed.authentication.delay.ms", "0"),
        ],
    )
    .await;
    let mut admin = loop {
        let mut client = world.server.connect().await;
        // The first user is created after the start.
        if plain(&mut client, "admin", "open sesame").await.error_code == 0 {
            break client;
        }
    };
    // The name alone is not enough: the user must exist.
    world.refused(&common_name("SVC-shop"), "").await;
    add_user(&mut admin, "shop", Sha256, "p").await;
    let mut shop = world.connect(&common_name("SVC-shop"), "").await;
    assert_eq!(who(&mut shop).await.0, "shop");
    world.refused(&common_name("shop"), "").await;
    world.refused(&common_name("nobody"), ",\"user\":\"shop\",\"pass\":\"p\"").await;
    let deletion = ScramCredentialDeletion { name: "shop".to_owned(), mechanism: 1, ..Default::default() };
    let request = AlterUserScramCredentialsRequest { deletions: vec![deletion], ..Default::default() };
    assert_eq!(admin.call(0, &request).await.results[0].error_code, 0);
    let said = shop.until_end().await;
    assert_eq!(said.last().unwrap(), "-ERR 'User Authentication Revoked'");
    world.refused(&common_name("SVC-shop"), "").await;
}

#[tokio::test]
async fn settings_that_do_not_go_together_prevent_the_start() {
    let (authority, folder) = (Authority::new(), TempDir::new().unwrap());
    let guest = folder.path().join("guest.toml");
    std::fs::write(&guest, "no_auth_user = 'CN=a'\n[[users]]\nuser = 'CN=a'\n").unwrap();
    let tls = ("tailrace.nats.tls", "required");
    let shown = ("tailrace.tls.client.auth", "required");
    for (more, expected) in [
        (vec![tls], "tailrace.tls.client.auth=required must be set"),
        (vec![shown, ("tailrace.http.tls", "true")], "tailrace.nats.tls=required must be set"),
        (vec![tls, shown, ("tailrace.nats.token", "t")], "excludes tailrace.nats.token"),
        (vec![tls, shown, ("tailrace.nats.users.file", guest.to_str().unwrap())], "excludes no_auth_user"),
    ] {
        let data = folder.path().join("data").display().to_string();
        let base = [
            ("data.dir", &*data),
            ("kafka", "127.0.0.1:0"),
            ("nats", "127.0.0.1:0"),
            ("http", "127.0.0.1:0"),
        ];
        let settings = authority.settings(&[&base, &[MAP][..], &more].concat());
        let settings = settings.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        let error = start(Startup { settings, disk: local_disk() }).await.err().expect("it does not start");
        let error = error.to_string();
        assert!(error.contains(expected) && error.contains(MAP.0), "{error}");
    }
}
