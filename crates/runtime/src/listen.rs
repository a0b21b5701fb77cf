//! Sockets that listen.

use std::io;
use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpSocket};

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

/// Listens on an address, that of the setting `key`: on the first of those that the name has and that can be taken.
///
/// # Errors
/// [`ListenError`].
pub async fn listen(key: &'static str, address: &str) -> Result<TcpListener, ListenError> {
    let outcome = match tokio::net::lookup_host(address).await {
        Ok(addresses) => listen_at_first(addresses),
        Err(error) => Err(error),
    };
    outcome.map_err(|error| ListenError { key, address: address.to_owned(), error })
}

/// Connections that the kernel holds until they are accepted; it may be set to fewer (`net.core.somaxconn`). When a storm overflows
/// the queue, SYN cookies leave clients of NATS, who wait for the server to speak first, with half a connection.
const BACKLOG: u32 = 4096;

fn listen_at_first(addresses: impl Iterator<Item = SocketAddr>) -> io::Result<TcpListener> {
    let mut failed = io::Error::new(io::ErrorKind::InvalidInput, "the name has no address");
    for address in addresses {
        let bound = || {
            let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
            // The port of a server that just ended can be taken at once.
            socket.set_reuseaddr(true)?;
            socket.bind(address)?;
            socket.listen(BACKLOG)
        };
        match bound() {
            Ok(listener) => return Ok(listener),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}
