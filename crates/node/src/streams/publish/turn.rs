//! One turn of a request under the partition's lock.

use bytes::Bytes;
use tailrace_records::{BatchError, BatchHeader, DecodedBatch, Validated};
use tailrace_replication::AppendError;
use tailrace_types::{Offset, TimestampMs};

use super::answers::Known;
use super::checks::Checks;
use super::given::{Given, Passed, Progress, Step};
use super::rebuilt::Rebuilding;
use super::repeated::{self, Before};
use super::tail::Tail;
use super::types::{NotPublished, Published};
use crate::partitions::{AppendFailure, Appending, Awaited};
use crate::streams::live::Table;

impl Given {
    /// Goes as far as the table allows.
    pub(super) fn take(&self, appending: &mut Appending<'_>, progress: &mut Progress) -> Step {
        if appending.leads() != Some(self.judging.epoch) {
            return Step::Failed(progress.late(&self.request, "another node leads the stream"));
        }
        if let Some(step) = self.recall(appending, progress) {
            return step;
        }
        self.expire();
        let table = if self.is_short { self.live.table.try_read() } else { Some(self.live.table.read()) };
        let Some(table) = table else { return Step::OnThread };
        // To wait for it tells why it is no longer kept.
        let Some(table) = table.as_ref() else { return Step::Settle(appending.log_end()) };
        if !table.rules.are_of(&self.topic) {
            return Step::Pause;
        }
        let end = appending.log_end();
        let has = table.contents.summary().last_seq;
        let mut tail = self.judging.tail.lock();
        tail.used_at = self.now;
        tail.prune(has);
        if tail.base().is_none() || tail.is_full() {
            drop(tail);
            self.judging.begin_tail(&self.topic, end.get().unsigned_abs());
            tail = self.judging.tail.lock();
        }
        match tail.base() {
            Some(base) if base <= has => {}
            Some(base) => return Step::Settle(Offset(i64::try_from(base).unwrap_or(i64::MAX))),
            None => return Step::Pause,
        }
        let checks = Checks { given: self, table, tail: &mut tail, end: end.get().unsigned_abs() };
        match checks.all(progress) {
            Ok(passed) => self.append(appending, progress, &mut tail, &passed),
            Err(error) => Step::Failed(progress.failed(error.to_string(), true)),
        }
    }

    /// Removes what is too old from the table, so that it does not count.
    fn expire(&self) {
        let is_expired = |table: &Table| table.is_expired(self.now);
        let due = self.live.table.try_read().is_some_and(|table| table.as_ref().is_some_and(is_expired));
        if due
            && let Some(mut table) = self.live.table.try_write()
            && let Some(table) = table.as_mut()
        {
            table.expire(self.now);
        }
    }

    /// What is known of a request that has come before.
    fn recall(&self, appending: &Appending<'_>, progress: &mut Progress) -> Option<Step> {
        let sender = self.request.sender.filter(|_| progress.published.is_empty())?;
        match self.judging.answers.lock().known(&sender) {
            Known::Not => {}
            Known::Answered(published, stored) => {
                progress.awaited = appending.end();
                return Some(Step::Known(published, stored));
            }
            Known::Late => {
                let reason = "its sender has sent another request since".to_owned();
                return Some(Step::Failed(NotPublished::Unknown(reason)));
            }
        }
        if progress.before.is_some() {
            return None;
        }
        match repeated::before(appending.producer(sender.producer), &sender) {
            Before::Nothing => None,
            Before::Batches(found) => Some(Step::Look(found)),
            Before::Forgotten => {
                let reason = "some of it is stored, and no longer remembered".to_owned();
                Some(Step::Failed(NotPublished::Unknown(reason)))
            }
        }
    }

    /// Appends what has passed, and tells what has become of it.
    fn append(
        &self,
        appending: &mut Appending<'_>,
        progress: &mut Progress,
        tail: &mut Tail,
        passed: &Passed,
    ) -> Step {
        let mut left = &passed.places[..];
        let batches = match self.batches(passed, progress.stored) {
            Ok(batches) => batches,
            Err(error) => {
                tail.end();
                return Step::Failed(progress.failed(error.to_string(), true));
            }
        };
        for (header, bytes) in batches {
            let (size, count) = (bytes.len() as u64, header.record_count);
            let now = TimestampMs(self.now);
            match appending.append(Validated { header, bytes }, self.wanted, now) {
                Ok(appended) if appended.duplicate.is_none() => {
                    progress.awaited = Some(Awaited::from(&appended));
                    progress.has_appended = true;
                    let (these, rest) = left.split_at(usize::try_from(count).unwrap_or(0).min(left.len()));
                    left = rest;
                    let first = appended.base_offset.get().unsigned_abs() + 1;
                    for (seq, place) in (first..).zip(these) {
                        progress.published[*place] = Published::Stored(seq);
                    }
                    progress.stored += count;
                    progress.bytes += size;
                }
                Ok(_) => {
                    tail.end();
                    return Step::Failed(NotPublished::Unknown("it was stored before".to_owned()));
                }
                Err(failure) => {
                    // What was judged after it does not hold.
                    tail.end();
                    return Step::Failed(self.refused(progress, &failure));
                }
            }
        }
        if progress.awaited.is_none() {
            progress.awaited = appending.end();
        }
        if passed.settles {
            return Step::Settle(appending.log_end());
        }
        if let Some(sender) = &self.request.sender {
            self.judging.answers.lock().keep(sender, &progress.published, progress.stored);
        }
        Step::Done
    }

    /// The batches of what has passed: the publisher's own, if all of it has.
    fn batches(&self, passed: &Passed, stored: i32) -> Result<Vec<(BatchHeader, Bytes)>, BatchError> {
        if passed.places.is_empty() {
            return Ok(Vec::new());
        }
        if let [only] = &self.request.batches[..] {
            let header = tailrace_records::check(only)?;
            let is_whole = i32::try_from(passed.places.len()) == Ok(header.record_count);
            let sequence = self.request.sender.map(|sender| sender.sequence + stored);
            if is_whole && sequence.is_none_or(|sequence| sequence == header.base_sequence) {
                return Ok(vec![(header, only.clone())]);
            }
        }
        let mut building = Rebuilding::new(self, stored);
        let (mut place, mut wanted) = (0, &passed.places[..]);
        for batch in &self.request.batches {
            let decoded = DecodedBatch::new(batch, self.decompressed)?;
            for record in decoded.records() {
                let record = record?;
                if wanted.first() == Some(&place) {
                    wanted = &wanted[1..];
                    building.push(&record)?;
                }
                place += 1;
            }
        }
        Ok(building.done())
    }

    /// What the failure of an append says of the request.
    fn refused(&self, progress: &Progress, failure: &AppendFailure) -> NotPublished {
        match failure {
            AppendFailure::Refused(AppendError::Full) => progress.failed(failure.to_string(), true),
            AppendFailure::NotLeader | AppendFailure::TooFewReplicas | AppendFailure::Gone => {
                progress.late(&self.request, &failure.to_string())
            }
            AppendFailure::Refused(error) => match error {
                AppendError::Producer(_) => progress.failed(error.to_string(), true),
                _ => NotPublished::Unknown(error.to_string()),
            },
        }
    }
}
