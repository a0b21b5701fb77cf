//! Keeps the link to one other node up: dials, sends, and dials again.

use std::sync::Arc;
use tailrace_env::time::{Duration, Instant};
use tailrace_env::{select, time};

use tailrace_env::task::JoinHandle;
use tailrace_types::NodeId;

use super::dial::dial;
use super::error::{Ended, PeerError};
use super::handshake::{Purpose, Refusal};
use super::link::Link;
use super::presence::{ConnectionPlace, Direction};
use super::session::Session;
use super::shared::Shared;
use super::stream::Halves;
use super::types::{PeerIdentity, PeerNode, PeerReceiver};
use tailrace_env::random;

/// Interval between two log lines with the same reason about one node.
const LOG_INTERVAL: Duration = Duration::from_secs(30);

/// Dials `node`, once `before`, its earlier link, has ended.
pub(super) fn start(
    shared: &Arc<Shared>,
    receiver: &Arc<dyn PeerReceiver>,
    node: PeerNode,
    before: Option<JoinHandle<()>>,
) -> Arc<Link> {
    let link = Arc::new(Link::new(node));
    let dialler = Dialler {
        shared: Arc::clone(shared),
        receiver: Arc::clone(receiver),
        link: Arc::clone(&link),
        said: None,
    };
    let task = shared.spawner.spawn(async move {
        if let Some(before) = before {
            // It was aborted, so the error is expected.
            let _ = before.await;
        }
        dialler.run().await;
    });
    link.set_task(task);
    link
}

/// A link that is up. Dropping it marks the link as down.
struct Up<'a> {
    dialler: &'a Dialler,
    session: Arc<Session>,
}

impl<'a> Up<'a> {
    fn new(dialler: &'a Dialler, session: Arc<Session>) -> Self {
        dialler.link.set_session(Some(Arc::clone(&session)));
        dialler.shared.metrics.links.inc();
        let up = Self { dialler, session };
        dialler.receiver.connected(dialler.node());
        up
    }
}

impl Drop for Up<'_> {
    fn drop(&mut self) {
        self.dialler.link.set_session(None);
        self.session.close("the link was closed");
        self.dialler.shared.metrics.links.dec();
        self.dialler.receiver.disconnected(self.dialler.node());
    }
}

struct Dialler {
    shared: Arc<Shared>,
    receiver: Arc<dyn PeerReceiver>,
    link: Arc<Link>,
    /// The last logged reason, and when.
    said: Option<(&'static str, Instant)>,
}

impl Dialler {
    fn node(&self) -> NodeId {
        self.link.node.node
    }

    async fn run(mut self) {
        let (min, max) = (self.shared.options.reconnect_min, self.shared.options.reconnect_max);
        let mut pause = min;
        loop {
            let began = Instant::now();
            let address = self.link.node.address.clone();
            let outcome = self.attempt(&address).await;
            if self.link.is_finishing() {
                return;
            }
            let taken = matches!(
                &outcome,
                Err(PeerError::Refused { refusal: Refusal::DuplicateNode(node), .. }) if *node != self.node()
            );
            self.link.set_number_is_taken(taken);
            match outcome {
                Ok(ended) => self.log_end(&ended),
                Err(error) => self.log_failure(&error),
            }
            // A connection that was up only for a moment does not count as a success.
            pause = if began.elapsed() > max + max { min } else { pause };
            select! {
                () = time::sleep(jittered(pause)) => {}
                () = self.link.nudged() => {}
            }
            pause = (pause * 2).min(max);
        }
    }

    async fn attempt(&mut self, address: &str) -> Result<Ended, PeerError> {
        let (peer, halves) = dial(&self.shared, address, Purpose::Link, Some(self.node())).await?;
        let place = self.shared.presence.admit(peer.node, peer.instance, Direction::Outgoing);
        let place = place.map_err(|refusal| {
            self.shared.metrics.refused("this_node", refusal.reason());
            PeerError::Refused { address: address.to_owned(), refusal }
        })?;
        self.said = None;
        tracing::info!(node = %peer.node, %address, level = peer.level, "connected to another node");
        Ok(self.converse(peer, halves, &place).await)
    }

    async fn converse(&self, peer: PeerIdentity, halves: Halves, place: &ConnectionPlace) -> Ended {
        let options = &self.shared.options;
        let up = Up::new(self, Session::new(peer, options));
        let arrived = || {
            if place.heard() {
                self.receiver.heard(self.node());
            }
        };
        self.receiver.heard(self.node());
        let ended = select! {
            ended = up.session.run(halves, options, &self.shared.metrics, arrived) => ended,
            () = place.replaced() => Ended::Replaced,
        };
        up.session.close(&ended.to_string());
        ended
    }

    fn log_end(&self, ended: &Ended) {
        let (node, address) = (self.node(), &self.link.node.address);
        if let Some(reason) = ended.reason() {
            self.shared.metrics.cut(reason);
        }
        tracing::warn!(%node, %address, reason = %ended, "the connection to another node ended");
    }

    /// Logs one line for each new reason, then one periodically.
    fn log_failure(&mut self, error: &PeerError) {
        let (node, reason) = (self.node(), error.reason());
        let is_news = self.said.is_none_or(|(said, at)| said != reason || at.elapsed() >= LOG_INTERVAL);
        if is_news {
            self.said = Some((reason, Instant::now()));
            tracing::warn!(%node, %error, "no connection to another node; trying again");
        }
    }
}

/// Returns three to five quarters of the pause, so that nodes that lost each other do not reconnect in
/// lockstep.
fn jittered(pause: Duration) -> Duration {
    let half = u64::try_from(pause.as_micros()).unwrap_or(u64::MAX) / 2;
    pause * 3 / 4 + Duration::from_micros(random::u64() % (half + 1))
}
