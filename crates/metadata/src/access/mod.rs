//! What the metadata store about access: users with their credentials, rules (ACLs) and client quotas.
//!
//! These types hold what was decided. Who may log in and what a rule allows is decided in
//! `tailrace_identity`.

pub(crate) mod bounds;
pub(crate) mod forms;
mod limit;
mod users;

pub use limit::{QuotaLimit, QuotaLimitError};
pub use users::{PreviousCredential, Stamp, StoredCredential, StoredUser};
