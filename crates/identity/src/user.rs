//! Somebody with a name, and what he may do.

use std::sync::Arc;

use crate::rules::Rules;

/// A user. By default nobody in particular, who may do everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    name: Option<Arc<str>>,
    rules: Option<Rules>,
}

impl User {
    pub(crate) fn new(name: Arc<str>, rules: Option<Rules>) -> Self {
        Self { name: Some(name), rules }
    }

    /// The name, or the public key where the user has no name. `None` of nobody in particular.
    pub fn name(&self) -> Option<&Arc<str>> {
        self.name.as_ref()
    }

    /// What the user may do. `None`: everything.
    pub fn rules(&self) -> Option<&Rules> {
        self.rules.as_ref()
    }
}
