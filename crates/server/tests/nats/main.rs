//! Plain and real NATS clients, against a server in this process. One binary, for the same reason as `kafka`.

mod auth;
mod capture;
mod client;
mod cluster;
mod cluster_capture;
#[path = "../common/mod.rs"]
mod common;
mod conversation;
mod crossing;
mod limits;
mod live;
mod monitoring;
mod rights;
mod tls;
mod websocket;
mod wire;
