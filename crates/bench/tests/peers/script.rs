//! A server that sends and expects exactly what a script says, over one connection after the other.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread::JoinHandle;
use std::time::Duration;

/// One step of a script.
#[derive(Clone, Debug)]
pub(crate) enum Turn {
    /// These bytes must arrive.
    Hear(Vec<u8>),
    Say(Vec<u8>),
    /// The connection ends.
    HangUp,
    /// The client's next connection.
    Accept,
}

/// This text must arrive.
pub(crate) fn hear(text: &str) -> Turn {
    Turn::Hear(text.as_bytes().to_vec())
}

pub(crate) struct Script {
    pub(crate) address: String,
    /// Keeps the connections open until the end.
    thread: JoinHandle<Vec<TcpStream>>,
}

impl Script {
    pub(crate) fn start(turns: Vec<Turn>) -> Self {
        Self::start_at("127.0.0.1:0", turns)
    }

    pub(crate) fn start_at(address: &str, turns: Vec<Turn>) -> Self {
        let listener = TcpListener::bind(address).unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let thread = std::thread::spawn(move || {
            let mut streams = Vec::new();
            for (number, turn) in turns.into_iter().enumerate() {
                match turn {
                    Turn::Accept => {
                        let stream = listener.accept().unwrap().0;
                        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
                        streams.push(stream);
                    }
                    Turn::HangUp => drop(streams.pop()),
                    Turn::Say(bytes) => streams.last_mut().unwrap().write_all(&bytes).unwrap(),
                    Turn::Hear(expected) => {
                        let mut heard = vec![0; expected.len()];
                        streams.last_mut().unwrap().read_exact(&mut heard).unwrap();
                        let (heard, expected) = (heard.escape_ascii(), expected.escape_ascii());
                        assert_eq!(heard.to_string(), expected.to_string(), "turn {number}");
                    }
                }
            }
            streams
        });
        Self { address, thread }
    }

    /// Panics if the conversation differed.
    pub(crate) fn finish(self) {
        drop(self.thread.join().unwrap());
    }
}
