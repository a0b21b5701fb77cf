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
    /// As [`read_full_at`].
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
                0 => break,
                n => done += n,
            }
        }
        Ok(done)
    }
}
