//! The interface of a disk, as the log needs it.
//!
//! The log accesses files only through [`Disk`] and [`DiskFile`]. [`RealDisk`](crate::RealDisk) is the
//! production implementation. The simulator has another one that tears, loses and refuses writes. The traits
//! follow POSIX: a write is durable only after [`DiskFile::sync_data`] of the file, a name only after
//! [`Disk::sync_dir`] of its folder.

use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use std::path::Path;

use tailrace_types::usize_of;

use crate::error::{IoContext, LogError};
use crate::format::names;

/// How a file is opened. Every mode permits reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// Read only. The file must exist.
    Read,
    /// Read and write. The file must exist.
    Write,
    /// Read and write. The file is created if it does not exist. Existing content is kept.
    Create,
    /// Read and write. An existing file is emptied.
    Truncate,
}

/// One name in a folder.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DirEntry {
    /// The name without its folder. Names that are not UTF-8 are not listed, because the log writes none.
    pub name: String,
    /// True for a folder.
    pub is_dir: bool,
}

/// A file system. Cheap to clone. Clones refer to the same files.
pub trait Disk: Clone + Send + Sync + 'static {
    /// An open file.
    type File: DiskFile;

    /// Opens a file.
    ///
    /// # Errors
    /// Those of open(2): `NotFound` if the file must exist and does not, `StorageFull` if it cannot be
    /// created for lack of space.
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Self::File>;

    /// Returns the length of a file in bytes without opening it.
    ///
    /// # Errors
    /// `NotFound` if it does not exist.
    fn len(&self, path: &Path) -> io::Result<u64>;

    /// True if a file or folder has this name.
    ///
    /// # Errors
    /// Anything but its absence.
    fn exists(&self, path: &Path) -> io::Result<bool>;

    /// Renames a file or folder within one folder, replacing a file of the new name. Durable after
    /// [`Disk::sync_dir`].
    ///
    /// # Errors
    /// Those of rename(2).
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file. Readers that have it open can still read it.
    ///
    /// # Errors
    /// Those of unlink(2).
    fn remove_file(&self, path: &Path) -> io::Result<()>;

    /// Creates a folder and its missing parents. It is no error if the folder exists.
    ///
    /// # Errors
    /// Those of mkdir(2).
    fn create_dir(&self, path: &Path) -> io::Result<()>;

    /// Removes a folder with the files in it. The log nests no deeper.
    ///
    /// # Errors
    /// Those of rmdir(2) and unlink(2).
    fn remove_dir(&self, path: &Path) -> io::Result<()>;

    /// Returns the names in a folder, sorted.
    ///
    /// # Errors
    /// `NotFound` if there is no such folder.
    fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>>;

    /// Makes the names in a folder durable: fsync(2) of the folder.
    ///
    /// # Errors
    /// `EIO` and the like. Never retry.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;

    /// Makes everything durable that any process has written to the file system of `path` so far: syncfs(2).
    /// Bytes that this process reads after another process wrote them and was killed may be only in the page
    /// cache, and a vote counts once it was read.
    ///
    /// # Errors
    /// Those of [`DiskFile::sync_data`].
    fn sync_fs(&self, path: &Path) -> io::Result<()>;

    /// Returns the bytes that an unprivileged writer may still use on the file system of `path`.
    ///
    /// # Errors
    /// Those of statvfs(3).
    fn free_bytes(&self, path: &Path) -> io::Result<u64>;
}

/// An open file. All calls take positions. There is no cursor.
pub trait DiskFile: Send + Sync + 'static {
    /// Reads into `buf` from `position`. 0 means end of file. A short read is no error.
    ///
    /// # Errors
    /// Those of pread(2).
    fn read_at(&self, buf: &mut [u8], position: u64) -> io::Result<usize>;

    /// Like [`DiskFile::read_at`], without waiting for a device. The default implementation assumes no
    /// device. A short read, or none, may also mean that the remaining bytes are not in memory.
    ///
    /// # Errors
    /// Those of pread(2). `WouldBlock` if the read would have to wait for a device, as far as can be
    /// determined.
    fn read_at_hand(&self, buf: &mut [u8], position: u64) -> io::Result<usize> {
        self.read_at(buf, position)
    }

    /// Writes all buffers contiguously, starting at `position`.
    ///
    /// # Errors
    /// Those of pwritev(2). After an error, any prefix of the data may have been written.
    fn write_all_at(&self, bufs: &[IoSlice<'_>], position: u64) -> io::Result<()>;

    /// Makes the data, and the length that is needed to read it, durable: fdatasync(2).
    ///
    /// # Errors
    /// After an error the state of the unsynced data is unknown for good. Never retry in the hope of success:
    /// the kernel reports a failed write-back once and then drops the pages.
    fn sync_data(&self) -> io::Result<()>;

    /// Makes data and all metadata durable: fsync(2).
    ///
    /// # Errors
    /// Those of [`DiskFile::sync_data`].
    fn sync_all(&self) -> io::Result<()>;

    /// Reserves blocks for `bytes` bytes from `position` on without changing the length: fallocate(2) with
    /// `FALLOC_FL_KEEP_SIZE`. Returns success on a file system that does not support this.
    ///
    /// # Errors
    /// `StorageFull` if there is no room for them.
    fn preallocate(&self, position: u64, bytes: u64) -> io::Result<()>;

    /// Sets the length, and frees blocks beyond it.
    ///
    /// # Errors
    /// Those of ftruncate(2).
    fn set_len(&self, bytes: u64) -> io::Result<()>;

    /// Returns the length in bytes.
    ///
    /// # Errors
    /// Those of fstat(2).
    fn len(&self) -> io::Result<u64>;

    /// True if the file is empty.
    ///
    /// # Errors
    /// Those of [`DiskFile::len`].
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Returns the descriptor for sendfile(2). The default implementation has none.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// True if a range can be read without waiting for a device, as far as can be determined. The default
    /// implementation has no device.
    fn is_resident(&self, position: u64, bytes: u64) -> bool {
        let _ = (position, bytes);
        true
    }

    /// Reads a range into memory and starts readahead of what follows, so that the device works while the
    /// range is being sent. Blocks. The default implementation does nothing.
    ///
    /// # Errors
    /// The device's error.
    fn warm(&self, position: u64, bytes: u64) -> io::Result<()> {
        let _ = (position, bytes);
        Ok(())
    }

    /// Hints that a range need not stay in memory. The default implementation does nothing.
    fn forget(&self, position: u64, bytes: u64) {
        let _ = (position, bytes);
    }
}

/// Reads until `buf` is full or the file ends. Returns the number of bytes read.
///
/// # Errors
/// Those of [`DiskFile::read_at`].
pub fn read_full_at<F: DiskFile>(file: &F, buf: &mut [u8], position: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < buf.len() {
        match file.read_at(&mut buf[done..], position + done as u64)? {
            0 => break,
            n => done += n,
        }
    }
    Ok(done)
}

/// Reads a whole file of at most `bytes_max` bytes. `None` if it does not exist.
///
/// # Errors
/// Those of [`Disk::open`] and [`DiskFile::read_at`]. `InvalidData` if the file is longer.
pub fn read_file<D: Disk>(disk: &D, path: &Path, bytes_max: u64) -> io::Result<Option<Vec<u8>>> {
    let file = match disk.open(path, OpenMode::Read) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let bytes = file.len()?;
    if bytes > bytes_max {
        let text = format!("{} has {bytes} bytes, more than {bytes_max}", path.display());
        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
    }
    let mut buf = vec![0; usize_of(bytes)];
    let read = read_full_at(&file, &mut buf, 0)?;
    buf.truncate(read);
    Ok(Some(buf))
}

/// Replaces the file `path` as a whole: writes a temporary file, syncs it, renames it, and syncs the folder.
/// Blocks.
///
/// # Errors
/// The disk's errors. Either file may then be in place, each whole.
pub fn replace_file<D: Disk>(disk: &D, path: &Path, bufs: &[IoSlice<'_>]) -> Result<(), LogError> {
    replace_file_unsynced(disk, path, bufs)?;
    sync_parent(disk, path)
}

/// Like [`replace_file`], without syncing the folder: after a crash either file may be in place, each whole.
pub(crate) fn replace_file_unsynced<D: Disk>(
    disk: &D,
    path: &Path,
    bufs: &[IoSlice<'_>],
) -> Result<(), LogError> {
    let temporary = names::with_suffix(path, names::TEMPORARY_SUFFIX);
    let file = disk.open(&temporary, OpenMode::Truncate).context("create", &temporary)?;
    file.write_all_at(bufs, 0).context("write", &temporary)?;
    file.sync_all().context("sync", &temporary)?;
    disk.rename(&temporary, path).context("rename", &temporary)
}

/// Syncs the folder that contains `path`.
pub(crate) fn sync_parent<D: Disk>(disk: &D, path: &Path) -> Result<(), LogError> {
    let dir = path.parent().unwrap_or(Path::new("."));
    disk.sync_dir(dir).context("sync", dir)
}

/// Removes a file. It is no error if the file does not exist.
pub(crate) fn remove_if_there<D: Disk>(disk: &D, path: &Path) -> Result<(), LogError> {
    match disk.remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(LogError::io("remove", path, error)),
        _ => Ok(()),
    }
}
