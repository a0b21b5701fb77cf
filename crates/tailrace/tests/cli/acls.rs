//! `tailrace acl`, against a server that has no rules for Kafka clients yet.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use crate::support::{Server, failure, run};
use serde_json::Value;

#[test]
fn a_server_without_rules_says_so_in_one_line() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir.path().join("data"), &[]);
    for (verb, what) in [
        (&["acl", "list"][..], "cannot read rules"),
        (&["acl", "list", "--user", "alice", "--topic", "orders"], "cannot read rules"),
        (&["acl", "remove", "--user", "alice", "--yes"], "cannot read rules"),
        (&["acl", "add", "--user", "a", "--operation", "read", "--topic", "t"], "cannot add 1 rule"),
        (&["acl", "add", "--principal", "User:a", "--producer", "--topic", "t"], "cannot add 3 rules"),
        (
            &["acl", "add", "--user", "*", "--consumer", "--topic", "t", "--group", "g", "--prefixed"],
            "cannot add 3 rules",
        ),
    ] {
        let reason = "No Authorizer is configured (SECURITY_DISABLED)";
        let error = failure(&server.run(verb), 1);
        assert_eq!(error, format!("tailrace: {what}: {reason}\n"), "{verb:?}");
        let error: Value =
            serde_json::from_str(&failure(&server.run(&[verb, &["-o", "json"]].concat()), 1)).unwrap();
        assert_eq!(error["error"], format!("{what}: {reason}"), "{verb:?}");
    }
}

#[test]
fn what_is_not_served_yet_is_said_without_asking_a_server() {
    for (verb, expected) in [
        (&["acl", "explain", "--user", "alice", "--topic", "orders"][..], "`acl explain` is not served yet"),
        (&["acl", "explain", "--help"], "`acl explain` is not served yet"),
        (
            &["acl", "add", "--user", "a", "--operation", "read", "--subject", "a.>"],
            "--subject is not served yet",
        ),
        (&["acl", "list", "--subject", "a.>"], "--subject is not served yet"),
        (&["acl", "remove", "--subject", "a.>"], "--subject is not served yet"),
    ] {
        let error = failure(&run(verb), 1);
        assert!(error.starts_with("tailrace: ") && error.contains(expected), "{verb:?}: {error}");
        let error = failure(&run(&[verb, &["-o", "json"]].concat()), 1);
        assert_eq!(serde_json::from_str::<Value>(&error).unwrap()["status"], 1, "{error}");
    }
    for verb in [&["acl", "--help"][..], &["acl", "add", "--help"], &["acl", "list", "--help"]] {
        let help = String::from_utf8(run(verb).stdout).unwrap();
        assert!(!help.contains("explain") && !help.contains("  --subject"), "{help}");
    }
}

#[test]
fn rules_that_make_no_sense_are_wrong_usage() {
    for (more, expected) in [
        (&["add", "--user", "User:a", "--topic", "t", "--operation", "read"][..], "--principal User:a"),
        (&["add", "--principal", "a", "--topic", "t", "--operation", "read"], "as in User:alice"),
        (&["add", "--user", "a", "--topic", "t", "--operation", "nope"], "expected one of all, read"),
        (&["add", "--user", "a", "--group", "g", "--operation", "write"], "a group has no operation 'write'"),
        (
            &["add", "--user", "a", "--topic", "t", "--operation", "read", "--host", "localhost"],
            "not resolved",
        ),
        (&["remove", "--user", "a", "-o", "json"], "add --yes"),
        (&["add", "--user", "a", "--operation", "read"], "say what the rule is about"),
        (&["add", "--user", "a", "--topic", "t"], "--operation"),
        (&["add", "--topic", "t", "--operation", "read"], "--principal"),
        (&["remove"], "say which rules"),
    ] {
        let words = [&["acl"][..], more, &["-b", "127.0.0.1:1"]].concat();
        let error = failure(&run(&words), 2);
        assert!(error.contains(expected), "{words:?}: {error}");
    }
}
