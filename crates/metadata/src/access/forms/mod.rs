//! How users, rules and quotas are written in records and commands: names as Kafka's tools spell them, and
//! bytes as base64 (RFC 4648, section 4, with padding).
//!
//! Every form is read strictly: unknown fields are errors. Records also bound every length. Commands do not:
//! the controller refuses texts that are too long, so that the client gets an answer. No error shows a key.

mod acls;
mod quotas;
mod texts;
mod tokens;
mod users;

pub(crate) use acls::{AclForm, acl};
pub(crate) use quotas::{EntityForm, LimitsForm, entity, limits, limits_form};
pub(crate) use texts::FormError;
pub(crate) use tokens::{TokenForm, token_id};
pub(crate) use users::{UserForm, user_name};
