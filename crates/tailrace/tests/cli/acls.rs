//! `tailrace acl` and `tailrace token`, against a server without rules and one with them.
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

/// A configuration with rules, and with one more line.
fn rules(dir: &std::path::Path, more: &str) -> String {
    let config = dir.join("config.toml");
    let settings = [
        "\"tailrace.kafka.authentication\" = \"requested\"",
        "\"authorizer.class.name\" = \"org.apache.kafka.metadata.authorizer.StandardAuthorizer\"",
        "\"super.users\" = \"User:admin\"",
        "\"tailrace.first.user\" = \"admin\"",
        "\"delegation.token.secret.key\" = \"0123456789abcdef\"",
        more,
    ];
    std::fs::write(&config, settings.join("\n")).unwrap();
    config.to_str().unwrap().to_owned()
}

/// A server with rules, and the options with which its administrator logs in.
fn with_rules(dir: &std::path::Path) -> (Server, Vec<String>) {
    let file = dir.join("admin");
    std::fs::write(&file, "s3sam\n").unwrap();
    let config = rules(dir, "\"tailrace.first.password\" = \"s3sam\"");
    let server = Server::start(&dir.join("data"), &["--config", &config]);
    let login = ["--sasl-user", "admin", "--sasl-password-file", file.to_str().unwrap()];
    (server, login.map(str::to_owned).to_vec())
}

#[test]
fn the_rule_that_decides_is_explained() {
    let dir = tempfile::tempdir().unwrap();
    let (server, login) = with_rules(dir.path());
    let login: Vec<&str> = login.iter().map(String::as_str).collect();
    let output = |verb: &[&str]| server.output(&[verb, &login].concat());
    output(&["acl", "add", "--user", "shop", "--operation", "write", "--topic", "ord", "--prefixed"]);
    output(&["acl", "add", "--user", "*", "--operation", "read", "--subject", "orders.secret", "--deny"]);
    for (question, expected) in [
        (
            &["--user", "shop", "--operation", "write", "--topic", "orders"][..],
            "allowed: User:shop write topic orders\nrule: User:shop: allow write on topic prefix ord\n",
        ),
        (
            &["--principal", "User:shop", "--operation", "read", "--topic", "orders"],
            "denied: User:shop read topic orders\nrule: User:*: deny read on subject orders.secret; it counts \
             because topics and subjects share their records\n",
        ),
        (
            &["--user", "shop", "--operation", "read", "--subject", "orders.secret", "--host", "10.0.0.1"],
            "denied: User:shop read subject orders.secret from 10.0.0.1\n\
             rule: User:*: deny read on subject orders.secret\n",
        ),
        (
            &["--user", "admin", "--operation", "alter", "--cluster"],
            "allowed: User:admin alter cluster\nUser:admin is one of super.users, who may do everything: rules do not count\n",
        ),
        (
            &["--user", "shop", "--operation", "read", "--group", "g"],
            "denied: User:shop read group g\ndefault: there is no rule for this group, and allow.everyone.if.no.acl.found is false\n",
        ),
    ] {
        assert_eq!(output(&[&["acl", "explain"][..], question].concat()), expected);
    }
    let json = output(&[
        "acl",
        "explain",
        "--user",
        "shop",
        "--operation",
        "write",
        "--topic",
        "orders",
        "-o",
        "json",
    ]);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["allowed"], &json["reason"]), (&Value::Bool(true), &Value::from("rule")));
    assert_eq!(json["rule"]["resource_name"], "ord");
    // Those who may not see rules get no explanation.
    let error =
        failure(&server.run(&["acl", "explain", "--user", "a", "--operation", "read", "--topic", "t"]), 1);
    assert!(error.contains("CLUSTER_AUTHORIZATION_FAILED"), "{error}");
    // Rules for subjects are listed, also among all, and removed.
    assert!(output(&["acl", "list"]).contains("orders.secret"));
    assert!(output(&["acl", "list", "--subject", "orders.secret"]).contains("deny"));
    output(&["acl", "remove", "--user", "*", "--yes"]);
    assert!(!output(&["acl", "list"]).contains("orders.secret"));
}

#[test]
fn a_delegation_token_is_made_shown_renewed_and_ended() {
    let dir = tempfile::tempdir().unwrap();
    let (server, login) = with_rules(dir.path());
    // `--user` is the login of this verb.
    let login: Vec<&str> = login.iter().map(String::as_str).collect();
    let output = |verb: &[&str]| server.output(&[verb, &login].concat());
    let json =
        |verb: &[&str]| serde_json::from_str::<Value>(&output(&[verb, &["-o", "json"]].concat())).unwrap();
    let made = json(&["token", "create", "--renewer", "bob", "--max-lifetime", "2d"]);
    let (id, hmac) = (made["id"].as_str().unwrap(), made["hmac"].as_str().unwrap());
    assert_eq!((id.len(), hmac.len()), (22, 88));
    assert_eq!((&made["owner"], &made["requester"]), (&Value::from("admin"), &Value::from("admin")));
    let list = output(&["token", "list"]);
    assert!(list.contains(id) && list.contains("bob") && !list.contains(hmac), "{list}");
    assert!(!json(&["token", "list"]).to_string().contains(hmac));
    assert_eq!(json(&["token", "list", "--owner", "nobody"]), Value::Array(Vec::new()));
    let renewed = json(&["token", "renew", id, "--for", "7d"]);
    assert!(renewed["expires_ms"].as_i64().unwrap() >= made["expires_ms"].as_i64().unwrap());
    // The secret logs in, until the token ends.
    let file = dir.path().join("hmac");
    std::fs::write(&file, hmac).unwrap();
    let by_token = ["--sasl-user", id, "--sasl-password-file", file.to_str().unwrap(), "--sasl-token"];
    let listed = server.run(&[&["topic", "list"][..], &by_token].concat());
    assert!(listed.status.success());
    let refused = failure(&server.run(&[&["token", "list"][..], &by_token].concat()), 1);
    assert!(refused.contains("DELEGATION_TOKEN_REQUEST_NOT_ALLOWED"), "{refused}");
    let plain = [&["topic", "list"][..], &by_token, &["--sasl-mechanism", "plain"]].concat();
    assert!(failure(&server.run(&plain), 1).contains("not with plain"));
    let sooner = json(&["token", "expire", id, "--in", "1h"]);
    assert!(sooner["expires_ms"].as_i64().unwrap() < made["expires_ms"].as_i64().unwrap());
    assert!(output(&["token", "expire", id]).starts_with(&format!("{id}: ends at ")));
    let error = failure(&server.run(&[&["topic", "list"][..], &by_token].concat()), 1);
    assert!(error.contains("cannot log in"), "{error}");
    let error = failure(&server.run(&[&["token", "renew", id][..], &login].concat()), 1);
    assert!(error.contains(&format!("there is no delegation token '{id}' that you may see")), "{error}");
    let error = failure(&server.run(&["token", "create"]), 1);
    assert!(error.contains("cannot make a delegation token: "), "{error}");
    assert!(error.contains("DELEGATION_TOKEN_REQUEST_NOT_ALLOWED"), "{error}");
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
        (&["explain", "--user", "*", "--operation", "read", "--topic", "t"], "'*' is everybody"),
        (&["explain", "--user", "a", "--user", "b", "--operation", "read", "--topic", "t"], "name one user"),
        (&["explain", "--user", "a", "--operation", "read"], "name one resource"),
        (
            &["explain", "--user", "a", "--operation", "read", "--topic", "t", "--group", "g"],
            "name one resource",
        ),
        (
            &["explain", "--user", "a", "--operation", "write", "--group", "g"],
            "a group has no operation 'write'",
        ),
        (
            &["explain", "--user", "a", "--operation", "read", "--topic", "t", "--prefixed"],
            "without --prefixed",
        ),
        (&["add", "--user", "a", "--topic", "t"], "--operation"),
        (&["add", "--topic", "t", "--operation", "read"], "--principal"),
        (&["remove"], "say which rules"),
    ] {
        let words = [&["acl"][..], more, &["-b", "127.0.0.1:1"]].concat();
        let error = failure(&run(&words), 2);
        assert!(error.contains(expected), "{words:?}: {error}");
    }
}

#[test]
fn pages_are_read_as_the_user_who_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let (server, login) = with_rules(dir.path());
    let login: Vec<&str> = login.iter().map(String::as_str).collect();
    let wrong = dir.path().join("wrong");
    std::fs::write(&wrong, "s3sam!\n").unwrap();
    let wrong = ["--sasl-user", "admin", "--sasl-password-file", wrong.to_str().unwrap()];
    let status = ["cluster", "status", "--http", &server.http];
    let error = failure(&server.run(&status), 1);
    assert!(error.contains("demands a login for /clusterz; name a user with --sasl-user"), "{error}");
    let error = failure(&server.run(&[&status[..], &wrong].concat()), 1);
    assert!(error.contains("the user or the password is wrong") && !error.contains("s3sam"), "{error}");
    assert!(server.output(&[&status[..], &login].concat()).contains("one node"));
    server.output(&[&["cluster", "scrub", "--rate", "0", "--http", &server.http][..], &login].concat());
    let top = ["top", "--once", "--interval", "100ms", "-o", "json", "--monitor", &server.http];
    let error = failure(&run(&top), 1);
    assert!(error.contains("demands a login for /varz"), "{error}");
    crate::support::success(run(&[&top[..], &login].concat()));
    // A user whose name cannot be told from the password, and a token.
    let error = failure(&server.run(&[&status[..], &["--sasl-user", "a:b"], &login[2..]].concat()), 1);
    assert!(error.contains("a colon in the name"), "{error}");
    let error = failure(&server.run(&[&status[..], &["--sasl-token"], &login].concat()), 1);
    assert!(error.contains("do not take delegation tokens"), "{error}");
}

#[test]
fn the_password_of_the_first_user_is_needed_once() {
    let dir = tempfile::tempdir().unwrap();
    let (data, config) = (dir.path().join("data"), rules(dir.path(), ""));
    let ports = ["--kafka", "127.0.0.1:0", "--nats", "127.0.0.1:0", "--http", "127.0.0.1:0"];
    let start = ["serve", "--data-dir", data.to_str().unwrap(), "--config", &config];
    let output = run(&[&start[..], &ports].concat());
    let error = String::from_utf8_lossy(&output.stderr);
    let names_both =
        error.contains("tailrace.first.user is set") && error.contains("TAILRACE_FIRST_PASSWORD");
    assert!(!output.status.success() && names_both, "{error}");
    let (server, login) = with_rules(dir.path());
    assert_eq!(server.stop(), Some(0));
    let server = Server::start(&data, &["--config", &rules(dir.path(), "")]);
    let login: Vec<&str> = login.iter().map(String::as_str).collect();
    assert!(server.output(&[&["user", "list"][..], &login].concat()).contains("admin"));
}

#[test]
fn rules_that_are_only_tried_are_warned_of() {
    let warns = |server: &Server| {
        std::fs::read_to_string(&server.errors).unwrap().matches("the rules refuse nothing").count()
    };
    let dir = tempfile::tempdir().unwrap();
    let password = "\"tailrace.first.password\" = \"s3sam\"\n";
    let tried = format!("{password}\"tailrace.authorizer.report.only\" = true");
    let data = dir.path().join("data");
    let start = |config: &str| Server::start(&data, &["--config", config]);
    let server = start(&rules(dir.path(), &tried));
    assert_eq!(warns(&server), 1);
    assert_eq!(server.stop(), Some(0));
    // The log goes on in the same file.
    let server = start(&rules(dir.path(), password));
    assert_eq!(warns(&server), 1);
}
