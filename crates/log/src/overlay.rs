//! A disk that writes only to memory, over the content of another disk.
//!
//! It lets the log go through all steps of a start (recovery, truncation, rebuilding) only to see what they
//! would do. `tailrace log verify` and `tailrace log repair` use it, so that their output matches what the
//! next start does.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, ErrorKind, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;
use tailrace_types::usize_of;

use crate::disk::{DirEntry, Disk, DiskFile, OpenMode};

/// Written bytes are kept in pages of this size.
const PAGE: u64 = 4096;

/// Another disk, with changes in memory. Clones share the changes.
#[derive(Clone)]
pub struct Overlay<D: Disk>(Arc<Shared<D>>);

struct Shared<D: Disk> {
    disk: D,
    /// Files that differ from `disk`. `None` for removed ones.
    changed: Mutex<HashMap<PathBuf, Option<OverlayFile<D>>>>,
    /// Bytes in memory, and their bound.
    kept: Arc<AtomicU64>,
    bytes_max: u64,
}

/// A file of an [`Overlay`].
pub struct OverlayFile<D: Disk>(Arc<Contents<D>>);

impl<D: Disk> Clone for OverlayFile<D> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

struct Contents<D: Disk> {
    /// The file below, for bytes that no page holds.
    below: Option<D::File>,
    state: Mutex<Pages>,
    kept: Arc<AtomicU64>,
    bytes_max: u64,
}

#[derive(Default)]
struct Pages {
    len: u64,
    /// Below this position the underlying file shows through.
    below_len: u64,
    pages: BTreeMap<u64, Box<[u8]>>,
}

impl<D: Disk> Overlay<D> {
    /// Creates an overlay without changes. If more than `bytes_max` bytes would be kept, writes fail as on a
    /// full disk.
    pub fn new(disk: D, bytes_max: u64) -> Self {
        let kept = Arc::default();
        Self(Arc::new(Shared { disk, changed: Mutex::default(), kept, bytes_max }))
    }

    fn file(&self, below: Option<D::File>) -> io::Result<OverlayFile<D>> {
        let len = below.as_ref().map_or(Ok(0), DiskFile::len)?;
        let state = Mutex::new(Pages { len, below_len: len, pages: BTreeMap::new() });
        let (kept, bytes_max) = (Arc::clone(&self.0.kept), self.0.bytes_max);
        Ok(OverlayFile(Arc::new(Contents { below, state, kept, bytes_max })))
    }

    fn changed(&self, path: &Path) -> Option<Option<OverlayFile<D>>> {
        self.0.changed.lock().get(path).cloned()
    }

    fn change(&self, path: &Path, file: Option<OverlayFile<D>>) {
        self.0.changed.lock().insert(path.to_owned(), file);
    }

    /// Returns the file as seen through the overlay, and keeps it open.
    fn take(&self, path: &Path) -> io::Result<OverlayFile<D>> {
        match self.changed(path) {
            Some(Some(file)) => Ok(file),
            Some(None) => Err(ErrorKind::NotFound.into()),
            None => self.file(Some(self.0.disk.open(path, OpenMode::Read)?)),
        }
    }
}

impl<D: Disk> Disk for Overlay<D> {
    type File = OverlayFile<D>;

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Self::File> {
        let file = match (self.take(path), mode) {
            (_, OpenMode::Truncate) => self.file(None)?,
            (Err(error), OpenMode::Create) if error.kind() == ErrorKind::NotFound => self.file(None)?,
            (found, _) => found?,
        };
        if mode != OpenMode::Read {
            self.change(path, Some(file.clone()));
        }
        Ok(file)
    }

    fn len(&self, path: &Path) -> io::Result<u64> {
        match self.changed(path) {
            Some(Some(file)) => file.len(),
            Some(None) => Err(ErrorKind::NotFound.into()),
            None => self.0.disk.len(path),
        }
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        match self.changed(path) {
            Some(file) => Ok(file.is_some()),
            None => self.0.disk.exists(path),
        }
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let file = self.take(from)?;
        self.change(to, Some(file));
        self.change(from, None);
        Ok(())
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        if !self.exists(path)? {
            return Err(ErrorKind::NotFound.into());
        }
        self.change(path, None);
        Ok(())
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        // A folder that does not exist is never listed, and the inspection of one folder creates no others.
        if self.0.disk.exists(path)? { Ok(()) } else { Err(ErrorKind::Unsupported.into()) }
    }

    fn remove_dir(&self, _path: &Path) -> io::Result<()> {
        Err(ErrorKind::Unsupported.into())
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        let changed = self.0.changed.lock();
        let is_unchanged = |entry: &DirEntry| !changed.contains_key(&path.join(&entry.name));
        let mut entries: Vec<_> = self.0.disk.read_dir(path)?.into_iter().filter(is_unchanged).collect();
        for (file, _) in changed.iter().filter(|(file, there)| there.is_some() && file.parent() == Some(path))
        {
            let name = file.file_name().and_then(|name| name.to_str());
            entries.extend(name.map(|name| DirEntry { name: name.to_owned(), is_dir: false }));
        }
        entries.sort_unstable();
        Ok(entries)
    }

    fn sync_dir(&self, _path: &Path) -> io::Result<()> {
        Ok(())
    }

    fn sync_fs(&self, _path: &Path) -> io::Result<()> {
        Ok(())
    }

    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        self.0.disk.free_bytes(path)
    }
}

impl<D: Disk> Contents<D> {
    /// Returns the page at `at` as seen through the overlay.
    fn load(&self, state: &Pages, at: u64) -> io::Result<Box<[u8]>> {
        if let Some(page) = state.pages.get(&at) {
            return Ok(page.clone());
        }
        let mut page = vec![0; PAGE as usize];
        let there = state.below_len.saturating_sub(at).min(PAGE) as usize;
        if let Some(below) = &self.below {
            crate::disk::read_full_at(below, &mut page[..there], at)?;
        }
        Ok(page.into())
    }

    fn keep(&self, state: &mut Pages, at: u64, page: Box<[u8]>) -> io::Result<()> {
        if state.pages.insert(at, page).is_none()
            && self.kept.fetch_add(PAGE, Relaxed) + PAGE > self.bytes_max
        {
            return Err(ErrorKind::StorageFull.into());
        }
        Ok(())
    }

    fn write(&self, state: &mut Pages, bytes: &[u8], position: u64) -> io::Result<()> {
        let mut done = 0;
        while done < bytes.len() {
            let position = position + done as u64;
            let (at, within) = (position - position % PAGE, (position % PAGE) as usize);
            let some = (PAGE as usize - within).min(bytes.len() - done);
            let mut page = self.load(state, at)?;
            page[within..within + some].copy_from_slice(&bytes[done..done + some]);
            self.keep(state, at, page)?;
            done += some;
        }
        state.len = state.len.max(position + bytes.len() as u64);
        Ok(())
    }
}

impl<D: Disk> DiskFile for OverlayFile<D> {
    fn read_at(&self, buf: &mut [u8], position: u64) -> io::Result<usize> {
        let state = self.0.state.lock();
        let left = state.len.saturating_sub(position);
        let want = usize_of(left).min(buf.len());
        let is_plain = position + want as u64 <= state.below_len
            && state.pages.range(position - position % PAGE..position + want as u64).next().is_none();
        if let Some(below) = self.0.below.as_ref().filter(|_| is_plain) {
            return below.read_at(&mut buf[..want], position);
        }
        let mut done = 0;
        while done < want {
            let position = position + done as u64;
            let within = (position % PAGE) as usize;
            let some = (PAGE as usize - within).min(want - done);
            let page = self.0.load(&state, position - within as u64)?;
            buf[done..done + some].copy_from_slice(&page[within..within + some]);
            done += some;
        }
        Ok(want)
    }

    fn write_all_at(&self, bufs: &[IoSlice<'_>], mut position: u64) -> io::Result<()> {
        let mut state = self.0.state.lock();
        for buf in bufs {
            self.0.write(&mut state, buf, position)?;
            position += buf.len() as u64;
        }
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn sync_all(&self) -> io::Result<()> {
        Ok(())
    }

    fn preallocate(&self, _position: u64, _bytes: u64) -> io::Result<()> {
        Ok(())
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        let mut state = self.0.state.lock();
        if bytes < state.len {
            state.below_len = state.below_len.min(bytes);
            let gone = state.pages.split_off(&bytes.next_multiple_of(PAGE));
            self.0.kept.fetch_sub(gone.len() as u64 * PAGE, Relaxed);
            let (at, within) = (bytes - bytes % PAGE, (bytes % PAGE) as usize);
            if let Some(page) = state.pages.get_mut(&at) {
                page[within..].fill(0);
            }
        }
        state.len = bytes;
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.state.lock().len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{read_file, replace_file};
    use crate::real::RealDisk;

    /// Applies the same random operations to a file of the overlay and to one in memory.
    #[test]
    fn it_reads_what_was_written_and_the_disk_stays_as_it_is() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("f");
        let before: Vec<u8> = (0..20_000_u32).map(|n| n as u8).collect();
        std::fs::write(&path, &before).expect("a file");
        let overlay = Overlay::new(RealDisk, 1 << 20);
        let file = overlay.open(&path, OpenMode::Write).expect("it is there");
        let (mut expected, mut seed) = (before.clone(), 7_u64);
        let mut draw = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % below
        };
        for step in 0..500_u32 {
            if draw(5) == 0 {
                let len = draw(30_000);
                file.set_len(len).expect("a length");
                expected.resize(len as usize, 0);
            } else {
                let (at, bytes) = (draw(25_000) as usize, vec![step as u8; draw(6_000) as usize]);
                file.write_all_at(&[IoSlice::new(&bytes)], at as u64).expect("a write");
                if !bytes.is_empty() {
                    expected.resize(expected.len().max(at + bytes.len()), 0);
                    expected[at..at + bytes.len()].copy_from_slice(&bytes);
                }
            }
            assert_eq!(
                read_file(&overlay, &path, 1 << 20).expect("a read").expect("a file"),
                expected,
                "{step}"
            );
        }
        assert_eq!(std::fs::read(&path).expect("the file"), before);
    }

    #[test]
    fn names_are_changed_in_memory_only() {
        let dir = tempfile::tempdir().expect("a folder");
        std::fs::write(dir.path().join("a"), "1").expect("a file");
        let overlay = Overlay::new(RealDisk, 1 << 20);
        let path = |name: &str| dir.path().join(name);
        overlay.rename(&path("a"), &path("b")).expect("a rename");
        replace_file(&overlay, &path("c"), &[IoSlice::new(b"2")]).expect("a new file");
        let names = |disk: &Overlay<RealDisk>| {
            disk.read_dir(dir.path())
                .expect("a folder")
                .into_iter()
                .map(|entry| entry.name)
                .collect::<Vec<_>>()
        };
        assert_eq!(names(&overlay), ["b", "c"]);
        overlay.remove_file(&path("b")).expect("gone");
        assert!(overlay.remove_file(&path("b")).is_err() && !overlay.exists(&path("a")).expect("a look"));
        assert_eq!(names(&Overlay::new(RealDisk, 0)), ["a"]);
    }

    #[test]
    fn it_is_full_at_its_bound() {
        let dir = tempfile::tempdir().expect("a folder");
        let overlay = Overlay::new(RealDisk, 2 * PAGE);
        let file = overlay.open(&dir.path().join("x"), OpenMode::Create).expect("a file");
        file.write_all_at(&[IoSlice::new(&[1; 2 * PAGE as usize])], 0).expect("room");
        let error = file.write_all_at(&[IoSlice::new(&[1])], 2 * PAGE).expect_err("no room");
        assert_eq!(error.kind(), ErrorKind::StorageFull);
    }
}
