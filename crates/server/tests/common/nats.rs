//! Plain connections that speak the NATS protocol, and connections of a real client.

use std::net::SocketAddr;

use tailrace_nats_wire::{Limits, ServerOp, ServerParser, Step};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{PATIENCE, TestServer};

/// A plain connection.
pub struct Raw {
    pub stream: TcpStream,
    input: Vec<u8>,
    parser: ServerParser,
}

/// A protocol message from the server, owned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    Message {
        subject: String,
        sid: String,
        reply: Option<String>,
        headers: Option<Vec<u8>>,
        payload: Vec<u8>,
    },
    Info(String),
    Error(String),
    Ok,
    Ping,
    Pong,
}

impl TestServer {
    /// Connects a real client.
    pub async fn client(&self) -> async_nats::Client {
        async_nats::connect(self.nats().to_string()).await.expect("the client connects")
    }

    /// Returns a plain connection after INFO and `CONNECT`, neither verbose nor pedantic.
    pub async fn raw(&self) -> Raw {
        let mut raw = Raw::to(self.nats()).await;
        raw.send("CONNECT {\"verbose\":false,\"pedantic\":false,\"headers\":true}\r\n").await;
        raw.sync().await;
        raw
    }
}

impl Raw {
    /// Connects and reads INFO.
    pub async fn to(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.expect("the listener accepts");
        let limits = Limits { control_line_max: 1 << 16, payload_max: 1 << 26 };
        let mut raw = Self { stream, input: Vec::new(), parser: ServerParser::new(limits) };
        assert!(matches!(raw.next().await, Some(Said::Info(_))), "INFO comes first");
        raw
    }

    pub async fn send(&mut self, text: impl AsRef<[u8]>) {
        self.stream.write_all(text.as_ref()).await.expect("the connection is open");
    }

    /// Returns the server's next protocol message. `None` once the server has closed the connection.
    pub async fn next(&mut self) -> Option<Said> {
        loop {
            match self.parser.next(&self.input).expect("the server speaks the protocol") {
                Step::Done(op, bytes) => {
                    let said = owned(&op);
                    self.input.drain(..bytes);
                    return Some(said);
                }
                Step::More(_) => {
                    let read = tokio::time::timeout(PATIENCE, self.stream.read_buf(&mut self.input)).await;
                    // A reset also counts as the end.
                    if read.expect("an answer in time").unwrap_or(0) == 0 {
                        return None;
                    }
                }
            }
        }
    }

    /// Returns the server's next protocol message within this time. `None` if it sends nothing, `Some(None)`
    /// if it closes.
    pub async fn next_within(&mut self, time: std::time::Duration) -> Option<Option<Said>> {
        tokio::time::timeout(time, self.next()).await.ok()
    }

    /// Sends a PING and returns everything the server sends before it answers with a PONG.
    pub async fn sync(&mut self) -> Vec<Said> {
        self.send("PING\r\n").await;
        let mut all = Vec::new();
        loop {
            match self.next().await {
                Some(Said::Pong) => return all,
                Some(said) => all.push(said),
                None => panic!("the server has closed the connection, after {all:?}"),
            }
        }
    }

    /// Returns everything that the server sends until it closes the connection.
    pub async fn rest(&mut self) -> Vec<Said> {
        let mut all = Vec::new();
        while let Some(said) = self.next().await {
            all.push(said);
        }
        all
    }
}

fn owned(op: &ServerOp<'_>) -> Said {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match *op {
        ServerOp::Message { sid, message } => Said::Message {
            subject: text(message.subject),
            sid: text(sid),
            reply: message.reply.map(text),
            headers: message.headers.map(<[u8]>::to_vec),
            payload: message.payload.to_vec(),
        },
        ServerOp::Info(json) => Said::Info(text(json)),
        ServerOp::Error(error) => Said::Error(text(error)),
        ServerOp::Ok => Said::Ok,
        ServerOp::Ping => Said::Ping,
        ServerOp::Pong => Said::Pong,
    }
}
