//! Filters over quotas, as in Kafka's DescribeClientQuotas (KIP-546).

use super::check::{CLIENT_ID, IP, USER, canonical_name, shown};
use super::{EntityName, QuotaEntity, QuotaError};

/// How one part of an entity is compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameFilter {
    /// It has this name.
    Exact(String),
    /// It is the default.
    Default,
    /// It has any name, or is the default.
    Any,
}

impl NameFilter {
    /// Returns the filter with this match type of Kafka's protocol: 0 is exact, 1 the default, 2 any.
    ///
    /// # Errors
    /// The code is unknown, or there is a name where it needs none, or the reverse.
    pub fn from_code(code: i8, name: Option<&str>) -> Result<Self, QuotaError> {
        match (code, name) {
            (0, Some(name)) => Ok(Self::Exact(name.to_owned())),
            (1, None) => Ok(Self::Default),
            (2, None) => Ok(Self::Any),
            (0..=2, _) => Err(QuotaError::FilterName { code }),
            _ => Err(QuotaError::FilterMatch { code }),
        }
    }

    fn matches(&self, name: &EntityName) -> bool {
        match (self, name) {
            (Self::Exact(wanted), EntityName::Named(name)) => wanted == name,
            (Self::Default, EntityName::Default) | (Self::Any, _) => true,
            _ => false,
        }
    }
}

/// Selects entities. A part without a filter may be there or not, unless the filter is strict.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QuotaFilter {
    /// The user.
    pub user: Option<NameFilter>,
    /// The client id.
    pub client_id: Option<NameFilter>,
    /// The address. An exact one has the form that [`QuotaFilter::from_parts`] gives it.
    pub ip: Option<NameFilter>,
    /// Whether entities with other parts are left out. A strict filter without parts selects nothing.
    pub strict: bool,
}

impl QuotaFilter {
    /// Puts a filter together from types of Kafka's protocol.
    ///
    /// # Errors
    /// The first fault that was found.
    pub fn from_parts<'a>(
        parts: impl IntoIterator<Item = (&'a str, NameFilter)>,
        strict: bool,
    ) -> Result<Self, QuotaError> {
        let mut filter = Self { strict, ..Self::default() };
        for (entity_type, name) in parts {
            let place = match entity_type {
                USER => &mut filter.user,
                CLIENT_ID => &mut filter.client_id,
                IP => &mut filter.ip,
                "" => return Err(QuotaError::EmptyFilterType),
                _ => return Err(QuotaError::UnknownFilterType { entity_type: shown(entity_type) }),
            };
            if place.is_some() {
                return Err(QuotaError::FilterTypeTwice { entity_type: entity_type.to_owned() });
            }
            *place = Some(match name {
                NameFilter::Exact(name) => NameFilter::Exact(canonical_name(entity_type, &name)),
                other => other,
            });
        }
        if filter.ip.is_some() && (filter.user.is_some() || filter.client_id.is_some()) {
            return Err(QuotaError::FilterAddressCombined);
        }
        Ok(filter)
    }

    /// Reports whether the filter selects an entity.
    pub fn matches(&self, entity: &QuotaEntity) -> bool {
        let is_met = |wanted: &Option<NameFilter>, name: &Option<EntityName>| match (wanted, name) {
            (None, None) => true,
            (None, Some(_)) => !self.strict,
            (Some(_), None) => false,
            (Some(wanted), Some(name)) => wanted.matches(name),
        };
        is_met(&self.user, &entity.user)
            && is_met(&self.client_id, &entity.client_id)
            && is_met(&self.ip, &entity.ip)
    }
}
