//! NATS clients of three nodes in one process: which client receives which messages, once and in order, and
//! what clients learn of the other nodes.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use async_nats::{Client, HeaderMap, Subscriber};
use futures_util::StreamExt;
use tailrace_kafka_wire::messages::describe_quorum_request::{
    DescribeQuorumRequest, PartitionData, TopicData,
};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::common::TestServer;
use crate::common::nats::{Raw, Said};
use crate::common::rig::eventually;
use crate::crossing::{PATIENCE, next, settled};

/// Starts nodes 1 to N of one cluster.
pub(crate) async fn cluster(count: u32, more: &[(&str, &str)]) -> Vec<TestServer> {
    let mut nodes: Vec<TestServer> = Vec::new();
    let mut seed = String::new();
    for number in 1..=count {
        let id = number.to_string();
        let own = [("node.id", id.as_str()), ("cluster.listen", "127.0.0.1:0")];
        let seeds = [("tailrace.cluster.seeds", seed.as_str())];
        let seeds = if number == 1 { &[][..] } else { &seeds[..] };
        nodes.push(TestServer::with(&[&own, seeds, more].concat()).await);
        seed = nodes[0].cluster().to_string();
    }
    nodes
}

/// Returns once all nodes vote on the metadata. They are let in one after the other, and two voters that lose
/// one of them have no controller any more.
pub(crate) async fn all_vote(nodes: &[TestServer]) {
    let mut kafka = nodes[0].connect().await;
    let (topic_name, partitions) = ("__cluster_metadata".to_owned(), vec![PartitionData::default()]);
    let topics = vec![TopicData { topic_name, partitions, ..TopicData::default() }];
    let request = DescribeQuorumRequest { topics, ..DescribeQuorumRequest::default() };
    let voting = async {
        loop {
            let answer = kafka.call(2, &request).await;
            if answer.topics[0].partitions[0].current_voters.len() == nodes.len() {
                return;
            }
            // For the next step of the controller.
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, voting).await.expect("all nodes vote");
}

pub(crate) async fn client(node: &TestServer) -> Client {
    // Ignore advertised servers: each test knows which node it means.
    let options = async_nats::ConnectOptions::new().ignore_discovered_servers();
    options.connect(node.nats().to_string()).await.unwrap()
}

/// Connects one client to each node.
pub(crate) async fn clients(nodes: &[TestServer]) -> Vec<Client> {
    let mut clients = Vec::new();
    for node in nodes {
        clients.push(client(node).await);
    }
    clients
}

/// Returns once the node of `to` knows every subscription of `of`.
pub(crate) async fn known(of: &Client, to: &Client) {
    let subject = format!("known.{}", of.new_inbox());
    let mut probe = of.subscribe(subject.clone()).await.unwrap();
    settled(of).await;
    let heard = async {
        loop {
            to.publish(subject.clone(), "probe".into()).await.unwrap();
            let wait = tokio::time::timeout(Duration::from_millis(20), probe.next());
            if wait.await.is_ok() {
                return;
            }
        }
    };
    tokio::time::timeout(PATIENCE, heard).await.expect("the other node knows the subscription");
}

async fn subscribe(client: &Client, subject: &str) -> Subscriber {
    client.subscribe(subject.to_owned()).await.unwrap()
}

/// Returns the payloads received before the one that says END.
async fn texts(subscriber: &mut Subscriber) -> Vec<String> {
    let mut found = Vec::new();
    loop {
        let message = next(subscriber).await;
        match std::str::from_utf8(&message.payload).unwrap() {
            "END" => return found,
            text => found.push(text.to_owned()),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_reaches_every_subscriber_of_every_node_once_and_in_order() {
    let nodes = cluster(3, &[]).await;
    let clients = clients(&nodes).await;
    let mut subscribers = Vec::new();
    for client in &clients {
        // Several subscriptions match: one message crosses the link, and each subscription gets one delivery.
        for subject in ["orders.>", "orders.*.new", "orders.eu.new"] {
            subscribers.push(subscribe(client, subject).await);
        }
    }
    for to in &clients {
        for of in &clients {
            known(of, to).await;
        }
    }
    for (number, from) in clients.iter().enumerate() {
        for n in 0..200 {
            from.publish("orders.eu.new", format!("{number} {n}").into()).await.unwrap();
        }
        from.publish("orders.eu.new", "END".into()).await.unwrap();
        let expected: Vec<_> = (0..200).map(|n| format!("{number} {n}")).collect();
        for subscriber in &mut subscribers {
            assert_eq!(texts(subscriber).await, expected);
        }
    }
    // Each message crossed once to each of two nodes.
    for node in &nodes {
        let (_, metrics) = node.get("/metrics").await;
        assert_eq!(counted(&metrics, "nats_route_dropped_messages_total"), 0, "{metrics}");
        let messages = counted(&metrics, "nats_route_sent_messages_total");
        // Besides the 201 to each other node there are the probes.
        assert!((402..1_000).contains(&messages), "{messages}");
    }
}

/// Returns the value of a counter, summed over all its labels.
pub(crate) fn counted(metrics: &str, name: &str) -> u64 {
    let full = format!("tailrace_{name}");
    let of = |line: &str| {
        let (label, value) = line.rsplit_once(' ')?;
        (label.split('{').next() == Some(full.as_str())).then(|| value.parse::<u64>().ok())?
    };
    metrics.lines().filter_map(of).sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queue_groups_are_served_here_first_and_elsewhere_otherwise() {
    let nodes = cluster(3, &[]).await;
    let clients = clients(&nodes).await;
    let mut members = Vec::new();
    for client in &clients {
        members.push(client.queue_subscribe("jobs", "workers".to_owned()).await.unwrap());
    }
    let mut plain = subscribe(&clients[2], "jobs").await;
    for of in &clients {
        known(of, &clients[0]).await;
    }
    for n in 0..300 {
        clients[0].publish("jobs", n.to_string().into()).await.unwrap();
    }
    for n in 0..300 {
        assert_eq!(next(&mut members[0]).await.payload, n.to_string(), "the member beside the publisher");
        assert_eq!(
            next(&mut plain).await.payload,
            n.to_string(),
            "a plain subscriber gets each message as well"
        );
    }
    // Without the local member, each message goes to one of the others.
    let mut local = members.remove(0);
    local.unsubscribe().await.unwrap();
    settled(&clients[0]).await;
    for n in 300..600 {
        clients[0].publish("jobs", n.to_string().into()).await.unwrap();
    }
    let mut found = [BTreeSet::new(), BTreeSet::new()];
    while found[0].len() + found[1].len() < 300 {
        let (first, second) = members.split_at_mut(1);
        let (of, message) = tokio::select! {
            message = next(&mut first[0]) => (0, message),
            message = next(&mut second[0]) => (1, message),
        };
        let number: u32 = std::str::from_utf8(&message.payload).unwrap().parse().unwrap();
        assert!(number >= 300, "{number}: a remote member got a message although there was a local one");
        assert!(found[of].insert(number), "no member gets a message twice");
    }
    assert!(found[0].is_disjoint(&found[1]), "no two members get the same message");
    let shares = [found[0].len(), found[1].len()];
    assert!(shares.iter().all(|share| *share > 75), "both members get their share: {shares:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_group_is_served_by_all_nodes_until_its_last_member_leaves() {
    let nodes = cluster(3, &[]).await;
    let clients = clients(&nodes).await;
    for (number, here) in clients.iter().enumerate() {
        let (subject, group) = (format!("jobs.{number}"), "workers".to_owned());
        let mut leaves = here.queue_subscribe(subject.clone(), group.clone()).await.unwrap();
        let mut stays = here.queue_subscribe(subject.clone(), group).await.unwrap();
        leaves.unsubscribe().await.unwrap();
        settled(here).await;
        for to in &clients {
            known(here, to).await;
            to.publish(subject.clone(), "job".into()).await.unwrap();
            assert_eq!(next(&mut stays).await.payload, "job", "of node {}", number + 1);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_are_answered_from_another_node_at_once() {
    let nodes = cluster(3, &[]).await;
    let clients = clients(&nodes).await;
    let mut service = clients[2].queue_subscribe("add", "service".to_owned()).await.unwrap();
    let responder = clients[2].clone();
    tokio::spawn(async move {
        while let Some(request) = service.next().await {
            let reply = request.reply.unwrap();
            let mut headers = HeaderMap::new();
            headers.insert("From", "node 3");
            headers.append(
                "X",
                request.headers.and_then(|all| all.get("X").map(ToString::to_string)).unwrap_or_default(),
            );
            responder.publish_with_headers(reply, headers, request.payload).await.unwrap();
        }
    });
    known(&clients[2], &clients[0]).await;
    // Each request uses an inbox that no node has heard of before.
    for n in 0..50 {
        let requester = client(&nodes[0]).await;
        let mut headers = HeaderMap::new();
        headers.insert("X", "y");
        let answer = requester.request_with_headers("add", headers, n.to_string().into());
        let answer = tokio::time::timeout(PATIENCE, answer).await.unwrap().unwrap();
        assert_eq!(answer.payload, n.to_string());
        let headers = answer.headers.unwrap();
        assert_eq!(headers.get("From").map(ToString::to_string).as_deref(), Some("node 3"));
        assert_eq!(headers.get("X").map(ToString::to_string).as_deref(), Some("y"));
    }
    let nobody = clients[0].request("nobody", "".into()).await.unwrap_err();
    assert_eq!(nobody.kind(), async_nats::RequestErrorKind::NoResponders);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_learn_the_other_nodes_and_that_one_has_gone() {
    let mut nodes = cluster(2, &[("broker.session.timeout.ms", "1000")]).await;
    let mut raw = Raw::to(nodes[0].nats()).await;
    raw.send("CONNECT {\"verbose\":false,\"protocol\":1}\r\n").await;
    let third = [("node.id", "3"), ("cluster.listen", "127.0.0.1:0"), ("broker.session.timeout.ms", "1000")];
    let seed = nodes[0].cluster().to_string();
    raw.sync().await;
    let new = TestServer::with(&[&third[..], &[("tailrace.cluster.seeds", &seed)]].concat()).await;
    nodes.push(new);
    let all: Vec<_> = nodes.iter().map(|node| node.nats().to_string()).collect();
    let told = urls_until(&mut raw, |urls| urls.len() == 3).await;
    assert_eq!(told, all, "its own node first");
    // A client that does not support it gets nothing.
    let mut old = Raw::to(nodes[0].nats()).await;
    old.send("CONNECT {\"verbose\":false,\"protocol\":0}\r\n").await;
    old.sync().await;
    // The newest node. The others are a majority without it.
    nodes.remove(2).stop().await;
    let told = urls_until(&mut raw, |urls| urls.len() == 2).await;
    assert_eq!(told, all[..2]);
    assert_eq!(old.sync().await, []);
}

/// Reads INFOs until the addresses in one are as wanted.
async fn urls_until(raw: &mut Raw, wanted: impl Fn(&[String]) -> bool) -> Vec<String> {
    loop {
        match raw.next().await.expect("the connection is open") {
            Said::Info(json) => {
                let info: serde_json::Value = serde_json::from_str(&json).unwrap();
                let urls = info["connect_urls"].as_array().cloned().unwrap_or_default();
                let urls: Vec<_> = urls.iter().map(|url| url.as_str().unwrap().to_owned()).collect();
                if wanted(&urls) {
                    return urls;
                }
            }
            Said::Ping => raw.send("PONG\r\n").await,
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_may_be_told_under_another_name_or_not_at_all() {
    let one = TestServer::with(&[
        ("node.id", "1"),
        ("cluster.listen", "127.0.0.1:0"),
        ("tailrace.nats.advertised", "nats.example:4222"),
    ])
    .await;
    let seed = one.cluster().to_string();
    let hidden = [
        ("node.id", "2"),
        ("cluster.listen", "127.0.0.1:0"),
        ("tailrace.cluster.seeds", seed.as_str()),
        ("tailrace.nats.no.advertise", "true"),
    ];
    let two = TestServer::with(&hidden).await;
    let (mut of_one, mut of_two) = (Raw::to(one.nats()).await, Raw::to(two.nats()).await);
    for raw in [&mut of_one, &mut of_two] {
        raw.send("CONNECT {\"verbose\":false,\"protocol\":1}\r\nPING\r\n").await;
        assert_eq!(raw.next().await, Some(Said::Pong));
    }
    assert_eq!(urls_until(&mut of_one, |_| true).await, ["nats.example:4222"]);
    assert_eq!(urls_until(&mut of_two, |_| true).await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn permissions_are_asked_where_the_publisher_and_where_the_subscriber_is() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("users.toml");
    let users = r#"
        [[users]]
        user = "all"
        password = "p"

        [[users]]
        user = "some"
        password = "p"
        publish = { allow = ["open.>", "_INBOX.>"] }
        subscribe = { allow = [">"], deny = ["secret.>"] }
    "#;
    std::fs::write(&file, users).unwrap();
    let file = file.display().to_string();
    let nodes = cluster(2, &[("tailrace.nats.users.file", &file)]).await;
    let connect = async |node: &TestServer, user: &str| {
        let options = async_nats::ConnectOptions::with_user_and_password(user.to_owned(), "p".to_owned());
        options.ignore_discovered_servers().connect(node.nats().to_string()).await.unwrap()
    };
    let (all_1, some_1) = (connect(&nodes[0], "all").await, connect(&nodes[0], "some").await);
    let (all_2, some_2) = (connect(&nodes[1], "all").await, connect(&nodes[1], "some").await);
    let mut hears_all = subscribe(&all_2, "*.x").await;
    let mut hears_some = subscribe(&some_2, "*.x").await;
    known(&all_2, &all_1).await;
    settled_some(&some_2, &all_1).await;
    some_1.publish("closed.x", "not allowed".into()).await.unwrap();
    some_1.publish("open.x", "1".into()).await.unwrap();
    some_1.flush().await.unwrap();
    assert_eq!(next(&mut hears_all).await.payload, "1");
    assert_eq!(next(&mut hears_some).await.payload, "1");
    all_1.publish("secret.x", "2".into()).await.unwrap();
    all_1.publish("open.x", "3".into()).await.unwrap();
    assert_eq!(next(&mut hears_all).await.payload, "2");
    assert_eq!(next(&mut hears_all).await.payload, "3");
    assert_eq!(next(&mut hears_some).await.payload, "3", "it does not receive the secret");
}

/// Like [`known`], for a client that may not publish everything.
async fn settled_some(of: &Client, to: &Client) {
    let subject = format!("open.{}", of.new_inbox());
    let mut probe = of.subscribe(subject.clone()).await.unwrap();
    let heard = async {
        loop {
            to.publish(subject.clone(), "probe".into()).await.unwrap();
            if tokio::time::timeout(Duration::from_millis(20), probe.next()).await.is_ok() {
                return;
            }
        }
    };
    tokio::time::timeout(PATIENCE, heard).await.expect("the other node knows the subscription");
}

/// It still decides, by the users and rules that it knew.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_is_cut_off_from_the_controller_counts_the_seconds() {
    let mut nodes = cluster(3, &[]).await;
    let name = "tailrace_controller_silence_seconds";
    eventually("all hear the controller", || async {
        let mut silences = Vec::new();
        for node in &nodes {
            silences.push(node.metric(name).await);
        }
        silences == [0.0; 3]
    })
    .await;
    let left = nodes.swap_remove(2);
    for mut node in nodes {
        node.stop().await;
    }
    eventually("two of three are gone", || async { left.metric(name).await >= 3.0 }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn monitoring_shows_the_other_nodes() {
    let nodes = cluster(2, &[]).await;
    let clients = clients(&nodes).await;
    let _three = (
        subscribe(&clients[1], "a").await,
        subscribe(&clients[1], "a").await,
        subscribe(&clients[1], "b.*").await,
    );
    known(&clients[1], &clients[0]).await;
    let page = |path: &'static str| {
        let node = &nodes[0];
        async move { serde_json::from_str::<serde_json::Value>(&node.get(path).await.1).unwrap() }
    };
    let routes = page("/routez").await;
    assert_eq!((&routes["num_routes"], &routes["routes"][0]["rid"]), (&1.into(), &2.into()));
    assert!(routes["routes"][0]["subscriptions"].as_u64().unwrap() >= 2, "{routes}");
    assert!(routes["routes"][0]["out_msgs"].as_u64().unwrap() >= 1, "{routes}");
    let varz = page("/varz").await;
    assert_eq!((&varz["routes"], varz["connect_urls"].as_array().map(Vec::len)), (&1.into(), Some(2)));
    assert!(varz["cluster"]["name"].as_str().is_some_and(|name| !name.is_empty()), "{varz}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_interest_than_is_taken_is_counted_and_the_rest_goes_on() {
    let nodes = cluster(2, &[("tailrace.nats.cluster.interest.max", "100")]).await;
    let clients = clients(&nodes).await;
    let mut first = subscribe(&clients[1], "first").await;
    known(&clients[1], &clients[0]).await;
    let mut many = Vec::new();
    for n in 0..200 {
        many.push(subscribe(&clients[1], &format!("many.{n}")).await);
    }
    settled(&clients[1]).await;
    let counts = async || counted(&nodes[0].get("/metrics").await.1, "nats_route_interest_refused_total");
    let began = tokio::time::Instant::now();
    while counts().await < 100 {
        assert!(began.elapsed() < PATIENCE);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    clients[0].publish("first", "1".into()).await.unwrap();
    assert_eq!(next(&mut first).await.payload, "1");
    // There is room again once some subscriptions are gone.
    drop(many);
    settled(&clients[1]).await;
    let mut later = subscribe(&clients[1], "later").await;
    known(&clients[1], &clients[0]).await;
    clients[0].publish("later", "2".into()).await.unwrap();
    assert_eq!(next(&mut later).await.payload, "2");
}

/// A proxy in front of a node's cluster port, whose connections can be cut.
struct Proxy {
    address: SocketAddr,
    cut: watch::Sender<bool>,
}

impl Proxy {
    async fn before(target: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let cut = watch::Sender::new(false);
        let state = cut.subscribe();
        tokio::spawn(async move {
            while let Ok((mut socket, _)) = listener.accept().await {
                let mut state = state.clone();
                tokio::spawn(async move {
                    if *state.borrow() {
                        return;
                    }
                    let Ok(mut other) = TcpStream::connect(target).await else { return };
                    tokio::select! {
                        // The copy ends with the connection.
                        _ = tokio::io::copy_bidirectional(&mut socket, &mut other) => {}
                        _ = state.wait_for(|cut| *cut) => {}
                    }
                });
            }
        });
        Self { address, cut }
    }

    fn set_cut(&self, cut: bool) {
        self.cut.send_replace(cut);
    }
}

/// Starts nodes 1 to 3, each behind a proxy.
async fn three_behind_proxies() -> (Vec<TestServer>, Vec<Proxy>) {
    let (mut nodes, mut proxies): (Vec<TestServer>, Vec<Proxy>) = (Vec::new(), Vec::new());
    for number in 1..=3 {
        // The node's address must be known before it listens. Connections on this machine come from
        // 127.0.0.1, so none of them takes the port meanwhile.
        let free = std::net::TcpListener::bind("127.0.0.2:0").unwrap().local_addr().unwrap();
        let proxy = Proxy::before(free).await;
        let (id, listen, advertised) = (number.to_string(), free.to_string(), proxy.address.to_string());
        let own = [
            ("node.id", id.as_str()),
            ("cluster.listen", listen.as_str()),
            ("tailrace.cluster.advertised", advertised.as_str()),
        ];
        let seed = proxies.first().map(|first| first.address.to_string()).unwrap_or_default();
        let seeds = [("tailrace.cluster.seeds", seed.as_str())];
        let seeds = if number == 1 { &[][..] } else { &seeds[..] };
        nodes.push(TestServer::with(&[&own[..], seeds].concat()).await);
        proxies.push(proxy);
    }
    (nodes, proxies)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partition_of_the_network_heals_without_loops_or_duplicates() {
    let (nodes, proxies) = three_behind_proxies().await;
    let clients = clients(&nodes).await;
    let mut plain = Vec::new();
    for client in &clients {
        plain.push(subscribe(client, "news.>").await);
    }
    let gone = subscribe(&clients[1], "gone").await;
    for to in &clients {
        for of in &clients {
            known(of, to).await;
        }
    }
    for round in 0..3 {
        proxies.iter().for_each(|proxy| proxy.set_cut(true));
        wait_for_routes(&nodes, 0).await;
        // Each message is received only on its own node.
        for (number, client) in clients.iter().enumerate() {
            client.publish("news.cut", format!("{round} {number}").into()).await.unwrap();
        }
        for (number, subscriber) in plain.iter_mut().enumerate() {
            assert_eq!(next(subscriber).await.payload, format!("{round} {number}"));
        }
        let nobody = clients[0].request("gone", "".into()).await.unwrap_err();
        assert_eq!(nobody.kind(), async_nats::RequestErrorKind::NoResponders, "its node is down");
        proxies.iter().for_each(|proxy| proxy.set_cut(false));
        for to in &clients {
            for of in &clients {
                known(of, to).await;
            }
        }
        for (number, client) in clients.iter().enumerate() {
            for n in 0..50 {
                client.publish("news.whole", format!("{round} {number} {n}").into()).await.unwrap();
            }
            client.publish("news.whole", "END".into()).await.unwrap();
            let expected: Vec<_> = (0..50).map(|n| format!("{round} {number} {n}")).collect();
            for subscriber in &mut plain {
                assert_eq!(texts(subscriber).await, expected);
            }
        }
    }
    // Messages that come late, or twice, would arrive before this one, because they use the same links.
    for client in &clients {
        client.publish("news.last", "last".into()).await.unwrap();
    }
    for subscriber in &mut plain {
        for _ in &clients {
            assert_eq!(
                next(subscriber).await.subject.as_str(),
                "news.last",
                "a message arrived late or twice"
            );
        }
    }
    drop(gone);
}

/// Waits until every node sees this many others.
async fn wait_for_routes(nodes: &[TestServer], count: u64) {
    let began = tokio::time::Instant::now();
    for node in nodes {
        loop {
            let page: serde_json::Value = serde_json::from_str(&node.get("/routez").await.1).unwrap();
            if page["num_routes"] == count {
                break;
            }
            assert!(began.elapsed() < PATIENCE, "{page}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}
