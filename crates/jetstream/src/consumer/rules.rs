//! What a consumer's configuration comes down to, and the bounds that the node sets.

use std::sync::Arc;

/// When a delivered message counts as done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AckPolicy {
    /// When it is delivered.
    None,
    /// When it, or a later one, is acknowledged.
    All,
    /// When it is acknowledged itself.
    Explicit,
    /// When the client answers a flow control request (nats-server 2.15, for sources).
    FlowControl,
}

/// How the stream keeps messages, as far as acknowledgements matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retention {
    /// Acknowledgements change nothing.
    Limits,
    /// A message goes when all interested consumers are done with it.
    Interest,
    /// A message goes when its consumer is done with it.
    WorkQueue,
}

/// Where the consumer starts. It matters for a reset only: the caller computes the start itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartRule {
    /// At the first message.
    All,
    /// At this sequence.
    Sequence(u64),
    /// At a time.
    Time,
    /// Last, new, last per subject.
    Other,
}

/// Which of the waiting pull requests gets a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PriorityPolicy {
    /// The next one in turn.
    None,
    /// The next one in turn whose `min_pending` or `min_ack_pending` is reached.
    Overflow,
    /// Only requests of the client that holds the pin.
    Pinned,
    /// The next one in turn among those with the lowest `priority`.
    Prioritized,
}

/// A pull consumer's limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PullRules {
    /// Maximum number of requests that wait (`max_waiting`).
    pub waiting_max: u32,
    /// Maximum batch of a request. 0: none (`max_batch`).
    pub batch_max: i64,
    /// Maximum life of a request in ns. 0: none (`max_expires`).
    pub expires_max_ns: i64,
    /// Maximum `max_bytes` of a request. 0: none (`max_bytes`).
    pub bytes_max: i64,
    /// The policy of priority groups.
    pub priority: PriorityPolicy,
    /// The groups' names.
    pub groups: Vec<Arc<str>>,
    /// How long a pin stays without a request of its owner, in ns (`priority_timeout`).
    pub pin_ns: i64,
}

/// A push consumer's settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PushRules {
    /// The subject that messages are sent to.
    pub deliver: Arc<str>,
    /// The queue group at that subject. The caller chooses its member.
    pub group: Option<Arc<str>>,
    /// Whether the client must answer for what it received.
    pub flow_control: bool,
    /// The interval of heartbeats in ns. 0: none.
    pub heartbeat_ns: i64,
    /// Maximum rate in bits per second. 0: none.
    pub rate_bps: u64,
}

/// How messages reach clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Clients ask for them.
    Pull(PullRules),
    /// They are sent.
    Push(PushRules),
}

/// A consumer's configuration, normalised. Durations are in ns, counts without limit are 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    /// When messages are done.
    pub ack: AckPolicy,
    /// How long an acknowledgement is waited for.
    pub ack_wait_ns: i64,
    /// The wait after each delivery, in place of `ack_wait_ns`. The last one repeats.
    pub backoff_ns: Vec<i64>,
    /// Maximum number of deliveries of a message. 0: any.
    pub max_deliver: u32,
    /// Maximum number of messages that wait for acknowledgements. 0: as many as [`Bounds::pending_max`].
    pub max_ack_pending: u32,
    /// Pull or push.
    pub mode: Mode,
    /// Whether only headers are delivered.
    pub headers_only: bool,
    /// Whether the pauses between the timestamps are kept while catching up.
    pub replay_original: bool,
    /// The share of acknowledgements to report, in per cent.
    pub sample_percent: u8,
    /// How long the consumer lives unused, in ns. 0: for ever.
    pub inactive_ns: i64,
    /// Where it starts.
    pub start: StartRule,
    /// The stream's retention.
    pub retention: Retention,
    /// Whether the state survives this leader. If not, nothing has to be saved.
    pub durable: bool,
}

impl Rules {
    /// Returns the wait after the delivery with this number, in ns.
    pub(super) fn wait_ns(&self, deliveries: u32) -> i64 {
        let last = self.backoff_ns.len().checked_sub(1);
        let index = last.map(|last| last.min((deliveries.max(1) - 1) as usize));
        index.and_then(|index| self.backoff_ns.get(index)).copied().unwrap_or(self.ack_wait_ns)
    }

    pub(super) fn pull(&self) -> Option<&PullRules> {
        match &self.mode {
            Mode::Pull(pull) => Some(pull),
            Mode::Push(_) => None,
        }
    }

    pub(super) fn push(&self) -> Option<&PushRules> {
        match &self.mode {
            Mode::Push(push) => Some(push),
            Mode::Pull(_) => None,
        }
    }

    pub(super) fn priority(&self) -> PriorityPolicy {
        self.pull().map_or(PriorityPolicy::None, |pull| pull.priority)
    }

    /// True if messages that are done have to be reported.
    pub(super) fn reports_done(&self) -> bool {
        self.retention != Retention::Limits
    }
}

/// Bounds of the node on what one consumer may hold, whatever its configuration says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Maximum number of waiting pull requests, about 200 bytes each.
    pub waiting_max: u32,
    /// Maximum number of messages that wait for acknowledgements, about 60 bytes each.
    pub pending_max: u32,
    /// Maximum number of acknowledged ranges between and ahead of pending messages, about 40 bytes each.
    pub ranges_max: u32,
    /// Maximum number of given-up messages of which late acknowledgements still count, about 40 bytes each.
    /// The oldest are forgotten: they then stay in the stream until something else removes them.
    pub given_up_max: u32,
    /// Maximum size of a pull request in bytes.
    pub request_bytes_max: u32,
    /// By how many the durable upper bound of consumer sequences is raised at a time.
    pub reserve_step: u64,
    /// Minimum time between two heartbeats of a pull request, in ns.
    pub heartbeat_min_ns: i64,
    /// The size in bytes that a rate limit lets through at once: the largest message.
    pub burst_bytes: u64,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            waiting_max: 16_384,
            pending_max: 131_072,
            ranges_max: 131_072,
            given_up_max: 16_384,
            request_bytes_max: 16 * 1024,
            reserve_step: 8192,
            heartbeat_min_ns: 10_000_000,
            burst_bytes: 1 << 20,
        }
    }
}
