//! Members that break the rules, or are broken.

use super::super::frame::{self, FrameKind};
use super::*;
use tailrace_env::time;

/// Sends one whole frame.
async fn send_frame(raw: &mut Raw, kind: u8, payload: &[u8]) {
    let mut bytes = BytesMut::new();
    bytes.put_u32_le(u32::try_from(payload.len() + 1).unwrap());
    bytes.put_u8(kind);
    bytes.put_slice(payload);
    raw.stream.write_all(&bytes).await.unwrap();
}

/// Makes a raft frame with one message.
fn raft_frame(message: &PeerMessage) -> Bytes {
    let mut out = BytesMut::new();
    let at = frame::begin(&mut out, FrameKind::Raft);
    frame::put_message(&mut out, group(1), message);
    frame::end(&mut out, at);
    out.freeze()
}

async fn start(change: impl FnOnce(&mut PeerOptions)) -> Node {
    let mut setup = Setup::new(1);
    change(&mut setup.options);
    setup.start().await
}

#[tokio::test]
async fn frames_that_make_no_sense_end_their_connection_and_nothing_else() {
    let one = start(|_| {}).await;
    let max = u32::try_from(one.peers.shared.options.frame_bytes_max).unwrap();
    let group_and_length = [&[7; 20][..], &10_u32.to_le_bytes()].concat();
    let mut bad: Vec<(Vec<u8>, &str)> = vec![
        (0_u32.to_le_bytes().to_vec(), "frame"),
        ((max - 3).to_le_bytes().to_vec(), "frame"),
        (u32::MAX.to_le_bytes().to_vec(), "frame"),
    ];
    let mut whole = |kind: u8, payload: &[u8], reason| {
        let length = u32::try_from(payload.len() + 1).unwrap().to_le_bytes();
        bad.push(([&length[..], &[kind], payload].concat(), reason));
    };
    whole(0, b"", "frame");
    whole(99, b"?", "frame");
    whole(1, &[7; 23], "frame");
    whole(1, &group_and_length, "frame");
    whole(1, &[&group_and_length[..], &[0xff; 10]].concat(), "frame");
    whole(2, &[7; 53], "frame");
    whole(2, &vec![0; frame::HEARTBEATS_BYTES_MAX + 54], "frame");
    whole(3, b"", "frame");
    whole(3, &[1; 24], "frame");
    whole(4, &[0; 8], "frame");
    whole(5, &[0; 7], "frame");
    whole(6, &[0; 9], "frame");
    whole(7, &[0; 9], "misplaced_frame");
    whole(8, &[0; 8], "misplaced_frame");
    let mut healthy = Raw::link(&one, 3).await;
    let mut counted = std::collections::BTreeMap::new();
    for (bytes, reason) in bad {
        let mut raw = Raw::link(&one, 2).await;
        // It may be closed before all of it is sent.
        let _ = raw.stream.write_all(&bytes).await;
        raw.closed().await;
        *counted.entry(reason).or_insert(0) += 1;
        until(|| one.counts().cuts(reason) == counted[reason]).await;
    }
    send_frame(&mut healthy, 6, &5_u64.to_le_bytes()).await;
    assert_eq!(healthy.frame().await, *b"\x09\0\0\0\x08\x05\0\0\0\0\0\0\0");
    one.stop().await;
}

#[tokio::test]
async fn a_frame_that_never_ends_is_given_up() {
    let one = start(|options| options.silence_max = Duration::from_millis(400)).await;
    let mut silent = Raw::link(&one, 2).await;
    silent.stream.write_all(&(64_u32 << 20).to_le_bytes()).await.unwrap();
    silent.stream.write_all(&[1; 100]).await.unwrap();
    silent.closed().await;
    let mut trickling = Raw::link(&one, 2).await;
    trickling.stream.write_all(&(64_u32 << 20).to_le_bytes()).await.unwrap();
    let began = Instant::now();
    while trickling.stream.write_all(&[1]).await.is_ok() {
        assert!(began.elapsed() < PATIENCE, "a byte now and then keeps a frame alive");
        time::sleep(Duration::from_millis(20)).await;
    }
    until(|| one.counts().cuts("slow_frame") == 2).await;
    one.stop().await;
}

#[tokio::test]
async fn a_silent_member_is_cut_at_either_end() {
    let mut one = start(|options| options.silence_max = Duration::from_millis(300)).await;
    Raw::link(&one, 2).await.closed().await;
    assert_eq!(one.counts().cuts("silent"), 1);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    one.peers.set_nodes(vec![PeerNode { node: NodeId(2), address }]);
    let silent = Raw::answer(&listener, 2).await;
    one.connected(2).await;
    one.disconnected(2).await;
    assert_eq!(one.counts().cuts("silent"), 2);
    drop(silent);
    one.stop().await;
}

#[tokio::test]
async fn a_flood_whose_answers_are_not_taken_is_not_read() {
    let mut setup = Setup::new(1).handler(|_, _, body| Box::pin(std::future::ready(Ok(body))));
    setup.options.silence_max = Duration::from_secs(2);
    let one = setup.start().await;
    let mut raw = Raw::link(&one, 2).await;
    let (mut id, mut sent) = (0_u64, 0);
    loop {
        id += 1;
        let payload = [request(id, ASK), vec![0; 64 << 10]].concat();
        let length = u32::try_from(payload.len() + 1).unwrap().to_le_bytes();
        if raw.stream.write_all(&[&length[..], &[4], &payload].concat()).await.is_err() {
            break;
        }
        sent += payload.len();
        // The node holds at most 8 MiB and 256 answers for this peer. The rest is in the sockets' buffers.
        assert!(sent < 200 << 20, "{sent} bytes were taken");
    }
    until(|| one.counts().cuts("stalled") == 1).await;
    one.stop().await;
}

#[tokio::test]
async fn a_flood_of_messages_is_handed_on_whole() {
    struct Counting(std::sync::atomic::AtomicU64);
    impl PeerReceiver for Counting {
        fn nats(&self, _: NodeId) -> Option<Box<dyn NatsReceiver>> {
            None
        }

        fn raft(&self, _: NodeId, messages: Vec<(RaftGroup, PeerMessage)>) {
            self.0.fetch_add(messages.len() as u64, std::sync::atomic::Ordering::Relaxed);
        }
        fn beat(&self, _: NodeId, _: u64) {}

        fn leading(&self, _: NodeId, _: bool, _: Vec<(RaftGroup, LeaderEpoch)>) {}
        fn request(&self, _: Option<NodeId>, _: RequestKind, _: Bytes) -> Answer {
            Box::pin(std::future::pending())
        }
        fn connected(&self, _: NodeId) {}
        fn disconnected(&self, _: NodeId) {}
        fn heard(&self, _: NodeId) {}
    }
    let mut one = start(|_| {}).await;
    let counting = Arc::new(Counting(0.into()));
    let port = Port::open("cluster.listen", "127.0.0.1:0").await.unwrap();
    one.address = port.address().unwrap();
    let _accepting = one.peers.serve(port, Arc::clone(&counting) as Arc<dyn PeerReceiver>);
    let mut raw = Raw::link(&one, 2).await;
    let message = raft_frame(&append(2, 1, 1, &[0; 1000]));
    for _ in 0..20_000 {
        raw.stream.write_all(&message).await.unwrap();
    }
    until(|| counting.0.load(std::sync::atomic::Ordering::Relaxed) == 20_000).await;
    one.stop().await;
}

#[tokio::test]
async fn messages_in_the_name_of_others_or_for_others_are_dropped() {
    let mut one = start(|_| {}).await;
    let mut raw = Raw::link(&one, 2).await;
    for message in [append(3, 1, 1, b"not its own"), append(2, 3, 2, b"not ours"), append(2, 1, 3, b"right")]
    {
        raw.stream.write_all(&raft_frame(&message)).await.unwrap();
    }
    let arrived = one.messages(1).await;
    assert_eq!(arrived, [(NodeId(2), group(1), append(2, 1, 3, b"right"))]);
    assert_eq!(one.counts().messages_dropped("misaddressed"), 2);
    one.stop().await;
}

/// Makes an answer with its outcome and without a body.
fn empty_answer(id: u64, outcome: u8) -> [u8; 14] {
    let mut bytes = [0; 14];
    bytes[0] = 10;
    bytes[4] = 7;
    bytes[5..13].copy_from_slice(&id.to_le_bytes());
    bytes[13] = outcome;
    bytes
}

/// Its number on the wire.
const ASK: u8 = RequestKind::Ask as u8;

fn request(id: u64, kind: u8) -> Vec<u8> {
    [&id.to_le_bytes()[..], &[kind]].concat()
}

#[tokio::test]
async fn more_requests_than_allowed_are_refused_and_unknown_kinds_are_not_served() {
    let mut setup = Setup::new(1).handler(|_, _, _| Box::pin(std::future::pending()));
    setup.options.requests_in_flight_max = 2;
    let one = setup.start().await;
    let mut raw = Raw::link(&one, 2).await;
    send_frame(&mut raw, 4, &request(1, 99)).await;
    assert_eq!(raw.frame().await, empty_answer(1, 2));
    for id in [2, 3, 4] {
        send_frame(&mut raw, 4, &request(id, ASK)).await;
    }
    assert_eq!(raw.frame().await, empty_answer(4, 1));
    // Reusing the number of a request in flight ends the connection.
    send_frame(&mut raw, 4, &request(3, ASK)).await;
    raw.closed().await;
    assert_eq!(one.counts().cuts("misplaced_frame"), 1);
    one.stop().await;
}

#[tokio::test]
async fn who_is_no_member_sends_small_requests_and_nothing_else() {
    let mut setup = Setup::new(1);
    setup.cluster = None;
    let one = setup.start().await;
    let stranger = async || Raw::call(&one, 2, Purpose::Ask).await.0;
    let mut raw = stranger().await;
    raw.stream.write_all(&raft_frame(&append(2, 1, 1, b"no"))).await.unwrap();
    raw.closed().await;
    until(|| one.counts().cuts("misplaced_frame") == 1).await;
    let mut raw = stranger().await;
    raw.stream.write_all(&(64_u32 * 1024).to_le_bytes()).await.unwrap();
    raw.closed().await;
    until(|| one.counts().cuts("frame") == 1).await;
    one.stop().await;
}

#[tokio::test]
async fn a_link_survives_no_frame_that_only_diallers_send() {
    let mut one = start(|_| {}).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    one.peers.set_nodes(vec![PeerNode { node: NodeId(2), address }]);
    for cut in 1..=3 {
        let mut raw = Raw::answer(&listener, 2).await;
        one.connected(2).await;
        // An answer without a request does no harm.
        raw.stream.write_all(&empty_answer(12345, 0)).await.unwrap();
        raw.stream.write_all(&raft_frame(&append(2, 1, 1, b"no"))).await.unwrap();
        one.disconnected(2).await;
        until(|| one.counts().cuts("misplaced_frame") == cut).await;
    }
    one.stop().await;
}

/// Pseudo-random numbers, the same in each run.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 11).unwrap() % below
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.next(256).to_le_bytes()[0]).collect()
    }
}

#[tokio::test]
async fn nothing_that_anybody_sends_harms_the_others() {
    let mut numbers = Numbers(0x2545_f491_4f6c_dd1d);
    let mut setup = Setup::new(1).handler(|_, _, body| Box::pin(std::future::ready(Ok(body))));
    setup.options.handshake_timeout = Duration::from_millis(200);
    setup.options.silence_max = Duration::from_secs(1);
    let one = setup.start().await;
    let mut healthy = Setup::new(2);
    healthy.options.silence_max = PATIENCE;
    let mut healthy = healthy.start().await;
    healthy.peers.set_nodes(vec![one.as_peer()]);
    healthy.connected(1).await;
    let call = |node| Greeting::call(&Setup::new(node).identity(), Purpose::Link, None).encode().to_vec();
    let valid = [
        raft_frame(&append(3, 1, 1, b"batch")).to_vec(),
        b"\x09\0\0\0\x06\x01\0\0\0\0\0\0\0".to_vec(),
        [&[14, 0, 0, 0, 4][..], &request(1, ASK), b"body"].concat(),
        frame::leading_frames(true, &[(group(1), LeaderEpoch(1))], 1 << 20)[0].to_vec(),
    ];
    for round in 0..300 {
        let mut bytes = match round % 3 {
            0 => numbers.bytes(100),
            1 => call(3),
            _ => [call(3), valid.concat(), valid.concat()].concat(),
        };
        for _ in 0..numbers.next(4) {
            let at = numbers.next(bytes.len());
            bytes[at] = numbers.next(256).to_le_bytes()[0];
        }
        bytes.truncate(bytes.len() - numbers.next(bytes.len() / 4));
        let mut stream = TcpStream::connect(one.address).await.unwrap();
        // Either end may close first.
        let _ = stream.write_all(&bytes).await;
        if numbers.next(2) == 0 {
            let _ = stream.shutdown().await;
        }
        if round % 10 == 0 {
            let mut rest = Vec::new();
            let _ = time::timeout(PATIENCE, stream.read_to_end(&mut rest)).await.expect("it is closed");
        }
    }
    let body = Bytes::from_static(b"still there");
    let answer = healthy.peers.request(NodeId(1), RequestKind::Ask, body.clone(), PATIENCE).await;
    assert_eq!(answer.unwrap(), body);
    assert_eq!(healthy.counts().links.get(), 1);
    let idle = "tailrace_peer_strangers 0\n";
    until(|| one.metrics.page().unwrap().contains(idle)).await;
    until(|| one.metrics.page().unwrap().contains("tailrace_peer_connections 1\n")).await;
    while let Ok(event) = healthy.events.try_recv() {
        assert!(!matches!(event, Event::Disconnected(_)), "its link was cut");
    }
    one.stop().await;
    healthy.stop().await;
}
