//! The limits of the machine itself, as a reference for a server's figures.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::time::Instant;
use std::{io, thread};

use rustix::fs::{Advice, fadvise, sendfile};

use super::proc;

const WRITE_BYTES: usize = 1 << 20;
const SEND_BYTES: usize = 1 << 20;

/// Writes a new file in `folder`, 1 MiB at a time, with fdatasync after each. Returns the bytes per second.
pub(super) fn write_and_sync_bytes_per_s(folder: &Path, total_bytes: usize) -> io::Result<f64> {
    let path = folder.join("sequential");
    let mut file = File::create(&path)?;
    let block: Vec<u8> = (0..WRITE_BYTES).map(|at| (at % 251) as u8).collect();
    let began = Instant::now();
    for _ in 0..total_bytes / WRITE_BYTES {
        file.write_all(&block)?;
        file.sync_data()?;
    }
    let rate = total_bytes as f64 / began.elapsed().as_secs_f64();
    fs::remove_file(path)?;
    Ok(rate)
}

/// The cost of sending files through loopback, for a sender that does nothing else.
pub(super) struct Sent {
    pub(super) bytes: u64,
    pub(super) seconds: f64,
    pub(super) cpu_s: f64,
}

/// Sends `files` one after the other to a thread that reads and discards them.
pub(super) fn send_files(files: &[impl AsRef<Path>]) -> io::Result<Sent> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    let mut sink = TcpStream::connect(listener.local_addr()?)?;
    let (socket, _) = listener.accept()?;
    let reader = thread::spawn(move || {
        let mut buffer = vec![0; SEND_BYTES];
        while sink.read(&mut buffer).is_ok_and(|read| read > 0) {}
    });
    let (began, cpu) = (Instant::now(), proc::thread_cpu_s());
    let bytes =
        files.iter().try_fold(0, |sum, path| io::Result::Ok(sum + send_file(&socket, path.as_ref())?))?;
    let seconds = began.elapsed().as_secs_f64();
    let cpu_s = proc::thread_cpu_s().zip(cpu).map_or(f64::NAN, |(after, before)| after - before);
    drop(socket);
    reader.join().map_err(|_| io::Error::other("the reading thread failed"))?;
    Ok(Sent { bytes, seconds, cpu_s })
}

fn send_file(socket: &TcpStream, path: &Path) -> io::Result<u64> {
    let file = File::open(path)?;
    let (mut at, end) = (0, file.metadata()?.len());
    while at < end {
        if sendfile(socket, &file, Some(&mut at), SEND_BYTES)? == 0 {
            break;
        }
    }
    Ok(at)
}

/// Syncs files to the disk and drops them from the page cache.
pub(super) fn drop_from_cache(files: &[impl AsRef<Path>]) -> io::Result<()> {
    for path in files {
        let file = File::open(path)?;
        file.sync_all()?;
        fadvise(&file, 0, None, Advice::DontNeed)?;
    }
    Ok(())
}

/// Returns the segments of partition 0 of `topic`, in order. Searches all folders below `data`.
pub(super) fn segments(data: &Path, topic: &str) -> io::Result<Vec<std::path::PathBuf>> {
    let wanted = format!("{topic}-0");
    let mut folders = vec![data.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            if !path.is_dir() {
                continue;
            }
            if path.file_name().is_some_and(|name| name == wanted.as_str()) {
                return logs(&path);
            }
            folders.push(path);
        }
    }
    Err(io::Error::other(format!("no folder {wanted} below {}", data.display())))
}

fn logs(folder: &Path) -> io::Result<Vec<std::path::PathBuf>> {
    let paths: io::Result<Vec<_>> = fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect();
    let mut paths = paths?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "log"));
    paths.sort();
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scratch(name: &str) -> std::path::PathBuf {
        let folder = std::env::temp_dir().join(format!("tailrace-xtask-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn whole_files_are_sent() {
        let folder = scratch("send");
        let paths = [folder.join("a"), folder.join("b")];
        fs::write(&paths[0], vec![1; 3 << 20]).unwrap();
        fs::write(&paths[1], vec![2; 5]).unwrap();
        let sent = send_files(&paths).unwrap();
        drop_from_cache(&paths).unwrap();
        fs::remove_dir_all(folder).unwrap();
        assert_eq!(sent.bytes, (3 << 20) + 5);
        assert!(sent.seconds > 0.0);
    }

    #[test]
    fn segments_are_found_wherever_they_lie() {
        let folder = scratch("segments");
        let partition = folder.join("topics/t-0");
        fs::create_dir_all(&partition).unwrap();
        for name in ["2.log", "1.log", "1.index"] {
            fs::write(partition.join(name), "").unwrap();
        }
        let found = segments(&folder, "t").unwrap();
        assert!(segments(&folder, "other").is_err());
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(found, [partition.join("1.log"), partition.join("2.log")]);
    }

    #[test]
    fn the_disk_has_a_speed() {
        let folder = scratch("disk");
        assert!(write_and_sync_bytes_per_s(&folder, 2 << 20).unwrap() > 0.0);
        fs::remove_dir_all(folder).unwrap();
    }
}
