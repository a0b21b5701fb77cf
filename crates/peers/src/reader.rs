//! Reads frames from one connection.

use tailrace_env::time::Duration;
use tailrace_env::{select, time};

use bytes::{Buf as _, Bytes, BytesMut};
use tailrace_env::io::{AsyncRead, AsyncReadExt as _};
use tailrace_env::time::Instant;

use super::error::Ended;
use super::frame::FrameError;

/// Room for reading when the size of what comes is unknown.
const READ_BYTES: usize = 64 * 1024;

/// With less room than this, a new buffer is allocated.
const READ_BYTES_LEAST: usize = 4 * 1024;

/// Memory for a frame is allocated in steps of this, or as much as has arrived of it, so that a false length
/// takes no more.
const STEP_BYTES: usize = 1 << 20;

/// A quiet connection keeps no larger buffer.
const BUFFER_BYTES_KEPT: usize = 4 * READ_BYTES;

/// A frame that arrives with fewer bytes per second than this ends the connection.
const BYTES_PER_SECOND_MIN: usize = 1 << 20;

/// Reads frames. May be dropped between any two polls and continues where it was.
pub(super) struct FrameReader<R> {
    socket: R,
    input: BytesMut,
    frame_bytes_max: usize,
    silence_max: Duration,
    /// Since when the frame in `input` is incomplete.
    incomplete_since: Option<Instant>,
    /// Since when the next frame is awaited without any of it having arrived.
    silent_since: Option<Instant>,
}

impl<R: AsyncRead + Unpin> FrameReader<R> {
    pub(super) fn new(socket: R, frame_bytes_max: usize, silence_max: Duration) -> Self {
        let input = BytesMut::new();
        Self { socket, input, frame_bytes_max, silence_max, incomplete_since: None, silent_since: None }
    }

    /// Returns the next frame's kind and payload. Calls `arrived` whenever bytes come.
    pub(super) async fn next(&mut self, mut arrived: impl FnMut(usize)) -> Result<(u8, Bytes), Ended> {
        loop {
            let missing = match self.frame_bytes()? {
                Some(bytes) if self.input.len() >= bytes => return Ok(self.split(bytes)),
                Some(bytes) => bytes - self.input.len(),
                None => 0,
            };
            let patience = self.patience();
            self.make_room(missing);
            let count = match within(patience, self.socket.read_buf(&mut self.input)).await {
                Some(count) => count?,
                None if self.silent_since.is_none() && patience < self.silence_max => {
                    return Err(Ended::SlowFrame);
                }
                None => return Err(Ended::Silent(self.silence_max)),
            };
            if count == 0 {
                return Err(Ended::ByPeer);
            }
            self.silent_since = None;
            arrived(count);
        }
    }

    /// Reports whether the next frame is already complete.
    pub(super) fn has_frame(&self) -> bool {
        matches!(self.frame_bytes(), Ok(Some(bytes)) if self.input.len() >= bytes)
    }

    /// Returns the length of the frame in front, including its length field. `None` while that has not
    /// arrived.
    fn frame_bytes(&self) -> Result<Option<usize>, FrameError> {
        let Some(prefix) = self.input.first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_le_bytes(*prefix) as usize;
        let max = self.frame_bytes_max - 4;
        if length == 0 || length > max {
            return Err(FrameError::Length { length, max });
        }
        Ok(Some(4 + length))
    }

    fn split(&mut self, bytes: usize) -> (u8, Bytes) {
        self.incomplete_since = None;
        let mut frame = self.input.split_to(bytes).freeze();
        frame.advance(4);
        let kind = frame.get_u8();
        (kind, frame)
    }

    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.input.capacity()
    }

    /// Resets the timeouts after this end has not read for a while: what is left in the socket is not late.
    pub(super) fn forgive(&mut self) {
        self.incomplete_since = None;
        self.silent_since = None;
    }

    /// Returns how long the next bytes may take. Zero is enough for bytes that are already in the socket.
    fn patience(&mut self) -> Duration {
        if self.input.is_empty() {
            let since = *self.silent_since.get_or_insert_with(Instant::now);
            return self.silence_max.saturating_sub(since.elapsed());
        }
        let since = *self.incomplete_since.get_or_insert_with(Instant::now);
        let arrived = Duration::from_secs((self.input.len() / BYTES_PER_SECOND_MIN) as u64);
        (self.silence_max + arrived).saturating_sub(since.elapsed()).min(self.silence_max)
    }

    fn make_room(&mut self, missing: usize) {
        if self.input.is_empty() && self.input.capacity() > BUFFER_BYTES_KEPT {
            self.input = BytesMut::new();
        }
        let wanted = missing.min(STEP_BYTES.max(self.input.len()));
        let free = self.input.capacity() - self.input.len();
        if free < wanted.max(READ_BYTES_LEAST) {
            self.input.reserve(wanted.max(READ_BYTES));
        }
    }
}

/// Returns the result of `work` if it completes in time. If no time is left, returns what is ready now: a
/// timer would have to be polled again, which does not happen if the future is dropped and created again.
async fn within<T>(patience: Duration, work: impl Future<Output = T>) -> Option<T> {
    if !patience.is_zero() {
        return time::timeout(patience, work).await.ok();
    }
    select! {
        done = work => Some(done),
        () = std::future::ready(()) => None,
    }
}
