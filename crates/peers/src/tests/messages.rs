//! Raft messages and announcements over links that come and go.

use super::super::frame::FrameKind;
use super::*;
use tailrace_env::{select, task};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_of_many_groups_arrive_in_order_on_each_of_three_links() {
    const COUNT: u64 = 2_000;
    let mut nodes = cluster(vec![Setup::new(1), Setup::new(2), Setup::new(3)]).await;
    for index in 0..COUNT {
        for from in &nodes {
            for to in nodes.iter().filter(|to| to.node != from.node) {
                let message = append(from.node.0, to.node.0, index, b"batch");
                let group = group(i32::try_from(index % 50).unwrap());
                assert!(from.peers.send(to.node, group, message));
            }
        }
    }
    for node in &mut nodes {
        let arrived = node.messages(2 * usize::try_from(COUNT).unwrap()).await;
        for other in [1, 2, 3].into_iter().filter(|other| NodeId(*other) != node.node) {
            let of_other: Vec<_> = arrived.iter().filter(|(from, ..)| *from == NodeId(other)).collect();
            assert_eq!(of_other.len(), usize::try_from(COUNT).unwrap());
            for (index, (_, found, message)) in (0..).zip(of_other) {
                assert_eq!(*found, group(i32::try_from(index % 50).unwrap()));
                assert_eq!(*message, append(other, node.node.0, index, b"batch"));
            }
        }
    }
    for node in nodes {
        node.stop().await;
    }
}

#[tokio::test]
async fn heartbeats_of_a_thousand_groups_are_one_frame_and_so_are_their_answers() {
    let (mut one, mut two) = pair().await;
    for number in 0..1_000 {
        assert!(one.peers.send(NodeId(2), group(number), heartbeat(1, 2, 9)));
    }
    let answer = Heartbeat { answer: true, ..heartbeat(2, 1, 9).heartbeat().unwrap() };
    for (number, (from, found, message)) in (0..).zip(two.messages(1_000).await) {
        assert_eq!((from, found, message), (NodeId(1), group(number), heartbeat(1, 2, 9)));
        assert!(two.peers.send(NodeId(1), group(number), answer.clone().into()));
    }
    for (number, (from, found, message)) in (0..).zip(one.messages(1_000).await) {
        assert_eq!((from, found, message), (NodeId(2), group(number), answer.clone().into()));
    }
    for node in [one, two] {
        assert_eq!(node.counts().frames_sent(FrameKind::Heartbeats), 1);
        assert_eq!(node.counts().frames_sent(FrameKind::Raft), 0);
        node.stop().await;
    }
}

#[tokio::test]
async fn small_messages_are_gathered_and_heartbeats_pass_large_ones() {
    let (one, mut two) = pair().await;
    for index in 0..500 {
        assert!(one.peers.send(NodeId(2), group(1), append(1, 2, index, &[1; 100])));
    }
    for index in 500..510 {
        assert!(one.peers.send(NodeId(2), group(1), append(1, 2, index, &[2; 300_000])));
    }
    assert!(one.peers.send(NodeId(2), group(2), heartbeat(1, 2, 9)));
    let arrived = two.messages(511).await;
    assert_eq!(arrived[0].2, heartbeat(1, 2, 9));
    assert_eq!(arrived[1].2, append(1, 2, 0, &[1; 100]));
    assert_eq!(arrived[510].2, append(1, 2, 509, &[2; 300_000]));
    // 500 small ones in one frame, each large one in a frame of its own.
    assert_eq!(one.counts().frames_sent(FrameKind::Raft), 11);
    one.stop().await;
    two.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_comes_back_when_the_other_end_has_started_again() {
    let (mut one, two) = pair().await;
    one.connected(2).await;
    let address = two.address.to_string();
    two.stop().await;
    one.disconnected(2).await;
    assert!(!one.peers.is_up(NodeId(2)));
    assert!(!one.peers.send(NodeId(2), group(1), heartbeat(1, 2, 1)));
    assert_eq!(one.counts().messages_dropped("down"), 1);
    let mut setup = Setup::new(2);
    setup.address = address;
    let mut two = setup.start().await;
    one.connected(2).await;
    assert!(one.peers.send(NodeId(2), group(1), append(1, 2, 77, b"again")));
    assert_eq!(two.messages(1).await[0].2, append(1, 2, 77, b"again"));
    one.stop().await;
    two.stop().await;
}

#[tokio::test]
async fn nodes_that_are_not_named_any_more_are_let_go_and_those_that_moved_are_followed() {
    let (mut one, two) = pair().await;
    one.connected(2).await;
    let moved = Setup::new(2).start().await;
    one.peers.set_nodes(vec![]);
    one.disconnected(2).await;
    assert!(!one.peers.is_up(NodeId(2)));
    two.stop().await;
    one.peers.set_nodes(vec![moved.as_peer(), moved.as_peer(), one.as_peer()]);
    one.connected(2).await;
    let again = Setup::new(2).start().await;
    moved.stop().await;
    one.disconnected(2).await;
    one.peers.set_nodes(vec![again.as_peer()]);
    one.connected(2).await;
    one.stop().await;
    again.stop().await;
}

#[tokio::test]
async fn a_full_queue_refuses_and_a_peer_that_takes_nothing_is_cut() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut setup = Setup::new(1);
    setup.options.queue_bytes_max = 4 << 20;
    setup.options.silence_max = Duration::from_millis(500);
    let mut one = setup.start().await;
    let address = listener.local_addr().unwrap().to_string();
    one.peers.set_nodes(vec![PeerNode { node: NodeId(2), address }]);
    let deaf = Raw::answer(&listener, 2).await;
    one.connected(2).await;
    let data = vec![0; 500_000];
    let mut sent = 0;
    while one.peers.send(NodeId(2), group(1), append(1, 2, sent, &data)) {
        sent += 1;
    }
    // The sender had no turn in between: what was accepted is what the queue holds.
    assert_eq!(sent, 8);
    assert_eq!(one.counts().messages_dropped("queue_full"), 1);
    one.disconnected(2).await;
    drop(deaf);
    let _again = Raw::answer(&listener, 2).await;
    one.connected(2).await;
    one.stop().await;
}

#[tokio::test]
async fn large_messages_arrive_and_larger_ones_than_a_frame_are_refused() {
    let mut setups = vec![Setup::new(1), Setup::new(2)];
    setups.iter_mut().for_each(|setup| setup.options.frame_bytes_max = 9 << 20);
    let mut nodes = cluster(setups).await;
    let data: Vec<u8> = (0..8 << 20).map(|at: u32| at.to_le_bytes()[1]).collect();
    let message = append(1, 2, 1, &data);
    assert!(nodes[0].peers.send(NodeId(2), group(1), message.clone()));
    assert_eq!(nodes[1].messages(1).await[0].2, message);
    let larger = append(1, 2, 1, &vec![0; 9 << 20]);
    assert!(!nodes[0].peers.send(NodeId(2), group(1), larger));
    assert_eq!(nodes[0].counts().messages_dropped("too_large"), 1);
    for node in nodes {
        node.stop().await;
    }
}

#[tokio::test]
async fn a_beat_reaches_all_nodes_once() {
    let mut nodes = cluster(vec![Setup::new(1), Setup::new(2), Setup::new(3)]).await;
    let beat = |event| match event {
        Event::Beat(from, lease) => Some((from.0, lease)),
        _ => None,
    };
    nodes[0].peers.beat(77);
    assert_eq!(nodes[1].wait_for(beat).await, (1, 77));
    assert_eq!(nodes[2].wait_for(beat).await, (1, 77));
    assert_eq!(nodes[0].counts().frames_sent(FrameKind::Beat), 2);
    for node in nodes {
        node.stop().await;
    }
}

#[tokio::test]
async fn announcements_reach_all_nodes_or_one() {
    let mut nodes = cluster(vec![Setup::new(1), Setup::new(2), Setup::new(3)]).await;
    let leading = |event| match event {
        Event::Leading(from, complete, groups) => Some((from.0, complete, groups)),
        _ => None,
    };
    let list: Vec<_> = (0..1_000).map(|number| (group(number), LeaderEpoch(number + 1))).collect();
    nodes[0].peers.send_leading(true, &list);
    nodes[0].peers.send_leading(false, &list[..1]);
    nodes[1].peers.send_leading_to(NodeId(3), true, &[]);
    assert_eq!(nodes[1].wait_for(leading).await, (1, true, list.clone()));
    assert_eq!(nodes[1].wait_for(leading).await, (1, false, list[..1].to_vec()));
    let mut at_third = Vec::new();
    for _ in 0..3 {
        at_third.push(nodes[2].wait_for(leading).await);
    }
    at_third.sort();
    let expected = vec![(1, false, list[..1].to_vec()), (1, true, list), (2, true, vec![])];
    assert_eq!(at_third, expected);
    for node in nodes {
        node.stop().await;
    }
}

#[tokio::test]
async fn an_idle_link_is_heard_at_both_ends_and_measured() {
    let mut one = Node::start(1).await;
    let mut two = Node::start(2).await;
    // Only one of the two dials.
    one.peers.set_nodes(vec![two.as_peer()]);
    for (node, other) in [(&mut one, 2), (&mut two, 1)] {
        for _ in 0..4 {
            node.wait_for(|event| {
                matches!(event, Event::Heard(NodeId(found)) if found == other).then_some(())
            })
            .await;
        }
    }
    let page = one.metrics.page().unwrap();
    assert!(page.contains("tailrace_peer_links 1\n"), "{page}");
    let count = page.lines().find_map(|line| line.strip_prefix("tailrace_peer_round_trip_seconds_count "));
    assert!(count.unwrap().parse::<u64>().unwrap() > 0, "{page}");
    assert!(two.metrics.page().unwrap().contains("tailrace_peer_connections 1\n"));
    one.stop().await;
    two.stop().await;
}

#[tokio::test]
async fn what_waits_is_sent_before_the_links_stop() {
    let (one, mut two) = pair().await;
    for index in 0..100 {
        assert!(one.peers.send(NodeId(2), group(1), append(1, 2, index, &[3; 10_000])));
    }
    one.stop().await;
    assert_eq!(two.messages(100).await.len(), 100);
    two.disconnected(1).await;
    two.stop().await;
}

/// Returns the number that [`append`] was given.
fn index_of(message: &PeerMessage) -> u64 {
    let mut bytes = BytesMut::new();
    message.encode(&mut bytes);
    u64::from_le_bytes(bytes[36..44].try_into().unwrap())
}

/// Passes connections on to `to`, and cuts each after some bytes.
async fn cutting_proxy(
    to: SocketAddr,
    cuts: Arc<std::sync::atomic::AtomicU64>,
) -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let proxy = task::spawn(async move {
        loop {
            let (mut near, _) = listener.accept().await.unwrap();
            let mut far = TcpStream::connect(to).await.unwrap();
            let mut left = 500 + random::u64() % 200_000;
            let (mut near_reader, mut near_writer) = near.split();
            let (mut far_reader, mut far_writer) = far.split();
            let there = async {
                let mut bytes = [0; 1000];
                while left > 0 {
                    let count = near_reader.read(&mut bytes).await.unwrap();
                    far_writer.write_all(&bytes[..count]).await.unwrap();
                    left = left.saturating_sub(count as u64);
                }
            };
            select! {
                () = there => {}
                _ = tokio::io::copy(&mut far_reader, &mut near_writer) => {}
            }
            cuts.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
    });
    (address, proxy)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cuts_lose_messages_and_neither_double_nor_reorder_them() {
    const CUTS: u64 = 30;
    let (one, mut two) = (Node::start(1).await, Node::start(2).await);
    let cuts = Arc::new(0.into());
    let (address, proxy) = cutting_proxy(two.address, Arc::clone(&cuts)).await;
    one.peers.set_nodes(vec![PeerNode { node: NodeId(2), address: address.to_string() }]);
    let (mut index, mut last) = (0, None);
    let mut check = |event| {
        if let Event::Raft(_, messages) = event {
            for (_, message) in messages {
                let index = index_of(&message);
                assert!(last < Some(index), "{last:?}, then {index}");
                last = Some(index);
            }
        }
    };
    while cuts.load(std::sync::atomic::Ordering::Relaxed) < CUTS {
        if one.peers.send(NodeId(2), group(1), append(1, 2, index, &[1; 700])) {
            index += 1;
        }
        task::yield_now().await;
        while let Ok(event) = two.events.try_recv() {
            check(event);
        }
    }
    assert!(last.is_some());
    proxy.abort();
    one.stop().await;
    two.stop().await;
}
