//! What a consumer's configuration comes down to for its state machine.

use std::sync::Arc;

use tailrace_config::BrokerConfig;
use tailrace_jetstream::consumer::{
    AckPolicy, Bounds, Mode, PriorityPolicy, PullRules, PushRules, Retention, Rules, Start, StartRule,
};
use tailrace_jetstream::consumer_config::{
    AckPolicy as ConfiguredAck, ConsumerConfig, DeliverPolicy, PriorityPolicy as ConfiguredPriority,
    ReplayPolicy,
};
use tailrace_jetstream::contents::{Contents, Filter};

/// The node's bounds of each consumer.
pub(super) fn bounds(config: &BrokerConfig) -> Bounds {
    let pending_max = config.tailrace_jetstream_consumer_ack_pending_max.min(PENDING_MAX);
    let waiting_max = config.tailrace_jetstream_pulls_max;
    Bounds { pending_max, waiting_max, reserve_step: RESERVE_STEP, ..Bounds::default() }
}

/// Messages without an acknowledgement that one consumer may have, whatever it asks for and the settings
/// allow: its state is saved as one record. It waits for acknowledgements then.
const PENDING_MAX: u32 = 524_288;

/// Numbers of deliveries that are reserved at a time. After half of them the next ones are. A faster consumer
/// waits for that.
const RESERVE_STEP: u64 = 65_536;

/// The rules of a consumer. Others than durable ones, and those that are to be in memory, are lost with the
/// stream's leader.
pub(super) fn of(config: &ConsumerConfig) -> Rules {
    Rules {
        ack: match config.ack_policy {
            ConfiguredAck::None => AckPolicy::None,
            ConfiguredAck::All => AckPolicy::All,
            ConfiguredAck::Explicit => AckPolicy::Explicit,
            ConfiguredAck::FlowControl => AckPolicy::FlowControl,
        },
        ack_wait_ns: config.ack_wait,
        backoff_ns: config.backoff.clone(),
        max_deliver: at_least_zero(config.max_deliver),
        max_ack_pending: at_least_zero(config.max_ack_pending),
        mode: if config.is_push() { Mode::Push(push(config)) } else { Mode::Pull(pull(config)) },
        headers_only: config.headers_only,
        replay_original: config.replay_policy == ReplayPolicy::Original,
        sample_percent: sample_percent(&config.sample_freq),
        inactive_ns: config.inactive_threshold,
        start: match config.deliver_policy {
            DeliverPolicy::All => StartRule::All,
            DeliverPolicy::ByStartSequence => StartRule::Sequence(config.opt_start_seq),
            DeliverPolicy::ByStartTime => StartRule::Time,
            DeliverPolicy::Last | DeliverPolicy::New | DeliverPolicy::LastPerSubject => StartRule::Other,
        },
        retention: Retention::Limits,
        durable: !config.durable_name.is_empty() && !config.mem_storage,
    }
}

/// The share of acknowledgements that are told. The configuration was checked: it is nothing, or a number
/// that may end in a percent sign.
fn sample_percent(text: &str) -> u8 {
    let number = text.strip_suffix('%').unwrap_or(text).parse::<u64>().unwrap_or(0);
    u8::try_from(number.min(100)).unwrap_or(100)
}

fn at_least_zero(value: i64) -> u32 {
    u32::try_from(value.max(0)).unwrap_or(u32::MAX)
}

fn pull(config: &ConsumerConfig) -> PullRules {
    PullRules {
        waiting_max: at_least_zero(config.max_waiting),
        batch_max: config.max_batch,
        expires_max_ns: config.max_expires,
        bytes_max: config.max_bytes,
        priority: match config.priority_policy {
            ConfiguredPriority::None => PriorityPolicy::None,
            ConfiguredPriority::Overflow => PriorityPolicy::Overflow,
            ConfiguredPriority::PinnedClient => PriorityPolicy::Pinned,
            ConfiguredPriority::Prioritized => PriorityPolicy::Prioritized,
        },
        groups: config.priority_groups.iter().map(|group| Arc::from(&**group)).collect(),
        pin_ns: config.priority_timeout,
    }
}

fn push(config: &ConsumerConfig) -> PushRules {
    PushRules {
        deliver: config.deliver_subject.as_str().into(),
        group: (!config.deliver_group.is_empty()).then(|| config.deliver_group.as_str().into()),
        flow_control: config.flow_control,
        heartbeat_ns: config.idle_heartbeat,
        rate_bps: config.rate_limit_bps,
    }
}

/// Where a new consumer starts, as nats-server chooses it.
pub(super) fn start(config: &ConsumerConfig, filters: &[Filter], contents: &Contents) -> Start {
    let summary = contents.summary();
    let (first, last) = (summary.first_seq, summary.last_seq);
    let wanted = match config.deliver_policy {
        DeliverPolicy::ByStartSequence => {
            // A sequence in the future stays one.
            return Start { first: config.opt_start_seq.max(first), cut: None };
        }
        DeliverPolicy::All => first,
        DeliverPolicy::New => last + 1,
        DeliverPolicy::Last if filters.is_empty() => last,
        DeliverPolicy::Last => {
            filters.iter().filter_map(|filter| contents.last_matching(filter)).max().unwrap_or(0)
        }
        DeliverPolicy::LastPerSubject => {
            return match contents.next_last(filters, first, last) {
                Some(found) => Start { first: found.seq, cut: Some(last) },
                None => Start { first: last + 1, cut: None },
            };
        }
        DeliverPolicy::ByStartTime => {
            let nanos = config.opt_start_time.map_or(0, |time| time.to_nanos());
            // Times in the log are whole milliseconds, rounded down.
            contents.first_at(nanos.div_euclid(1_000_000)).unwrap_or(last + 1)
        }
    };
    Start { first: wanted.clamp(first, (last + 1).max(first)), cut: None }
}
