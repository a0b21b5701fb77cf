//! The links of several nodes on the loopback device, and of nodes with hand-made peers.

mod frames;
mod handshakes;
mod hostile;
mod messages;
mod nats;
mod requests;
mod tls;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use tailrace_env::time;
use tailrace_env::time::{Duration, Instant};

use bytes::{BufMut as _, Bytes, BytesMut};
use tailrace_env::sync::mpsc;
use tailrace_replication::raft::{Heartbeat, PeerMessage};
use tailrace_types::{LeaderEpoch, NodeId, PartitionId, RaftGroup, ReplicaId, TopicId};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::handshake::{Greeting, Purpose};
use super::*;
use tailrace_env::random;

const PATIENCE: Duration = Duration::from_secs(30);
const CLUSTER: &str = "the-cluster";

#[derive(Debug)]
enum Event {
    Raft(NodeId, Vec<(RaftGroup, PeerMessage)>),
    Beat(NodeId, u64),
    Leading(NodeId, bool, Vec<(RaftGroup, LeaderEpoch)>),
    Connected(NodeId),
    Disconnected(NodeId),
    Heard(NodeId),
    Nats(NodeId, NatsFrame, Bytes),
    NatsGoesOn,
}

type Answer = BoxFuture<'static, Result<Bytes, RequestError>>;
type Handler = dyn Fn(Option<NodeId>, RequestKind, Bytes) -> Answer + Send + Sync;

struct Recorder {
    events: mpsc::UnboundedSender<Event>,
    handler: Box<Handler>,
    nats_takes_long: Arc<AtomicBool>,
}

impl Recorder {
    fn note(&self, event: Event) {
        // The test may have ended already.
        let _ = self.events.send(event);
    }
}

struct NatsRecorder {
    from: NodeId,
    events: mpsc::UnboundedSender<Event>,
    /// While this is set, a message that was taken stays unfinished.
    takes_long: Arc<AtomicBool>,
    /// It has continued since the last message.
    has_gone_on: bool,
}

impl NatsReceiver for NatsRecorder {
    fn take(&mut self, frame: NatsFrame, payload: Bytes) -> Result<(), &'static str> {
        let known = !payload.is_empty();
        self.has_gone_on = false;
        // The test may have ended already.
        let _ = self.events.send(Event::Nats(self.from, frame, payload));
        known.then_some(()).ok_or("a frame without anything in it")
    }

    fn is_due(&mut self) -> bool {
        false
    }

    fn is_under_way(&self) -> bool {
        self.takes_long.load(Ordering::Relaxed)
    }

    fn go_on(&mut self) {
        if !std::mem::replace(&mut self.has_gone_on, true) {
            // The test may have ended already.
            let _ = self.events.send(Event::NatsGoesOn);
        }
    }

    fn settle(&mut self) -> bool {
        false
    }
}

impl PeerReceiver for Recorder {
    fn raft(&self, from: NodeId, messages: Vec<(RaftGroup, PeerMessage)>) {
        self.note(Event::Raft(from, messages));
    }

    fn beat(&self, from: NodeId, lease: u64) {
        self.note(Event::Beat(from, lease));
    }

    fn leading(&self, from: NodeId, complete: bool, groups: Vec<(RaftGroup, LeaderEpoch)>) {
        self.note(Event::Leading(from, complete, groups));
    }

    fn nats(&self, from: NodeId) -> Option<Box<dyn NatsReceiver>> {
        let takes_long = Arc::clone(&self.nats_takes_long);
        Some(Box::new(NatsRecorder { from, events: self.events.clone(), takes_long, has_gone_on: false }))
    }

    fn request(&self, from: Option<NodeId>, kind: RequestKind, body: Bytes) -> Answer {
        (self.handler)(from, kind, body)
    }

    fn connected(&self, node: NodeId) {
        self.note(Event::Connected(node));
    }

    fn disconnected(&self, node: NodeId) {
        self.note(Event::Disconnected(node));
    }

    fn heard(&self, node: NodeId) {
        self.note(Event::Heard(node));
    }
}

/// The setup of a node in a test.
struct Setup {
    node: i32,
    cluster: Option<&'static str>,
    levels: std::ops::RangeInclusive<u16>,
    options: PeerOptions,
    tls: Option<Arc<PeerTls>>,
    handler: Box<Handler>,
    address: String,
}

impl Setup {
    fn new(node: i32) -> Self {
        tailrace_runtime::install();
        let options = PeerOptions {
            ping_interval: Duration::from_millis(100),
            reconnect_min: Duration::from_millis(10),
            reconnect_max: Duration::from_millis(100),
            ..PeerOptions::default()
        };
        let handler = Box::new(|from: Option<NodeId>, kind, body: Bytes| {
            let head = format!("{kind:?} of {:?}: ", from.map(NodeId::get));
            let answer: Bytes = [head.as_bytes(), &body].concat().into();
            Box::pin(std::future::ready(Ok(answer))) as Answer
        });
        let address = "127.0.0.1:0".to_owned();
        Self { node, cluster: Some(CLUSTER), levels: LEVELS, options, tls: None, handler, address }
    }

    fn handler(
        mut self,
        handler: impl Fn(Option<NodeId>, RequestKind, Bytes) -> Answer + Send + Sync + 'static,
    ) -> Self {
        self.handler = Box::new(handler);
        self
    }

    fn identity(&self) -> Identity {
        Identity {
            node: NodeId(self.node),
            directory: random::bytes16(),
            instance: random::bytes16(),
            cluster_id: self.cluster.map(str::to_owned),
            levels: self.levels.clone(),
        }
    }

    async fn start(self) -> Node {
        let identity = self.identity();
        let port = Port::open("cluster.listen", &self.address).await.unwrap();
        let address = port.address().unwrap();
        let metrics = Metrics::default();
        let peers = Peers::new(self.options, identity, self.tls, &metrics);
        let (sender, events) = mpsc::unbounded_channel();
        let nats_takes_long = Arc::new(AtomicBool::new(false));
        let taken = Arc::clone(&nats_takes_long);
        let recorder = Arc::new(Recorder { events: sender, handler: self.handler, nats_takes_long: taken });
        let receiver = Arc::downgrade(&recorder);
        let accepting = peers.serve(port, recorder);
        let node = NodeId(self.node);
        Node { node, peers, address, events, accepting, metrics, receiver, nats_takes_long }
    }
}

struct Node {
    node: NodeId,
    peers: Peers,
    address: SocketAddr,
    events: mpsc::UnboundedReceiver<Event>,
    accepting: JoinHandle<()>,
    pub metrics: Metrics,
    receiver: Weak<Recorder>,
    /// While this is set, messages for NATS clients stay unfinished.
    nats_takes_long: Arc<AtomicBool>,
}

impl Node {
    async fn start(node: i32) -> Self {
        Setup::new(node).start().await
    }

    fn as_peer(&self) -> PeerNode {
        PeerNode { node: self.node, address: self.address.to_string() }
    }

    fn counts(&self) -> &PeerMetrics {
        &self.peers.shared.metrics
    }

    /// Returns the next event that `pick` wants.
    async fn wait_for<T>(&mut self, mut pick: impl FnMut(Event) -> Option<T>) -> T {
        let found = async {
            loop {
                let event = self.events.recv().await.expect("the node runs");
                if let Some(found) = pick(event) {
                    return found;
                }
            }
        };
        time::timeout(PATIENCE, found).await.expect("it happens")
    }

    async fn connected(&mut self, node: i32) {
        self.wait_for(|event| {
            matches!(event, Event::Connected(NodeId(found)) if found == node).then_some(())
        })
        .await;
    }

    async fn disconnected(&mut self, node: i32) {
        self.wait_for(|event| {
            matches!(event, Event::Disconnected(NodeId(found)) if found == node).then_some(())
        })
        .await;
    }

    /// Returns at least `count` raft messages, with their senders.
    async fn messages(&mut self, count: usize) -> Vec<(NodeId, RaftGroup, PeerMessage)> {
        let mut all = Vec::new();
        while all.len() < count {
            let (from, messages) = self
                .wait_for(|event| match event {
                    Event::Raft(from, messages) => Some((from, messages)),
                    _ => None,
                })
                .await;
            all.extend(messages.into_iter().map(|(group, message)| (from, group, message)));
        }
        all
    }

    async fn stop(self) {
        self.peers.stop().await;
        self.accepting.await.unwrap();
        assert_eq!(self.receiver.strong_count(), 0, "the receiver is dropped");
    }
}

/// Starts nodes 1 to N, all linked.
async fn cluster(setups: Vec<Setup>) -> Vec<Node> {
    let mut nodes = Vec::new();
    for setup in setups {
        nodes.push(setup.start().await);
    }
    let all: Vec<PeerNode> = nodes.iter().map(Node::as_peer).collect();
    for node in &nodes {
        node.peers.set_nodes(all.clone());
    }
    for node in &mut nodes {
        for other in all.iter().filter(|other| other.node != node.node) {
            until(|| node.peers.is_up(other.node)).await;
        }
    }
    nodes
}

async fn pair() -> (Node, Node) {
    let mut nodes = cluster(vec![Setup::new(1), Setup::new(2)]).await;
    let second = nodes.pop().unwrap();
    (nodes.pop().unwrap(), second)
}

/// Waits until `holds`, and fails the test if it never does.
async fn until(holds: impl Fn() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "the condition never held");
        time::sleep(Duration::from_millis(2)).await;
    }
}

fn group(number: i32) -> RaftGroup {
    RaftGroup { topic: TopicId([7; 16]), partition: PartitionId(number) }
}

fn replica(node: i32) -> ReplicaId {
    ReplicaId::new(NodeId(node), 1)
}

fn heartbeat(from: i32, to: i32, term: u64) -> PeerMessage {
    let context = Bytes::from_static(b"ctx");
    Heartbeat { answer: false, from: replica(from), to: replica(to), term, commit: 5, context }.into()
}

/// Makes an append message with one entry. `index` tells messages apart.
fn append(from: i32, to: i32, index: u64, data: &[u8]) -> PeerMessage {
    let mut bytes = BytesMut::new();
    bytes.put_slice(&[1, 1, 0, 0]);
    for value in [replica(from).0, replica(to).0, 3, 3, index, 0, 0, 0, 0, 0] {
        bytes.put_u64_le(value);
    }
    bytes.put_u32_le(0);
    bytes.put_u32_le(1);
    bytes.put_u8(0);
    bytes.put_u64_le(3);
    bytes.put_u64_le(index + 1);
    bytes.put_u32_le(u32::try_from(data.len()).unwrap());
    bytes.put_slice(data);
    PeerMessage::decode(bytes.freeze()).unwrap()
}

/// A hand-made member, which sends what no node would.
struct Raw {
    stream: TcpStream,
    identity: Identity,
}

impl Raw {
    async fn call(to: &Node, node: i32, purpose: Purpose) -> (Self, Greeting) {
        let identity = Setup::new(node).identity();
        let mut stream = TcpStream::connect(to.address).await.unwrap();
        let call = Greeting::call(&identity, purpose, Some(to.node));
        stream.write_all(&call.encode()).await.unwrap();
        let answer = Greeting::read(&mut stream).await.unwrap();
        (Self { stream, identity }, answer)
    }

    /// Makes a link from node `node` to `to`.
    async fn link(to: &Node, node: i32) -> Self {
        let (raw, answer) = Self::call(to, node, Purpose::Link).await;
        let expected = Some(to.node);
        assert_eq!(answer.judge_answer(&raw.identity, Purpose::Link, expected), Ok(*LEVELS.end()));
        raw
    }

    /// Accepts the next call on `listener` as node `node`.
    async fn answer(listener: &TcpListener, node: i32) -> Self {
        let identity = Setup::new(node).identity();
        let (mut stream, _) = listener.accept().await.unwrap();
        let call = Greeting::read(&mut stream).await.unwrap();
        let verdict: Result<u16, Refusal> = Ok(*LEVELS.end());
        stream.write_all(&Greeting::answer(&identity, &call, &verdict).encode()).await.unwrap();
        Self { stream, identity }
    }

    /// Returns the next whole frame that is not a ping.
    async fn frame(&mut self) -> Vec<u8> {
        loop {
            let mut frame = vec![0; 4];
            self.stream.read_exact(&mut frame).await.unwrap();
            let length = u32::from_le_bytes(frame[..].try_into().unwrap());
            frame.resize(4 + length as usize, 0);
            self.stream.read_exact(&mut frame[4..]).await.unwrap();
            if frame[4] != 6 {
                return frame;
            }
        }
    }

    /// Waits until the other end closes, whatever it sends before.
    async fn closed(&mut self) {
        let mut bytes = [0; 4096];
        let read_all = async { while matches!(self.stream.read(&mut bytes).await, Ok(1..)) {} };
        time::timeout(PATIENCE, read_all).await.expect("the other end closes");
    }
}
