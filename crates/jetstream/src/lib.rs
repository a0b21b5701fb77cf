//! JetStream without a network, a disk or a clock: what its API accepts and answers, and the state machines
//! of streams and consumers.
//!
//! Time, random values and what is in the log come from the caller. Functions return what is to be done.
//! The protocol is that of nats-server 2.15.2.
//!
//! # Map
//! - [`api`]: subjects, bodies and answers of `$JS.API`.
//! - [`stream`], [`consumer_config`]: configurations, their rules, and what may change.
//! - [`publish`]: the headers of a published message, and the order of checks.
//! - [`transform`]: subject transforms.
//! - [`contents`]: the messages and subjects of a stream.
//! - [`consumer`]: the state machine of a consumer.
//! - [`error`]: the errors of the API.
//! - [`limits`]: the bounds of everything that a request may hold.

pub mod api;
pub mod consumer;
pub mod consumer_config;
pub mod contents;
pub mod error;
mod go;
mod json;
pub mod limits;
pub mod publish;
pub mod stream;
mod subject;
pub mod transform;

pub use go::{Nanos, Time};
