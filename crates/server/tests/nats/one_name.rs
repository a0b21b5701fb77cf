//! One name is one user: of the settings and the users file, or of the cluster.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::path::Path;

use tailrace_identity::scram::ScramMechanism::Sha256;
use tailrace_kafka_wire::messages::AlterUserScramCredentialsRequest;
use tailrace_kafka_wire::messages::alter_user_scram_credentials_request::ScramCredentialDeletion;
use tailrace_server::{StartError, Startup, start};
use tempfile::TempDir;

use crate::common::logins::{password, plain};
use crate::common::{Client, TestServer, local_disk};

const PASSWORD: &str = "open sesame";
const UNACCEPTABLE_CREDENTIAL: i16 = 93;

fn write(folder: &TempDir, user: &str) -> String {
    let path = folder.path().join("users.toml");
    std::fs::write(&path, format!("[[users]]\nuser = '{user}'\npassword = 'p'\n")).unwrap();
    path.display().to_string()
}

async fn admin(server: &TestServer) -> Client {
    loop {
        // The first user is made after the start.
        let mut client = server.connect().await;
        if plain(&mut client, "admin", PASSWORD).await.error_code == 0 {
            return client;
        }
    }
}

fn settings(data: &Path, more: &[(&str, &str)]) -> BTreeMap<String, String> {
    let data = data.display().to_string();
    let base = [
        ("data.dir", &*data),
        ("kafka", "127.0.0.1:0"),
        ("nats", "127.0.0.1:0"),
        ("http", "127.0.0.1:0"),
        ("tailrace.first.user", "admin"),
        ("tailrace.first.password", PASSWORD),
    ];
    base.iter().chain(more).map(|&(key, value)| (key.to_owned(), value.to_owned())).collect()
}

/// Returns the error of a start.
async fn refused(settings: BTreeMap<String, String>) -> String {
    match start(Startup { settings, disk: local_disk() }).await {
        Err(error @ StartError::UsersTwice { .. }) => error.to_string(),
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it has started"),
    }
}

const BASE: [(&str, &str); 4] = [
    ("tailrace.first.user", "admin"),
    ("tailrace.first.password", PASSWORD),
    ("tailrace.kafka.authentication", "requested"),
    ("connection.failed.authentication.delay.ms", "0"),
];

#[tokio::test]
async fn a_user_of_the_cluster_cannot_get_the_name_of_one_of_the_users_file() {
    let folder = TempDir::new().unwrap();
    let path = write(&folder, "bob");
    let file = [("tailrace.nats.users.file", &*path)];
    let server = TestServer::with(&[&BASE[..], &file].concat()).await;
    let mut admin = admin(&server).await;
    let before = server.node().image();
    let answer = admin.call(0, &password("bob", Sha256, "p")).await;
    let found = &answer.results[0];
    assert_eq!(found.error_code, UNACCEPTABLE_CREDENTIAL);
    assert!(found.error_message.as_ref().unwrap().contains("users file"), "{:?}", found.error_message);
    assert!(std::sync::Arc::ptr_eq(&before, &server.node().image()));
    assert_eq!(admin.call(0, &password("carol", Sha256, "p")).await.results[0].error_code, 0);
}

#[tokio::test]
async fn a_server_does_not_start_with_two_users_of_one_name_until_one_is_gone() {
    let folder = TempDir::new().unwrap();
    let mut server = TestServer::with(&BASE).await;
    let mut first = admin(&server).await;
    assert_eq!(first.call(0, &password("bob", Sha256, "p")).await.results[0].error_code, 0);
    server.stop().await;
    let path = write(&folder, "bob");
    let data = server.data();
    let text = refused(settings(&data, &[("tailrace.nats.users.file", &path)])).await;
    assert!(text.contains("in common: bob;"), "{text}");
    let text =
        refused(settings(&data, &[("tailrace.nats.user", "bob"), ("tailrace.nats.password", "p")])).await;
    assert!(text.contains("bob") && !text.contains(PASSWORD), "{text}");
    server.begin(local_disk()).await;
    let mut again = admin(&server).await;
    let deletion = ScramCredentialDeletion { name: "bob".to_owned(), mechanism: 1, ..Default::default() };
    let request = AlterUserScramCredentialsRequest { deletions: vec![deletion], ..Default::default() };
    assert_eq!(again.call(0, &request).await.results[0].error_code, 0);
    server.restart_with(&[("tailrace.nats.users.file", &path)]).await;
}

/// Also the first user, and the one whom the shared token stands for.
#[tokio::test]
async fn the_first_user_and_the_user_of_the_token_count_too() {
    let folder = TempDir::new().unwrap();
    let path = write(&folder, "admin");
    let data = folder.path().join("data");
    let text = refused(settings(&data, &[("tailrace.nats.users.file", &path)])).await;
    assert!(text.contains("in common: admin;"), "{text}");
    let data = folder.path().join("other");
    let token = [("tailrace.nats.token", "t"), ("tailrace.first.user", "token")];
    let text = refused(settings(&data, &token)).await;
    assert!(text.contains("in common: token;"), "{text}");
}
