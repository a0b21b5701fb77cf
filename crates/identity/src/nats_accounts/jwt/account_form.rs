//! The body of an account's claim as it is written.

use std::collections::BTreeMap;

use serde::de::{Error, IgnoredAny};
use serde::{Deserialize, Deserializer};

use super::forms::{KindForm, PermissionsForm, UserBody, object, or_default};

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ImportForm {
    /// In the account where the message or the request is published first: of a stream the exporter, of a
    /// service the importer, unless there is a `local_subject`.
    pub(super) subject: String,
    pub(super) account: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) token: String,
    /// Of a stream a prefix of local subjects, of a service the exporter's subject. Replaced by
    /// `local_subject`.
    #[serde(deserialize_with = "or_default")]
    pub(super) to: String,
    /// With it, `subject` is the exporter's.
    #[serde(deserialize_with = "or_default")]
    pub(super) local_subject: String,
    #[serde(rename = "type")]
    pub(super) kind: KindForm,
    pub(super) share: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ExportForm {
    pub(super) subject: String,
    #[serde(rename = "type")]
    pub(super) kind: KindForm,
    pub(super) token_req: bool,
    #[serde(deserialize_with = "or_default")]
    pub(super) revocations: BTreeMap<String, i64>,
    #[serde(deserialize_with = "or_default")]
    pub(super) response_type: String,
    /// Nanoseconds.
    pub(super) response_threshold: i64,
    pub(super) account_token_position: u64,
}

/// What is absent is 0: nothing is allowed.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct LimitsForm {
    pub(super) subs: i64,
    pub(super) payload: i64,
    pub(super) imports: i64,
    pub(super) exports: i64,
    pub(super) wildcards: bool,
    pub(super) disallow_bearer: bool,
    pub(super) conn: i64,
}

#[derive(Clone, Debug)]
pub(super) enum SigningKeyForm {
    Key(String),
    Scope(Box<ScopeForm>),
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct ScopeForm {
    pub(super) kind: String,
    pub(super) key: String,
    #[serde(default)]
    pub(super) template: UserBody,
}

impl<'de> Deserialize<'de> for SigningKeyForm {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match serde_json::Value::deserialize(deserializer)? {
            serde_json::Value::String(key) => Ok(Self::Key(key)),
            object @ serde_json::Value::Object(_) => Ok(Self::Scope(Box::new(self::object(object)?))),
            _ => Err(D::Error::custom("a signing key is a text or an object")),
        }
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct AuthorizationForm {
    #[serde(deserialize_with = "or_default")]
    pub(super) auth_users: Vec<String>,
    #[serde(deserialize_with = "or_default")]
    pub(super) allowed_accounts: Vec<String>,
    #[serde(deserialize_with = "or_default")]
    pub(super) xkey: String,
}

/// The body.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct AccountBody {
    #[serde(deserialize_with = "or_default")]
    pub(super) imports: Vec<ImportForm>,
    #[serde(deserialize_with = "or_default")]
    pub(super) exports: Vec<ExportForm>,
    #[serde(deserialize_with = "or_default")]
    pub(super) limits: LimitsForm,
    #[serde(deserialize_with = "or_default")]
    pub(super) signing_keys: Vec<SigningKeyForm>,
    #[serde(deserialize_with = "or_default")]
    pub(super) revocations: BTreeMap<String, i64>,
    #[serde(deserialize_with = "or_default")]
    pub(super) default_permissions: PermissionsForm,
    #[serde(deserialize_with = "or_default")]
    pub(super) mappings: BTreeMap<String, IgnoredAny>,
    #[serde(deserialize_with = "or_default")]
    pub(super) authorization: AuthorizationForm,
    #[serde(deserialize_with = "or_default")]
    pub(super) tags: Vec<String>,
}
