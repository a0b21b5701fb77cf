#![doc = include_str!("../README.md")]
//!
//! # Map
//! - [`Dialect`], [`Limits`], [`Pattern`], [`Subject`], [`SharedPattern`]: texts, checked; no state.
//! - [`TupleSpace`], [`Snapshot`], [`Batch`], [`Cache`]: the default matcher; see [`tuple_space`] for the algorithm.
//! - [`Matcher`]: what it and others can do; `tailrace-subjects-bench` has five classical algorithms behind it.
//!
//! What it deliberately does not do: deliver, choose members of queue groups, or remember who a client is. Values are the
//! caller's, and are found once per subscription.

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
