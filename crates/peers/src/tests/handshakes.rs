//! Which nodes are admitted, and what both ends report about those that are not.

use super::*;
use tailrace_env::task;

const LONG: Duration = Duration::from_secs(60);

async fn ask(from: &Node, to: &Node, kind: RequestKind) -> Result<(PeerIdentity, Bytes), PeerError> {
    from.peers.ask(&to.address.to_string(), kind, Bytes::from_static(b"?"), LONG).await
}

/// Lets `from` dial `to` and waits until both have counted `reason`.
async fn refused(from: &Node, to: &Node, reason: &'static str) {
    from.peers.set_nodes(vec![to.as_peer()]);
    until(|| from.counts().refusals("peer", reason) > 0 && to.counts().refusals("this_node", reason) > 0)
        .await;
    assert!(!from.peers.is_up(to.node));
}

async fn start(node: i32, change: impl FnOnce(&mut Setup)) -> Node {
    let mut setup = Setup::new(node);
    change(&mut setup);
    setup.start().await
}

#[tokio::test]
async fn another_cluster_is_refused() {
    let one = Node::start(1).await;
    let two = start(2, |setup| setup.cluster = Some("another")).await;
    refused(&one, &two, "other_cluster").await;
    let error = ask(&one, &two, RequestKind::Status).await.unwrap_err();
    let expected = Refusal::OtherCluster { theirs: "another".to_owned(), ours: CLUSTER.to_owned() };
    assert!(matches!(&error, PeerError::Refused { refusal, .. } if *refusal == expected), "{error:?}");
    let words = format!("{}: it belongs to cluster another, this node to {CLUSTER}", two.address);
    assert_eq!(error.to_string(), words);
    one.stop().await;
    two.stop().await;
}

#[tokio::test]
async fn levels_without_a_common_one_are_refused_and_others_meet_at_the_highest() {
    let old = start(1, |setup| setup.levels = 1..=1).await;
    let both = start(2, |setup| setup.levels = 1..=2).await;
    let new = start(3, |setup| setup.levels = 2..=2).await;
    for node in [&old, &both, &new] {
        node.peers.set_nodes(vec![old.as_peer(), both.as_peer(), new.as_peer()]);
    }
    for (from, to, level) in [(&old, &both, 1), (&both, &old, 1), (&new, &both, 2), (&both, &new, 2)] {
        until(|| from.peers.level(to.node) == Some(level)).await;
    }
    for (from, to) in [(&old, &new), (&new, &old)] {
        let counted = || {
            from.counts().refusals("peer", "levels") > 0 && to.counts().refusals("this_node", "levels") > 0
        };
        until(counted).await;
        assert_eq!(from.peers.level(to.node), None);
    }
    let error = ask(&old, &new, RequestKind::Status).await.unwrap_err();
    let expected = Refusal::Levels { theirs: 2..=2, ours: 1..=1 };
    assert!(matches!(&error, PeerError::Refused { refusal, .. } if *refusal == expected), "{error:?}");
    for node in [old, both, new] {
        node.stop().await;
    }
}

#[tokio::test]
async fn a_node_recognises_itself() {
    let one = Node::start(1).await;
    let error = ask(&one, &one, RequestKind::Status).await.unwrap_err();
    assert!(matches!(&error, PeerError::Refused { refusal: Refusal::Itself, .. }), "{error:?}");
    // Also where another node was expected.
    one.peers.set_nodes(vec![PeerNode { node: NodeId(2), address: one.address.to_string() }]);
    until(|| one.counts().refusals("peer", "itself") > 1).await;
    assert!(!one.peers.is_up(NodeId(2)));
    one.stop().await;
}

#[tokio::test]
async fn two_nodes_with_one_number_are_refused() {
    let (one, same) = (Node::start(1).await, Node::start(1).await);
    let error = ask(&one, &same, RequestKind::Join).await.unwrap_err();
    let expected = Refusal::SameNode(NodeId(1));
    assert!(matches!(&error, PeerError::Refused { refusal, .. } if *refusal == expected), "{error:?}");
    until(|| same.counts().refusals("this_node", "same_node") == 1).await;
    one.stop().await;
    same.stop().await;
}

#[tokio::test]
async fn a_second_node_with_a_number_is_refused_while_the_first_one_lives() {
    let mut setups = vec![Setup::new(1), Setup::new(2)];
    setups.iter_mut().for_each(|setup| setup.options.ping_interval = Duration::from_secs(1));
    let mut nodes = cluster(setups).await;
    let (two, one) = (nodes.pop().unwrap(), nodes.pop().unwrap());
    let second = Node::start(2).await;
    refused(&second, &one, "duplicate_node").await;
    assert!(one.peers.is_up(NodeId(2)));
    two.stop().await;
    until(|| second.peers.is_up(NodeId(1))).await;
    one.stop().await;
    second.stop().await;
}

#[tokio::test]
async fn another_instance_is_not_taken_for_the_node_that_has_dialled() {
    let one = start(1, |setup| setup.options.ping_interval = Duration::from_secs(1)).await;
    let (two, second) = (Node::start(2).await, Node::start(2).await);
    two.peers.set_nodes(vec![one.as_peer()]);
    until(|| two.peers.is_up(NodeId(1))).await;
    one.peers.set_nodes(vec![second.as_peer()]);
    until(|| one.counts().refusals("this_node", "duplicate_node") > 0).await;
    assert!(!one.peers.is_up(NodeId(2)));
    for node in [one, two, second] {
        node.stop().await;
    }
}

#[tokio::test]
async fn a_newer_connection_of_a_node_takes_the_place_of_the_older_one() {
    let one = Node::start(1).await;
    let mut first = Raw::link(&one, 2).await;
    let call = Greeting::call(&first.identity, Purpose::Link, Some(one.node)).encode();
    let mut second = TcpStream::connect(one.address).await.unwrap();
    second.write_all(&call).await.unwrap();
    let answer = Greeting::read(&mut second).await.unwrap();
    assert_eq!(
        answer.judge_answer(&first.identity, Purpose::Link, Some(one.node)),
        Ok(*crate::types::LEVELS.end())
    );
    first.closed().await;
    until(|| one.metrics.page().unwrap().contains("tailrace_peer_connections 1\n")).await;
    one.stop().await;
}

#[tokio::test]
async fn who_answers_for_another_node_is_refused() {
    let (one, two) = (Node::start(1).await, Node::start(2).await);
    one.peers.set_nodes(vec![PeerNode { node: NodeId(3), address: two.address.to_string() }]);
    until(|| one.counts().refusals("peer", "other_node") > 0).await;
    assert_eq!(one.peers.level(NodeId(3)), None);
    one.stop().await;
    two.stop().await;
}

#[tokio::test]
async fn a_node_without_a_cluster_may_ask_to_join_and_has_links_afterwards() {
    let (one, new) = (Node::start(1).await, start(2, |setup| setup.cluster = None).await);
    let (who, answer) = ask(&new, &one, RequestKind::Join).await.unwrap();
    assert_eq!((who.cluster_id.as_deref(), &answer[..]), (Some(CLUSTER), &b"Join of None: ?"[..]));
    let (who, answer) = ask(&one, &new, RequestKind::Status).await.unwrap();
    assert_eq!((who.cluster_id, &answer[..]), (None, &b"Status of None: ?"[..]));
    for (from, to) in [(&new, &one), (&one, &new)] {
        let error = ask(from, to, RequestKind::Ask).await.unwrap_err();
        assert!(matches!(error, PeerError::Answer(RequestError::NotServed)), "{error:?}");
        refused(from, to, "not_joined").await;
    }
    new.peers.set_cluster(CLUSTER);
    until(|| one.peers.is_up(NodeId(2)) && new.peers.is_up(NodeId(1))).await;
    one.stop().await;
    new.stop().await;
}

#[tokio::test]
async fn garbage_on_the_port_is_refused_at_once() {
    let one = Node::start(1).await;
    let garbage: [(&[u8], &str); 5] = [
        (b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n", "garbage"),
        (b"CONNECT {\"verbose\":false}\r\nPING\r\n", "garbage"),
        (b"\x00\x00\x00\x23\x00\x12\x00\x04\x00\x00\x00\x01\x00\x07client", "garbage"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "tls_on_plain"),
        (b"TRPEER\x01\x00\x01\x00\xff\xff", "garbage"),
    ];
    for (bytes, reason) in garbage {
        let before = one.counts().refusals("this_node", reason);
        let mut stream = TcpStream::connect(one.address).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        let mut answer = Vec::new();
        // Closing with bytes unread resets the connection. Either counts as an end.
        let _ = stream.read_to_end(&mut answer).await;
        assert_eq!(answer, b"");
        until(|| one.counts().refusals("this_node", reason) == before + 1).await;
    }
    one.stop().await;
}

#[tokio::test]
async fn what_is_no_node_is_recognised_by_who_dials_it() {
    let one = Node::start(1).await;
    for (answer, words) in [
        (&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], "it sends HTTP instead of a greeting"),
        (b"INFO {\"server_id\":\"a\"}\r\n", "it sends NATS instead of a greeting"),
        (b"\x15\x03\x03\x00\x02\x02\x46", "it sends a TLS alert instead of a greeting"),
        (b"", "it closed the connection within the handshake (it may demand TLS)"),
        (b"TRPEER\x01\x00\x01\x00\x02\x00ab", "its greeting is malformed: it is too short"),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let other = task::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            Greeting::read(&mut stream).await.unwrap();
            stream.write_all(answer).await.unwrap();
        });
        let error = one.peers.ask(&address, RequestKind::Status, Bytes::new(), LONG).await.unwrap_err();
        assert!(matches!(&error, PeerError::NoPeer { reason, .. } if reason == words), "{error:?}");
        other.await.unwrap();
    }
    assert_eq!(one.counts().refusals("this_node", "no_peer"), 5);
    one.stop().await;
}

#[tokio::test]
async fn strangers_are_few_and_have_to_be_quick() {
    let one = start(1, |setup| {
        setup.options.strangers_max = 2;
        setup.options.handshake_timeout = Duration::from_secs(2);
    })
    .await;
    let mut waiting = Vec::new();
    for _ in 0..2 {
        waiting.push(TcpStream::connect(one.address).await.unwrap());
    }
    until(|| one.metrics.page().unwrap().contains("tailrace_peer_strangers 2\n")).await;
    let mut third = TcpStream::connect(one.address).await.unwrap();
    assert_eq!(third.read(&mut [0; 8]).await.unwrap(), 0);
    assert_eq!(one.counts().refusals("this_node", "strangers_max"), 1);
    for mut stream in waiting {
        assert_eq!(stream.read(&mut [0; 8]).await.unwrap(), 0);
    }
    until(|| one.counts().refusals("this_node", "slow") == 2).await;
    // There is room again.
    let _link = Raw::link(&one, 2).await;
    one.stop().await;
}

#[tokio::test]
async fn members_are_bounded_in_number() {
    let one = start(1, |setup| setup.options.links_max = 1).await;
    let first = Raw::link(&one, 2).await;
    let (raw, answer) = Raw::call(&one, 3, Purpose::Link).await;
    let refused = answer.judge_answer(&raw.identity, Purpose::Link, Some(one.node));
    assert_eq!(refused, Err(Refusal::TooMany));
    drop(first);
    until(|| one.metrics.page().unwrap().contains("tailrace_peer_connections 0\n")).await;
    let _third = Raw::link(&one, 3).await;
    one.stop().await;
}
