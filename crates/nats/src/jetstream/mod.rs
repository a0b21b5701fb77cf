//! JetStream's API: requests to `$JS.API.>`, and their answers.
//!
//! `tailrace_jetstream` knows subjects, bodies, rules and the form of answers; this room carries requests out.
//! A stream is a topic with one partition: the controller makes and changes it, and the node that leads it
//! tells what is in it (`tailrace_node::streams`). The node to which a client is connected answers it.
//!
//! A session hands its requests over ([`Requests`]) and goes on. Each is answered by a task of its own, at
//! most [`RUNNING_MAX`](queue::RUNNING_MAX) at a time; the others wait in a bounded queue.
//!
//! Streams live in the account of the topics. docs/jetstream.md lists what is not there yet.

mod answer;
mod change;
mod clusters;
mod commands;
mod direct;
mod errors;
mod header;
mod lists;
mod messages;
mod names;
mod queue;
mod requests;
mod rights;
mod settings;
mod state;
mod stream;
mod streams;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tailrace_config::BrokerConfig;
use tailrace_types::usize_of;

pub(crate) use self::answer::answer;
pub(crate) use self::names::{write_json_name, write_name};
use self::queue::Queue;
pub(crate) use self::requests::{ApiCall, Requests, Taken, TooMany};
use self::streams::StreamTable;

/// What the requests of all connections share.
pub(crate) struct JetStream {
    queue: Arc<Queue>,
    streams: StreamTable,
    /// Requests that were answered, and those of them that failed.
    answered: AtomicU64,
    failed: AtomicU64,
}

impl JetStream {
    /// `None` if the settings do not ask for JetStream.
    pub(crate) fn of(config: &BrokerConfig) -> Option<Self> {
        let queue = || {
            let requests = usize_of(config.tailrace_jetstream_api_requests_max.into());
            Arc::new(Queue::new(requests, config.tailrace_jetstream_api_bytes_max))
        };
        config.tailrace_jetstream_enable.then(|| Self {
            queue: queue(),
            streams: StreamTable::default(),
            answered: AtomicU64::new(0),
            failed: AtomicU64::new(0),
        })
    }

    fn count(&self, is_error: bool) {
        self.answered.fetch_add(1, Ordering::Relaxed);
        if is_error {
            self.failed.fetch_add(1, Ordering::Relaxed);
        }
    }
}
