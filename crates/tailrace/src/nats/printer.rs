//! Writes messages to standard output: described, raw, or as JSON.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::event::{PollFd, PollFlags, poll};
use tailrace_cli::failure::Failure;
use tailrace_cli::text::json;
use tailrace_cli::text::time::format_instant;
use tailrace_nats_wire::header_lines;

use super::client::Received;

/// Bytes that are buffered for one write.
const BUFFER_BYTES: usize = 64 << 10;

/// The output format of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// A line about the message's origin, headers, the payload, an empty line.
    Described,
    /// The payload and a line end. If headers are asked for, they come first, with an empty line after them.
    Payload,
    /// The payload and nothing else.
    Bare,
    /// One object per line.
    Json,
}

/// Writes messages; see the module.
pub(super) struct Printer {
    look: Look,
    headers: bool,
    timestamps: bool,
    number: u64,
    buffer: Vec<u8>,
    out: File,
}

impl Printer {
    pub(super) fn new(look: Look, headers: bool, timestamps: bool) -> io::Result<Self> {
        let out = io::stdout().as_fd().try_clone_to_owned()?.into();
        Ok(Self { look, headers, timestamps, number: 0, buffer: Vec::new(), out })
    }

    /// The number of messages written so far.
    pub(super) fn count(&self) -> u64 {
        self.number
    }

    /// Writes a message, perhaps only to the buffer.
    pub(super) fn print(&mut self, message: &Received) -> Result<(), Failure> {
        self.number += 1;
        match self.look {
            Look::Described => self.describe(message),
            Look::Payload => self.payload(message),
            Look::Bare => self.buffer.extend_from_slice(message.payload()),
            Look::Json => self.json(message),
        }
        if self.buffer.len() >= BUFFER_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    /// Flushes the buffer. Call it when no more messages are queued.
    pub(super) fn flush(&mut self) -> Result<(), Failure> {
        if !self.buffer.is_empty() {
            self.out.write_all(&self.buffer)?;
            self.buffer.clear();
        }
        Ok(())
    }

    fn describe(&mut self, message: &Received) {
        let out = &mut self.buffer;
        // Writing to memory does not fail.
        let _ = write!(out, "[#{}] ", self.number);
        if self.timestamps {
            let _ = write!(out, "@ {} ", format_instant(now_ms()));
        }
        out.extend_from_slice(b"Received on \"");
        out.extend_from_slice(message.subject());
        out.push(b'"');
        if let Some(reply) = message.reply() {
            out.extend_from_slice(b" with reply \"");
            out.extend_from_slice(reply);
            out.push(b'"');
        }
        out.push(b'\n');
        if self.headers {
            write_headers(message, out);
        }
        out.extend_from_slice(message.payload());
        out.extend_from_slice(b"\n\n");
    }

    fn payload(&mut self, message: &Received) {
        let out = &mut self.buffer;
        if self.timestamps {
            let _ = write!(out, "{} ", format_instant(now_ms()));
        }
        if self.headers {
            write_headers(message, out);
        }
        out.extend_from_slice(message.payload());
        out.push(b'\n');
    }

    fn json(&mut self, message: &Received) {
        let out = &mut self.buffer;
        let _ = write!(out, "{{\"number\":{},\"timestamp\":{},", self.number, now_ms());
        json::bytes("subject", Some(message.subject()), out);
        out.push(b',');
        json::bytes("reply", message.reply(), out);
        out.push(b',');
        if self.headers {
            json_headers(message, out);
        }
        json::bytes("payload", Some(message.payload()), out);
        out.extend_from_slice(b"}\n");
    }
}

/// Writes the lines of the header block and an empty line after them. A malformed block is shown as it is.
fn write_headers(message: &Received, out: &mut Vec<u8>) {
    let Some(block) = message.headers() else { return };
    let Ok(lines) = header_lines(block) else {
        out.extend_from_slice(block);
        return;
    };
    if let Some(status) = lines.status() {
        out.extend_from_slice(&[b"Status: ", status.code, b" ", status.description].concat());
        out.push(b'\n');
    }
    for (name, value) in lines.flatten() {
        out.extend_from_slice(&[name, b": ", value, b"\n"].concat());
    }
    out.push(b'\n');
}

fn json_headers(message: &Received, out: &mut Vec<u8>) {
    let lines = message.headers().map(header_lines);
    if let Some(Ok(Some(status))) = lines.as_ref().map(|lines| lines.as_ref().map(|lines| lines.status())) {
        json::bytes("status", Some(status.code), out);
        out.push(b',');
        json::bytes("description", Some(status.description), out);
        out.push(b',');
    }
    if let Some(Err(_)) = lines {
        json::bytes("headers_malformed", message.headers(), out);
        out.push(b',');
    }
    out.extend_from_slice(b"\"headers\":[");
    for (index, (name, value)) in lines.into_iter().flatten().flatten().flatten().enumerate() {
        out.extend_from_slice(if index > 0 { b",{" } else { b"{" });
        json::bytes("key", Some(name), out);
        out.push(b',');
        json::bytes("value", Some(value), out);
        out.push(b'}');
    }
    out.extend_from_slice(b"],");
}

fn now_ms() -> i64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX)
}

/// Waits until standard output is a pipe whose reader has left. Never returns otherwise. A thread does the
/// waiting.
pub(super) async fn reader_left() {
    let (sender, left) = tokio::sync::oneshot::channel();
    let wait = move || {
        let Ok(out) = io::stdout().as_fd().try_clone_to_owned() else { return };
        loop {
            // No events are requested: poll reports errors and hang-ups in any case.
            let mut polled = [PollFd::new(&out, PollFlags::empty())];
            match poll(&mut polled, None) {
                Ok(_) if polled[0].revents().intersects(PollFlags::ERR | PollFlags::HUP) => break,
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                Ok(_) | Err(_) => return,
            }
        }
        let _ = sender.send(());
    };
    // Without the thread, the next write notices that the reader has left.
    let thread = std::thread::Builder::new().name("reader".to_owned()).spawn(wait);
    if thread.is_err() || left.await.is_err() {
        std::future::pending().await
    }
}
