//! Reads the input and fills batches. Runs on a thread of its own, since reading blocks.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tailrace_cli::failure::{Failure, plain};
use tailrace_types::TimestampMs;

use super::accumulator::{Accumulator, Clocks};
use super::arguments::Source;
use super::lines::{LineFormat, LineReader};
use super::progress::Progress;

/// Bytes to ask for in one read: enough to make system calls cheap, and few enough to stay in the CPU's
/// cache.
const READ_BYTES: usize = 256 << 10;

/// Reads the source to its end, or until the other end of `stop` is dropped. Sends what was read until then,
/// up to the last whole record. Returns true if it reached the end.
pub(super) fn run(
    source: Source,
    format: &LineFormat,
    mut accumulator: Accumulator,
    progress: &Progress,
    stop: &UnixStream,
) -> Result<bool, Failure> {
    let is_all = match source {
        Source::Lines { input, regular_bytes } => {
            // A regular file never pauses.
            let pauses = regular_bytes.is_none();
            let input = Input { file: input, stop };
            Lines { input, pauses, accumulator: &mut accumulator, progress }.run(&LineReader::new(format))?
        }
        Source::Whole(file) => {
            let input = Input { file, stop };
            whole(input, "standard input", format, &mut accumulator, progress)?
        }
        Source::Files(paths) => files(&paths, format, &mut accumulator, progress, stop)?,
    };
    accumulator.finish()?;
    Ok(is_all)
}

fn files(
    paths: &[PathBuf],
    format: &LineFormat,
    accumulator: &mut Accumulator,
    progress: &Progress,
    stop: &UnixStream,
) -> Result<bool, Failure> {
    for path in paths {
        let name = path.display().to_string();
        let input = Input { file: open(path)?, stop };
        if !whole(input, &name, format, accumulator, progress)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// A file or standard input, read until it ends or the verb is stopped.
struct Input<'a> {
    file: File,
    stop: &'a UnixStream,
}

/// The error of a read that was stopped.
#[derive(Debug, thiserror::Error)]
#[error("the verb was told to stop")]
struct Stopped;

fn is_stopped(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<Stopped>())
}

impl Input<'_> {
    /// Reports whether a read would not block within `wait`: there is input, or its end, or the verb was
    /// stopped.
    fn is_ready(&self, wait: Duration) -> Result<bool, Failure> {
        let wait = Timespec {
            tv_sec: i64::try_from(wait.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(wait.subsec_nanos()),
        };
        let mut wanted = [PollFd::new(&self.file, PollFlags::IN), PollFd::new(self.stop, PollFlags::IN)];
        match poll(&mut wanted, Some(&wait)) {
            Ok(ready) => Ok(ready > 0),
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(error) => Err(format!("cannot wait for standard input: {error}").into()),
        }
    }
}

impl Read for Input<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let mut wanted = [PollFd::new(&self.file, PollFlags::IN), PollFd::new(self.stop, PollFlags::IN)];
            match poll(&mut wanted, None) {
                Err(rustix::io::Errno::INTR) => continue,
                polled => polled?,
            };
            if !wanted[1].revents().is_empty() {
                return Err(io::Error::other(Stopped));
            }
            match self.file.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return result,
            }
        }
    }
}

fn open(path: &Path) -> Result<File, Failure> {
    let failed = |error: io::Error| format!("cannot read {}: {}", path.display(), plain(&error));
    let file = File::open(path).map_err(failed)?;
    if file.metadata().map_err(failed)?.is_dir() {
        return Err(format!("cannot read {}: it is a folder", path.display()).into());
    }
    Ok(file)
}

/// Sends the whole input as one record. Returns false if the verb was stopped before the end.
fn whole(
    input: Input<'_>,
    name: &str,
    format: &LineFormat,
    accumulator: &mut Accumulator,
    progress: &Progress,
) -> Result<bool, Failure> {
    let max = accumulator.record_bytes_max();
    let mut content = Vec::new();
    match input.take(max as u64 + 1).read_to_end(&mut content) {
        Ok(_) => {}
        Err(error) if is_stopped(&error) => return Ok(false),
        Err(error) => return Err(format!("cannot read {name}: {}", plain(&error)).into()),
    }
    if content.len() > max {
        return Err(too_long(name, max));
    }
    progress.read(content.len());
    let reader = LineReader::new(format);
    let (key, value) = reader.read(&content);
    accumulator.push(clocks(), key, value, &reader.headers)?;
    Ok(true)
}

fn too_long(what: &str, max: usize) -> Failure {
    let advice = "split it, compress it with --compression, or raise the topic's max.message.bytes";
    format!("{what} is longer than a record may be here, {max} bytes: {advice}").into()
}

/// Standard input, line by line.
struct Lines<'a> {
    input: Input<'a>,
    pauses: bool,
    accumulator: &'a mut Accumulator,
    progress: &'a Progress,
}

impl Lines<'_> {
    /// Returns false if the verb was stopped before the end. An incomplete last line is no record then.
    fn run(&mut self, reader: &LineReader<'_>) -> Result<bool, Failure> {
        let line_bytes_max = self.accumulator.record_bytes_max();
        let mut buffer = vec![0; READ_BYTES];
        // Length of the incomplete line at the start of the buffer.
        let mut kept = 0;
        let mut lines = 0;
        loop {
            self.wait()?;
            let read = match self.input.read(&mut buffer[kept..]) {
                Ok(read) => read,
                Err(error) if is_stopped(&error) => return Ok(false),
                Err(error) => return Err(format!("cannot read standard input: {}", plain(&error)).into()),
            };
            if read == 0 {
                if kept > 0 {
                    self.push(reader, clocks(), &buffer[..kept])?;
                }
                return Ok(true);
            }
            self.progress.read(read);
            let filled = kept + read;
            let clocks = clocks();
            let mut start = 0;
            // The bytes kept from before have no line end.
            for end in memchr::memchr_iter(b'\n', &buffer[kept..filled]).map(|at| kept + at) {
                self.push(reader, clocks, &buffer[start..end])?;
                lines += 1;
                start = end + 1;
            }
            buffer.copy_within(start..filled, 0);
            kept = filled - start;
            if kept > line_bytes_max {
                return Err(too_long(&format!("line {}", lines + 1), line_bytes_max));
            }
            if kept * 2 > buffer.len() {
                buffer.resize(buffer.len() * 2, 0);
            }
        }
    }

    fn push(&mut self, reader: &LineReader<'_>, clocks: Clocks, line: &[u8]) -> Result<(), Failure> {
        let (key, value) = reader.read(line);
        self.accumulator.push(clocks, key, value, &reader.headers)
    }

    /// Waits for input, and meanwhile sends batches that have lingered long enough.
    fn wait(&mut self) -> Result<(), Failure> {
        if !self.pauses {
            return Ok(());
        }
        let Some(_) = self.accumulator.next_due(Instant::now()) else { return Ok(()) };
        if self.input.is_ready(Duration::ZERO)? {
            return self.accumulator.flush_due(Instant::now(), true);
        }
        while let Some(left) = self.accumulator.next_due(Instant::now()) {
            if !left.is_zero() && self.input.is_ready(left)? {
                return Ok(());
            }
            self.accumulator.flush_due(Instant::now(), false)?;
        }
        Ok(())
    }
}

/// Reads the clocks. Called once per chunk, not per record.
fn clocks() -> Clocks {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let timestamp = TimestampMs(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX));
    Clocks { timestamp, now: Instant::now() }
}
