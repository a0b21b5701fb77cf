//! Clients: what each asks, and what it makes of the answers.

mod client;
mod groups;
mod producer;
mod reader;
mod transactional;

use super::sim::Sim;
use super::tasks::Owner;
use client::Client;
use groups::processor;
pub(super) use reader::is_visible;

/// Starts all clients of a run.
pub(super) fn start_all(sim: &Sim) {
    let client = |address| Client::new(sim, address);
    for number in 0..3 {
        sim.spawn(Owner::Client, producer::run(client(100 + number), number));
    }
    for number in 0..3 {
        sim.spawn(Owner::Client, transactional::run(client(200 + number), number));
    }
    for number in 0..4 {
        sim.spawn(Owner::Client, reader::run(client(300 + number), number));
    }
    sim.spawn(Owner::Client, groups::run(client(400), 0));
    sim.spawn(Owner::Client, groups::run(client(401), 1));
    sim.spawn(Owner::Client, processor(client(500)));
}
