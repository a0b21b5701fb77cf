//! Sources of messages. A thread of its own reads standard input, since reading blocks while the connection
//! must be served.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;

use tailrace_cli::failure::{Failure, plain};
use tokio::sync::mpsc;

use crate::nats::text::template::Template;

/// Bytes asked for in one read.
const READ_BYTES: usize = 256 << 10;
/// Chunks of the input queued between the threads.
const CHUNKS_MAX: usize = 4;

/// Lines that were read together. `ends` holds the end of each, in bytes without line ends.
struct Chunk {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

type Chunks = mpsc::Receiver<Result<Chunk, Failure>>;

/// The next message, or why there is none.
pub(super) enum Next {
    Message(Vec<u8>),
    /// Not yet available: wait with [`Source::wait`].
    Later,
    End,
}

/// A source of messages; see the module.
pub(super) struct Source {
    /// The message to repeat, and how many times are left. Known once it has been read.
    repeat: Option<(Template, u64)>,
    input: Option<Chunks>,
    /// All of the input is one message: how many times to send it, and whether it is a template.
    whole: Option<(u64, bool)>,
    chunk: Chunk,
    at: usize,
    count: u64,
}

impl Source {
    pub(super) fn repeat(text: Template, times: u64) -> Self {
        Self::new(Some((text, times)), None, None)
    }

    pub(super) fn lines(bytes_max: usize) -> Result<Self, Failure> {
        let input = start(move |input, chunks| read_lines(input, bytes_max, chunks))?;
        Ok(Self::new(None, Some(input), None))
    }

    pub(super) fn whole(bytes_max: usize, times: u64, template: bool) -> Result<Self, Failure> {
        let input = start(move |input, chunks| read_whole(input, bytes_max, chunks))?;
        Ok(Self::new(None, Some(input), Some((times, template))))
    }

    fn new(repeat: Option<(Template, u64)>, input: Option<Chunks>, whole: Option<(u64, bool)>) -> Self {
        let chunk = Chunk { bytes: Vec::new(), ends: Vec::new() };
        Self { repeat, input, whole, chunk, at: 0, count: 0 }
    }

    /// Returns the next message, if it is available.
    pub(super) fn next(&mut self) -> Next {
        if let Some((text, left)) = &mut self.repeat {
            if *left == 0 {
                return Next::End;
            }
            *left -= 1;
            self.count += 1;
            return Next::Message(text.render(self.count, b""));
        }
        let Some(&end) = self.chunk.ends.get(self.at) else {
            return if self.input.is_some() { Next::Later } else { Next::End };
        };
        let start = self.at.checked_sub(1).map_or(0, |before| self.chunk.ends[before]);
        self.at += 1;
        Next::Message(self.chunk.bytes[start..end].to_vec())
    }

    /// True after [`Next::Later`] until a chunk has been read.
    pub(super) fn waits(&self) -> bool {
        self.repeat.is_none() && self.at == self.chunk.ends.len() && self.input.is_some()
    }

    /// Waits for input. Cancellation-safe.
    pub(super) async fn wait(&mut self) -> Result<(), Failure> {
        let Some(input) = &mut self.input else { return Ok(()) };
        let Some(chunk) = input.recv().await else {
            self.input = None;
            return Ok(());
        };
        let chunk = chunk?;
        match self.whole {
            None => (self.chunk, self.at) = (chunk, 0),
            Some((times, false)) => self.repeat = Some((Template::plain(&chunk.bytes), times)),
            Some((times, true)) => {
                let text = String::from_utf8(chunk.bytes).map_err(|_| "a template must be UTF-8")?;
                self.repeat = Some((Template::parse(&text, false)?, times));
            }
        }
        Ok(())
    }
}

fn start(
    read: impl FnOnce(File, &mpsc::Sender<Result<Chunk, Failure>>) -> Result<(), Failure> + Send + 'static,
) -> Result<Chunks, Failure> {
    let input = File::from(io::stdin().as_fd().try_clone_to_owned().map_err(cannot_read)?);
    let (chunks, receiver) = mpsc::channel(CHUNKS_MAX);
    let reading = std::thread::Builder::new().name("input".to_owned()).spawn(move || {
        if let Err(failure) = read(input, &chunks) {
            // The receiver is gone if the verb has ended.
            let _ = chunks.blocking_send(Err(failure));
        }
    });
    reading.map_err(|error| format!("cannot start: {}", plain(&error)))?;
    Ok(receiver)
}

fn cannot_read(error: io::Error) -> Failure {
    format!("cannot read standard input: {}", plain(&error)).into()
}

fn too_long(what: &str, max: usize) -> Failure {
    format!("{what} is longer than {max} bytes, the server's limit less the headers").into()
}

fn read_whole(
    input: File,
    bytes_max: usize,
    chunks: &mpsc::Sender<Result<Chunk, Failure>>,
) -> Result<(), Failure> {
    let mut bytes = Vec::new();
    input.take(bytes_max as u64 + 1).read_to_end(&mut bytes).map_err(cannot_read)?;
    if bytes.len() > bytes_max {
        return Err(too_long("standard input", bytes_max));
    }
    let ends = vec![bytes.len()];
    let _ = chunks.blocking_send(Ok(Chunk { bytes, ends }));
    Ok(())
}

fn read_lines(
    mut input: File,
    bytes_max: usize,
    chunks: &mpsc::Sender<Result<Chunk, Failure>>,
) -> Result<(), Failure> {
    let mut buffer = vec![0; READ_BYTES];
    // The start of a line whose end was not read yet.
    let mut kept = Vec::new();
    let mut lines = 0_u64;
    loop {
        let read = match input.read(&mut buffer) {
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(cannot_read(error)),
        };
        let mut chunk = Chunk { bytes: std::mem::take(&mut kept), ends: Vec::new() };
        let mut start = 0;
        let mut line_start = 0;
        for end in memchr::memchr_iter(b'\n', &buffer[..read]) {
            chunk.bytes.extend_from_slice(&buffer[start..end]);
            lines += 1;
            if chunk.bytes.len() - line_start > bytes_max {
                return Err(too_long(&format!("line {lines}"), bytes_max));
            }
            line_start = chunk.bytes.len();
            chunk.ends.push(line_start);
            start = end + 1;
        }
        kept = chunk.bytes.split_off(line_start);
        kept.extend_from_slice(&buffer[start..read]);
        if kept.len() > bytes_max {
            return Err(too_long(&format!("line {}", lines + 1), bytes_max));
        }
        if read == 0 && !kept.is_empty() {
            chunk.ends.push(kept.len());
            chunk.bytes = std::mem::take(&mut kept);
        }
        if !chunk.ends.is_empty() && chunks.blocking_send(Ok(chunk)).is_err() {
            return Ok(());
        }
        if read == 0 {
            return Ok(());
        }
    }
}
