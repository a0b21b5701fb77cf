//! The bodies of claims as they are written, but for accounts (`account_form`). What is absent has Go's
//! default. Unknown fields are ignored, fields that stand twice are refused.

use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};

/// Reads `null` as if it were absent, as Go does.
pub(super) fn or_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}

/// Patterns that are allowed and denied.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub(super) struct Lists {
    #[serde(deserialize_with = "or_default")]
    pub(super) allow: Vec<String>,
    #[serde(deserialize_with = "or_default")]
    pub(super) deny: Vec<String>,
}

impl Lists {
    pub(super) fn is_empty(&self) -> bool {
        self.allow.is_empty() && self.deny.is_empty()
    }
}

/// Replies to delivered messages.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub(super) struct ResponseForm {
    /// 0 is the default, 1. Negative: no limit.
    pub(super) max: i64,
    /// Nanoseconds. 0 is the default, two minutes. Negative: no limit.
    pub(super) ttl: i64,
}

/// What a user may do with subjects.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub(super) struct PermissionsForm {
    #[serde(rename = "pub", deserialize_with = "or_default")]
    pub(super) publish: Lists,
    #[serde(rename = "sub", deserialize_with = "or_default")]
    pub(super) subscribe: Lists,
    #[serde(rename = "resp")]
    pub(super) responses: Option<ResponseForm>,
}

/// A part of the day.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub(super) struct TimeRange {
    pub(super) start: String,
    pub(super) end: String,
}

/// The body of a user's claim, and the template of a scope.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub(in crate::nats_accounts) struct UserBody {
    #[serde(rename = "pub", deserialize_with = "or_default")]
    pub(super) publish: Lists,
    #[serde(rename = "sub", deserialize_with = "or_default")]
    pub(super) subscribe: Lists,
    #[serde(rename = "resp")]
    pub(super) responses: Option<ResponseForm>,
    #[serde(deserialize_with = "networks")]
    pub(super) src: Vec<String>,
    #[serde(deserialize_with = "or_default")]
    pub(super) times: Vec<TimeRange>,
    #[serde(deserialize_with = "or_default")]
    pub(super) times_location: String,
    /// Absent from a user's claim it is 0, from a template -1, no limit.
    pub(super) subs: Option<i64>,
    pub(super) data: Option<i64>,
    pub(super) payload: Option<i64>,
    pub(super) bearer_token: bool,
    pub(super) proxy_required: bool,
    #[serde(deserialize_with = "or_default")]
    pub(super) allowed_connection_types: Vec<String>,
    /// The account, if the issuer is a signing key. Not in a template.
    #[serde(deserialize_with = "or_default")]
    pub(super) issuer_account: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) tags: Vec<String>,
}

impl UserBody {
    /// Reports whether it has no permissions and no limits at all: what a user must have who is signed by
    /// a key with a scope.
    pub(super) fn has_no_permissions(&self) -> bool {
        let is_zero = |number: Option<i64>| number.unwrap_or(0) == 0;
        self.publish.is_empty()
            && self.subscribe.is_empty()
            && self.responses.is_none()
            && self.src.is_empty()
            && self.times.is_empty()
            && self.times_location.is_empty()
            && is_zero(self.subs)
            && is_zero(self.data)
            && is_zero(self.payload)
            && !self.bearer_token
            && !self.proxy_required
            && self.allowed_connection_types.is_empty()
    }
}

/// Networks are a list, or in old claims one text with commas.
fn networks<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Networks {
        List(Vec<String>),
        Text(String),
    }
    Ok(match Option::<Networks>::deserialize(deserializer)? {
        None => Vec::new(),
        Some(Networks::List(list)) => list,
        Some(Networks::Text(text)) => {
            text.split(',').map(str::trim).filter(|one| !one.is_empty()).map(str::to_owned).collect()
        }
    })
}

/// Whether a share is a stream or a service.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(super) enum KindForm {
    /// Absent, which is refused.
    #[default]
    #[serde(skip)]
    Unknown,
    Stream,
    Service,
}

/// The body of an activation token.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub(super) struct ActivationBody {
    pub(super) subject: String,
    pub(super) kind: KindForm,
    #[serde(deserialize_with = "or_default")]
    pub(super) issuer_account: String,
}

/// The body of an operator's claim.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub(super) struct OperatorBody {
    #[serde(deserialize_with = "or_default")]
    pub(super) signing_keys: Vec<String>,
    #[serde(deserialize_with = "or_default")]
    pub(super) system_account: String,
    pub(super) strict_signing_key_usage: bool,
}

/// The body of a request to delete accounts.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub(super) struct DeletionBody {
    pub(super) accounts: Vec<String>,
}

/// The body of an answer of an external service. It has no `Debug`: the token of a user may be a secret.
#[derive(Clone, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub(in crate::nats_accounts) struct CalloutResponseBody {
    #[serde(deserialize_with = "or_default")]
    pub(in crate::nats_accounts) jwt: String,
    #[serde(deserialize_with = "or_default")]
    pub(in crate::nats_accounts) error: String,
    #[serde(deserialize_with = "or_default")]
    pub(in crate::nats_accounts) issuer_account: String,
}

/// Reads an object as `T`, for lists whose entries are texts or objects.
pub(super) fn object<T: DeserializeOwned, E: Error>(value: serde_json::Value) -> Result<T, E> {
    serde_json::from_value(value).map_err(|_error| E::custom("an entry is not as expected"))
}
