//! The commit log of one partition: segments, index, recovery, retention.
//!
//! [`Log`] is the single writer. Its methods take `&mut self`, and it belongs behind the caller's lock.
//! [`LogReader`] is for everyone else and takes no lock. Work that waits for the disk is returned as a plan
//! ([`SyncPlan`], [`CheckpointPlan`], [`Trim`]). A plan is made under the lock, runs without it, and is
//! marked as done under the lock again.
//!
//! Deliberately not here: the choice of offsets, epochs or high watermarks (replication), clocks (times are
//! arguments), threads, and validation of records (the records crate). The log never decodes a batch on the
//! produce or fetch path. docs/format.md describes every byte that it writes.
//!
//! # Traps
//!
//! * Checked reads (`tailrace.read.verify.after.ms`): `verified.rs` knows which bytes were found intact,
//!   `read.rs` consults it through `verify.rs`, and the node's `scrubber/repair.rs` makes it forget segments
//!   that are not read. An index that a read finds damaged is rebuilt there too.
//! * Damaged batches: the node's scrubber (`scrub.rs`), recovery, and reads for sending or compaction find
//!   them. `damage.rs` keeps the range of offsets out of service, `known_damage.rs` over a restart.
//!   replication's `raft/repair.rs` rebuilds the segment from the replica's own intact batches and what other
//!   replicas have (`mend.rs`). If that is impossible, the node's `partitions/lost.rs` requests another
//!   replica. The index row of a damaged batch stays in use. A vote depends on which entries exist, not on
//!   their content, and the row tells how far the batch reaches. If batch and row are both damaged, nothing
//!   does.
//! * A part of a compacted log may be replaced with another replica's only if both were compacted equally
//!   far. Otherwise a key could come back whose deletion the rest has forgotten.
//! * A segment that is closed by its age stays the last one of the list, and no later one is created.
//!   `Segment::is_closed` tells, and compaction takes it like any closed segment.

mod batches;
mod checkpoint;
mod checkpoint_file;
mod compact;
mod condemn;
mod config;
mod cut;
mod damage;
mod disk;
mod entries;
mod epochs;
mod error;
mod extent;
mod folder;
mod format;
mod generations;
mod headers;
mod indexed;
pub mod inspect;
mod install;
#[cfg(test)]
mod invariants_test;
mod known_damage;
mod listing;
mod log;
mod markers;
mod mend;
mod open;
mod opening;
mod overlay;
mod pin;
mod reach;
mod read;
mod reader;
mod real;
mod rebuild;
mod recover;
mod recover_compacted;
mod recovery;
mod repair;
mod reserved;
mod roll;
mod rows;
mod scan;
mod scrub;
mod sections;
mod segment;
mod small_files;
mod staging;
mod store;
mod sync;
mod time;
mod trim;
mod truncate;
mod verified;
mod verify;

pub use checkpoint::CheckpointPlan;
pub use compact::{
    Cleanable, Compaction, CompactionLimits, CompactionSettings, CompactionStats, Discarded, HashSecret,
    KeyMap, LastOfProducer, Pace, Rewritten, Unhurried,
};
pub use config::{ENTRY_BYTES_MAX, LogConfig, PartitionIdentity, SEGMENT_BYTES_MAX, SNAPSHOT_BYTES_MAX};
pub use damage::{Damage, DamagedRange};
pub use disk::{DirEntry, Disk, DiskFile, OpenMode, read_file, read_full_at, replace_file};
pub use error::LogError;
pub use extent::Extent;
pub use folder::{
    KEPT_ASIDE_MAX, aside_of, checkpoint_owner, delete_partition, folders_aside, holds_data, read_identity,
    remove_leftovers, set_aside,
};
pub use format::FORMAT_VERSION;
pub use format::entry::Entry;
pub use format::row::Row;
pub use headers::HeaderIter;
pub use indexed::Indexed;
pub use install::InstallTarget;
pub use log::{Appended, Log};
pub use markers::{lost_markers_in, newest_snapshot_in};
pub use mend::{GivenUp, Patch};
pub use overlay::{Overlay, OverlayFile};
pub use pin::{SegmentInfo, SegmentPin};
pub use reach::Reach;
pub use read::LogSlice;
pub use reader::LogReader;
pub use real::{DataDirLock, LOCK_FILE, LockError, RealDisk, RealFile};
pub use recovery::{Recovery, TornTail};
pub use repair::{RepairOptions, RepairStep, repair_dir};
pub use scrub::{ScrubTarget, Scrubbed};
pub use sections::{PRODUCERS, Section, Sections};
pub use staging::Staging;
pub use store::LogStore;
pub use sync::SyncPlan;
pub use time::{Candidate, Looked, TimeLookup, TimeStep};
pub use trim::Trim;
pub use verified::VerifyReads;
