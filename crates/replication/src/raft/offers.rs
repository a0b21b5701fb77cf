//! A leader's part in snapshots. It offers them to replicas that are too far behind for entries, and serves
//! their files.
//!
//! Raft itself only reports which replica is behind. An offer may get lost. If its files were not requested
//! for a while, the leader makes the offer again the next time raft reports the replica as behind, which
//! happens with each heartbeat response.

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

/// Election timeouts after which an unused offer is forgotten.
const UNTOUCHED_TIMEOUTS: usize = 2;
impl<D: Disk> Replica<D> {
    /// Returns the reader of a chunk that another replica requests. It works without this replica. `None` if
    /// the snapshot does not exist, or no longer. Tell the other replica so, and it will get another offer.
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

    /// Any member may read what is committed here, no matter which replica leads.
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

    /// Offers snapshots to the replicas that raft found to be too far behind.
    pub(super) fn make_offers(&mut self) {
        let behind = std::mem::take(&mut *self.node.store().behind.borrow_mut());
        if self.role() != Role::Leader {
            return;
        }
        for to in behind {
            if self.offers.contains_key(&to) {
                continue;
            }
            // An unreadable log is handled when it is read for its own sake. Another replica may lead in the
            // meantime.
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

    /// Forgets offers that are completed or unused.
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

/// Makes a snapshot of everything applied. `None` if `to` is not a member at that point, if there is nothing
/// to offer, or if the manifest would be too long.
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
    // The receiver rebuilds the other sections from the log.
    let producers = sections.and_then(|(offset, sections)| Some((offset, table_in(&sections)?.clone())));
    let (producers_offset, producers) = producers.unwrap_or_default();
    let segments = ledger.log.pin(end, RaftIndex(index + 1))?;
    let epochs = ledger.log.reader().epochs();
    let known = epochs.iter().filter(|(epoch, first)| *epoch <= epoch_of(term) && *first <= end);
    // Opening this replica may have lost part of what was applied, while the log was trimmed and compacted
    // further.
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
