//! What may change in a consumer's configuration.

use super::ConsumerConfig;
use crate::error::{ApiError, ErrorKind};

impl ConsumerConfig {
    /// Checks that this configuration may replace the old one. `bound` says whether somebody listens at the
    /// subject to which the old one delivers.
    pub(super) fn check_against(&self, old: &Self, bound: impl Fn(&str) -> bool) -> Result<(), ApiError> {
        if self == old {
            return Ok(());
        }
        let start_changed = match (self.opt_start_time, old.opt_start_time) {
            (Some(new), Some(old)) => !new.is_same_instant(old),
            (new, old) => new.is_some() || old.is_some(),
        };
        fixed(&[
            (self.deliver_policy != old.deliver_policy, "deliver policy can not be updated"),
            (self.mem_storage != old.mem_storage, "storage type can not be updated"),
            (self.direct != old.direct, "direct can not be updated"),
            (self.sourcing != old.sourcing, "sourcing can not be updated"),
            (self.opt_start_seq != old.opt_start_seq, "start sequence can not be updated"),
            (start_changed, "start time can not be updated"),
            (self.ack_policy != old.ack_policy, "ack policy can not be updated"),
            (self.replay_policy != old.replay_policy, "replay policy can not be updated"),
            (self.idle_heartbeat != old.idle_heartbeat, "heart beats can not be updated"),
            (self.flow_control != old.flow_control, "flow control can not be updated"),
        ])?;
        if self.deliver_subject != old.deliver_subject {
            fixed(&[
                (!old.is_push(), "can not update pull consumer to push based"),
                (!self.is_push(), "can not update push consumer to pull based"),
            ])?;
            if bound(&old.deliver_subject) {
                return Err(ErrorKind::ConsumerNameExist.into());
            }
        }
        fixed(&[(self.max_waiting != old.max_waiting, "max waiting can not be updated")])
    }
}

fn fixed(rules: &[(bool, &str)]) -> Result<(), ApiError> {
    let found = rules.iter().find(|(holds, _)| *holds);
    found.map_or(Ok(()), |(_, text)| Err(ApiError::because(ErrorKind::ConsumerCreate, text)))
}
