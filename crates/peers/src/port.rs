//! The port on which a node listens for other nodes.

use std::io;
use std::net::SocketAddr;

use tailrace_env::net::{ListenError, Listener, listen};

/// A port for nodes. Connections wait until [`Peers::serve`](crate::Peers::serve).
#[derive(Debug)]
pub struct Port(pub(super) Listener);

impl Port {
    /// Listens on HOST:PORT, the value of the setting `key`.
    ///
    /// # Errors
    /// [`ListenError`].
    pub async fn open(key: &'static str, address: &str) -> Result<Self, ListenError> {
        listen(key, address).await.map(Self)
    }

    /// Returns the address it listens on. If port 0 was asked for, it has the port that was picked.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}
