//! Checks whether part of a file is in the page cache. If not, reads it in, on a thread that may block.
//!
//! sendfile from a page that is not in memory waits for the disk, and would stall every connection of an
//! event loop.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use rustix::io::{Errno, ReadWriteFlags};

/// Distance between probes if the kernel has no cachestat(2): the default size of its read-ahead.
const PROBE_BYTES: u64 = 128 * 1024;

const PAGE_BYTES: u64 = 4096;

/// How much to prefetch beyond a range that was not cached: what a fast disk reads in about 10 ms.
const AHEAD_BYTES: u64 = 4 * 1024 * 1024;

/// Size of one read while warming the cache.
const WARM_BUFFER_BYTES: usize = 128 * 1024;

/// Reports whether all of `[position, position + bytes)` can be sent without waiting for the disk, as far as
/// the kernel can tell.
pub(crate) fn is_cached(file: impl AsFd, position: u64, bytes: u64) -> bool {
    let first = position / PAGE_BYTES;
    let last = (position + bytes.max(1) - 1) / PAGE_BYTES;
    // Small slices are the most frequent. They span one or two pages, so probing both ends covers every page.
    if last - first <= 1 {
        return is_readable(&file, position) && (first == last || is_readable(&file, position + bytes - 1));
    }
    // A cached page may still be on its way from the disk, which only a non-blocking read can tell. Probes
    // alone would miss gaps between the pages they look at.
    cached_pages(&file, position, bytes).is_none_or(|pages| pages > last - first)
        && probe(&file, position, bytes)
}

/// Reads a range into the page cache and prefetches [`AHEAD_BYTES`] behind it, so that the disk works while
/// the range is being sent. Blocks.
pub(crate) fn read_ahead(file: impl AsFd, position: u64, bytes: u64) -> io::Result<()> {
    let mut buffer = vec![0; WARM_BUFFER_BYTES];
    let mut at = position;
    let end = position + bytes;
    while at < end {
        let wanted = buffer.len().min(usize::try_from(end - at).unwrap_or(usize::MAX));
        let read = rustix::io::pread(&file, &mut buffer[..wanted], at)?;
        if read == 0 {
            break;
        }
        at += read as u64;
    }
    // Only a hint: without it the next chunk is colder.
    let ahead = std::num::NonZeroU64::new(AHEAD_BYTES);
    let _ = rustix::fs::fadvise(&file, end, ahead, rustix::fs::Advice::WillNeed);
    Ok(())
}

/// Like pread(2), but only from memory. Returns `WouldBlock` if the read would have to wait for the disk. If
/// the file system cannot tell, reads anyway.
pub(crate) fn read_at_hand(file: impl AsFd, buf: &mut [u8], position: u64) -> io::Result<usize> {
    loop {
        let read =
            rustix::io::preadv2(&file, &mut [io::IoSliceMut::new(buf)], position, ReadWriteFlags::NOWAIT);
        let end = || Ok(rustix::fs::fstat(&file)?.st_size.unsigned_abs());
        match at_hand(read, buf.len(), position, end)? {
            AtHand::Read(bytes) => return Ok(bytes),
            AtHand::Again => {}
            AtHand::Unknown => return Ok(rustix::io::pread(&file, buf, position)?),
        }
    }
}

/// Outcome of a non-blocking read.
#[derive(Debug, PartialEq, Eq)]
enum AtHand {
    /// This many bytes were read. 0 only at the end of the file.
    Read(usize),
    /// The read was interrupted and has to be repeated.
    Again,
    /// The file system does not support non-blocking reads.
    Unknown,
}

/// Interprets a non-blocking read. Linux 5.9 and 5.10 return 0 bytes instead of an error when the read would
/// have to wait. Only the end of the file tells the two apart.
fn at_hand(
    read: Result<usize, Errno>,
    wanted: usize,
    position: u64,
    end: impl FnOnce() -> io::Result<u64>,
) -> io::Result<AtHand> {
    match read {
        Ok(0) if wanted > 0 && position < end()? => Err(io::ErrorKind::WouldBlock.into()),
        Ok(bytes) => Ok(AtHand::Read(bytes)),
        Err(Errno::INTR) => Ok(AtHand::Again),
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(AtHand::Unknown),
        Err(error) => Err(error.into()),
    }
}

/// Asks cachestat(2) (Linux 6.5) how many pages of the range are cached. `None` if the kernel does not have
/// it.
#[cfg(target_os = "linux")]
fn cached_pages(file: &impl AsFd, position: u64, bytes: u64) -> Option<u64> {
    #[repr(C)]
    struct Range {
        offset: u64,
        length: u64,
    }
    #[repr(C)]
    #[derive(Default)]
    struct Statistics {
        cached: u64,
        dirty: u64,
        writeback: u64,
        evicted: u64,
        recently_evicted: u64,
    }
    /// The number is the same on every architecture.
    const SYS_CACHESTAT: libc::c_long = 451;

    let range = Range { offset: position, length: bytes };
    let mut statistics = Statistics::default();
    let descriptor = file.as_fd().as_raw_fd();
    // SAFETY: both structures outlive the call and have the layout that cachestat(2) specifies. The kernel
    // reads the first and writes the second, and keeps neither.
    #[expect(unsafe_code, reason = "no library offers cachestat(2) yet")]
    let result =
        unsafe { libc::syscall(SYS_CACHESTAT, descriptor, &raw const range, &raw mut statistics, 0) };
    (result == 0).then_some(statistics.cached)
}

#[cfg(not(target_os = "linux"))]
fn cached_pages(_: &impl AsFd, _: u64, _: u64) -> Option<u64> {
    None
}

/// Reads single bytes without waiting: in the first page, in the last, and one per step of read-ahead
/// between.
fn probe(file: &impl AsFd, position: u64, bytes: u64) -> bool {
    let last = position + bytes.saturating_sub(1);
    let mut at = position;
    while is_readable(file, at) {
        if at >= last {
            return true;
        }
        at = (at + PROBE_BYTES).min(last);
    }
    false
}

/// Reports whether the byte at `position` can be read without waiting, or the file system cannot tell. A read
/// of 0 bytes counts as unreadable: see [`at_hand`].
fn is_readable(file: &impl AsFd, position: u64) -> bool {
    let mut byte = [0];
    let mut buffers = [io::IoSliceMut::new(&mut byte)];
    match rustix::io::preadv2(file, &mut buffers, position, ReadWriteFlags::NOWAIT) {
        Ok(read) => read == 1,
        Err(error) => error == Errno::OPNOTSUPP || error == Errno::NOSYS,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn what_was_just_written_is_resident_and_what_was_dropped_is_warmed() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&vec![7; 1 << 20]).unwrap();
        assert!(is_cached(&file, 0, 1 << 20));
        assert!(probe(&file, 0, 1 << 20));
        file.sync_all().unwrap();
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        // tmpfs is the cache itself and cannot drop it. Only the first look counts, because it makes the
        // kernel read ahead.
        let is_tmpfs = rustix::fs::fstatfs(&file).unwrap().f_type == 0x0102_1994;
        assert!(is_tmpfs || !is_cached(&file, 0, 1 << 20));
        read_ahead(&file, 5000, 300_000).unwrap();
        assert!(is_cached(&file, 5000, 300_000));
        assert!(is_cached(&file, 8190, 4));
    }

    #[test]
    fn what_is_in_memory_is_read_and_what_is_not_is_said() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[7; 10_000]).unwrap();
        let mut buf = [0; 100];
        assert_eq!(read_at_hand(&file, &mut buf, 9_950).unwrap(), 50);
        assert_eq!((buf[49], buf[50]), (7, 0));
        assert_eq!(read_at_hand(&file, &mut buf, 10_000).unwrap(), 0);
        file.sync_all().unwrap();
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        // Some file systems have no disk behind them, or cannot tell.
        if let Err(error) = read_at_hand(&file, &mut buf, 0) {
            assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        }
    }

    #[test]
    fn a_read_of_nothing_tells_the_end_of_the_file_only_there() {
        let end = || Ok(10_000);
        let judge = |read, wanted, position| at_hand(read, wanted, position, end);
        for position in [0, 4096, 9_999] {
            let found = judge(Ok(0), 100, position).map_err(|error| error.kind());
            assert_eq!(found, Err(io::ErrorKind::WouldBlock), "at {position}");
        }
        for (read, wanted, position, expected) in [
            (Ok(0), 100, 10_000, AtHand::Read(0)),
            (Ok(0), 100, 10_001, AtHand::Read(0)),
            (Ok(0), 0, 5_000, AtHand::Read(0)),
            (Ok(96), 100, 4_000, AtHand::Read(96)),
            (Err(Errno::INTR), 100, 0, AtHand::Again),
            (Err(Errno::OPNOTSUPP), 100, 0, AtHand::Unknown),
            (Err(Errno::NOSYS), 100, 0, AtHand::Unknown),
        ] {
            assert_eq!(
                judge(read, wanted, position).unwrap(),
                expected,
                "{read:?} of {wanted} at {position}"
            );
        }
        for (error, kind) in
            [(Errno::AGAIN, io::ErrorKind::WouldBlock), (Errno::NOENT, io::ErrorKind::NotFound)]
        {
            assert_eq!(judge(Err(error), 100, 0).unwrap_err().kind(), kind);
        }
        let unknown_end = at_hand(Ok(0), 100, 0, || Err(io::ErrorKind::PermissionDenied.into()));
        assert_eq!(unknown_end.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    }
}
