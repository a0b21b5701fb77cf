//! What may change in a stream's configuration.

use super::check::rule;
use super::request::single;
use super::{Discard, OtherStreams, Retention, StreamConfig, StreamLimits};
use crate::consumer_config::ConsumerConfig;
use crate::error::{ApiError, ErrorKind};

impl StreamConfig {
    /// The configuration that replaces the old one.
    pub(super) fn checked_against(
        self,
        old: &Self,
        others: &dyn OtherStreams,
        limits: &StreamLimits,
        pedantic: bool,
    ) -> Result<Self, ApiError> {
        let mut config = self.checked(others, limits, pedantic)?;
        if config.name != old.name {
            return rule("stream configuration name must match original");
        }
        single(&config, limits)?;
        config.check_fixed(old)?;
        if config.sealed {
            config.seal();
        }
        Ok(config)
    }

    fn check_fixed(&self, old: &Self) -> Result<(), ApiError> {
        let queue = [self.retention, old.retention].contains(&Retention::WorkQueue);
        let per_subject = self.discard_new_per_subject;
        let rules = [
            (self.storage != old.storage, "stream configuration update can not change storage type"),
            (
                self.retention != old.retention && queue,
                "stream configuration update can not change retention policy to/from workqueue",
            ),
            (old.sealed && !self.sealed, "stream configuration update can not unseal a sealed stream"),
            (
                old.deny_delete && !self.deny_delete,
                "stream configuration update can not cancel deny message deletes",
            ),
            (old.deny_purge && !self.deny_purge, "stream configuration update can not cancel deny purge"),
        ];
        broken(&rules)?;
        if self.mirror.is_some() && self.mirror != old.mirror {
            return Err(ErrorKind::StreamMirrorNotUpdatable.into());
        }
        broken(&[
            (
                per_subject && self.discard != Discard::New,
                "discard new per subject requires discard new policy to be set",
            ),
            (
                per_subject && self.max_msgs_per_subject <= 0,
                "discard new per subject requires max msgs per subject > 0",
            ),
            (old.allow_msg_ttl && !self.allow_msg_ttl, "message TTL status can not be disabled"),
            (
                old.allow_msg_counter != self.allow_msg_counter,
                "stream configuration update can not change message counter setting",
            ),
            (old.allow_msg_schedules && !self.allow_msg_schedules, "message schedules can not be disabled"),
            (
                old.persist_mode != self.persist_mode,
                "stream configuration update can not change persist mode",
            ),
        ])
    }

    fn seal(&mut self) {
        self.max_age = 0;
        self.discard = Discard::New;
        (self.deny_delete, self.deny_purge) = (true, true);
        self.allow_rollup_hdrs = false;
    }

    /// New limits for consumers must hold for those that there are.
    pub(super) fn check_consumers<'a>(
        &self,
        old: &Self,
        consumers: impl Iterator<Item = (&'a str, &'a ConsumerConfig)>,
    ) -> Result<(), ApiError> {
        let (new, old) = (self.consumer_limits, old.consumer_limits);
        let changed = |new: i64, old: i64| new > 0 && new != old;
        if !changed(new.inactive_threshold, old.inactive_threshold)
            && !changed(new.max_ack_pending, old.max_ack_pending)
        {
            return Ok(());
        }
        let violates = |config: &ConsumerConfig| {
            (new.inactive_threshold > 0 && config.inactive_threshold > new.inactive_threshold)
                || (new.max_ack_pending > 0 && config.max_ack_pending > new.max_ack_pending)
        };
        let names: Vec<_> = consumers.filter(|(_, config)| violates(config)).map(|(name, _)| name).collect();
        if names.is_empty() {
            return Ok(());
        }
        let text = format!("change to limits violates consumers: {}", names.join(", "));
        Err(ApiError::because(ErrorKind::StreamUpdate, text))
    }
}

fn broken(rules: &[(bool, &str)]) -> Result<(), ApiError> {
    rules.iter().find(|(holds, _)| *holds).map_or(Ok(()), |(_, text)| rule(text))
}
