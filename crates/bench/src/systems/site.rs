//! The address of a system, and the security of connections to it.

use super::settings::Settings;
use super::tls::Tls;
use super::wire::Wire;
use crate::error::RequesterError;

#[derive(Clone, Debug)]
pub(super) struct Site {
    /// `HOST:PORT`.
    pub(super) address: String,
    tls: Option<Tls>,
}

impl Site {
    /// Creates a site, with TLS if the settings ask for it.
    pub(super) fn new(address: String, settings: &mut Settings) -> Result<Self, RequesterError> {
        Ok(Self { address, tls: Tls::take(settings)? })
    }

    /// Another server of the same system.
    pub(super) fn at(&self, address: &str) -> Self {
        Self { address: address.to_owned(), tls: self.tls.clone() }
    }

    /// Reports whether TLS was requested.
    pub(super) fn has_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Connects, over TLS if requested.
    pub(super) fn connect(&self) -> Result<Wire, RequesterError> {
        let mut wire = self.connect_in_the_clear()?;
        self.secure(&mut wire)?;
        Ok(wire)
    }

    /// Connects without TLS, for protocols that negotiate TLS first.
    pub(super) fn connect_in_the_clear(&self) -> Result<Wire, RequesterError> {
        Wire::connect(&self.address)
    }

    /// Switches to TLS, if requested.
    pub(super) fn secure(&self, wire: &mut Wire) -> Result<(), RequesterError> {
        match &self.tls {
            Some(tls) => wire.secure(tls.begin(&self.address)?),
            None => Ok(()),
        }
    }
}
