//! Connections: [`listen`] takes them, [`connect`] makes them, a [`Stream`] is one end of one.
//!
//! A world gives them as [`Socket`] and [`Listen`], and resolves names. A call is one through a table, and in the real
//! world one system call: nothing is copied or kept on the way.
//!
//! Deliberately not here: TLS, which is `tailrace-tls`, over any stream.

mod listener;
mod socket;
mod stream;

use std::io;

use crate::world::current;

pub use listener::Listener;
pub use socket::{BufferSizes, Listen, Opening, Socket};
pub use stream::{Stream, WriteHalf};

/// An address that cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address} ({key}): {error}")]
pub struct ListenError {
    /// The setting.
    pub key: &'static str,
    /// Its value.
    pub address: String,
    /// What the system said.
    pub error: io::Error,
}

/// Listens on HOST:PORT, the value of the setting `key`: on the first of the name's addresses that can be taken.
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

/// Connects to HOST:PORT; every address of the host is tried. It may take long: limit it.
///
/// # Errors
/// The name is not known, or nobody answers at its addresses.
///
/// # Panics
/// If there is no world.
pub async fn connect(address: &str) -> io::Result<Stream> {
    current().connect(address).await.map(Stream::new)
}
