//! Plays a scene against a server.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::pattern::{Comparison, Pattern, escaped_lines};
use super::script::{Act, Scene, Who};

/// Longer than any answer takes, including timers of the scripts. If an answer is missing, the script fails
/// after this time.
const PATIENCE: Duration = Duration::from_secs(10);
/// Recording ends when nothing was received for this long.
const QUIET: Duration = Duration::from_millis(600);
/// How many received bytes a failure shows.
const SHOWN_BYTES: usize = 2000;

/// nats-server sends every client a PING 2 s after it connected. The player answers a PING that the script
/// does not expect.
const PING: &[u8] = b"PING\r\n";

/// The lines that a recording puts in place of a line of the script.
pub type Recorded = (usize, Vec<String>);

/// The server that a scene is played against.
pub trait Stage {
    fn who(&self) -> Who;
    fn address(&self) -> SocketAddr;
    /// Puts the server into lame duck mode.
    fn lame_duck(&self);
}

/// Plays a scene. The error names the line, what was expected, and what was received.
pub fn play(scene: &Scene, stage: &dyn Stage) -> Result<Vec<Recorded>, String> {
    let mut player = Player { stage, people: BTreeMap::new(), recorded: Vec::new() };
    for step in scene.steps.iter().filter(|step| step.only.is_none_or(|who| who == stage.who())) {
        player.step(step.line, &step.act).map_err(|wrong| format!("line {}: {wrong}", step.line))?;
    }
    for (name, person) in &mut player.people {
        person.silence().map_err(|wrong| format!("at the end of the scene, {name}: {wrong}"))?;
    }
    Ok(player.recorded)
}

struct Player<'a> {
    stage: &'a dyn Stage,
    people: BTreeMap<String, Person>,
    recorded: Vec<Recorded>,
}

impl Player<'_> {
    fn step(&mut self, line: usize, act: &Act) -> Result<(), String> {
        match act {
            Act::Connects(name) => {
                self.people.insert(name.clone(), Person::connect(self.stage.address())?);
            }
            Act::Sends(name, bytes) => self.person(name)?.send(bytes),
            Act::Receives(name, expected) => self.person(name)?.expect(expected)?,
            Act::Records(name) => {
                let person = self.person(name)?;
                let lines = person.record(name);
                if person.ended {
                    self.people.remove(name);
                }
                self.recorded.push((line, lines));
            }
            Act::Info(name, fields) => self.person(name)?.info(fields)?,
            Act::Silence(name) => self.person(name)?.silence()?,
            Act::Closed(name) => {
                self.person(name)?.closed()?;
                self.people.remove(name);
            }
            Act::Refused(name, last_words) => {
                self.person(name)?.refused(last_words)?;
                self.people.remove(name);
            }
            Act::Leaves(name) | Act::InTheMiddle(name) => {
                self.people.remove(name);
            }
            Act::OneOf(names, expected) => self.share(1, names, expected)?,
            Act::Share(count, names, expected) => self.share(*count, names, expected)?,
            // The script says how long.
            Act::Waits(duration) => std::thread::sleep(*duration),
            Act::LameDuck => self.stage.lame_duck(),
        }
        Ok(())
    }

    /// Returns the client of this name. On first mention, the client connects and reads its INFO.
    fn person(&mut self, name: &str) -> Result<&mut Person, String> {
        if !self.people.contains_key(name) {
            let mut person = Person::connect(self.stage.address())?;
            person.info("{}")?;
            self.people.insert(name.to_owned(), person);
        }
        Ok(self.people.get_mut(name).expect("the client was just inserted"))
    }

    fn share(&mut self, count: usize, names: &[String], expected: &Pattern) -> Result<(), String> {
        let mut counts = Vec::new();
        for name in names {
            let person = self.person(name)?;
            person.send(b"PING\r\n");
            let mut got = 0;
            while person.expect(&pong()).is_err() {
                person.expect(expected)?;
                got += 1;
            }
            counts.push(got);
        }
        let fair = count < names.len() || counts.iter().all(|&got| got > 0);
        if counts.iter().sum::<usize>() == count && fair {
            return Ok(());
        }
        Err(format!("expected {count} in all, came {counts:?}"))
    }
}

fn pong() -> Pattern {
    Pattern::parse("PONG\\r\\n").expect("a legal pattern")
}

/// The connection of a client.
struct Person {
    stream: TcpStream,
    received: Vec<u8>,
    ended: bool,
    /// The connection ended with an error instead of an end of stream.
    reset: bool,
}

impl Person {
    fn connect(address: SocketAddr) -> Result<Self, String> {
        let stream = TcpStream::connect(address).map_err(|error| format!("cannot connect: {error}"))?;
        stream.set_nodelay(true).expect("a socket takes this option");
        stream.set_write_timeout(Some(PATIENCE)).expect("a socket takes this option");
        Ok(Self { stream, received: Vec::new(), ended: false, reset: false })
    }

    /// Sends bytes. It is not an error if the server closes meanwhile: the script next expects what the
    /// server said before.
    fn send(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    /// Reads once. Returns false if nothing was received within this time, or the connection has ended.
    fn read(&mut self, patience: Duration) -> bool {
        if self.ended || patience.is_zero() {
            return false;
        }
        self.stream.set_read_timeout(Some(patience)).expect("the timeout is not zero");
        let mut buffer = [0; 65536];
        match self.stream.read(&mut buffer) {
            Ok(0) => self.ended = true,
            Ok(count) => self.received.extend_from_slice(&buffer[..count]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                return false;
            }
            Err(_) => (self.ended, self.reset) = (true, true),
        }
        !self.ended
    }

    /// Takes the pattern from the received bytes. Takes nothing if they do not match.
    fn expect(&mut self, expected: &Pattern) -> Result<(), String> {
        let end = Instant::now() + PATIENCE;
        loop {
            match expected.compare(&self.received) {
                Comparison::Matches(length) => {
                    self.received.drain(..length);
                    return Ok(());
                }
                Comparison::Differs if self.received.starts_with(PING) => {
                    self.received.drain(..PING.len());
                    self.send(b"PONG\r\n");
                }
                Comparison::Differs => return Err(self.instead(expected)),
                Comparison::TooShort if !self.read(end.saturating_duration_since(Instant::now())) => {
                    return Err(self.instead(expected));
                }
                Comparison::TooShort => {}
            }
        }
    }

    fn instead(&self, expected: &Pattern) -> String {
        format!("expected {expected}, came {}", self.shown())
    }

    fn shown(&self) -> String {
        let bytes = &self.received[..self.received.len().min(SHOWN_BYTES)];
        let more = if self.ended { ", then the connection closed" } else { "" };
        format!("`{}`{more}", escaped_lines(bytes).concat())
    }

    fn silence(&mut self) -> Result<(), String> {
        self.send(b"PING\r\n");
        self.expect(&pong())?;
        if self.received.is_empty() {
            Ok(())
        } else {
            Err(format!("expected silence, came {}", self.shown()))
        }
    }

    fn closed(&mut self) -> Result<(), String> {
        let end = Instant::now() + PATIENCE;
        while self.read(end.saturating_duration_since(Instant::now())) {}
        if self.ended && self.received.is_empty() {
            return Ok(());
        }
        Err(format!("expected the connection to be closed, came {}", self.shown()))
    }

    fn refused(&mut self, last_words: &Pattern) -> Result<(), String> {
        let end = Instant::now() + PATIENCE;
        while self.read(end.saturating_duration_since(Instant::now())) {}
        if !(self.reset && self.received.is_empty()) {
            self.expect(last_words)?;
        }
        self.closed()
    }

    fn record(&mut self, name: &str) -> Vec<String> {
        while self.read(QUIET) {}
        let lines = escaped_lines(&std::mem::take(&mut self.received));
        let mut lines: Vec<_> = lines.iter().map(|line| format!("{name} < {line}")).collect();
        if self.ended {
            lines.push(format!("{name} closed"));
        } else if lines.is_empty() {
            lines.push(format!("{name} silence"));
        }
        lines
    }

    fn info(&mut self, fields: &str) -> Result<(), String> {
        let end = Instant::now() + PATIENCE;
        let length = loop {
            if let Some(at) = self.received.windows(2).position(|two| two == b"\r\n") {
                break at + 2;
            } else if !self.read(end.saturating_duration_since(Instant::now())) {
                return Err(format!("expected an INFO, came {}", self.shown()));
            }
        };
        let line = String::from_utf8_lossy(&self.received[..length]).into_owned();
        let json =
            line.strip_prefix("INFO ").ok_or_else(|| format!("expected an INFO, came {}", self.shown()))?;
        let came: Value = serde_json::from_str(json).map_err(|error| format!("{error} in {line}"))?;
        let wanted: Value = serde_json::from_str(fields).map_err(|error| format!("{error} in {fields}"))?;
        for (field, value) in wanted.as_object().ok_or("an object was expected")? {
            let there = came.get(field);
            let agrees = match value {
                Value::Null => there.is_none(),
                Value::String(text) if text == "*" => there.is_some(),
                value => there == Some(value),
            };
            if !agrees {
                return Err(format!("expected {field} to be {value} in {line}"));
            }
        }
        self.received.drain(..length);
        Ok(())
    }
}
