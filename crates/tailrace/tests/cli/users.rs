//! `tailrace user`, against a server that has no users for Kafka clients yet.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use crate::support::{Server, failure, run};
use serde_json::Value;

#[test]
fn a_user_is_added_listed_and_removed() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir.path().join("data"), &[]);
    assert_eq!(server.output(&["user", "list"]), "USER  MECHANISM  ITERATIONS\n");
    assert_eq!(server.output(&["user", "list", "-o", "json"]), "[]\n");
    let file = dir.path().join("password");
    std::fs::write(&file, "s3sam\n").unwrap();
    let password = ["--password-file", file.to_str().unwrap()];
    let both = ["user", "add", "alice", "--mechanism", "SCRAM-SHA-512,scram-sha-256"];
    server.output(&[&both[..], &password].concat());
    let list = server.output(&["user", "list"]);
    for mechanism in ["SCRAM-SHA-256", "SCRAM-SHA-512"] {
        assert!(list.contains(&format!("alice  {mechanism}  4096")), "{list}");
    }
    server.output(&["user", "remove", "alice"]);
    assert_eq!(server.output(&["user", "list"]), "USER  MECHANISM  ITERATIONS\n");
}

#[test]
fn names_of_users_that_do_not_exist_are_failures() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir.path().join("data"), &[]);
    let missing = "there is no user 'alice'; `tailrace user list` lists all users";
    for verb in [
        &["user", "list", "alice"][..],
        &["user", "list", "alice", "alice"],
        &["user", "rotate", "alice"],
        &["user", "remove", "alice"],
    ] {
        let error = failure(&server.run(verb), 1);
        assert_eq!(error, format!("tailrace: {missing}\n"), "{verb:?}");
        let error: Value =
            serde_json::from_str(&failure(&server.run(&[verb, &["-o", "json"]].concat()), 1)).unwrap();
        assert_eq!(error["error"], missing, "{verb:?}");
    }
    assert_eq!(server.output(&["user", "remove", "alice", "--if-exists"]), "");
    let error = failure(&server.run(&["user", "list", "bob", "alice"]), 1);
    assert_eq!(error.lines().count(), 2, "{error}");
}

#[test]
fn what_is_not_served_yet_is_said_without_asking_a_server() {
    for (verb, expected) in [
        (&["user", "disable", "alice"][..], "`user disable` is not served yet, and 'alice' was not changed"),
        (&["user", "enable", "alice"], "`user enable` is not served yet, and 'alice' was not changed"),
        (&["user", "rotate", "alice", "--keep-old", "1h"], "--keep-old is not served yet"),
    ] {
        let error = failure(&run(&[verb, &["-b", "127.0.0.1:1"]].concat()), 1);
        assert!(error.starts_with("tailrace: ") && error.contains(expected), "{error}");
        let error = failure(&run(&[verb, &["-b", "127.0.0.1:1", "-o", "json"]].concat()), 1);
        assert_eq!(serde_json::from_str::<Value>(&error).unwrap()["status"], 1, "{error}");
    }
    for verb in [&["user", "--help"][..], &["user", "rotate", "--help"]] {
        let help = String::from_utf8(run(verb).stdout).unwrap();
        assert!(!help.contains("disable") && !help.contains("keep-old"), "{help}");
    }
}

#[test]
fn iterations_and_mechanisms_have_bounds() {
    for (more, expected) in [
        (&["--iterations", "4095"][..], "4095 is not in 4096..=16384"),
        (&["--iterations", "16385"], "16385 is not in 4096..=16384"),
        (&["--mechanism", "plain"], "invalid value 'plain'"),
    ] {
        let error = failure(&run(&[&["user", "add", "alice"][..], more].concat()), 2);
        assert!(error.contains(expected), "{error}");
    }
}
