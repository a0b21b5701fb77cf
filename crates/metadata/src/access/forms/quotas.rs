//! The forms of client quotas.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tailrace_identity::quota::{EntityName, QuotaEntity, QuotaKey};

use super::texts::{FormError, check_length, known};
use crate::access::QuotaLimit;
use crate::access::bounds::NAME_BYTES_MAX;
use crate::serial::Plain;

/// An [`EntityName`]: `"default"` or `{"named":NAME}`.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum NameForm {
    Default,
    Named(String),
}

/// A [`QuotaEntity`].
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EntityForm {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    user: Option<NameForm>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    client_id: Option<NameForm>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ip: Option<NameForm>,
}

impl From<&QuotaEntity> for EntityForm {
    fn from(entity: &QuotaEntity) -> Self {
        let form = |name: &EntityName| match name {
            EntityName::Default => NameForm::Default,
            EntityName::Named(name) => NameForm::Named(name.clone()),
        };
        Self {
            user: entity.user.as_ref().map(form),
            client_id: entity.client_id.as_ref().map(form),
            ip: entity.ip.as_ref().map(form),
        }
    }
}

impl From<EntityForm> for QuotaEntity {
    fn from(form: EntityForm) -> Self {
        let name = |form| match form {
            NameForm::Default => EntityName::Default,
            NameForm::Named(name) => EntityName::Named(name),
        };
        Self { user: form.user.map(name), client_id: form.client_id.map(name), ip: form.ip.map(name) }
    }
}

/// Decodes the entity of a record.
pub(crate) fn entity(form: EntityForm) -> Result<QuotaEntity, FormError> {
    let entity = QuotaEntity::from(form);
    let is_client = entity.user.is_some() || entity.client_id.is_some();
    if is_client == entity.ip.is_some() {
        return Err(FormError::Entity);
    }
    for name in [&entity.user, &entity.client_id, &entity.ip].into_iter().flatten() {
        if let EntityName::Named(name) = name {
            check_length(name, "entity", NAME_BYTES_MAX)?;
        }
    }
    Ok(entity)
}

/// Limits by the names of their keys.
pub(crate) type LimitsForm = BTreeMap<String, String>;

/// Returns the form of an entity's limits.
pub(crate) fn limits_form(limits: &BTreeMap<QuotaKey, QuotaLimit>) -> LimitsForm {
    limits.iter().map(|(key, limit)| (key.name().to_owned(), limit.to_string())).collect()
}

/// Decodes an entity's limits.
pub(crate) fn limits(form: LimitsForm) -> Result<BTreeMap<QuotaKey, QuotaLimit>, FormError> {
    let limit = |(name, text): (String, String)| {
        let key = known(QuotaKey::from_name(&name), "key of a limit")?;
        Ok((key, QuotaLimit::parse(key, &text).ok_or(FormError::Limit { key })?))
    };
    form.into_iter().map(limit).collect()
}

impl Plain for QuotaEntity {
    type Form = EntityForm;

    fn form(&self) -> EntityForm {
        self.into()
    }

    fn of(form: EntityForm) -> Option<Self> {
        Some(form.into())
    }
}

impl Plain for QuotaKey {
    type Form = String;

    fn form(&self) -> String {
        self.name().to_owned()
    }

    fn of(name: String) -> Option<Self> {
        Self::from_name(&name)
    }
}

impl Plain for BTreeMap<QuotaKey, QuotaLimit> {
    type Form = LimitsForm;

    fn form(&self) -> LimitsForm {
        limits_form(self)
    }

    fn of(form: LimitsForm) -> Option<Self> {
        limits(form).ok()
    }
}
