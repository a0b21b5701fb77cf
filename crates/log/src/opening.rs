//! Opens a segment's files on first use, within the bounds of the store.

use std::sync::Arc;

use crate::disk::{Disk, OpenMode, read_full_at};
use crate::error::{IoContext, LogError};
use crate::format::names::Kind;
use crate::format::row::{ROW_BYTES, Row, check_head, row_position};
use crate::rebuild::rebuild_index;
use crate::segment::{LenOf, Segment, SegmentFiles};
use crate::store::LogStore;

impl<D: Disk> Segment<D> {
    /// Returns the open files, and opens them if needed. Rebuilds a missing or short index first.
    pub(crate) fn files(self: &Arc<Self>, store: &LogStore<D>) -> Result<Arc<SegmentFiles<D>>, LogError> {
        if let Some(files) = self.open_files() {
            return Ok(files);
        }
        let opening = store.opening(self);
        if let Some(files) = self.open_files() {
            return Ok(files);
        }
        let path = self.path(Kind::Log);
        let log = store.disk().open(&path, OpenMode::Write).context("open", &path)?;
        let index = self.open_index(store.disk(), &log)?;
        let files = Arc::new(SegmentFiles { log, index });
        self.install(&files);
        drop(opening);
        store.admit(self);
        Ok(files)
    }

    /// Returns the row of its last batch, if there is one.
    pub(crate) fn last_row(self: &Arc<Self>, store: &LogStore<D>) -> Result<Option<Row>, LogError> {
        let Some(last) = self.rows().checked_sub(1) else { return Ok(None) };
        let files = self.files(store)?;
        self.row(&files, last).map(Some)
    }

    fn open_index(self: &Arc<Self>, disk: &D, log: &D::File) -> Result<D::File, LogError> {
        let path = self.path(Kind::Index);
        let index = match disk.open(&path, OpenMode::Write) {
            Ok(index) => Some(index),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => return Err(LogError::io("open", &path, error)),
        };
        if let Some(index) = index {
            let mut head = [0; ROW_BYTES];
            let read = read_full_at(&index, &mut head, 0).context("read", &path)?;
            match check_head(&head[..read], self.base_offset) {
                Ok(()) if index.len_of(&path)? >= row_position(self.rows()) => return Ok(index),
                Err(error @ crate::format::FormatError::Newer(_)) => return Err(error.in_file(&path)),
                _ => {}
            }
        }
        let (index, suspects) = rebuild_index(disk, self, log)?;
        self.suspect(suspects);
        Ok(index)
    }
}
