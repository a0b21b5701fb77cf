//! Every change by an administrator through NATS is an event of the audit log. `access::audit_changes` has
//! those by Kafka.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use nkeys::KeyPair;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::accounts;
use crate::common::TestServer;
use crate::jetstream::{Asker, ON};
use crate::operator::{self, World, ask, token, user_of};

const USERS: &str = r#"
[[accounts]]
name = "$SYS"
[[users]]
user = "sys"
password = "p"
account = "$SYS"
[[users]]
user = "a"
password = "p"
"#;

/// Stops the server. Returns `change, outcome` of each change through NATS, and checks who made it and from
/// where.
async fn changes(mut server: TestServer, path: &Path, who: &str) -> Vec<(String, String, Value)> {
    server.stop().await;
    let text = std::fs::read_to_string(path).unwrap();
    let events = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let changes = events.filter(|event| event["event"] == "change" && event["door"] == "nats");
    changes
        .map(|event| {
            assert_eq!(
                (&event["principal"], &event["address"]),
                (&who.into(), &"127.0.0.1".into()),
                "{event}"
            );
            let text = |member: &str| event[member].as_str().unwrap().to_owned();
            (text("change"), text("outcome"), event["details"].clone())
        })
        .collect()
}

fn names(changes: &[(String, String, Value)]) -> Vec<String> {
    changes.iter().map(|(change, outcome, _)| format!("{change}: {outcome}")).collect()
}

#[tokio::test]
async fn clients_that_are_ended_or_sent_away_by_the_system_account() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("audit.log");
    let world = accounts::world(USERS, &[("tailrace.audit.log.file", path.to_str().unwrap())]).await;
    let mut system = accounts::login(&world.server, "sys").await;
    system.send("SUB _INBOX.> 1\r\n").await;
    let id = ask(&mut system, "SERVER.PING.IDZ", "").await["id"].as_str().unwrap().to_owned();
    let mut new = accounts::login_with(&world.server, "a", ",\"protocol\":1").await;
    new.until_pong().await;
    let old = accounts::login(&world.server, "a").await;
    let page = ask(&mut system, "SERVER.PING.CONNZ", &json!({ "user": "a", "auth": true }).to_string()).await;
    let mut cids: Vec<_> = page["data"]["connections"].as_array().unwrap().iter().collect();
    cids.sort_by_key(|one| one["cid"].as_u64());
    let cids: Vec<_> = cids.iter().map(|one| one["cid"].as_u64().unwrap()).collect();
    for (what, cid) in [("LDM", cids[0]), ("LDM", cids[1]), ("LDM", 999), ("KICK", cids[0]), ("KICK", 999)] {
        ask(&mut system, &format!("SERVER.{id}.{what}"), &json!({ "cid": cid }).to_string()).await;
    }
    drop(old);
    let found = changes(world.server, &path, "User:sys").await;
    let found = names(&found);
    let begins = |number: usize, what: &str, cid: u64| {
        found[number].starts_with(&format!("{what} {cid}")) && found[number].contains("user a at")
    };
    assert_eq!(found.len(), 5, "{found:?}");
    assert!(begins(0, "SendClientAway", cids[0]) && found[0].ends_with(": done"), "{found:?}");
    assert!(begins(1, "SendClientAway", cids[1]) && found[1].ends_with(": refused"), "{found:?}");
    assert_eq!(found[2], "SendClientAway 999: refused");
    assert!(begins(3, "KickClient", cids[0]) && found[3].ends_with(": done"), "{found:?}");
    assert_eq!(found[4], "KickClient 999: refused");
}

#[tokio::test]
async fn claims_that_are_pushed_deleted_or_refused() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("audit.log");
    let world = World::new();
    let server = world.start(json!({}), &[("tailrace.audit.log.file", path.to_str().unwrap())]).await;
    let admin = KeyPair::new_user();
    let admins = user_of(&world.system, &admin, json!({}), json!({}));
    let mut system = operator::login(&server, &admins, &admin).await;
    system.send("SUB _INBOX.> 1\r\n").await;
    let added = KeyPair::new_account();
    let (id, claims) = (added.public_key(), world.claims(&added, json!({})));
    let forged = token(&KeyPair::new_operator(), &id, "account", json!({}), json!({}));
    assert!(ask(&mut system, "CLAIMS.UPDATE", &forged).await.get("error").is_some());
    assert_eq!(ask(&mut system, "CLAIMS.UPDATE", &claims).await["data"]["message"], "jwt updated");
    assert_eq!(ask(&mut system, "CLAIMS.UPDATE", &claims).await["data"]["message"], "jwt updated");
    assert!(ask(&mut system, "CLAIMS.DELETE", &claims).await.get("error").is_some());
    let deletion = token(
        &world.operator,
        &world.operator.public_key(),
        "generic",
        json!({ "accounts": [id] }),
        json!({ "accounts": [id] }),
    );
    assert!(ask(&mut system, "CLAIMS.DELETE", &deletion).await.get("error").is_none());
    let who = format!("User:{}/{}", world.system.public_key(), admin.public_key());
    let found = changes(server, &path, &who).await;
    assert_eq!(
        names(&found),
        [
            "StoreAccountClaims: refused",
            "StoreAccountClaims: done",
            "StoreAccountClaims: unchanged",
            "DeleteAccountClaims: refused",
            "DeleteAccountClaims: done",
        ]
    );
    for number in [1, 2, 4] {
        assert_eq!(found[number].2, json!([id]));
    }
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(!text.contains("eyJ") && !text.contains(claims.split('.').nth(1).unwrap()));
}

#[tokio::test]
async fn streams_that_are_made_changed_purged_and_deleted() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("audit.log");
    let log = ("tailrace.audit.log.file", path.to_str().unwrap());
    let world = accounts::world(USERS, &[ON, log]).await;
    let mut asker = Asker::with(&world.server, r#""user":"a","pass":"p""#).await;
    asker.api("STREAM.CREATE.S", r#"{"name":"S","subjects":["s.>"]}"#).await;
    asker.api("STREAM.UPDATE.S", r#"{"name":"S","subjects":["s.>"],"max_msgs":10}"#).await;
    asker.ask("s.a", "1").await;
    asker.api("STREAM.PURGE.S", "").await;
    asker.api("STREAM.DELETE.S", "").await;
    let found = changes(world.server, &path, "User:a").await;
    let all = names(&found);
    assert_eq!(all.len(), 4, "{all:?}");
    assert!(all[0].starts_with("CreateTopic S") && all[0].ends_with(": done"), "{all:?}");
    assert!(all[1].starts_with("AlterTopicConfigs S") && all[1].ends_with(": done"), "{all:?}");
    assert_eq!((all[2].as_str(), &found[2].2), ("PurgeStream S: done", &json!(["1 messages"])));
    // By its id.
    assert!(all[3].starts_with("DeleteTopic ") && all[3].ends_with(": done"), "{all:?}");
}
