//! Which configurations of consumers are legal, in the order of nats-server's rules.

use super::defaults::SOURCE_HEARTBEAT;
use super::request::ConsumerLimitsInForce;
use super::{AckPolicy, ConsumerConfig, DeliverPolicy, PriorityPolicy};
use crate::error::{ApiError, ErrorKind};
use crate::go::{MILLISECOND, format_duration, parse_int, quote};
use crate::limits::{DESCRIPTION_BYTES_MAX, METADATA_BYTES_MAX};
use crate::stream::metadata::size;
use crate::stream::{ConsumerLimits, Retention, StreamConfig};
use crate::subject::{is_literal, is_subset, is_valid, is_valid_name};

const GROUP_BYTES_MAX: usize = 16;

/// Reports whether a priority group may be named so.
pub(crate) fn is_group_name(name: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'_' | b'=' | b'-');
    (1..=GROUP_BYTES_MAX).contains(&name.len()) && name.bytes().all(legal)
}

fn broken(rules: &[(bool, ErrorKind)]) -> Result<(), ApiError> {
    rules.iter().find(|(holds, _)| *holds).map_or(Ok(()), |(_, kind)| Err((*kind).into()))
}

fn rule(text: &str) -> Result<(), ApiError> {
    Err(ApiError::because(ErrorKind::StreamInvalidConfig, text))
}

fn limit(kind: ErrorKind, most: impl ToString) -> ApiError {
    ApiError::with(kind, &[("{limit}", &most.to_string())])
}

impl ConsumerConfig {
    /// Checks a configuration whose defaults are filled in.
    pub(super) fn check(
        &self,
        stream: &StreamConfig,
        limits: &ConsumerLimitsInForce,
    ) -> Result<(), ApiError> {
        self.check_names()?;
        self.check_replicas(stream)?;
        broken(&[
            (self.backoff.iter().any(|wait| *wait < 0), ErrorKind::ConsumerBackOffNegative),
            (self.ack_wait < 0, ErrorKind::ConsumerAckWaitNegative),
        ])?;
        self.check_flow_control_acks()?;
        let steps = i64::try_from(self.backoff.len()).unwrap_or(i64::MAX);
        if steps > 0 && self.max_deliver != -1 && steps > self.max_deliver {
            return Err(ErrorKind::ConsumerMaxDeliverBackoff.into());
        }
        if self.description.len() > DESCRIPTION_BYTES_MAX {
            let most = DESCRIPTION_BYTES_MAX.to_string();
            return Err(ApiError::with(ErrorKind::ConsumerDescriptionTooLong, &[("{max}", &most)]));
        }
        if self.is_push() {
            self.check_push(stream)?
        } else {
            self.check_pull(stream, limits)?
        }
        self.check_bounds(&stream.consumer_limits, limits)?;
        let ephemeral_push = [
            (self.direct && !self.is_push(), ErrorKind::ConsumerDirectRequiresPush),
            (self.direct && self.is_durable(), ErrorKind::ConsumerDirectRequiresEphemeral),
        ];
        broken(&ephemeral_push)?;
        self.check_filters()?;
        self.check_start()?;
        self.check_sampling()?;
        self.check_rest()?;
        self.check_priorities()
    }

    fn check_names(&self) -> Result<(), ApiError> {
        if !self.name.is_empty() && !is_valid_name(&self.name) {
            return rule("consumer name can not contain '.', '*', '>', '\\', '/'");
        }
        if !self.durable_name.is_empty() && !is_valid_name(&self.durable_name) {
            return rule("consumer durable name can not contain '.', '*', '>', '\\', '/'");
        }
        Ok(())
    }

    fn check_replicas(&self, stream: &StreamConfig) -> Result<(), ApiError> {
        let (ours, theirs) = (self.num_replicas, stream.num_replicas);
        broken(&[
            (ours > 0 && ours > theirs, ErrorKind::ConsumerReplicasExceedsStream),
            (ours < 0, ErrorKind::ReplicasCountCannotBeNegative),
            (
                stream.retention != Retention::Limits && ours != 0 && ours != theirs,
                ErrorKind::ConsumerReplicasShouldMatchStream,
            ),
        ])
    }

    fn check_flow_control_acks(&self) -> Result<(), ApiError> {
        if self.ack_policy != AckPolicy::FlowControl {
            return Ok(());
        }
        broken(&[
            (!self.is_push(), ErrorKind::ConsumerAckFcRequiresPush),
            (!self.flow_control, ErrorKind::ConsumerAckFcRequiresFc),
        ])?;
        if self.idle_heartbeat != SOURCE_HEARTBEAT {
            return rule("flow control ack policy heartbeat needs to be 1s");
        }
        broken(&[
            (self.max_ack_pending <= 0, ErrorKind::ConsumerAckFcRequiresMaxAckPending),
            (self.ack_wait != 0 || !self.backoff.is_empty(), ErrorKind::ConsumerAckFcRequiresNoAckWait),
            (self.max_deliver > 0, ErrorKind::ConsumerAckFcRequiresNoMaxDeliver),
        ])
    }

    fn check_push(&self, stream: &StreamConfig) -> Result<(), ApiError> {
        let to = &self.deliver_subject;
        let small = self.idle_heartbeat > 0 && self.idle_heartbeat < 100 * MILLISECOND;
        let cycle = || stream.subjects.iter().any(|subject| is_subset(to, subject));
        broken(&[
            (!is_literal(to), ErrorKind::ConsumerDeliverToWildcards),
            (!is_valid(to), ErrorKind::ConsumerInvalidDeliverSubject),
            (cycle(), ErrorKind::ConsumerDeliverCycle),
            (self.max_waiting != 0, ErrorKind::ConsumerPushMaxWaiting),
            (
                self.max_ack_pending > 0 && self.ack_policy == AckPolicy::None,
                ErrorKind::ConsumerMaxPendingAckPolicyRequired,
            ),
            (small, ErrorKind::ConsumerSmallHeartbeat),
        ])
    }

    fn check_pull(&self, stream: &StreamConfig, limits: &ConsumerLimitsInForce) -> Result<(), ApiError> {
        let queue = stream.retention == Retention::WorkQueue;
        broken(&[
            (queue && self.ack_policy == AckPolicy::None, ErrorKind::ConsumerPullRequiresAck),
            (self.rate_limit_bps > 0, ErrorKind::ConsumerPullWithRateLimit),
            (self.idle_heartbeat > 0, ErrorKind::ConsumerHbRequiresPush),
            (self.flow_control, ErrorKind::ConsumerFcRequiresPush),
            (
                self.max_expires != 0 && self.max_expires < MILLISECOND,
                ErrorKind::ConsumerMaxRequestExpiresTooSmall,
            ),
        ])?;
        match limits.max_request_batch.filter(|most| self.max_batch > *most) {
            Some(most) => Err(limit(ErrorKind::ConsumerMaxRequestBatchExceeded, most)),
            None => Ok(()),
        }
    }

    fn check_bounds(&self, stream: &ConsumerLimits, limits: &ConsumerLimitsInForce) -> Result<(), ApiError> {
        let stream_pending = (stream.max_ack_pending > 0).then_some(stream.max_ack_pending);
        let bounds = [limits.server_max_ack_pending, limits.account_max_ack_pending, stream_pending];
        if let Some(most) = bounds.into_iter().flatten().find(|most| self.max_ack_pending > *most) {
            return Err(limit(ErrorKind::ConsumerMaxPendingAckExcess, most));
        }
        let most = stream.inactive_threshold;
        if most > 0 && self.inactive_threshold > most {
            return Err(limit(ErrorKind::ConsumerInactiveThresholdExcess, format_duration(most)));
        }
        Ok(())
    }

    fn check_filters(&self) -> Result<(), ApiError> {
        const BAD: &str = "invalid subject";
        if !self.filter_subject.is_empty() && !self.filter_subjects.is_empty() {
            return Err(ErrorKind::ConsumerDuplicateFilterSubjects.into());
        }
        if !self.filter_subject.is_empty() && !is_valid(&self.filter_subject) {
            return rule(BAD);
        }
        if self.filter_subjects.iter().any(String::is_empty) {
            return Err(ErrorKind::ConsumerEmptyFilter.into());
        }
        for (at, subject) in self.filter_subjects.iter().enumerate() {
            if !is_valid(subject) {
                return rule(BAD);
            }
            let mut others = self.filter_subjects.iter().enumerate().filter(|(other, _)| *other != at);
            if others.any(|(_, other)| is_subset(subject, other)) {
                return Err(ErrorKind::ConsumerOverlappingSubjectFilters.into());
            }
        }
        Ok(())
    }

    fn check_start(&self) -> Result<(), ApiError> {
        let policy = |text: String| Err(ApiError::because(ErrorKind::ConsumerInvalidPolicy, text));
        let name = match self.deliver_policy {
            DeliverPolicy::All => "all",
            DeliverPolicy::Last => "last",
            DeliverPolicy::New => "new",
            DeliverPolicy::ByStartSequence => "by start sequence",
            DeliverPolicy::ByStartTime => "by start time",
            DeliverPolicy::LastPerSubject => "last per subject",
        };
        let too_much = |what: &str| {
            policy(format!(
                "consumer delivery policy is deliver {name}, but optional start {what} is also set"
            ))
        };
        let missing = |what: &str| {
            policy(format!("consumer delivery policy is deliver {name}, but optional {what} is not set"))
        };
        let (sequence, time) = (self.opt_start_seq > 0, self.opt_start_time.is_some());
        match self.deliver_policy {
            DeliverPolicy::ByStartSequence if !sequence => missing("start sequence"),
            DeliverPolicy::ByStartSequence if time => too_much("time"),
            DeliverPolicy::ByStartTime if !time => missing("start time"),
            // "start start" is nats-server's.
            DeliverPolicy::ByStartTime if sequence => too_much("start sequence"),
            DeliverPolicy::ByStartSequence | DeliverPolicy::ByStartTime => Ok(()),
            _ if sequence => too_much("sequence"),
            _ if time => too_much("time"),
            DeliverPolicy::LastPerSubject if self.filters().next().is_none() => missing("filter subject"),
            _ => Ok(()),
        }
    }

    fn check_sampling(&self) -> Result<(), ApiError> {
        if self.sample_freq.is_empty() {
            return Ok(());
        }
        let text = self.sample_freq.strip_suffix('%').unwrap_or(&self.sample_freq);
        let reason = match parse_int(text) {
            Some(0..) => return Ok(()),
            // Go prints the error that there is not.
            Some(_) => "<nil>".to_owned(),
            None => {
                let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
                let number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
                let why = if number { "value out of range" } else { "invalid syntax" };
                format!("strconv.Atoi: parsing {}: {why}", quote(text.as_bytes()))
            }
        };
        Err(ApiError::because(ErrorKind::ConsumerInvalidSampling, reason))
    }

    fn check_rest(&self) -> Result<(), ApiError> {
        let named_twice = self.is_durable() && !self.name.is_empty() && self.name != self.durable_name;
        broken(&[
            (
                self.flow_control && self.idle_heartbeat == 0,
                ErrorKind::ConsumerWithFlowControlNeedsHeartbeats,
            ),
            (named_twice, ErrorKind::ConsumerCreateDurableAndNameMismatch),
        ])?;
        if size(&self.metadata) > METADATA_BYTES_MAX {
            let most = format!("{}KB", METADATA_BYTES_MAX / 1024);
            return Err(limit(ErrorKind::ConsumerMetadataLength, most));
        }
        Ok(())
    }

    fn check_priorities(&self) -> Result<(), ApiError> {
        if self.priority_policy == PriorityPolicy::None {
            return broken(&[
                (!self.priority_groups.is_empty(), ErrorKind::ConsumerPriorityGroupWithPolicyNone),
                (self.priority_timeout > 0, ErrorKind::ConsumerPinnedTtlWithoutPriorityPolicyNone),
            ]);
        }
        broken(&[
            (self.is_push(), ErrorKind::ConsumerPushWithPriorityGroup),
            (self.priority_groups.is_empty(), ErrorKind::ConsumerPriorityPolicyWithoutGroup),
        ])?;
        for group in &self.priority_groups {
            broken(&[
                (group.is_empty(), ErrorKind::ConsumerEmptyGroupName),
                (!is_group_name(group), ErrorKind::ConsumerInvalidGroupName),
            ])?;
        }
        Ok(())
    }
}
