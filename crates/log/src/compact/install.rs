//! Putting the output of a round of compaction in place.

use std::sync::Arc;
use std::sync::atomic::Ordering::Release;

use super::rewrite::Rewritten;
use crate::disk::Disk;
use crate::error::LogError;
use crate::log::Log;
use crate::reader::SegmentList;
use crate::sections::Sections;
use crate::trim::Trim;

/// Rewritten segments that cannot be installed, because retention removed their sources. Running this removes
/// their files, without the log's lock.
#[must_use = "the files are removed by run()"]
pub struct Discarded<D: Disk>(Rewritten<D>);

impl<D: Disk> Discarded<D> {
    /// Removes the files.
    pub fn run(&self) {
        self.0.discard();
    }
}

impl<D: Disk> Log<D> {
    /// Replaces the sources of a rewritten group with the group, immediately for readers. [`Trim::run`] then
    /// makes that durable and removes the old files. Readers that have these open can still read them.
    /// `sections` returns the state derived from the log up to its end, because an older snapshot must not be
    /// used with the compacted log. It is called right before the replacement, and only if there is one.
    ///
    /// # Errors
    /// [`LogError::Poisoned`] if the log is poisoned. The inner error is no failure: the sources of the group
    /// are gone.
    pub fn install_compacted(
        &mut self,
        rewritten: Rewritten<D>,
        sections: impl FnOnce() -> Option<Sections>,
    ) -> Result<Result<Trim<D>, Discarded<D>>, LogError> {
        self.check_writable()?;
        let list = self.reader.segments.load_full();
        let Some(new_list) = exchanged(&list, &rewritten, self.active.as_ref()) else {
            return Ok(Err(Discarded(rewritten)));
        };
        let sections = sections();
        if let Some(segment) = &rewritten.segment {
            self.reader.damage.mended(segment.base_offset, segment.end_offset());
            self.reader.segments.store(Arc::new(new_list));
            self.reader.store.admit(segment);
        }
        if let Some(first_dirty) = rewritten.first_dirty {
            self.reader.first_dirty.fetch_max(first_dirty.0, Release);
        }
        Ok(Ok(Trim::new(self.checkpoint_plan(sections), self.log_start(), rewritten.sources.clone())))
    }
}

/// Returns the list with the replacement made. `None` if the sources are no longer in the list.
fn exchanged<D: Disk>(
    list: &SegmentList<D>,
    rewritten: &Rewritten<D>,
    active: Option<&Arc<crate::segment::Segment<D>>>,
) -> Option<SegmentList<D>> {
    let (Some(segment), Some(first)) = (&rewritten.segment, rewritten.sources.first()) else {
        return Some(Vec::new());
    };
    let at = list.iter().position(|s| Arc::ptr_eq(s, first))?;
    let end = at + rewritten.sources.len();
    let same = list.get(at..end)?.iter().zip(&rewritten.sources).all(|(a, b)| Arc::ptr_eq(a, b));
    let has_active = rewritten.sources.iter().any(|s| active.is_some_and(|active| Arc::ptr_eq(s, active)));
    if !same || has_active {
        return None;
    }
    let mut new: SegmentList<D> = list[..at].to_vec();
    new.push(Arc::clone(segment));
    new.extend_from_slice(&list[end..]);
    Some(new)
}
