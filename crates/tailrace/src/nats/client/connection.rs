//! One connection to a NATS server.
//!
//! The connection has no task of its own; its owner drives it. [`Connection::take`] returns what has arrived,
//! [`Connection::drive`] reads and writes as the socket allows. Outgoing bytes wait in a buffer, and a caller
//! checks [`Connection::has_room`] before it adds to them. The connection answers PING by itself.

use std::time::Duration;

use bytes::{Buf, BytesMut};
use tailrace_cli::failure::plain;
use tailrace_nats_wire::{
    Limits, Message, ServerInfo, ServerOp, ServerParser, Step, write_connect, write_publish, write_subscribe,
    write_unsubscribe,
};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf, split};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::identity::{Identity, Security};
use super::{Incoming, NatsError, Received, ServerAddress};
use crate::client::address::nature;

/// Bytes to ask for in one read.
const READ_BYTES: usize = 64 << 10;
/// Buffered outgoing bytes. While there are this many, no more are added.
const OUT_BYTES_MAX: usize = 256 << 10;
/// Longest line of a server: INFO may list many other servers.
const LINE_BYTES_MAX: usize = 1 << 20;
/// Longest wait when probing what kind of server has stayed silent.
const QUESTION_MAX: Duration = Duration::from_secs(1);
/// Largest accepted message: the highest limit that servers can be set to.
const MESSAGE_BYTES_MAX: usize = 64 << 20;

/// The transport under the protocol.
pub(super) trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for T {}

/// A connection; see the module.
pub(crate) struct Connection {
    address: String,
    info: ServerInfo,
    reader: ReadHalf<Box<dyn ByteStream>>,
    writer: WriteHalf<Box<dyn ByteStream>>,
    parser: ServerParser,
    input: BytesMut,
    /// Bytes that the operation at the front of `input` needs at least.
    needed: usize,
    out: Vec<u8>,
    sent: usize,
    /// TLS may buffer the end of what was written.
    unflushed: bool,
    /// The server's last error. It is the reason if the server closes the connection.
    complaint: Option<String>,
}

impl Connection {
    /// Connects, and waits until the server has accepted our credentials.
    pub(super) async fn open(
        address: &ServerAddress,
        who: Identity<'_>,
        tls: Option<&Security>,
        patience: Duration,
    ) -> Result<Self, NatsError> {
        let opening = async {
            let mut connection = Self::connect(&address.host_port, tls).await?;
            connection.read_info().await?;
            let mut connection = connection.secure(tls).await?;
            connection.introduce(who).await?;
            Ok(connection)
        };
        match timeout(patience, opening).await {
            Ok(opened) => opened,
            // With TLS first, the server need not speak first.
            Err(_) if tls.is_some_and(|tls| tls.first) => Err(no_answer(&address.host_port, patience)),
            Err(_) => Err(silent(&address.host_port, patience).await),
        }
    }

    async fn connect(address: &str, tls: Option<&Security>) -> Result<Self, NatsError> {
        let failed = |error: std::io::Error| {
            let reason = plain(&error);
            NatsError::Connect { address: address.to_owned(), reason }
        };
        let stream = TcpStream::connect(address).await.map_err(failed)?;
        // Callers wait for replies, and a delay to fill a packet would only make them wait longer.
        stream.set_nodelay(true).map_err(failed)?;
        let mut stream: Box<dyn ByteStream> = Box::new(stream);
        if let Some(tls) = tls.filter(|tls| tls.first) {
            stream = handshake(tls, address, stream).await?;
        }
        Ok(Self::over(address.to_owned(), stream))
    }

    fn over(address: String, stream: Box<dyn ByteStream>) -> Self {
        let (reader, writer) = split(stream);
        let limits = Limits { control_line_max: LINE_BYTES_MAX, payload_max: MESSAGE_BYTES_MAX };
        Self {
            address,
            info: ServerInfo::default(),
            reader,
            writer,
            parser: ServerParser::new(limits),
            input: BytesMut::new(),
            needed: 0,
            out: Vec::new(),
            sent: 0,
            unflushed: false,
            complaint: None,
        }
    }

    async fn read_info(&mut self) -> Result<(), NatsError> {
        while self.info.server_id.is_empty() {
            self.take()?;
            if self.info.server_id.is_empty() {
                self.drive().await?;
            }
        }
        Ok(())
    }

    /// Upgrades to TLS, if TLS was asked for and the connection did not start with it.
    async fn secure(self, tls: Option<&Security>) -> Result<Self, NatsError> {
        let (address, info) = (self.address.clone(), self.info.clone());
        let failed =
            |reason: &str| Err(NatsError::Tls { address: address.clone(), reason: reason.to_owned() });
        match tls {
            Some(tls) if tls.first => Ok(self),
            None if info.tls_required => failed("the server requires it; name its authority with --tls-ca"),
            None => Ok(self),
            Some(_) if !(info.tls_required || info.tls_available) => failed("the server does not support it"),
            // Bytes that came in the clear after INFO must not pass for protected ones.
            Some(_) if !self.input.is_empty() => failed("the server sent data between INFO and TLS"),
            Some(tls) => {
                let stream = handshake(tls, &address, self.reader.unsplit(self.writer)).await?;
                Ok(Self { info, ..Self::over(address, stream) })
            }
        }
    }

    async fn introduce(&mut self, who: Identity<'_>) -> Result<(), NatsError> {
        write_connect(&mut self.out, &who.options(&self.info.nonce));
        self.ping();
        loop {
            match self.next().await {
                Ok(Incoming::Pong) => return Ok(()),
                Ok(Incoming::Error(text)) => {
                    return Err(NatsError::Refused { address: self.address.clone(), text });
                }
                Ok(Incoming::Message(_) | Incoming::LameDuck) => {}
                Err(NatsError::Closed { address, reason }) => {
                    return Err(match self.complaint.take() {
                        Some(text) => NatsError::Refused { address, text },
                        None => NatsError::Closed { address, reason },
                    });
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// The server's address.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// The server's latest INFO.
    pub(crate) fn info(&self) -> &ServerInfo {
        &self.info
    }

    /// Reports whether the buffer of outgoing bytes has room.
    pub(crate) fn has_room(&self) -> bool {
        self.out.len() - self.sent < OUT_BYTES_MAX
    }

    /// Reports whether all outgoing bytes were handed to the kernel.
    pub(crate) fn is_sent(&self) -> bool {
        self.out.len() == self.sent && !self.unflushed
    }

    /// Adds a message to the outgoing bytes.
    pub(crate) fn publish(&mut self, message: &Message<'_>) {
        write_publish(&mut self.out, message);
    }

    pub(crate) fn subscribe(&mut self, subject: &[u8], queue: Option<&[u8]>, sid: u64) {
        write_subscribe(&mut self.out, subject, queue, sid);
    }

    /// Ends a subscription at once, or after it has received `max` messages.
    pub(crate) fn unsubscribe(&mut self, sid: u64, max: Option<u64>) {
        write_unsubscribe(&mut self.out, sid, max);
    }

    /// Sends a PING. Once the PONG arrives, the server has processed everything sent before.
    pub(crate) fn ping(&mut self) {
        self.out.extend_from_slice(b"PING\r\n");
    }

    /// Waits for what arrives next. Cancellation-safe.
    pub(crate) async fn next(&mut self) -> Result<Incoming, NatsError> {
        loop {
            if let Some(incoming) = self.take()? {
                return Ok(incoming);
            }
            self.drive().await?;
        }
    }

    /// Returns what has arrived, if anything.
    pub(crate) fn take(&mut self) -> Result<Option<Incoming>, NatsError> {
        while self.input.len() >= self.needed.max(1) {
            let step = self.parser.next(&self.input);
            let step = step.map_err(|error| NatsError::Protocol { address: self.address.clone(), error })?;
            let (op, used) = match step {
                Step::Done(op, used) => (op, used),
                Step::More(needed) => {
                    self.needed = needed;
                    return Ok(None);
                }
            };
            let mut incoming = None;
            match op {
                ServerOp::Message { sid, message } => {
                    // A sid that is not a number is not one of ours.
                    let sid = std::str::from_utf8(sid).ok().and_then(|sid| sid.parse().ok());
                    incoming = Some(Incoming::Message(Received::new(sid.unwrap_or(0), &message)));
                }
                ServerOp::Info(json) => {
                    let wrong = |error: serde_json::Error| NatsError::Info {
                        address: self.address.clone(),
                        error: error.to_string(),
                    };
                    let info: ServerInfo = serde_json::from_slice(json).map_err(wrong)?;
                    incoming = (info.ldm && !self.info.ldm).then_some(Incoming::LameDuck);
                    self.info = info;
                }
                ServerOp::Error(text) => {
                    let text = String::from_utf8_lossy(text).into_owned();
                    if stays_open(&text) {
                        incoming = Some(Incoming::Error(text));
                    } else {
                        self.complaint = Some(text);
                    }
                }
                ServerOp::Ping => self.out.extend_from_slice(b"PONG\r\n"),
                ServerOp::Pong => incoming = Some(Incoming::Pong),
                ServerOp::Ok => {}
            }
            self.input.advance(used);
            self.needed = 0;
            if incoming.is_some() {
                return Ok(incoming);
            }
        }
        Ok(None)
    }

    /// Reads or writes once, as soon as the socket allows. Cancellation-safe.
    pub(crate) async fn drive(&mut self) -> Result<(), NatsError> {
        self.input.reserve(READ_BYTES.max(self.needed.saturating_sub(self.input.len())));
        if self.is_sent() {
            let read = self.reader.read_buf(&mut self.input).await;
            return self.after_read(read);
        }
        tokio::select! {
            read = self.reader.read_buf(&mut self.input) => self.after_read(read),
            written = write_some(&mut self.writer, &self.out[self.sent..]) => {
                self.after_write(written);
                Ok(())
            }
        }
    }

    /// Writes once, as soon as the socket allows, and reads nothing.
    pub(crate) async fn write(&mut self) {
        let written = write_some(&mut self.writer, &self.out[self.sent..]).await;
        self.after_write(written);
    }

    fn after_read(&mut self, read: std::io::Result<usize>) -> Result<(), NatsError> {
        match read {
            Ok(0) => Err(self.closed("the server closed it".to_owned())),
            Ok(_) => Ok(()),
            Err(error) => Err(self.closed(plain(&error))),
        }
    }

    /// Accounts for a write. A write error is left to the reading side, which first shows what the server
    /// sent before it closed.
    fn after_write(&mut self, written: std::io::Result<usize>) {
        self.sent += written.unwrap_or(usize::MAX).min(self.out.len() - self.sent);
        // Either only a flush was left, or the rest must be flushed next.
        self.unflushed = !self.out.is_empty();
        if self.out.len() == self.sent {
            self.out.clear();
            self.sent = 0;
        } else if self.sent >= OUT_BYTES_MAX {
            self.out.drain(..self.sent);
            self.sent = 0;
        }
    }

    fn closed(&self, reason: String) -> NatsError {
        NatsError::Closed { address: self.address.clone(), reason: self.complaint.clone().unwrap_or(reason) }
    }
}

/// The error for a server that stays silent. A NATS server speaks first. So this sends a line of HTTP, which
/// servers of other protocols reject each in their own way.
async fn silent(address: &str, patience: Duration) -> NatsError {
    let question = async {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(b"GET / HTTP/1.0\r\n\r\n").await?;
        let mut answer = [0; 4];
        stream.read_exact(&mut answer).await?;
        Ok::<_, std::io::Error>(answer)
    };
    match timeout(QUESTION_MAX, question).await {
        Ok(Ok(answer)) if answer != *b"INFO" => match nature(&answer) {
            Some(what) => NatsError::NotNats { address: address.to_owned(), what },
            None => no_answer(address, patience),
        },
        Ok(Err(error)) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            let reason = format!(
                "it sent nothing for {patience:?} and closes the connection after a line of text: this is the port for Kafka clients, or \
                 TLS comes first (--tls-first)"
            );
            NatsError::Connect { address: address.to_owned(), reason }
        }
        _ => no_answer(address, patience),
    }
}

fn no_answer(address: &str, patience: Duration) -> NatsError {
    NatsError::Connect { address: address.to_owned(), reason: format!("no answer within {patience:?}") }
}

async fn handshake(
    security: &Security,
    address: &str,
    stream: Box<dyn ByteStream>,
) -> Result<Box<dyn ByteStream>, NatsError> {
    match security.tls.connect(address, stream).await {
        Ok(stream) => Ok(Box::new(stream)),
        Err(reason) => {
            let reason = reason.strip_prefix("TLS: ").unwrap_or(&reason).to_owned();
            Err(NatsError::Tls { address: address.to_owned(), reason })
        }
    }
}

/// Writes some of `bytes`, or flushes if there are none.
async fn write_some(writer: &mut WriteHalf<Box<dyn ByteStream>>, bytes: &[u8]) -> std::io::Result<usize> {
    if bytes.is_empty() {
        return writer.flush().await.map(|()| 0);
    }
    writer.write(bytes).await
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").field("address", &self.address).finish_non_exhaustive()
    }
}

/// Reports whether servers keep the connection open after this error.
fn stays_open(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    let kept =
        ["permissions violation", "invalid subject", "invalid publish subject", "maximum subscriptions"];
    kept.iter().any(|beginning| text.starts_with(beginning))
}
