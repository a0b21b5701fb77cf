//! The file of the audit log: a thread that writes lines, and a bounded queue before it.
//!
//! Like the files of TLS it is written with std: it belongs to the operator, not to the node. Events of
//! clients may take half of the queue, so that changes by administrators always find room. If the disk is
//! slower than the changes, these wait for it.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use tailrace_env::sync::mpsc::{self, Receiver, Sender};
use tailrace_env::task;
use tailrace_env::thread::{self, Thread};
use tailrace_env::time::{Duration, timeout};

/// Lines that wait for the disk. A line has at most some KiB, and most have 300 bytes.
const QUEUE_LINES: usize = 4_096;

/// Lines that are written with one write.
const BATCH_LINES: usize = 256;

/// Time that a change waits for room in the queue.
const PATIENCE: Duration = Duration::from_secs(5);

/// Readable and writable for the server only.
const MODE: u32 = 0o600;

/// A line, and whether it must be on the disk before the next one is waited for.
struct Line {
    json: String,
    is_change: bool,
}

/// The file.
pub(super) struct AuditFile {
    queue: Mutex<Option<Sender<Line>>>,
    writer: Mutex<Option<Thread>>,
}

impl AuditFile {
    /// Opens the file, and makes it if there is none. `lost` is told of each line that could not be written.
    pub(super) fn open(
        path: &Path,
        bytes_max: u64,
        files: u32,
        lost: impl Fn(&str) + Send + 'static,
    ) -> io::Result<Self> {
        let (sender, receiver) = mpsc::channel(QUEUE_LINES);
        let mut rotating = Rotating::open(path, bytes_max, files)?;
        let writer = thread::spawn("audit", move || write_all(&mut rotating, receiver, &lost))?;
        Ok(Self { queue: Mutex::new(Some(sender)), writer: Mutex::new(Some(writer)) })
    }

    /// Queues an event of a client. Returns it if there is no room.
    pub(super) fn offer(&self, json: String) -> Result<(), String> {
        let Some(queue) = self.queue.lock().clone() else { return Err(json) };
        if queue.capacity() <= QUEUE_LINES / 2 {
            return Err(json);
        }
        queue.try_send(Line { json, is_change: false }).map_err(|error| error.into_inner().json)
    }

    /// Queues a change, at once. Returns it if there is no room.
    pub(super) fn offer_change(&self, json: String) -> Result<(), String> {
        let Some(queue) = self.queue.lock().clone() else { return Err(json) };
        queue.try_send(Line { json, is_change: true }).map_err(|error| error.into_inner().json)
    }

    /// Queues a change, and waits for room if need be. Returns it if there is none for too long.
    pub(super) async fn put_change(&self, json: String) -> Result<(), String> {
        let Some(queue) = self.queue.lock().clone() else { return Err(json) };
        match timeout(PATIENCE, queue.reserve()).await {
            Ok(Ok(room)) => {
                room.send(Line { json, is_change: true });
                Ok(())
            }
            Ok(Err(_)) | Err(_) => Err(json),
        }
    }

    /// Writes what is queued, and ends. Later events are not written.
    pub(super) async fn close(&self) {
        drop(self.queue.lock().take());
        let writer = self.writer.lock().take();
        if let Some(writer) = writer {
            let joined = task::spawn_blocking(move || writer.join()).await;
            if !matches!(joined, Ok(Ok(()))) {
                tracing::error!("the thread of the audit log panicked");
            }
        }
    }
}

fn write_all(file: &mut Rotating, mut queue: Receiver<Line>, lost: &dyn Fn(&str)) {
    while let Some(first) = queue.blocking_recv() {
        let mut lines = vec![first];
        while let Some(next) = (lines.len() < BATCH_LINES).then(|| queue.try_recv().ok()).flatten() {
            lines.push(next);
        }
        if let Err(error) = file.write(&lines) {
            tracing::error!(path = %file.path.display(), %error, "the audit log cannot be written: its events follow here");
            lines.iter().for_each(|line| lost(&line.json));
        }
    }
}

/// A file that is renamed when it has its size.
struct Rotating {
    path: PathBuf,
    bytes_max: u64,
    files: u32,
    file: File,
    bytes: u64,
}

impl Rotating {
    fn open(path: &Path, bytes_max: u64, files: u32) -> io::Result<Self> {
        let (file, bytes) = open(path)?;
        Ok(Self { path: path.to_owned(), bytes_max, files, file, bytes })
    }

    /// Writes lines. A change is on the disk when this returns.
    fn write(&mut self, lines: &[Line]) -> io::Result<()> {
        self.follow()?;
        let mut buffer = Vec::new();
        for line in lines {
            let room = self.bytes_max.saturating_sub(self.bytes);
            let more = u64::try_from(buffer.len() + line.json.len() + 1).unwrap_or(u64::MAX);
            if more > room && (self.bytes > 0 || !buffer.is_empty()) {
                self.append(&mut buffer)?;
                self.rotate()?;
            }
            buffer.extend_from_slice(line.json.as_bytes());
            buffer.push(b'\n');
        }
        self.append(&mut buffer)?;
        if lines.iter().any(|line| line.is_change) { self.file.sync_data() } else { Ok(()) }
    }

    fn append(&mut self, buffer: &mut Vec<u8>) -> io::Result<()> {
        self.file.write_all(buffer)?;
        self.bytes += u64::try_from(buffer.len()).unwrap_or(u64::MAX);
        buffer.clear();
        Ok(())
    }

    /// Opens the file again if another program has moved it away.
    fn follow(&mut self) -> io::Result<()> {
        let own = self.file.metadata()?;
        let is_there = std::fs::metadata(&self.path).is_ok_and(|found| found.ino() == own.ino());
        if !is_there {
            (self.file, self.bytes) = open(&self.path)?;
        }
        Ok(())
    }

    fn rotate(&mut self) -> io::Result<()> {
        let numbered = |number: u32| {
            let mut name = self.path.as_os_str().to_owned();
            name.push(format!(".{number}"));
            PathBuf::from(name)
        };
        for number in (1..self.files).rev() {
            match std::fs::rename(numbered(number), numbered(number + 1)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        std::fs::rename(&self.path, numbered(1))?;
        (self.file, self.bytes) = open(&self.path)?;
        Ok(())
    }
}

fn open(path: &Path) -> io::Result<(File, u64)> {
    let file = OpenOptions::new().append(true).create(true).mode(MODE).open(path)?;
    let found = file.metadata()?;
    if found.is_file() && found.permissions().mode() & 0o777 != MODE {
        file.set_permissions(Permissions::from_mode(MODE))?;
    }
    Ok((file, found.len()))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn line(number: usize) -> String {
        format!("{{\"number\":{number:0>90}}}")
    }

    fn texts(folder: &Path) -> Vec<(String, String)> {
        let mut found: Vec<_> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| {
                let entry = entry.unwrap();
                assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o777, MODE);
                let name = entry.file_name().into_string().unwrap();
                (name, std::fs::read_to_string(entry.path()).unwrap())
            })
            .collect();
        found.sort();
        found
    }

    #[tokio::test]
    async fn files_are_renamed_at_their_size_and_the_oldest_goes() {
        tailrace_runtime::install();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.log");
        std::fs::write(&path, "of an earlier start\n").unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        let file = AuditFile::open(&path, 1_000, 3, |line| panic!("lost {line}")).unwrap();
        for number in 0..100 {
            file.put_change(line(number)).await.unwrap();
        }
        file.close().await;
        let found = texts(folder.path());
        let names: Vec<_> = found.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["audit.log", "audit.log.1", "audit.log.2", "audit.log.3"]);
        assert!(found.iter().all(|(_, text)| text.len() <= 1_000 && text.ends_with('\n')));
        let mut newest: Vec<_> = found.iter().rev().flat_map(|(_, text)| text.lines()).collect();
        let last = newest.split_off(newest.len() - 20);
        assert_eq!(last, (80..100).map(line).collect::<Vec<_>>());
        assert!(file.offer("late".to_owned()).is_err());
        drop(AuditFile::open(&folder.path().join("no/folder"), 1_000, 3, |_| ()).err().unwrap());
    }

    #[tokio::test]
    async fn a_file_that_was_moved_away_is_begun_again_and_a_full_disk_loses_no_line_silently() {
        tailrace_runtime::install();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.log");
        let mut rotating = Rotating::open(&path, 1_000, 3).unwrap();
        let lines = |number| [Line { json: line(number), is_change: false }];
        rotating.write(&lines(1)).unwrap();
        std::fs::rename(&path, folder.path().join("moved")).unwrap();
        rotating.write(&lines(2)).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), format!("{}\n", line(2)));

        if !Path::new("/dev/full").exists() {
            return;
        }
        let lost: Arc<Mutex<Vec<String>>> = Arc::default();
        let told = Arc::clone(&lost);
        let full = folder.path().join("full");
        std::os::unix::fs::symlink("/dev/full", &full).unwrap();
        let file = AuditFile::open(&full, 1_000, 3, move |line| told.lock().push(line.to_owned())).unwrap();
        file.put_change("x".to_owned()).await.unwrap();
        file.close().await;
        assert_eq!(*lost.lock(), ["x"]);
    }

    /// A flood of events leaves room for changes.
    #[tokio::test]
    async fn events_take_half_of_the_queue_and_changes_all_of_it() {
        tailrace_runtime::install();
        let (sender, mut receiver) = mpsc::channel(QUEUE_LINES);
        let file = AuditFile { queue: Mutex::new(Some(sender)), writer: Mutex::default() };
        let admitted = (0..QUEUE_LINES * 3).filter(|_| file.offer("event".to_owned()).is_ok()).count();
        assert_eq!(admitted, QUEUE_LINES / 2);
        for _ in 0..QUEUE_LINES / 2 {
            file.offer_change("change".to_owned()).unwrap();
        }
        assert_eq!(file.offer_change("late".to_owned()), Err("late".to_owned()));
        let waits = file.put_change("patient".to_owned());
        let (room, _) = tailrace_env::join!(waits, async { receiver.recv().await });
        assert_eq!(room, Ok(()), "it waits for room");
    }
}
