//! What the log asks of a disk.
//!
//! The log reaches files only through [`Disk`] and [`DiskFile`]; [`RealDisk`](crate::RealDisk) is the shipped one, the
//! simulator has another that tears, loses and refuses. The traits follow POSIX: a write is durable only after
//! [`DiskFile::sync_data`] of the file, a name only after [`Disk::sync_dir`] of its folder.

use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use std::path::Path;

use tailrace_types::usize_of;

use crate::error::{IoContext, LogError};
use crate::format::names;

/// How a file is opened. Every mode can read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// Read only. The file must exist.
    Read,
    /// Read and write. The file must exist.
    Write,
    /// Read and write. The file is created if it does not exist; its content is kept if it does.
    Create,
    /// Read and write. An existing file is emptied.
    Truncate,
}

/// One name in a folder.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DirEntry {
    /// The name, without its folder. Names that are not UTF-8 are not listed: the log writes none.
    pub name: String,
    /// True for a folder.
    pub is_dir: bool,
}

/// A file system. Cheap to clone; clones name the same files.
pub trait Disk: Clone + Send + Sync + 'static {
    /// An open file.
    type File: DiskFile;

    /// Opens a file.
    ///
    /// # Errors
    /// As open(2): `NotFound` if it must exist and does not, `StorageFull` if it cannot be created for lack of space.
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Self::File>;

    /// Length of a file in bytes, without opening it.
    ///
    /// # Errors
    /// `NotFound` if there is none.
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
    /// As rename(2).
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file. Readers that have it open go on reading.
    ///
    /// # Errors
    /// As unlink(2).
    fn remove_file(&self, path: &Path) -> io::Result<()>;

    /// Creates a folder and its missing parents. Not an error if it exists.
    ///
    /// # Errors
    /// As mkdir(2).
    fn create_dir(&self, path: &Path) -> io::Result<()>;

    /// Removes a folder with the files in it (the log nests no deeper).
    ///
    /// # Errors
    /// As rmdir(2) and unlink(2).
    fn remove_dir(&self, path: &Path) -> io::Result<()>;

    /// The names in a folder, sorted.
    ///
    /// # Errors
    /// `NotFound` if there is no such folder.
    fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>>;

    /// Makes the names in a folder durable: fsync(2) of the folder.
    ///
    /// # Errors
    /// `EIO` and the like. Not to be retried.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;

    /// Makes everything durable that was written to the file system of `path` so far, by whichever process: syncfs(2). What a process
    /// reads that another one wrote before it was killed may be in the page cache only, and a vote that was read is a vote.
    ///
    /// # Errors
    /// As [`DiskFile::sync_data`].
    fn sync_fs(&self, path: &Path) -> io::Result<()>;

    /// Bytes that an unprivileged writer may still use on the file system of `path`.
    ///
    /// # Errors
    /// As statvfs(3).
    fn free_bytes(&self, path: &Path) -> io::Result<u64>;
}

/// An open file. All calls take positions; there is no cursor.
pub trait DiskFile: Send + Sync + 'static {
    /// Reads into `buf` from `position`. 0 means end of file; fewer bytes than asked for are no error.
    ///
    /// # Errors
    /// As pread(2).
    fn read_at(&self, buf: &mut [u8], position: u64) -> io::Result<usize>;

    /// As [`DiskFile::read_at`], without waiting for a device. The default has none. Fewer bytes than asked for, or none, may also mean that
    /// the others are not at hand.
    ///
    /// # Errors
    /// As pread(2); `WouldBlock` if a device would have to be waited for, as far as anybody can tell.
    fn read_at_hand(&self, buf: &mut [u8], position: u64) -> io::Result<usize> {
        self.read_at(buf, position)
    }

    /// Writes all buffers, back to back, from `position` on.
    ///
    /// # Errors
    /// As pwritev(2). After an error any prefix of the data may have been written.
    fn write_all_at(&self, bufs: &[IoSlice<'_>], position: u64) -> io::Result<()>;

    /// Makes the data, and the length that is needed to read it, durable: fdatasync(2).
    ///
    /// # Errors
    /// After an error the state of the unsynced data is unknown for good. It must not be called again in the hope of
    /// success: the kernel reports a failed write-back once and then drops the pages.
    fn sync_data(&self) -> io::Result<()>;

    /// Makes data and all metadata durable: fsync(2).
    ///
    /// # Errors
    /// As [`DiskFile::sync_data`].
    fn sync_all(&self) -> io::Result<()>;

    /// Reserves blocks for `bytes` bytes from `position` on without changing the length: fallocate(2) with
    /// `FALLOC_FL_KEEP_SIZE`. A file system that cannot do it answers success.
    ///
    /// # Errors
    /// `StorageFull` if there is no room for them.
    fn preallocate(&self, position: u64, bytes: u64) -> io::Result<()>;

    /// Sets the length, and gives back blocks beyond it.
    ///
    /// # Errors
    /// As ftruncate(2).
    fn set_len(&self, bytes: u64) -> io::Result<()>;

    /// The length in bytes.
    ///
    /// # Errors
    /// As fstat(2).
    fn len(&self) -> io::Result<u64>;

    /// True if the file holds nothing.
    ///
    /// # Errors
    /// As [`DiskFile::len`].
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// The descriptor from which the kernel can send by itself: sendfile(2). The default has none.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// True if a range can be read without waiting for a device, as far as anybody can tell. The default has no device.
    fn is_resident(&self, position: u64, bytes: u64) -> bool {
        let _ = (position, bytes);
        true
    }

    /// Reads a range into memory, and asks for what lies behind it, so that the device works while the range is being sent. Blocks. The
    /// default does nothing.
    ///
    /// # Errors
    /// The device's.
    fn warm(&self, position: u64, bytes: u64) -> io::Result<()> {
        let _ = (position, bytes);
        Ok(())
    }

    /// Says that a range need not stay in memory. A hint; the default does nothing.
    fn forget(&self, position: u64, bytes: u64) {
        let _ = (position, bytes);
    }
}

/// Reads until `buf` is full or the file ends; returns how much was read.
///
/// # Errors
/// As [`DiskFile::read_at`].
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

/// Reads a whole file of at most `bytes_max` bytes. `None` if there is no such file.
///
/// # Errors
/// As [`Disk::open`] and [`DiskFile::read_at`]; `InvalidData` if the file is longer.
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

/// Replaces the file `path` as a whole: writes it beside, syncs, renames, syncs the folder. Blocks.
///
/// # Errors
/// The disk's. Either file may then be there, each whole.
pub fn replace_file<D: Disk>(disk: &D, path: &Path, bufs: &[IoSlice<'_>]) -> Result<(), LogError> {
    replace_file_unsynced(disk, path, bufs)?;
    sync_parent(disk, path)
}

/// The same without syncing the folder: after a crash either file may be there, each whole.
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

/// Syncs the folder in which `path` lies.
pub(crate) fn sync_parent<D: Disk>(disk: &D, path: &Path) -> Result<(), LogError> {
    let dir = path.parent().unwrap_or(Path::new("."));
    disk.sync_dir(dir).context("sync", dir)
}

/// Removes a file; none there is fine.
pub(crate) fn remove_if_there<D: Disk>(disk: &D, path: &Path) -> Result<(), LogError> {
    match disk.remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(LogError::io("remove", path, error)),
        _ => Ok(()),
    }
}
