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
use crate::burst::{Burst, Came, Crossing, Journey};
use crate::capture::Binding;
use crate::client::Client;

/// Most accounts that a message passes one after the other. The imports form no cycle, so this bounds work,
/// not correctness.
const DEPTH_MAX: usize = 10;

/// Most times that one message is published again, however its imports branch.
const CROSSINGS_MAX: usize = 1024;

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

    fn came(&self) -> Came {
        match self.way {
            Way::Stream(_) => Came::ByStream,
            Way::Service { .. } => Came::ByService,
            Way::Answers(_) => Came::ByAnswer,
        }
    }

    fn take(&self, origin: Option<&Client>, message: &Message<'_>) -> Option<Crossed> {
        let reply = || message.reply.map(<[u8]>::to_vec);
        let headers = || message.headers.map(<[u8]>::to_vec);
        match &self.way {
            Way::Stream(import) => {
                let (account, subject) = (self.to.upgrade()?, import.to_local(message.subject)?);
                let (reply, headers) = (reply(), headers());
                Some(Crossed { account, subject, reply, may_acknowledge: false, headers })
            }
            Way::Service { import, from } => {
                let (account, from) = (self.to.upgrade()?, from.upgrade()?);
                let subject = import.to_exported(message.subject)?;
                let reply = match message.reply {
                    Some(reply) => Some(account.replies()?.expect(&from, reply, import)?),
                    None => None,
                };
                let headers = request_info::added(message.headers, &from, origin, import.shares());
                Some(Crossed { account, subject, reply, may_acknowledge: true, headers: Some(headers) })
            }
            Way::Answers(replies) => {
                let (account, subject) = replies.take(message)?;
                let (reply, headers) = (reply(), headers());
                Some(Crossed { account, subject, reply, may_acknowledge: false, headers })
            }
        }
    }
}

impl Crossing for Passage {
    fn is_for_other_nodes(&self) -> bool {
        matches!(self.way, Way::Answers(_))
    }

    fn cross(&self, burst: &mut Burst, message: &Message<'_>, journey: &mut Journey<'_>) -> usize {
        if !self.follows(journey.came) {
            return 0;
        }
        let Some(crossed) = self.take(journey.origin, message) else { return 0 };
        journey.left -= 1;
        let there = Message {
            subject: &crossed.subject,
            reply: crossed.reply.as_deref(),
            headers: crossed.headers.as_deref(),
            payload: message.payload,
        };
        let reply = there.reply.filter(|_| crossed.may_acknowledge);
        let kept = Message { reply, ..there };
        let (router, captured) = (crossed.account.router(), &mut journey.captured);
        let deliveries = router.publish_of(burst, journey.origin, &there, |binding| captured(binding, &kept));
        let came = std::mem::replace(&mut journey.came, self.came());
        journey.depth -= 1;
        let further = cross_on(burst, &there, journey);
        journey.depth += 1;
        journey.came = came;
        deliveries + further
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

/// Publishes a message in the other accounts to which it crosses, as the lookup has found. Topics that
/// capture it there get it as it is there. Returns the number of receivers.
#[cold]
pub(crate) fn cross(
    burst: &mut Burst,
    origin: Option<&Client>,
    message: &Message<'_>,
    captured: &mut dyn FnMut(&Arc<Binding>, &Message<'_>),
) -> usize {
    cross_on(
        burst,
        message,
        &mut Journey { origin, captured, came: Came::Published, depth: DEPTH_MAX, left: CROSSINGS_MAX },
    )
}

fn cross_on(burst: &mut Burst, message: &Message<'_>, journey: &mut Journey<'_>) -> usize {
    let mut deliveries = 0;
    for crossing in std::mem::take(&mut burst.crossings) {
        if journey.depth == 0 || journey.left == 0 {
            break;
        }
        deliveries += crossing.cross(burst, message, journey);
    }
    deliveries
}
