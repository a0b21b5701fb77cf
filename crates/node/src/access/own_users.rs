//! What the node asks a front that has users of its own. See `one_name`.

/// The users of a front.
pub trait OwnUsers: Send + Sync {
    /// Reports whether there is a user of this name.
    fn has_user(&self, name: &str) -> bool;
}
