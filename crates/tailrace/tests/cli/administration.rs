//! `tailrace user`, `acl` and `quota`, against a server that keeps what they ask for.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use std::num::NonZeroU32;
use std::path::PathBuf;

use ring::pbkdf2;
use serde_json::{Value, json};

use crate::fake_admin::FakeAdmin;
use crate::support::{failure, run, success};

struct Bench {
    server: FakeAdmin,
    dir: tempfile::TempDir,
}

impl Bench {
    fn start() -> Self {
        Self { server: FakeAdmin::start(), dir: tempfile::tempdir().unwrap() }
    }

    fn words<'a>(&'a self, verb: &[&'a str]) -> Vec<&'a str> {
        [verb, &["-b", &self.server.address]].concat()
    }

    #[track_caller]
    fn text(&self, verb: &[&str]) -> String {
        String::from_utf8(success(run(&self.words(verb)))).unwrap()
    }

    #[track_caller]
    fn json(&self, verb: &[&str]) -> Value {
        serde_json::from_str(&self.text(&[verb, &["-o", "json"]].concat())).unwrap()
    }

    #[track_caller]
    fn error(&self, verb: &[&str]) -> String {
        failure(&run(&self.words(verb)), 1)
    }

    fn file(&self, password: &str) -> PathBuf {
        let path = self.dir.path().join(password);
        std::fs::write(&path, format!("{password}\n")).unwrap();
        path
    }

    /// Whether the server has the hash of this password, and nothing else of it.
    fn has(&self, user: &str, mechanism: i8, password: &str) -> bool {
        let stored = self.server.stored(user, mechanism).unwrap();
        let algorithm = if mechanism == 1 { pbkdf2::PBKDF2_HMAC_SHA256 } else { pbkdf2::PBKDF2_HMAC_SHA512 };
        let iterations = NonZeroU32::new(stored.iterations.unsigned_abs()).unwrap();
        let hash = stored.salted_password;
        hash.len() == 32 * usize::from(mechanism.unsigned_abs())
            && pbkdf2::verify(algorithm, iterations, &stored.salt, password.as_bytes(), &hash).is_ok()
    }
}

#[test]
fn a_user_is_added_shown_changed_and_removed() {
    let bench = Bench::start();
    let (first, second) = (bench.file("pencil"), bench.file("eraser"));
    let (first, second) = (first.to_str().unwrap(), second.to_str().unwrap());
    let add = ["user", "add", "alice", "--password-file", first];
    assert_eq!(bench.text(&add), "alice: added with SCRAM-SHA-256, 4096 iterations\n");
    assert!(bench.has("alice", 1, "pencil") && bench.server.stored("alice", 2).is_none());
    let again = bench.error(&add);
    assert!(
        again.contains("has a password for SCRAM-SHA-256 already; `tailrace user rotate alice`"),
        "{again}"
    );

    let other = ["--mechanism", "scram-sha-512", "--iterations", "8192"];
    bench.text(&[&add[..], &other].concat());
    assert_eq!(
        bench.json(&["user", "list", "alice"]),
        json!([{ "user": "alice", "disabled": null, "credentials": [
            { "mechanism": "SCRAM-SHA-256", "iterations": 4096, "old_password_until_ms": null },
            { "mechanism": "SCRAM-SHA-512", "iterations": 8192, "old_password_until_ms": null },
        ] }])
    );
    let salt = bench.server.stored("alice", 1).unwrap().salt;
    let rotate = ["user", "rotate", "alice", "--password-file", second];
    assert_eq!(bench.text(&rotate), "alice: new password for SCRAM-SHA-256 and SCRAM-SHA-512\n");
    assert!(bench.has("alice", 1, "eraser") && bench.has("alice", 2, "eraser"));
    assert!(!bench.has("alice", 1, "pencil") && bench.server.stored("alice", 1).unwrap().salt != salt);
    assert_eq!(bench.server.stored("alice", 2).unwrap().iterations, 8192);

    bench.text(&["user", "add", "bob", "--password-file", first]);
    let output = run(&bench.words(&["user", "remove", "alice", "nope", "bob"]));
    assert_eq!(output.stdout, b"alice: removed\nbob: removed\n");
    assert!(failure(&output, 1).contains("there is no user 'nope'"));
    assert_eq!(bench.json(&["user", "list"]), json!([]));
}

#[test]
fn rules_are_added_shown_and_removed_as_they_were_shown() {
    let bench = Bench::start();
    let add = ["acl", "add", "--user", "alice", "--operation", "read", "--topic", "orders"];
    assert_eq!(bench.text(&add), "User:alice: allow read on topic orders: added\n");
    bench.text(&add);
    bench.text(&[
        "acl",
        "add",
        "--user",
        "bob",
        "--operation",
        "write",
        "--topic",
        "ord",
        "--prefixed",
        "--deny",
    ]);
    bench.text(&["acl", "add", "--user", "*", "--consumer", "--topic", "*", "--group", "g"]);
    let rows = |filter: &[&str]| {
        let found = bench.json(&[&["acl", "list"], filter].concat());
        let row = |rule: &Value| {
            format!("{} {} {}", rule["principal"], rule["operation"], rule["resource_name"]).replace('"', "")
        };
        found.as_array().unwrap().iter().map(row).collect::<Vec<_>>()
    };
    let (alice, bob) = ("User:alice read orders", "User:bob write ord");
    let (read, describe, group) = ("User:* read *", "User:* describe *", "User:* read g");
    assert_eq!(rows(&[]), [read, describe, bob, alice, group]);
    assert_eq!(rows(&["--topic", "orders"]), [read, describe, bob, alice]);
    assert_eq!(rows(&["--topic", "or"]), [read, describe]);
    assert_eq!(rows(&["--topic", "ord", "--prefixed"]), [bob]);
    assert_eq!(rows(&["--deny"]), [bob]);
    assert_eq!(rows(&["--user", "alice", "--group", "nope"]), [""; 0]);

    // A name of a removal is exactly this name, and without a terminal it needs --yes.
    let remove = ["acl", "remove", "--topic", "orders"];
    let asked = bench.error(&remove);
    assert!(asked.contains("User:alice") && !asked.contains("User:bob"), "{asked}");
    assert!(asked.ends_with("tailrace: nothing was removed; --yes removes without asking\n"), "{asked}");
    assert_eq!((rows(&["--user", "alice"]), bench.server.deletions()), (vec![alice.to_owned()], vec![]));
    let removed = bench.json(&[&remove[..], &["--yes"]].concat());
    assert_eq!(removed["removed"][0]["principal"], "User:alice");
    assert!(bench.error(&[&remove[..], &["--yes"]].concat()).contains("there is no such rule"));
    assert_eq!(bench.text(&[&remove[..], &["--yes", "--if-exists"]].concat()), "");
    assert_eq!(
        bench.text(&["acl", "remove", "--principal", "User:*", "--yes"]),
        "User:*: allow read on topic *: removed\nUser:*: allow describe on topic *: removed\n\
         User:*: allow read on group g: removed\n"
    );
    assert_eq!(rows(&[]), [bob]);
    assert_eq!(bench.server.deletions(), [1, 3]);
}

#[test]
fn many_rules_are_removed_in_several_requests() {
    let bench = Bench::start();
    let users: Vec<String> = (0..1100).map(|number| format!("--user=u{number}")).collect();
    let users: Vec<&str> = users.iter().map(String::as_str).collect();
    let add = [&["acl", "add", "--operation", "read", "--topic", "t"], &users[..]].concat();
    assert_eq!(bench.json(&add)["added"].as_array().unwrap().len(), 1100);
    let removed = bench.json(&["acl", "remove", "--topic", "t", "--yes"]);
    assert_eq!(removed["removed"].as_array().unwrap().len(), 1100);
    assert_eq!(bench.server.deletions(), [1000, 100]);
    assert_eq!(bench.json(&["acl", "list"]), json!([]));
}

#[test]
fn quotas_are_set_shown_and_removed() {
    let bench = Bench::start();
    let set = ["quota", "set", "--user", "alice", "--producer-bytes", "10MB/s", "--request-percent", "50"];
    let done = "user 'alice': set: producer_byte_rate=10000000 (10.0 MB/s), request_percentage=50\n";
    assert_eq!(bench.text(&set), done);
    let rehearsed = bench.json(&["quota", "set", "--user", "nope", "--mutations", "5", "--validate-only"]);
    assert_eq!(
        rehearsed,
        json!({ "entity": { "user": "nope" }, "set": false, "quotas": { "controller_mutation_rate": 5.0 } })
    );
    bench.text(&["quota", "set", "--user", "alice", "--default-client-id", "--consumer-bytes", "1KiB"]);
    bench.text(&["quota", "set", "--default-ip", "--limit", "connections=5"]);
    let alice = json!({
        "entity": { "user": "alice" },
        "quotas": { "producer_byte_rate": 1e7, "request_percentage": 50.0 },
    });
    let client = json!({
        "entity": { "user": "alice", "client-id": null },
        "quotas": { "consumer_byte_rate": 1024.0 },
    });
    let address = json!({ "entity": { "ip": null }, "quotas": { "connection_creation_rate": 5.0 } });
    assert_eq!(bench.json(&["quota", "list"]), json!([client, address, alice]));
    assert_eq!(bench.json(&["quota", "list", "--user", "alice"]), json!([client, alice]));
    assert_eq!(bench.json(&["quota", "list", "--default-client-id"]), json!([client]));

    let one = ["quota", "remove", "--user", "alice", "--limit", "producer-bytes"];
    assert_eq!(bench.text(&one), "user 'alice': removed: producer_byte_rate\n");
    assert!(bench.error(&one).contains("user 'alice': there is no quota producer_byte_rate"));
    let rest = bench.json(&["quota", "remove", "--user", "alice"]);
    assert_eq!(rest, json!({ "entity": { "user": "alice" }, "removed": ["request_percentage"] }));
    assert_eq!(bench.json(&["quota", "list"]), json!([client, address]));
}

#[test]
fn a_server_of_kafka_refuses_what_it_does_not_have_and_nothing_is_changed() {
    let bench = Bench::start();
    let password = bench.file("one");
    bench.text(&["user", "add", "alice", "--password-file", password.to_str().unwrap()]);
    for verb in ["disable", "enable"] {
        let error = bench.error(&["user", verb, "alice"]);
        let expected =
            format!("the server has no `user {verb}`, and 'alice' was not changed; is it a tailrace?");
        assert_eq!(error, format!("tailrace: {expected}\n"));
    }
    let other = bench.file("two");
    let rotate = ["user", "rotate", "alice", "--keep-old", "1h", "--password-file", other.to_str().unwrap()];
    let error = bench.error(&rotate);
    assert!(
        error.contains("the server cannot keep an old password, and that of 'alice' was not changed"),
        "{error}"
    );
    assert!(bench.has("alice", 1, "one"));
    let error = bench.error(&["acl", "explain", "--user", "a", "--operation", "read", "--topic", "t"]);
    assert!(error.contains("the server does not explain its decisions"), "{error}");
}
