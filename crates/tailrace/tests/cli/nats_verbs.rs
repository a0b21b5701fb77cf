//! `tailrace pub`, `sub`, `request`, `reply` and `top` against the server.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use std::io::{BufRead, Read};

use crate::support;
use crate::support::{LASTING, Server, failure, success};
use serde_json::{Value, json};

fn start() -> (tempfile::TempDir, Server) {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir.path().join("data"), &[]);
    (dir, server)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn a_message_is_described_with_subject_reply_and_headers() {
    let (_dir, server) = start();
    let listener = server.listen(&["sub", "orders.>", "-c", "3"]);
    let header = ["-H", "Trace: 7", "-H", "trace:8", "--reply", "answers.here"];
    success(server.nats(&[&["pub", "orders.eu.new", "hello"][..], &header].concat(), b""));
    success(server.nats(&["pub", "orders.us", ""], b""));
    success(server.nats(&["pub", "elsewhere", "not seen"], b""));
    success(server.nats(&["pub", "orders.x", "-dash"], b""));
    let (status, output, _) = listener.end();
    assert_eq!(status, Some(0));
    assert_eq!(
        text(&output),
        "[#1] Received on \"orders.eu.new\" with reply \"answers.here\"\nTrace: 7\ntrace: 8\n\nhello\n\n\
         [#2] Received on \"orders.us\"\n\n\n\
         [#3] Received on \"orders.x\"\n-dash\n\n"
    );
}

#[test]
fn json_has_a_line_per_message_and_marks_what_is_no_text() {
    let (_dir, server) = start();
    let listener = server.listen(&["sub", "a", "b", "-o", "json", "-c", "2"]);
    success(server.nats(&["pub", "a", "-H", "H: \"quoted\""], "ü".as_bytes()));
    success(server.nats(&["pub", "b", "--reply", "r"], b"\xff"));
    let (_, output, _) = listener.end();
    let output = text(&output);
    let lines: Vec<Value> = output.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[0]["subject"], "a");
    assert_eq!(lines[0]["payload"], "ü");
    assert_eq!(lines[0]["reply"], Value::Null);
    assert_eq!(lines[0]["headers"], json!([{ "key": "H", "value": "\"quoted\"" }]));
    assert!(lines[0]["timestamp"].as_i64().unwrap() > 1_700_000_000_000);
    assert_eq!(lines[1]["number"], 2);
    assert_eq!(lines[1]["reply"], "r");
    assert_eq!(lines[1]["payload"], "/w==");
    assert_eq!(lines[1]["payload_encoding"], "base64");
}

#[test]
fn lines_and_whole_inputs_arrive_byte_for_byte() {
    let (_dir, server) = start();
    let listener = server.listen(&["sub", "in", "--raw", "-c", "5"]);
    let input = b"first\n\n  two \r\n\xff\xfe\0\nlast without end";
    success(server.nats(&["pub", "in", "--lines"], input));
    assert_eq!(listener.end().1, [&input[..], b"\n"].concat());
    let large: Vec<u8> = (0..900_000_u32).map(|n| ((n * 31) >> 3) as u8).collect();
    let listener = server.listen(&["sub", "in", "--raw", "-c", "1"]);
    success(server.nats(&["pub", "in"], &large));
    assert_eq!(listener.end().1, [&large[..], b"\n"].concat());
}

#[test]
fn many_lines_keep_their_order_and_the_summary_counts_them() {
    let (_dir, server) = start();
    let listener = server.listen(&["sub", "many", "--raw", "-c", "50000"]);
    let input: String = (0..50_000).map(|n| format!("{n}\n")).collect();
    let output = server.nats(&["pub", "many", "--lines", "-o", "json"], input.as_bytes());
    let summary: Value = serde_json::from_slice(&success(output)).unwrap();
    assert_eq!(summary["messages"], 50_000);
    assert_eq!(summary["bytes"], input.len() - 50_000);
    assert_eq!(summary["complete"], true);
    assert_eq!(text(&listener.end().1), input);
}

#[test]
fn counts_templates_and_rates() {
    let (_dir, server) = start();
    let listener = server.listen(&["sub", "t.*", "--raw", "-c", "3"]);
    success(server.nats(&["pub", "--template", "t.{{Count}}", "no {{Count}}", "--count", "3"], b""));
    assert_eq!(text(&listener.end().1), "no 1\nno 2\nno 3\n");
    let output = server.nats(&["pub", "x", "y", "--count", "21", "--rate", "100/s", "-o", "json"], b"");
    let summary: Value = serde_json::from_slice(&success(output)).unwrap();
    assert!(summary["seconds"].as_f64().unwrap() >= 0.2, "{summary}");
    let error = failure(&server.nats(&["pub", "--template", "t.{{Nope}}", "x"], b""), 2);
    assert!(error.contains("{{nope}}"), "{error}");
}

#[test]
fn a_queue_group_shares_the_messages() {
    let (_dir, server) = start();
    let listener = || server.listen(&["sub", "work", "--queue", "workers", "--raw", "--wait", "2s"]);
    let (one, two) = (listener(), listener());
    let input: String = (0..1000).map(|n| format!("{n}\n")).collect();
    success(server.nats(&["pub", "work", "--lines"], input.as_bytes()));
    let (one, two) = (text(&one.end().1), text(&two.end().1));
    assert!(one.lines().count() > 100 && two.lines().count() > 100, "random among members");
    let mut all: Vec<u32> = one.lines().chain(two.lines()).map(|line| line.parse().unwrap()).collect();
    all.sort_unstable();
    assert_eq!(all, (0..1000).collect::<Vec<u32>>());
}

#[test]
fn requests_are_answered_by_text_echo_and_command() {
    let (_dir, server) = start();
    let _text = server.listen(&["reply", "text", "{{Request}} is request {{Count}}", "--template"]);
    let _echo = server.listen(&["reply", "echo.*", "--echo"]);
    let command = "tr a-z A-Z; printf %s \"$NATS_REQUEST_SUBJECT\"";
    let _command = server.listen(&["reply", "cmd.*", "--command", command]);
    let answer = |arguments: &[&str], input: &[u8]| success(server.nats(arguments, input));
    assert_eq!(answer(&["request", "text", "this"], b""), b"this is request 1\n");
    assert_eq!(answer(&["request", "text", "--raw"], b"that"), b"that is request 2");
    let echoed = answer(&["request", "echo.a", "x", "-H", "A: b", "--headers"], b"");
    assert_eq!(text(&echoed), "A: b\n\nx\n");
    assert_eq!(answer(&["request", "cmd.q", "--raw"], b"shout"), b"SHOUTcmd.q");
}

#[test]
fn requests_that_nobody_or_too_few_answer_fail() {
    let (_dir, server) = start();
    let error = failure(&server.nats(&["request", "nobody", "x"], b""), 1);
    assert!(error.contains("there are no responders for 'nobody'"), "{error}");
    let _mute = server.listen(&["sub", "mute"]);
    let error = failure(&server.nats(&["request", "mute", "x", "--timeout", "200ms"], b""), 1);
    assert!(error.contains("no answer from 'mute' within 200ms"), "{error}");
    let (_one, _two) = (server.listen(&["reply", "who", "one"]), server.listen(&["reply", "who", "two"]));
    let both = text(&success(server.nats(&["request", "who", "", "--replies", "2"], b"")));
    let mut both: Vec<&str> = both.lines().collect();
    both.sort_unstable();
    assert_eq!(both, ["one", "two"]);
    let all = server.nats(&["request", "who", "", "--replies", "0", "--timeout", "300ms"], b"");
    assert_eq!(text(&success(all)).lines().count(), 2);
    let error =
        failure(&server.nats(&["request", "who", "", "--replies", "3", "--timeout", "300ms"], b""), 1);
    assert!(error.contains("2 of 3 answers"), "{error}");
}

#[test]
fn a_failing_command_is_answered_for_and_commands_are_bounded() {
    let (dir, server) = start();
    let mut replier = server.listen(&["reply", "fails", "--command", "echo half; exit 3"]);
    let output = success(server.nats(&["request", "fails", "x", "-o", "json"], b""));
    let answer: Value = serde_json::from_slice(&output).unwrap();
    assert_eq!(answer["payload"], "");
    assert_eq!(answer["headers"][1], json!({ "key": "Nats-Service-Error-Code", "value": "500" }));
    assert!(replier.next_error().contains("exit status: 3"));
    let late = ["reply", "late", "--command", "sleep 60", "--command-timeout", "100ms"];
    let mut replier = server.listen(&late);
    success(server.nats(&["request", "late", "x"], b""));
    assert!(replier.next_error().contains("did not end within 100ms"));
    // One at a time: the second request waits for the first, and both are answered.
    let lock = dir.path().join("lock").display().to_string();
    let command = format!("mkdir {lock} || exit 9; cat; sleep 0.2; rmdir {lock}");
    let slow = ["reply", "slow", "--command", &command, "--parallel", "1", "--count", "2"];
    let replier = server.listen(&slow);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| assert_eq!(success(server.nats(&["request", "slow", "q"], b"")), b"q\n"));
        }
    });
    assert_eq!(replier.end().0, Some(0));
}

#[test]
fn waiting_ends_with_a_status_that_tells_whether_enough_came() {
    let (_dir, server) = start();
    let listener = server.listen(&["sub", "quiet", "--wait", "100ms"]);
    assert_eq!(listener.end().0, Some(0));
    let (status, _, error) = server.listen(&["sub", "quiet", "--wait", "100ms", "-c", "2"]).end();
    assert_eq!(status, Some(1));
    assert!(error.contains("0 of 2 messages"), "{error}");
}

#[test]
fn ctrl_c_ends_a_subscription_cleanly() {
    let (_dir, server) = start();
    let mut listener = server.listen(&["sub", "s", "--raw"]);
    success(server.nats(&["pub", "s", "--lines"], "line\n".repeat(1000).as_bytes()));
    let mut output = listener.stdout();
    let mut first = String::new();
    output.read_line(&mut first).unwrap();
    listener.interrupt();
    let mut rest = String::new();
    output.read_to_string(&mut rest).unwrap();
    assert_eq!(first + &rest, "line\n".repeat(1000));
    let (status, _, errors) = listener.end();
    assert_eq!((status, errors.as_str()), (Some(0), ""));
}

#[test]
fn a_reader_that_leaves_ends_a_subscription_quietly() {
    let (_dir, server) = start();
    let mut listener = server.listen(&["sub", "s", "--raw"]);
    // No message is published: the verb notices by itself that the reader has left.
    drop(listener.stdout());
    let (status, _, errors) = listener.end();
    assert_eq!((status, errors.as_str()), (Some(0), ""));
}

#[test]
fn a_subscription_survives_a_restart_of_the_server() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let server = Server::start_on(&data, LASTING, LASTING, &[]);
    let mut listener = server.listen(&["sub", "s", "--raw", "-c", "2"]);
    let (kafka, nats) = (server.kafka.clone(), server.nats.clone());
    success(server.nats(&["pub", "s", "before"], b""));
    let mut output = listener.stdout();
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    assert_eq!(line, "before\n");
    let lost = ["sub", "s", "--no-reconnect"];
    let without = server.listen(&lost);
    server.kill();
    assert_eq!(without.end().0, Some(1));
    let lost = listener.next_error();
    assert!(lost.contains("reconnecting"), "{lost}");
    let _server = Server::start_on(&data, &kafka, &nats, &[]);
    let back = listener.next_error();
    assert!(back.contains("reconnected to"), "{back}");
    // The first messages may come before the subscription is restored.
    let again = ["pub", "s", "after", "--count", "1000", "--rate", "100", "-s", &nats];
    let mut publisher = support::command(&again).spawn().unwrap();
    line.clear();
    output.read_line(&mut line).unwrap();
    publisher.kill().unwrap();
    publisher.wait().unwrap();
    assert_eq!(line, "after\n");
    drop(output);
    assert_eq!(listener.end().0, Some(0));
}

#[test]
fn mistakes_are_told_before_anything_is_sent() {
    let (_dir, server) = start();
    for (arguments, word) in [
        (&["pub", "a.*", "x"][..], "wildcards"),
        (&["pub", "a..b", "x"], "words with dots"),
        (&["pub", "a b", "x"], "blanks"),
    ] {
        let error = failure(&server.nats(arguments, b""), 2);
        assert!(error.contains(word), "{error}");
    }
    for arguments in [
        &["sub", "a..b"][..],
        &["sub", "a.>.b"],
        &["sub"],
        &["request", "a.*", "x"],
        &["reply", "a"],
        &["reply", "a", "text", "--echo"],
        &["pub", "a", "x", "-H", "no colon"],
        &["pub", "a", "x", "--rate", "0"],
        &["pub", "a", "x", "--lines"],
        &["sub", "a", "--raw", "-o", "json"],
    ] {
        failure(&server.nats(arguments, b""), 2);
    }
    let error = failure(&server.nats(&["pub", "a"], &vec![0; (1 << 20) + 1]), 1);
    assert!(error.contains("longer than 1048576 bytes"), "{error}");
    let long = ["ok\n".as_bytes(), &vec![b'x'; (1 << 20) + 1]].concat();
    let error = failure(&server.nats(&["pub", "a", "--lines"], &long), 1);
    assert!(error.contains("line 2 is longer"), "{error}");
}

#[test]
fn a_server_that_is_not_there_or_none_is_told() {
    let (_dir, server) = start();
    let error = failure(&support::run(&["pub", "a", "x", "-s", "127.0.0.1:1"]), 1);
    assert!(error.contains("cannot connect to 127.0.0.1:1: connection refused"), "{error}");
    let error = failure(&support::run(&["pub", "a", "x", "-s", &server.kafka, "--timeout", "300ms"]), 1);
    assert!(error.contains("it sent nothing for 300ms"), "{error}");
    // Of several, the first that answers.
    let both = format!("127.0.0.1:1,nats://{}", server.nats);
    success(support::run(&["pub", "a", "x", "-s", &both]));
}

#[test]
fn users_tokens_and_nkeys_are_presented() {
    let dir = tempfile::tempdir().unwrap();
    let seed = dir.path().join("user.nk");
    // The key pair of 32 bytes with the value 7.
    std::fs::write(&seed, "SUAAOBYHA4DQOBYHA4DQOBYHA4DQOBYHA4DQOBYHA4DQOBYHA4DQOBZ5FE\n").unwrap();
    let public = "UDVEU3DD4KOFECV66VIHWEZOYX4ZKR3WV27L464SIIPOU2IUI3JCYSJF";
    let seed = seed.to_str().unwrap();
    let with = |name: &str, settings: &[&str]| {
        let flags: Vec<&str> = settings.iter().flat_map(|setting| ["--set", setting]).collect();
        Server::start(&dir.path().join(name), &flags)
    };
    let denied = |server: &Server, arguments: &[&str]| {
        let error = failure(&server.nats(&[&["pub", "a", "x"], arguments].concat(), b""), 1);
        assert!(error.contains("Authorization Violation; see --user"), "{error}");
    };
    let server = with("user", &["tailrace.nats.user=ann", "tailrace.nats.password=p@ss"]);
    success(server.nats(&["pub", "a", "x", "--user", "ann", "--password", "p@ss"], b""));
    let url = format!("nats://ann:p%40ss@{}", server.nats);
    success(support::run(&["pub", "a", "x", "-s", &url]));
    denied(&server, &[]);
    denied(&server, &["--user", "ann", "--password", "wrong"]);
    let server = with("token", &["tailrace.nats.token=t0ken"]);
    success(server.nats(&["pub", "a", "x", "--token", "t0ken"], b""));
    denied(&server, &["--token", "other"]);
    let server = with("nkey", &[&format!("tailrace.nats.nkey={public}")]);
    success(server.nats(&["pub", "a", "x", "--nkey", seed], b""));
    denied(&server, &[]);
    let error = failure(&server.nats(&["pub", "a", "x", "--nkey", "/no/such/file"], b""), 1);
    assert!(error.contains("cannot read /no/such/file"), "{error}");
}

/// Signs claims as github.com/nats-io/jwt does.
fn claims(issuer: &nkeys::KeyPair, subject: &str, nats: Value) -> String {
    use base64::Engine;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let body = json!({
        "jti": "ID", "iat": 1_700_000_000, "iss": issuer.public_key(), "name": "n", "sub": subject, "nats": nats,
    });
    let header = json!({ "typ": "JWT", "alg": "ed25519-nkey" });
    let text = format!("{}.{}", encode(&header), encode(&body));
    format!("{text}.{}", URL_SAFE_NO_PAD.encode(issuer.sign(text.as_bytes()).unwrap()))
}

#[test]
fn a_credentials_file_logs_in_with_an_operator_and_is_never_shown() {
    let (operator, account, user) =
        (nkeys::KeyPair::new_operator(), nkeys::KeyPair::new_account(), nkeys::KeyPair::new_user());
    let limits = json!({ "subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1,
        "wildcards": true, "conn": -1, "leaf": -1 });
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: String| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let nats = json!({ "type": "operator", "version": 2 });
    let operators = write("operator.jwt", claims(&operator, &operator.public_key(), nats));
    let nats = json!({ "type": "account", "version": 2, "limits": limits });
    let accounts = write("accounts.jwt", claims(&operator, &account.public_key(), nats));
    let nats = json!({ "type": "user", "version": 2, "subs": -1, "data": -1, "payload": -1 });
    let (jwt, seed) = (claims(&account, &user.public_key(), nats), user.seed().unwrap());
    let file = |jwt: &str, seed: &str| {
        format!(
            "-----BEGIN NATS USER JWT-----\n{jwt}\n------END NATS USER JWT------\n\n\
             -----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
        )
    };
    let creds = write("user.creds", file(&jwt, &seed));
    let other = write("other.creds", file(&jwt, &nkeys::KeyPair::new_user().seed().unwrap()));
    let settings = [
        format!("tailrace.nats.operator.file={operators}"),
        format!("tailrace.nats.operator.accounts.file={accounts}"),
    ];
    let flags: Vec<&str> = settings.iter().flat_map(|setting| ["--set", setting]).collect();
    let server = Server::start(&dir.path().join("data"), &flags);
    success(server.nats(&["pub", "a", "x", "--creds", &creds], b""));
    for verb in [&["pub", "a", "x"][..], &["sub", "a"], &["request", "a", "x"], &["reply", "a", "x"]] {
        for arguments in [&["--creds", other.as_str()][..], &[]] {
            let error = failure(&server.nats(&[verb, arguments].concat(), b""), 1);
            assert!(error.contains("Authorization Violation; see --user"), "{verb:?}: {error}");
            assert!(!error.contains("eyJ") && !error.contains(&seed), "{error}");
        }
    }
    let error = failure(&server.nats(&["pub", "a", "x", "--creds", "/no/such/file"], b""), 1);
    assert!(error.contains("cannot read /no/such/file"), "{error}");
    failure(&server.nats(&["pub", "a", "x", "--creds", &creds, "--nkey", &creds], b""), 2);
}

#[test]
fn acknowledgements_say_where_messages_were_stored() {
    let (_dir, server) = start();
    server.output(&["topic", "create", "orders", "--subjects", "orders.>"]);
    let output = server.nats(&["pub", "orders.eu", "first", "--ack", "-H", "Trace: 7"], b"");
    assert_eq!(text(&success(output)), "stored in orders, sequence 1\n");
    let input: String = (0..2000).map(|n| format!("{n}\n")).collect();
    let output = server.nats(&["pub", "orders.us", "--lines", "--ack", "-o", "json"], input.as_bytes());
    let output = text(&success(output));
    let acks: Vec<Value> = output.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(acks.len(), 2000);
    assert_eq!(
        acks[1999],
        json!({ "subject": "orders.us", "stream": "orders", "seq": 2001, "duplicate": false })
    );
    assert_eq!(server.consume_text("orders", &["-c", "1", "-f", "%o %k %v %h"]), "0 orders.eu first Trace=7");
    assert_eq!(server.consume_text("orders", &["--from", "1"]), input);
    // There is no subscriber; a subscriber that does not acknowledge; a reply that is not an acknowledgement.
    let error = failure(&server.nats(&["pub", "other", "x", "--ack"], b""), 1);
    assert!(error.contains("no topic stores messages to 'other'"), "{error}");
    let _mute = server.listen(&["sub", "mute"]);
    let error = failure(&server.nats(&["pub", "mute", "x", "--ack", "--timeout", "200ms"], b""), 1);
    assert!(error.contains("was not acknowledged within 200ms"), "{error}");
    let _replier = server.listen(&["reply", "service", "hello"]);
    let error = failure(&server.nats(&["pub", "service", "x", "--ack"], b""), 1);
    assert!(error.contains("is not a topic's acknowledgement"), "{error}");
}

#[test]
fn what_kafka_clients_produce_is_heard() {
    let (_dir, server) = start();
    server.create("orders", 1);
    let listener = server.listen(&["sub", "orders.>", "-c", "2", "-o", "json"]);
    server.produce("orders", &["-K", ":", "-H", "Trace=7"], b"eu.new:one\nus.old:two\n");
    let output = text(&listener.end().1);
    let lines: Vec<Value> = output.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&lines[0]["subject"], &lines[0]["payload"]), (&json!("orders.eu.new"), &json!("one")));
    assert_eq!((&lines[1]["subject"], &lines[1]["payload"]), (&json!("orders.us.old"), &json!("two")));
    assert_eq!(lines[0]["headers"][0], json!({ "key": "Trace", "value": "7" }));
}

#[test]
fn top_shows_connections_and_rates() {
    let (_dir, server) = start();
    let busy = ["pub", "busy", "12345", "--count", "1M", "--rate", "500", "--connection-name", "busy one"];
    let mut publisher = support::command(&[&busy[..], &["-s", &server.nats]].concat()).spawn().unwrap();
    let _quiet = server.listen(&["sub", "x", "y", "--connection-name", "quiet one"]);
    let look = |more: &[&str]| {
        let top = ["top", "--once", "-m", &server.http, "--interval", "500ms"];
        text(&success(support::run(&[&top[..], more].concat())))
    };
    let page: Value = serde_json::from_str(&look(&["-o", "json"])).unwrap();
    assert_eq!((&page["connections_open"], &page["subscriptions"]), (&json!(2), &json!(2)));
    let first = &page["connections"][0];
    assert_eq!(first["name"], "busy one");
    let rate = first["rates_per_second"]["messages_from"].as_f64().unwrap();
    assert!((250.0..1000.0).contains(&rate), "{rate} messages a second");
    assert!(page["rates_per_second"]["bytes_from"].as_f64().unwrap() > 1000.0);
    let table = look(&["--sort", "subs"]);
    let quiet = table.find("quiet one").unwrap();
    assert!(quiet < table.find("busy one").unwrap(), "{table}");
    assert!(look(&["-n", "1"]).contains("; 1 more\n"));
    publisher.kill().unwrap();
    publisher.wait().unwrap();
    let error = failure(&support::run(&["top", "--once", "-m", &server.kafka, "--timeout", "300ms"]), 1);
    assert!(error.contains("did not answer") || error.contains("HTTP"), "{error}");
}

/// The error of `pub` about a server that sends only these bytes and then closes.
fn told_by(says: Vec<u8>) -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let serving = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        // The client may leave in the middle of it.
        let _ = std::io::Write::write_all(&mut stream, &says);
        // Closing a socket with unread input would discard what was sent.
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let error = failure(&support::run(&["pub", "a", "x", "-s", &address, "--timeout", "5s"]), 1);
    serving.join().unwrap();
    error
}

#[test]
fn what_is_no_nats_server_is_told_in_one_line() {
    let info = b"INFO {\"server_id\":\"N\",\"max_payload\":1048576,\"headers\":true}\r\n";
    for (says, expected) in [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(), "is it a NATS server?"),
        (b"INFO nonsense\r\n".to_vec(), "is it a NATS server?"),
        (vec![b'x'; 3 << 20], "is it a NATS server?"),
        (Vec::new(), "the server closed it"),
        (info.to_vec(), "the server closed it"),
        ([&info[..], b"-ERR 'maximum connections exceeded'\r\n"].concat(), "maximum connections exceeded"),
        ([&info[..], b"MSG a 1 99999999999999999999\r\n"].concat(), "is it a NATS server?"),
        ([&info[..], b"MSG a 1 999999999\r\n"].concat(), "is it a NATS server?"),
    ] {
        let error = told_by(says);
        assert!(error.contains(expected), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}
