//! Bytes that come and go: the traits of tokio, which have no world, and what works with them in any.

pub use tokio::io::{AsyncBufRead, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf, split};

/// Anything that carries bytes both ways and belongs to one task.
pub trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for S {}
