//! The monitoring pages, as NATS tools read them.
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use crate::common::TestServer;
use crate::common::rig::eventually;
use futures_util::StreamExt;
use serde_json::Value;
use tokio::io::AsyncReadExt as _;

async fn page(server: &TestServer, path: &str) -> Value {
    let (status, body) = server.get(path).await;
    assert_eq!(status, 200, "{path}: {body}");
    serde_json::from_str(&body).unwrap()
}

/// Returns the names of the connections on a page.
fn names(page: &Value) -> Vec<&str> {
    let connections = page["connections"].as_array().unwrap();
    connections.iter().map(|connection| connection["name"].as_str().unwrap()).collect()
}

async fn named(server: &TestServer, name: &str) -> async_nats::Client {
    let options = async_nats::ConnectOptions::new().name(name);
    options.connect(format!("nats://{}", server.nats())).await.unwrap()
}

#[tokio::test]
async fn varz_counts_messages_both_ways() {
    let server = TestServer::start().await;
    let (publisher, subscriber) = (named(&server, "p").await, named(&server, "s").await);
    let mut messages = subscriber.subscribe("a.>").await.unwrap();
    subscriber.flush().await.unwrap();
    for _ in 0..10 {
        publisher.publish("a.b", "12345".into()).await.unwrap();
    }
    publisher.publish("nobody", "12345".into()).await.unwrap();
    publisher.flush().await.unwrap();
    for _ in 0..10 {
        messages.next().await.unwrap();
    }
    let varz = page(&server, "/varz").await;
    for (field, expected) in [
        ("in_msgs", 11),
        ("in_bytes", 55),
        ("out_msgs", 10),
        ("out_bytes", 50),
        ("connections", 2),
        ("total_connections", 2),
        ("subscriptions", 1),
        ("slow_consumers", 0),
        ("max_payload", 1_048_576),
        ("ping_interval", 120_000_000_000_i64),
        ("write_deadline", 10_000_000_000_i64),
    ] {
        assert_eq!(varz[field], expected, "{field}");
    }
    assert_eq!(varz["port"], server.nats().port());
    assert!(varz["server_id"].as_str().unwrap().starts_with('N'));
    assert!(varz["mem"].as_u64().unwrap() > 0);
    assert_eq!(varz["jetstream"], serde_json::json!({}));
    for path in ["/", "/healthz", "/healthz", "/stacksz", "/ipqueuesz", "/metrics"] {
        assert_eq!(server.get(path).await.0, 200, "{path}");
    }
    let varz = page(&server, "/varz").await;
    assert_eq!(varz["http_req_stats"], serde_json::json!({ "/": 1, "/healthz": 2, "/varz": 2 }));
    assert_eq!(varz["feature_flags"]["js_ack_fc_v2"], false);
}

#[tokio::test]
async fn threads_stand_in_for_stacks_and_there_are_no_queues_between_parts() {
    let server = TestServer::start().await;
    let (status, threads) = server.get("/stacksz").await;
    assert_eq!(status, 200);
    let is_line = |line: &str| line.starts_with("thread ") && line.contains("]: ");
    assert!(threads.lines().count() > 1 && threads.lines().all(is_line), "{threads}");
    assert_eq!(page(&server, "/ipqueuesz?all=1").await, serde_json::json!({}));
    assert_eq!(server.get("/ipqueuesz?all=x").await.0, 400);
}

#[tokio::test]
async fn connz_describes_sorts_and_pages() {
    let server = TestServer::start().await;
    let one = named(&server, "one").await;
    let two = named(&server, "two").await;
    let three = named(&server, "three").await;
    let mut messages = two.subscribe("a.*").await.unwrap();
    let _queue = two.queue_subscribe("q", "group".to_owned()).await.unwrap();
    let _more = three.subscribe("b").await.unwrap();
    for client in [&two, &three] {
        client.flush().await.unwrap();
    }
    one.publish("a.b", "0123456789".into()).await.unwrap();
    one.publish("b", "1".into()).await.unwrap();
    one.publish("a.c", "2".into()).await.unwrap();
    one.flush().await.unwrap();
    messages.next().await.unwrap();
    messages.next().await.unwrap();
    let all = page(&server, "/connz").await;
    assert_eq!(names(&all), ["one", "two", "three"]);
    assert_eq!((&all["num_connections"], &all["total"], &all["limit"]), (&3.into(), &3.into(), &1024.into()));
    let (first, second) = (&all["connections"][0], &all["connections"][1]);
    assert_eq!(
        (&first["in_msgs"], &first["in_bytes"], &first["out_msgs"]),
        (&3.into(), &12.into(), &0.into())
    );
    assert_eq!((&second["out_msgs"], &second["out_bytes"]), (&2.into(), &11.into()));
    assert_eq!((&second["subscriptions"], &second["lang"]), (&2.into(), &"rust".into()));
    assert_eq!(
        (&second["kind"], &second["type"], &second["ip"]),
        (&"Client".into(), &"nats".into(), &"127.0.0.1".into())
    );
    for (sort, expected) in [
        ("cid", ["one", "two", "three"]),
        ("start", ["one", "two", "three"]),
        ("subs", ["two", "three", "one"]),
        ("msgs_to", ["two", "three", "one"]),
        ("bytes_to", ["two", "three", "one"]),
        ("msgs_from", ["one", "two", "three"]),
        ("bytes_from", ["one", "two", "three"]),
        ("uptime", ["three", "two", "one"]),
    ] {
        assert_eq!(names(&page(&server, &format!("/connz?sort={sort}")).await), expected, "{sort}");
    }
    let part = page(&server, "/connz?offset=1&limit=1").await;
    assert_eq!(names(&part), ["two"]);
    assert_eq!((&part["total"], &part["offset"], &part["limit"]), (&3.into(), &1.into(), &1.into()));
    let cid = second["cid"].as_u64().unwrap();
    let only = page(&server, &format!("/connz?cid={cid}&subs=detail")).await;
    assert_eq!(names(&only), ["two"]);
    let subscriptions = &only["connections"][0]["subscriptions_list_detail"];
    assert_eq!((&subscriptions[0]["subject"], &subscriptions[0]["msgs"]), (&"a.*".into(), &2.into()));
    assert_eq!((&subscriptions[1]["subject"], &subscriptions[1]["qgroup"]), (&"q".into(), &"group".into()));
    let listed = page(&server, "/connz?subs=1&sort=subs&limit=1").await;
    let list = &listed["connections"][0]["subscriptions_list"];
    assert_eq!(*list, serde_json::json!(["a.*", "q"]));
    assert_eq!(names(&page(&server, "/connz?acc=other").await), Vec::<&str>::new());
}

#[tokio::test]
async fn the_round_trip_is_measured_once_somebody_looks() {
    let server = TestServer::start().await;
    let client = named(&server, "one").await;
    client.flush().await.unwrap();
    eventually("a round trip is shown", || async {
        page(&server, "/connz").await["connections"][0]["rtt"].is_string()
    })
    .await;
}

#[tokio::test]
async fn closed_connections_are_remembered_with_their_reason() {
    let server = TestServer::with(&[("tailrace.nats.max.payload.bytes", "1024")]).await;
    let staying = named(&server, "stays").await;
    staying.flush().await.unwrap();
    let leaving = named(&server, "leaves").await;
    leaving.flush().await.unwrap();
    drop(leaving);
    let mut bad = tokio::net::TcpStream::connect(server.nats()).await.unwrap();
    tokio::io::AsyncWriteExt::write_all(&mut bad, b"PUB x 2000\r\n").await.unwrap();
    eventually("two connections end", || async { page(&server, "/connz?state=closed").await["total"] == 2 })
        .await;
    let closed = page(&server, "/connz?state=closed&sort=reason").await;
    let reasons: Vec<&str> =
        closed["connections"].as_array().unwrap().iter().map(|c| c["reason"].as_str().unwrap()).collect();
    assert_eq!(reasons, ["Client Closed", "Maximum Message Payload Exceeded"]);
    assert!(closed["connections"][0]["stop"].is_string());
    assert_eq!(page(&server, "/connz?state=any").await["total"], 3);
    assert_eq!(names(&page(&server, "/connz").await), ["stays"]);
}

#[tokio::test]
async fn users_are_named_on_request_and_secrets_never() {
    let settings = [("tailrace.nats.user", "alice"), ("tailrace.nats.password", "very-secret")];
    let server = TestServer::with(&settings).await;
    let options =
        async_nats::ConnectOptions::with_user_and_password("alice".to_owned(), "very-secret".to_owned());
    let client = options.connect(format!("nats://{}", server.nats())).await.unwrap();
    client.flush().await.unwrap();
    let connection = &page(&server, "/connz?auth=1").await["connections"][0];
    assert_eq!((&connection["authorized_user"], &connection["account"]), (&"alice".into(), &"$G".into()));
    assert!(page(&server, "/connz").await["connections"][0].get("authorized_user").is_none());
    assert_eq!(page(&server, "/connz?user=alice").await["num_connections"], 1);
    assert_eq!(page(&server, "/connz?user=bob").await["num_connections"], 0);
    assert_eq!(page(&server, "/varz").await["auth_required"], true);
    for path in ["/varz", "/connz?auth=1&subs=detail", "/subsz?subs=1", "/accountz?acc=$G", "/metrics"] {
        assert!(!server.get(path).await.1.contains("very-secret"), "{path}");
    }
}

#[tokio::test]
async fn subsz_counts_lists_and_tests_subjects() {
    let server = TestServer::start().await;
    let client = named(&server, "one").await;
    let mut kept = Vec::new();
    for number in 0..25 {
        kept.push(client.subscribe(format!("s.{number:02}.>")).await.unwrap());
    }
    kept.push(client.subscribe("s.*.x").await.unwrap());
    client.flush().await.unwrap();
    let counts = page(&server, "/subsz").await;
    assert_eq!((&counts["num_subscriptions"], &counts["num_inserts"]), (&26.into(), &26.into()));
    assert_eq!((&counts["total"], counts.get("subscriptions_list")), (&0.into(), None));
    let mut subjects = Vec::new();
    for offset in [0, 10, 20, 30] {
        let part = page(&server, &format!("/subsz?subs=1&limit=10&offset={offset}")).await;
        assert_eq!(part["total"], 26);
        // As in nats-server, an empty list is left out.
        let list = part["subscriptions_list"].as_array().cloned().unwrap_or_default();
        subjects.extend(list.into_iter().map(|entry| entry["subject"].as_str().unwrap().to_owned()));
    }
    assert_eq!(subjects.len(), 26);
    assert_eq!((subjects[0].as_str(), subjects[25].as_str()), ("s.00.>", "s.*.x"));
    let hit = page(&server, "/subsz?subs=1&test=s.07.x").await;
    let found: Vec<&str> = hit["subscriptions_list"]
        .as_array()
        .unwrap()
        .iter()
        .map(|s| s["subject"].as_str().unwrap())
        .collect();
    assert_eq!((hit["total"].as_u64(), found), (Some(2), vec!["s.07.>", "s.*.x"]));
    assert_eq!(page(&server, "/subsz?subs=1&test=t").await["total"], 0);
    drop(kept);
    client.flush().await.unwrap();
    eventually("the subscriptions end", || async {
        let counts = page(&server, "/subsz").await;
        counts["num_subscriptions"] == 0 && counts["num_removes"] == 26
    })
    .await;
}

/// A client that holds all connections, and reopens each as soon as it is lost, does not keep probes out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_connections_make_way_for_probes() {
    let server = TestServer::start().await;
    let address = server.http();
    let mut silent = Vec::new();
    for _ in 0..64 {
        silent.push(tokio::net::TcpStream::connect(address).await.unwrap());
    }
    let mut holders = tokio::task::JoinSet::new();
    for mut stream in silent {
        holders.spawn(async move {
            loop {
                // This returns when the server closes the connection.
                let _ = stream.read_to_end(&mut Vec::new()).await;
                // The pace at which the client reconnects. A probe that was let in has 64 times as long to
                // send its request.
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
                stream = tokio::net::TcpStream::connect(address).await.unwrap();
            }
        });
    }
    for _ in 0..50 {
        let answered = tokio::time::timeout(std::time::Duration::from_secs(1), server.get("/healthz")).await;
        assert_eq!(answered.unwrap().0, 200);
    }
    assert!(holders.try_join_next().is_none(), "the connections still exist");
}

#[tokio::test]
async fn what_there_is_not_is_well_formed_and_healthz_takes_nats_options() {
    let server = TestServer::start().await;
    for (path, field, expected) in [
        ("/routez", "num_routes", serde_json::json!(0)),
        ("/routez?subs=detail", "routes", serde_json::json!([])),
        ("/gatewayz", "outbound_gateways", serde_json::json!({})),
        ("/leafz", "leafs", serde_json::json!([])),
        ("/accountz", "accounts", serde_json::json!(["$G"])),
        ("/jsz?accounts=1&streams=true", "disabled", serde_json::json!(true)),
        ("/healthz?js-enabled-only=true", "status", serde_json::json!("ok")),
        ("/healthz?js-server-only=1&details=1", "status", serde_json::json!("ok")),
    ] {
        assert_eq!(page(&server, path).await[field], expected, "{path}");
    }
    assert!(server.get("/").await.1.contains("href=\"/connz\""));
    assert_eq!(server.get("/nothing").await.0, 404);
}

#[tokio::test]
async fn bad_queries_are_refused_in_the_words_of_nats_server() {
    let server = TestServer::start().await;
    for (path, reason) in [
        ("/connz?sort=bogus", "invalid sorting option: bogus"),
        ("/connz?sort=stop", "sort by stop only valid on closed connections"),
        ("/connz?state=foo", "Error decoding state for foo"),
        ("/connz?limit=x", r#"Error decoding int for 'limit': strconv.Atoi: parsing "x": invalid syntax"#),
        (
            "/connz?cid=x",
            r#"Error decoding uint64 for 'cid': strconv.ParseUint: parsing "x": invalid syntax"#,
        ),
        (
            "/subsz?subs=maybe",
            r#"Error decoding boolean for 'subs': strconv.ParseBool: parsing "maybe": invalid syntax"#,
        ),
        ("/subsz?test=a..b", "invalid test subject, must be valid publish subject: a..b"),
        ("/accountz?acc=x", "Account x does not exist"),
    ] {
        assert_eq!(server.get(path).await, (400, reason.to_owned()), "{path}");
    }
    // Values that are merely too large or too small are clamped.
    for path in
        ["/connz?limit=99999999999&offset=99999999999", "/connz?limit=-1&offset=-1", "/subsz?subs=1&offset=9"]
    {
        page(&server, path).await;
    }
}

#[tokio::test]
async fn metrics_count_and_all_of_them_are_documented() {
    let server = TestServer::start().await;
    let (publisher, subscriber) = (named(&server, "p").await, named(&server, "s").await);
    let mut messages = subscriber.subscribe("a.>").await.unwrap();
    subscriber.flush().await.unwrap();
    for _ in 0..50 {
        publisher.publish("a.b", "12345".into()).await.unwrap();
    }
    publisher.flush().await.unwrap();
    for _ in 0..50 {
        messages.next().await.unwrap();
    }
    for (name, expected) in [
        ("tailrace_nats_connections", 2.0),
        ("tailrace_nats_connections_accepted_total", 2.0),
        ("tailrace_nats_subscriptions", 1.0),
        ("tailrace_nats_received_messages_total", 50.0),
        ("tailrace_nats_received_bytes_total", 250.0),
        ("tailrace_nats_sent_messages_total", 50.0),
        ("tailrace_nats_sent_bytes_total", 250.0),
        ("tailrace_nats_matcher_lookups_total", 50.0),
        ("tailrace_nats_pending_bytes", 0.0),
    ] {
        assert_eq!(server.metric(name).await, expected, "{name}");
    }
    assert!(server.metric("tailrace_nats_matcher_cache_hits_total").await > 40.0);
    assert!(server.metric("tailrace_nats_response_seconds_count").await > 0.0);
    let manual = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operations.md");
    let manual = std::fs::read_to_string(manual).unwrap();
    let (_, page) = server.get("/metrics").await;
    let named = page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
    let missing: Vec<&str> = named.filter(|name| !is_documented(&manual, name)).collect();
    assert!(missing.is_empty(), "docs/operations.md needs rows for {missing:?}");
}

/// Reports whether the manual contains the name as a whole.
fn is_documented(manual: &str, name: &str) -> bool {
    ["`", "{"].iter().any(|end| manual.contains(&format!("`{name}{end}")))
}
