//! A leader's part in snapshots: it offers them to replicas that are too far behind for entries, and lets their files be read.
//!
//! Raft itself only says who is behind. An offer that gets lost is repeated when nobody has asked for its files for a while, as
//! long as raft says so again, which it does with each heartbeat that is answered.

use std::sync::Arc;

use raft::eraftpb::{Message, MessageType, Snapshot};
use tailrace_log::{DamagedRange, Disk, LogError, Trim};
use tailrace_types::{Offset, RaftIndex};

use super::ballot::{Point, lists};
use super::chunk::{ChunkReader, ChunkRequest, Origin, Part, Source};
use super::manifest::Manifest;
use super::replica::{Replica, Role};
use super::state::{IDLE_TIMEOUTS, Offer};
use super::storage::{LogStorage, epoch_of};
use crate::snapshot::table_in;

/// Times the election timeout after which an offer that nobody has taken up is forgotten.
const UNTOUCHED_TIMEOUTS: usize = 2;
impl<D: Disk> Replica<D> {
    /// For a chunk that another replica wants: what reads it, without this replica. `None` if there is no such snapshot (any more):
    /// the other one is to be told so, and will be offered another.
    pub fn chunk_reader(&mut self, request: &ChunkRequest) -> Option<ChunkReader<D>> {
        if matches!(request.part, Part::Range { .. }) {
            return self.range_reader(request);
        }
        let offer = self.offers.get_mut(&request.from.0)?;
        if request.to != self.options.id || offer.snapshot != request.snapshot {
            return None;
        }
        (offer.idle_ticks, offer.was_read) = (0, true);
        Some(ChunkReader { origin: Origin::Snapshot(Arc::clone(&offer.source)), request: *request })
    }

    /// Any member may have what is committed here, whoever leads.
    fn range_reader(&self, request: &ChunkRequest) -> Option<ChunkReader<D>> {
        let members = &self.node.store().ballot.members;
        let is_member = lists(members).into_iter().flatten().any(|id| *id == request.from.0);
        if request.to != self.options.id || !is_member || self.halted().is_some() {
            return None;
        }
        let ledger = self.ledger();
        let origin = Origin::Log(ledger.log.reader(), ledger.reader.high_watermark().offset());
        Some(ChunkReader { origin, request: *request })
    }

    /// Offers snapshots to those that raft found to be too far behind.
    pub(super) fn make_offers(&mut self) {
        let behind = std::mem::take(&mut *self.node.store().behind.borrow_mut());
        if self.role() != Role::Leader {
            return;
        }
        for to in behind {
            if self.offers.contains_key(&to) {
                continue;
            }
            // A log that cannot be read here is found out about where it is read for its own sake. Others may lead meanwhile.
            if let Ok(Some((offer, snapshot))) = offer(self.node.store(), to) {
                let mut message = Message::default();
                message.set_msg_type(MessageType::MsgSnapshot);
                (message.from, message.to, message.term) = (self.options.id.0, to, self.node.raft.term);
                message.set_snapshot(snapshot);
                self.outgoing.push(message);
                self.offers.insert(to, offer);
                self.counters.snapshots_offered += 1;
            }
        }
    }

    /// Forgets offers that have served, or that nobody takes up.
    pub(super) fn tick_offers(&mut self) {
        let timeout = self.options.election_ticks;
        let raft = &self.node.raft;
        self.offers.retain(|to, offer| {
            offer.idle_ticks += 1;
            let timeouts = if offer.was_read { IDLE_TIMEOUTS } else { UNTOUCHED_TIMEOUTS };
            let has_it = raft.prs().get(*to).is_some_and(|progress| progress.matched >= offer.snapshot.index);
            offer.idle_ticks <= timeouts * timeout && !has_it
        });
    }

    /// Keeps the files open that offers still need.
    pub(super) fn keep_offered(&self, trim: &Trim<D>) {
        let sources = self.offers.values().flat_map(|offer| &offer.source.segments);
        sources.for_each(|segment| segment.keep(trim));
    }
}

fn lost_below(damaged: Vec<DamagedRange>, end: Offset) -> Vec<(Offset, Offset)> {
    let lost = damaged.into_iter().filter(|range| range.is_lost && range.base_offset < end);
    lost.map(|range| (range.base_offset, range.end_offset.min(end))).collect()
}

/// A snapshot of everything that is applied. `None` if `to` is no member as of then, or there is nothing, or too much to describe.
fn offer<D: Disk>(storage: &LogStorage<D>, to: u64) -> Result<Option<(Offer<D>, Snapshot)>, LogError> {
    let index = storage.applied;
    let members = &storage.ballot.members;
    let is_member = lists(members).into_iter().flatten().any(|id| *id == to);
    let Some(term) = storage.term_at(index)?.filter(|_| index > 0 && is_member) else { return Ok(None) };
    let (ledger, end) = (&storage.ledger, storage.applied_end()?);
    let sections = if ledger.log.log_end().offset() == end {
        ledger.sections().map(|sections| (end, sections))
    } else {
        ledger.log.snapshot(end, &mut Vec::new())?
    };
    // The other sections are its receiver's to have from the log.
    let producers = sections.and_then(|(offset, sections)| Some((offset, table_in(&sections)?.clone())));
    let (producers_offset, producers) = producers.unwrap_or_default();
    let segments = ledger.log.pin(end, RaftIndex(index + 1))?;
    let epochs = ledger.log.reader().epochs();
    let known = epochs.iter().filter(|(epoch, first)| *epoch <= epoch_of(term) && *first <= end);
    // What is applied was forgotten in part when this replica was opened: the log may have been trimmed and compacted further.
    let manifest = Manifest {
        log_start: ledger.log.log_start().min(end),
        end_offset: end,
        first_dirty: ledger.log.reader().first_dirty().min(end),
        first_index: storage.ballot.start.index + 1,
        producers_offset,
        producers_bytes: u32::try_from(producers.len()).expect("a table has less than 64 MiB"),
        producers_crc: crc32c::crc32c(&producers),
        epochs: known.copied().collect(),
        segments: segments.iter().map(|segment| *segment.info()).collect(),
        lost: lost_below(ledger.log.reader().damaged(), end),
    };
    let Some(data) = manifest.encode() else { return Ok(None) };
    let mut snapshot = Snapshot { data, ..Snapshot::default() };
    let metadata = snapshot.mut_metadata();
    (metadata.index, metadata.term) = (index, term);
    metadata.set_conf_state(members.clone());
    let source = Arc::new(Source { producers, segments });
    let offer = Offer { snapshot: Point { index, term }, source, idle_ticks: 0, was_read: false };
    Ok(Some((offer, snapshot)))
}
