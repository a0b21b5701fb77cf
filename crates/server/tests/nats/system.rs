//! The system account: what it hears of connections, what it asks about accounts and servers, and the clients
//! that it ends. `interop/security-nats.sh` compares all of it with nats-server.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use serde_json::{Value, json};

use crate::accounts::{Talker, World, login, login_with, world};
use crate::operator::{answer, ask};

const USERS: &str = r#"
[[accounts]]
name = "$SYS"
[[accounts]]
name = "A"
exports = [
    { stream = "news.>" },
    { service = "ask.*", accounts = ["B"], response = "stream" },
]
[[accounts]]
name = "B"
imports = [{ service = "ask.one", from = "A", to = "q", share = true }]
[[users]]
user = "sys"
password = "p"
account = "$SYS"
[[users]]
user = "a"
password = "p"
account = "A"
[[users]]
user = "b"
password = "p"
account = "B"
"#;

async fn system(world: &World) -> Talker {
    let mut system = login(&world.server, "sys").await;
    system.send("SUB _INBOX.> 1\r\n").await;
    system.until_pong().await;
    system
}

/// Returns the id of the server, as INFO says it.
async fn id_of(system: &mut Talker) -> String {
    ask(system, "SERVER.PING.IDZ", "").await["id"].as_str().unwrap().to_owned()
}

/// Returns the JSON of this many messages.
async fn heard(talker: &mut Talker, messages: usize) -> Vec<Value> {
    let mut heard = Vec::new();
    while heard.len() < messages {
        let lines = talker.until_pong().await;
        let bodies = lines.iter().filter(|line| line.starts_with('{'));
        heard.extend(bodies.map(|body| serde_json::from_str::<Value>(body).unwrap()));
    }
    heard
}

async fn cid_of(system: &mut Talker, user: &str) -> u64 {
    let body = json!({ "user": user, "auth": true }).to_string();
    let page = ask(system, "SERVER.PING.CONNZ", &body).await;
    page["data"]["connections"][0]["cid"].as_u64().unwrap()
}

#[tokio::test]
async fn the_system_account_ends_a_connection_and_no_other_account_does() {
    let world = world(USERS, &[]).await;
    let mut system = system(&world).await;
    let id = id_of(&mut system).await;
    let (mut kicked, mut stays) = (login(&world.server, "a").await, login(&world.server, "b").await);
    let (of_kicked, of_stays) = (cid_of(&mut system, "a").await, cid_of(&mut system, "b").await);
    system.send("SUB $SYS.ACCOUNT.A.DISCONNECT 2\r\n").await;
    // Another account has no such request, and a number that nobody has is an error.
    kicked.send("SUB _INBOX.> 1\r\n").await;
    let body = json!({ "cid": of_stays }).to_string();
    kicked.send(&format!("PUB $SYS.REQ.SERVER.{id}.KICK _INBOX.1 {}\r\n{body}\r\n", body.len())).await;
    let said = kicked.until_pong().await;
    assert!(said.iter().any(|line| line.contains("503")), "{said:?}");
    for body in ["{\"cid\":999999}", "{\"other\":1}"] {
        let said = ask(&mut system, &format!("SERVER.{id}.KICK"), body).await;
        assert_eq!(said["error"], json!({ "code": 500, "description": "no such client or leafnode id" }));
    }
    let body = json!({ "cid": of_kicked }).to_string();
    system.send(&format!("PUB $SYS.REQ.SERVER.{id}.KICK _INBOX.1 {}\r\n{body}\r\n", body.len())).await;
    // The event may come before the answer.
    let said = heard(&mut system, 2).await;
    let (event, said): (Vec<_>, Vec<_>) = said.into_iter().partition(|body| body.get("reason").is_some());
    assert!(said[0].get("error").is_none() && said[0]["server"]["id"] == *id, "{said:?}");
    assert_eq!(event[0]["reason"], "Kicked");
    assert_eq!(kicked.until_end().await, [""; 0]);
    assert_eq!(stays.until_pong().await, [""; 0]);
}

#[tokio::test]
async fn the_system_account_sends_a_client_away() {
    let world = world(USERS, &[]).await;
    let mut system = system(&world).await;
    let id = id_of(&mut system).await;
    let mut old = login(&world.server, "a").await;
    let mut new = login_with(&world.server, "b", ",\"protocol\":1").await;
    new.until_pong().await;
    let cids = [cid_of(&mut system, "a").await, cid_of(&mut system, "b").await];
    let mut said = Vec::new();
    for cid in cids {
        said.push(ask(&mut system, &format!("SERVER.{id}.LDM"), &json!({ "cid": cid }).to_string()).await);
    }
    let reason = said[0]["error"]["description"].as_str().unwrap();
    assert!(reason.starts_with("client does not support Lame Duck Mode"), "{reason}");
    assert!(said[1].get("error").is_none(), "{}", said[1]);
    // The answer may overtake the news.
    while !new.until_pong().await.iter().any(|line| line.starts_with("INFO") && line.contains("\"ldm\":true"))
    {
    }
    assert_eq!(old.until_pong().await, [""; 0], "both may stay");
}

#[tokio::test]
async fn the_system_account_is_told_what_an_account_shares() {
    let world = world(USERS, &[]).await;
    let mut system = system(&world).await;
    let (_a, _b) = (login(&world.server, "a").await, login(&world.server, "b").await);
    let info = &ask(&mut system, "ACCOUNT.B.INFO", "").await["data"];
    assert_eq!([&info["account_name"], &info["client_connections"]], [&json!("B"), &json!(1)]);
    assert_eq!(
        info["imports"],
        json!([{ "subject": "ask.one", "account": "A", "type": "service", "local_subject": "q", "to": "q",
            "invalid": false, "share": true, "tracking": false }])
    );
    let info = &ask(&mut system, "ACCOUNT.A.INFO", "").await["data"];
    assert_eq!(
        info["exports"],
        json!([
            { "subject": "news.>", "type": "stream" },
            { "subject": "ask.*", "type": "service", "approved_accounts": ["B"], "response_type": "Streamed" },
        ])
    );
    assert_eq!(ask(&mut system, "ACCOUNT.$SYS.INFO", "").await["data"]["is_system"], true);
    let said = ask(&mut system, "ACCOUNT.NONE.INFO", "").await;
    assert_eq!(said["error"], json!({ "code": 500, "description": "Account NONE does not exist" }));
    let counts = ask(&mut system, "ACCOUNT.A.CONNS", "").await;
    assert_eq!([&counts["acc"], &counts["conns"]], [&json!("A"), &json!(1)]);
    let statistics = &ask(&mut system, "ACCOUNT.A.STATZ", "").await["data"]["account_statz"];
    assert_eq!([&statistics[0]["acc"], &statistics[1]], [&json!("A"), &json!(null)]);
}

#[tokio::test]
async fn a_request_says_which_servers_it_is_for() {
    let world = world(USERS, &[]).await;
    let mut system = system(&world).await;
    let name = ask(&mut system, "SERVER.PING.IDZ", "").await["name"].as_str().unwrap().to_owned();
    let mut is_answered = async |options: serde_json::Value| {
        let body = options.to_string();
        system.send(&format!("PUB $SYS.REQ.SERVER.PING _INBOX.1 {}\r\n{body}\r\n", body.len())).await;
        loop {
            let said = system.until_pong().await;
            if let Some(line) = said.iter().find(|line| line.starts_with('{') || line.contains("503")) {
                break line.starts_with('{');
            }
        }
    };
    for (options, expected) in [
        (json!({}), true),
        (json!({ "server_name": name }), true),
        (json!({ "server_name": &name[1..] }), true),
        (json!({ "server_name": &name[1..], "exact_match": true }), false),
        (json!({ "server_name": "elsewhere" }), false),
        (json!({ "host": "192.0.2.1" }), false),
        (json!({ "cluster": "elsewhere" }), false),
        (json!({ "tags": ["x"] }), false),
        (json!({ "domain": "x" }), false),
    ] {
        assert_eq!(is_answered(options.clone()).await, expected, "{options}");
    }
    let said = ask(&mut system, "SERVER.PING.VARZ", "[1").await;
    assert_eq!(said["error"]["code"], 400, "{said}");
}

#[tokio::test]
async fn the_system_account_hears_how_many_connections_an_account_has() {
    let world = world(USERS, &[]).await;
    let mut system = login(&world.server, "sys").await;
    system.send("SUB $SYS.ACCOUNT.A.> 1\r\n").await;
    system.until_pong().await;
    let client = login(&world.server, "a").await;
    // One event of the connection, and one of their number.
    let said = heard(&mut system, 2).await;
    let is_count = |event: &Value| event["type"] == "io.nats.server.advisory.v1.account_connections";
    let (counts, events): (Vec<_>, Vec<_>) = said.into_iter().partition(is_count);
    let (event, count) = (&events[0], &counts[0]);
    assert_eq!(
        [&event["client"]["client_type"], &event["client"]["name_tag"], &event["server"]["flags"]],
        [&json!("nats"), &json!("A"), &json!(0)]
    );
    assert_eq!(count["conns"], 1);
    assert_ne!(count["server"]["seq"], event["server"]["seq"]);
    drop(client);
    let said = heard(&mut system, 2).await;
    let (counts, events): (Vec<_>, Vec<_>) = said.into_iter().partition(is_count);
    assert_eq!(events[0]["type"], "io.nats.server.advisory.v1.client_disconnect");
    assert_eq!(counts[0]["conns"], 0);
}

#[tokio::test]
async fn a_refused_client_is_named_as_it_named_itself_and_without_its_secret() {
    let world = world(USERS, &[]).await;
    let mut system = login(&world.server, "sys").await;
    system.send("SUB $SYS.SERVER.*.CLIENT.AUTH.ERR 1\r\n").await;
    system.until_pong().await;
    let mut thief =
        login_with(&world.server, "nobody", ",\"name\":\"thief\",\"pass\":\"guessed-secret\"").await;
    thief.until_end().await;
    let event = answer(&mut system).await;
    let client = &event["client"];
    assert_eq!(
        [&client["user"], &client["name"], &client["acc"]],
        [&json!("nobody"), &json!("thief"), &json!("$G")]
    );
    assert!(!event.to_string().contains("guessed-secret"));
}

#[tokio::test]
async fn a_user_of_the_file_may_have_the_kinds_of_connection_that_it_names() {
    let user = |name: &str, kinds: &str| {
        format!("[[users]]\nuser = \"{name}\"\npassword = \"p\"\nallowed_connection_types = [{kinds}]\n")
    };
    let users = user("tcp", "\"standard\"") + &user("web", "\"WEBSOCKET\", \"MQTT\"");
    let world = world(&format!("no_auth_user = \"web\"\n{users}"), &[]).await;
    drop(login(&world.server, "tcp").await);
    let refused = ["-ERR 'Authorization Violation'"];
    assert_eq!(login_with(&world.server, "web", "").await.until_end().await, refused);
    // Nor is it the guest, with a CONNECT and without.
    for first in ["CONNECT {}\r\nPING\r\n", "PING\r\n"] {
        let socket = tokio::net::TcpStream::connect(world.server.nats()).await.unwrap();
        let mut guest = crate::common::lines::Lines::over(socket);
        guest.info().await;
        guest.send(first).await;
        assert_eq!(guest.until_end().await, refused, "{first}");
    }
}

#[tokio::test]
async fn the_system_account_is_told_when_the_server_retires_and_when_it_stops() {
    let settings = [("tailrace.nats.lame.duck.duration.ms", "1"), ("tailrace.nats.lame.duck.grace.ms", "0")];
    for how in ["LAMEDUCK", "SHUTDOWN"] {
        let mut world = world(USERS, &settings).await;
        let mut listener = system(&world).await;
        let id = id_of(&mut listener).await;
        listener.send(&format!("SUB $SYS.SERVER.{id}.{how} 2\r\n")).await;
        listener.until_pong().await;
        match how {
            "LAMEDUCK" => world.server.lame_duck().await,
            _ => world.server.stop().await,
        }
        let said = listener.until_end().await;
        let subject = format!("MSG $SYS.SERVER.{id}.{how} 2 ");
        let at = said.iter().position(|line| line.starts_with(&subject));
        let body: Value = serde_json::from_str(&said[at.unwrap() + 1]).unwrap();
        assert_eq!(body["id"], *id, "{how}");
    }
}

#[tokio::test]
async fn the_numbers_of_the_server_are_published_regularly_and_on_request() {
    let world = world(USERS, &[]).await;
    let mut listener = system(&world).await;
    let id = id_of(&mut listener).await;
    listener.send(&format!("SUB $SYS.SERVER.{id}.STATSZ 2\r\n")).await;
    // The first ones come within seconds, without a request.
    let said = heard(&mut listener, 2).await;
    assert!(said.iter().all(|body| body["statsz"]["connections"] == 1), "{said:?}");
    // One without a reply subject is answered there. Others are no request then.
    listener.send("PUB $SYS.REQ.SERVER.PING.STATSZ 0\r\n\r\nPUB $SYS.REQ.SERVER.PING.VARZ 0\r\n\r\n").await;
    let said = heard(&mut listener, 1).await;
    assert_eq!(said[0]["server"]["id"], *id);
}

#[tokio::test]
async fn the_system_account_asks_for_health_and_counts_subscribers() {
    let world = world(USERS, &[]).await;
    let mut system = system(&world).await;
    let health = &ask(&mut system, "SERVER.PING.HEALTHZ", "").await["data"];
    assert_eq!(*health, json!({ "status": "ok", "status_code": 200 }));
    let health = &ask(&mut system, "SERVER.PING.HEALTHZ", r#"{"js-enabled-only":true}"#).await["data"];
    assert_eq!([&health["status"], &health["status_code"]], [&json!("unavailable"), &json!(503)]);
    let said = ask(&mut system, "ACCOUNT.A.JSZ", "").await;
    assert_eq!(said["error"], json!({ "code": 500, "description": "jetstream not enabled" }));
    let mut a = login(&world.server, "a").await;
    a.send("SUB x.y 1\r\nSUB x.* 2\r\nSUB x.> q 3\r\nSUB z 4\r\n").await;
    a.until_pong().await;
    for (body, count) in [
        (r#"{"acc":"A","subject":"x.y"}"#, 3),
        (r#"{"acc":"A","subject":"x.y","queue":"cQ=="}"#, 1),
        (r#"{"acc":"A","subject":"x.*"}"#, 2),
        (r#"{"acc":"A","subject":">"}"#, 4),
        (r#"{"acc":"A","subject":"none"}"#, 0),
    ] {
        let request = format!("PUB $SYS.REQ.ACCOUNT.NSUBS _INBOX.1 {}\r\n{body}\r\n", body.len());
        system.send(&request).await;
        let mut said = Vec::new();
        while said.len() < 2 {
            said.extend(system.until_pong().await);
        }
        assert_eq!(said[1], count.to_string(), "{body}: {said:?}");
    }
}
