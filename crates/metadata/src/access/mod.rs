//! What the metadata store about access: users with their credentials, rules (ACLs), client quotas
//! and delegation tokens.
//!
//! These types hold what was decided. Who may log in and what a rule allows is decided in
//! `tailrace_identity`.

mod accounts;
pub(crate) mod bounds;
pub(crate) mod forms;
mod limit;
mod tokens;
mod users;

pub use accounts::StoredAccountClaims;
pub use limit::{QuotaLimit, QuotaLimitError};
pub use tokens::StoredToken;
pub use users::{PreviousCredential, Stamp, StoredCredential, StoredUser};
