//! The NATS front: unmodified NATS clients publish, subscribe and request; topics capture what they bind.
//!
//! The road of a published message: `listener` -> `connection` (reads a burst) -> nats-wire (parses) -> `session` (verbs) ->
//! `router` (one lookup for subscribers and topics) -> `outbuf` of each subscriber, written once per burst; and `capture` for
//! topics. The other way round, `live` brings what Kafka clients produce to subscribers.
//!
//! Messages reach the subscribers of the cluster's other nodes by `routes`. Deliberately not here: JetStream's API and accounts.
//!
//! # Traps
//!
//! * The router takes any bytes as a subject, since none that end a line can arrive there from a NATS client. From
//!   a Kafka client's key they can: `mapping` checks.
//! * A burst must be finished before anything is awaited: others who publish to the same connection see it marked
//!   and leave the write to it.
//! * A WebSocket frame is compressed into room for the worst case: at its fastest level zlib-rs 0.6 panics when a
//!   compressor is reset that still held output.
//! * A reply subject is noted as answerable before the request is delivered: the answer may come from another
//!   thread at once.

mod auth;
mod burst;
pub(crate) mod capture;
mod client;
mod close;
mod connection;
mod fan_out;
mod front;
mod input;
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
mod reserved;
mod router;
mod routes;
mod secure;
mod server;
mod session;
mod shapes;
mod subscription;
mod target;
#[cfg(test)]
mod testing;
mod trace;
mod websocket;

pub use self::auth::{Auth, AuthError};
pub use self::front::NatsFront;
pub use self::listener::serve;
pub use self::live::NAME;
pub use self::pending::PendingCollector;
pub use self::server::NatsServer;
pub use self::websocket::WebSocketFront;
