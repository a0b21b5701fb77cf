//! The systems that can be measured, by name, and how to connect to them.
//!
//! Every adapter speaks its protocol over a non-blocking socket, in the generator's own thread, so that no
//! client library's queue or scheduler is between the schedule and the wire. The payloads and what is
//! expected of them are the same for all.

mod adapters;
mod amqp_wire;
mod brokerless;
mod catalog;
mod deed;
mod echo_server;
mod greeting;
mod http;
mod jetstream;
mod kafka;
mod kafka_batch;
mod kafka_topics;
mod kafka_wire;
mod leftovers;
#[cfg(feature = "kafka")]
mod librdkafka;
mod mqtt;
mod names;
mod nats;
mod nats_login;
mod nats_wire;
mod nkey;
mod nng;
mod noop;
mod nsq;
mod nsq_topics;
mod pair;
mod postgres;
mod postgres_wire;
mod rabbitmq;
mod rabbitmq_queues;
mod redis;
mod resp;
mod role;
mod scram;
mod settings;
mod site;
mod stomp;
mod target;
mod tcp_echo;
mod tls;
mod transport;
mod turning;
mod wire;
mod zeromq;

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

pub(crate) use catalog::find;
pub use catalog::{SYSTEMS, System};
pub use deed::Deed;
pub use echo_server::{EchoProtocol, EchoServer};
pub(crate) use greeting::converse;
pub use leftovers::{LeftOver, left_over, made_by};
pub use role::Role;
pub use settings::Settings;
pub use target::Target;
pub(crate) use target::addresses;

use adapters::connect_in_turn;

use crate::clock::Clock;
use crate::error::{BenchError, RequesterError};
use crate::payload::{Header, PayloadBuffer};
use crate::requester::Requester;

/// Connections that are not set up yet.
pub struct Opened {
    /// One per connection.
    pub requesters: Vec<Box<dyn Requester>>,
    /// The address, for reports.
    pub address: Option<String>,
    /// The server that they connect to, if it is our own. It must live as long as the run.
    pub server: Option<EchoServer>,
}

/// Prepares the connections to a system.
///
/// # Errors
/// The system or one of its settings is unknown, or our own server cannot be started.
pub fn open(target: &Target) -> Result<Opened, BenchError> {
    let connections: Vec<u32> = (0..target.connections).collect();
    open_some(target, Role::Both, &connections)
}

/// Prepares only these connections of `target`, or only one end of each.
///
/// # Errors
/// Same as [`open`]; or the system's two ends cannot be apart.
pub fn open_some(target: &Target, role: Role, connections: &[u32]) -> Result<Opened, BenchError> {
    let system = find(&target.system)?;
    role::check(system.name, role)?;
    check_address(target)?;
    let server = own_server(system, target)?;
    let address = server
        .as_ref()
        .map(|server| server.address().to_string())
        .or_else(|| target.address.clone())
        .or_else(|| system.default_address.map(str::to_owned));
    let mut requesters = Vec::new();
    for connection in connections {
        let name = format!("{}.{connection}", target.run);
        requesters.push(connect_in_turn(
            system,
            address.as_deref().unwrap_or_default(),
            *connection,
            &name,
            role,
            target,
        )?);
    }
    Ok(Opened { requesters, address, server })
}

/// Checks that the system and its settings are known. Starts and connects nothing.
///
/// # Errors
/// Names what is unknown.
pub fn check(target: &Target) -> Result<(), BenchError> {
    check_role(target, Role::Both)
}

/// Checks them for connections with this role.
///
/// # Errors
/// Names what is unknown or not possible.
pub(crate) fn check_role(target: &Target, role: Role) -> Result<(), BenchError> {
    let system = find(&target.system)?;
    role::check(system.name, role)?;
    check_address(target)?;
    connect_in_turn(system, target.address.as_deref().unwrap_or_default(), 0, "check", role, target)?;
    Ok(())
}

/// Addresses appear in results and messages, so they must not contain secrets.
fn check_address(target: &Target) -> Result<(), RequesterError> {
    let address = target.address.as_deref().unwrap_or_default();
    match address.rsplit_once('@') {
        None => Ok(()),
        Some((_, host)) => Err(RequesterError::Unsupported(format!(
            "the address ***@{host} names a user: expected HOST:PORT, and user and password as settings"
        ))),
    }
}

/// Sets up all connections, and sends one message over each to verify that it comes back.
///
/// # Errors
/// The system cannot be reached, does not answer, or answers wrongly.
pub fn set_up(
    requesters: &mut [Box<dyn Requester>],
    target: &Target,
    clock: &dyn Clock,
) -> Result<(), BenchError> {
    set_up_unless(requesters, target, clock, &AtomicBool::new(false)).map(drop)
}

/// Sets up these connections, and sends one message over each that can publish. If one fails, the others stay
/// set up.
///
/// # Errors
/// Same as [`set_up`].
pub fn set_up_some(
    requesters: &mut [Box<dyn Requester>],
    target: &Target,
    connections: &[u32],
    clock: &dyn Clock,
) -> Result<(), BenchError> {
    set_up_all(requesters, target, connections, clock, &AtomicBool::new(false), &mut 0)?;
    Ok(())
}

/// Like [`set_up`], but checks before each connection whether to stop. If so, or if a connection fails, it
/// removes what it created. Returns false if it was stopped.
///
/// # Errors
/// The system cannot be reached, does not answer, or answers wrongly.
pub(crate) fn set_up_unless(
    requesters: &mut [Box<dyn Requester>],
    target: &Target,
    clock: &dyn Clock,
    stop: &AtomicBool,
) -> Result<bool, BenchError> {
    let connections: Vec<u32> = (0..target.connections).collect();
    let mut made = 0;
    let result = set_up_all(requesters, target, &connections, clock, stop, &mut made);
    if !matches!(result, Ok(true)) {
        // An error here is ignored: the first error is the one to report.
        let _ = requesters[..made].iter_mut().try_for_each(|requester| requester.tear_down());
    }
    Ok(result?)
}

fn set_up_all(
    requesters: &mut [Box<dyn Requester>],
    target: &Target,
    connections: &[u32],
    clock: &dyn Clock,
    stop: &AtomicBool,
    made: &mut usize,
) -> Result<bool, RequesterError> {
    let mut buffer = PayloadBuffer::new(target.payload_bytes);
    for (connection, requester) in connections.iter().zip(requesters) {
        if stop.load(Ordering::Relaxed) {
            return Ok(false);
        }
        requester.set_up()?;
        *made += 1;
        let header = probe(target.run, *connection, clock.now_ns());
        requester.request(PROBE, buffer.fill(header), clock, PROBE_TIMEOUT_NS)?;
    }
    Ok(!stop.load(Ordering::Relaxed))
}

/// The probe before a run. It has another run's number, so that a late copy does not count as one of this
/// run.
fn probe(run: u16, connection: u32, due_ns: u64) -> Header {
    Header { run: !run, connection: connection as u16, sequence: PROBE, due_ns }
}

/// Reports whether this is the probe that [`set_up_some`] sent over a connection.
pub(crate) fn is_probe(header: &Header, run: u16, connection: u16) -> bool {
    *header == probe(run, u32::from(connection), header.due_ns)
}

/// The sequence of the probe before a run.
const PROBE: u64 = u64::MAX;

/// Timeout of a probe.
pub(crate) const PROBE_TIMEOUT_NS: u64 = 10_000_000_000;

fn own_server(system: &System, target: &Target) -> Result<Option<EchoServer>, BenchError> {
    let protocol = match system.name {
        _ if target.address.is_some() => return Ok(None),
        "tcp-echo" => EchoProtocol::Tcp,
        "http" => EchoProtocol::Http,
        _ => return Ok(None),
    };
    let failed =
        |error: io::Error| RequesterError::Connect { address: "a server of our own".to_owned(), error };
    Ok(Some(EchoServer::start(protocol).map_err(failed)?))
}
