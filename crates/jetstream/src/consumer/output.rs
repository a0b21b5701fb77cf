//! What a consumer asks its caller to send.

use std::fmt;
use std::sync::Arc;

use super::advisory::Advisory;
use crate::go::format_duration;

/// The current time and a random value, for one call.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// Nanoseconds since 1970.
    pub now_ns: i64,
    /// Fresh random bits: for pins, flow control subjects and samples.
    pub random: u64,
}

impl Moment {
    /// Returns further random bits, another value for each `step`.
    pub(super) fn random(self, step: u64) -> u64 {
        let mut z = self.random.wrapping_add(step.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

/// A message to deliver. The caller reads it, and sends it under its own subject to the subscription of `to`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The inbox, or the deliver subject.
    pub to: Arc<str>,
    /// The message.
    pub stream_seq: u64,
    /// The delivery's own number.
    pub consumer_seq: u64,
    /// How often the message has been delivered, this time included.
    pub deliveries: u32,
    /// The message's timestamp in ns.
    pub timestamp_ns: i64,
    /// How many matching messages come after this one.
    pub pending: u64,
    /// True if the body is left out, and `Nats-Msg-Size` added.
    pub headers_only: bool,
    /// The value of a header `Nats-Pin-Id` to add.
    pub pin: Option<Arc<str>>,
    /// True if the pull request that gets it is served with it, and no status follows.
    pub is_last: bool,
}

/// A status message, without a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The inbox, or the deliver subject.
    pub to: Arc<str>,
    /// What it says.
    pub kind: StatusKind,
}

impl Status {
    /// Returns the reply subject of the message: only flow control requests have one.
    pub fn reply(&self) -> Option<&Arc<str>> {
        match &self.kind {
            StatusKind::FlowControl { answer } => Some(answer),
            _ => None,
        }
    }

    /// Returns the header block.
    pub fn block(&self) -> String {
        format!("NATS/1.0 {} {}\r\n{}\r\n", self.kind.code(), self.kind, Headers(&self.kind))
    }
}

/// What was not served of a pull request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unserved {
    /// Messages.
    pub messages: i64,
    /// Bytes.
    pub bytes: i64,
}

/// The statuses of nats-server 2.15.2. Clients compare their texts.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the texts say it")]
pub enum StatusKind {
    NoMessages,
    RequestsPending,
    RequestTimeout(Unserved),
    InterestExpired(Unserved),
    MessageSizeExceedsMaxBytes(Unserved),
    BatchCompleted(Unserved),
    ExceededMaxWaiting,
    ExceededMaxRequestBatch(i64),
    ExceededMaxRequestExpires { limit_ns: i64 },
    ExceededMaxRequestMaxBytes(i64),
    ConsumerDeleted,
    ConsumerIsPushBased,
    LeadershipChange,
    ServerShutdown(Unserved),
    BadRequest(BadRequest),
    PinIdMismatch,
    WrongPinId(Unserved),
    IdleHeartbeat { consumer_seq: u64, stream_seq: u64, stalled: Option<Arc<str>> },
    FlowControl { answer: Arc<str> },
}

/// Why a pull request is refused with 400.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the texts say it")]
pub enum BadRequest {
    HeartbeatTooLarge,
    NotOverflow,
    NotPinned,
    PriorityOutOfRange,
    GroupMissing,
    InvalidGroup,
    /// The body is longer than [`super::Bounds::request_bytes_max`].
    TooLarge,
    /// The decoder's text.
    Json(String),
}

impl fmt::Display for BadRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::HeartbeatTooLarge => "heartbeat value too large",
            Self::NotOverflow => "Not a Overflow Priority consumer",
            Self::NotPinned => "Not a Pinned Client Priority consumer",
            Self::PriorityOutOfRange => "Priority must be between 0 and 9",
            Self::GroupMissing => "Priority Group missing",
            Self::InvalidGroup => "Invalid Priority Group",
            Self::TooLarge => "request too large",
            Self::Json(text) => text,
        })
    }
}

impl StatusKind {
    /// Returns the code.
    pub fn code(&self) -> u16 {
        match self {
            Self::IdleHeartbeat { .. } | Self::FlowControl { .. } => 100,
            Self::BadRequest(_) => 400,
            Self::NoMessages => 404,
            Self::RequestsPending | Self::RequestTimeout(_) | Self::InterestExpired(_) => 408,
            Self::MessageSizeExceedsMaxBytes(_)
            | Self::BatchCompleted(_)
            | Self::ExceededMaxWaiting
            | Self::ExceededMaxRequestBatch(_)
            | Self::ExceededMaxRequestExpires { .. }
            | Self::ExceededMaxRequestMaxBytes(_)
            | Self::ConsumerDeleted
            | Self::ConsumerIsPushBased
            | Self::LeadershipChange
            | Self::ServerShutdown(_) => 409,
            Self::PinIdMismatch | Self::WrongPinId(_) => 423,
        }
    }

    fn unserved(&self) -> Option<Unserved> {
        match self {
            Self::RequestTimeout(unserved)
            | Self::InterestExpired(unserved)
            | Self::MessageSizeExceedsMaxBytes(unserved)
            | Self::BatchCompleted(unserved)
            | Self::ServerShutdown(unserved)
            | Self::WrongPinId(unserved) => Some(*unserved),
            _ => None,
        }
    }
}

impl fmt::Display for StatusKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::NoMessages => "No Messages",
            Self::RequestsPending => "Requests Pending",
            Self::RequestTimeout(_) => "Request Timeout",
            Self::InterestExpired(_) => "Interest Expired",
            Self::MessageSizeExceedsMaxBytes(_) => "Message Size Exceeds MaxBytes",
            Self::BatchCompleted(_) => "Batch Completed",
            Self::ExceededMaxWaiting => "Exceeded MaxWaiting",
            Self::ExceededMaxRequestBatch(limit) => {
                return write!(f, "Exceeded MaxRequestBatch of {limit}");
            }
            Self::ExceededMaxRequestExpires { limit_ns } => {
                return write!(f, "Exceeded MaxRequestExpires of {}", format_duration(*limit_ns));
            }
            Self::ExceededMaxRequestMaxBytes(limit) => {
                return write!(f, "Exceeded MaxRequestMaxBytes of {limit}");
            }
            Self::ConsumerDeleted => "Consumer Deleted",
            Self::ConsumerIsPushBased => "Consumer is push based",
            Self::LeadershipChange => "Leadership Change",
            Self::ServerShutdown(_) => "Server Shutdown",
            Self::BadRequest(reason) => return write!(f, "Bad Request - {reason}"),
            Self::PinIdMismatch => "Nats-Pin-Id mismatch",
            Self::WrongPinId(_) => "Nats-Wrong-Pin-Id",
            Self::IdleHeartbeat { .. } => "Idle Heartbeat",
            Self::FlowControl { .. } => "FlowControl Request",
        };
        f.write_str(text)
    }
}

/// The lines after the first, each with its end.
struct Headers<'a>(&'a StatusKind);

impl fmt::Display for Headers<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(Unserved { messages, bytes }) = self.0.unserved() {
            write!(f, "Nats-Pending-Messages: {messages}\r\nNats-Pending-Bytes: {bytes}\r\n")?;
        }
        if let StatusKind::IdleHeartbeat { consumer_seq, stream_seq, stalled } = self.0 {
            write!(f, "Nats-Last-Consumer: {consumer_seq}\r\nNats-Last-Stream: {stream_seq}\r\n")?;
            if let Some(subject) = stalled {
                write!(f, "Nats-Consumer-Stalled: {subject}\r\n")?;
            }
        }
        Ok(())
    }
}

/// One thing to send or to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Send {
    /// Deliver a message.
    Message(Delivery),
    /// Send a status.
    Status(Status),
    /// Send an empty message: the answer to an acknowledgement.
    Empty {
        /// The reply subject of the acknowledgement.
        to: Arc<str>,
    },
    /// Publish an advisory, if somebody listens.
    Advisory(Advisory),
    /// This consumer is done with messages, of a stream with interest or work-queue retention: with those in
    /// `first..=last` that match its filter and that [`super::Consumer::needs`] does not name.
    Done {
        /// The first.
        first: u64,
        /// The last.
        last: u64,
    },
    /// Nobody has used the consumer for its inactive threshold: delete it.
    Inactive,
}

/// What calls leave to be done, in order.
#[derive(Clone, Debug, Default)]
pub struct Outbox {
    /// To be done at once.
    pub now: Vec<Send>,
    /// To be done when the state has been saved: see [`super::Consumer::encode_update`]. If the state is lost
    /// instead, these are dropped.
    pub after_save: Vec<Send>,
}

impl Outbox {
    pub(super) fn status(&mut self, to: &Arc<str>, kind: StatusKind) {
        self.now.push(Send::Status(Status { to: Arc::clone(to), kind }));
    }

    pub(super) fn advise(&mut self, advisory: Advisory) {
        self.now.push(Send::Advisory(advisory));
    }
}
