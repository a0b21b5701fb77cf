//! Answers on a plain socket: bytes in memory by vectored writes, record batches by sendfile.

use std::io::{self, IoSlice};
use std::task::{Context, Poll, ready};

use bytes::Buf;
use tailrace_env::net::Stream;
use tailrace_log::Extent;
use tailrace_node::NodeDisk;

use super::queue::{Item, Queue, too_short};

/// Most bytes that one sendfile call moves: what a socket takes at once, and a bound on the duration of the
/// call.
const SENDFILE_BYTES: u64 = 512 * 1024;

/// Most bytes that are copied at once.
const COPIED_BYTES: usize = 64 * 1024;

/// Buffers of one vectored write.
const VECTORS: usize = 16;

/// Sends until the socket takes no more, the disk has to be waited for, or everything is sent.
pub(super) fn poll_send(queue: &mut Queue, stream: &Stream, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
    loop {
        settle(queue);
        match queue.items.front() {
            None => return Poll::Ready(Ok(())),
            Some(Item::File { .. }) => ready!(poll_file(queue, stream, cx))?,
            Some(_) => ready!(poll_bytes(queue, stream, cx))?,
        }
    }
}

/// Drops sent items from the front, and records the response times of completed answers.
fn settle(queue: &mut Queue) {
    while let Some(front) = queue.items.front() {
        match front {
            Item::Bytes(bytes) if bytes.is_empty() => {}
            Item::File { extent, .. } if extent.bytes() == 0 => {}
            Item::End { api_key, started, .. } => queue.metrics.answered(*api_key, started.elapsed()),
            _ => break,
        }
        queue.items.pop_front();
    }
}

fn poll_bytes(queue: &mut Queue, stream: &Stream, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
    ready!(stream.poll_write_ready(cx))?;
    let mut vectors = [IoSlice::new(&[]); VECTORS];
    let (mut count, mut file_follows) = (0, false);
    for item in &queue.items {
        match item {
            Item::Bytes(bytes) if count < VECTORS => {
                vectors[count] = IoSlice::new(bytes);
                count += 1;
            }
            Item::End { .. } => {}
            Item::File { .. } => {
                file_follows = true;
                break;
            }
            Item::Bytes(_) => break,
        }
    }
    // Sent alone, a header would wake the client for nothing, because the records follow at once.
    match stream.try_write(&vectors[..count], file_follows) {
        Ok(sent) => {
            queue.took(sent as u64);
            advance_bytes(queue, sent);
            Poll::Ready(Ok(()))
        }
        Err(error) => unless_would_block(error),
    }
}

fn advance_bytes(queue: &mut Queue, mut sent: usize) {
    for item in &mut queue.items {
        if let Item::Bytes(bytes) = item {
            let part = sent.min(bytes.len());
            bytes.advance(part);
            sent -= part;
            if sent == 0 {
                break;
            }
        }
    }
}

fn poll_file(queue: &mut Queue, stream: &Stream, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
    ready!(queue.poll_warm(cx))?;
    ready!(stream.poll_write_ready(cx))?;
    let Some(Item::File { extent, warm_bytes }) = queue.items.front_mut() else {
        return Poll::Ready(Ok(()));
    };
    let bytes = extent.bytes().min(SENDFILE_BYTES).min(*warm_bytes);
    let count = usize::try_from(bytes).unwrap_or(usize::MAX);
    let sent = match extent.descriptor() {
        Some(file) => stream.try_send_file(file, extent.position(), count),
        None => copy(extent, count, stream),
    };
    match sent {
        Ok(0) => Poll::Ready(Err(too_short(extent))),
        Ok(sent) => {
            extent.advance(sent as u64);
            *warm_bytes -= sent as u64;
            queue.metrics.bytes_fetched.inc_by(sent as u64);
            queue.took(sent as u64);
            Poll::Ready(Ok(()))
        }
        Err(error) => unless_would_block(error),
    }
}

/// Replaces sendfile for a disk whose files have no descriptor.
fn copy(extent: &Extent<NodeDisk>, count: usize, stream: &Stream) -> io::Result<usize> {
    let mut bytes = vec![0; count.min(COPIED_BYTES)];
    let read = extent.read_at(&mut bytes, 0)?;
    stream.try_write(&[IoSlice::new(&bytes[..read])], false)
}

/// A full socket is not an error. The next check of its readiness registers the task.
fn unless_would_block(error: io::Error) -> Poll<io::Result<()>> {
    if error.kind() == io::ErrorKind::WouldBlock { Poll::Ready(Ok(())) } else { Poll::Ready(Err(error)) }
}
