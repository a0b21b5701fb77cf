//! Requests and their answers.

use tailrace_env::sync::Notify;
use tailrace_env::{task, time};

use super::*;

const LONG: Duration = Duration::from_secs(60);

/// Starts a pair of nodes, of which the second answers with `handler`.
async fn pair_with(
    handler: impl Fn(Option<NodeId>, RequestKind, Bytes) -> Answer + Send + Sync + 'static,
    change: impl Fn(&mut PeerOptions),
) -> (Node, Node) {
    let mut setups = vec![Setup::new(1), Setup::new(2).handler(handler)];
    setups.iter_mut().for_each(|setup| change(&mut setup.options));
    let mut nodes = cluster(setups).await;
    let second = nodes.pop().unwrap();
    (nodes.pop().unwrap(), second)
}

#[tokio::test]
async fn answers_come_in_any_order() {
    let gate = Arc::new(Notify::new());
    let opened = Arc::clone(&gate);
    let handler = move |_, _, body: Bytes| {
        let gate = Arc::clone(&opened);
        Box::pin(async move {
            match &body[..] {
                b"slow" => gate.notified().await,
                _ => gate.notify_one(),
            }
            Ok(body)
        }) as Answer
    };
    let (one, two) = pair_with(handler, |_| {}).await;
    let ask = |body: &'static [u8]| {
        let peers = one.peers.clone();
        async move { peers.request(NodeId(2), RequestKind::Ask, Bytes::from_static(body), LONG).await }
    };
    let slow = task::spawn(ask(b"slow"));
    until(|| one.counts().frames_sent(super::super::frame::FrameKind::Request) == 1).await;
    // The slow one is answered only because the fast one, which was asked later, was served.
    assert_eq!(ask(b"fast").await.unwrap(), "fast");
    assert_eq!(slow.await.unwrap().unwrap(), "slow");
    one.stop().await;
    two.stop().await;
}

#[tokio::test]
async fn large_requests_and_answers_arrive() {
    let handler = |_, _, body: Bytes| Box::pin(std::future::ready(Ok(body))) as Answer;
    let (one, two) = pair_with(handler, |options| options.frame_bytes_max = 21 << 20).await;
    let body: Bytes = (0..20 << 20).map(|at: u32| at.to_le_bytes()[2]).collect::<Vec<u8>>().into();
    let answer = one.peers.request(NodeId(2), RequestKind::Chunk, body.clone(), LONG).await.unwrap();
    assert!(answer == body);
    let too_large = Bytes::from(vec![0; 21 << 20]);
    let refused = one.peers.request(NodeId(2), RequestKind::Chunk, too_large, LONG).await;
    assert!(
        matches!(refused, Err(PeerError::TooLarge { bytes: 22_020_110, max: 22_020_096 })),
        "{refused:?}"
    );
    one.stop().await;
    two.stop().await;
}

#[tokio::test]
async fn a_body_that_takes_longer_than_silence_is_allowed_does_not_end_its_link() {
    let handler = |_, _, body: Bytes| Box::pin(std::future::ready(Ok(body.slice(..1)))) as Answer;
    let slow = |options: &mut PeerOptions| options.silence_max = Duration::from_secs(1);
    let (mut one, two) = pair_with(handler, slow).await;
    let address = slow_proxy(two.address).await;
    one.peers.set_nodes(vec![PeerNode { node: NodeId(2), address: address.to_string() }]);
    one.disconnected(2).await;
    one.connected(2).await;
    let body = Bytes::from(vec![9; 12 << 20]);
    let began = Instant::now();
    one.peers.request(NodeId(2), RequestKind::Chunk, body, LONG).await.unwrap();
    assert!(began.elapsed() > Duration::from_secs(2), "the proxy was not slow");
    assert_eq!(one.counts().cuts("silent"), 0);
    one.stop().await;
    two.stop().await;
}

/// Passes one connection on to `to`, at 4 MB/s there and unlimited back.
async fn slow_proxy(to: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    task::spawn(async move {
        let (near, _) = listener.accept().await.unwrap();
        let (mut near_reader, mut near_writer) = near.into_split();
        let (mut far_reader, mut far_writer) = TcpStream::connect(to).await.unwrap().into_split();
        task::spawn(async move { tokio::io::copy(&mut far_reader, &mut near_writer).await });
        let mut bytes = vec![0; 200_000];
        while let Ok(count @ 1..) = near_reader.read(&mut bytes).await {
            far_writer.write_all(&bytes[..count]).await.unwrap();
            // Like a link of 4 MB/s.
            time::sleep(Duration::from_secs_f64(count as f64 / 4e6)).await;
        }
    });
    address
}

/// Notifies when it is dropped.
struct Dropped(Arc<Notify>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_ask_at_once_and_each_gets_its_own_answer() {
    let handler = |_, _, body: Bytes| {
        Box::pin(async move {
            task::yield_now().await;
            Ok(body)
        }) as Answer
    };
    let (one, two) = pair_with(handler, |_| {}).await;
    let askers: Vec<_> = (0..200_u32)
        .map(|asker| {
            let peers = one.peers.clone();
            task::spawn(async move {
                for round in 0..20_u32 {
                    let body = Bytes::from(format!("{asker} {round} ").repeat(1 + round as usize * 10));
                    let answer = peers.request(NodeId(2), RequestKind::Ask, body.clone(), LONG).await;
                    assert_eq!(answer.unwrap(), body);
                }
            })
        })
        .collect();
    for asker in askers {
        asker.await.unwrap();
    }
    one.stop().await;
    two.stop().await;
}

#[tokio::test]
async fn a_request_that_is_late_or_given_up_is_given_up_at_the_other_end() {
    let (began, dropped) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (begins, drops) = (Arc::clone(&began), Arc::clone(&dropped));
    let handler = move |_, _, _| {
        let dropped = Dropped(Arc::clone(&drops));
        begins.notify_one();
        Box::pin(async move {
            let _dropped = dropped;
            std::future::pending().await
        }) as Answer
    };
    let (one, two) = pair_with(handler, |_| {}).await;
    let late = one.peers.request(NodeId(2), RequestKind::Ask, Bytes::new(), Duration::from_millis(50)).await;
    assert!(matches!(late, Err(PeerError::TimedOut(_))), "{late:?}");
    dropped.notified().await;
    began.notified().await;
    let peers = one.peers.clone();
    let given_up = task::spawn(async move {
        peers.request(NodeId(2), RequestKind::Ask, Bytes::new(), LONG).await.unwrap_err()
    });
    began.notified().await;
    given_up.abort();
    dropped.notified().await;
    one.stop().await;
    two.stop().await;
}

#[tokio::test]
async fn a_request_under_way_fails_with_its_connection() {
    let began = Arc::new(Notify::new());
    let begins = Arc::clone(&began);
    let handler = move |_, _, _| {
        begins.notify_one();
        Box::pin(std::future::pending()) as Answer
    };
    let (one, two) = pair_with(handler, |_| {}).await;
    let peers = one.peers.clone();
    let asked =
        task::spawn(async move { peers.request(NodeId(2), RequestKind::Ask, Bytes::new(), LONG).await });
    began.notified().await;
    two.stop().await;
    let failed = asked.await.unwrap();
    assert!(matches!(failed, Err(PeerError::Disconnected(_))), "{failed:?}");
    let down = one.peers.request(NodeId(2), RequestKind::Ask, Bytes::new(), LONG).await;
    assert!(matches!(down, Err(PeerError::NotConnected(NodeId(2)))), "{down:?}");
    let unknown = one.peers.request(NodeId(9), RequestKind::Ask, Bytes::new(), LONG).await;
    assert!(matches!(unknown, Err(PeerError::NotConnected(NodeId(9)))), "{unknown:?}");
    one.stop().await;
}

#[tokio::test]
async fn what_the_other_node_says_instead_of_an_answer_arrives() {
    let handler = |_, kind, _| {
        let outcome = match kind {
            RequestKind::Join => Err(RequestError::Busy),
            RequestKind::Ask => Err(RequestError::Stopping),
            RequestKind::Chunk => Err(RequestError::Failed("no such snapshot".to_owned())),
            RequestKind::Append => Err(RequestError::Failed("ä".repeat(1_000))),
            RequestKind::Status | RequestKind::Judge => Err(RequestError::NotServed),
        };
        Box::pin(std::future::ready(outcome)) as Answer
    };
    let (one, two) = pair_with(handler, |_| {}).await;
    let answer = async |kind| match one.peers.request(NodeId(2), kind, Bytes::new(), LONG).await {
        Err(PeerError::Answer(error)) => error,
        other => panic!("{other:?}"),
    };
    assert_eq!(answer(RequestKind::Join).await, RequestError::Busy);
    assert_eq!(answer(RequestKind::Status).await, RequestError::NotServed);
    assert_eq!(answer(RequestKind::Ask).await, RequestError::Stopping);
    assert_eq!(answer(RequestKind::Chunk).await, RequestError::Failed("no such snapshot".to_owned()));
    assert_eq!(answer(RequestKind::Append).await, RequestError::Failed("ä".repeat(512)));
    one.stop().await;
    two.stop().await;
}

#[tokio::test]
async fn a_handler_that_panics_fails_its_own_request_only() {
    let handler = |_, kind, body: Bytes| {
        Box::pin(async move {
            assert_ne!(kind, RequestKind::Chunk, "a bug");
            Ok(body)
        }) as Answer
    };
    let (one, two) = pair_with(handler, |_| {}).await;
    let failed = one.peers.request(NodeId(2), RequestKind::Chunk, Bytes::new(), LONG).await;
    assert!(matches!(failed, Err(PeerError::Answer(RequestError::Failed(_)))), "{failed:?}");
    let body = Bytes::from_static(b"fine");
    assert_eq!(one.peers.request(NodeId(2), RequestKind::Ask, body, LONG).await.unwrap(), "fine");
    one.stop().await;
    two.stop().await;
}

#[tokio::test]
async fn requests_in_flight_are_bounded_in_number_and_bytes() {
    let began = Arc::new(Notify::new());
    let begins = Arc::clone(&began);
    let handler = move |_, _, _| {
        begins.notify_one();
        Box::pin(std::future::pending()) as Answer
    };
    let bounds = |options: &mut PeerOptions| {
        options.requests_in_flight_max = 2;
        options.queue_bytes_max = 2 << 20;
    };
    let (one, two) = pair_with(handler, bounds).await;
    let ask = |bytes: usize| {
        let peers = one.peers.clone();
        async move { peers.request(NodeId(2), RequestKind::Ask, vec![0; bytes].into(), LONG).await }
    };
    let first = task::spawn(ask(3 << 19));
    began.notified().await;
    let refused = ask(1 << 20).await;
    assert!(matches!(refused, Err(PeerError::QueueFull)), "{refused:?}");
    let second = task::spawn(ask(100));
    began.notified().await;
    let refused = ask(100).await;
    assert!(matches!(refused, Err(PeerError::QueueFull)), "{refused:?}");
    // A canceled request makes room.
    second.abort();
    assert!(!second.await.unwrap_err().is_panic());
    let third = task::spawn(ask(100));
    began.notified().await;
    first.abort();
    third.abort();
    one.stop().await;
    two.stop().await;
}

#[tokio::test]
async fn anybody_is_asked_over_a_connection_of_its_own() {
    let (one, two) = (Node::start(1).await, Node::start(2).await);
    let address = two.address.to_string();
    let body = Bytes::from_static(b"hello");
    let (who, answer) = one.peers.ask(&address, RequestKind::Ask, body, LONG).await.unwrap();
    assert_eq!(
        (who.node, who.level, who.cluster_id.as_deref()),
        (NodeId(2), *crate::types::LEVELS.end(), Some(CLUSTER))
    );
    assert_eq!(who.instance, two.peers.shared.identity.load().instance);
    assert_eq!(answer, "Ask of Some(1): hello");
    until(|| two.metrics.page().unwrap().contains("tailrace_peer_strangers 0\n")).await;
    let address = two.address.to_string();
    two.stop().await;
    let nobody = one.peers.ask(&address, RequestKind::Status, Bytes::new(), LONG).await;
    assert!(matches!(nobody, Err(PeerError::Connect { .. })), "{nobody:?}");
    let nowhere = one.peers.ask("no.such.host.invalid:1", RequestKind::Status, Bytes::new(), LONG).await;
    assert!(matches!(nowhere, Err(PeerError::Connect { .. })), "{nowhere:?}");
    one.stop().await;
}

#[tokio::test]
async fn who_is_asked_and_says_nothing_is_given_up() {
    let one = Node::start(1).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let late = one.peers.ask(&address, RequestKind::Status, Bytes::new(), Duration::from_millis(50)).await;
    assert!(matches!(late, Err(PeerError::TimedOut(_))), "{late:?}");
    one.stop().await;
}
