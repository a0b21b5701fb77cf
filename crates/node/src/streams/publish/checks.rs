//! Judges the messages of a turn, one after the other.

use std::cell::Cell;

use tailrace_jetstream::error::{ApiError, ErrorKind};
use tailrace_jetstream::publish::{Publish, PublishHeaders, Store, Verdict, judge};
use tailrace_records::{BatchError, DecodedBatch, Record};

use super::given::{Given, Passed, Progress};
use super::tail::Tail;
use super::types::Published;
use super::view::View;
use crate::streams::live::Table;
use crate::streams::translator::MessageParts;

/// Judges the messages of a turn.
pub(super) struct Checks<'a> {
    pub(super) given: &'a Given,
    pub(super) table: &'a Table,
    pub(super) tail: &'a mut Tail,
    /// The last sequence that is taken.
    pub(super) end: u64,
}

impl Checks<'_> {
    /// Judges those that were not judged before.
    pub(super) fn all(mut self, progress: &mut Progress) -> Result<Passed, BatchError> {
        let (mut passed, mut place, mut parts) = (Passed::default(), 0, MessageParts::default());
        for batch in &self.given.request.batches {
            let decoded = DecodedBatch::new(batch, self.given.decompressed)?;
            for record in decoded.records() {
                let record = record?;
                if place >= progress.published.len()
                    && !self.one(place, &record, &mut parts, progress, &mut passed)
                {
                    passed.settles = true;
                    return Ok(passed);
                }
                place += 1;
            }
        }
        Ok(passed)
    }

    /// Judges one message. False if that has to wait for the table.
    fn one(
        &mut self,
        place: usize,
        record: &Record<'_>,
        parts: &mut MessageParts,
        progress: &mut Progress,
        passed: &mut Passed,
    ) -> bool {
        let before = progress.before.as_ref().and_then(|before| before.get(place).copied());
        if let Some(Some(seq)) = before {
            progress.published.push(Published::Stored(seq));
            progress.stored += 1;
            return true;
        }
        let payload = record.value.unwrap_or_default();
        let is_message = self.given.judging.translator.message(&self.given.topic, record, parts);
        let verdict = match is_message {
            true => match self.verdict(parts, payload) {
                Some(verdict) => verdict,
                None => return false,
            },
            false => Verdict::Store(Store::default()),
        };
        let published = match verdict {
            Verdict::Duplicate(first) => Published::Duplicate(first),
            Verdict::Refused(error) => Published::Refused(Box::new(error)),
            // An earlier leader refused it, and its reason is lost.
            Verdict::Store(_) | Verdict::Skip { .. } if before.is_some() => {
                let why = "the leader that refused the message is gone, and why it did is not known";
                Published::Refused(Box::new(ApiError::because(ErrorKind::StreamStoreFailed, why)))
            }
            Verdict::Store(_) | Verdict::Skip { .. } => {
                self.end += 1;
                passed.places.push(place);
                if is_message {
                    let judging = &self.given.judging;
                    judging.push(self.tail, &self.table.rules, self.end, parts, payload.len());
                }
                // The sequence is told when it is appended.
                Published::Stored(0)
            }
        };
        progress.published.push(published);
        true
    }

    /// `None` if the table has to have come further.
    fn verdict(&self, parts: &MessageParts, payload: &[u8]) -> Option<Verdict> {
        let judging = &self.given.judging;
        let subject = String::from_utf8_lossy(&parts.subject);
        let config = self.table.rules.config.as_ref().unwrap_or(&judging.plain);
        let size = self.table.rules.size(parts.subject.len(), parts.headers.len(), payload.len());
        let view = View {
            table: self.table,
            tail: self.tail,
            config,
            subject: &parts.subject,
            size: size.into(),
            last_sequence: self.end,
            id_key: judging.id_key,
            now_ms: self.given.now,
            is_unsure: Cell::new(false),
        };
        let publish = Publish { subject: &subject, headers: &parts.headers, payload, is_sourced: false };
        let verdict = judge(&publish, &view);
        if view.is_unsure.get() {
            return None;
        }
        let has_id = || !PublishHeaders::parse(&parts.headers).msg_id.is_empty();
        if matches!(verdict, Verdict::Store(_))
            && self.table.ids.len() + self.tail.ids() >= self.given.ids_max
            && has_id()
        {
            return Some(Verdict::Refused(ErrorKind::StreamTooManyRequests.into()));
        }
        Some(verdict)
    }
}
