//! The storage that a read may use: memory only, or also the disk.

use std::io;

use crate::disk::{DiskFile, read_full_at};

/// The storage that a read may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Memory and disk. The read may block.
    Disk,
    /// Memory only, as on an event loop. If that is not enough, the read fails with
    /// [`NotAtHand`](crate::LogError::NotAtHand).
    Memory,
}

impl Reach {
    /// Like [`read_full_at`], for bytes that should be before the end of the file. Only a read from the disk
    /// can conclude that the file is shorter. A read from memory may return nothing for other reasons.
    ///
    /// # Errors
    /// `WouldBlock` if only memory may be used, and that is not enough.
    pub(crate) fn read_full_at<F: DiskFile>(
        self,
        file: &F,
        buf: &mut [u8],
        position: u64,
    ) -> io::Result<usize> {
        if self == Self::Disk {
            return read_full_at(file, buf, position);
        }
        let mut done = 0;
        while done < buf.len() {
            match file.read_at_hand(&mut buf[done..], position + done as u64)? {
                0 => return Err(io::ErrorKind::WouldBlock.into()),
                n => done += n,
            }
        }
        Ok(done)
    }
}

#[cfg(test)]
mod tests {
    use std::io::IoSlice;
    use std::sync::Mutex;

    use super::*;

    /// The results of successive reads without waiting, of a file of ten bytes.
    struct Answers(Mutex<Vec<io::Result<usize>>>);

    impl DiskFile for Answers {
        fn read_at(&self, buf: &mut [u8], position: u64) -> io::Result<usize> {
            let bytes = buf.len().min(10_usize.saturating_sub(position as usize));
            buf[..bytes].fill(7);
            Ok(bytes)
        }

        fn read_at_hand(&self, buf: &mut [u8], position: u64) -> io::Result<usize> {
            let bytes = self.0.lock().unwrap().remove(0)?;
            self.read_at(&mut buf[..bytes], position)
        }

        fn write_all_at(&self, _: &[IoSlice<'_>], _: u64) -> io::Result<()> {
            unreachable!()
        }

        fn sync_data(&self) -> io::Result<()> {
            unreachable!()
        }

        fn sync_all(&self) -> io::Result<()> {
            unreachable!()
        }

        fn preallocate(&self, _: u64, _: u64) -> io::Result<()> {
            unreachable!()
        }

        fn set_len(&self, _: u64) -> io::Result<()> {
            unreachable!()
        }

        fn len(&self) -> io::Result<u64> {
            Ok(10)
        }
    }

    #[test]
    fn what_memory_does_not_have_is_left_to_who_goes_to_the_disk() {
        let block = || Err(io::ErrorKind::WouldBlock.into());
        for answers in [vec![block()], vec![Ok(0)], vec![Ok(4), Ok(0)], vec![Ok(4), block()]] {
            let (file, mut buf) = (Answers(answers.into()), [0; 8]);
            let found = Reach::Memory.read_full_at(&file, &mut buf, 2).map_err(|error| error.kind());
            assert_eq!(found, Err(io::ErrorKind::WouldBlock));
            assert!(file.0.lock().unwrap().is_empty());
        }
        let (file, mut buf) = (Answers(vec![Ok(3), Ok(5)].into()), [0; 8]);
        assert_eq!(Reach::Memory.read_full_at(&file, &mut buf, 2).unwrap(), 8);
        assert_eq!(buf, [7; 8]);
        assert_eq!(Reach::Disk.read_full_at(&file, &mut buf, 6).unwrap(), 4, "it ends there");
    }
}
