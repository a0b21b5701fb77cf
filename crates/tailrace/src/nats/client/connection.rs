//! One connection to a NATS server.
//!
//! It is driven by its owner and has no task of its own: [`Connection::take`] yields what has arrived,
//! [`Connection::drive`] reads and writes as the socket allows. What is to be sent waits in a buffer; whoever fills
//! it asks [`Connection::has_room`] first. PING is answered here.

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

/// Bytes asked for in one read.
const READ_BYTES: usize = 64 << 10;
/// Bytes that wait to be sent; more are not added before some are gone.
const OUT_BYTES_MAX: usize = 256 << 10;
/// Longest line of a server: INFO may name many other servers.
const LINE_BYTES_MAX: usize = 1 << 20;
/// Longest wait for what a server is that said nothing.
const QUESTION_MAX: Duration = Duration::from_secs(1);
/// Largest message that is accepted: what servers can be set to.
const MESSAGE_BYTES_MAX: usize = 64 << 20;

/// What the protocol travels over.
pub(super) trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for T {}

/// See the module.
pub(crate) struct Connection {
    address: String,
    info: ServerInfo,
    reader: ReadHalf<Box<dyn ByteStream>>,
    writer: WriteHalf<Box<dyn ByteStream>>,
    parser: ServerParser,
    input: BytesMut,
    /// Bytes that the operation in front of `input` needs at least.
    needed: usize,
    out: Vec<u8>,
    sent: usize,
    /// TLS may hold back the end of what was written.
    unflushed: bool,
    /// The last complaint of the server: why it closes, if it does.
    complaint: Option<String>,
}

impl Connection {
    /// Connects, and waits until the server has accepted who we are.
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
            // Before TLS a server need not speak first.
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
        // Answers are waited for: a delay to fill a packet would only add to them.
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

    /// Goes on in TLS, if that is asked for and was not begun with.
    async fn secure(self, tls: Option<&Security>) -> Result<Self, NatsError> {
        let (address, info) = (self.address.clone(), self.info.clone());
        let failed =
            |reason: &str| Err(NatsError::Tls { address: address.clone(), reason: reason.to_owned() });
        match tls {
            Some(tls) if tls.first => Ok(self),
            None if info.tls_required => failed("the server demands it; name its authority with --tls-ca"),
            None => Ok(self),
            Some(_) if !(info.tls_required || info.tls_available) => failed("the server does not speak it"),
            // What came in the clear behind INFO must not be taken for something that was protected.
            Some(_) if !self.input.is_empty() => failed("the server said something between INFO and TLS"),
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
        self.out.len() == self.sent && !self.unflushed
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

    /// An error of writing is left to reading, which shows first what the server said before it closed.
    fn after_write(&mut self, written: std::io::Result<usize>) {
        self.sent += written.unwrap_or(usize::MAX).min(self.out.len() - self.sent);
        // Nothing was left but to flush, or the rest is to be flushed next.
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

/// A server for NATS speaks first. One that does not is asked what it is, in the words of HTTP, which those of other protocols refuse
/// in their own.
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
                "it said nothing for {patience:?} and closes at a line of text: this is the port for Kafka clients, or \
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

/// Writes a part; if there is nothing to write, what was held back.
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

/// True for the complaints after which servers keep the connection.
fn stays_open(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    let kept =
        ["permissions violation", "invalid subject", "invalid publish subject", "maximum subscriptions"];
    kept.iter().any(|beginning| text.starts_with(beginning))
}
