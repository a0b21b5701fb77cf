//! The start of a connection: a greeting each way, in one format.
//!
//! The first twelve bytes mean the same at every level of the protocol, forever: magic, the levels that the
//! sender supports, and how many bytes follow. Later levels may append to these.

use std::ops::RangeInclusive;

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use tailrace_env::io::{AsyncRead, AsyncReadExt as _};
use tailrace_types::NodeId;

use super::types::{CLUSTER_ID_BYTES_MAX, Identity, PeerIdentity};

const MAGIC: [u8; 6] = *b"TRPEER";
const HEAD_BYTES: usize = 12;
const REST_FIXED_BYTES: usize = 1 + 2 + 4 + 4 + 16 + 16 + 1;
/// Also at later levels.
const REST_BYTES_MAX: usize = 1024;

/// Means "any node".
const ANY_NODE: i32 = -1;

/// Why one node refuses a connection with another.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The two nodes support no common level of the protocol.
    #[error(
        "it supports level {} of the protocol between nodes, and this node supports {}",
        levels_text(.theirs), levels_text(.ours)
    )]
    Levels {
        /// The levels that the other node supports.
        theirs: RangeInclusive<u16>,
        /// The levels that this node supports.
        ours: RangeInclusive<u16>,
    },
    /// The other node belongs to another cluster.
    #[error("it belongs to cluster {theirs}, this node to {ours}")]
    OtherCluster {
        /// The other node's cluster.
        theirs: String,
        /// This node's cluster.
        ours: String,
    },
    /// The node has connected to itself.
    #[error("it is this node itself")]
    Itself,
    /// The other node has the same id.
    #[error("it has this node's id, {0}: give one of them another node.id")]
    SameNode(NodeId),
    /// Another instance of the node is alive.
    #[error("another node with id {0} is running: give one of them another node.id")]
    DuplicateNode(NodeId),
    /// A different node is at that address.
    #[error("expected node {expected}, but node {found} answered")]
    OtherNode {
        /// The node that was called.
        expected: NodeId,
        /// The node that answered.
        found: NodeId,
    },
    /// One of the nodes has not joined a cluster yet.
    #[error("one of the two has not joined a cluster yet")]
    NotJoined,
    /// The maximum number of links is reached.
    #[error("too many nodes are connected")]
    TooMany,
    /// A reason code that this node does not know.
    #[error("it gives a reason that this build does not know ({0})")]
    Unknown(u8),
}

impl Refusal {
    /// Returns a label for the metric.
    pub(super) fn reason(&self) -> &'static str {
        match self {
            Self::Levels { .. } => "levels",
            Self::OtherCluster { .. } => "other_cluster",
            Self::Itself => "itself",
            Self::SameNode(_) => "same_node",
            Self::DuplicateNode(_) => "duplicate_node",
            Self::OtherNode { .. } => "other_node",
            Self::NotJoined => "not_joined",
            Self::TooMany => "too_many",
            Self::Unknown(_) => "unknown",
        }
    }

    fn to_wire(&self) -> u8 {
        match self {
            Self::Levels { .. } => 1,
            Self::OtherCluster { .. } => 2,
            Self::Itself => 3,
            Self::SameNode(_) => 4,
            Self::DuplicateNode(_) => 5,
            Self::OtherNode { .. } => 6,
            Self::NotJoined => 7,
            Self::TooMany => 8,
            Self::Unknown(code) => *code,
        }
    }

    /// Decodes the other end's refusal, from this end's point of view.
    fn from_wire(code: u8, own: &Identity, theirs: &Greeting) -> Self {
        match code {
            1 => Self::Levels { theirs: theirs.levels.clone(), ours: own.levels.clone() },
            2 => Self::OtherCluster {
                theirs: theirs.cluster_id.clone().unwrap_or_default(),
                ours: own.cluster_id.clone().unwrap_or_default(),
            },
            3 => Self::Itself,
            4 => Self::SameNode(own.node),
            5 => Self::DuplicateNode(own.node),
            6 => Self::OtherNode { expected: theirs.other.unwrap_or(theirs.node), found: theirs.node },
            7 => Self::NotJoined,
            8 => Self::TooMany,
            _ => Self::Unknown(code),
        }
    }
}

/// Formats levels for logs: `1` or `1 to 3`.
fn levels_text(levels: &RangeInclusive<u16>) -> String {
    if levels.start() == levels.end() {
        return levels.start().to_string();
    }
    format!("{} to {}", levels.start(), levels.end())
}

/// The purpose of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Everything, between members of one cluster. One for each pair of nodes and direction.
    Link,
    /// Requests only.
    Ask,
}

/// Why no greeting was read.
#[derive(Debug, thiserror::Error)]
pub(super) enum GreetingError {
    #[error("it sends {0} instead of a greeting")]
    Garbage(&'static str),
    #[error("its greeting is malformed: {0}")]
    Nonsense(String),
    #[error("the connection ended within the greeting")]
    Ended,
    #[error("the socket failed: {0}")]
    Socket(#[from] std::io::Error),
}

/// The first thing that each end sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Greeting {
    pub(super) levels: RangeInclusive<u16>,
    /// From the dialler: its purpose. From the other end: 0, or the code of a refusal.
    word: u8,
    /// The level of this connection. 0 if it is not known (yet).
    level: u16,
    pub(super) node: NodeId,
    /// From the dialler: the node it calls, if it knows. From the other end: the node that the dialler
    /// called.
    other: Option<NodeId>,
    directory: [u8; 16],
    pub(super) instance: [u8; 16],
    cluster_id: Option<String>,
}

impl Greeting {
    /// Makes the dialler's greeting.
    pub(super) fn call(own: &Identity, purpose: Purpose, expected: Option<NodeId>) -> Self {
        let word = match purpose {
            Purpose::Link => 1,
            Purpose::Ask => 2,
        };
        Self::of(own, word, 0, expected)
    }

    /// Makes the answer to `call`.
    pub(super) fn answer(own: &Identity, call: &Self, verdict: &Result<u16, Refusal>) -> Self {
        match verdict {
            Ok(level) => Self::of(own, 0, *level, call.other),
            Err(refusal) => Self::of(own, refusal.to_wire(), 0, call.other),
        }
    }

    fn of(own: &Identity, word: u8, level: u16, other: Option<NodeId>) -> Self {
        Self {
            levels: own.levels.clone(),
            word,
            level,
            node: own.node,
            other,
            directory: own.directory,
            instance: own.instance,
            cluster_id: own.cluster_id.clone(),
        }
    }

    /// Returns what a dialler wants. `None` if this build does not know it.
    pub(super) fn purpose(&self) -> Option<Purpose> {
        match self.word {
            1 => Some(Purpose::Link),
            2 => Some(Purpose::Ask),
            _ => None,
        }
    }

    /// Reports whether an answer is a refusal.
    pub(super) fn is_refusal(&self) -> bool {
        self.word != 0
    }

    pub(super) fn identity(self, level: u16) -> PeerIdentity {
        let Self { node, directory, instance, cluster_id, .. } = self;
        PeerIdentity { node, directory, instance, cluster_id, level }
    }

    /// Reports whether both ends belong to one cluster.
    pub(super) fn is_of_cluster(&self, own: &Identity) -> bool {
        self.cluster_id.is_some() && self.cluster_id == own.cluster_id
    }

    /// Decides whether `own` may talk to the sender of this greeting, and at which level: the highest that
    /// both know.
    pub(super) fn judge(&self, own: &Identity, purpose: Purpose) -> Result<u16, Refusal> {
        if self.instance == own.instance {
            return Err(Refusal::Itself);
        }
        let level = *self.levels.end().min(own.levels.end());
        if level < *self.levels.start().max(own.levels.start()) {
            return Err(Refusal::Levels { theirs: self.levels.clone(), ours: own.levels.clone() });
        }
        match (&self.cluster_id, &own.cluster_id) {
            (Some(theirs), Some(ours)) if theirs != ours => {
                return Err(Refusal::OtherCluster { theirs: theirs.clone(), ours: ours.clone() });
            }
            (Some(_), Some(_)) => {}
            _ if purpose == Purpose::Link => return Err(Refusal::NotJoined),
            _ => {}
        }
        if self.node == own.node {
            return Err(Refusal::SameNode(own.node));
        }
        Ok(level)
    }

    /// Like [`Greeting::judge`], for the node that was called.
    pub(super) fn judge_call(&self, own: &Identity, purpose: Purpose) -> Result<u16, Refusal> {
        let level = self.judge(own, purpose)?;
        match self.other {
            Some(expected) if expected != own.node => Err(Refusal::OtherNode { expected, found: own.node }),
            _ => Ok(level),
        }
    }

    /// Like [`Greeting::judge`], for the dialler, which called `expected`.
    pub(super) fn judge_answer(
        &self,
        own: &Identity,
        purpose: Purpose,
        expected: Option<NodeId>,
    ) -> Result<u16, Refusal> {
        if self.word != 0 {
            return Err(Refusal::from_wire(self.word, own, self));
        }
        let level = self.judge(own, purpose)?;
        match expected {
            Some(expected) if expected != self.node => Err(Refusal::OtherNode { expected, found: self.node }),
            _ if level != self.level => {
                Err(Refusal::Levels { theirs: self.level..=self.level, ours: own.levels.clone() })
            }
            _ => Ok(level),
        }
    }

    pub(super) fn encode(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(HEAD_BYTES + REST_FIXED_BYTES + CLUSTER_ID_BYTES_MAX);
        let cluster_id = self.cluster_id.as_deref().unwrap_or_default().as_bytes();
        let rest = u16::try_from(REST_FIXED_BYTES + cluster_id.len()).expect("cluster ids are short");
        out.put_slice(&MAGIC);
        out.put_u16_le(*self.levels.start());
        out.put_u16_le(*self.levels.end());
        out.put_u16_le(rest);
        out.put_u8(self.word);
        out.put_u16_le(self.level);
        out.put_i32_le(self.node.0);
        out.put_i32_le(self.other.map_or(ANY_NODE, |node| node.0));
        out.put_slice(&self.directory);
        out.put_slice(&self.instance);
        out.put_u8(u8::try_from(cluster_id.len()).expect("cluster ids are short"));
        out.put_slice(cluster_id);
        out.freeze()
    }

    /// Reads one greeting, and nothing of what follows it. Stops at the first byte that cannot belong to a
    /// greeting.
    ///
    /// # Errors
    /// [`GreetingError`].
    pub(super) async fn read(from: &mut (impl AsyncRead + Unpin)) -> Result<Self, GreetingError> {
        let mut head = [0; HEAD_BYTES];
        let mut filled = 0;
        while filled < HEAD_BYTES {
            let count = from.read(&mut head[filled..]).await?;
            if count == 0 {
                return Err(GreetingError::Ended);
            }
            filled += count;
            let known = filled.min(MAGIC.len());
            if head[..known] != MAGIC[..known] {
                return Err(GreetingError::Garbage(describe(&head[..filled])));
            }
        }
        let (lowest, highest, rest) = (number(&head, 6), number(&head, 8), number(&head, 10));
        let bytes = usize::from(rest);
        if bytes > REST_BYTES_MAX {
            return Err(GreetingError::Nonsense(format!("{bytes} bytes are announced")));
        }
        let mut rest = vec![0; bytes];
        from.read_exact(&mut rest).await.map_err(|error| match error.kind() {
            std::io::ErrorKind::UnexpectedEof => GreetingError::Ended,
            _ => GreetingError::Socket(error),
        })?;
        Self::decode(lowest..=highest, rest.into())
    }

    fn decode(levels: RangeInclusive<u16>, mut rest: Bytes) -> Result<Self, GreetingError> {
        let nonsense = |what: &str| GreetingError::Nonsense(what.to_owned());
        if rest.len() < REST_FIXED_BYTES {
            return Err(nonsense("it is too short"));
        }
        if levels.is_empty() {
            return Err(nonsense("its range of levels is empty"));
        }
        let (word, level) = (rest.get_u8(), rest.get_u16_le());
        let (node, other) = (rest.get_i32_le(), rest.get_i32_le());
        let (mut directory, mut instance) = ([0; 16], [0; 16]);
        rest.copy_to_slice(&mut directory);
        rest.copy_to_slice(&mut instance);
        let length = usize::from(rest.get_u8());
        if node < 0 || length > CLUSTER_ID_BYTES_MAX.min(rest.len()) {
            return Err(nonsense("a negative node, or a cluster id that is too long"));
        }
        let text = rest.split_to(length);
        // It appears in logs.
        if !text.iter().all(|byte| byte.is_ascii_graphic()) {
            return Err(nonsense("a cluster id that is not text"));
        }
        let cluster_id = (length > 0).then(|| String::from_utf8_lossy(&text).into_owned());
        let other = (other >= 0).then_some(NodeId(other));
        Ok(Self { levels, word, level, node: NodeId(node), other, directory, instance, cluster_id })
    }
}

fn number(head: &[u8; HEAD_BYTES], at: usize) -> u16 {
    u16::from_le_bytes([head[at], head[at + 1]])
}

/// Describes what the first bytes of a connection look like. Not the bytes themselves, which do not belong in
/// logs.
pub(super) fn describe(first: &[u8]) -> &'static str {
    const HTTP: [&[u8]; 6] = [b"GET ", b"POST", b"PUT ", b"HEAD", b"HTTP", b"OPTI"];
    match first {
        [0x16, 0x03, ..] => "a TLS handshake",
        [0x15, 0x03, ..] => "a TLS alert",
        _ if HTTP.iter().any(|begin| first.starts_with(begin)) => "HTTP",
        _ if first.starts_with(b"INFO") || first.starts_with(b"CONNEC") => "NATS",
        _ => "something else",
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn identity(node: i32, levels: RangeInclusive<u16>, cluster_id: Option<&str>) -> Identity {
        let byte = node.to_le_bytes()[0];
        Identity {
            node: NodeId(node),
            directory: [byte; 16],
            instance: [byte; 16],
            cluster_id: cluster_id.map(str::to_owned),
            levels,
        }
    }

    fn read(bytes: &[u8]) -> Result<Greeting, GreetingError> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async { Greeting::read(&mut &bytes[..]).await })
    }

    #[test]
    fn a_greeting_is_these_bytes() {
        let greeting = Greeting::call(&identity(7, 1..=2, Some("abc")), Purpose::Link, Some(NodeId(9)));
        let mut expected =
            b"TRPEER\x01\x00\x02\x00\x2f\x00\x01\x00\x00\x07\x00\x00\x00\x09\x00\x00\x00".to_vec();
        expected.extend([7; 32]);
        expected.extend(b"\x03abc");
        assert_eq!(greeting.encode(), expected);
        assert_eq!(read(&expected).unwrap(), greeting);
    }

    #[test]
    fn later_levels_may_append() {
        let greeting = Greeting::call(&identity(7, 1..=9, None), Purpose::Ask, None);
        let mut bytes = greeting.encode().to_vec();
        bytes.extend(b"new");
        bytes[10] += 3;
        bytes.extend(b"the frame that follows");
        assert_eq!(read(&bytes).unwrap(), greeting);
    }

    #[test]
    fn levels_are_the_highest_that_both_know() {
        let level = |ours: RangeInclusive<u16>, theirs: RangeInclusive<u16>| {
            let call = Greeting::call(&identity(1, theirs, Some("c")), Purpose::Link, None);
            call.judge_call(&identity(2, ours, Some("c")), Purpose::Link)
        };
        assert_eq!(level(1..=1, 1..=1), Ok(1));
        assert_eq!(level(1..=2, 1..=1), Ok(1));
        assert_eq!(level(2..=5, 3..=9), Ok(5));
        assert_eq!(level(1..=1, 2..=2), Err(Refusal::Levels { theirs: 2..=2, ours: 1..=1 }));
        assert_eq!(level(4..=5, 1..=3), Err(Refusal::Levels { theirs: 1..=3, ours: 4..=5 }));
    }

    #[test]
    fn every_refusal_is_told_to_the_other_end_as_what_it_is_there() {
        let (ours, theirs) = (identity(1, 1..=1, Some("a")), identity(2, 2..=3, Some("b")));
        let call = Greeting::call(&theirs, Purpose::Link, Some(NodeId(5)));
        let told = |refusal: Refusal| {
            let answer = Greeting::answer(&ours, &call, &Err(refusal));
            let answer = read(&answer.encode()).unwrap();
            answer.judge_answer(&theirs, Purpose::Link, Some(NodeId(5))).unwrap_err()
        };
        let levels = Refusal::Levels { theirs: 2..=3, ours: 1..=1 };
        assert_eq!(told(levels), Refusal::Levels { theirs: 1..=1, ours: 2..=3 });
        let cluster = Refusal::OtherCluster { theirs: "b".to_owned(), ours: "a".to_owned() };
        let seen = Refusal::OtherCluster { theirs: "a".to_owned(), ours: "b".to_owned() };
        assert_eq!(told(cluster), seen);
        assert_eq!(told(Refusal::DuplicateNode(NodeId(2))), Refusal::DuplicateNode(NodeId(2)));
        let other = Refusal::OtherNode { expected: NodeId(5), found: NodeId(1) };
        assert_eq!(told(other.clone()), other);
        for same in [Refusal::Itself, Refusal::NotJoined, Refusal::TooMany, Refusal::Unknown(77)] {
            assert_eq!(told(same.clone()), same);
        }
        assert_eq!(told(Refusal::SameNode(NodeId(1))), Refusal::SameNode(NodeId(2)));
    }

    #[test]
    fn garbage_is_recognised_at_its_first_byte_and_named() {
        let garbage = [
            (&b"GET / HTTP/1.1\r\n"[..], "HTTP"),
            (b"\x16\x03\x01\x02\x00", "a TLS handshake"),
            (b"\x15\x03\x03\x00\x02", "a TLS alert"),
            (b"CONNECT {}\r\n", "NATS"),
            (b"\x00\x00\x00\x20\x00\x12", "something else"),
            (b"TRPEEP", "something else"),
            (b"X", "something else"),
        ];
        for (bytes, name) in garbage {
            assert!(matches!(read(bytes), Err(GreetingError::Garbage(found)) if found == name), "{bytes:?}");
        }
        for cut in [&b""[..], b"TRPEE", b"TRPEER\x01\x00\x01\x00\x40\x00abc"] {
            assert!(matches!(read(cut), Err(GreetingError::Ended)), "{cut:?}");
        }
        let nonsense = [&b"TRPEER\x01\x00\x01\x00\xff\xff"[..], b"TRPEER\x01\x00\x01\x00\x01\x00a"];
        for bytes in nonsense {
            assert!(matches!(read(bytes), Err(GreetingError::Nonsense(_))), "{bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn any_greeting_is_read_or_refused(rest in prop::collection::vec(any::<u8>(), 0..200), levels in any::<[u8; 4]>()) {
            let mut bytes = MAGIC.to_vec();
            bytes.extend(levels);
            bytes.extend(u16::try_from(rest.len()).unwrap().to_le_bytes());
            bytes.extend(&rest);
            if let Ok(greeting) = read(&bytes) {
                prop_assert_eq!(read(&greeting.encode()).unwrap(), greeting);
            }
        }
    }
}
