//! How far a read goes for what it wants.

use std::io;

use crate::disk::{DiskFile, read_full_at};

/// How far a read goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// To the disk: it may block.
    Disk,
    /// No further than memory, as on an event loop. Where that is not enough, it fails with
    /// [`NotAtHand`](crate::LogError::NotAtHand).
    Memory,
}

impl Reach {
    /// As [`read_full_at`], of what lies before the end of the file, as far as anybody knows. Only who goes to the disk finds that it does
    /// not: to go no further than memory may come to nothing for other reasons.
    ///
    /// # Errors
    /// `WouldBlock` where it goes no further than memory, and that is not enough.
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

    /// What reads without waiting come to, one after the other, of a file of ten bytes.
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
