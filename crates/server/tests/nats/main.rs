//! Plain and real NATS clients, against a server in this process. One binary, for the same reason as `kafka`.

mod accounts;
mod attacks;
mod audit;
mod audit_changes;
mod auth;
mod callout;
mod capture;
mod certificates;
mod client;
mod cluster;
mod cluster_capture;
#[path = "../common/mod.rs"]
mod common;
mod conversation;
mod crossing;
mod every_way;
mod jetstream;
mod limits;
mod live;
mod monitoring;
mod one_name;
mod operator;
mod operator_callout;
mod quotas;
mod rights;
mod system;
mod tls;
mod two_doors;
mod websocket;
mod websocket_cookies;
mod wire;
