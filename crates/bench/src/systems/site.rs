//! Where a system is, and how connections to it are protected.

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
    /// With TLS if the settings ask for it.
    pub(super) fn new(address: String, settings: &mut Settings) -> Result<Self, RequesterError> {
        Ok(Self { address, tls: Tls::take(settings)? })
    }

    /// Another server of the same system.
    pub(super) fn at(&self, address: &str) -> Self {
        Self { address: address.to_owned(), tls: self.tls.clone() }
    }

    /// Whether TLS was asked for.
    pub(super) fn has_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Connects, over TLS if that was asked for.
    pub(super) fn connect(&self) -> Result<Wire, RequesterError> {
        let mut wire = self.connect_in_the_clear()?;
        self.secure(&mut wire)?;
        Ok(wire)
    }

    /// Connects without TLS, for protocols that speak of it first.
    pub(super) fn connect_in_the_clear(&self) -> Result<Wire, RequesterError> {
        Wire::connect(&self.address)
    }

    /// Goes on over TLS, if that was asked for.
    pub(super) fn secure(&self, wire: &mut Wire) -> Result<(), RequesterError> {
        match &self.tls {
            Some(tls) => wire.secure(tls.begin(&self.address)?),
            None => Ok(()),
        }
    }
}
