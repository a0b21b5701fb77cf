//! NATS clients, plain ones and real ones, against a server in this process. One binary, as for `kafka`.

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
mod tls;
mod websocket;
mod wire;
