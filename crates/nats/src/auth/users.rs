//! The users, as the settings and the file bring them.

use std::collections::HashMap;
use std::sync::Arc;

use super::grants::Grants;
use super::nkey::PublicKey;
use super::permissions::Principal;
use super::secret::{Checker, Secret};

/// How a user proves who he is.
pub(super) enum Proof {
    Password(Secret),
    Key(PublicKey),
}

/// One user.
pub(super) struct User {
    pub(super) proof: Proof,
    pub(super) principal: Arc<Principal>,
}

/// All users.
pub(super) struct Users {
    /// By name, or by the text of the nkey.
    pub(super) by_name: HashMap<Arc<str>, User>,
    /// Who presents nothing is this user.
    pub(super) guest: Option<Arc<Principal>>,
    pub(super) checker: Checker,
    /// Checked in place of an unknown user's password, so that the answer takes as long as for a known one.
    pub(super) decoy: Secret,
}

impl Users {
    /// None yet.
    pub(super) fn new() -> Self {
        let checker = Checker::new();
        Self { by_name: HashMap::new(), guest: None, decoy: checker.decoy(), checker }
    }

    /// Takes a secret over; the costliest one is what unknown users are checked with.
    pub(super) fn secret(&mut self, text: &str) -> Result<Secret, String> {
        let secret = self.checker.secret(text)?;
        if secret.cost() > self.decoy.cost() {
            self.decoy = secret.as_decoy();
        }
        Ok(secret)
    }

    /// Adds a user.
    pub(super) fn add(&mut self, name: &str, proof: Proof, grants: Option<Grants>) -> Result<(), String> {
        let name: Arc<str> = name.into();
        let principal = Arc::new(Principal::new(Arc::clone(&name), grants));
        match self.by_name.insert(Arc::clone(&name), User { proof, principal }) {
            None => Ok(()),
            Some(_) => Err(format!("the user {name} is there twice")),
        }
    }
}
