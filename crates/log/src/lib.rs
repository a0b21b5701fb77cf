//! The commit log of one partition: segments, index, recovery, retention.
//!
//! [`Log`] is the single writer; it is plain `&mut self` and belongs behind the caller's lock. [`LogReader`] is what
//! everybody else uses: it takes no lock. What waits for the disk is handed out as a plan ([`SyncPlan`],
//! [`CheckpointPlan`], [`Trim`]) that is made under the lock, run without it, and marked under the lock again.
//!
//! What this crate deliberately does not do: decide offsets, epochs or high watermarks (replication does), read a
//! clock (times are handed in), start threads, or validate records (the records crate does). It never decodes a batch
//! on the produce or fetch path. docs/format.md names every byte it writes.
//!
//! # Traps
//!
//! * Reads that are checked (`tailrace.read.verify.after.ms`): `verified.rs` knows which bytes were found in
//!   order, `read.rs` asks it by `verify.rs`, and the node's `scrubber/repair.rs` has it forget what nobody reads;
//!   an index that a read finds damaged is built again there, too.
//! * A damaged batch: the node's scrubber finds it (`scrub.rs`), or recovery, or what reads a batch to send or
//!   compact it. `damage.rs` keeps the range of offsets out of service, `known_damage.rs` over a restart.
//!   replication's `raft/repair.rs` has its segment put together from the replica's own whole batches and what
//!   others have (`mend.rs`), and the node's `partitions/lost.rs` asks for another replica where that is not
//!   possible. Its index row stays in use: a vote needs to know which entries there are, not what is in them; and
//!   it tells how far a bad batch reaches. Where batch and row are both bad, nothing does.
//! * A part of a compacted log may be replaced by another replica's only if both have compacted equally far:
//!   otherwise a key could come back whose deletion the rest has forgotten.
//! * A segment that is closed by its age stays the last one of the list, and no later one is begun:
//!   `Segment::is_closed` tells, and compaction takes it like any closed one.

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
mod lock;
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
