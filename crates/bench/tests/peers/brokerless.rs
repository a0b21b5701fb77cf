//! Libraries of brokerless systems, through Python, if `TAILRACE_BENCH_PYTHON` names one with pynng and
//! pyzmq.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use super::{Running, free_address};

pub(crate) struct Peer {
    /// The address that it listens on.
    pub(crate) address: String,
    /// The address that it forwards received messages to, if it does not answer.
    pub(crate) listen: String,
    _process: Running,
}

impl Peer {
    /// Starts the library of `system` with one end of `pattern`. `None` if there is no such Python.
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
