//! Names of accounts that exist without configuration.

/// The account of everybody, if there are no others.
pub(crate) const GLOBAL: &str = "$G";

/// The account of the server's events, if no other is named.
pub(crate) const SYSTEM: &str = "$SYS";
