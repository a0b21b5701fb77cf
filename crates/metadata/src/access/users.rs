//! Users with their credentials, as the metadata store them.

use tailrace_identity::scram::{ScramMechanism, ScramVerifier};
use tailrace_types::TimestampMs;

/// When something was changed, and by whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The time, by the clock of the node that received the request.
    pub at: TimestampMs,
    /// The principal, `User:NAME`.
    pub by: String,
}

/// A credential that was replaced and stays valid for a while, so that clients can change one by one.
///
/// The challenge of SCRAM has the salt and the iterations of one credential only. A SCRAM client with the
/// older password therefore gets in only if both credentials have the same salt and iterations, and the
/// controller keeps no other. PLAIN and NATS send the password, which can be compared with both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreviousCredential {
    /// What the server keeps of the older password.
    pub verifier: ScramVerifier,
    /// The time from which it is no longer valid.
    pub valid_until: TimestampMs,
}

/// A user's credential for one mechanism of SCRAM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredCredential {
    /// What the server keeps of the password.
    pub verifier: ScramVerifier,
    /// When it was set, and by whom.
    pub set: Stamp,
    /// The credential before this one, if it is still valid.
    pub previous: Option<PreviousCredential>,
}

impl StoredCredential {
    /// Returns the verifiers that are valid at `now`, the newest first.
    pub fn verifiers(&self, now: TimestampMs) -> impl Iterator<Item = &ScramVerifier> {
        let previous = self.previous.iter().filter(move |previous| now < previous.valid_until);
        std::iter::once(&self.verifier).chain(previous.map(|previous| &previous.verifier))
    }
}

/// A user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredUser {
    /// The name, at most 255 bytes.
    pub name: String,
    /// When the user was disabled, and by whom. A disabled user cannot log in. `None` if it is not disabled.
    pub disabled: Option<Stamp>,
    /// At most one credential for each mechanism, ordered by mechanism. Empty only in a disabled user.
    pub credentials: Vec<StoredCredential>,
}

impl StoredUser {
    /// Returns the credential for a mechanism. It does not matter here whether the user is disabled.
    pub fn credential(&self, mechanism: ScramMechanism) -> Option<&StoredCredential> {
        self.credentials.iter().find(|credential| credential.verifier.mechanism() == mechanism)
    }

    /// Reports whether nothing is stored about the user.
    pub(crate) fn is_empty(&self) -> bool {
        self.disabled.is_none() && self.credentials.is_empty()
    }

    /// Reports whether there is at most one credential for each mechanism, ordered by mechanism.
    pub(crate) fn is_ordered(&self) -> bool {
        let mechanisms = || self.credentials.iter().map(|credential| credential.verifier.mechanism());
        mechanisms().zip(mechanisms().skip(1)).all(|(first, second)| first < second)
            && self.credentials.iter().all(|credential| {
                let previous = credential.previous.as_ref();
                previous
                    .is_none_or(|previous| previous.verifier.mechanism() == credential.verifier.mechanism())
            })
    }
}
