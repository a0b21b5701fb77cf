//! JetStream's API: requests to `$JS.API.>`, and their answers.
//!
//! `tailrace_jetstream` knows subjects, bodies, rules and the form of answers; this room carries requests
//! out. A stream is a topic with one partition: the controller makes and changes it, and the node that leads
//! it tells what is in it (`tailrace_node::streams`). The node to which a client is connected answers it.
//!
//! Consumers are at the leader of their stream. `pulls` asks it for what a pull gets, and writes that to the
//! client; `acks` passes acknowledgements on. What push consumers deliver is sent by their leader (`pushes`);
//! `flow` passes on what clients answer to requests of flow control.
//!
//! A session hands its requests over ([`Requests`]) and goes on. Each is answered by a task of its own, at
//! most 64 at a time; the others wait in a bounded queue.
//!
//! Streams live in the account of the topics. docs/jetstream.md lists what is not there yet.

mod acks;
mod answer;
mod asked;
mod change;
mod clusters;
mod commands;
mod consumers;
mod delivery;
mod direct;
mod errors;
mod flow;
mod header;
mod lists;
mod messages;
mod names;
mod pulls;
mod pushes;
mod queue;
mod requests;
mod rights;
mod settings;
mod shared;
mod state;
mod stream;
mod streams;
mod waiting;

pub(crate) use self::answer::answer;
pub(crate) use self::names::{write_json_name, write_name};
pub(crate) use self::requests::{ApiCall, Requests, Taken, TooMany};
pub(crate) use self::shared::JetStream;
