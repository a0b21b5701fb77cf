//! How far the login of a connection has come.

use std::sync::Arc;
use tailrace_env::time::{Duration, Instant};

use tailrace_identity::UserName;
use tailrace_node::access::{CertificateRefused, LoggedIn, PendingLogin};
use tailrace_node::{Caller, Node};
use tailrace_types::TimestampMs;

use super::exchange::{Exchange, Failed, Mechanism};

/// Least time between two logins on one connection, as in Kafka.
const LOGIN_INTERVAL: Duration = Duration::from_secs(1);
/// The name of logins by certificate, beside those of the mechanisms.
const CERTIFICATE: &str = "certificate";
/// The mechanism of logins with tokens of others.
const OAUTHBEARER: &str = "OAUTHBEARER";

/// How tokens travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// In SaslAuthenticate requests.
    Requests,
    /// As frames without a header (version 0 of SaslHandshake).
    Naked,
}

/// A login in progress.
#[derive(Debug)]
pub(super) struct Started {
    pub(super) mechanism: Mechanism,
    pub(super) framing: Framing,
    pub(super) exchange: Exchange,
    /// The login before, which this one continues.
    pub(super) before: Option<Done>,
}

/// A login that succeeded.
#[derive(Debug)]
pub(super) struct Done {
    mechanism: &'static str,
    login: LoggedIn,
    /// When it was made.
    since: Instant,
    /// When the client must have logged in again.
    pub(super) ends: Option<Instant>,
    /// The version of users and rules for which the login was last found to hold.
    version: u64,
    /// When the credential ends by itself, as far as it is known.
    until: Option<TimestampMs>,
}

impl Done {
    pub(super) fn new(mechanism: &'static str, login: LoggedIn, lifetime: Option<Duration>) -> Self {
        let since = Instant::now();
        // Not the current version: the credential may have changed since it was checked.
        Self { mechanism, login, since, ends: lifetime.map(|left| since + left), version: 0, until: None }
    }

    /// Reports whether the user still has the credential of this login.
    pub(super) fn holds(&mut self, node: &Node) -> bool {
        let version = node.access_version();
        if self.version == version && self.until.is_none_or(|until| node.now() < until) {
            return true;
        }
        if !node.login_holds(&self.login) {
            return false;
        }
        (self.version, self.until) = (version, self.ended_by_server(node));
        true
    }

    /// Returns when the server must end the session, whatever the client does. A token of OAUTHBEARER ends
    /// only the right to send further requests: its client may be about to log in again.
    fn ended_by_server(&self, node: &Node) -> Option<TimestampMs> {
        node.login_end(&self.login).filter(|_| self.mechanism != OAUTHBEARER)
    }

    /// Reports whether the login was made with a delegation token.
    pub(super) fn is_delegated(&self) -> bool {
        self.login.is_delegated()
    }

    /// Reports whether the login was made by TLS. Then a login with SASL may follow, and replaces it.
    pub(super) fn is_by_certificate(&self) -> bool {
        self.mechanism == CERTIFICATE
    }

    /// Reports whether the client may log in again.
    pub(super) fn may_repeat(&self) -> bool {
        self.ends.is_some() && self.since.elapsed() >= LOGIN_INTERVAL
    }

    /// Checks that another login is for the same user, with the same mechanism.
    pub(super) fn check(&self, mechanism: &'static str, login: &LoggedIn) -> Result<(), Failed> {
        if mechanism != self.mechanism {
            return Err(Failed::other_mechanism(mechanism, self.mechanism));
        }
        if login.user() != self.login.user() {
            return Err(Failed::other_user(self.login.user().as_str(), login.user().as_str()));
        }
        Ok(())
    }
}

/// How far a login has come.
#[derive(Debug)]
pub(super) enum Progress {
    /// It has not begun.
    None,
    /// Tokens are expected.
    Started(Box<Started>),
    /// A token is being checked, or the connection is about to be closed.
    Busy,
    /// It succeeded.
    Done(Done),
}

/// The login of one connection.
#[derive(Debug)]
pub(crate) struct Login {
    /// Whether nothing can be done without one.
    pub(super) is_required: bool,
    pub(super) progress: Progress,
    /// Why the client's certificate names no user. Then the client must log in with SASL.
    pub(super) nameless: Option<CertificateRefused>,
    /// The place of the connection among those that have not logged in, if a login is required.
    place: Option<PendingLogin>,
    /// When the login must be complete. `None` if none is due.
    due: Option<Instant>,
    time: Duration,
}

impl Login {
    /// The login of a new connection, which has `time` for it. `place` is given if a login is required.
    pub(crate) fn new(place: Option<PendingLogin>, time: Duration) -> Self {
        let is_required = place.is_some();
        let due = is_required.then(|| Instant::now() + time);
        Self { is_required, progress: Progress::None, nameless: None, place, due, time }
    }

    /// Logs a client in by its certificate (DER), which TLS has accepted. If it names no user, the client
    /// must log in with SASL before it can do anything: it must not be ANONYMOUS by showing the wrong
    /// certificate.
    pub(crate) fn identify(&mut self, node: &Node, caller: &Caller, certificate: &[u8]) {
        match node.certificate_login(certificate) {
            Ok(logged_in) => {
                let caller = caller.clone().as_user(logged_in.user().clone().into());
                node.login_succeeded(&caller, CERTIFICATE);
                self.finish(Done::new(CERTIFICATE, logged_in, None));
            }
            Err(reason) => {
                (self.is_required, self.nameless) = (true, Some(reason));
                self.due.get_or_insert_with(|| Instant::now() + self.time);
            }
        }
    }

    /// Reports whether the client is logged in with a delegation token.
    pub(crate) fn is_delegated(&self) -> bool {
        match &self.progress {
            Progress::Done(done) => done.is_delegated(),
            Progress::None | Progress::Started(_) | Progress::Busy => false,
        }
    }

    /// Returns the user who is logged in.
    pub(crate) fn user(&self) -> Option<&UserName> {
        match &self.progress {
            Progress::Done(done) => Some(done.login.user()),
            Progress::None | Progress::Started(_) | Progress::Busy => None,
        }
    }

    /// Reports whether the connection must be bounded like one of a stranger.
    pub(crate) fn is_due(&self) -> bool {
        self.due.is_some()
    }

    /// Reports whether the time for the login has passed.
    pub(crate) fn is_late(&self) -> bool {
        self.due.is_some_and(|due| Instant::now() >= due)
    }

    /// Reports whether a login no longer holds.
    pub(crate) fn is_revoked(&mut self, node: &Arc<Node>) -> bool {
        match &mut self.progress {
            Progress::Done(done) => !done.holds(node),
            Progress::None | Progress::Started(_) | Progress::Busy => false,
        }
    }

    pub(super) fn expects_naked_frame(&self) -> bool {
        matches!(&self.progress, Progress::Started(started) if started.framing == Framing::Naked)
    }

    pub(super) fn has_started(&self) -> bool {
        matches!(self.progress, Progress::Started(_))
    }

    pub(super) fn start(&mut self, mechanism: Mechanism, framing: Framing, before: Option<Done>) {
        let exchange = Exchange::new(mechanism);
        self.due.get_or_insert_with(|| Instant::now() + self.time);
        self.progress = Progress::Started(Box::new(Started { mechanism, framing, exchange, before }));
    }

    /// Takes the login in progress out, while its token is checked.
    pub(super) fn take_started(&mut self) -> Option<Box<Started>> {
        match std::mem::replace(&mut self.progress, Progress::Busy) {
            Progress::Started(started) => Some(started),
            other => {
                self.progress = other;
                None
            }
        }
    }

    pub(super) fn finish(&mut self, done: Done) {
        (self.progress, self.place, self.due) = (Progress::Done(done), None, None);
    }
}
