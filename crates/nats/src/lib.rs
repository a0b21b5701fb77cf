//! The NATS front: unmodified NATS clients publish, subscribe and request, and topics capture the subjects
//! they bind.
//!
//! The path of a published message is `listener` -> `connection` (reads a burst) -> nats-wire (parses) ->
//! `session` (verbs) -> `router` (one lookup for subscribers and topics) -> `outbuf` of each subscriber,
//! written once per burst, and `capture` for topics. In the other direction, `live` delivers the records of
//! Kafka clients to subscribers.
//!
//! `routes` delivers messages to subscribers on the other nodes of the cluster. `jetstream` answers
//! JetStream's API. `account` keeps accounts apart and lets messages cross between them, and `system` answers
//! for the server.
//!
//! # Traps
//!
//! * The router accepts any bytes as a subject. A subject from a NATS client cannot contain a line end. One
//!   from a Kafka client's key can, so `mapping` checks it.
//! * A burst must be finished before any await, because other publishers to the same connection see it marked
//!   and leave the write to the burst.
//! * A WebSocket frame is compressed into room for the worst case. At its fastest level, zlib-rs 0.6 panics
//!   when a compressor is reset that still held output.
//! * A reply subject is recorded as answerable before the request is delivered, because another thread may
//!   publish the answer at once.

mod account;
mod auth;
mod burst;
pub(crate) mod capture;
mod client;
mod client_info;
mod close;
mod connection;
mod counted;
mod dues;
mod fan_out;
mod front;
mod go_time;
mod input;
mod jetstream;
mod letter;
mod limits;
mod link_user;
mod listener;
mod live;
mod mapping;
mod metrics;
pub mod monitor;
mod outbuf;
mod pending;
mod places;
mod queues;
mod quotas;
mod reserved;
mod router;
mod routes;
mod secure;
mod server;
mod session;
mod shapes;
mod speaker;
mod spread;
mod subscription;
mod system;
mod target;
#[cfg(test)]
mod testing;
mod trace;
mod translator;
mod websocket;

pub use self::auth::{Auth, AuthError, follow_access, follow_claims};
pub use self::dues::Charging;
pub use self::front::NatsFront;
pub use self::listener::serve;
pub use self::live::NAME;
pub use self::pending::PendingCollector;
pub use self::quotas::charge_deliveries;
pub use self::server::NatsServer;
pub use self::system::{announce_retirement, announce_stop, report_regularly};
pub use self::websocket::WebSocketFront;
#[cfg(fuzzing)]
pub use self::websocket::fuzzing;
