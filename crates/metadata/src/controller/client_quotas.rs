//! Decisions about client quotas (KIP-546).

use std::collections::BTreeMap;
use std::net::IpAddr;

use tailrace_identity::quota::{EntityName, QuotaEntity, QuotaKey};

use super::access_error::AccessError;
use super::decision::Records;
use crate::access::QuotaLimit;
use crate::access::bounds::{NAME_BYTES_MAX, QUOTA_ENTITIES_MAX};
use crate::image::MetadataImage;
use crate::record::MetadataRecord;

pub(super) fn alter(
    image: &MetadataImage,
    entity: &QuotaEntity,
    set: &BTreeMap<QuotaKey, QuotaLimit>,
    remove: &[QuotaKey],
) -> Records {
    let entity = checked(entity)?;
    for key in set.keys().copied() {
        if (key == QuotaKey::ConnectionCreationRate) != entity.ip.is_some() {
            return Err(AccessError::InvalidQuotaKey { key }.into());
        }
        if remove.contains(&key) {
            return Err(AccessError::QuotaKeyTwice { key }.into());
        }
    }
    let none = BTreeMap::new();
    let known = image.access.quotas().get(&entity);
    let current = known.unwrap_or(&none);
    let mut limits = current.clone();
    limits.extend(set);
    limits.retain(|key, _| !remove.contains(key));
    if limits == *current {
        return Ok(Vec::new());
    }
    if known.is_none() && image.access.quotas().len() >= QUOTA_ENTITIES_MAX {
        return Err(AccessError::TooManyEntities { max: QUOTA_ENTITIES_MAX }.into());
    }
    Ok(vec![MetadataRecord::ClientQuota { entity, limits }])
}

/// Checks an entity. An address is returned in its shortest form, so that it has one quota only: an IPv4
/// address that is written as IPv6 is IPv4.
fn checked(entity: &QuotaEntity) -> Result<QuotaEntity, AccessError> {
    let is_client = entity.user.is_some() || entity.client_id.is_some();
    // Kafka has the same error for both.
    if is_client == entity.ip.is_some() {
        return Err(AccessError::NoEntity);
    }
    for (kind, name) in [("user", &entity.user), ("client-id", &entity.client_id), ("ip", &entity.ip)] {
        let Some(EntityName::Named(name)) = name else { continue };
        if name.is_empty() {
            return Err(AccessError::InvalidEntity { reason: format!("Empty {kind} not supported") });
        }
        if name.len() > NAME_BYTES_MAX {
            let reason = format!("The {kind} of a quota has at most {NAME_BYTES_MAX} bytes");
            return Err(AccessError::InvalidEntity { reason });
        }
    }
    let mut entity = entity.clone();
    if let Some(EntityName::Named(ip)) = &mut entity.ip {
        let Ok(address) = ip.parse::<IpAddr>() else {
            return Err(AccessError::InvalidEntity { reason: format!("{ip} is not a valid IP") });
        };
        *ip = address.to_canonical().to_string();
    }
    Ok(entity)
}
