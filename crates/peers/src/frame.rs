//! Frames as bytes. docs/cluster-protocol.md describes every field. Integers are little endian.
//!
//! Reading a frame takes no more memory than a small multiple of its bytes. Batches and bodies are slices of
//! it.

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use tailrace_replication::raft::{Heartbeat, PeerMessage, TERM_MAX, WireError};
use tailrace_types::{LeaderEpoch, PartitionId, RaftGroup, ReplicaId, TopicId};

use super::types::{NatsFrame, RequestError};

/// Length and kind.
pub(super) const HEADER_BYTES: usize = 5;

/// Bytes before the body of a request or answer.
pub(super) const BODY_HEAD_BYTES: usize = HEADER_BYTES + 8 + 1;

/// Maximum messages in one frame: as many as fit into [`RAFT_BATCH_BYTES`] and more. Otherwise a frame of
/// many tiny messages would become much larger in memory.
pub(super) const MESSAGES_MAX: usize = 4096;

/// Bytes of messages that are gathered into one frame, unless a single message is larger.
pub(super) const RAFT_BATCH_BYTES: usize = 256 * 1024;

/// Maximum payload of a frame of heartbeats. In memory they take about six times as much.
pub(super) const HEARTBEATS_BYTES_MAX: usize = 256 * 1024;

/// Maximum bytes of a failure's reason that are sent.
const REASON_BYTES_MAX: usize = 1024;

const GROUP_BYTES: usize = 20;
const HEARTBEAT_FIXED_BYTES: usize = GROUP_BYTES + 1 + 4 * 8 + 1;
const LEADING_ROW_BYTES: usize = GROUP_BYTES + 4;

/// The kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum FrameKind {
    Raft = 1,
    Heartbeats = 2,
    Leading = 3,
    Request = 4,
    Cancel = 5,
    Ping = 6,
    Answer = 7,
    Pong = 8,
    NatsInterest = 9,
    NatsMessage = 10,
    Beat = 12,
}

impl FrameKind {
    pub(super) const ALL: [Self; 11] = [
        Self::Raft,
        Self::Heartbeats,
        Self::Leading,
        Self::Request,
        Self::Cancel,
        Self::Ping,
        Self::Answer,
        Self::Pong,
        Self::NatsInterest,
        Self::NatsMessage,
        Self::Beat,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Raft => "raft",
            Self::Heartbeats => "heartbeats",
            Self::Leading => "leading",
            Self::Request => "request",
            Self::Cancel => "cancel",
            Self::Ping => "ping",
            Self::Answer => "answer",
            Self::Pong => "pong",
            Self::NatsInterest => "nats_interest",
            Self::NatsMessage => "nats_message",
            Self::Beat => "beat",
        }
    }

    fn from_wire(number: u8) -> Result<Self, FrameError> {
        let known = Self::ALL.into_iter().find(|kind| *kind as u8 == number);
        known.ok_or(FrameError::Kind { found: number })
    }
}

/// A frame that arrived.
#[derive(Debug, PartialEq)]
pub(super) enum Frame {
    /// Messages or heartbeats.
    Raft(Vec<(RaftGroup, PeerMessage)>),
    Leading {
        complete: bool,
        groups: Vec<(RaftGroup, LeaderEpoch)>,
    },
    Request {
        id: u64,
        kind: u8,
        body: Bytes,
    },
    Cancel(u64),
    Ping(u64),
    Answer {
        id: u64,
        outcome: Result<Bytes, RequestError>,
    },
    Pong(u64),
    Beat(u64),
    /// Only the NATS front understands its payload.
    Nats(NatsFrame, Bytes),
}

impl From<NatsFrame> for FrameKind {
    fn from(frame: NatsFrame) -> Self {
        match frame {
            NatsFrame::Interest => Self::NatsInterest,
            NatsFrame::Message => Self::NatsMessage,
        }
    }
}

/// Why bytes are not a frame. The connection is then unusable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum FrameError {
    #[error("a frame of {length} bytes, expected 1 to {max}")]
    Length { length: usize, max: usize },
    #[error("unknown kind {found} of a frame")]
    Kind { found: u8 },
    #[error("a frame of kind {kind} is cut off, or too long: {bytes} bytes")]
    CutOff { kind: &'static str, bytes: usize },
    #[error("{count} messages in one frame, more than {MESSAGES_MAX}")]
    Messages { count: usize },
    #[error("a raft message: {0}")]
    Message(#[from] WireError),
}

/// Starts a frame. Returns its position.
pub(super) fn begin(out: &mut BytesMut, kind: FrameKind) -> usize {
    let at = out.len();
    out.put_u32_le(0);
    out.put_u8(kind as u8);
    at
}

/// Ends the frame that started at `at`.
pub(super) fn end(out: &mut BytesMut, at: usize) {
    patch(out, at);
}

/// Writes how many bytes follow the length field at `at`.
fn patch(out: &mut BytesMut, at: usize) {
    // No frame or message is that long: queues have bounds far below.
    let length = u32::try_from(out.len() - at - 4).expect("a frame has fewer than 4 GiB");
    out[at..at + 4].copy_from_slice(&length.to_le_bytes());
}

/// Returns how many bytes a message takes in a frame.
pub(super) fn message_bytes(message: &PeerMessage) -> usize {
    GROUP_BYTES + 4 + message.encoded_bytes()
}

/// Appends one message to a frame of kind [`FrameKind::Raft`].
pub(super) fn put_message(out: &mut BytesMut, group: RaftGroup, message: &PeerMessage) {
    put_group(out, group);
    let at = out.len();
    out.put_u32_le(0);
    message.encode(out);
    patch(out, at);
}

/// Appends one row to a frame of kind [`FrameKind::Heartbeats`].
pub(super) fn put_heartbeat(out: &mut BytesMut, group: RaftGroup, heartbeat: &Heartbeat) {
    put_group(out, group);
    out.put_u8(u8::from(heartbeat.answer));
    for value in [heartbeat.from.0, heartbeat.to.0, heartbeat.term, heartbeat.commit] {
        out.put_u64_le(value);
    }
    out.put_u8(u8::try_from(heartbeat.context.len()).expect("PeerMessage::heartbeat has looked"));
    out.put_slice(&heartbeat.context);
}

/// Returns how many bytes a heartbeat takes in a frame.
pub(super) fn heartbeat_bytes(heartbeat: &Heartbeat) -> usize {
    HEARTBEAT_FIXED_BYTES + heartbeat.context.len()
}

/// Appends a frame that carries a number: [`FrameKind::Cancel`], [`FrameKind::Ping`], [`FrameKind::Pong`],
/// [`FrameKind::Beat`].
pub(super) fn put_number(out: &mut BytesMut, kind: FrameKind, number: u64) {
    let at = begin(out, kind);
    out.put_u64_le(number);
    end(out, at);
}

/// Makes frames of kind [`FrameKind::Leading`] of at most `max` bytes each. A list that takes more than one
/// is not marked complete.
pub(super) fn leading_frames(complete: bool, groups: &[(RaftGroup, LeaderEpoch)], max: usize) -> Vec<Bytes> {
    let rows = (max - HEADER_BYTES - 1) / LEADING_ROW_BYTES;
    let complete = complete && groups.len() <= rows;
    let frame = |groups: &[(RaftGroup, LeaderEpoch)]| {
        let mut out = BytesMut::with_capacity(HEADER_BYTES + 1 + groups.len() * LEADING_ROW_BYTES);
        let at = begin(&mut out, FrameKind::Leading);
        out.put_u8(u8::from(complete));
        for (group, epoch) in groups {
            put_group(&mut out, *group);
            out.put_i32_le(epoch.0);
        }
        end(&mut out, at);
        out.freeze()
    };
    if groups.is_empty() {
        return vec![frame(groups)];
    }
    groups.chunks(rows).map(frame).collect()
}

/// Returns what precedes the body of a request (`detail` is its kind) or of an answer (`detail` is its
/// outcome).
pub(super) fn body_head(kind: FrameKind, id: u64, detail: u8, body: &Bytes) -> [u8; BODY_HEAD_BYTES] {
    let length = u32::try_from(1 + 8 + 1 + body.len()).expect("bodies are bounded far below 4 GiB");
    let mut head = [0; BODY_HEAD_BYTES];
    head[..4].copy_from_slice(&length.to_le_bytes());
    head[4] = kind as u8;
    head[5..13].copy_from_slice(&id.to_le_bytes());
    head[13] = detail;
    head
}

/// Encodes an answer's outcome and body.
pub(super) fn outcome_to_wire(outcome: Result<Bytes, RequestError>) -> (u8, Bytes) {
    match outcome {
        Ok(body) => (0, body),
        Err(RequestError::Busy) => (1, Bytes::new()),
        Err(RequestError::NotServed) => (2, Bytes::new()),
        Err(RequestError::Stopping) => (3, Bytes::new()),
        Err(RequestError::Failed(reason)) => {
            let end = reason.floor_char_boundary(REASON_BYTES_MAX);
            (4, Bytes::copy_from_slice(&reason.as_bytes()[..end]))
        }
    }
}

fn outcome_from_wire(outcome: u8, body: Bytes) -> Result<Bytes, RequestError> {
    match outcome {
        0 => Ok(body),
        1 => Err(RequestError::Busy),
        2 => Err(RequestError::NotServed),
        3 => Err(RequestError::Stopping),
        _ => {
            let shown = &body[..body.len().min(REASON_BYTES_MAX)];
            Err(RequestError::Failed(String::from_utf8_lossy(shown).into_owned()))
        }
    }
}

/// Decodes the payload of a frame, which must be all of `payload`. Also returns its kind.
pub(super) fn decode(kind: u8, payload: Bytes) -> Result<(FrameKind, Frame), FrameError> {
    let kind = FrameKind::from_wire(kind)?;
    let frame = match kind {
        FrameKind::Raft => Frame::Raft(decode_messages(payload)?),
        FrameKind::Heartbeats => Frame::Raft(decode_heartbeats(payload)?),
        FrameKind::Leading => decode_leading(payload)?,
        FrameKind::Request => {
            let (id, kind, body) = decode_body(kind, payload)?;
            Frame::Request { id, kind, body }
        }
        FrameKind::Answer => {
            let (id, outcome, body) = decode_body(kind, payload)?;
            Frame::Answer { id, outcome: outcome_from_wire(outcome, body) }
        }
        FrameKind::Cancel => Frame::Cancel(decode_number(kind, &payload)?),
        FrameKind::Ping => Frame::Ping(decode_number(kind, &payload)?),
        FrameKind::Pong => Frame::Pong(decode_number(kind, &payload)?),
        FrameKind::NatsInterest => Frame::Nats(NatsFrame::Interest, payload),
        FrameKind::NatsMessage => Frame::Nats(NatsFrame::Message, payload),
        FrameKind::Beat => Frame::Beat(decode_number(kind, &payload)?),
    };
    Ok((kind, frame))
}

fn cut_off(kind: FrameKind, bytes: usize) -> FrameError {
    FrameError::CutOff { kind: kind.name(), bytes }
}

fn decode_number(kind: FrameKind, payload: &Bytes) -> Result<u64, FrameError> {
    let number = <[u8; 8]>::try_from(&payload[..]).map_err(|_| cut_off(kind, payload.len()))?;
    Ok(u64::from_le_bytes(number))
}

fn decode_body(kind: FrameKind, mut payload: Bytes) -> Result<(u64, u8, Bytes), FrameError> {
    if payload.len() < 9 {
        return Err(cut_off(kind, payload.len()));
    }
    Ok((payload.get_u64_le(), payload.get_u8(), payload))
}

fn decode_messages(mut payload: Bytes) -> Result<Vec<(RaftGroup, PeerMessage)>, FrameError> {
    let bad = cut_off(FrameKind::Raft, payload.len());
    let mut messages = Vec::new();
    while !payload.is_empty() {
        if payload.len() < GROUP_BYTES + 4 {
            return Err(bad);
        }
        if messages.len() == MESSAGES_MAX {
            return Err(FrameError::Messages { count: MESSAGES_MAX + 1 });
        }
        let group = get_group(&mut payload);
        let length = payload.get_u32_le() as usize;
        if length > payload.len() {
            return Err(bad);
        }
        messages.push((group, PeerMessage::decode(payload.split_to(length))?));
    }
    Ok(messages)
}

fn decode_heartbeats(mut payload: Bytes) -> Result<Vec<(RaftGroup, PeerMessage)>, FrameError> {
    let bad = cut_off(FrameKind::Heartbeats, payload.len());
    if payload.len() > HEARTBEATS_BYTES_MAX {
        return Err(bad);
    }
    let mut heartbeats = Vec::with_capacity(payload.len() / HEARTBEAT_FIXED_BYTES);
    while !payload.is_empty() {
        if payload.len() < HEARTBEAT_FIXED_BYTES {
            return Err(bad);
        }
        let group = get_group(&mut payload);
        let answer = payload.get_u8() != 0;
        let (from, to) = (ReplicaId(payload.get_u64_le()), ReplicaId(payload.get_u64_le()));
        let (term, commit) = (payload.get_u64_le(), payload.get_u64_le());
        let context = payload.get_u8() as usize;
        if context > payload.len() || term > TERM_MAX {
            return Err(bad);
        }
        let context = payload.split_to(context);
        heartbeats.push((group, Heartbeat { answer, from, to, term, commit, context }.into()));
    }
    Ok(heartbeats)
}

fn decode_leading(mut payload: Bytes) -> Result<Frame, FrameError> {
    let bad = cut_off(FrameKind::Leading, payload.len());
    if payload.is_empty() || !(payload.len() - 1).is_multiple_of(LEADING_ROW_BYTES) {
        return Err(bad);
    }
    let complete = payload.get_u8() != 0;
    let mut groups = Vec::with_capacity(payload.len() / LEADING_ROW_BYTES);
    while !payload.is_empty() {
        let group = get_group(&mut payload);
        groups.push((group, LeaderEpoch(payload.get_i32_le())));
    }
    Ok(Frame::Leading { complete, groups })
}

fn put_group(out: &mut BytesMut, group: RaftGroup) {
    out.put_slice(&group.topic.0);
    out.put_i32_le(group.partition.0);
}

/// `from` has at least [`GROUP_BYTES`] bytes.
fn get_group(from: &mut Bytes) -> RaftGroup {
    let mut topic = [0; 16];
    from.copy_to_slice(&mut topic);
    RaftGroup { topic: TopicId(topic), partition: PartitionId(from.get_i32_le()) }
}
