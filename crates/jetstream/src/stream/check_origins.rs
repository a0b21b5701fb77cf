//! The rules for mirrors and sources.

use std::collections::{BTreeSet, HashSet, VecDeque};

use super::check::{pedantry, rule};
use super::source::Source;
use super::{OtherStreams, StreamConfig};
use crate::error::{ApiError, ErrorKind};
use crate::go::quote;
use crate::subject::{collide, is_literal, is_publishable, is_subset, is_valid, is_valid_name};
use crate::transform::{Transform, validate};

const API_PREFIX: &str = "$JS.API";

/// What the origins' prefixes are compared with.
#[derive(Default)]
struct Prefixes {
    subjects: Vec<String>,
    deliver: Vec<String>,
    api: Vec<String>,
}

impl Prefixes {
    fn add(&mut self, source: &Source, others: &dyn OtherStreams) {
        match &source.external {
            None => {
                let origin = others.config(&source.name);
                self.subjects.extend(origin.into_iter().flat_map(|origin| origin.subjects.iter().cloned()));
            }
            Some(external) => {
                let given = |prefix: &String| (!prefix.is_empty()).then(|| prefix.clone());
                self.deliver.extend(given(&external.deliver_prefix));
                self.api.extend(given(&external.api_prefix));
            }
        }
    }

    fn check(&self) -> Result<(), ApiError> {
        for prefix in &self.deliver {
            let fact = ("{prefix}", prefix.as_str());
            if !is_publishable(prefix) {
                return Err(ApiError::with(ErrorKind::StreamInvalidExternalDeliverySubj, &[fact]));
            }
            let overlaps = |subject: &&String| collide(subject, &format!("{prefix}.{subject}"));
            if let Some(subject) = self.subjects.iter().find(overlaps) {
                let facts = [fact, ("{subject}", subject.as_str())];
                return Err(ApiError::with(ErrorKind::StreamExternalDelPrefixOverlaps, &facts));
            }
        }
        for prefix in &self.api {
            if !is_publishable(prefix) {
                let quoted = quote(prefix.as_bytes());
                return rule(format!(
                    "stream external api prefix {quoted} must be a valid subject without wildcards"
                ));
            }
            if collide(prefix, API_PREFIX) {
                let facts = [("{prefix}", prefix.as_str()), ("{subject}", API_PREFIX)];
                return Err(ApiError::with(ErrorKind::StreamExternalApiOverlap, &facts));
            }
        }
        Ok(())
    }
}

impl StreamConfig {
    pub(super) fn check_origins(
        &mut self,
        others: &dyn OtherStreams,
        pedantic: bool,
    ) -> Result<(), ApiError> {
        let mut prefixes = Prefixes::default();
        if let Some(mirror) = self.mirror.take() {
            let result = self.check_mirror(&mirror, others, pedantic);
            prefixes.add(&mirror, others);
            self.mirror = Some(mirror);
            result?;
        }
        if !self.sources.is_empty() && self.allow_msg_schedules {
            return Err(ErrorKind::SourceWithMsgSchedules.into());
        }
        self.check_sources(others, &mut prefixes)?;
        prefixes.check()?;
        self.check_cycles(others)
    }

    fn check_mirror(
        &mut self,
        mirror: &Source,
        others: &dyn OtherStreams,
        pedantic: bool,
    ) -> Result<(), ApiError> {
        self.check_mirror_excludes()?;
        if mirror.consumer.is_some() && !mirror.has_legal_consumer() {
            return Err(ErrorKind::MirrorDurableConsumerCfgInvalid.into());
        }
        if !mirror.filter_subject.is_empty() && !mirror.subject_transforms.is_empty() {
            return Err(ErrorKind::MirrorMultipleFiltersNotAllowed.into());
        }
        if self.subject_delete_marker_ttl > 0 {
            return rule("subject delete markers forbidden on mirrors");
        }
        mirror.check_mirror_transforms()?;
        if mirror.external.is_some() {
            return Ok(());
        }
        if !is_valid_name(&mirror.name) {
            return Err(ErrorKind::MirrorInvalidStreamName.into());
        }
        let Some(origin) = others.config(&mirror.name) else { return Ok(()) };
        if self.takes_less_than(origin) {
            return Err(ErrorKind::MirrorMaxMessageSizeTooBig.into());
        }
        if pedantic && self.mirror_direct != origin.allow_direct {
            return pedantry("origin stream has direct get set, mirror has it disabled");
        }
        self.mirror_direct = origin.allow_direct;
        Ok(())
    }

    fn check_mirror_excludes(&self) -> Result<(), ApiError> {
        let excluded = [
            (self.first_seq > 0, ErrorKind::MirrorWithFirstSeq),
            (!self.subjects.is_empty(), ErrorKind::MirrorWithSubjects),
            (!self.sources.is_empty(), ErrorKind::MirrorWithSources),
            (self.allow_msg_counter, ErrorKind::MirrorWithCounters),
            (self.allow_atomic, ErrorKind::MirrorWithAtomicPublish),
            (self.allow_batched, ErrorKind::MirrorWithBatchPublish),
            (self.allow_msg_schedules, ErrorKind::MirrorWithMsgSchedules),
        ];
        let found = excluded.into_iter().find(|(holds, _)| *holds);
        found.map_or(Ok(()), |(_, kind)| Err(kind.into()))
    }

    fn takes_less_than(&self, origin: &Self) -> bool {
        self.max_msg_size > 0 && origin.max_msg_size > 0 && self.max_msg_size < origin.max_msg_size
    }

    fn check_sources(&self, others: &dyn OtherStreams, prefixes: &mut Prefixes) -> Result<(), ApiError> {
        let mut seen = BTreeSet::new();
        let mut consumers = BTreeSet::new();
        for source in &self.sources {
            let source = source.as_ref().filter(|source| is_valid_name(&source.name));
            let Some(source) = source else { return Err(ErrorKind::SourceInvalidStreamName.into()) };
            if !seen.insert(source.index_key()) {
                return Err(ErrorKind::SourceDuplicateDetected.into());
            }
            source.check_source_transforms()?;
            if source.consumer.is_some() {
                if !source.has_legal_consumer() {
                    return Err(ErrorKind::SourceDurableConsumerCfgInvalid.into());
                }
                if !consumers.insert(source.consumer_key()) {
                    return Err(ErrorKind::SourceDurableConsumerDuplicateDetected.into());
                }
            }
            let origin = others.config(&source.name).filter(|_| source.external.is_none());
            prefixes.add(source, others);
            if origin.is_some_and(|origin| self.takes_less_than(origin)) {
                return Err(ErrorKind::SourceMaxMessageSizeTooBig.into());
            }
        }
        Ok(())
    }

    /// Looks for a way from the stream through origins back to it. Each stream is visited once.
    fn check_cycles(&self, others: &dyn OtherStreams) -> Result<(), ApiError> {
        let mut waiting = VecDeque::from([self]);
        let mut queued = HashSet::new();
        let mut visited: HashSet<&str> = HashSet::new();
        while let Some(config) = waiting.pop_front() {
            visited.insert(&config.name);
            let internal = |source: &&Source| source.external.is_none();
            for source in config.sources.iter().flatten().filter(internal) {
                if visited.contains(source.name.as_str()) {
                    if catches(&config.subjects, &source.filter_subject) {
                        return rule("detected cycle");
                    }
                } else if queued.insert(source.name.as_str()) {
                    waiting.extend(others.config(&source.name));
                }
            }
            if let Some(mirror) = config.mirror.as_ref().filter(internal) {
                if visited.contains(mirror.name.as_str()) {
                    return rule("detected cycle");
                }
                waiting.extend(others.config(&mirror.name));
            }
        }
        Ok(())
    }

    /// The filters of origins, which nats-server looks at when it sets the stream up.
    pub(super) fn check_filters(&self) -> Result<(), ApiError> {
        const BAD: &str = "invalid subject";
        let failed = |text: String| Err(ApiError::because(ErrorKind::StreamCreate, text));
        let bad = |source: &Source| {
            let filter = &source.filter_subject;
            source.subject_transforms.is_empty() && !filter.is_empty() && !is_valid(filter)
        };
        if let Some(mirror) = self.mirror.as_ref().filter(|mirror| bad(mirror)) {
            return failed(format!("subject filter '{}' for the mirror {BAD}", mirror.filter_subject));
        }
        match self.sources.iter().flatten().find(|source| bad(source)) {
            Some(source) => {
                failed(format!("subject filter '{}' for the source: {BAD}", source.filter_subject))
            }
            None => Ok(()),
        }
    }
}

fn catches(subjects: &[String], filter: &str) -> bool {
    filter.is_empty() || subjects.iter().any(|subject| collide(subject, filter))
}

impl Source {
    fn has_legal_consumer(&self) -> bool {
        self.consumer.as_ref().is_some_and(|consumer| {
            is_valid_name(&consumer.name)
                && is_literal(&consumer.deliver_subject)
                && is_valid(&consumer.deliver_subject)
                && self.opt_start_seq == 0
                && self.opt_start_time.is_none()
                && self.filter_subject.is_empty()
        })
    }

    fn check_mirror_transforms(&self) -> Result<(), ApiError> {
        for (at, transform) in self.subject_transforms.iter().enumerate() {
            let (source, destination) = (&transform.source, &transform.destination);
            let (wrong_source, wrong_destination) =
                (ErrorKind::MirrorInvalidSubjectFilter, ErrorKind::MirrorInvalidTransformDestination);
            check_transform(source, destination, wrong_source, wrong_destination)?;
            let mut others = self.subject_transforms.iter().enumerate().filter(|(other, _)| *other != at);
            if others.any(|(_, other)| collide(&transform.source, &other.source)) {
                return Err(ErrorKind::MirrorOverlappingSubjectFilters.into());
            }
        }
        Ok(())
    }

    fn check_source_transforms(&self) -> Result<(), ApiError> {
        if !self.filter_subject.is_empty() && !self.subject_transforms.is_empty() {
            return Err(ErrorKind::SourceMultipleFiltersNotAllowed.into());
        }
        for transform in &self.subject_transforms {
            let (source, destination) = (&transform.source, &transform.destination);
            let (wrong_source, wrong_destination) =
                (ErrorKind::SourceInvalidSubjectFilter, ErrorKind::SourceInvalidTransformDestination);
            check_transform(source, destination, wrong_source, wrong_destination)?;
        }
        for (at, transform) in self.subject_transforms.iter().enumerate() {
            let mut others = self.subject_transforms.iter().enumerate().filter(|(other, _)| *other != at);
            if others.any(|(_, other)| is_subset(&transform.source, &other.source)) {
                return Err(ErrorKind::SourceOverlappingSubjectFilters.into());
            }
        }
        Ok(())
    }
}

/// Checks both sides of a transform: the first kind of error is for the source, the other for the rest.
pub(super) fn check_transform(
    source: &str,
    destination: &str,
    source_kind: ErrorKind,
    destination_kind: ErrorKind,
) -> Result<(), ApiError> {
    if !source.is_empty() && !is_valid(source) {
        return Err(ApiError::because(source_kind, format!("invalid subject {source}")));
    }
    validate(source, destination).map_err(|error| ApiError::because(destination_kind, error.0))
}

impl StreamConfig {
    /// What nats-server makes only when the stream is set up, after the check: a transform whose
    /// destination says nothing.
    pub(super) fn check_transforms_made(&self) -> Result<(), ApiError> {
        let made = |source: &str, destination: &str| Transform::new(source, destination).map(drop);
        let transforms = self.subject_transform.iter().map(|it| ("subject", &it.source, &it.destination));
        let republish = self.republish.iter().map(|it| ("republish", &it.source, &it.destination));
        for (what, source, destination) in transforms.chain(republish) {
            made(source, destination).map_err(|error| {
                let text = format!("stream {what} transform from '{source}' to '{destination}': {error}");
                ApiError::because(ErrorKind::StreamCreate, text)
            })?;
        }
        Ok(())
    }
}
