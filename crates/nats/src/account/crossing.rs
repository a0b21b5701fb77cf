//! How messages of one account reach another: by imports of streams and services, and by the answers of
//! services.
//!
//! An import is a target in the matcher of the account where the messages are: of a stream, in the exporting
//! account; of a service, in the importing one. What it matches is published again in the other account,
//! under the mapped subject, by the node where it was published first. So other nodes need nothing but the
//! usual interest in that account.

use std::sync::{Arc, Weak};

use tailrace_env::sync::oneshot;
use tailrace_env::time::Duration;
use tailrace_identity::nats_accounts::{ServiceImport, StreamImport};
use tailrace_nats_wire::Message;
use tailrace_subjects::{Dialect, Pattern, SubscribeError};

use super::replies::Replies;
use super::{Account, request_info};
use crate::burst::{Arrival, Came, Crossing, CrossingTurn};
use crate::client::Client;
use crate::fan_out::{FanOut, Turn};
use crate::router::Begun;

/// A way from one account to another.
pub(super) struct Passage {
    to: Weak<Account>,
    way: Way,
}

enum Way {
    Stream(Arc<StreamImport>),
    /// A request, of the account `from`.
    Service {
        import: Arc<ServiceImport>,
        from: Weak<Account>,
    },
    /// Answers to requests that came by [`Way::Service`].
    Answers(Arc<Replies<Account>>),
}

/// A message in the account to which it crosses.
struct Crossed {
    account: Arc<Account>,
    subject: Vec<u8>,
    reply: Option<Vec<u8>>,
    /// Whether topics may acknowledge it. The reply subject of a stream was named in another account, where
    /// it means something else.
    may_acknowledge: bool,
    headers: Option<Vec<u8>>,
    came: Came,
    /// Set while it is delivered to very many subscriptions.
    fan_out: Option<Box<FanOut>>,
}

impl Passage {
    pub(super) fn of_stream(import: &Arc<StreamImport>, to: &Arc<Account>) -> Self {
        Self { to: Arc::downgrade(to), way: Way::Stream(Arc::clone(import)) }
    }

    pub(super) fn of_service(import: &Arc<ServiceImport>, from: &Arc<Account>, to: &Arc<Account>) -> Self {
        let (import, from) = (Arc::clone(import), Arc::downgrade(from));
        Self { to: Arc::downgrade(to), way: Way::Service { import, from } }
    }

    fn of_answers(replies: &Arc<Replies<Account>>) -> Self {
        Self { to: Weak::new(), way: Way::Answers(Arc::clone(replies)) }
    }

    /// Reports whether a message that came like this goes on. What came by a stream, or as an answer, is no
    /// request: neither the publisher nor the account has asked the service, and the rules of the cluster
    /// were asked only about chains of one kind (`auth::rights::images`).
    fn follows(&self, came: Came) -> bool {
        !matches!(self.way, Way::Service { .. }) || matches!(came, Came::Published | Came::ByService)
    }

    fn cross(&self, origin: Option<&Client>, message: &Message<'_>) -> Option<Crossed> {
        let reply = message.reply.map(<[u8]>::to_vec);
        let headers = message.headers.map(<[u8]>::to_vec);
        let crossed = |account, subject, came| Crossed {
            account,
            subject,
            reply,
            may_acknowledge: false,
            headers,
            came,
            fan_out: None,
        };
        match &self.way {
            Way::Stream(import) => {
                Some(crossed(self.to.upgrade()?, import.to_local(message.subject)?, Came::ByStream))
            }
            Way::Service { import, from } => {
                let (account, from) = (self.to.upgrade()?, from.upgrade()?);
                let subject = import.to_exported(message.subject)?;
                let reply = match message.reply {
                    Some(reply) => Some(account.replies()?.expect(&from, reply, import)?),
                    None => None,
                };
                let headers = Some(request_info::added(message.headers, &from, origin, import.shares()));
                let crossed = crossed(account, subject, Came::ByService);
                Some(Crossed { reply, may_acknowledge: true, headers, ..crossed })
            }
            Way::Answers(replies) => {
                let (account, subject) = replies.take(message)?;
                Some(crossed(account, subject, Came::ByAnswer))
            }
        }
    }
}

impl Crossing for Passage {
    fn is_for_other_nodes(&self) -> bool {
        matches!(self.way, Way::Answers(_))
    }

    fn take(&self, origin: Option<&Client>, message: &Message<'_>, came: Came) -> Option<Box<dyn Arrival>> {
        if !self.follows(came) {
            return None;
        }
        Some(Box::new(self.cross(origin, message)?))
    }
}

impl Arrival for Crossed {
    fn came(&self) -> Came {
        self.came
    }

    fn message<'m>(&'m self, payload: &'m [u8]) -> Message<'m> {
        let (reply, headers) = (self.reply.as_deref(), self.headers.as_deref());
        Message { subject: &self.subject, reply, headers, payload }
    }

    fn go_on(&mut self, turn: CrossingTurn<'_>) -> Option<usize> {
        let CrossingTurn { burst, origin, payload, until, captured } = turn;
        let (account, fan_out) = (Arc::clone(&self.account), self.fan_out.take());
        let message = self.message(payload);
        let kept = Message { reply: message.reply.filter(|_| self.may_acknowledge), ..message };
        let mut captured = |binding: &_| captured(binding, &kept);
        let mut under_way = match fan_out {
            Some(fan_out) => fan_out,
            None => match account.router().begin_crossed(burst, origin, &message, &mut captured) {
                Begun::Done(deliveries) => return Some(deliveries),
                Begun::Wide(targets) => Box::new(FanOut::new(targets)),
            },
        };
        let turn = Turn { burst, origin, message: &message, here: None, until };
        let done = under_way.go_on(account.router(), turn, captured);
        if done.is_none() {
            self.fan_out = Some(under_way);
        }
        done
    }
}

impl Account {
    /// Begins a question of the server itself: returns its reply subject, and where the answer comes. `None`
    /// if too many requests wait.
    pub(crate) fn ask(self: &Arc<Self>, patience: Duration) -> Option<(Vec<u8>, oneshot::Receiver<Vec<u8>>)> {
        self.answer_others();
        self.replies()?.ask(patience)
    }

    /// Accepts answers to requests from other accounts.
    pub(super) fn answer_others(self: &Arc<Self>) {
        if self.replies.get().is_none() {
            let replies = Arc::clone(self.replies.get_or_init(|| Arc::new(Replies::new())));
            let pattern = Pattern::parse(Dialect::Nats, replies.pattern(), self.router.limits());
            let linked = pattern.map_err(SubscribeError::from).and_then(|pattern| {
                self.router.link(&pattern, Arc::new(Passage::of_answers(&replies)), true)
            });
            // It stays as long as the account.
            if let Err(error) = linked {
                tracing::error!(account = %self.name, %error, "services of an account cannot answer others");
            }
        }
    }
}
