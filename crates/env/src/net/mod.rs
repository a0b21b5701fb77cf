//! Connections. [`listen`] accepts them, [`connect`] makes them, and a [`Stream`] is one end of one.
//!
//! A world supplies [`Socket`] and [`Listen`], and resolves names. Each call is dispatched through a vtable
//! and, in the real world, makes one system call. Nothing is copied or buffered in between.
//!
//! Deliberately not here: TLS. `tailrace-tls` provides it over any stream.

mod listener;
mod socket;
mod stream;

use std::io;

use crate::world::current;

pub use listener::Listener;
pub use socket::{BufferSizes, Listen, Opening, Socket};
pub use stream::{Stream, WriteHalf};

/// An error of [`listen`].
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address} ({key}): {error}")]
pub struct ListenError {
    /// The setting that holds the address.
    pub key: &'static str,
    /// The setting's value.
    pub address: String,
    /// The system's error.
    pub error: io::Error,
}

/// Listens on HOST:PORT, the value of the setting `key`. Uses the first of the name's addresses that is
/// available.
///
/// # Errors
/// [`ListenError`].
///
/// # Panics
/// If there is no world.
pub async fn listen(key: &'static str, address: &str) -> Result<Listener, ListenError> {
    match current().listen(address).await {
        Ok(socket) => Ok(Listener::new(socket)),
        Err(error) => Err(ListenError { key, address: address.to_owned(), error }),
    }
}

/// Connects to HOST:PORT. Tries every address of the host. It may take long, so callers should set a timeout.
///
/// # Errors
/// The name cannot be resolved, or no address answers.
///
/// # Panics
/// If there is no world.
pub async fn connect(address: &str) -> io::Result<Stream> {
    current().connect(address).await.map(Stream::new)
}
