//! NATS's monitoring pages: `/varz`, `/connz`, `/subsz` and the others, with nats-server's field names, for the tools that
//! read them.
//!
//! Counters are read where they are; lists are made on a worker thread, so that traffic goes on meanwhile, and are bounded.
//! Deliberately not here: JSONP, secrets, profiles of the process, and `/healthz`, which is about more than NATS.

mod connections;
mod options;
mod others;
mod process;
mod query;
mod subscriptions;
mod time;
mod varz;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;
use tokio::sync::Semaphore;

use self::connections::ClosedList;
use self::process::CpuMeter;
use self::query::{BadQuery, Query};
use crate::NatsServer;
use crate::client::Client;
use crate::close::CloseReason;

/// Entries of a list, if the query does not say.
const LIMIT_DEFAULT: usize = 1024;
/// Entries of a list at most. About half a kilobyte each.
const LIMIT_MAX: usize = 65_536;
/// Lists that are made at once; others wait.
const LISTS_MAX: usize = 2;

/// A page, by the last part of its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Page {
    Varz,
    Connz,
    Subsz,
    Routez,
    Gatewayz,
    Leafz,
    Accountz,
    Accstatz,
    Jsz,
    Stacksz,
    Ipqueuesz,
}

/// Paths of the pages.
const PATHS: &[(&str, Page)] = &[
    ("/varz", Page::Varz),
    ("/connz", Page::Connz),
    ("/subsz", Page::Subsz),
    ("/subscriptionsz", Page::Subsz),
    ("/routez", Page::Routez),
    ("/gatewayz", Page::Gatewayz),
    ("/leafz", Page::Leafz),
    ("/accountz", Page::Accountz),
    ("/accstatz", Page::Accstatz),
    ("/jsz", Page::Jsz),
    ("/stacksz", Page::Stacksz),
    ("/ipqueuesz", Page::Ipqueuesz),
];

/// Pages beside these whose requests are counted, as nats-server does.
const COUNTED: &[&str] = &["/", "/healthz"];

/// Pages that nats-server does not count.
const UNCOUNTED: &[Page] = &[Page::Stacksz, Page::Ipqueuesz];

/// What monitoring remembers between two requests.
#[derive(Debug)]
pub struct Monitor {
    cpu: CpuMeter,
    closed: ClosedList,
    /// Requests, in the order of [`PATHS`].
    requests: [AtomicU64; PATHS.len()],
    /// The same of [`COUNTED`].
    other_requests: [AtomicU64; COUNTED.len()],
    lists: Semaphore,
}

/// An answer.
#[derive(Debug)]
pub enum Answer {
    /// JSON.
    Page(String),
    /// The query cannot be read: why.
    BadQuery(String),
}

impl Monitor {
    pub(crate) fn new() -> Self {
        Self {
            cpu: CpuMeter::new(),
            closed: ClosedList::default(),
            requests: std::array::from_fn(|_| AtomicU64::new(0)),
            other_requests: std::array::from_fn(|_| AtomicU64::new(0)),
            lists: Semaphore::new(LISTS_MAX),
        }
    }

    /// Takes note of a connection that has ended.
    pub(crate) fn ended(&self, client: &Client, reason: CloseReason) {
        self.closed.add(client, reason);
    }

    /// Counts a request for `/` or `/healthz`, which are answered elsewhere.
    pub fn asked_for(&self, path: &str) {
        if let Some(at) = COUNTED.iter().position(|known| *known == path) {
            self.other_requests[at].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Paths that were asked for, and how often.
    fn request_counts(&self) -> BTreeMap<&'static str, u64> {
        let pages = PATHS.iter().map(|(path, _)| *path).zip(&self.requests);
        let counts = pages.chain(COUNTED.iter().copied().zip(&self.other_requests));
        let counts = counts.map(|(path, count)| (path, count.load(Ordering::Relaxed)));
        counts.filter(|(_, count)| *count > 0).collect()
    }
}

/// All paths, for the page that lists them.
pub fn paths() -> impl Iterator<Item = &'static str> {
    PATHS.iter().map(|(path, _)| *path)
}

/// The answer to a request; `None` if the path is none of these.
pub async fn respond(server: &Arc<NatsServer>, path: &str, query: &str) -> Option<Answer> {
    let at = PATHS.iter().position(|(known, _)| *known == path)?;
    let monitor = server.front.monitor();
    if !UNCOUNTED.contains(&PATHS[at].1) {
        monitor.requests[at].fetch_add(1, Ordering::Relaxed);
    }
    let query = Query::parse(query);
    let front = &server.front;
    let made = match PATHS[at].1 {
        Page::Varz => text(&varz::page(server, monitor)),
        Page::Connz => {
            listed(server, move |server| {
                connections::page(&server.front, &server.front.monitor().closed, &query)
                    .and_then(|page| text(&page))
            })
            .await
        }
        Page::Subsz => {
            listed(server, move |server| {
                subscriptions::page(&server.front, &query).and_then(|page| text(&page))
            })
            .await
        }
        Page::Routez => others::routez(front, &query).and_then(|page| text(&page)),
        Page::Gatewayz => others::gatewayz(front, &query).and_then(|page| text(&page)),
        Page::Leafz => others::leafz(front, &query).and_then(|page| text(&page)),
        Page::Accountz => others::accountz(front, &query).and_then(|page| text(&page)),
        Page::Accstatz => others::accstatz(front, &query).and_then(|page| text(&page)),
        Page::Jsz => others::jsz(front, &query).and_then(|page| text(&page)),
        Page::Stacksz => listed(server, |_| Ok(process::threads())).await,
        Page::Ipqueuesz => others::ipqueuesz(&query).and_then(|page| text(&page)),
    };
    Some(made.map_or_else(|BadQuery(reason)| Answer::BadQuery(reason), Answer::Page))
}

/// Makes a page on a worker thread.
async fn listed(
    server: &Arc<NatsServer>,
    make: impl FnOnce(&NatsServer) -> Result<String, BadQuery> + Send + 'static,
) -> Result<String, BadQuery> {
    // The semaphore is never closed.
    let _place = server.front.monitor().lists.acquire().await;
    let server = Arc::clone(server);
    let made = tokio::task::spawn_blocking(move || make(&server)).await;
    made.unwrap_or_else(|_| Err(BadQuery("the page could not be made".to_owned())))
}

fn text<T: Serialize>(page: &T) -> Result<String, BadQuery> {
    // Indented, as people who use curl expect it.
    serde_json::to_string_pretty(page).map_err(|error| BadQuery(error.to_string()))
}
