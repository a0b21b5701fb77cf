//! Compares what nodes tell clients with the users and rules that they have.

use super::sasl::{Login, Outcome};
use crate::storm::access::{ADMIN, Look, Right, Secret, accepts, may};
use crate::storm::history::SharedHistory;

/// Compares the result of a login with what the node had.
pub(super) fn judge_login(
    history: &SharedHistory,
    node: u8,
    login: &Login,
    before: Option<&Look>,
    outcome: Outcome,
) {
    // The administrator's password has a salt that a node has drawn, and stays the same.
    if login.user == ADMIN {
        return;
    }
    let mut history = history.lock();
    let settled = Look::settled(before, history.access.look(node));
    let Some(look) = settled.filter(|_| outcome != Outcome::Lost) else { return };
    let (is_in, expected) = (outcome == Outcome::LoggedIn, accepts(&look, login.user, &login.secret));
    if is_in != expected {
        let (user, secret, version) = (login.user, &login.secret, look.access.version());
        let told = if is_in { "logged in" } else { "was refused" };
        history.found(format!("{user} {told} on node {node} with {secret:?}, in version {version}"));
    }
    history.count(match (is_in, &login.secret) {
        (true, Secret::Password(_)) => "a user logged in with a password",
        (true, Secret::Token { .. }) => "a user logged in with a delegation token",
        (false, Secret::Password(_)) => "a password was refused",
        (false, Secret::Token { .. }) => "a delegation token was refused",
    });
}

/// Compares an answer with the rules that the node had, and with its users if the credential of the
/// connection is given: it is looked at before each request of Kafka, and every 100 ms for NATS.
pub(super) fn judge_answer(
    history: &SharedHistory,
    look: &Look,
    login: (&'static str, Option<&Secret>),
    right: Right,
    is_allowed: bool,
) {
    let (user, secret) = login;
    let (mut history, version) = (history.lock(), look.access.version());
    if let Some(secret) = secret.filter(|secret| !accepts(look, user, secret)) {
        history.found(format!(
            "{right:?} of {user} was answered, whose {secret:?} is void in version {version}"
        ));
    }
    if may(&look.access, user, right) != is_allowed {
        let told = if is_allowed { "allowed" } else { "refused" };
        history.found(format!("{right:?} of {user} was {told}, in version {version}"));
    }
    history.count(if is_allowed {
        "the rules let a user do something"
    } else {
        "the rules refused a user something"
    });
}
