//! The NATS front: unmodified NATS clients publish, subscribe and request; topics capture what they bind.
//!
//! The road of a published message: `listener` -> `connection` (reads a burst) -> nats-wire (parses) -> `session` (verbs) ->
//! `router` (one lookup for subscribers and topics) -> `outbuf` of each subscriber, written once per burst; and `capture` for
//! topics. The other way round, `live` brings what Kafka clients produce to subscribers.
//!
//! Messages reach the subscribers of the cluster's other nodes by `routes`. Deliberately not here: JetStream's API and accounts.

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
mod trace;
mod websocket;

pub use self::auth::{Auth, AuthError};
pub use self::front::NatsFront;
pub use self::listener::serve;
pub use self::live::NAME;
pub use self::pending::PendingCollector;
pub use self::server::NatsServer;
pub use self::websocket::WebSocketFront;
