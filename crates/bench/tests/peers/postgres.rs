//! A PostgreSQL server for the test, if PostgreSQL is installed in the PATH or in Debian's folders.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, ErrorKind};
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::{Running, free_address};

/// The user `nobody`: PostgreSQL refuses to run as root.
const NOBODY: u32 = 65_534;

pub(crate) const PASSWORD: &str = "open sesame";

/// Database `postgres` uses SCRAM-SHA-256, `template1` plain passwords, `template0` no authentication.
const HBA: &str = "host postgres all 127.0.0.1/32 scram-sha-256\nhost template1 all 127.0.0.1/32 password\n\
                   host template0 all 127.0.0.1/32 trust\n";

pub(crate) struct Postgres {
    pub(crate) address: String,
    // Dropped before its folder.
    server: Running,
    _folder: TempDir,
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // At once, but in order: after a kill, its shared memory would remain.
        let _ = kill_process(Pid::from_child(&self.server.0), Signal::QUIT);
        let _ = self.server.0.wait();
    }
}

/// The PATH, followed by the folders of Debian's versions.
fn path() -> OsString {
    let here = std::env::var_os("PATH").unwrap_or_default();
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let folders = versions.map(|version| version.path().join("bin"));
    std::env::join_paths(std::env::split_paths(&here).chain(folders)).unwrap()
}

impl Postgres {
    /// Starts it. `None` if it is not installed.
    pub(crate) fn start() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let is_root = folder.path().metadata().unwrap().uid() == 0;
        if is_root {
            chown(folder.path(), Some(NOBODY), Some(NOBODY)).unwrap();
        }
        let path = path();
        let command = |program: &str| {
            let mut command = Command::new(program);
            command.env("PATH", &path).current_dir(folder.path()).env("LC_ALL", "C");
            if is_root {
                command.uid(NOBODY).gid(NOBODY);
            }
            command
        };
        let password_file = folder.path().join("password");
        std::fs::write(&password_file, PASSWORD).unwrap();
        let data = folder.path().join("data");
        let made = command("initdb")
            .args(["--username=postgres", "--no-sync", "--auth=scram-sha-256", "--encoding=UTF8"])
            .arg(format!("--pwfile={}", password_file.display()))
            .arg(&data)
            .output();
        let made = match made {
            Err(error) if error.kind() == ErrorKind::NotFound => return None,
            made => made.unwrap(),
        };
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        std::fs::write(data.join("pg_hba.conf"), HBA).unwrap();
        let address = free_address();
        let (host, port) = address.split_once(':').unwrap();
        let mut server = command("postgres");
        server.arg("-D").arg(&data).args(["-h", host, "-p", port]);
        server.args(["-c", "unix_socket_directories="]).stderr(Stdio::piped());
        let mut server = Running(server.spawn().unwrap());
        let mut lines = BufReader::new(server.0.stderr.take().unwrap()).lines().map_while(Result::ok);
        let ready = lines.by_ref().any(|line| line.contains("ready to accept connections"));
        assert!(ready, "PostgreSQL ended before it was ready");
        std::thread::spawn(move || lines.for_each(drop));
        Some(Self { address, server, _folder: folder })
    }
}
