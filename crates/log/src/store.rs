//! State shared by all logs on one disk: the bounded set of open segment files, and the setting for checked
//! reads.
//!
//! A segment's files are opened on first use and stay open until the clock hand finds them unused. The usual
//! case of files that are already open takes no lock. Slices hold their files by `Arc`, so closing here only
//! drops this table's reference.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Weak};

use parking_lot::{Mutex, MutexGuard};
use tailrace_types::usize_of;

use crate::disk::Disk;
use crate::segment::Segment;
use crate::verified::{VerifyReads, VerifySetting};

/// Lock stripes for opening segment files. Building an index takes long, and with this many stripes it delays
/// few other segments.
const OPENING_LOCKS: usize = 64;

/// A disk with the state shared by all logs on it. One per data folder. Cheap to clone.
pub struct LogStore<D: Disk> {
    disk: D,
    open: Arc<OpenSegments<D>>,
    verify: Arc<VerifySetting>,
}

impl<D: Disk> Clone for LogStore<D> {
    fn clone(&self) -> Self {
        Self { disk: self.disk.clone(), open: Arc::clone(&self.open), verify: Arc::clone(&self.verify) }
    }
}

/// Segments with open files, in the order of the clock hand.
struct OpenSegments<D: Disk> {
    segments_max: usize,
    clock: Mutex<VecDeque<Weak<Segment<D>>>>,
    /// Length of `clock`.
    tracked: AtomicUsize,
    /// Serialize the slow path: opening files, rebuilding an index. A segment uses one of them, selected by
    /// its name, because there may be two objects with one name.
    opening: [Mutex<()>; OPENING_LOCKS],
}

impl<D: Disk> LogStore<D> {
    /// `open_segments_max` is the number of segments whose two files are kept open. Segments with unsynced
    /// data, and files held by slices, come on top.
    pub fn new(disk: D, open_segments_max: usize) -> Self {
        let open = OpenSegments {
            segments_max: open_segments_max.max(1),
            clock: Mutex::new(VecDeque::new()),
            tracked: AtomicUsize::new(0),
            opening: std::array::from_fn(|_| Mutex::new(())),
        };
        Self { disk, open: Arc::new(open), verify: Arc::default() }
    }

    /// Sets whether readers of all logs check what they return. The default is no checks.
    pub fn set_verify_reads(&self, verify: VerifyReads) {
        self.verify.set(verify);
    }

    pub(crate) fn verify_reads(&self) -> VerifyReads {
        self.verify.get()
    }

    /// The disk.
    pub fn disk(&self) -> &D {
        &self.disk
    }

    /// The number of segments in the table whose files are open.
    pub fn open_segments(&self) -> usize {
        self.open.clock.lock().iter().filter(|s| s.upgrade().is_some_and(|s| s.is_open())).count()
    }

    /// Returns the lock that serializes the opening of the segment's files.
    pub(crate) fn opening(&self, segment: &Segment<D>) -> MutexGuard<'_, ()> {
        let mut hasher = DefaultHasher::new();
        segment.dir().hash(&mut hasher);
        segment.base_offset.get().hash(&mut hasher);
        self.open.opening[usize_of(hasher.finish()) % OPENING_LOCKS].lock()
    }

    /// Adds a segment that was just opened, and closes others if there are too many.
    pub(crate) fn admit(&self, segment: &Arc<Segment<D>>) {
        let mut clock = self.open.clock.lock();
        clock.push_back(Arc::downgrade(segment));
        self.open.tracked.store(clock.len(), Relaxed);
        drop(clock);
        self.shrink();
    }

    /// Closes segments that were not used lately while there are too many. Cheap if there are not.
    pub(crate) fn shrink(&self) {
        if self.open.tracked.load(Relaxed) <= self.open.segments_max {
            return;
        }
        let mut clock = self.open.clock.lock();
        // Two rounds, because the first may find every segment in use and only clear its mark.
        let mut visits = 2 * clock.len();
        while clock.len() > self.open.segments_max && visits > 0 {
            visits -= 1;
            let Some(weak) = clock.pop_front() else { break };
            if weak.upgrade().is_some_and(|segment| !segment.close_if_unused()) {
                clock.push_back(weak);
            }
        }
        self.open.tracked.store(clock.len(), Relaxed);
    }
}
