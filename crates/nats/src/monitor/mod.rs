//! NATS's monitoring pages: `/varz`, `/connz`, `/subsz` and others, with nats-server's field names, for the
//! tools that read them.
//!
//! Counters are read in place. Lists are bounded, and made on a worker thread, so that traffic continues
//! meanwhile. Out of scope: JSONP, secrets, profiles of the process, and `/healthz`, which concerns more than
//! NATS.

mod accounts;
mod closed;
mod connection_info;
mod connections;
mod jetstream;
mod options;
mod others;
mod page;
mod process;
mod query;
mod remembered;
mod subscription_info;
mod subscriptions;
mod varz;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use tailrace_env::task;

use serde::Serialize;

pub(crate) use self::accounts::{account_info, account_statistics};
use self::page::{PATHS, Page, UNCOUNTED};
use self::query::{BadQuery, Query};
pub use self::remembered::Monitor;
use crate::account::Account;
use crate::server::NatsServer;

/// The answer to a request.
#[derive(Debug)]
pub enum MonitorAnswer {
    /// A JSON page.
    Page(String),
    /// The query is invalid, with the reason.
    BadQuery(String),
    /// A bug in the server. Its log has the details.
    Failed,
}

/// All paths, for the page that lists them.
pub fn paths() -> impl Iterator<Item = &'static str> {
    PATHS.iter().map(|(path, _)| *path)
}

/// Answers a request. `None` if the path is unknown.
pub async fn respond(server: &Arc<NatsServer>, path: &str, query: &str) -> Option<MonitorAnswer> {
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
            let listed = listed(server, move |server| {
                connections::page(&server.front, &server.front.monitor().closed, &query)
                    .and_then(|page| text(&page))
            });
            return Some(listed.await);
        }
        Page::Subsz => {
            let listed = listed(server, move |server| {
                subscriptions::page(&server.front, &query).and_then(|page| text(&page))
            });
            return Some(listed.await);
        }
        Page::Routez => others::routez(front, &query).and_then(|page| text(&page)),
        Page::Gatewayz => others::gatewayz(front, &query).and_then(|page| text(&page)),
        Page::Leafz => others::leafz(front, &query).and_then(|page| text(&page)),
        Page::Accountz => accounts::accountz(front, &query).and_then(|page| text(&page)),
        Page::Accstatz => accounts::accstatz(front, &query).and_then(|page| text(&page)),
        Page::Jsz => jetstream::jsz(server, &query).and_then(|page| text(&page)),
        Page::Stacksz => return Some(listed(server, |_| Ok(process::threads())).await),
        Page::Ipqueuesz => others::ipqueuesz(&query).and_then(|page| text(&page)),
    };
    Some(answer(made))
}

fn answer(made: Result<String, BadQuery>) -> MonitorAnswer {
    made.map_or_else(|BadQuery(reason)| MonitorAnswer::BadQuery(reason), MonitorAnswer::Page)
}

/// Counts clients' subscriptions in an account: those that get what is published to the subject, or that are
/// within it if it is a pattern. `None` after a bug in the server, which is in its log.
pub(crate) async fn count_subscribers(
    server: &Arc<NatsServer>,
    account: &Arc<Account>,
    subject: &str,
    queue: Option<&[u8]>,
) -> Option<String> {
    let (account, subject, queue) = (Arc::clone(account), subject.to_owned(), queue.map(<[u8]>::to_vec));
    let count =
        move |_: &NatsServer| Ok(subscriptions::count(&account, &subject, queue.as_deref()).to_string());
    match listed(server, count).await {
        MonitorAnswer::Page(count) => Some(count),
        MonitorAnswer::BadQuery(_) | MonitorAnswer::Failed => None,
    }
}

/// Makes a page on a worker thread.
async fn listed(
    server: &Arc<NatsServer>,
    make: impl FnOnce(&NatsServer) -> Result<String, BadQuery> + Send + 'static,
) -> MonitorAnswer {
    // The semaphore is never closed.
    let _place = server.front.monitor().lists.acquire().await;
    let server = Arc::clone(server);
    let made = task::spawn_blocking(move || make(&server)).await;
    made.map_or_else(
        |error| {
            tracing::error!(%error, "a bug in the server: making a page panicked");
            MonitorAnswer::Failed
        },
        answer,
    )
}

fn text<T: Serialize>(page: &T) -> Result<String, BadQuery> {
    // Indented for people who use curl.
    serde_json::to_string_pretty(page).map_err(|error| BadQuery(error.to_string()))
}
