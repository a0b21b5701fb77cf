//! Byte streams: tokio's traits, which do not depend on a world, and helpers that work in any world.

pub use tokio::io::{AsyncBufRead, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf, split};

/// A byte stream in both directions, owned by one task.
pub trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for S {}
