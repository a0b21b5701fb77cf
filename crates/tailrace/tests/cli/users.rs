//! `tailrace user`, against a server.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use std::io::Write as _;
use std::process::Stdio;

use crate::support::{Server, command, failure, run};
use serde_json::{Value, json};

#[test]
fn a_user_is_added_listed_and_removed() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir.path().join("data"), &[]);
    assert_eq!(server.output(&["user", "list"]), "USER  MECHANISM  ITERATIONS  STATE\n");
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
    assert_eq!(server.output(&["user", "list"]), "USER  MECHANISM  ITERATIONS  STATE\n");
}

#[test]
fn a_new_password_comes_from_standard_input() {
    let dir = tempfile::tempdir().unwrap();
    let more = ["--set", "tailrace.kafka.authentication=requested"];
    let server = Server::start(&dir.path().join("data"), &more);
    let add = |name: &str, input: &str| {
        let arguments = ["user", "add", name, "--password-file", "-", "-b", &server.kafka];
        let mut child = command(&arguments).stdin(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    };
    let added = add("alice", "s3sam\n");
    assert!(added.status.success(), "{}", String::from_utf8_lossy(&added.stderr));
    let file = dir.path().join("password");
    for (password, works) in [("s3sam", true), ("s3sa", false)] {
        std::fs::write(&file, password).unwrap();
        let login = ["--sasl-user", "alice", "--sasl-password-file", file.to_str().unwrap()];
        let listed = server.run(&[&["user", "list"][..], &login].concat());
        assert_eq!(listed.status.success(), works, "{password}");
    }
    for (input, error) in [("", "the password is empty"), ("s3sam\nx\n", "expected one line")] {
        let said = failure(&add("bob", input), 1);
        assert!(said.contains("standard input") && said.contains(error) && !said.contains("s3sam"), "{said}");
    }
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
fn a_user_is_disabled_and_enabled_again() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir.path().join("data"), &[]);
    let file = dir.path().join("password");
    std::fs::write(&file, "s3sam\n").unwrap();
    server.output(&["user", "add", "alice", "--password-file", file.to_str().unwrap()]);
    assert_eq!(server.output(&["user", "disable", "alice"]), "alice: disabled\n");
    assert!(server.output(&["user", "list"]).ends_with("alice  SCRAM-SHA-256  4096        disabled\n"));
    let list: Value = serde_json::from_str(&server.output(&["user", "list", "-o", "json"])).unwrap();
    assert_eq!(list[0]["disabled"], true);
    assert_eq!(server.output(&["user", "disable", "alice"]), "alice: disabled\n", "twice is once");
    let enabled = server.output(&["user", "enable", "alice", "-o", "json"]);
    assert_eq!(
        serde_json::from_str::<Value>(&enabled).unwrap(),
        json!({ "user": "alice", "disabled": false })
    );
    assert!(!server.output(&["user", "list"]).contains("disabled"));
    server.output(&["user", "disable", "alice"]);
    server.output(&["user", "remove", "alice"]);
    assert!(!server.output(&["user", "list"]).contains("alice"), "nothing is left of a disabled user");
    for verb in ["disable", "enable"] {
        let error = failure(&server.run(&["user", verb, "bob"]), 1);
        assert_eq!(error, "tailrace: there is no user 'bob'; `tailrace user list` lists all users\n");
    }
}

#[test]
fn an_old_password_is_kept_for_a_while() {
    let dir = tempfile::tempdir().unwrap();
    let more = ["--set", "tailrace.kafka.authentication=requested"];
    let server = Server::start(&dir.path().join("data"), &more);
    let file = |name: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, format!("{name}\n")).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (old, new, third) = (file("old"), file("new"), file("third"));
    let both = ["user", "add", "alice", "--mechanism", "scram-sha-256,scram-sha-512"];
    server.output(&[&both[..], &["--password-file", &old]].concat());
    let log_in = |password: &str, mechanism: &str| {
        let login = ["--sasl-user", "alice", "--sasl-password-file", password, "--sasl-mechanism", mechanism];
        server.run(&[&["topic", "list"][..], &login].concat()).status.success()
    };
    let rotate = ["user", "rotate", "alice", "--password-file"];
    let shown = server.output(&[&rotate[..], &[&new, "--keep-old", "1h"]].concat());
    assert!(
        shown.contains("new password for SCRAM-SHA-256 and SCRAM-SHA-512, and the old one works"),
        "{shown}"
    );
    for mechanism in ["scram-sha-256", "scram-sha-512", "plain"] {
        assert!(log_in(&old, mechanism) && log_in(&new, mechanism), "{mechanism}");
        assert!(!log_in(&third, mechanism), "{mechanism}");
    }
    assert!(server.output(&["user", "list"]).contains("old password until "));
    server.output(&[&rotate[..], &[&third]].concat());
    assert!(!log_in(&old, "plain") && !log_in(&new, "plain") && log_in(&third, "scram-sha-256"));
    let error =
        failure(&run(&[&rotate[..], &[&new, "--keep-old", "1h", "--iterations", "8192"]].concat()), 2);
    assert!(error.contains("cannot be used with"), "{error}");
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
