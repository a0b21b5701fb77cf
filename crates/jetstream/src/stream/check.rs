//! Which configurations are legal, and what they become: defaults filled in, values out of range adapted.
//! The rules stand in the order of nats-server, because a client hears of the first that is broken.

use super::metadata::size;
use super::{Discard, OtherStreams, PersistMode, Placement, Retention, Storage, StreamConfig, StreamLimits};
use crate::error::{ApiError, ErrorKind};
use crate::go::{MILLISECOND, MINUTE, SECOND, format_duration};
use crate::limits::{DESCRIPTION_BYTES_MAX, METADATA_BYTES_MAX, NAME_BYTES_MAX, REPLICAS_MAX};
use crate::subject::is_valid_name;

const DUPLICATES_DEFAULT: i64 = 2 * MINUTE;
const TIME_MIN: i64 = 100 * MILLISECOND;

/// A rule of 10052, whose text is all that there is.
pub(super) fn rule<T>(text: impl AsRef<str>) -> Result<T, ApiError> {
    Err(ApiError::because(ErrorKind::StreamInvalidConfig, text))
}

/// What would be adapted is refused in pedantic mode.
pub(super) fn pedantry<T>(text: &str) -> Result<T, ApiError> {
    Err(ApiError::because(ErrorKind::Pedantic, text))
}

impl StreamConfig {
    /// The configuration as it would take effect. It may be checked again without changing.
    pub(super) fn checked(
        mut self,
        others: &dyn OtherStreams,
        limits: &StreamLimits,
        pedantic: bool,
    ) -> Result<Self, ApiError> {
        self.check_texts()?;
        self.fill_numbers(pedantic)?;
        self.check_age_and_duplicates(limits, pedantic)?;
        if self.deny_purge && self.allow_rollup_hdrs {
            return rule("roll-ups require the purge permission");
        }
        self.check_counter()?;
        self.check_discard_per_subject()?;
        self.check_markers(pedantic)?;
        self.check_schedules(pedantic)?;
        self.check_persist_mode()?;
        self.check_origins(others, pedantic)?;
        self.check_subjects()?;
        self.check_bytes(limits)?;
        self.check_transform()?;
        self.check_republish(pedantic)?;
        self.check_placement()?;
        Ok(self)
    }

    fn check_texts(&self) -> Result<(), ApiError> {
        if !is_valid_name(&self.name) {
            return rule("stream name is required and can not contain '.', '*', '>', '\\', '/'");
        }
        if self.name.len() > NAME_BYTES_MAX {
            return rule(format!("stream name is too long, maximum allowed is {NAME_BYTES_MAX}"));
        }
        if self.description.len() > DESCRIPTION_BYTES_MAX {
            let most = DESCRIPTION_BYTES_MAX;
            return rule(format!("stream description is too long, maximum allowed is {most}"));
        }
        if size(&self.metadata) > METADATA_BYTES_MAX {
            return rule(format!("stream metadata exceeds maximum size of {METADATA_BYTES_MAX} bytes"));
        }
        Ok(())
    }

    fn fill_numbers(&mut self, pedantic: bool) -> Result<(), ApiError> {
        if self.num_replicas == 0 {
            self.num_replicas = 1;
        }
        if self.num_replicas > REPLICAS_MAX {
            return rule(format!("maximum replicas is {REPLICAS_MAX}"));
        }
        if self.num_replicas < 0 {
            return Err(ErrorKind::ReplicasCountCannotBeNegative.into());
        }
        let mut size = i64::from(self.max_msg_size);
        let unlimited = [
            (&mut self.max_msgs, "max_msgs must be set to -1"),
            (&mut self.max_msgs_per_subject, "max_msgs_per_subject must be set to -1"),
            (&mut self.max_bytes, "max_bytes must be set to -1"),
            (&mut size, "max_msg_size must be set to -1"),
            (&mut self.max_consumers, "max_consumers must be set to -1"),
        ];
        for (value, text) in unlimited {
            if pedantic && *value < -1 {
                return pedantry(text);
            }
            if *value <= 0 {
                *value = -1;
            }
        }
        self.max_msg_size = i32::try_from(size).unwrap_or(i32::MAX);
        Ok(())
    }

    fn check_age_and_duplicates(&mut self, limits: &StreamLimits, pedantic: bool) -> Result<(), ApiError> {
        if self.max_age < 0 {
            return rule("max age can not be negative");
        }
        if self.max_age != 0 && self.max_age < TIME_MIN {
            return rule("max age needs to be >= 100ms");
        }
        if self.duplicate_window == 0 && self.mirror.is_none() && self.sources.is_empty() {
            self.fill_duplicates(limits, pedantic)?;
        }
        if self.duplicate_window < 0 {
            return rule("duplicates window can not be negative");
        }
        if self.max_age != 0 && self.duplicate_window > self.max_age {
            return rule("duplicates window can not be larger then max age");
        }
        if let Some(most) = limits.duplicates_max.filter(|most| self.duplicate_window > *most) {
            let most = format_duration(most);
            return rule(format!("duplicates window can not be larger then server limit of {most}"));
        }
        if self.duplicate_window > 0 && self.duplicate_window < TIME_MIN {
            return rule("duplicates window needs to be >= 100ms");
        }
        Ok(())
    }

    fn fill_duplicates(&mut self, limits: &StreamLimits, pedantic: bool) -> Result<(), ApiError> {
        let mut window = DUPLICATES_DEFAULT;
        if let Some(most) = limits.duplicates_max.filter(|most| window > *most) {
            if pedantic {
                return pedantry("duplicate window limits are higher than current limits");
            }
            window = most;
        }
        if self.max_age != 0 && self.max_age < window {
            if pedantic {
                return pedantry("duplicate window cannot be bigger than max age");
            }
            window = self.max_age;
        }
        self.duplicate_window = window;
        Ok(())
    }

    fn check_counter(&self) -> Result<(), ApiError> {
        if !self.allow_msg_counter {
            return Ok(());
        }
        if self.discard == Discard::New {
            return rule("counter stream cannot use discard new");
        }
        if self.allow_msg_ttl {
            return rule("counter stream cannot use message TTLs");
        }
        if self.allow_msg_schedules {
            return rule("counter stream cannot use message schedules");
        }
        if self.retention != Retention::Limits {
            return rule("counter stream can only use limits retention");
        }
        Ok(())
    }

    fn check_discard_per_subject(&self) -> Result<(), ApiError> {
        if !self.discard_new_per_subject {
            return Ok(());
        }
        if self.discard != Discard::New {
            return rule("discard new per subject requires discard new policy to be set");
        }
        if self.max_msgs_per_subject <= 0 {
            return rule("discard new per subject requires max msgs per subject > 0");
        }
        Ok(())
    }

    fn check_markers(&mut self, pedantic: bool) -> Result<(), ApiError> {
        match self.subject_delete_marker_ttl {
            0 => return Ok(()),
            ..0 => return rule("subject delete marker TTL must not be negative"),
            1..SECOND => return rule("subject delete marker TTL must be at least 1 second"),
            SECOND.. => {}
        }
        if !self.allow_msg_ttl {
            if pedantic {
                return rule("subject delete marker cannot be set if message TTLs are disabled");
            }
            self.allow_msg_ttl = true;
        }
        self.allow_rollups(pedantic, "subject delete marker cannot be set if roll-ups are disabled")
    }

    fn check_schedules(&mut self, pedantic: bool) -> Result<(), ApiError> {
        if !self.allow_msg_schedules {
            return Ok(());
        }
        if self.discard == Discard::New {
            return rule("message scheduling cannot use discard new");
        }
        self.allow_rollups(pedantic, "message scheduling cannot be set if roll-ups are disabled")
    }

    fn allow_rollups(&mut self, pedantic: bool, text: &str) -> Result<(), ApiError> {
        if !self.allow_rollup_hdrs {
            if pedantic {
                return rule(text);
            }
            (self.allow_rollup_hdrs, self.deny_purge) = (true, false);
        }
        Ok(())
    }

    fn check_persist_mode(&self) -> Result<(), ApiError> {
        if self.persist_mode != PersistMode::Async {
            return Ok(());
        }
        if self.storage != Storage::File {
            return rule("async persist mode is only supported on file storage");
        }
        if self.num_replicas > 1 {
            return rule("async persist mode is not supported on replicated streams");
        }
        if self.allow_atomic {
            return rule("async persist mode is not supported with atomic batch publish");
        }
        Ok(())
    }

    fn check_bytes(&self, limits: &StreamLimits) -> Result<(), ApiError> {
        if limits.needs_max_bytes && self.max_bytes <= 0 {
            return Err(ErrorKind::StreamMaxBytesRequired.into());
        }
        let most = match self.storage {
            Storage::File => limits.file_bytes_max,
            Storage::Memory => limits.memory_bytes_max,
        };
        if most.is_some_and(|most| self.max_bytes > most) {
            return Err(ErrorKind::StreamMaxStreamBytesExceeded.into());
        }
        Ok(())
    }

    fn check_placement(&mut self) -> Result<(), ApiError> {
        if self.placement == Some(Placement::default()) {
            self.placement = None;
        }
        if self.placement.as_ref().is_some_and(|placement| !placement.preferred.is_empty()) {
            return rule("preferred server not permitted in placement");
        }
        Ok(())
    }
}
