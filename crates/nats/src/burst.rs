//! The effects of one read of a connection: which buffers were filled, and which connections have to be
//! waited for.

use std::sync::Arc;
use tailrace_env::time::{Duration, Instant};

use crate::capture::Binding;
use crate::client::Client;
use crate::metrics::NatsMetrics;
use crate::outbuf::Writer;
use tailrace_env::aside::TURN;
use tailrace_nats_wire::Message;

/// Most connections and bytes that a publisher writes itself. Beyond that, the connections' own tasks write,
/// so that other tasks get a turn.
const INLINE_MAX: usize = 32;
const INLINE_BYTES_MAX: usize = 1024 * 1024;

/// Number of deliveries that count as much work as an uncached lookup.
const WORK_OF_LOOKUP: u64 = 64;

/// Longest time that one burst is stalled for slow consumers, as in nats-server.
const STALL_MAX: Duration = Duration::from_millis(10);

/// A burst. Call [`Burst::finish`] before waiting for anything.
pub(crate) struct Burst {
    /// Time at which the bytes were read.
    pub(super) read_at: Instant,
    /// Whether the publisher gets its own messages, too.
    pub(super) echo: bool,
    /// Connections with new bytes in their out-buffers.
    pub(super) touched: Vec<Arc<Client>>,
    crowded: Option<Arc<Client>>,
    /// The ways to other accounts that the last message has found. Its publisher takes them.
    pub(super) crossings: Vec<Arc<dyn Crossing>>,
    messages_out: u64,
    bytes_out: u64,
    lookups: u64,
    cache_hits: u64,
    /// Searches that take as long as a lookup, but are not for a published subject.
    searches: u64,
    /// Work done when the clock was last read.
    timed: u64,
    /// The client whose task runs this burst.
    own: Option<u64>,
    /// Whether connections that are far behind are passed over.
    passes_over: bool,
    /// Deliveries skipped for that reason.
    passed_over: u64,
}

/// A way from one account to another.
pub(crate) trait Crossing: Send + Sync {
    /// Reports whether it is for messages of other nodes, too. The others were taken where they were
    /// published.
    fn is_for_other_nodes(&self) -> bool;

    /// Takes a message that came into its account like this to another one. `None` if it does not go there.
    fn take(&self, origin: Option<&Client>, message: &Message<'_>, came: Came) -> Option<Box<dyn Arrival>>;
}

/// A message in an account to which it has crossed.
pub(crate) trait Arrival: Send + Sync {
    /// How it came there.
    fn came(&self) -> Came;

    /// The message as it is there.
    fn message<'m>(&'m self, payload: &'m [u8]) -> Message<'m>;

    /// Delivers it there for one turn. Topics that capture it get it as it is there. Returns the number of
    /// receivers when all have it.
    fn go_on(&mut self, turn: CrossingTurn<'_>) -> Option<usize>;
}

/// One turn of a message in an account to which it has crossed.
pub(crate) struct CrossingTurn<'a> {
    pub(crate) burst: &'a mut Burst,
    /// The client that has published it.
    pub(crate) origin: Option<&'a Client>,
    pub(crate) payload: &'a [u8],
    pub(crate) until: Instant,
    /// Takes what topics capture on the way.
    pub(crate) captured: &'a mut dyn FnMut(&Arc<Binding>, &Message<'_>),
}

/// How a message came into an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Came {
    /// It was published there.
    Published,
    /// As a request, by an imported service.
    ByService,
    /// By an imported stream.
    ByStream,
    /// As the answer to a request.
    ByAnswer,
}

impl Default for Burst {
    fn default() -> Self {
        Self::new(None)
    }
}

impl Burst {
    /// The burst of a connection, which writes its own messages itself.
    pub(super) fn of_client(id: u64) -> Self {
        Self::new(Some(id))
    }

    fn new(own: Option<u64>) -> Self {
        Self {
            read_at: Instant::now(),
            echo: true,
            touched: Vec::new(),
            crowded: None,
            crossings: Vec::new(),
            messages_out: 0,
            bytes_out: 0,
            lookups: 0,
            cache_hits: 0,
            searches: 0,
            timed: 0,
            own,
            passes_over: false,
            passed_over: 0,
        }
    }

    /// Starts the next burst.
    pub(crate) fn begin(&mut self, now: Instant) {
        self.read_at = now;
    }

    #[inline]
    pub(super) fn delivered(&mut self, bytes: usize) {
        self.messages_out += 1;
        self.bytes_out += bytes as u64;
    }

    /// Returns the work since the start, in deliveries. An uncached lookup may visit many nodes.
    #[inline]
    pub(super) fn work(&self) -> u64 {
        self.messages_out + (self.lookups - self.cache_hits + self.searches) * WORK_OF_LOOKUP
    }

    /// Reports whether the burst has lasted for a turn. Reads the clock once per amount of work that a lookup
    /// takes.
    #[inline]
    pub(super) fn is_due(&mut self) -> bool {
        let work = self.work();
        if work - self.timed < WORK_OF_LOOKUP {
            return false;
        }
        self.timed = work;
        self.read_at.elapsed() >= TURN
    }

    /// Counts a lookup, and whether a cache had the answer (1 or 0).
    #[inline]
    pub(super) fn looked_up(&mut self, cache_hits: u64) {
        self.lookups += 1;
        self.cache_hits += cache_hits;
    }

    /// Counts a search that takes as long as an uncached lookup.
    #[inline]
    pub(super) fn searched(&mut self) {
        self.searches += 1;
    }

    /// Sends the contents of the filled buffers, once to each connection.
    pub(crate) fn finish(&mut self, metrics: &NatsMetrics) {
        if self.lookups > 0 {
            metrics.lookups.inc_by(std::mem::take(&mut self.lookups));
            metrics.cache_hits.inc_by(std::mem::take(&mut self.cache_hits));
        }
        if self.messages_out > 0 {
            metrics.messages_out.inc_by(std::mem::take(&mut self.messages_out));
            metrics.bytes_out.inc_by(std::mem::take(&mut self.bytes_out));
        }
        (self.searches, self.timed) = (0, 0);
        let mut bytes = 0;
        let mut touched = std::mem::take(&mut self.touched);
        for (number, client) in touched.drain(..).enumerate() {
            if self.own == Some(client.id) {
                client.out.flush(Writer::Owner, |took| metrics.responded(took));
            } else if number < INLINE_MAX && bytes < INLINE_BYTES_MAX {
                bytes += client.out.pending();
                client.out.flush(Writer::Publisher, |took| metrics.responded(took));
            } else {
                client.out.hand_over();
            }
            self.look_at(&client);
        }
        // The list keeps its capacity.
        self.touched = touched;
    }

    /// Sets whether connections that are far behind are passed over from now on.
    pub(crate) fn pass_over(&mut self, passes_over: bool) {
        self.passes_over = passes_over;
    }

    /// Reports whether this connection is passed over.
    #[inline]
    pub(super) fn is_passed_over(&mut self, client: &Client) -> bool {
        let is_passed_over = self.passes_over && client.out.is_far_behind();
        self.passed_over += u64::from(is_passed_over);
        is_passed_over
    }

    /// Returns the number of deliveries that were skipped since the last call because their receivers are far
    /// behind.
    pub(crate) fn take_passed_over(&mut self) -> u64 {
        std::mem::take(&mut self.passed_over)
    }

    /// Remembers a connection that is behind.
    #[inline]
    pub(super) fn look_at(&mut self, client: &Arc<Client>) {
        if !client.out.is_crowded() {
            return;
        }
        let worse = self.crowded.as_ref().is_none_or(|other| other.out.pending() < client.out.pending());
        if worse {
            self.crowded = Some(Arc::clone(client));
        }
    }

    pub(super) fn is_crowded(&self) -> bool {
        self.crowded.is_some()
    }

    /// Returns the connection that is furthest behind, if any is so far behind that the publisher has to slow
    /// down.
    pub(crate) fn take_crowded(&mut self) -> Option<Crowded> {
        self.crowded.take().map(Crowded)
    }
}

impl Drop for Burst {
    /// Others rely on a burst to send what it and they have put into a buffer. A burst that is dropped
    /// half-way leaves that to the connections themselves.
    fn drop(&mut self) {
        for client in self.touched.drain(..) {
            client.out.hand_over();
        }
    }
}

/// A connection that is behind.
#[derive(Debug)]
pub(crate) struct Crowded(Arc<Client>);

impl Crowded {
    /// Waits until the connection has caught up, for a few milliseconds at most.
    pub(crate) async fn wait(self, metrics: &NatsMetrics) {
        self.wait_further(metrics).await;
    }

    /// The same. Returns the connection if it is still behind.
    pub(crate) async fn wait_further(self, metrics: &NatsMetrics) -> Option<Arc<Client>> {
        if self.0.out.is_crowded() {
            metrics.stalls.inc();
            self.0.out.wait_for_room(STALL_MAX).await;
        }
        self.0.out.is_crowded().then_some(self.0)
    }
}
