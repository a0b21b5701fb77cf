//! Which alterations of quotas are refused, with the texts of Kafka's AlterClientQuotas.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::{EntityName, QuotaEntity, QuotaKey};

/// Maximum length of the name of a user or a client id in an entity, in bytes.
pub const NAME_BYTES_MAX: usize = 1024;

/// The largest distance from a whole number that Kafka ignores.
const FRACTION_MAX: f64 = 1e-6;

/// The types of entities in Kafka's protocol.
pub(super) const USER: &str = "user";
pub(super) const CLIENT_ID: &str = "client-id";
pub(super) const IP: &str = "ip";

/// Why an alteration or a filter is refused. Kafka answers INVALID_REQUEST (42) if nothing else is said.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum QuotaError {
    /// The entity names nothing.
    #[error("Invalid empty client quota entity")]
    EmptyEntity,
    /// The entity names a type twice.
    #[error("Invalid client quota entity, duplicate entity entry {entity_type}")]
    TypeTwice {
        /// The type.
        entity_type: String,
    },
    /// The entity has an unknown type.
    #[error("Unhandled client quota entity type: {entity_type}")]
    UnknownType {
        /// The type.
        entity_type: String,
    },
    /// The name of an entity is empty.
    #[error("Empty {entity_type} not supported")]
    EmptyName {
        /// The type.
        entity_type: &'static str,
    },
    /// The name of an entity is too long.
    #[error("The name of a {entity_type} has at most {NAME_BYTES_MAX} bytes, not {bytes}")]
    NameTooLong {
        /// The type.
        entity_type: &'static str,
        /// Its length in bytes.
        bytes: usize,
    },
    /// An address together with a user or a client id.
    #[error("Invalid quota entity combination, IP entity should not be combined with User or ClientId")]
    AddressCombined,
    /// Not an address. Unlike Kafka, we do not look names of hosts up.
    #[error("{address:?} is not a valid IP")]
    Address {
        /// The text.
        address: String,
    },
    /// The key does not exist, or not for this entity.
    #[error("Invalid configuration key {key}")]
    Key {
        /// The key.
        key: String,
    },
    /// An alteration names a key twice.
    #[error("Duplicate quota key {key} not updating quota for this entity")]
    KeyTwice {
        /// The key.
        key: &'static str,
    },
    /// The limit is zero or less, or not a number.
    #[error("Quota {key} must be greater than 0")]
    NotPositive {
        /// The key.
        key: &'static str,
    },
    /// The limit must be whole.
    #[error("{key} cannot be a fractional value.")]
    Fraction {
        /// The key.
        key: &'static str,
    },
    /// The limit is too large, or infinite.
    #[error("Proposed value for {key} is too large for {bound}.")]
    TooLarge {
        /// The key.
        key: &'static str,
        /// Kafka's type of its limits.
        bound: &'static str,
    },
    /// A filter with an empty type.
    #[error("Invalid empty entity type.")]
    EmptyFilterType,
    /// A filter names a type twice.
    #[error("Entity type {entity_type} cannot appear more than once in the filter.")]
    FilterTypeTwice {
        /// The type.
        entity_type: String,
    },
    /// A filter has an unknown type. Kafka answers UNSUPPORTED_VERSION (35).
    #[error("Unsupported entity type {entity_type}")]
    UnknownFilterType {
        /// The type.
        entity_type: String,
    },
    /// A filter for addresses together with one for users or client ids.
    #[error(
        "Invalid entity filter component combination. IP filter component should not be used with user or \
         clientId filter component."
    )]
    FilterAddressCombined,
    /// A filter without a name where it needs one, or the reverse.
    #[error("Request specified match type {code}, and the match string does not fit it.")]
    FilterName {
        /// The code of the match type.
        code: i8,
    },
    /// A match type that does not exist.
    #[error("Unknown match type {code}")]
    FilterMatch {
        /// Its code.
        code: i8,
    },
}

/// A change of the quotas of one entity.
#[derive(Clone, Debug, PartialEq)]
pub struct QuotaAlteration {
    /// The entity.
    pub entity: QuotaEntity,
    /// New limits. `None` removes one. To remove what is not there is no error.
    pub changes: Vec<(QuotaKey, Option<f64>)>,
}

impl QuotaAlteration {
    /// Checks the alteration.
    ///
    /// # Errors
    /// The first fault that was found.
    pub fn check(&self) -> Result<(), QuotaError> {
        self.entity.check()?;
        let mut keys = BTreeSet::new();
        for (key, limit) in &self.changes {
            if !keys.insert(key) {
                return Err(QuotaError::KeyTwice { key: key.name() });
            }
            if let Some(limit) = limit {
                key.check(&self.entity, *limit)?;
            }
        }
        Ok(())
    }
}

impl QuotaEntity {
    /// Puts an entity together from types and names of Kafka's protocol. A name of `None` is the default.
    /// Addresses get their shortest form.
    ///
    /// # Errors
    /// The first fault that was found.
    pub fn from_parts<'a>(
        parts: impl IntoIterator<Item = (&'a str, Option<&'a str>)>,
    ) -> Result<Self, QuotaError> {
        let mut entity = Self::default();
        for (entity_type, name) in parts {
            let place = match entity_type {
                USER => &mut entity.user,
                CLIENT_ID => &mut entity.client_id,
                IP => &mut entity.ip,
                _ => return Err(QuotaError::UnknownType { entity_type: shown(entity_type) }),
            };
            if place.is_some() {
                return Err(QuotaError::TypeTwice { entity_type: entity_type.to_owned() });
            }
            let name = name.map(|name| canonical_name(entity_type, name));
            *place = Some(name.map_or(EntityName::Default, EntityName::Named));
        }
        entity.check()?;
        Ok(entity)
    }

    /// Returns types and names as in Kafka's protocol, the reverse of [`QuotaEntity::from_parts`].
    pub fn parts(&self) -> impl Iterator<Item = (&'static str, Option<&str>)> {
        let parts = [(USER, &self.user), (CLIENT_ID, &self.client_id), (IP, &self.ip)];
        parts.into_iter().filter_map(|(entity_type, name)| match name {
            None => None,
            Some(EntityName::Default) => Some((entity_type, None)),
            Some(EntityName::Named(name)) => Some((entity_type, Some(name.as_str()))),
        })
    }

    /// Checks the entity.
    ///
    /// # Errors
    /// The first fault that was found.
    pub fn check(&self) -> Result<(), QuotaError> {
        if self.user.is_none() && self.client_id.is_none() && self.ip.is_none() {
            return Err(QuotaError::EmptyEntity);
        }
        for (entity_type, name) in self.parts() {
            match name.map(str::len) {
                Some(0) => return Err(QuotaError::EmptyName { entity_type }),
                Some(bytes) if bytes > NAME_BYTES_MAX => {
                    return Err(QuotaError::NameTooLong { entity_type, bytes });
                }
                _ => {}
            }
        }
        match &self.ip {
            Some(_) if self.user.is_some() || self.client_id.is_some() => Err(QuotaError::AddressCombined),
            Some(EntityName::Named(text)) => parse_address(text).map(drop),
            _ => Ok(()),
        }
    }
}

impl QuotaKey {
    /// Returns the key with this name.
    ///
    /// # Errors
    /// There is none.
    pub fn parse(name: &str) -> Result<Self, QuotaError> {
        Self::from_name(name).ok_or_else(|| QuotaError::Key { key: shown(name) })
    }

    /// Checks whether an entity may have this limit.
    ///
    /// # Errors
    /// The first fault that was found.
    pub fn check(self, entity: &QuotaEntity, limit: f64) -> Result<(), QuotaError> {
        let key = self.name();
        if entity.ip.is_some() != (self == Self::ConnectionCreationRate) {
            return Err(QuotaError::Key { key: key.to_owned() });
        }
        if limit.is_nan() || limit <= 0.0 {
            return Err(QuotaError::NotPositive { key });
        }
        let (max, bound, is_whole) = match self {
            Self::ProducerByteRate | Self::ConsumerByteRate => (i64::MAX as f64, "a LONG", true),
            Self::ConnectionCreationRate => (f64::from(i32::MAX), "an INT", true),
            Self::RequestPercentage | Self::ControllerMutationRate => (f64::MAX, "a DOUBLE", false),
        };
        if limit > max {
            return Err(QuotaError::TooLarge { key, bound });
        }
        if is_whole && limit.fract() > FRACTION_MAX { Err(QuotaError::Fraction { key }) } else { Ok(()) }
    }
}

/// Reads an address, as it is compared with those of clients.
pub(super) fn parse_address(text: &str) -> Result<IpAddr, QuotaError> {
    let address: Result<IpAddr, _> = text.parse();
    address.map(|address| address.to_canonical()).map_err(|_| QuotaError::Address { address: shown(text) })
}

/// Returns a name as the table has it: addresses have one form.
pub(super) fn canonical_name(entity_type: &str, name: &str) -> String {
    match parse_address(name) {
        Ok(address) if entity_type == IP => address.to_string(),
        _ => name.to_owned(),
    }
}

/// The start of a text that a client sent, for an error.
pub(super) fn shown(text: &str) -> String {
    text.chars().take(64).collect()
}
