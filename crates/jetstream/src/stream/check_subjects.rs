//! The rules for the subjects of a stream, and for what is done with the subjects of its messages.

use std::collections::HashSet;

use super::StreamConfig;
use super::check::{pedantry, rule};
use super::check_origins::check_transform;
use crate::error::{ApiError, ErrorKind};
use crate::go::quote;
use crate::subject::{collide, is_subset, is_valid};
use crate::transform::Transform;

/// What servers say to each other, and the part of it that streams may catch.
const RESERVED: [(&str, &str, &str); 4] = [
    ("$JS.>", "$JS.EVENT.>", "jetstream"),
    ("$JSC.>", "$JS.EVENT.>", "jetstream"),
    ("$NRG.>", "$JS.EVENT.>", "jetstream"),
    ("$SYS.>", "$SYS.ACCOUNT.>", "system"),
];

impl StreamConfig {
    pub(super) fn check_subjects(&mut self) -> Result<(), ApiError> {
        if self.subjects.is_empty() {
            if self.mirror.is_none() && self.sources.is_empty() {
                self.subjects.push(self.name.clone());
            }
            return Ok(());
        }
        if self.mirror.is_some() {
            return Err(ErrorKind::MirrorWithSubjects.into());
        }
        let mut seen = HashSet::new();
        for (at, subject) in self.subjects.iter().enumerate() {
            if !is_valid(subject) {
                return rule("invalid subject");
            }
            if !seen.insert(subject) {
                return rule("duplicate subjects detected");
            }
            self.check_reserved(subject)?;
            if let Some(other) = self.subjects[at + 1..].iter().find(|other| collide(other, subject)) {
                let (subject, other) = (quote(subject.as_bytes()), quote(other.as_bytes()));
                return rule(format!("subject {subject} overlaps with {other}"));
            }
        }
        Ok(())
    }

    fn check_reserved(&self, subject: &str) -> Result<(), ApiError> {
        if subject == ">" {
            if !self.no_ack {
                return rule("capturing all subjects requires no-ack to be true");
            }
            if self.num_replicas != 1 {
                return rule("capturing all subjects requires replicas of 1");
            }
        }
        let overlaps = |(space, allowed, _): &&(&str, &str, &str)| {
            collide(subject, space) && !is_subset(subject, allowed)
        };
        match RESERVED.iter().find(overlaps).filter(|_| !self.no_ack) {
            Some((_, _, api)) => {
                rule(format!("subjects that overlap with {api} api require no-ack to be true"))
            }
            None => Ok(()),
        }
    }

    pub(super) fn check_transform(&self) -> Result<(), ApiError> {
        let Some(transform) = &self.subject_transform else { return Ok(()) };
        let (source, destination) = (&transform.source, &transform.destination);
        let (wrong_source, wrong_destination) =
            (ErrorKind::StreamTransformInvalidSource, ErrorKind::StreamTransformInvalidDestination);
        check_transform(source, destination, wrong_source, wrong_destination)
    }

    pub(super) fn check_republish(&mut self, pedantic: bool) -> Result<(), ApiError> {
        let Some(republish) = &mut self.republish else { return Ok(()) };
        if republish.source.is_empty() {
            if pedantic {
                return pedantry("republish source can not be empty");
            }
            republish.source = ">".to_owned();
        }
        // All messages, and their subjects are those that the stream's own transform made.
        let transform = self.subject_transform.as_ref().filter(|transform| {
            let all = republish.source == ">" && republish.destination == ">";
            all && matches!(self.subjects.as_slice(), [only] if *only == transform.source)
        });
        if let Some(transform) = transform {
            if pedantic {
                return pedantry("implicit republish based on subject transform");
            }
            republish.source.clone_from(&transform.destination);
            republish.destination.clone_from(&transform.destination);
        }
        let (source, destination) = (&republish.source, &republish.destination);
        if self.subjects.iter().any(|subject| collide(destination, subject)) {
            return rule("stream configuration for republish destination forms a cycle");
        }
        if Transform::new(source, destination).is_err() {
            return rule(format!(
                "stream configuration for republish with transform from '{source}' to '{destination}' not valid"
            ));
        }
        Ok(())
    }
}
