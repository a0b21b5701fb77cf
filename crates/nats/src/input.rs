//! Bytes that a connection has read but not used yet. Idle connections have no buffer.

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tailrace_env::io::{AsyncRead, ReadBuf};

/// Number of bytes read at once.
const READ_BYTES: usize = 64 * 1024;

/// Step in which the buffer for a larger message grows with what has arrived, so that an announced size alone
/// takes no memory.
const STEP_BYTES: usize = 256 * 1024;

/// Number of buffers that each thread keeps: 256 KiB.
const POOL_BUFFERS: usize = 4;

thread_local! {
    static POOL: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// The buffer. All of `data` is initialised. `start..end` has not been used yet.
#[derive(Debug, Default)]
pub(super) struct Input {
    data: Vec<u8>,
    start: usize,
    end: usize,
}

impl Input {
    /// The bytes that have not been used yet.
    pub(super) fn unused(&self) -> &[u8] {
        &self.data[self.start..self.end]
    }

    /// Marks bytes at the start as used.
    pub(super) fn consume(&mut self, bytes: usize) {
        self.start += bytes;
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
            self.recycle();
        }
    }

    /// Reads more. `wanted` is the total number of bytes that the first operation needs. `Ready(0)` is the
    /// end of the stream.
    pub(super) fn poll_read<R: AsyncRead + Unpin + ?Sized>(
        &mut self,
        reader: &mut R,
        wanted: usize,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        self.make_room(wanted);
        let mut buffer = ReadBuf::new(&mut self.data[self.end..]);
        let outcome = Pin::new(reader).poll_read(cx, &mut buffer);
        let read = buffer.filled().len();
        self.end += read;
        if self.end == 0 {
            self.recycle();
        }
        ready!(outcome)?;
        Poll::Ready(Ok(read))
    }

    fn make_room(&mut self, wanted: usize) {
        let waiting = self.end - self.start;
        if self.data.is_empty() {
            self.data = POOL.with_borrow_mut(Vec::pop).unwrap_or_else(|| vec![0; READ_BYTES]);
        }
        let step = wanted.min((2 * waiting).max(STEP_BYTES));
        let target = if wanted > READ_BYTES { step } else { READ_BYTES };
        let enough = self.data.len() - self.end >= target.saturating_sub(waiting).max(1);
        if enough && (self.start == 0 || self.data.len() - self.end >= READ_BYTES / 4) {
            return;
        }
        self.data.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, waiting);
        if self.data.len() < target || self.data.len() == waiting {
            self.data.resize(target.max(waiting + 1), 0);
        }
    }

    fn recycle(&mut self) {
        // A large buffer is kept for the next large message. `forget` drops it when the connection is quiet.
        if self.data.len() == READ_BYTES {
            let data = std::mem::take(&mut self.data);
            POOL.with_borrow_mut(|pool| {
                if pool.len() < POOL_BUFFERS {
                    pool.push(data);
                }
            });
        }
    }

    /// Drops an empty buffer.
    pub(super) fn forget(&mut self) {
        if self.end == 0 {
            self.data = Vec::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    #[test]
    fn room_follows_what_arrives_not_what_is_announced() {
        let message = vec![b'x'; 1 << 20];
        let (mut input, mut cx) = (Input::default(), Context::from_waker(Waker::noop()));
        for mut piece in message.chunks(50_000) {
            while !piece.is_empty() {
                let before = input.unused().len();
                let read = input.poll_read(&mut piece, message.len(), &mut cx);
                assert!(matches!(read, Poll::Ready(Ok(1..))), "{read:?}");
                let room = input.data.len();
                assert!(room <= STEP_BYTES.max(2 * before), "{room} bytes for {before} that arrived");
            }
        }
        assert!(input.unused() == message);
    }
}
