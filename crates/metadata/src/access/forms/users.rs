//! The forms of users and their credentials.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use tailrace_identity::scram::{ScramMechanism, ScramVerifier};
use tailrace_types::TimestampMs;

use super::texts::{FormError, KeyText, bytes_of, check_length, known};
use crate::access::bounds::{NAME_BYTES_MAX, PRINCIPAL_BYTES_MAX};
use crate::access::{PreviousCredential, Stamp, StoredCredential, StoredUser};
use crate::serial::Plain;

/// A [`ScramVerifier`].
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VerifierForm {
    mechanism: String,
    salt: String,
    iterations: u32,
    stored_key: KeyText,
    server_key: KeyText,
}

impl From<&ScramVerifier> for VerifierForm {
    fn from(verifier: &ScramVerifier) -> Self {
        Self {
            mechanism: verifier.mechanism().name().to_owned(),
            salt: STANDARD.encode(verifier.salt()),
            iterations: verifier.iterations(),
            stored_key: KeyText::of(verifier.stored_key()),
            server_key: KeyText::of(verifier.server_key()),
        }
    }
}

impl TryFrom<VerifierForm> for ScramVerifier {
    type Error = FormError;

    fn try_from(form: VerifierForm) -> Result<Self, FormError> {
        let mechanism = known(ScramMechanism::from_name(&form.mechanism), "mechanism")?;
        let salt = bytes_of(&form.salt, "salt")?;
        let stored_key = form.stored_key.bytes("stored key")?;
        let server_key = form.server_key.bytes("server key")?;
        Ok(Self::from_parts(mechanism, &salt, form.iterations, &stored_key, &server_key)?)
    }
}

/// A [`Stamp`].
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StampForm {
    at: i64,
    by: String,
}

impl From<&Stamp> for StampForm {
    fn from(stamp: &Stamp) -> Self {
        Self { at: stamp.at.0, by: stamp.by.clone() }
    }
}

impl TryFrom<StampForm> for Stamp {
    type Error = FormError;

    fn try_from(form: StampForm) -> Result<Self, FormError> {
        check_length(&form.by, "principal", PRINCIPAL_BYTES_MAX)?;
        Ok(Self { at: TimestampMs(form.at), by: form.by })
    }
}

/// A [`PreviousCredential`].
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PreviousForm {
    verifier: VerifierForm,
    valid_until: i64,
}

/// A [`StoredCredential`].
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CredentialForm {
    verifier: VerifierForm,
    set: StampForm,
    previous: Option<PreviousForm>,
}

impl From<&StoredCredential> for CredentialForm {
    fn from(credential: &StoredCredential) -> Self {
        let previous = |previous: &PreviousCredential| PreviousForm {
            verifier: VerifierForm::from(&previous.verifier),
            valid_until: previous.valid_until.0,
        };
        Self {
            verifier: VerifierForm::from(&credential.verifier),
            set: StampForm::from(&credential.set),
            previous: credential.previous.as_ref().map(previous),
        }
    }
}

impl TryFrom<CredentialForm> for StoredCredential {
    type Error = FormError;

    fn try_from(form: CredentialForm) -> Result<Self, FormError> {
        let previous = |form: PreviousForm| -> Result<PreviousCredential, FormError> {
            let valid_until = TimestampMs(form.valid_until);
            Ok(PreviousCredential { verifier: form.verifier.try_into()?, valid_until })
        };
        Ok(Self {
            verifier: form.verifier.try_into()?,
            set: form.set.try_into()?,
            previous: form.previous.map(previous).transpose()?,
        })
    }
}

/// A [`StoredUser`].
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct UserForm {
    name: String,
    disabled: Option<StampForm>,
    credentials: Vec<CredentialForm>,
}

impl From<&StoredUser> for UserForm {
    fn from(user: &StoredUser) -> Self {
        Self {
            name: user.name.clone(),
            disabled: user.disabled.as_ref().map(StampForm::from),
            credentials: user.credentials.iter().map(CredentialForm::from).collect(),
        }
    }
}

impl TryFrom<UserForm> for StoredUser {
    type Error = FormError;

    fn try_from(form: UserForm) -> Result<Self, FormError> {
        let credentials = form.credentials.into_iter().map(StoredCredential::try_from);
        let user = Self {
            name: user_name(form.name)?,
            disabled: form.disabled.map(Stamp::try_from).transpose()?,
            credentials: credentials.collect::<Result<_, _>>()?,
        };
        if user.is_ordered() { Ok(user) } else { Err(FormError::Order) }
    }
}

/// Checks the name of a user in a record: only its length, so that a log that was once written stays legible.
/// The controller refuses more names.
pub(crate) fn user_name(name: String) -> Result<String, FormError> {
    check_length(&name, "name", NAME_BYTES_MAX)?;
    Ok(name)
}

impl Plain for ScramMechanism {
    type Form = String;

    fn form(&self) -> String {
        self.name().to_owned()
    }

    fn of(name: String) -> Option<Self> {
        Self::from_name(&name)
    }
}

impl Plain for ScramVerifier {
    type Form = VerifierForm;

    fn form(&self) -> VerifierForm {
        self.into()
    }

    fn of(form: VerifierForm) -> Option<Self> {
        form.try_into().ok()
    }
}
