//! Logins of the verbs at a server that has none.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use crate::support::{Server, command, failure, run};

#[test]
fn a_login_at_a_server_without_logins_fails_and_is_not_left_out() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir.path().join("data"), &[]);
    server.create("orders", 1);
    let file = dir.path().join("password");
    std::fs::write(&file, "s3sam\n").unwrap();
    let login = ["--sasl-user", "alice", "--sasl-password-file", file.to_str().unwrap()];
    for verb in [
        &["topic", "list"][..],
        &["topic", "describe", "orders"],
        &["consume", "orders"],
        &["produce", "orders"],
        &["group", "list"],
        &["txn", "list"],
        &["user", "list"],
        &["user", "remove", "alice"],
        &["acl", "list"],
        &["quota", "list"],
    ] {
        let output = server.run(&[verb, &login].concat());
        let error = failure(&output, 1);
        let expected = format!(
            "tailrace: cannot log in to {} as 'alice' with SCRAM-SHA-256: this listener has no logins (no SASL)",
            server.kafka
        );
        assert!(error.starts_with(&expected) && error.lines().count() == 1, "{verb:?}: {error}");
        assert!(!error.contains("s3sam") && output.stdout.is_empty(), "{verb:?}: {error}");
    }
    // The first names are the same options.
    let error = failure(&server.run(&["topic", "list", "--user", "alice", "--password-file", "/nope"]), 1);
    assert!(error.contains("cannot read /nope: no such file or directory"), "{error}");
}

#[test]
fn the_password_may_come_from_the_environment() {
    let tried = |value: &str, more: &[&str]| {
        let words = ["topic", "list", "-b", "127.0.0.1:1", "--timeout", "1s", "--user", "alice"];
        let output = command(&[&words, more].concat()).env("TAILRACE_PASSWORD", value).output().unwrap();
        failure(&output, 1)
    };
    assert!(tried("s3sam", &[]).contains("cannot connect to 127.0.0.1:1"));
    let wrong = tried("two\nlines", &[]);
    assert!(wrong.contains("cannot read TAILRACE_PASSWORD: expected one line"), "{wrong}");
    assert!(!wrong.contains("two"), "{wrong}");
    let file = tried("s3sam", &["--password-file", "/nope"]);
    assert!(file.contains("cannot read /nope"), "{file}");
}

#[test]
fn there_is_no_option_for_a_password() {
    for verb in [&["topic", "list"][..], &["user", "add", "alice"], &["consume", "t"]] {
        let error = failure(&run(&[verb, &["--password", "s3sam"]].concat()), 2);
        assert!(error.contains("unexpected argument '--password'"), "{error}");
    }
}
