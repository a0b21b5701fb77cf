//! The machine's file system.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::FallocateFlags;
use rustix::io::Errno;

use crate::disk::{DirEntry, Disk, DiskFile, OpenMode};

/// The machine's file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealDisk;

/// An open file of [`RealDisk`]. Its descriptor can be borrowed, for sendfile(2).
#[derive(Debug)]
pub struct RealFile(File);

impl AsFd for RealFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Disk for RealDisk {
    type File = RealFile;

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<RealFile> {
        let mut options = OpenOptions::new();
        options.read(true);
        match mode {
            OpenMode::Read => &mut options,
            OpenMode::Write => options.write(true),
            OpenMode::Create => options.write(true).create(true).truncate(false),
            OpenMode::Truncate => options.write(true).create(true).truncate(true),
        };
        options.open(path).map(RealFile)
    }

    fn len(&self, path: &Path) -> io::Result<u64> {
        Ok(std::fs::metadata(path)?.len())
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        path.try_exists()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        std::fs::create_dir_all(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_dir_all(path)
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        let mut entries = Vec::new();
        for entry in std::fs::read_dir(path)? {
            let entry = entry?;
            if let Ok(name) = entry.file_name().into_string() {
                entries.push(DirEntry { name, is_dir: entry.file_type()?.is_dir() });
            }
        }
        entries.sort_unstable();
        Ok(entries)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }

    fn sync_fs(&self, path: &Path) -> io::Result<()> {
        Ok(rustix::fs::syncfs(File::open(path)?)?)
    }

    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        let stat = rustix::fs::statvfs(path)?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }
}

/// The most buffers per pwritev(2). The log never passes more.
const WRITE_BUFFERS_MAX: usize = 64;

impl DiskFile for RealFile {
    fn read_at(&self, buf: &mut [u8], position: u64) -> io::Result<usize> {
        loop {
            match self.0.read_at(buf, position) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return result,
            }
        }
    }

    fn write_all_at(&self, bufs: &[IoSlice<'_>], position: u64) -> io::Result<()> {
        let total: usize = bufs.iter().map(|b| b.len()).sum();
        let mut done = 0;
        // Nearly always a single call. The rest of a short write is written buffer by buffer.
        if bufs.len() > 1 && bufs.len() <= WRITE_BUFFERS_MAX {
            done = match rustix::io::pwritev(&self.0, bufs, position) {
                Ok(written) => written,
                Err(Errno::INTR) => 0,
                Err(error) => return Err(error.into()),
            };
        }
        if done == total {
            return Ok(());
        }
        write_rest(bufs, done, position, |bytes, at| self.0.write_all_at(bytes, at))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn sync_all(&self) -> io::Result<()> {
        self.0.sync_all()
    }

    fn preallocate(&self, position: u64, bytes: u64) -> io::Result<()> {
        match rustix::fs::fallocate(&self.0, FallocateFlags::KEEP_SIZE, position, bytes) {
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.0.set_len(bytes)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn forget(&self, position: u64, bytes: u64) {
        if let Some(bytes) = std::num::NonZeroU64::new(bytes) {
            let _ = rustix::fs::fadvise(&self.0, position, Some(bytes), rustix::fs::Advice::DontNeed);
        }
    }
}

/// Writes the rest of `bufs`, of which the first `done` bytes are written at `position`.
fn write_rest(
    bufs: &[IoSlice<'_>],
    mut done: usize,
    position: u64,
    write: impl Fn(&[u8], u64) -> io::Result<()>,
) -> io::Result<()> {
    let mut at = position + done as u64;
    for buf in bufs {
        let skip = done.min(buf.len());
        done -= skip;
        write(&buf[skip..], at)?;
        at += (buf.len() - skip) as u64;
    }
    Ok(())
}

/// Name of the file that [`DataDirLock`] locks.
pub const LOCK_FILE: &str = ".lock";

/// Exclusive use of a data folder. Ends when this is dropped, and when the process ends in any way.
#[derive(Debug)]
pub struct DataDirLock {
    path: PathBuf,
    _file: File,
}

/// The reason why a data folder could not be locked.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process holds the lock.
    #[error("{} is locked by another process that uses this data folder", .0.display())]
    Held(PathBuf),
    /// The lock file could not be opened or locked.
    #[error("cannot lock {}: {source}", .path.display())]
    Io {
        /// The lock file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

impl DataDirLock {
    /// Creates `data_dir` if needed, and locks it without waiting.
    ///
    /// # Errors
    /// [`LockError::Held`] if another process holds it.
    pub fn acquire(data_dir: &Path) -> Result<Self, LockError> {
        let path = data_dir.join(LOCK_FILE);
        let io = |source| LockError::Io { path: path.clone(), source };
        if !data_dir.try_exists().map_err(io)? {
            std::fs::create_dir_all(data_dir).map_err(io)?;
            // The first sync of a partition covers the names in the data folder, but not the folder's own
            // name.
            let parent = data_dir.parent().filter(|parent| !parent.as_os_str().is_empty());
            RealDisk.sync_dir(parent.unwrap_or(Path::new("."))).map_err(io)?;
        }
        let open = OpenOptions::new().write(true).create(true).truncate(false).open(&path);
        let file = open.map_err(io)?;
        match file.try_lock() {
            Ok(()) => Ok(Self { path, _file: file }),
            Err(TryLockError::WouldBlock) => Err(LockError::Held(path)),
            Err(TryLockError::Error(source)) => Err(LockError::Io { path, source }),
        }
    }

    /// The lock file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::os::fd::OwnedFd;

    use super::*;

    /// Neither a pipe nor /dev/null can be synced, so a sync that did nothing would go unnoticed. `sync_fs`
    /// is not covered, because there is no file for which syncfs(2) fails.
    #[test]
    fn every_sync_asks_the_system() {
        let (_reader, writer) = io::pipe().unwrap();
        let pipe = RealFile(File::from(OwnedFd::from(writer)));
        assert!(pipe.sync_data().is_err());
        assert!(pipe.sync_all().is_err());
        assert!(File::open("/dev/null").is_ok());
        assert!(RealDisk.sync_dir(Path::new("/dev/null")).is_err());
    }

    #[test]
    fn what_a_short_write_left_goes_behind_what_it_wrote() {
        let (parts, position) = ([&b"head"[..], b"", b"a body", b"!"], 3);
        let whole = parts.concat();
        let bufs = parts.map(IoSlice::new);
        for done in 0..=whole.len() {
            let file = RefCell::new([&b"..."[..], &whole[..done]].concat());
            let write = |bytes: &[u8], at: u64| {
                let (mut file, at) = (file.borrow_mut(), usize::try_from(at).unwrap());
                let end = file.len().max(at + bytes.len());
                file.resize(end, b'?');
                file[at..at + bytes.len()].copy_from_slice(bytes);
                Ok(())
            };
            write_rest(&bufs, done, position, write).unwrap();
            assert_eq!(*file.borrow(), [&b"..."[..], &whole].concat(), "after {done} bytes");
        }
    }
}
