//! The port for nodes: accepts within the limits, does the handshake, and runs each connection in a task of
//! its own.

use std::net::SocketAddr;
use std::sync::Arc;
use tailrace_env::time::Duration;
use tailrace_env::{select, time};

use tailrace_env::net::{Listener, Stream};
use tailrace_env::sync::{OwnedSemaphorePermit, Semaphore};
use tailrace_env::task::JoinSet;

use super::handshake::{Greeting, GreetingError, Purpose, Refusal};
use super::incoming::{Incoming, Standing};
use super::presence::Direction;
use super::shared::Shared;
use super::stream::Halves;
use super::types::PeerReceiver;
use tailrace_tls::HandshakeError;

/// Pause after accept failed, so that a lack of descriptors does not become a busy loop.
const ACCEPT_RETRY_INTERVAL: Duration = Duration::from_millis(50);

/// How long a refusal may take to reach the other end before the connection is closed.
const REFUSAL_MAX: Duration = Duration::from_millis(500);

/// Why a connection failed the handshake.
#[derive(Debug, thiserror::Error)]
enum Rejected {
    #[error("{0}")]
    Refused(Refusal),
    #[error("{0}")]
    Greeting(#[from] GreetingError),
    #[error("{0}")]
    Tls(HandshakeError),
    #[error("the handshake did not complete in time")]
    Slow,
}

impl Rejected {
    /// Returns a label for the metric, and for limiting log lines. `None` if the other end only checked
    /// whether the port is open.
    fn reason(&self) -> Option<&'static str> {
        match self {
            Self::Refused(refusal) => Some(refusal.reason()),
            Self::Greeting(GreetingError::Garbage("a TLS handshake")) => Some("tls_on_plain"),
            Self::Greeting(GreetingError::Garbage(_) | GreetingError::Nonsense(_)) => Some("garbage"),
            Self::Greeting(GreetingError::Ended | GreetingError::Socket(_)) => None,
            Self::Tls(HandshakeError::Closed) => None,
            Self::Tls(HandshakeError::NotTls) => Some("not_tls"),
            Self::Tls(HandshakeError::Timeout) | Self::Slow => Some("slow"),
            Self::Tls(HandshakeError::Failed(_) | HandshakeError::TooLong | HandshakeError::TooMany) => {
                Some("tls")
            }
        }
    }
}

/// Accepts until the links are stopped. Connections end with it.
pub(super) async fn serve(listener: Listener, shared: Arc<Shared>, receiver: Arc<dyn PeerReceiver>) {
    let mut stopping = shared.stopping.subscribe();
    let strangers = Arc::new(Semaphore::new(shared.options.strangers_max));
    let mut connections = JoinSet::new();
    loop {
        select! {
            () = Shared::stopped(&mut stopping) => break,
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, address)) => {
                    let Ok(permit) = Arc::clone(&strangers).try_acquire_owned() else {
                        shared.metrics.refused("this_node", "strangers_max");
                        log(&shared, "strangers_max", address, &"too many connections without a handshake");
                        continue;
                    };
                    let connection = serve_one(stream, address, permit, Arc::clone(&shared), Arc::clone(&receiver));
                    connections.spawn(connection);
                }
                Err(error) => {
                    tracing::warn!(%error, "could not accept a connection from a node");
                    time::sleep(ACCEPT_RETRY_INTERVAL).await;
                }
            },
        }
    }
    drop(listener);
    connections.shutdown().await;
}

fn log(shared: &Shared, reason: &'static str, address: SocketAddr, error: &dyn std::fmt::Display) {
    if let Some(left_out) = shared.quiet.may_log(reason) {
        tracing::warn!(%address, %error, left_out, "refused a connection on the port for nodes");
    }
}

async fn serve_one(
    stream: Stream,
    address: SocketAddr,
    permit: OwnedSemaphorePermit,
    shared: Arc<Shared>,
    receiver: Arc<dyn PeerReceiver>,
) {
    let stranger = Stranger::new(&shared, permit);
    let timeout = shared.options.handshake_timeout;
    let handshake = make_handshake(stream, &shared);
    let made = time::timeout(timeout, handshake).await.unwrap_or(Err(Rejected::Slow));
    match made {
        Ok((halves, standing)) => {
            let stranger = (!standing.is_link()).then_some(stranger);
            Incoming::new(shared, receiver, standing, address).run(halves).await;
            drop(stranger);
        }
        Err(rejected) => match rejected.reason() {
            None => {
                tracing::debug!(%address, reason = %rejected, "a connection of a node ended before its handshake")
            }
            Some(reason) => {
                shared.metrics.refused("this_node", reason);
                log(&shared, reason, address, &rejected);
            }
        },
    }
}

/// A connection that is not, or not yet, the link of a member.
struct Stranger {
    shared: Arc<Shared>,
    _permit: OwnedSemaphorePermit,
}

impl Stranger {
    fn new(shared: &Arc<Shared>, permit: OwnedSemaphorePermit) -> Self {
        shared.metrics.strangers.inc();
        Self { shared: Arc::clone(shared), _permit: permit }
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        self.shared.metrics.strangers.dec();
    }
}

async fn make_handshake(stream: Stream, shared: &Arc<Shared>) -> Result<(Halves, Standing), Rejected> {
    let mut halves = match &shared.tls {
        None => Halves::plain(stream),
        Some(tls) => Halves::tls(tls.accept(stream).await.map_err(Rejected::Tls)?),
    };
    let call = Greeting::read(&mut halves.reader).await?;
    let own = shared.identity.load_full();
    let Some(purpose) = call.purpose() else {
        return Err(GreetingError::Nonsense(
            "it asks for something that this build does not know".to_owned(),
        )
        .into());
    };
    let judged = call.judge_call(&own, purpose).and_then(|level| {
        let place = match purpose {
            Purpose::Link => Some(shared.presence.admit(call.node, call.instance, Direction::Incoming)?),
            Purpose::Ask => None,
        };
        Ok((level, place))
    });
    let (verdict, place) = match judged {
        Ok((level, place)) => (Ok(level), place),
        Err(refusal) => (Err(refusal), None),
    };
    let answer = Greeting::answer(&own, &call, &verdict).encode();
    match verdict {
        Ok(level) => {
            halves.send_now(&answer).await.map_err(GreetingError::from)?;
            let from = call.is_of_cluster(&own).then_some(call.node);
            Ok((halves, Standing { from, place, level }))
        }
        Err(refusal) => {
            // The other end may not read it.
            let _ = time::timeout(REFUSAL_MAX, halves.send_last(&answer)).await;
            Err(Rejected::Refused(refusal))
        }
    }
}
