//! A connection to a NATS listener.

use std::io::{BufRead, BufReader, Read, Write};

use crate::stream::{Stream, Way};
use crate::{Arguments, Failure};

/// A connection that has sent CONNECT.
pub(crate) struct Client {
    stream: BufReader<Stream>,
}

impl Client {
    pub(crate) fn connect(way: &Way, arguments: &Arguments) -> Result<Self, Failure> {
        let mut socket = way.plain()?;
        if way.is_tls() {
            // INFO comes first, and nothing that follows the line before the handshake.
            let mut byte = [0; 1];
            while byte != *b"\n" {
                socket.read_exact(&mut byte)?;
            }
        }
        let mut client = Self { stream: BufReader::new(way.secure(socket)?) };
        let login = match arguments.given("user") {
            Some(user) => format!(",\"user\":\"{user}\",\"pass\":\"{}\"", arguments.text("password")?),
            None => String::new(),
        };
        let connect = format!("CONNECT {{\"verbose\":false,\"pedantic\":false,\"headers\":true{login}}}\r\n");
        client.send(connect.as_bytes())?;
        client.until_pong()?;
        Ok(client)
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        Ok(self.stream.get_mut().write_all(bytes)?)
    }

    /// Sends a PING and reads up to its PONG. Returns the first error on the way.
    pub(crate) fn said_until_pong(&mut self) -> Result<Option<String>, Failure> {
        self.send(b"PING\r\n")?;
        let mut complaint = None;
        loop {
            let mut line = String::new();
            if self.stream.read_line(&mut line)? == 0 {
                return Err(complaint
                    .unwrap_or_else(|| "the server closed the connection".to_owned())
                    .into());
            }
            match line.trim_end() {
                "PONG" => return Ok(complaint),
                "PING" => self.send(b"PONG\r\n")?,
                error if error.starts_with("-ERR") => complaint = complaint.or(Some(error.to_owned())),
                _ => {}
            }
        }
    }

    /// The same, if there is no error.
    pub(crate) fn until_pong(&mut self) -> Result<(), Failure> {
        self.said_until_pong()?.map_or(Ok(()), |complaint| Err(complaint.into()))
    }
}
