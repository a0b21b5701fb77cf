//! Accounts of the users file: who hears whom, in one node and between nodes, and what crosses by imports.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;
use tokio::net::TcpStream;

use crate::cluster::cluster;
use crate::common::TestServer;
use crate::common::lines::Lines;

const VIOLATION: &str = "-ERR 'Authorization Violation'";

/// Users named for their accounts: `a1` is in A, `g` in none.
const USERS: &str = r#"
[[users]]
user = "g"
password = "p"
"#;

pub(crate) type Talker = Lines<TcpStream>;

fn users_of(accounts: &[&str]) -> String {
    let user = |name: &str, account: &str| {
        format!("[[users]]\nuser = \"{name}\"\npassword = \"p\"\naccount = \"{account}\"\n")
    };
    let of = |account: &&str| {
        let name = account.to_lowercase();
        user(&format!("{name}1"), account) + &user(&format!("{name}2"), account)
    };
    USERS.to_owned() + &accounts.iter().map(of).collect::<String>()
}

/// Accounts A and B that share nothing.
fn two_accounts() -> String {
    "[[accounts]]\nname = \"A\"\n[[accounts]]\nname = \"B\"\n".to_owned() + &users_of(&["A", "B"])
}

fn write(folder: &Path, text: &str) -> String {
    let path = folder.join("users.toml");
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

pub(crate) struct World {
    pub(crate) server: TestServer,
    _folder: TempDir,
}

pub(crate) async fn world(users: &str, more: &[(&str, &str)]) -> World {
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), users);
    let settings = [&[("tailrace.nats.users.file", path.as_str())], more].concat();
    World { server: TestServer::with(&settings).await, _folder: folder }
}

pub(crate) async fn login_with(server: &TestServer, user: &str, more: &str) -> Talker {
    let mut lines = Lines::over(TcpStream::connect(server.nats()).await.unwrap());
    lines.info().await;
    let options = format!(
        "{{\"verbose\":false,\"user\":\"{user}\",\"pass\":\"p\",\"headers\":true,\
         \"no_responders\":true{more}}}"
    );
    lines.send(&format!("CONNECT {options}\r\n")).await;
    lines
}

pub(crate) async fn login(server: &TestServer, user: &str) -> Talker {
    let mut lines = login_with(server, user, "").await;
    assert!(lines.until_pong().await.is_empty());
    lines
}

async fn says(talker: &mut Talker, text: &str) {
    talker.send(text).await;
    assert_eq!(talker.until_pong().await, [""; 0], "{text}");
}

/// Returns the subjects and payloads that a client has got by now.
async fn heard(talker: &mut Talker) -> Vec<String> {
    let lines = talker.until_pong().await;
    lines
        .chunks(2)
        .map(|message| {
            let words: Vec<_> = message[0].split(' ').collect();
            assert_eq!(words[0], "MSG", "{lines:?}");
            format!("{}={}", words[1], message[1])
        })
        .collect()
}

#[tokio::test]
async fn accounts_do_not_hear_each_other() {
    let world = world(&two_accounts(), &[]).await;
    let server = &world.server;
    let mut all = Vec::new();
    for user in ["a1", "a2", "b1", "g"] {
        let mut talker = login(server, user).await;
        says(&mut talker, "SUB > 1\r\nSUB x workers 2\r\n").await;
        all.push(talker);
    }
    let mut publishers = Vec::new();
    for user in ["a2", "b2", "g"] {
        publishers.push(login(server, user).await);
    }
    for (publisher, hearers) in publishers.iter_mut().zip([&[0, 1][..], &[2], &[3]]) {
        says(publisher, "PUB x 1\r\n!\r\n").await;
        let mut in_group = 0;
        for (number, talker) in all.iter_mut().enumerate() {
            let got = heard(talker).await.len();
            assert_eq!(got > 0, hearers.contains(&number), "client {number}");
            in_group += got.saturating_sub(1);
        }
        assert_eq!(in_group, 1, "one member of the group in the account of the publisher");
    }
}

/// CVE-2022-24450.
#[tokio::test]
async fn a_client_does_not_choose_its_account() {
    let world = world(&two_accounts(), &[]).await;
    for more in [",\"account\":\"B\"", ",\"account\":\"A\"", ",\"new_account\":true"] {
        let mut lines = login_with(&world.server, "a1", more).await;
        assert_eq!(lines.until_end().await, [VIOLATION], "{more}");
    }
}

#[tokio::test]
async fn who_presents_nothing_is_in_the_account_of_the_guest() {
    let users = "no_auth_user = \"b1\"\n".to_owned() + &two_accounts();
    let world = world(&users, &[]).await;
    let (mut a, mut b) = (login(&world.server, "a1").await, login(&world.server, "b2").await);
    says(&mut a, "SUB > 1\r\n").await;
    says(&mut b, "SUB > 1\r\n").await;
    // With a CONNECT and without one.
    for first in ["CONNECT {\"verbose\":false}\r\n", ""] {
        let mut guest = Lines::over(TcpStream::connect(world.server.nats()).await.unwrap());
        guest.info().await;
        guest.send(first).await;
        guest.send("PUB x 1\r\n!\r\n").await;
        let answer = guest.until_pong().await;
        assert!(answer.iter().all(|line| line == "+OK"), "{answer:?}");
        assert_eq!(heard(&mut b).await, ["x=!"]);
        assert_eq!(heard(&mut a).await, [""; 0]);
    }
}

#[tokio::test]
async fn limits_of_an_account_hold_for_it_alone() {
    let accounts = "[[accounts]]\nname = \"A\"\nmax_connections = 2\nmax_subscriptions = 1\nmax_payload = 8\n\
                    [[accounts]]\nname = \"B\"\n";
    let world = world(&(accounts.to_owned() + &users_of(&["A", "B"])), &[]).await;
    let server = &world.server;
    let mut first = login(server, "a1").await;
    let _second = login(server, "a2").await;
    let mut third = login_with(server, "a1", "").await;
    assert_eq!(third.until_end().await, ["-ERR 'maximum account active connections exceeded'"]);
    let mut other = login(server, "b1").await;
    says(&mut other, "SUB x 1\r\nSUB y 2\r\nPUB z 9\r\n123456789\r\n").await;
    first.send("SUB x 1\r\nSUB y 2\r\n").await;
    assert_eq!(first.until_pong().await, ["-ERR 'maximum subscriptions exceeded'"]);
    first.send("PUB z 8\r\n12345678\r\nPUB z 9\r\n123456789\r\n").await;
    assert_eq!(first.until_end().await, ["-ERR 'Maximum Payload Violation'"]);
    // Its place is free again.
    let mut again = Vec::new();
    while again.is_empty() {
        let mut lines = login_with(server, "a1", "").await;
        lines.send("PING\r\n").await;
        again.extend(lines.line().await.filter(|line| line == "PONG\r\n"));
    }
}

#[tokio::test]
async fn who_has_not_logged_in_takes_nobodys_place() {
    let accounts = "[[accounts]]\nname = \"$G\"\nmax_connections = 1\n";
    let world = world(&(accounts.to_owned() + USERS), &[]).await;
    let mut strangers = Vec::new();
    for _ in 0..3 {
        let mut lines = Lines::over(TcpStream::connect(world.server.nats()).await.unwrap());
        lines.info().await;
        strangers.push(lines);
    }
    let _only = login(&world.server, "g").await;
    let mut second = login_with(&world.server, "g", "").await;
    assert_eq!(second.until_end().await, ["-ERR 'maximum account active connections exceeded'"]);
}

const SHARING: &str = r#"
[[accounts]]
name = "A"
exports = [
    { stream = "news.>" },
    { stream = "for.*.>", account_token_position = 2 },
    { service = "prices.*" },
    { service = "many", response = "stream" },
]

[[accounts]]
name = "B"
imports = [
    { stream = "news.>", from = "A", prefix = "in" },
    { stream = "for.B.>", from = "A" },
    { service = "prices.*", from = "A", to = "ask.*" },
    { service = "many", from = "A", share = true },
]

[[accounts]]
name = "C"
"#;

#[tokio::test]
async fn a_stream_is_heard_where_it_is_imported_under_its_subject_there() {
    let world = world(&(SHARING.to_owned() + &users_of(&["A", "B", "C"])), &[]).await;
    let server = &world.server;
    let mut a = login(server, "a1").await;
    let mut talkers = Vec::new();
    for user in ["b1", "b2", "c1", "g"] {
        let mut talker = login(server, user).await;
        says(&mut talker, "SUB > 1\r\n").await;
        talkers.push(talker);
    }
    says(&mut talkers[0], "SUB in.news.x 2\r\nSUB news.> 3\r\n").await;
    says(&mut a, "PUB news.x 1\r\n1\r\nPUB old.x 1\r\n2\r\nPUB for.B.x 1\r\n3\r\nPUB for.C.x 1\r\n4\r\n")
        .await;
    let mut found = heard(&mut talkers[0]).await;
    found.sort();
    assert_eq!(found, ["for.B.x=3", "in.news.x=1", "in.news.x=1"]);
    assert_eq!(heard(&mut talkers[1]).await, ["in.news.x=1", "for.B.x=3"]);
    assert_eq!(heard(&mut talkers[2]).await, [""; 0]);
    assert_eq!(heard(&mut talkers[3]).await, [""; 0]);
    // Nothing goes back.
    says(&mut a, "SUB > 1\r\n").await;
    let mut silent = login(server, "b1").await;
    says(&mut silent, "PUB in.news.x 1\r\n5\r\nPUB news.x 1\r\n6\r\n").await;
    assert_eq!(heard(&mut a).await, [""; 0]);
}

/// Returns the reply subject, the headers and the payload of the only message.
#[tokio::test]
async fn messages_that_very_many_get_in_another_account_keep_their_order() {
    const LISTENERS: usize = 3_000;
    let world = world(&(SHARING.to_owned() + &users_of(&["A", "B"])), &[]).await;
    let (mut a, mut b) = (login(&world.server, "a1").await, login(&world.server, "b1").await);
    let subscribe: String = (0..LISTENERS).map(|sid| format!("SUB in.news.x {sid}\r\n")).collect();
    says(&mut b, &subscribe).await;
    says(&mut a, "PUB news.x 1\r\n1\r\nPUB news.x 1\r\n2\r\nPUB news.x 1\r\n3\r\n").await;
    let lines = b.until_pong().await;
    let mut got = vec![String::new(); LISTENERS];
    for message in lines.chunks(2) {
        let sid: usize = message[0].split(' ').nth(2).unwrap().parse().unwrap();
        got[sid].push_str(&message[1]);
    }
    assert!(got.iter().all(|got| got == "123"), "{:?}", got.iter().find(|got| *got != "123"));
}

async fn request(talker: &mut Talker) -> (String, String, String) {
    let lines = talker.until_pong().await;
    let words: Vec<_> = lines[0].split(' ').collect();
    assert_eq!(words[0], "HMSG", "{lines:?}");
    (words[3].to_owned(), lines[1..lines.len() - 1].join("\n"), lines[lines.len() - 1].clone())
}

fn info(headers: &str) -> Value {
    let found = headers.lines().filter_map(|line| line.strip_prefix("Nats-Request-Info: "));
    let [info] = found.collect::<Vec<_>>()[..] else { panic!("{headers}") };
    serde_json::from_str(info).unwrap()
}

#[tokio::test]
async fn a_service_is_asked_and_answers_across_accounts() {
    let world = world(&(SHARING.to_owned() + &users_of(&["A", "B", "C"])), &[]).await;
    let server = &world.server;
    let (mut a, mut b, mut c) =
        (login(server, "a1").await, login(server, "b1").await, login(server, "c1").await);
    says(&mut b, "SUB _INBOX.> 1\r\n").await;
    says(&mut c, "SUB > 1\r\n").await;
    // Nobody answers yet.
    b.send("PUB ask.oil _INBOX.0 1\r\n?\r\n").await;
    let said = b.until_pong().await;
    assert!(said[0].starts_with("HMSG _INBOX.0 1 ") && said[1] == "NATS/1.0 503", "{said:?}");
    says(&mut a, "SUB prices.* 1\r\nSUB many 2\r\n").await;
    // What the client says of itself is not believed.
    let forged = "NATS/1.0\r\nX: y\r\nNats-Request-Info: {\"acc\":\"A\"}\r\n\r\n";
    b.send(&format!("HPUB ask.oil _INBOX.1 {} {}\r\n{forged}?\r\n", forged.len(), forged.len() + 1)).await;
    let (reply, headers, payload) = request(&mut a).await;
    assert!(reply.starts_with("_R_.") && headers.contains("X: y") && payload == "?", "{headers}");
    assert_eq!(info(&headers), serde_json::json!({ "acc": "B", "rtt": info(&headers)["rtt"] }));
    says(&mut a, &format!("PUB {reply} 2\r\n42\r\nPUB {reply} 2\r\n43\r\n")).await;
    assert_eq!(heard(&mut b).await, ["_INBOX.1=42"], "one answer");
    // Others cannot use the way back, whether they know the subject or not.
    let mut silent = login(server, "c2").await;
    says(&mut silent, &format!("PUB {reply} 2\r\n44\r\n")).await;
    assert_eq!(heard(&mut b).await, [""; 0]);
    assert_eq!(heard(&mut c).await.len(), 1, "it is a subject like any other there");
    // A service that streams, and is told who asks.
    b.send("PUB many _INBOX.2 1\r\n?\r\n").await;
    let (reply, headers, _) = request(&mut a).await;
    assert_eq!((&info(&headers)["user"], &info(&headers)["acc"]), (&"b1".into(), &"B".into()));
    says(&mut a, &format!("PUB {reply} 1\r\n1\r\nPUB {reply} 1\r\n2\r\n")).await;
    assert_eq!(heard(&mut b).await, ["_INBOX.2=1", "_INBOX.2=2"]);
    assert_eq!(heard(&mut c).await, [""; 0]);
    // The importer has the service by its own subject only.
    says(&mut b, "PUB prices.oil 1\r\n?\r\n").await;
    assert_eq!(heard(&mut a).await, [""; 0]);
}

/// Neither who publishes a stream nor who answers a request asks the services of another account.
#[tokio::test]
async fn what_comes_by_a_stream_or_as_an_answer_asks_no_service() {
    const CHAIN: &str = r#"
[[accounts]]
name = "A"
exports = [{ stream = "feed.*" }, { service = "echo" }]
[[accounts]]
name = "B"
imports = [
    { stream = "feed.*", from = "A", prefix = "out" },
    { service = "echo", from = "A" },
    { service = "orders.*", from = "C", to = "out.feed.$1" },
]
[[accounts]]
name = "C"
exports = [{ service = "orders.*" }]
"#;
    let world = world(&(CHAIN.to_owned() + &users_of(&["A", "B", "C"])), &[]).await;
    let server = &world.server;
    let (mut a, mut b, mut c) =
        (login(server, "a1").await, login(server, "b1").await, login(server, "c1").await);
    let mut listener = login(server, "b2").await;
    says(&mut listener, "SUB out.> 1\r\n").await;
    says(&mut c, "SUB orders.* 1\r\n").await;
    says(&mut b, "PUB out.feed.direct 1\r\n1\r\n").await;
    let lines = c.until_pong().await;
    assert!(lines[0].starts_with("HMSG orders.direct "), "{lines:?}");
    assert_eq!(heard(&mut listener).await, ["out.feed.direct=1"]);

    says(&mut a, "PUB feed.stream 1\r\n2\r\n").await;
    assert_eq!(heard(&mut listener).await, ["out.feed.stream=2"]);
    assert_eq!(heard(&mut c).await, [""; 0], "by a stream");

    says(&mut a, "SUB echo 1\r\n").await;
    b.send("PUB echo out.feed.answer 1\r\n?\r\n").await;
    let (reply, ..) = request(&mut a).await;
    says(&mut a, &format!("PUB {reply} 1\r\n3\r\n")).await;
    assert_eq!(heard(&mut listener).await, ["out.feed.answer=3"]);
    assert_eq!(heard(&mut c).await, [""; 0], "as an answer");
}

/// Waits until a publisher reaches a subscriber.
async fn until_heard(from: &mut Talker, subject: &str, to: &mut Talker) {
    for _ in 0..1_000 {
        says(from, &format!("PUB {subject} 5\r\nprobe\r\n")).await;
        if !heard(to).await.is_empty() {
            return;
        }
        // The publisher's node learns of the subscription, or of the import, a little later.
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    panic!("{subject} does not arrive");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn accounts_and_their_imports_reach_from_node_to_node() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), &(SHARING.to_owned() + &users_of(&["A", "B", "C"])));
    let nodes = cluster(2, &[("tailrace.nats.users.file", &path)]).await;
    let (mut a, mut a_far) = (login(&nodes[0], "a1").await, login(&nodes[1], "a2").await);
    let (mut b_far, mut c_far) = (login(&nodes[1], "b1").await, login(&nodes[1], "c1").await);
    says(&mut c_far, "SUB > 1\r\n").await;
    says(&mut a_far, "SUB x 1\r\nSUB prices.* 2\r\n").await;
    says(&mut b_far, "SUB x 1\r\nSUB in.> 2\r\n").await;
    until_heard(&mut a, "x", &mut a_far).await;
    until_heard(&mut a, "news.probe", &mut b_far).await;
    while !heard(&mut a_far).await.is_empty() || !heard(&mut b_far).await.is_empty() {}
    says(&mut a, "PUB x 1\r\n1\r\nPUB news.x 1\r\n2\r\n").await;
    until_heard(&mut a, "x", &mut a_far).await;
    assert_eq!(heard(&mut b_far).await, ["in.news.x=2"]);
    // A request of B here is answered by A there, and the answer comes back.
    let mut b = login(&nodes[0], "b2").await;
    says(&mut b, "SUB _INBOX.> 1\r\n").await;
    b.send("PUB ask.oil _INBOX.1 1\r\n?\r\n").await;
    let mut said = b.until_pong().await;
    assert_eq!(said, [""; 0]);
    let reply = loop {
        let lines = a_far.until_pong().await;
        if let Some(line) = lines.iter().find(|line| line.starts_with("HMSG prices.oil")) {
            break line.split(' ').nth(3).unwrap().to_owned();
        }
    };
    says(&mut a_far, &format!("PUB {reply} 2\r\n42\r\n")).await;
    while said.is_empty() {
        said = heard(&mut b).await;
    }
    assert_eq!(said, ["_INBOX.1=42"]);
    assert_eq!(heard(&mut c_far).await, [""; 0]);
}

#[tokio::test]
async fn pages_tell_accounts_apart() {
    let world = world(&two_accounts(), &[]).await;
    let server = &world.server;
    let (mut a, mut b) = (login(server, "a1").await, login(server, "b1").await);
    says(&mut a, "SUB of.a 1\r\n").await;
    says(&mut b, "SUB of.b 1\r\n").await;
    let page = async |path: &str| -> Value { serde_json::from_str(&server.get(path).await.1).unwrap() };
    let connections = page("/connz?acc=A&auth=1&subs=1").await;
    let [one] = &connections["connections"].as_array().unwrap()[..] else { panic!("{connections}") };
    assert_eq!((&one["account"], &one["authorized_user"]), (&"A".into(), &"a1".into()));
    assert_eq!(one["subscriptions_list"], serde_json::json!(["of.a"]));
    assert_eq!(page("/connz?auth=1").await["num_connections"], 2);
    assert_eq!(page("/connz?acc=none").await["num_connections"], 0);
    let subscriptions = page("/subsz?subs=1&acc=B").await;
    let list = subscriptions["subscriptions_list"].as_array().unwrap();
    assert_eq!((list.len(), &list[0]["subject"], &list[0]["account"]), (1, &"of.b".into(), &"B".into()));
    assert_eq!(page("/subsz?subs=1").await["total"], 2);
    assert_eq!(page("/subsz?subs=1&test=of.a&acc=B").await["total"], 0);
    assert_eq!(page("/accountz").await["accounts"], serde_json::json!(["$G", "A", "B"]));
    let detail = page("/accountz?acc=A").await;
    assert_eq!(detail["account_detail"]["client_connections"], 1);
    assert_eq!(detail["account_detail"]["subscriptions"], 1);
}
