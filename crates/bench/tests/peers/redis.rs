//! A Redis server for the test, if Redis is installed.

use std::io::ErrorKind;
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::{Running, free_address};

pub(crate) struct Redis {
    pub(crate) address: String,
    // Dropped before its folder.
    _server: Running,
    _folder: TempDir,
}

impl Redis {
    /// Starts it. `None` if it is not installed.
    pub(crate) fn start() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let address = free_address();
        let (host, port) = address.split_once(':').unwrap();
        let server = Command::new("redis-server")
            .args(["--bind", host, "--port", port, "--save", "", "--dir"])
            .arg(folder.path())
            .stdout(Stdio::null())
            .spawn();
        let server = match server {
            Err(error) if error.kind() == ErrorKind::NotFound => return None,
            server => Running(server.unwrap()),
        };
        let deadline = Instant::now() + Duration::from_secs(30);
        while TcpStream::connect(&address).is_err() {
            assert!(Instant::now() < deadline, "Redis does not listen at {address}");
            std::thread::sleep(Duration::from_millis(5));
        }
        Some(Self { address, _server: server, _folder: folder })
    }
}
