//! The controller: decides about commands and applies the records that result.
//!
//! [`Controller::plan`] looks and changes nothing, so a dry run is a plan whose records are dropped. The caller writes
//! the records to the metadata log and, once they count, gives them to [`Controller::apply`]. A second command must be
//! planned after the first one's records were applied. Replay at start is `apply` over the whole log.

mod apply;
mod bindings;
mod change;
mod command;
mod decision;
mod error;
mod features;
mod machine;
mod nodes;
mod plan;
mod replicas;

pub use apply::ApplyError;
pub use command::{
    BrokerScope, Command, ConfigAction, ConfigChange, ConfigOp, CreateTopic, GROUP_ID_BYTES_MAX,
    GROUPS_CONFIGURED_MAX, RegisterNode, Requester, TopicRef,
};
pub use error::{ControlError, ControlErrorKind, RemoteControlError};
pub use machine::Controller;
