//! NATS accounts: separate spaces of subjects, what they share with each other, and who belongs to which.
//!
//! Everything here is a decision about bytes, claims and a time that the caller passes in. Nothing reads a
//! socket, a file or a clock.
//!
//! - [`AccountDefinition`] is what is known about one account, from the users file or from a claim.
//! - [`AccountTable`] is all of them, checked against each other. It answers where a message or a
//!   subscription goes.
//! - [`jwt`] reads the claims of operators, accounts and users, and decides whom to believe.
//! - [`callout`] builds the questions to an external service, and checks its answers.
//!
//! Deliberately not here: subscriptions, deliveries and the mapping of replies (nats), and where account
//! claims are stored (metadata).

pub mod callout;
mod chains;
mod definition;
pub mod jwt;
mod limits;
mod name;
mod pattern;
mod permission;
mod subject_mapping;
mod table;
pub use definition::{
    AccountDefinition, CalloutAccounts, CalloutSettings, Export, ExportAccess, Import, Response, ShareKind,
};
pub use limits::{AccountLimits, ConnectionLimits};
pub use name::{AccountName, AccountNameError};
pub use subject_mapping::{MappingError, SubjectMapping};
pub use table::{
    Account, AccountFault, AccountTable, ServiceImport, ServiceRoute, StreamImport, StreamRoute,
};

#[cfg(test)]
mod tests;
