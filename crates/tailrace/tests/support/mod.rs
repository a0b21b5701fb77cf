//! Runs the built binary: as a server in a temporary folder, and as its own client.
#![allow(dead_code, reason = "every test file uses another part")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tailrace_kafka_wire::{Request, decode_response, request_frame};

/// The program under test.
pub(crate) const TAILRACE: &str = env!("CARGO_BIN_EXE_tailrace");

/// Longest wait for a server to be ready. On the slowest machine many servers start at once.
const READY_MAX: Duration = Duration::from_secs(120);

/// The address of a listener whose port must be known before it listens, or that comes back on the same port.
///
/// Local connections come from 127.0.0.1, so none of them can take the port meanwhile.
pub(crate) const LASTING: &str = "127.0.0.2:0";

/// Returns this many addresses on which nothing listens.
pub(crate) fn free_addresses(count: usize) -> Vec<String> {
    let listeners: Vec<_> = (0..count).map(|_| std::net::TcpListener::bind(LASTING).unwrap()).collect();
    listeners.iter().map(|listener| listener.local_addr().unwrap().to_string()).collect()
}

/// Longest wait for any condition.
const PATIENCE: Duration = Duration::from_secs(30);

/// A command without the TAILRACE_* and NATS_* variables of the test's environment.
pub(crate) fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(TAILRACE);
    for (name, _) in std::env::vars_os() {
        if ["TAILRACE_", "NATS_"].iter().any(|ours| name.to_string_lossy().starts_with(ours)) {
            command.env_remove(name);
        }
    }
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs a command with `input` on standard input.
pub(crate) fn run_with(arguments: &[&str], input: &[u8]) -> Output {
    let mut child = command(arguments).stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    let writing = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let output = child.wait_with_output().unwrap();
    writing.join().unwrap();
    output
}

/// Runs a command without input.
pub(crate) fn run(arguments: &[&str]) -> Output {
    run_with(arguments, b"")
}

/// Standard error of a command that must fail with `status` and one line.
#[track_caller]
pub(crate) fn failure(output: &Output, status: i32) -> String {
    let text = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(output.status.code(), Some(status), "{text}");
    text
}

/// Standard output of a command that must succeed.
#[track_caller]
pub(crate) fn success(output: Output) -> Vec<u8> {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "status {:?}: {errors}", output.status);
    output.stdout
}

/// The first line of output, if it comes in time: a node may wait for others.
fn first_line(child: &mut Child) -> Option<String> {
    let stdout = child.stdout.take().unwrap();
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut line = String::new();
        let read = BufReader::new(stdout).read_line(&mut line);
        // The receiver is gone if the line came too late.
        let _ = sender.send(read.map(|_| line));
    });
    receiver.recv_timeout(READY_MAX).ok()?.ok()
}

/// A running server, and its folder.
pub(crate) struct Server {
    child: Child,
    pub(crate) kafka: String,
    pub(crate) nats: String,
    pub(crate) http: String,
    pub(crate) ready: String,
    /// The file with everything that the server has written to standard error.
    pub(crate) errors: PathBuf,
}

impl Server {
    /// Starts a server on free ports.
    pub(crate) fn start(dir: &Path, more: &[&str]) -> Self {
        Self::start_at(dir, "127.0.0.1:0", more)
    }

    /// Starts a server whose Kafka listener is at `kafka`.
    pub(crate) fn start_at(dir: &Path, kafka: &str, more: &[&str]) -> Self {
        Self::start_on(dir, kafka, "127.0.0.1:0", more)
    }

    /// Starts a server whose Kafka listener is at `kafka`, and whose NATS listener is at `nats`.
    pub(crate) fn start_on(dir: &Path, kafka: &str, nats: &str, more: &[&str]) -> Self {
        let errors = dir.with_extension("stderr");
        let mut arguments = vec![
            "serve",
            "--data-dir",
            dir.to_str().unwrap(),
            "--kafka",
            kafka,
            "--nats",
            nats,
            "--http",
            "127.0.0.1:0",
        ];
        arguments.extend(more);
        let log = std::fs::File::options().create(true).append(true).open(&errors).unwrap();
        let mut child = command(&arguments).stderr(log).spawn().unwrap();
        let ready = first_line(&mut child).unwrap_or_else(|| {
            let _ = child.kill();
            panic!("not ready in {READY_MAX:?}: {}", std::fs::read_to_string(&errors).unwrap())
        });
        let mut word = |name: &str| {
            let found = ready.split_whitespace().find_map(|word| word.strip_prefix(name));
            found.map(str::to_owned).unwrap_or_else(|| {
                let _ = child.kill();
                panic!("no {name} in {ready:?}: {}", std::fs::read_to_string(&errors).unwrap());
            })
        };
        let (kafka, nats, http) = (word("kafka="), word("nats="), word("http="));
        Self { child, kafka, nats, http, ready, errors }
    }

    fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.child.id()).unwrap();
        kill_process(Pid::from_raw(id).unwrap(), signal).unwrap();
    }

    /// Sends SIGSTOP: the server hangs until [`Server::go_on`].
    pub(crate) fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// Sends SIGCONT.
    pub(crate) fn go_on(&self) {
        self.signal(Signal::CONT);
    }

    /// Sends SIGTERM, and returns the exit status.
    pub(crate) fn stop(mut self) -> Option<i32> {
        self.signal(Signal::TERM);
        self.wait()
    }

    /// Sends SIGKILL.
    pub(crate) fn kill(mut self) {
        self.signal(Signal::KILL);
        self.wait();
    }

    fn wait(&mut self) -> Option<i32> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.child.try_wait().unwrap() {
                Some(status) => return status.code(),
                None if Instant::now() > deadline => panic!("the server does not stop"),
                None => std::thread::sleep(Duration::from_millis(5)),
            }
        }
    }

    /// Runs a verb against this server.
    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.run_with(arguments, b"")
    }

    /// Runs a verb against this server with `input` on standard input.
    pub(crate) fn run_with(&self, arguments: &[&str], input: &[u8]) -> Output {
        run_with(&[arguments, &["--bootstrap", &self.kafka]].concat(), input)
    }

    /// Runs a verb that speaks NATS against this server with `input` on standard input.
    pub(crate) fn nats(&self, arguments: &[&str], input: &[u8]) -> Output {
        run_with(&[arguments, &["--server", &self.nats]].concat(), input)
    }

    /// Starts a verb that speaks NATS, and waits until its subscription is active.
    pub(crate) fn listen(&self, arguments: &[&str]) -> Listener {
        Listener::start(&[arguments, &["--server", &self.nats]].concat())
    }

    /// The standard output of a verb that must succeed.
    #[track_caller]
    pub(crate) fn output(&self, arguments: &[&str]) -> String {
        String::from_utf8(success(self.run(arguments))).unwrap()
    }

    /// Creates a topic with this many partitions.
    #[track_caller]
    pub(crate) fn create(&self, topic: &str, partitions: u32) {
        self.output(&["topic", "create", topic, "--partitions", &partitions.to_string()]);
    }

    /// Produces `input`, and returns the summary.
    #[track_caller]
    pub(crate) fn produce(&self, topic: &str, more: &[&str], input: &[u8]) -> String {
        let output = self.run_with(&[&["produce", topic], more].concat(), input);
        let summary = String::from_utf8_lossy(&output.stderr).into_owned();
        success(output);
        summary
    }

    /// Returns the output of `consume`.
    #[track_caller]
    pub(crate) fn consume(&self, topic: &str, more: &[&str]) -> Vec<u8> {
        success(self.run(&[&["consume", topic], more].concat()))
    }

    /// Returns the output of `consume` as text.
    #[track_caller]
    pub(crate) fn consume_text(&self, topic: &str, more: &[&str]) -> String {
        String::from_utf8(self.consume(topic, more)).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A running `sub` or `reply`.
pub(crate) struct Listener {
    child: Child,
    errors: BufReader<std::process::ChildStderr>,
}

impl Listener {
    /// A verb that prints nothing by itself before it ends.
    pub(crate) fn quiet(mut child: Child) -> Self {
        let errors = BufReader::new(child.stderr.take().unwrap());
        Self { child, errors }
    }

    fn start(arguments: &[&str]) -> Self {
        let mut child = command(arguments).spawn().unwrap();
        let mut errors = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        errors.read_line(&mut line).unwrap();
        assert!(line.contains("subscribed to ") || line.contains("answering "), "{line}");
        Self { child, errors }
    }

    /// The next line of standard error.
    pub(crate) fn next_error(&mut self) -> String {
        let mut line = String::new();
        self.errors.read_line(&mut line).unwrap();
        line
    }

    pub(crate) fn stdout(&mut self) -> BufReader<std::process::ChildStdout> {
        BufReader::new(self.child.stdout.take().unwrap())
    }

    pub(crate) fn stdin(&mut self) -> std::process::ChildStdin {
        self.child.stdin.take().unwrap()
    }

    /// Sends SIGINT, as Ctrl-C does.
    pub(crate) fn interrupt(&self) {
        self.signal(Signal::INT);
    }

    /// Sends SIGTERM, as `kill` does.
    pub(crate) fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap(), signal).unwrap();
    }

    /// Waits for the end. Returns the exit status, and the rest of both outputs.
    pub(crate) fn end(mut self) -> (Option<i32>, Vec<u8>, String) {
        let stdout = self.child.stdout.take();
        let reading = std::thread::spawn(move || {
            let mut output = Vec::new();
            if let Some(mut stdout) = stdout {
                stdout.read_to_end(&mut output).unwrap();
            }
            output
        });
        let mut text = String::new();
        self.errors.read_to_string(&mut text).unwrap();
        let status = self.child.wait().unwrap().code();
        (status, reading.join().unwrap(), text)
    }
}

/// `reply` never ends by itself, and keeps reconnecting when the server is gone.
impl Drop for Listener {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A minimal client of the Kafka protocol.
pub(crate) struct Wire(TcpStream);

impl Wire {
    pub(crate) fn connect(server: &Server) -> Self {
        let stream = TcpStream::connect(&server.kafka).unwrap();
        // A test fails if its response never comes.
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self(stream)
    }

    pub(crate) fn call<R: Request>(&mut self, version: i16, request: &R) -> R::Response {
        let frame = request_frame(1, Some("consumer-1"), version, request).unwrap();
        self.0.write_all(&frame.into_bytes().unwrap()).unwrap();
        let mut length = [0; 4];
        self.0.read_exact(&mut length).unwrap();
        let mut answer = vec![0; usize::try_from(i32::from_be_bytes(length)).unwrap()];
        self.0.read_exact(&mut answer).unwrap();
        decode_response::<R>(answer.into(), version).unwrap().1
    }
}

/// The body of a small HTTP response.
pub(crate) fn http_get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// Waits until `done` holds.
#[track_caller]
pub(crate) fn until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < deadline, "{what} did not happen");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Copies a folder.
pub(crate) fn copy_dir(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy_dir(&entry.path(), &target),
            false => drop(std::fs::copy(entry.path(), target).unwrap()),
        }
    }
}
