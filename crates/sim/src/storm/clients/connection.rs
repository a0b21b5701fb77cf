//! A connection that speaks the Kafka protocol.

use std::io;

use bytes::Bytes;
use tailrace_env::io::{AsyncReadExt, AsyncWriteExt};
use tailrace_env::net::{self, Stream};
use tailrace_env::time::{self, Duration};
use tailrace_kafka_wire::{Request, decode_response, request_frame};

use crate::storm::site::kafka_address;

/// The longest wait for an answer.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_millis(1_500);

/// Maximum size of an answer, in bytes.
const ANSWER_BYTES_MAX: i32 = 16 << 20;

pub(super) struct Connection {
    stream: Stream,
    correlation: i32,
}

/// Why a request got no answer.
pub(super) enum CallError {
    /// The connection was lost, or was silent for too long.
    Lost,
    /// The answer cannot be decoded.
    Illegible(String),
}

impl From<io::Error> for CallError {
    fn from(_: io::Error) -> Self {
        Self::Lost
    }
}

impl Connection {
    pub(super) async fn open(node: u8) -> io::Result<Self> {
        let dialed = time::timeout(ANSWER_TIMEOUT, net::connect(&kafka_address(node))).await;
        let stream = dialed.map_err(|_| io::ErrorKind::TimedOut)??;
        Ok(Self { stream, correlation: 0 })
    }

    pub(super) async fn call<R: Request>(
        &mut self,
        version: i16,
        request: &R,
    ) -> Result<R::Response, CallError> {
        self.correlation += 1;
        let frame = request_frame(self.correlation, Some("storm"), version, request);
        let frame = frame.expect("a well-formed request").into_bytes().expect("no records from a file");
        // A node without power, or without room for a large frame, takes nothing.
        let asked = async {
            self.stream.write_all(&frame).await?;
            self.receive().await
        };
        let answer = time::timeout(ANSWER_TIMEOUT, asked).await.map_err(|_| CallError::Lost)??;
        let illegible = |error| CallError::Illegible(format!("an answer to {}: {error:?}", R::NAME));
        let (correlation, response) = decode_response::<R>(answer, version).map_err(illegible)?;
        if correlation == self.correlation {
            Ok(response)
        } else {
            Err(CallError::Illegible(format!("{} was answered with number {correlation}", R::NAME)))
        }
    }

    /// Waits for a while. Reports whether the node has ended the connection, or said something unasked.
    pub(super) async fn is_ended(&mut self, within: Duration) -> bool {
        time::timeout(within, self.stream.read_u8()).await.is_ok()
    }

    async fn receive(&mut self) -> io::Result<Bytes> {
        let bytes = self.stream.read_i32().await?;
        if !(0..=ANSWER_BYTES_MAX).contains(&bytes) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut answer = vec![0; usize::try_from(bytes).expect("the length is not negative")];
        self.stream.read_exact(&mut answer).await?;
        Ok(answer.into())
    }
}
