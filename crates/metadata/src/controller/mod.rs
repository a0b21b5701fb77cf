//! The controller: decides on commands and applies the resulting records.
//!
//! [`Controller::plan`] changes nothing, so a dry run is a plan whose records are dropped. The caller writes
//! the records to the metadata log and, once they are committed, passes them to [`Controller::apply`]. A
//! second command must be planned after the first one's records have been applied. Replay at start is `apply`
//! over the whole log.

mod access;
mod access_error;
mod account_claims;
mod apply;
mod bindings;
mod change;
mod client_quotas;
mod command;
mod decision;
mod error;
mod features;
mod machine;
mod nodes;
mod plan;
mod replicas;
mod streams;
mod tokens;

pub use access_error::AccessError;
pub use apply::ApplyError;
pub use command::{
    BrokerScope, Command, ConfigAction, ConfigChange, ConfigOp, CreateTopic, GROUP_ID_BYTES_MAX,
    GROUPS_CONFIGURED_MAX, RegisterNode, Requester, ScramChange, TokenEnd, TopicRef,
};
pub use error::{ControlError, ControlErrorKind, RemoteControlError};
pub use machine::Controller;
