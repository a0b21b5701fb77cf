//! The clients of a cluster: writers that call a node directly, and clients that speak the Kafka protocol or
//! NATS to whichever node they reach.

mod again;
mod asker;
mod classic;
mod client;
mod committer;
mod connection;
mod deleter;
mod deputy;
mod hoarder;
mod judged;
mod member;
mod nats;
mod offsets;
mod onlooker;
mod operator;
mod ownership;
mod prober;
mod processor;
mod producer;
mod publisher;
mod reader;
mod remover;
mod sasl;
mod share;
mod slow;
mod speaker;
mod steward;
mod subscriber;
mod transactional;
mod visitor;
mod warden;
mod writer;

use tailrace_env::task;

use self::asker::{Answerer, Asker};
use self::client::Client;
use self::publisher::Publisher;
use self::reader::Taste;
use self::speaker::Speaker;
use self::subscriber::Subscriber;
use self::transactional::Protocol;
use super::access::{ADMIN, DEPUTY, WATCHED};
use super::history::SharedHistory;
use super::site::{COMPACTED_TOPIC, OLD_TOPIC, Site, TOPIC};

pub(super) use self::reader::Hiding;
pub(super) use self::subscriber::Interest;
pub(super) use self::writer::{WRITERS, Writer};

/// The number of clients of each kind.
const PUBLISHERS: usize = 2;
const ASKERS: usize = 2;
const ANSWERERS: usize = 2;
const TRANSACTIONAL: usize = 3;
const COMMITTERS: usize = 2;
const MEMBERS: usize = 3;
const SHARERS: usize = 2;

/// The number of listeners that a node must know before every message reaches everyone.
pub(super) const LISTENERS: usize = Interest::ALL.len() + ANSWERERS;

/// The number of consumer groups: one of each protocol.
pub(super) const GROUPS: usize = 2;

/// Additional transactional clients of the classic protocol in runs where coordinators move. Only the
/// coordinator's epoch distinguishes its late markers from those of the next transaction.
const MORE_CLASSIC: usize = 5;

/// Starts all clients, in the world of their machine.
pub(super) fn spawn_all(site: &Site, history: &SharedHistory, protocol: u64) {
    let nodes = u8::try_from(site.computers.len()).expect("a small number");
    // The history numbers each client after the nodes.
    let mut numbers = usize::from(nodes)..;
    let mut number = || numbers.next().expect("an endless range");
    let client = || Client::new(nodes, history.clone());
    // Half of the runs start with each protocol.
    let protocols = [Protocol::Classic, Protocol::EpochPerTransaction].into_iter().cycle();
    let mut protocols = protocols.skip(usize::try_from(protocol % 2).expect("a small number"));
    let mut protocol = || protocols.next().expect("an endless iterator");
    for _ in 0..PUBLISHERS {
        task::spawn(Publisher::new(number(), nodes, history.clone()).run());
    }
    for _ in 0..ASKERS {
        task::spawn(Asker::new(number(), nodes, history.clone()).run());
    }
    for _ in 0..ANSWERERS {
        task::spawn(Answerer::new(number(), nodes, history.clone()).run());
    }
    for topic in [TOPIC, TOPIC, OLD_TOPIC, COMPACTED_TOPIC, COMPACTED_TOPIC] {
        task::spawn(producer::run(client(), number(), topic));
    }
    task::spawn(deleter::run(client()));
    for _ in 0..TRANSACTIONAL {
        task::spawn(transactional::run(client(), number(), protocol()));
    }
    let more = if site.habits.moves_coordinators { MORE_CLASSIC } else { 0 };
    for _ in 0..more {
        task::spawn(transactional::run(client(), number(), Protocol::Classic));
    }
    for _ in 0..COMMITTERS {
        task::spawn(committer::run(client(), number()));
    }
    for _ in 0..MEMBERS {
        task::spawn(member::run(client(), number()));
    }
    for _ in 0..MEMBERS {
        task::spawn(classic::run(client(), number()));
    }
    for _ in 0..SHARERS {
        task::spawn(share::run(client()));
    }
    task::spawn(remover::remove_readers(client(), number()));
    task::spawn(remover::remove_workers(client()));
    task::spawn(again::run(client(), number(), site.computers.len()));
    task::spawn(onlooker::run(client()));
    task::spawn(operator::run(client(), nodes));
    task::spawn(visitor::run(client(), nodes));
    task::spawn(processor::run(client(), protocol()));
    for (committed, follows) in [(false, false), (true, false), (false, true), (true, true)] {
        task::spawn(reader::run(
            client(),
            Taste { committed, follows, followers_answer: site.followers_answer },
        ));
    }
    for interest in Interest::ALL {
        task::spawn(Subscriber::new(number(), interest, nodes, history.clone()).run());
    }
    if site.habits.is_tight {
        task::spawn(hoarder::run(number(), nodes, history.clone()));
    }
    if site.habits.has_users {
        task::spawn(steward::run(client().logged_in_as(ADMIN), number()));
        task::spawn(warden::run(client().logged_in_as(ADMIN)));
        for node in 1..=nodes {
            task::spawn(deputy::run(client().logged_in_as(DEPUTY), node));
        }
        task::spawn(slow::run(number(), nodes, history.clone()));
        for user in 0..WATCHED.len() {
            task::spawn(prober::run(client(), number(), user));
            task::spawn(Speaker::new(number(), user, nodes, history.clone()).run());
        }
    }
}
