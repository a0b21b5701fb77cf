//! Decisions about users (KIP-554) and rules (KIP-11).

use std::collections::BTreeSet;

use tailrace_identity::acl::{AUDIT_TOPIC, Acl};
use tailrace_identity::scram::{ScramMechanism, ScramVerifier};
use tailrace_types::TimestampMs;

use super::access_error::AccessError;
use super::command::{Command, ConfigChange, Requester, ScramChange};
use super::decision::Records;
use super::error::ControlError;
use super::tokens;
use crate::access::bounds::{
    ACCESS_LEVEL, ACL_BYTES_PER_COMMAND_MAX, ACLS_MAX, ACLS_PER_COMMAND_MAX, NAME_BYTES_MAX,
    PRINCIPAL_BYTES_MAX, USERS_MAX,
};
use crate::access::{PreviousCredential, Stamp, StoredCredential, StoredUser};
use crate::image::MetadataImage;
use crate::record::MetadataRecord;

impl Command {
    /// Checks that the level of the protocol between nodes that is in force allows this command. The
    /// controller checks this as well. A node should check it before it passes a command on: the controller
    /// may be an older tailrace that does not know the command.
    ///
    /// # Errors
    /// The level is too low. A standalone server has no level, and allows every command.
    pub fn check_level(&self, image: &MetadataImage) -> Result<(), ControlError> {
        let level = image.features.cluster_level();
        if image.cluster.is_none() || level >= ACCESS_LEVEL || !self.is_about_access() {
            return Ok(());
        }
        Err(AccessError::LevelTooLow { level, needed: ACCESS_LEVEL }.into())
    }

    fn is_about_access(&self) -> bool {
        match self {
            Self::AlterScramCredential { .. }
            | Self::CreateFirstUser { .. }
            | Self::DisableUser { .. }
            | Self::RemoveUser { .. }
            | Self::CreateAcls(_)
            | Self::DeleteAcls(_)
            | Self::AlterClientQuota { .. }
            | Self::CreateToken { .. }
            | Self::ExtendToken { .. }
            | Self::RemoveExpired { .. }
            | Self::StoreAccountClaims { .. }
            | Self::DeleteAccountClaims { .. } => true,
            // A node of an older build would let everybody read it.
            Self::CreateTopic(create) => create.name == AUDIT_TOPIC || create.by == Requester::Stream,
            Self::DeleteTopic { by, .. } => *by == Requester::Stream,
            // Older builds do not know the setting of streams.
            Self::AlterTopicConfigs { change, .. } => matches!(change, ConfigChange::Stream(_)),
            Self::CreatePartitions { .. }
            | Self::AlterBrokerConfigs { .. }
            | Self::AlterGroupConfigs { .. }
            | Self::FinalizeFeatures
            | Self::UpdateFeatures(_)
            | Self::AllocateProducerIds
            | Self::Barrier
            | Self::FoundCluster { .. }
            | Self::RegisterNode(_)
            | Self::FenceNode { .. }
            | Self::RemoveNode { .. }
            | Self::ReassignPartition { .. }
            | Self::RenewReplica { .. }
            | Self::FinishReassignment { .. } => false,
        }
    }
}

pub(super) fn alter_credential(
    image: &MetadataImage,
    name: &str,
    change: &ScramChange,
    stamp: &Stamp,
) -> Records {
    check_user_name(name)?;
    check_principal(&stamp.by)?;
    let known = image.access.user(name).map(AsRef::as_ref);
    let mut changed = known.cloned().unwrap_or_else(|| StoredUser {
        name: name.to_owned(),
        disabled: None,
        credentials: Vec::new(),
    });
    // First of all: what has ended must not become valid again.
    for credential in &mut changed.credentials {
        credential.previous.take_if(|previous| previous.valid_until <= stamp.at);
    }
    match change {
        ScramChange::Set { keep_previous_until: Some(until), .. } if *until <= stamp.at => {
            return Err(AccessError::EndsBeforeNow.into());
        }
        ScramChange::Set { verifier, keep_previous_until } => {
            if keep_previous_until.is_some() {
                check_salt(known, verifier)?;
            }
            set(&mut changed.credentials, verifier, *keep_previous_until, stamp);
        }
        ScramChange::Delete { mechanism } => delete(&mut changed.credentials, *mechanism)?,
    }
    if known.is_none() && image.access.users().len() >= USERS_MAX {
        return Err(AccessError::TooManyUsers { max: USERS_MAX }.into());
    }
    Ok(replaced(image, known, changed))
}

pub(super) fn create_first_user(
    image: &MetadataImage,
    name: &str,
    verifiers: &[ScramVerifier],
    stamp: &Stamp,
) -> Records {
    check_user_name(name)?;
    check_principal(&stamp.by)?;
    if image.access.users().len() > 0 {
        return Ok(Vec::new());
    }
    if verifiers.is_empty() {
        return Err(AccessError::UnknownCredential.into());
    }
    let mut credentials = Vec::new();
    verifiers.iter().for_each(|verifier| set(&mut credentials, verifier, None, stamp));
    Ok(replaced(image, None, StoredUser { name: name.to_owned(), disabled: None, credentials }))
}

pub(super) fn disable(image: &MetadataImage, name: &str, disabled: bool, stamp: &Stamp) -> Records {
    check_principal(&stamp.by)?;
    let known = existing_user(image, name)?;
    if known.disabled.is_some() == disabled {
        return Ok(Vec::new());
    }
    let changed = StoredUser { disabled: disabled.then(|| stamp.clone()), ..known.clone() };
    Ok(replaced(image, Some(known), changed))
}

/// Removes the older passwords that are no longer valid. They would be refused anyhow. But their removal is
/// a change of the user, at which the sessions end that still use them.
pub(super) fn expired_passwords(image: &MetadataImage, now: TimestampMs) -> Vec<MetadataRecord> {
    let has_ended = |credential: &StoredCredential| {
        credential.previous.as_ref().is_some_and(|previous| previous.valid_until <= now)
    };
    let users = image.access.users().filter(|user| user.credentials.iter().any(has_ended));
    let changed = users.map(|user| {
        let mut changed = StoredUser::clone(user);
        for credential in &mut changed.credentials {
            credential.previous.take_if(|previous| previous.valid_until <= now);
        }
        MetadataRecord::User(changed)
    });
    changed.collect()
}

pub(super) fn remove_user(image: &MetadataImage, name: &str) -> Records {
    let name = existing_user(image, name)?.name.clone();
    Ok(removal(image, name))
}

fn existing_user<'a>(image: &'a MetadataImage, name: &str) -> Result<&'a StoredUser, AccessError> {
    image.access.user(name).map(AsRef::as_ref).ok_or(AccessError::UnknownUser)
}

/// Returns the record that turns `known` into `changed`, if they differ. A user about whom nothing is left is
/// removed.
fn replaced(image: &MetadataImage, known: Option<&StoredUser>, changed: StoredUser) -> Vec<MetadataRecord> {
    match known {
        Some(known) if *known == changed => Vec::new(),
        _ if changed.is_empty() => removal(image, changed.name),
        _ => vec![MetadataRecord::User(changed)],
    }
}

/// Removes a user, and the delegation tokens that would let it in.
fn removal(image: &MetadataImage, name: String) -> Vec<MetadataRecord> {
    let tokens = tokens::of_removed_user(image, &name);
    std::iter::once(MetadataRecord::UserRemoved { name }).chain(tokens).collect()
}

/// Refuses a password beside which the one before it could not be proven.
fn check_salt(known: Option<&StoredUser>, verifier: &ScramVerifier) -> Result<(), AccessError> {
    let current = known.and_then(|known| known.credential(verifier.mechanism()));
    match current {
        Some(current) if !current.verifier.accepts_challenge_of(verifier) => Err(AccessError::OtherSalt),
        _ => Ok(()),
    }
}

/// Sets a user's credential for the verifier's mechanism.
fn set(
    credentials: &mut Vec<StoredCredential>,
    verifier: &ScramVerifier,
    keep_previous_until: Option<TimestampMs>,
    stamp: &Stamp,
) {
    let mechanism = verifier.mechanism();
    let of = |credential: &StoredCredential| credential.verifier.mechanism();
    let new = StoredCredential { verifier: verifier.clone(), set: stamp.clone(), previous: None };
    match credentials.binary_search_by_key(&mechanism, of) {
        Err(at) => credentials.insert(at, new),
        Ok(at) => {
            let current = &mut credentials[at];
            let older = if current.verifier == *verifier {
                current.previous.take().map(|previous| previous.verifier)
            } else {
                Some(std::mem::replace(current, new).verifier)
            };
            let kept = older.zip(keep_previous_until);
            current.previous =
                kept.map(|(verifier, valid_until)| PreviousCredential { verifier, valid_until });
        }
    }
}

fn delete(credentials: &mut Vec<StoredCredential>, mechanism: ScramMechanism) -> Result<(), AccessError> {
    let is_kept = |credential: &StoredCredential| credential.verifier.mechanism() != mechanism;
    if credentials.iter().all(is_kept) {
        return Err(AccessError::UnknownCredential);
    }
    credentials.retain(is_kept);
    Ok(())
}

/// Refuses names that mean something else in rules and settings, and those that could forge lines of the log.
fn check_user_name(name: &str) -> Result<(), AccessError> {
    let refused = |reason| Err(AccessError::InvalidUserName { reason });
    match name {
        "" => Err(AccessError::NoUserName),
        "*" => refused("be *, which stands for all users in rules"),
        "ANONYMOUS" => refused("be ANONYMOUS, which stands for clients without a login"),
        _ if name.len() > NAME_BYTES_MAX => refused("have more than 255 bytes"),
        _ if name.contains(char::is_control) => refused("contain control characters"),
        _ if name.contains(';') => refused("contain ;, which separates names in super.users"),
        _ => Ok(()),
    }
}

fn check_principal(by: &str) -> Result<(), AccessError> {
    let max = PRINCIPAL_BYTES_MAX;
    if !(1..=max).contains(&by.len()) || by.contains(char::is_control) {
        return Err(AccessError::InvalidPrincipal { max });
    }
    Ok(())
}

pub(super) fn create_acls(image: &MetadataImage, acls: &[Acl]) -> Records {
    check_size(acls)?;
    acls.iter().try_for_each(check_acl)?;
    let known = image.access.acls();
    let added: BTreeSet<Acl> = acls.iter().filter(|acl| !known.contains(acl)).cloned().collect();
    if known.len() + added.len() > ACLS_MAX {
        let (current, added) = (known.len(), added.len());
        return Err(AccessError::TooManyAcls { current, added, max: ACLS_MAX }.into());
    }
    Ok(changed(added, BTreeSet::new()))
}

pub(super) fn delete_acls(image: &MetadataImage, acls: &[Acl]) -> Records {
    check_size(acls)?;
    let known = image.access.acls();
    let removed = acls.iter().filter(|acl| known.contains(acl)).cloned().collect();
    Ok(changed(BTreeSet::new(), removed))
}

fn changed(added: BTreeSet<Acl>, removed: BTreeSet<Acl>) -> Vec<MetadataRecord> {
    if added.is_empty() && removed.is_empty() {
        return Vec::new();
    }
    vec![MetadataRecord::AclsChanged { added, removed }]
}

fn check_size(acls: &[Acl]) -> Result<(), AccessError> {
    let (max, bytes_max) = (ACLS_PER_COMMAND_MAX, ACL_BYTES_PER_COMMAND_MAX);
    let bytes: usize = acls.iter().flat_map(texts).map(|(_, text)| text.len()).sum();
    if acls.len() > max || bytes > bytes_max {
        return Err(AccessError::TooManyAclsAtOnce { max, bytes_max });
    }
    Ok(())
}

fn texts(acl: &Acl) -> [(&'static str, &str); 3] {
    [("resource name", &acl.name), ("principal", &acl.principal), ("host", &acl.host)]
}

/// Refuses what may not be stored, and texts that would break a line of a log.
fn check_acl(acl: &Acl) -> Result<(), AccessError> {
    acl.check().map_err(|error| AccessError::InvalidAcl { reason: error.to_string() })?;
    match texts(acl).iter().find(|(_, text)| text.contains(char::is_control)) {
        Some((what, _)) => {
            Err(AccessError::InvalidAcl { reason: format!("A {what} has no control characters") })
        }
        None => Ok(()),
    }
}
