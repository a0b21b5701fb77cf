#![doc = include_str!("../README.md")]
//!
//! # Map
//! - [`Dialect`], [`Limits`], [`Pattern`], [`Subject`], [`SharedPattern`]: validated texts, without state.
//! - [`TupleSpace`], [`Snapshot`], [`Batch`], [`Cache`]: the default matcher; see [`tuple_space`] for the
//!   algorithm.
//! - [`Matcher`]: the interface of this and other matchers; `tailrace-subjects-bench` has five classical
//!   algorithms behind it.
//!
//! It deliberately does not deliver messages, choose members of queue groups, or keep track of clients.
//! Values belong to the caller, and are found once per subscription.

mod dialect;
mod error;
mod limits;
mod matcher;
mod pattern;
mod relation;
mod scan;
mod subject;
pub mod tuple_space;

pub use dialect::Dialect;
pub use error::{SubscribeError, TextError};
pub use limits::Limits;
pub use matcher::Matcher;
pub use pattern::{Pattern, PatternWord, SharedPattern};
pub use subject::Subject;
pub use tuple_space::{Batch, Cache, Snapshot, Subscription, TupleSpace};
