//! The first user, from the settings: without one, nobody could log in to add users.

use std::sync::Arc;
use tailrace_env::task;
use tailrace_env::time::{Duration, sleep};

use tailrace_env::random;
use tailrace_identity::UserName;
use tailrace_identity::scram::{ITERATIONS_DEFAULT, ScramMechanism, ScramVerifier};
use tailrace_metadata::{Command, ScramChange};

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
            Ok(()) => {
                tracing::info!(user = %config.tailrace_first_user.escape_debug(), "created the first user");
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

async fn create(node: &Arc<Node>, user: &str, password: &str) -> Result<(), String> {
    UserName::new(user).map_err(|error| format!("tailrace.first.user: {error}"))?;
    for mechanism in ScramMechanism::ALL {
        let (password, salt) = (zeroize::Zeroizing::new(password.to_owned()), random::bytes16());
        let hash = move || ScramVerifier::from_password(mechanism, &password, &salt, ITERATIONS_DEFAULT);
        let verifier = task::spawn_blocking(hash).await.map_err(|error| error.to_string())?;
        let verifier = verifier.map_err(|error| format!("tailrace.first.password: {error}"))?;
        let change = ScramChange::Set { verifier, keep_previous_until: None };
        let (user, by, now) = (user.to_owned(), BY.to_owned(), node.now());
        let command = Command::AlterScramCredential { user, change, by, now };
        node.execute(Caller::internal(), command).await.map_err(|error| error.to_string())?;
    }
    Ok(())
}
