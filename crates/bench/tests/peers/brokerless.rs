//! Libraries of brokerless systems, through Python: where `TAILRACE_BENCH_PYTHON` names one that has pynng and pyzmq.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use super::{Running, free_address};

pub(crate) struct Peer {
    /// Where it listens.
    pub(crate) address: String,
    /// Where it sends what it receives, if it does not answer.
    pub(crate) listen: String,
    _process: Running,
}

impl Peer {
    /// The library of `system` with one end of `pattern`; `None` if there is no such Python.
    pub(crate) fn start(system: &str, pattern: &str) -> Option<Self> {
        let python = std::env::var("TAILRACE_BENCH_PYTHON").ok()?;
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/peers/{system}_peer.py"));
        let listen = free_address();
        let mut command = Command::new(python);
        command.arg(script).args([pattern, &listen]).stdout(Stdio::piped());
        let mut process = Running(command.spawn().unwrap());
        let mut port = String::new();
        BufReader::new(process.0.stdout.take().unwrap()).read_line(&mut port).unwrap();
        let port: u16 = port.trim().parse().unwrap();
        Some(Self { address: format!("127.0.0.1:{port}"), listen, _process: process })
    }
}
