//! The first user, from the settings: without one, nobody could log in to add users.

use std::sync::Arc;
use tailrace_env::task;
use tailrace_env::time::{Duration, sleep};

use tailrace_env::random;
use tailrace_identity::UserName;
use tailrace_identity::scram::{ITERATIONS_DEFAULT, ScramMechanism, ScramVerifier};
use tailrace_metadata::Command;

use super::AccessError;
use crate::caller::Caller;
use crate::node::Node;

/// Pause between two attempts: the cluster may have no controller yet, or be at a level without users.
const PAUSE: Duration = Duration::from_secs(1);

/// Who set the credential, for the records.
const BY: &str = "Node:first-user";

/// Refuses to start a standalone server that would have no user, because the password of the first one is not
/// set. In a cluster, another node may have it.
///
/// # Errors
/// [`AccessError::NoFirstPassword`].
pub(crate) fn check_first_user(node: &Node) -> Result<(), AccessError> {
    match node.is_alone() && lacks_password(node) {
        true => Err(AccessError::NoFirstPassword),
        false => Ok(()),
    }
}

/// The first user is to be created, and has no password.
fn lacks_password(node: &Node) -> bool {
    let config = node.config();
    !config.tailrace_first_user.is_empty()
        && config.tailrace_first_password.is_empty()
        && node.image().access().users().len() == 0
}

/// Creates the user of `tailrace.first.user` if the metadata have no user yet. Tries until it succeeds or
/// somebody else has created one. A standalone server needs a single attempt.
pub(crate) async fn create_first_user(node: Arc<Node>) {
    let config = node.config();
    if config.tailrace_first_user.is_empty() {
        return;
    }
    if lacks_password(&node) {
        tracing::error!("{}", AccessError::NoFirstPassword);
        return;
    }
    loop {
        if node.image().access().users().len() > 0 {
            tracing::debug!("there are users: tailrace.first.user is not used");
            return;
        }
        match create(&node, &config.tailrace_first_user, config.tailrace_first_password.expose()).await {
            Ok(true) => {
                tracing::info!(user = %config.tailrace_first_user.escape_debug(), "created the first user");
                return;
            }
            Ok(false) => {
                tracing::debug!("there are users meanwhile: tailrace.first.user is not used");
                return;
            }
            Err(error) => tracing::warn!(%error, "the first user cannot be created yet"),
        }
        if node.is_alone() {
            return;
        }
        sleep(PAUSE).await;
    }
}

/// Reports whether the user was created.
async fn create(node: &Arc<Node>, user: &str, password: &str) -> Result<bool, String> {
    UserName::new(user).map_err(|error| format!("tailrace.first.user: {error}"))?;
    let mut verifiers = Vec::new();
    for mechanism in ScramMechanism::ALL {
        let (password, salt) = (zeroize::Zeroizing::new(password.to_owned()), random::bytes16());
        let hash = move || ScramVerifier::from_password(mechanism, &password, &salt, ITERATIONS_DEFAULT);
        let verifier = task::spawn_blocking(hash).await.map_err(|error| error.to_string())?;
        verifiers.push(verifier.map_err(|error| format!("tailrace.first.password: {error}"))?);
    }
    let (user, by, now) = (user.to_owned(), BY.to_owned(), node.now());
    // All mechanisms at once, and only if there is no user then: this node may know old metadata, and another
    // one may create the first user now, with another password.
    let command = Command::CreateFirstUser { user, verifiers, by, now };
    let executed = node.execute(Caller::internal(), command).await.map_err(|error| error.to_string())?;
    Ok(!executed.records.is_empty())
}

#[cfg(test)]
mod tests {
    use tailrace_metadata::ScramChange;
    use tempfile::TempDir;

    use super::*;
    use crate::testing::start_in;

    /// Another node has created the first user, and the administrator has changed the password, after this
    /// node has looked for users and before its command is executed.
    #[tokio::test]
    async fn a_password_that_was_changed_since_is_not_set_again() {
        let folder = TempDir::new().unwrap();
        let running = start_in(&folder, &[]).await;
        let node = running.node();
        let mechanism = ScramMechanism::Sha512;
        let verifier = ScramVerifier::from_password(mechanism, "changed", b"salt of 16 bytes", 4096).unwrap();
        let (user, by) = ("admin".to_owned(), "User:admin".to_owned());
        let change = ScramChange::Set { verifier, keep_previous_until: None };
        let change = Command::AlterScramCredential { user, change, by, now: node.now() };
        let busy = node.controller.keep_busy().await;
        let changed = async { drop(node.execute(Caller::internal(), change).await.unwrap()) };
        let late = create(node, "admin", "first");
        let ((), late, ()) = tokio::join!(biased; changed, late, async { drop(busy) });
        assert_eq!(late, Ok(false));
        let name = || UserName::new("admin").unwrap();
        assert!(node.check_password(name(), "changed").await.is_ok());
        assert!(node.check_password(name(), "first").await.is_err());
        assert_eq!(node.image().access().user("admin").unwrap().credentials.len(), 1);
        running.stop().await;
    }

    #[tokio::test]
    async fn the_first_user_has_all_mechanisms_at_once() {
        let folder = TempDir::new().unwrap();
        let running = start_in(&folder, &[]).await;
        let node = running.node();
        let before = node.access_version();
        assert_eq!(create(node, "admin", "first").await, Ok(true));
        assert_eq!(node.access_version(), before + 1, "a crash leaves nothing half done");
        assert_eq!(node.image().access().user("admin").unwrap().credentials.len(), 2);
        assert_eq!(create(node, "admin", "second").await, Ok(false));
        assert_eq!(create(node, "other", "second").await, Ok(false));
        assert!(node.check_password(UserName::new("admin").unwrap(), "first").await.is_ok());
        running.stop().await;
    }
}
