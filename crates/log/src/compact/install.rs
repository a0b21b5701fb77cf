//! Putting in place what a round of compaction wrote.

use std::sync::Arc;
use std::sync::atomic::Ordering::Release;

use super::rewrite::Rewritten;
use crate::disk::Disk;
use crate::error::LogError;
use crate::log::Log;
use crate::reader::SegmentList;
use crate::sections::Sections;
use crate::trim::Trim;

/// What was written and has lost its place: retention removed what it was made of. Its files are removed when this is
/// run, without the log's lock.
#[must_use = "the files are removed by run()"]
pub struct Discarded<D: Disk>(Rewritten<D>);

impl<D: Disk> Discarded<D> {
    /// Removes the files.
    pub fn run(&self) {
        self.0.discard();
    }
}

impl<D: Disk> Log<D> {
    /// Lets a rewritten group take the place of what it was made of, for readers at once. [`Trim::run`] then makes that
    /// durable and removes the old files; readers that have them open go on reading. `sections` gives what is derived from the
    /// log up to its end: a snapshot from before must not be used with what compaction has left. It is asked right before the exchange,
    /// and only if there is one.
    ///
    /// # Errors
    /// [`LogError::Poisoned`] if it was. The inner error: the group has lost its place, which is no failure.
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

/// The list with the exchange made; `None` if the sources are no longer where they were.
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
