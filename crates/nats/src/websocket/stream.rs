//! An upgraded connection as a stream of NATS bytes.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tailrace_env::io::{AsyncRead, AsyncWrite, ReadBuf};
use tailrace_env::task::NextTurn;

use super::closing::ClosingFrame;
use super::decoder::{Decoder, Event};
use super::{WebSocketError, WebSocketLimits, encoder};

/// Number of bytes read from the socket at once.
const READ_BYTES: usize = 16 * 1024;

/// Reads without output before other tasks get a turn. A hostile one takes a millisecond.
const READS_IN_A_ROW: usize = 2;

/// Longest payload of the server's frames. Nothing larger is buffered, and browsers prefer small frames.
const FRAME_BYTES_MAX: usize = 32 * 1024;

/// Most bytes of PONGs that wait for a client that does not read. nats-server has no limit.
const WAITING_BYTES_MAX: usize = 128 * 1024;

/// One client's connection. Like every boxed stream, it belongs to one task.
pub(super) struct WebSocket<S> {
    inner: S,
    decoder: Decoder,
    /// Bytes that were read and not decoded: `start..end` of `input`. An idle connection has no buffer.
    input: Vec<u8>,
    start: usize,
    end: usize,
    /// Outgoing frames, and the number of their bytes that were sent.
    output: Vec<u8>,
    sent: usize,
    compression: bool,
    /// The closing frame, if the server ends the connection.
    closing: ClosingFrame,
    /// Whether the closing frame was queued. Nothing follows it.
    closed: bool,
    /// Whether nothing more has to be read.
    input_ended: bool,
    next_turn: NextTurn,
}

impl<S: AsyncRead + AsyncWrite + Unpin> WebSocket<S> {
    pub(super) fn new(inner: S, limits: WebSocketLimits, compression: bool, closing: ClosingFrame) -> Self {
        Self {
            inner,
            decoder: Decoder::new(limits, compression),
            input: Vec::new(),
            start: 0,
            end: 0,
            output: Vec::new(),
            sent: 0,
            compression,
            closing,
            closed: false,
            input_ended: false,
            next_turn: NextTurn::default(),
        }
    }

    #[cfg(test)]
    pub(super) fn into_inner(self) -> S {
        self.inner
    }

    /// Decodes until there is something in `buffer`, or nothing is left to decode. There may be very many
    /// frames without data, so answers to them are collected.
    fn decode_all(&mut self, buffer: &mut ReadBuf<'_>) -> io::Result<()> {
        let before = buffer.filled().len();
        while !self.input_ended && buffer.filled().len() == before && self.decode(buffer)? {}
        Ok(())
    }

    /// Decodes up to the next frame with a request. Reports whether there was progress.
    fn decode(&mut self, buffer: &mut ReadBuf<'_>) -> io::Result<bool> {
        let input = &mut self.input[self.start..self.end];
        let progress = match self.decoder.advance(input, buffer.initialize_unfilled()) {
            Ok(progress) => progress,
            Err(error) => return Err(self.fail(error)),
        };
        buffer.advance(progress.given);
        self.start += progress.taken;
        let happened = progress.taken > 0 || progress.given > 0;
        match progress.event {
            Some(Event::Ping(payload)) if !self.closed && self.waiting() < WAITING_BYTES_MAX => {
                encoder::pong(&mut self.output, &payload);
            }
            Some(Event::Ping(_)) | None => {}
            Some(Event::Close(status)) => {
                self.close(status, "");
                self.input_ended = true;
            }
        }
        Ok(happened)
    }

    /// Bytes of frames that the socket has not taken yet.
    fn waiting(&self) -> usize {
        self.output.len() - self.sent
    }

    fn fail(&mut self, error: WebSocketError) -> io::Error {
        self.close(Some(error.status()), &error.to_string());
        self.input_ended = true;
        io::Error::new(io::ErrorKind::InvalidData, error)
    }

    fn close(&mut self, status: Option<u16>, reason: &str) {
        if !std::mem::replace(&mut self.closed, true) {
            encoder::close(&mut self.output, status, reason);
        }
    }

    /// Reads more from the socket. `Ready(false)` at its end.
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<bool>> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.input.len() - self.end < Decoder::INPUT_BYTES_MIN {
            self.input.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if self.input.is_empty() {
            self.input = vec![0; READ_BYTES];
        }
        let mut buffer = ReadBuf::new(&mut self.input[self.end..]);
        let outcome = Pin::new(&mut self.inner).poll_read(cx, &mut buffer);
        let read = buffer.filled().len();
        self.end += read;
        if outcome.is_pending() && self.end == 0 {
            self.input = Vec::new();
        }
        ready!(outcome)?;
        Poll::Ready(Ok(read > 0))
    }

    /// Ready when no frame waits.
    fn poll_drain(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.sent < self.output.len() {
            let written = ready!(Pin::new(&mut self.inner).poll_write(cx, &self.output[self.sent..]))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.sent += written;
        }
        self.sent = 0;
        self.output = Vec::new();
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for WebSocket<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        let mut reads = 0;
        loop {
            if this.input_ended {
                // Reading nothing reports the end. The closing frame is sent if the socket takes it at once.
                let _ = this.poll_flush_all(cx);
                return Poll::Ready(Ok(()));
            }
            let decoded = this.decode_all(buffer);
            if this.waiting() > 0 {
                // These are PONGs, all that this read asks for at once. If the socket is full, the task is
                // woken once it is not, and this runs again.
                if let Poll::Ready(Err(error)) = this.poll_flush_all(cx) {
                    return Poll::Ready(Err(error));
                }
            }
            decoded?;
            if buffer.filled().len() > before || this.input_ended {
                return Poll::Ready(Ok(()));
            }
            // Control frames and compressed input may produce nothing, however many there are.
            if reads == READS_IN_A_ROW {
                this.next_turn.ask(cx);
                return Poll::Pending;
            }
            reads += 1;
            if !ready!(this.poll_fill(cx))? {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> WebSocket<S> {
    fn poll_flush_all(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_drain(cx))?;
        Pin::new(&mut self.inner).poll_flush(cx)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for WebSocket<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }

    /// Makes one frame of as many bytes as it may contain, once earlier frames are sent.
    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        ready!(this.poll_drain(cx))?;
        if this.closed {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let first = buffers.iter().find(|buffer| !buffer.is_empty());
        let Some(first) = first else { return Poll::Ready(Ok(0)) };
        let count = if first.len() >= FRAME_BYTES_MAX {
            encoder::message(&mut this.output, &first[..FRAME_BYTES_MAX], this.compression);
            FRAME_BYTES_MAX
        } else {
            let mut payload = Vec::with_capacity(FRAME_BYTES_MAX.min(buffers.iter().map(|b| b.len()).sum()));
            for buffer in buffers {
                let room = FRAME_BYTES_MAX - payload.len();
                payload.extend_from_slice(&buffer[..room.min(buffer.len())]);
            }
            encoder::message(&mut this.output, &payload, this.compression);
            payload.len()
        };
        // What the socket does not take now is sent before the next frame.
        match this.poll_drain(cx) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            _ => Poll::Ready(Ok(count)),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().poll_flush_all(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let (status, text) = this.closing.text();
        this.close(Some(status), &text);
        ready!(this.poll_drain(cx))?;
        Pin::new(&mut this.inner).poll_shutdown(cx)
    }
}
