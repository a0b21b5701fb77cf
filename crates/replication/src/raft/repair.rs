//! Rebuilds a damaged segment from what this replica has intact and from what other replicas have of the
//! rest.
//!
//! The index still lists the entries, and the ballot and the end of the log are unharmed. So a damaged
//! replica knows as much as before, votes, and follows. It only cannot send the damaged batches. So it
//! transfers leadership if another replica can take it, and is slow to start elections. Any replica that has
//! committed the batches can supply them. It does not have to lead.
//!
//! Damage that cannot be mended this way is left to the owner of the replica. See [`Replica::beyond_repair`].

use bytes::Bytes;
use tailrace_log::{DamagedRange, Disk, LogError, Patch};
use tailrace_types::{Offset, ReplicaId, TimestampMs};

use super::ballot::Point;
use super::chunk::{CHUNK_BYTES_MAX, ChunkRequest, Part, RangeAnswer};
use super::replica::{Replica, Role};
use super::state::{IDLE_TIMEOUTS, Repair};

/// Rounds in which all other replicas were asked in vain, or responses that did not fit, before the replica
/// is beyond repair.
const ROUNDS_MAX: usize = 3;

/// Election timeouts between two rounds, and between two attempts to transfer leadership.
const ROUND_INTERVAL_ELECTION_TIMEOUTS: usize = 20;

/// The most bytes of its own that a replica copies per tick.
const COPY_BYTES: usize = 4 << 20;

impl<D: Disk> Replica<D> {
    /// The ranges that are out of service because they are damaged, in the order of offsets.
    pub fn damaged(&self) -> Vec<DamagedRange> {
        self.ledger().reader.log().damaged()
    }

    /// True if it lacks records that others may have, or has not yet processed a range that was repaired.
    pub(super) fn is_damaged(&self) -> bool {
        let ledger = self.ledger();
        ledger.partial_from.is_some() || ledger.reader.log().has_wrong()
    }

    /// Returns the reason why this copy of the partition cannot become whole again, if so. Drop the copy then
    /// and add a replica under a new id, provided that the others can continue without it.
    pub fn beyond_repair(&self) -> Option<String> {
        if self.is_lost {
            return self.halted().map(str::to_owned);
        }
        // The copy must not be dropped while no other replica is known to have the records intact.
        let is_refused = self.mending.rounds >= ROUNDS_MAX && self.mending.has_other_form;
        let is_time = is_refused || self.mending.misfits >= ROUNDS_MAX;
        let damaged = self.damaged().into_iter().find(|range| is_time && !range.is_lost)?;
        Some(format!(
            "{}; no other replica has this part in a form that could take its place",
            damaged.damage
        ))
    }

    /// See [`Partition::begin_patch`](crate::Partition::begin_patch).
    ///
    /// # Errors
    /// The log's errors.
    pub fn begin_patch(&mut self, offset: Offset) -> Result<Option<Patch<D>>, LogError> {
        let bounds = self.ledger().reader.log().segment_bounds(offset);
        // Uncommitted entries may still be truncated.
        if bounds.is_none_or(|(_, end)| self.node.store().applied_end().is_ok_and(|applied| applied < end)) {
            return Ok(None);
        }
        self.ledger_mut().begin_patch(offset)
    }

    /// Rebuilds the index of the segment that holds `offset`. Blocks.
    ///
    /// # Errors
    /// The log's errors. Damage to the log itself takes the segment out of service.
    pub fn repair_index(&mut self, offset: Offset) -> Result<(), LogError> {
        self.ledger_mut().log.repair_index(offset)
    }

    /// Checks that small, rarely read files are on disk as they were written, and rewrites those that are
    /// not. Returns what was wrong. Blocks.
    ///
    /// # Errors
    /// The disk's errors. They halt the replica.
    pub fn scrub_files(&mut self) -> Result<Vec<tailrace_log::Damage>, LogError> {
        let sections = if self.may_keep_table() { self.ledger().sections() } else { None };
        let result = self.node.mut_store().scrub_files(sections);
        if let Err(error) = &result
            && !error.is_no_space()
        {
            self.fail(error);
        }
        result
    }

    /// Returns the next request to another replica.
    pub(super) fn wanted_range(&self) -> Option<ChunkRequest> {
        let Some(repair) = &self.mending.under_way else { return self.mending.suspect };
        let (from, upto) = repair.patch.wanted().filter(|_| repair.from != self.options.id)?;
        Some(self.range_request(repair.from, from, upto))
    }

    fn range_request(&self, to: ReplicaId, from: Offset, upto: Offset) -> ChunkRequest {
        ChunkRequest {
            from: self.options.id,
            to,
            snapshot: Point::default(),
            part: Part::Range { from, upto },
            position: 0,
            bytes_max: CHUNK_BYTES_MAX as u32,
        }
    }

    /// Has the sender of a snapshot check a batch that did not arrive as it was written.
    pub(super) fn suspect(&mut self, of: ReplicaId, from: Offset, upto: Offset) {
        self.mending.suspect = Some(self.range_request(of, from, upto));
    }

    /// Handles the response to a request for batches.
    pub(super) fn take_range(&mut self, answer: Option<Bytes>, now: TimestampMs) {
        let Some(repair) = &mut self.mending.under_way else {
            self.mending.suspect = None;
            return;
        };
        repair.idle_ticks = 0;
        let Some((from, upto)) = repair.patch.wanted() else { return };
        let reader = self.node.store().ledger.log.reader();
        let fits = |answer: &RangeAnswer| {
            reader.may_take(upto, answer.first_dirty)
                && answer.log_start <= from.max(reader.log_start())
                && !answer.batches.is_empty()
        };
        let answer = answer.and_then(RangeAnswer::decode);
        if let Some(answer) = &answer {
            if let Some(told) = answer.lacks {
                let lacks = told.filter(|end| *end > from).or(repair.patch.wanted_batch_end());
                self.mending.lacking.insert(repair.from.0, lacks.unwrap_or(upto));
            } else if !fits(answer) && !answer.is_damaged {
                self.mending.has_other_form = true;
            }
        }
        let answer = answer.filter(|answer| answer.lacks.is_none() && fits(answer));
        let pushed =
            answer.and_then(|answer| Some(self.mending.under_way.as_mut()?.patch.push(&answer.batches)));
        match pushed {
            Some(Ok(())) => {
                // A replica that lacks one part may have another.
                self.mending.forget_refusals();
                self.mending.under_way.iter_mut().for_each(|repair| repair.took_others = true);
                self.copy_own(now);
            }
            None => self.refused(),
            Some(Err(LogError::Damaged { .. })) => {
                self.mending.has_other_form = true;
                self.refused();
            }
            Some(Err(LogError::NoSpace { .. })) => self.pause(),
            Some(Err(error)) => self.fail(&error),
        }
    }

    /// Turns to the next replica after one that does not have the batches.
    fn refused(&mut self) {
        let Some(repair) = &self.mending.under_way else { return };
        self.mending.refused.insert(repair.from.0);
        let next = self.next_source();
        if next.is_none()
            && let Some(upto) = self.lost_everywhere()
        {
            return self.leave_out(upto);
        }
        match (next, &mut self.mending.under_way) {
            (Some(next), Some(repair)) => (repair.from, repair.idle_ticks) = (next, 0),
            (None, under_way) => {
                if let Some(repair) = under_way.take() {
                    repair.patch.discard();
                }
            }
            (Some(_), None) => {}
        }
    }

    /// True if there is no other voter to ask.
    fn is_the_only_voter(&self) -> bool {
        self.members().voters == [self.options.id]
    }

    /// Returns the offset up to which all other voters have repeatedly said that they lack the wanted batches
    /// too.
    fn lost_everywhere(&self) -> Option<Offset> {
        let own = self.options.id;
        let voters = self.members().voters;
        let mut upto = None;
        for id in voters.iter().filter(|id| **id != own) {
            let lacks = *self.mending.lacking.get(&id.0)?;
            upto = Some(upto.map_or(lacks, |upto: Offset| upto.min(lacks)));
        }
        upto.filter(|_| self.mending.rounds + 1 >= ROUNDS_MAX)
    }

    /// Gives up on the wanted batches below `upto`. A batch without records replaces them, and their offsets
    /// stay listed as lost. The bytes that were there are kept in a separate file.
    fn leave_out(&mut self, upto: Offset) {
        let Some(repair) = &mut self.mending.under_way else { return };
        match repair.patch.give_up(upto) {
            Ok(given_up) => {
                repair.lost.extend(given_up.map(|given_up| DamagedRange { is_lost: true, ..given_up.range }));
                self.mending.forget_refusals();
            }
            Err(error) if error.is_no_space() => self.pause(),
            Err(error) => self.fail(&error),
        }
    }

    /// Copies the next part of what this replica has intact, a bounded amount per tick.
    fn copy_own(&mut self, now: TimestampMs) {
        let Some(repair) = &mut self.mending.under_way else { return };
        match repair.patch.copy_own(COPY_BYTES) {
            Ok(false) if repair.patch.is_whole() => self.put_in_place(now),
            Ok(_) => {}
            Err(error) if error.is_no_space() => self.pause(),
            Err(LogError::Damaged { .. }) => {
                self.mending.misfits += usize::from(repair.took_others);
                self.pause();
            }
            Err(error) => self.fail(&error),
        }
    }

    fn pause(&mut self) {
        self.mending.pause_ticks = ROUND_INTERVAL_ELECTION_TIMEOUTS * self.options.election_ticks;
        if let Some(repair) = self.mending.under_way.take() {
            repair.patch.discard();
        }
    }

    /// Replaces the segment once the patch is complete. Durable on return.
    fn put_in_place(&mut self, now: TimestampMs) {
        let whole = |repair: &mut Repair<D>| repair.patch.is_whole();
        let Some(repair) = self.mending.under_way.take_if(whole) else { return };
        let rewritten = match repair.patch.finish() {
            Ok(rewritten) => rewritten,
            Err(error) if error.is_no_space() => return self.pause(),
            Err(error) => return self.fail(&error),
        };
        // Record the lost ranges before the segment is served, so that it is never taken for whole.
        repair.lost.iter().for_each(|range| self.ledger_mut().log.note_lost(range));
        match self.install_compacted(rewritten) {
            Ok(Ok(trim)) => {
                let saved = self.ledger().reader.log().save_damage();
                let result = saved.and_then(|()| trim.run());
                self.finish_trim(&trim, &result);
                self.counters.segments_mended += 1;
                (self.mending.rounds, self.mending.misfits) = (0, 0);
                self.mending.forget_refusals();
            }
            // The segment was removed in the meantime.
            Ok(Err(discarded)) => {
                repair.lost.iter().for_each(|range| self.ledger().reader.log().forget_lost(range));
                discarded.run();
            }
            // The failure has halted the replica.
            Err(_) => {}
        }
        self.carry_on(now);
    }

    pub(super) fn tick_repair(&mut self, now: TimestampMs) {
        let log_start = self.ledger().log.log_start();
        // Anything below the log start will be deleted anyway.
        let is_wanted = |damaged: &DamagedRange| !damaged.is_lost && damaged.end_offset > log_start;
        let damaged = self.damaged().into_iter().find(is_wanted);
        let Some(damaged) = damaged else {
            self.mending.hand_over_ticks = 0;
            if let Some(repair) = self.mending.under_way.take() {
                repair.patch.discard();
            }
            if self.ledger().partial_from.is_some() {
                self.complete_producers(now);
            }
            return;
        };
        self.hand_over(now);
        let is_alone = self.is_the_only_voter();
        let idle = IDLE_TIMEOUTS * self.options.election_ticks;
        match &mut self.mending.under_way {
            // No other replica can have it, or it was known to be lost before the repair of this segment
            // started.
            Some(repair) if is_alone || repair.patch.wanted_range().is_some_and(|range| range.is_lost) => {
                match repair.patch.wanted() {
                    Some((_, end)) => self.leave_out(end),
                    None => self.copy_own(now),
                }
            }
            Some(repair) if repair.patch.wanted().is_none() => self.copy_own(now),
            Some(repair) if repair.idle_ticks < idle => repair.idle_ticks += 1,
            Some(_) => {
                self.mending.unanswered = true;
                self.refused();
            }
            None if self.mending.pause_ticks > 0 => self.mending.pause_ticks -= 1,
            None => {
                if let Err(error) = self.begin_repair(&damaged) {
                    self.fail(&error);
                }
            }
        }
    }

    /// Rereads the table of producers, after all damage that it met was mended or is known to be lost.
    fn complete_producers(&mut self, now: TimestampMs) {
        if let Err(error) = self.ledger_mut().read_producers_again(now) {
            return self.fail(&error);
        }
        self.ledger().publish_stable();
    }

    /// Transfers leadership to a replica that can send everything.
    fn hand_over(&mut self, now: TimestampMs) {
        if self.role() != Role::Leader {
            return;
        }
        if self.mending.hand_over_ticks > 0 {
            self.mending.hand_over_ticks -= 1;
            return;
        }
        self.mending.hand_over_ticks = ROUND_INTERVAL_ELECTION_TIMEOUTS * self.options.election_ticks;
        let own = self.options.id;
        let heir = self.members().voters.into_iter().find(|id| *id != own && self.has_caught_up(*id));
        if let Some(heir) = heir {
            self.transfer_leadership(heir, now);
        }
    }

    fn begin_repair(&mut self, damaged: &DamagedRange) -> Result<(), LogError> {
        let Some((base, end)) = self.ledger().reader.log().segment_bounds(damaged.base_offset) else {
            return Ok(());
        };
        self.ledger_mut().log.seal(base);
        // Uncommitted entries may still be truncated.
        if self.fetch.is_some() || self.node.store().applied_end()? < end {
            return Ok(());
        }
        let alone = Some(self.options.id).filter(|_| self.is_the_only_voter());
        let Some(from) = self.next_source().or(alone) else {
            // A replica that did not respond may have it.
            self.mending.rounds += usize::from(!std::mem::take(&mut self.mending.unanswered));
            self.mending.refused.clear();
            self.pause();
            return Ok(());
        };
        match self.ledger_mut().log.begin_patch(base) {
            Ok(Some(patch)) => {
                self.mending.under_way =
                    Some(Repair { patch, from, idle_ticks: 0, took_others: false, lost: Vec::new() })
            }
            // Compaction is under way. It ends, or fails when it reads the segment.
            Ok(None) => {}
            Err(error) if error.is_no_space() => self.pause(),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Returns the replica to ask next: the leader first, then the other voters.
    fn next_source(&self) -> Option<ReplicaId> {
        let own = self.options.id;
        let mut voters = self.members().voters;
        voters.sort_by_key(|id| (self.role() != Role::Follower(Some(*id)), *id));
        voters.into_iter().find(|id| *id != own && !self.mending.refused.contains(&id.0))
    }
}
