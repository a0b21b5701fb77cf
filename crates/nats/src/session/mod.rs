//! The verbs of one client: turns parsed operations into subscriptions, deliveries and replies.
//!
//! The connection's task owns the session, and nothing here waits. Work that has to wait (credentials that
//! are slow to check, capture, slow consumers) is passed to the connection.

mod connect;
mod process;
mod publish;
mod subscribe;

use std::collections::HashMap;
use std::sync::Arc;

use tailrace_env::time::Instant;
use tailrace_nats_wire::{ClientParser, ConnectOptions, Limits, ParseError, ProtocolError, write_error};

use crate::account::Membership;
use crate::auth::{Asker, Permissions, TurnSubjects};
use crate::burst::Burst;
use crate::capture::CaptureBurst;
use crate::client::Client;
use crate::close::CloseReason;
use crate::front::NatsFront;
use crate::jetstream::Requests;
use crate::router::{Route, Router};
use crate::shapes::{Held, Shapes};
use crate::spread::Spread;
use crate::subscription::Sid;
use crate::system::Questions;
use crate::target::Target;

/// The state of one client.
pub(super) struct Session {
    client: Arc<Client>,
    /// The account of its user. Until the client is authenticated, it counts for nothing.
    membership: Membership,
    /// Largest message, and most subscriptions, by the server and by the account.
    payload_max: usize,
    subscriptions_max: usize,
    parser: ClientParser,
    options: ConnectOptions,
    /// Whether the credentials of every CONNECT are checked.
    asks_who: bool,
    /// Whether the client has not authenticated yet.
    unauthenticated: bool,
    /// Whether the client has sent CONNECT.
    connected: bool,
    info_sent: bool,
    permissions: Option<Arc<Permissions>>,
    turn_subjects: TurnSubjects,
    asker: Asker,
    /// Requests to the server itself.
    questions: Questions,
    /// Requests to JetStream's API.
    api_calls: Requests,
    /// Subscriptions that the rules may no longer allow.
    unchecked: Vec<Sid>,
    subscriptions: HashMap<Sid, Owned>,
    shapes: Shapes,
    next_number: u64,
    /// Sids by number, for subscriptions with a limit.
    limited: HashMap<u64, Sid>,
    pub(super) burst: Burst,
    pub(super) capture: CaptureBurst,
    /// The first message of the input, if it is being delivered to very many subscriptions.
    wide: Option<Wide>,
    messages_in: u64,
    bytes_in: u64,
    /// Bytes of operations that publish, for quotas.
    published_bytes: u64,
    pub(super) pings_unanswered: u32,
    ping_sent: Option<Instant>,
}

struct Owned {
    /// Its pattern, if a rule may take its permission away.
    pattern: Option<Box<[u8]>>,
    target: Arc<Target>,
    route: Route,
    shape: Held,
}

struct Wide {
    spread: Box<Spread>,
    /// Whether a topic acknowledges the message.
    acknowledged: bool,
    /// Whether topics may answer to its reply subject.
    may_acknowledge: bool,
}

/// What the connection has to do next.
#[derive(Debug)]
pub(super) enum Next {
    /// Read on. The operation that has started needs this many bytes in total.
    Read(usize),
    /// Append captured messages, answer PING, then continue with the rest of the input.
    Pong,
    /// Check these credentials, then continue with the rest of the input.
    Authenticate(Box<ConnectOptions>),
    /// Let other tasks have a turn, then continue with the rest of the input.
    Rest,
    /// The same, but the first operation is not done and is read again.
    Again,
    /// Send what is left, and close.
    Close(CloseReason),
}

/// Operations after which the clock is checked.
const OPERATIONS_AT_ONCE: usize = 8;

/// Bytes after which the clock is checked. A subject of 2,000 words takes much longer than one of three.
const BYTES_AT_ONCE: usize = 4096;

/// Deliveries after which the clock is checked.
const WORK_AT_ONCE: u64 = 64;

impl Session {
    pub(super) fn new(front: &NatsFront, client: &Arc<Client>, asker: Asker) -> Self {
        let limits = front.limits();
        let parser = ClientParser::new(Limits {
            control_line_max: limits.control_line_max,
            payload_max: limits.payload_max,
        });
        Self {
            client: Arc::clone(client),
            membership: match front.auth().checks() {
                true => front.accounts().global().visit(),
                false => front.accounts().global().join(),
            },
            payload_max: limits.payload_max,
            subscriptions_max: limits.subscriptions_max,
            parser,
            options: ConnectOptions::default(),
            asks_who: front.auth().checks(),
            unauthenticated: front.auth().checks(),
            connected: false,
            info_sent: false,
            permissions: None,
            turn_subjects: TurnSubjects::default(),
            asker,
            questions: Questions::default(),
            api_calls: Requests::default(),
            unchecked: Vec::new(),
            subscriptions: HashMap::new(),
            shapes: Shapes::default(),
            next_number: 0,
            limited: HashMap::new(),
            burst: Burst::of_client(client.id),
            capture: CaptureBurst::default(),
            wide: None,
            messages_in: 0,
            bytes_in: 0,
            published_bytes: 0,
            pings_unanswered: 0,
            ping_sent: None,
        }
    }

    /// Reports whether the last burst left work that has to wait.
    pub(super) fn has_to_wait(&self) -> bool {
        !self.capture.is_empty() || self.burst.is_crowded()
    }

    fn router(&self) -> &Router {
        self.membership.account().router()
    }

    pub(super) fn asker(&self) -> &Asker {
        &self.asker
    }

    pub(super) fn is_unauthenticated(&self) -> bool {
        self.unauthenticated
    }

    #[inline]
    fn ok(&self) {
        if self.options.verbose {
            self.client.out.append_control(|out| out.extend_from_slice(b"+OK\r\n"));
        }
    }

    fn error(&self, error: &ProtocolError) {
        self.client.out.append_control(|out| write_error(out, error));
    }

    fn fail(&self, error: &ProtocolError, reason: CloseReason) -> Next {
        self.error(error);
        Next::Close(reason)
    }

    fn refuse(&self, error: &ParseError) -> Next {
        tracing::debug!(client = self.client.id, %error, "protocol violation");
        match error {
            ParseError::UnknownOperation(_) | ParseError::PayloadEnd => {
                self.fail(&ProtocolError::UnknownOperation, CloseReason::Protocol)
            }
            ParseError::ControlLine { .. } => {
                self.fail(&ProtocolError::MaximumControlLine, CloseReason::MaximumControlLine)
            }
            ParseError::Payload { .. } => {
                self.fail(&ProtocolError::MaximumPayload, CloseReason::MaximumPayload)
            }
            // nats-server sends no error either.
            ParseError::Arguments { .. } | ParseError::HeadersNotAllowed => {
                Next::Close(CloseReason::Protocol)
            }
        }
    }
}

impl Owned {
    fn has_ended(&self) -> bool {
        matches!(&*self.target, Target::Client(subscription) if subscription.has_ended())
    }
}
