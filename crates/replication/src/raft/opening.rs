//! Checks of what is on disk when a replica is opened.

use std::path::Path;

use tailrace_log::{Disk, Log, LogError};
use tailrace_types::{RaftIndex, ReplicaId};

use super::ballot::{Ballot, BallotFile, Point};
use super::options::ReplicaOptions;
use super::storage::{epoch_of, log_start_of, term_of};

/// Returns the ballot to continue with: the existing one if it fits the log, or a first one. On return it is
/// durable, and so is the folder's name, without which a vote would be lost. The folder's owner is durable
/// too. Otherwise a replica of another topic with the same name would take the folder over.
pub(super) fn settle_ballot<D: Disk>(
    log: &mut Log<D>,
    disk: &D,
    dir: &Path,
    options: &ReplicaOptions,
) -> Result<(Ballot, BallotFile), LogError> {
    let (mut ballots, found) = BallotFile::open(disk, dir)?;
    let Some(mut ballot) = found else {
        log.sync()?;
        let first = first_ballot(log, options)?;
        ballots.write(disk, &first)?;
        return Ok((first, ballots));
    };
    check_owner(&ballot, options.id, dir)?;
    if ballot.term == 0 {
        // The replica has not voted yet. An earlier build synced only the ballot.
        log.sync()?;
    }
    if let Some((end, _)) = ballot.installing {
        settle_install(&mut ballot, end, log)?;
        ballots.write(disk, &ballot)?;
    }
    check_ballot(&ballot, log, dir)?;
    Ok((ballot, ballots))
}

/// Returns the ballot of a replica that never ran. If the log had a single replica so far, everything in it
/// is committed and counts as a snapshot. A single replica counts epochs from 0, and in raft term 0 belongs
/// to entries that do not exist. So this appends an entry of a new term at the end, and raft never looks
/// below it.
fn first_ballot<D: Disk>(log: &mut Log<D>, options: &ReplicaOptions) -> Result<Ballot, LogError> {
    let fresh = Ballot {
        replica: options.id.0,
        members: options.members.to_raft(),
        log_start: Some(log.log_start()),
        first_dirty: log.reader().first_dirty(),
        ..Ballot::default()
    };
    let index = log.next_raft_index();
    if index == RaftIndex(1) {
        return Ok(fresh);
    }
    let term = term_of(log.last_epoch()) + 1;
    log.append_entry(index, epoch_of(term), &[])?;
    Ok(Ballot { term, commit: index.0, start: Point { index: index.0, term }, ..fresh })
}

/// Settles a crash during the replacement of the log with a copy. The log tells whether it was replaced.
fn settle_install<D: Disk>(ballot: &mut Ballot, end: Point, log: &mut Log<D>) -> Result<(), LogError> {
    if log.next_raft_index().0 > end.index {
        // The rest of the side file belongs to the old log.
        log.prune_entries(RaftIndex(end.index + 1))?;
        ballot.finish_installing();
    }
    ballot.installing = None;
    Ok(())
}

/// Detects a log that starts above the offset that the ballot knows: its beginning is lost, together with
/// what would have told so. If the replica is the only voter, it continues with the rest and adds a note.
pub(super) fn check_beginning<D: Disk>(
    ballot: &mut Ballot,
    log: &Log<D>,
    dir: &Path,
    notes: &mut Vec<String>,
) -> Result<(), LogError> {
    let found = log.log_start();
    let Some(known) = ballot.log_start else {
        ballot.log_start = Some(found);
        return Ok(());
    };
    let moved = log.entries().iter().filter_map(|entry| log_start_of(&entry.payload)).max();
    let known = known.max(moved.unwrap_or_default());
    if found <= known {
        return Ok(());
    }
    let reason =
        format!("the log starts at offset {found}, expected {known} at most: the records between are gone");
    if ballot.members.voters == [ballot.replica] {
        notes.push(format!("{}: {reason}", dir.display()));
        return Ok(());
    }
    Err(LogError::damaged(dir, 0, format!("{reason}; the replica has to join again, under a new id")))
}

/// Raises the log start to that of committed DeleteRecords entries, which a checkpoint may lack.
pub(super) fn raise_log_start<D: Disk>(log: &mut Log<D>, commit: u64) {
    let committed = log.entries().iter().take_while(|entry| entry.raft_index.0 <= commit);
    if let Some(to) = committed.filter_map(|entry| log_start_of(&entry.payload)).max() {
        log.raise_log_start(to);
    }
}

fn check_owner(ballot: &Ballot, id: ReplicaId, dir: &Path) -> Result<(), LogError> {
    if ballot.replica == id.0 {
        return Ok(());
    }
    let reason = format!("the folder belongs to replica {}, expected {id}", ballot.replica);
    Err(LogError::damaged(dir, 0, reason))
}

fn check_ballot<D: Disk>(ballot: &Ballot, log: &Log<D>, dir: &Path) -> Result<(), LogError> {
    let (first, last) = (ballot.start.index + 1, log.next_raft_index().0 - 1);
    if ballot.commit > last || ballot.term < term_of(log.last_epoch()) {
        let reason = format!(
            "the log ends at raft index {last} in term {}, expected at least {} and at most term {}: the replica has to \
             join again, under a new id",
            log.last_epoch(),
            ballot.commit,
            ballot.term
        );
        return Err(LogError::damaged(dir, 0, reason));
    }
    if first <= last && log.at_index(RaftIndex(first))?.is_none() {
        let reason =
            format!("the log lacks raft index {first}: the replica has to join again, under a new id");
        return Err(LogError::damaged(dir, 0, reason));
    }
    let (expected, found) = ((last + 1).saturating_sub(first), log.count_from(RaftIndex(first))?);
    if found != expected {
        let reason = format!(
            "the log has {found} entries from raft index {first} to {last}, expected {expected}: the replica has to join \
             again, under a new id"
        );
        return Err(LogError::damaged(dir, 0, reason));
    }
    Ok(())
}
