//! Configurations of consumers: what they hold, which are legal on which stream, and what may change.
//!
//! - [`ConsumerConfig`]: the fields, as they are read and echoed.
//! - [`CreateForm`]: the forms of the subjects that create consumers.
//! - [`create`]: a request to the configuration that takes effect.

mod check;
mod config;
mod defaults;
mod request;
mod stored;
mod update;

pub(crate) use check::is_group_name;
pub use config::{
    AckPolicy, Action, ConsumerConfig, CreateRequest, DeliverPolicy, PriorityPolicy, ReplayPolicy,
};
pub use request::{ConsumerCreation, ConsumerLimitsInForce, CreateForm, OtherConsumers, create};
