//! The disk of a node, of any kind, chosen when the node starts. Counts writes that find no space.

mod refusals;

use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;

use tailrace_log::{DirEntry, Disk, DiskFile, OpenMode};

use refusals::Refusals;

/// The disk of a node. See the module documentation. Cheap to clone.
#[derive(Clone)]
pub struct NodeDisk {
    disk: Arc<dyn AnyDisk>,
    is_private: bool,
    refusals: Arc<Refusals>,
}

impl NodeDisk {
    /// Wraps `disk`, whose folders other processes of this machine may lock.
    pub fn new(disk: impl Disk) -> Self {
        Self { disk: Arc::new(disk), is_private: false, refusals: Arc::default() }
    }

    /// Wraps a disk that only this process sees.
    pub fn private(disk: impl Disk) -> Self {
        Self { is_private: true, ..Self::new(disk) }
    }

    /// Reports whether only this process sees the disk.
    pub(crate) fn is_private(&self) -> bool {
        self.is_private
    }

    /// Returns the writes that found no space.
    pub(crate) fn refusals(&self) -> &Refusals {
        &self.refusals
    }
}

impl std::fmt::Debug for NodeDisk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NodeDisk").field("refusals", &self.refusals).finish_non_exhaustive()
    }
}

/// [`Disk`] as a trait object, whatever the type of its files.
trait AnyDisk: Send + Sync {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Box<dyn DiskFile>>;
    fn len(&self, path: &Path) -> io::Result<u64>;
    fn exists(&self, path: &Path) -> io::Result<bool>;
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    fn remove_file(&self, path: &Path) -> io::Result<()>;
    fn create_dir(&self, path: &Path) -> io::Result<()>;
    fn remove_dir(&self, path: &Path) -> io::Result<()>;
    fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>>;
    fn sync_dir(&self, path: &Path) -> io::Result<()>;
    fn sync_fs(&self, path: &Path) -> io::Result<()>;
    fn free_bytes(&self, path: &Path) -> io::Result<u64>;
}

impl<D: Disk> AnyDisk for D {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(Disk::open(self, path, mode)?))
    }

    fn len(&self, path: &Path) -> io::Result<u64> {
        Disk::len(self, path)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        Disk::exists(self, path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        Disk::rename(self, from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        Disk::remove_file(self, path)
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        Disk::create_dir(self, path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        Disk::remove_dir(self, path)
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        Disk::read_dir(self, path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        Disk::sync_dir(self, path)
    }

    fn sync_fs(&self, path: &Path) -> io::Result<()> {
        Disk::sync_fs(self, path)
    }

    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        Disk::free_bytes(self, path)
    }
}

/// An open file of a [`NodeDisk`].
pub struct NodeFile {
    file: Box<dyn DiskFile>,
    refusals: Arc<Refusals>,
}

impl DiskFile for NodeFile {
    fn read_at(&self, buf: &mut [u8], position: u64) -> io::Result<usize> {
        self.file.read_at(buf, position)
    }

    fn read_at_hand(&self, buf: &mut [u8], position: u64) -> io::Result<usize> {
        self.file.read_at_hand(buf, position)
    }

    fn write_all_at(&self, bufs: &[IoSlice<'_>], position: u64) -> io::Result<()> {
        self.refusals.note(self.file.write_all_at(bufs, position))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.refusals.note(self.file.sync_data())
    }

    fn sync_all(&self) -> io::Result<()> {
        self.refusals.note(self.file.sync_all())
    }

    /// Not counted: writes without preallocation still succeed if there is room.
    fn preallocate(&self, position: u64, bytes: u64) -> io::Result<()> {
        self.file.preallocate(position, bytes)
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.file.set_len(bytes)
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.file.descriptor()
    }

    fn is_resident(&self, position: u64, bytes: u64) -> bool {
        self.file.is_resident(position, bytes)
    }

    fn warm(&self, position: u64, bytes: u64) -> io::Result<()> {
        self.file.warm(position, bytes)
    }

    fn forget(&self, position: u64, bytes: u64) {
        self.file.forget(position, bytes);
    }
}

impl Disk for NodeDisk {
    type File = NodeFile;

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<NodeFile> {
        let file = self.refusals.note(self.disk.open(path, mode))?;
        Ok(NodeFile { file, refusals: Arc::clone(&self.refusals) })
    }

    fn len(&self, path: &Path) -> io::Result<u64> {
        self.disk.len(path)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.disk.exists(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.refusals.note(self.disk.rename(from, to))
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.disk.remove_file(path)
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.refusals.note(self.disk.create_dir(path))
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.disk.remove_dir(path)
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        self.disk.read_dir(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.refusals.note(self.disk.sync_dir(path))
    }

    fn sync_fs(&self, path: &Path) -> io::Result<()> {
        self.refusals.note(self.disk.sync_fs(path))
    }

    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        self.disk.free_bytes(path)
    }
}
