//! One connection to a NATS server.
//!
//! It is driven by its owner and has no task of its own: [`Connection::take`] yields what has arrived,
//! [`Connection::drive`] reads and writes as the socket allows. What is to be sent waits in a buffer; whoever fills
//! it asks [`Connection::has_room`] first. PING is answered here.

use std::time::Duration;

use bytes::{Buf, BytesMut};
use tailrace_nats_wire::{
    ConnectOptions, Limits, Message, ServerInfo, ServerOp, ServerParser, Step, write_connect, write_publish,
    write_subscribe, write_unsubscribe,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::transport::Transport;
use super::{Incoming, NatsError, Received, ServerAddress};
use crate::client::Tls;
use crate::failure::plain;

/// Bytes asked for in one read.
const READ_BYTES: usize = 64 << 10;
/// Bytes that wait to be sent; more are not added before some are gone.
const OUT_BYTES_MAX: usize = 256 << 10;
/// Longest line of a server: INFO may name many other servers.
const LINE_BYTES_MAX: usize = 1 << 20;
/// Largest message that is accepted: what servers can be set to.
const MESSAGE_BYTES_MAX: usize = 64 << 20;

/// How TLS is to be spoken.
#[derive(Clone, Debug)]
pub(super) struct TlsChoice {
    pub(super) tls: Tls,
    /// Before INFO, not after it.
    pub(super) first: bool,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Connection {
    address: String,
    info: ServerInfo,
    transport: Transport,
    /// TLS may hold back what was written.
    unflushed: bool,
    parser: ServerParser,
    input: BytesMut,
    /// Bytes that the operation in front of `input` needs at least.
    needed: usize,
    out: Vec<u8>,
    sent: usize,
    /// The last complaint of the server: why it closes, if it does.
    complaint: Option<String>,
}

impl Connection {
    /// Connects, and waits until the server has accepted `options`.
    pub(super) async fn open(
        address: &ServerAddress,
        options: &ConnectOptions,
        tls: Option<&TlsChoice>,
        patience: Duration,
    ) -> Result<Self, NatsError> {
        let opening = async {
            let mut connection = Self::connect(&address.host_port).await?;
            connection.shake_hands(options, tls).await?;
            Ok(connection)
        };
        timeout(patience, opening).await.unwrap_or_else(|_| {
            let reason = format!("no answer within {patience:?}");
            Err(NatsError::Connect { address: address.host_port.clone(), reason })
        })
    }

    async fn connect(address: &str) -> Result<Self, NatsError> {
        let failed = |error: std::io::Error| {
            let reason = plain(&error);
            NatsError::Connect { address: address.to_owned(), reason }
        };
        let stream = TcpStream::connect(address).await.map_err(failed)?;
        // Answers are waited for: a delay to fill a packet would only add to them.
        stream.set_nodelay(true).map_err(failed)?;
        let limits = Limits { control_line_max: LINE_BYTES_MAX, payload_max: MESSAGE_BYTES_MAX };
        Ok(Self {
            address: address.to_owned(),
            info: ServerInfo::default(),
            transport: Transport::plain(stream),
            unflushed: false,
            parser: ServerParser::new(limits),
            input: BytesMut::new(),
            needed: 0,
            out: Vec::new(),
            sent: 0,
            complaint: None,
        })
    }

    async fn shake_hands(
        &mut self,
        options: &ConnectOptions,
        tls: Option<&TlsChoice>,
    ) -> Result<(), NatsError> {
        if let Some(choice) = tls.filter(|choice| choice.first) {
            self.secure(&choice.tls).await?;
        }
        while self.info.server_id.is_empty() {
            self.take()?;
            if self.info.server_id.is_empty() {
                self.drive().await?;
            }
        }
        match tls {
            None if self.info.tls_required => {
                let text = "it wants TLS: name the authority of its certificate with --tls-ca".to_owned();
                return Err(NatsError::Refused { address: self.address.clone(), text });
            }
            // Whoever asked for TLS does not go on without, whatever somebody in between makes of INFO.
            Some(choice) if !self.transport.is_secure() => self.secure(&choice.tls).await?,
            Some(_) | None => {}
        }
        write_connect(&mut self.out, options);
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

    async fn secure(&mut self, tls: &Tls) -> Result<(), NatsError> {
        let address = self.address.clone();
        self.transport.secure(&address, tls).await.map_err(|reason| NatsError::Connect { address, reason })
    }

    /// Where this leads to.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// What the server said of itself last.
    pub(crate) fn info(&self) -> &ServerInfo {
        &self.info
    }

    /// True while more may be added to what is to be sent.
    pub(crate) fn has_room(&self) -> bool {
        self.out.len() - self.sent < OUT_BYTES_MAX
    }

    /// True if everything was handed to the kernel.
    pub(crate) fn is_sent(&self) -> bool {
        self.is_taken() && !self.unflushed
    }

    fn is_taken(&self) -> bool {
        self.out.len() == self.sent
    }

    /// Adds a message to what is to be sent.
    pub(crate) fn publish(&mut self, message: &Message<'_>) {
        write_publish(&mut self.out, message);
    }

    pub(crate) fn subscribe(&mut self, subject: &[u8], queue: Option<&[u8]>, sid: u64) {
        write_subscribe(&mut self.out, subject, queue, sid);
    }

    /// Ends a subscription at once, or after it has got `max` messages.
    pub(crate) fn unsubscribe(&mut self, sid: u64, max: Option<u64>) {
        write_unsubscribe(&mut self.out, sid, max);
    }

    /// Asks for a PONG: once it comes, the server has dealt with everything that was sent before.
    pub(crate) fn ping(&mut self) {
        self.out.extend_from_slice(b"PING\r\n");
    }

    /// Waits for what arrives next. Nothing is lost if the wait is given up.
    pub(crate) async fn next(&mut self) -> Result<Incoming, NatsError> {
        loop {
            if let Some(incoming) = self.take()? {
                return Ok(incoming);
            }
            self.drive().await?;
        }
    }

    /// What has arrived, if there is something.
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
                    // A sid that is no number is none of ours.
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

    /// Reads or writes once, as soon as the socket allows. Nothing is lost if the wait is given up.
    pub(crate) async fn drive(&mut self) -> Result<(), NatsError> {
        self.input.reserve(READ_BYTES.max(self.needed.saturating_sub(self.input.len())));
        let (is_sent, is_taken) = (self.is_sent(), self.is_taken());
        let (reader, writer) = self.transport.both();
        if is_sent {
            let read = reader.read_buf(&mut self.input).await;
            return self.after_read(read);
        }
        if is_taken {
            tokio::select! {
                read = reader.read_buf(&mut self.input) => return self.after_read(read),
                _ = writer.flush() => self.unflushed = false,
            }
            return Ok(());
        }
        tokio::select! {
            read = reader.read_buf(&mut self.input) => self.after_read(read),
            written = writer.write(&self.out[self.sent..]) => {
                self.after_write(written);
                Ok(())
            }
        }
    }

    /// Writes once, as soon as the socket allows, and reads nothing.
    pub(crate) async fn write(&mut self) {
        let is_taken = self.is_taken();
        let (_, writer) = self.transport.both();
        if is_taken {
            // An error is left to reading, as below.
            let _ = writer.flush().await;
            self.unflushed = false;
            return;
        }
        let written = writer.write(&self.out[self.sent..]).await;
        self.after_write(written);
    }

    fn after_read(&mut self, read: std::io::Result<usize>) -> Result<(), NatsError> {
        match read {
            Ok(0) => Err(self.closed("the server closed it".to_owned())),
            Ok(_) => Ok(()),
            Err(error) => Err(self.closed(plain(&error))),
        }
    }

    /// An error of writing is left to reading, which shows first what the server said before it closed.
    fn after_write(&mut self, written: std::io::Result<usize>) {
        self.unflushed = self.transport.is_secure() && written.is_ok();
        self.sent += written.unwrap_or(usize::MAX).min(self.out.len() - self.sent);
        if self.is_taken() {
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

/// True for the complaints after which servers keep the connection.
fn stays_open(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    let kept =
        ["permissions violation", "invalid subject", "invalid publish subject", "maximum subscriptions"];
    kept.iter().any(|beginning| text.starts_with(beginning))
}
