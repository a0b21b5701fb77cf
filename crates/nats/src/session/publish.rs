//! PUB and HPUB: deliveries, captures and the replies to them.

use std::sync::Arc;

use tailrace_env::aside::TURN;
use tailrace_env::time::Instant;
use tailrace_identity::acl::Access;
use tailrace_identity::nats_accounts::callout::CALLOUT_SUBJECT;
use tailrace_nats_wire::{Message, NO_RESPONDERS, ProtocolError};

use super::{Next, Session, Wide};
use crate::account::{Account, without_request_info};
use crate::auth::{Permissions, ReplyRight};
use crate::capture::Binding;
use crate::close::CloseReason;
use crate::fan_out::Turn;
use crate::front::NatsFront;
use crate::jetstream::{ApiCall, Taken, TooMany};
use crate::mapping;
use crate::reserved;
use crate::router::{Begun, deliver_status};
use crate::spread::Spread;
use crate::system::Question;
use crate::target::Target;
use crate::trace::Trace;

impl Session {
    /// Publishes without what a client may not say of itself to services of other accounts.
    #[cold]
    pub(super) fn publish_honestly(
        &mut self,
        front: &NatsFront,
        message: &Message<'_>,
        until: Instant,
    ) -> Option<Next> {
        let headers = message.headers.map(without_request_info);
        self.publish(front, &Message { headers: headers.as_deref(), ..*message }, until)
    }

    #[inline]
    pub(super) fn publish(
        &mut self,
        front: &NatsFront,
        message: &Message<'_>,
        until: Instant,
    ) -> Option<Next> {
        if let Some(wide) = self.wide.take() {
            return self.spread(front, message, wide, until);
        }
        if self.options.pedantic && !is_literal(message.subject) {
            self.error(&ProtocolError::InvalidPublishSubject);
        }
        if message.payload.len() + message.headers.map_or(0, <[u8]>::len) > self.payload_max {
            return Some(self.fail(&ProtocolError::MaximumPayload, CloseReason::MaximumPayload));
        }
        let trace = message.headers.map_or(Trace::None, Trace::of);
        match trace {
            Trace::To { destination, .. } if !self.may_publish(destination) => {
                self.refuse_publish(destination);
                return None;
            }
            Trace::Nowhere => return None,
            Trace::To { .. } | Trace::None => {}
        }
        self.messages_in += 1;
        self.bytes_in += (message.payload.len() + message.headers.map_or(0, <[u8]>::len)) as u64;
        if !self.may_publish(message.subject) {
            self.refuse_publish(message.subject);
            return None;
        }
        if let Some(reply) = message.reply.filter(|reply| reserved::is_reply(reply)) {
            self.error(&ProtocolError::reply_permission(reply));
            return None;
        }
        if message.subject == CALLOUT_SUBJECT.as_bytes() && self.is_kept_from_callout(front) {
            self.refuse_publish(message.subject);
            return None;
        }
        let may_acknowledge = self.may_reply_and_use_key(message)?;
        self.ok();
        if message.subject.starts_with(b"$SYS.REQ.") && may_acknowledge && self.asks_server(front, message) {
            return None;
        }
        if matches!(trace, Trace::To { only: true, .. }) {
            self.dry_run(front, message);
            return None;
        }
        if message.subject.starts_with(b"$JS.") && self.asks_jetstream(front, message, may_acknowledge) {
            return None;
        }
        let (capture, mut acknowledged) = (&mut self.capture, false);
        let router = self.membership.account().router();
        let begun = router.begin_publish(&mut self.burst, &self.client, message, |binding| {
            acknowledged |= binding.acknowledges();
            capture.push(binding, &captured(message, may_acknowledge));
        });
        let spread = match begun {
            Begun::Done(receivers) if self.burst.crossings.is_empty() => {
                self.published(front, message, receivers, acknowledged);
                return None;
            }
            Begun::Done(receivers) => Spread::crossing(&mut self.burst, receivers),
            Begun::Wide(targets) => Spread::wide(targets),
        };
        self.spread(front, message, Wide { spread: Box::new(spread), acknowledged, may_acknowledge }, until)
    }

    /// Delivers for one turn to very many subscriptions, or in other accounts. The others follow in later
    /// turns.
    #[cold]
    fn spread(
        &mut self,
        front: &NatsFront,
        message: &Message<'_>,
        mut wide: Wide,
        until: Instant,
    ) -> Option<Next> {
        let turn = Turn { burst: &mut self.burst, origin: Some(&self.client), message, here: None, until };
        let Wide { spread, acknowledged, may_acknowledge } = &mut wide;
        let capture = &mut self.capture;
        let mut captured = |binding: &Arc<Binding>, there: Option<&Message<'_>>| {
            *acknowledged |= binding.acknowledges();
            match there {
                None => capture.push(binding, &captured(message, *may_acknowledge)),
                Some(there) => {
                    capture.end_message();
                    capture.push(binding, &captured(there, *may_acknowledge));
                    capture.end_message();
                }
            }
        };
        let done = spread.go_on(self.membership.account().router(), turn, &mut captured);
        let Some(receivers) = done else {
            self.wide = Some(wide);
            return Some(Next::Again);
        };
        self.published(front, message, receivers, wide.acknowledged);
        None
    }

    /// Takes a request to the server itself. Reports whether it is one.
    #[cold]
    fn asks_server(&mut self, front: &NatsFront, message: &Message<'_>) -> bool {
        message.reply.is_none_or(|reply| self.may_name(reply))
            && self.questions.take(front, self.membership.account(), &self.client, message)
    }

    /// Reports whether the server may answer to a subject: the client must be allowed to say or hear
    /// something there.
    fn may_name(&self, reply: &[u8]) -> bool {
        let may = |user: &Arc<Permissions>| user.may_subscribe(reply, None) || user.may_publish(reply);
        self.permissions.as_ref().is_none_or(may)
    }

    /// Takes a request to JetStream's API. Reports whether it is one.
    #[cold]
    fn asks_jetstream(&mut self, front: &NatsFront, message: &Message<'_>, may_acknowledge: bool) -> bool {
        let Some(jetstream) = front.jetstream() else { return false };
        let is_answerable = message
            .reply
            .is_none_or(|reply| may_acknowledge && !reply.starts_with(b"$") && self.may_name(reply));
        if !is_answerable {
            return false;
        }
        let account = self.membership.account();
        match self.api_calls.take(jetstream, account, &self.client, message) {
            Taken::Not => false,
            Taken::Done => true,
            Taken::TooMany(TooMany { headers, payload }) => {
                let Some(subject) = message.reply else { return true };
                let answer = Message { subject, reply: None, headers: headers.as_deref(), payload: &payload };
                // Where very many listen, nobody hears of it, as with nats-server.
                self.answer_now(&Arc::clone(account), &answer);
                true
            }
        }
    }

    /// Publishes an answer of the server, as far as one turn goes. Where very many listen, nobody hears of
    /// it, as with nats-server.
    fn answer_now(&mut self, account: &Account, answer: &Message<'_>) {
        let (router, burst) = (account.router(), &mut self.burst);
        if let Begun::Done(receivers) = router.begin_own(burst, answer)
            && !burst.crossings.is_empty()
        {
            let (until, mut spread) = (burst.read_at + TURN, Spread::crossing(burst, receivers));
            let turn = Turn { burst, origin: None, message: answer, here: None, until };
            spread.go_on(router, turn, &mut |_, _| {});
        }
    }

    /// Takes the requests to JetStream's API that nobody answers yet.
    pub(crate) fn api_calls(&mut self) -> Vec<ApiCall> {
        self.api_calls.drain()
    }

    /// Takes the requests to the server that nobody answers yet.
    pub(crate) fn questions(&mut self) -> Vec<Question> {
        self.questions.drain()
    }

    #[inline]
    fn published(&mut self, front: &NatsFront, message: &Message<'_>, receivers: usize, acknowledged: bool) {
        if receivers == 0 && !acknowledged {
            self.nobody_listens(front, message);
        }
    }

    #[inline]
    fn may_publish(&mut self, subject: &[u8]) -> bool {
        match &self.permissions {
            Some(user) => user.may_publish_in(&mut self.turn_subjects, subject),
            None => !reserved::is_subject(subject),
        }
    }

    /// Checks the reply subject of a message by the rules of the cluster, and its key by the user's lists,
    /// too. Returns whether topics may acknowledge it. `None`, after an error was sent, if the client may not
    /// publish it.
    #[inline]
    fn may_reply_and_use_key(&self, message: &Message<'_>) -> Option<bool> {
        if message.reply.is_none() && message.headers.is_none() {
            return Some(true);
        }
        match self.permissions.as_ref().filter(|permissions| permissions.limits_replies_or_keys()) {
            None => Some(true),
            Some(permissions) => self.check_reply_and_key(permissions, message),
        }
    }

    fn check_reply_and_key(&self, permissions: &Permissions, message: &Message<'_>) -> Option<bool> {
        let reply = message.reply.map(|reply| (reply, permissions.reply(reply)));
        if let Some((reply, ReplyRight::Refused)) = reply {
            let error = ProtocolError::reply_permission(reply);
            tracing::info!(client = self.client.id, %error, "publish refused");
            self.error(&error);
            return None;
        }
        let refused_key = mapping::with_own_key(message, |key| {
            Some(key).filter(|key| !permissions.may_use_key(message.subject, key)).map(<[u8]>::to_vec)
        });
        if let Some(key) = refused_key {
            self.refuse_publish(&key);
            return None;
        }
        Some(reply.is_none_or(|(_, right)| right == ReplyRight::Acknowledged))
    }

    /// Reports whether the client is in an account with a callout. It may not ask the service itself.
    #[cold]
    fn is_kept_from_callout(&self, front: &NatsFront) -> bool {
        front.auth().guards_callout(self.client.account())
    }

    fn refuse_publish(&self, subject: &[u8]) {
        // What rules forbid is recorded where they are asked.
        if self.permissions.as_ref().is_none_or(|user| !user.rules_forbid_publishing(subject)) {
            self.asker.not_permitted(&self.client.caller(), Access::Write, subject);
        }
        let error = ProtocolError::publish_permission(subject);
        tracing::info!(client = self.client.id, %error, "publish refused");
        self.error(&error);
    }

    /// Handles a message that `nats trace` sends only to be traced. It is not delivered and not captured.
    fn dry_run(&mut self, front: &NatsFront, message: &Message<'_>) {
        front.metrics().dry_runs.inc();
        self.burst.searched();
        if !self.router().reaches_anybody(message.subject) {
            self.nobody_listens(front, message);
        }
    }

    fn nobody_listens(&mut self, front: &NatsFront, message: &Message<'_>) {
        if let Some(reply) = message.reply.filter(|_| self.options.no_responders) {
            self.answer_no_responders(front, message.subject, reply);
        }
    }

    /// Sends HMSG with status 503 to the client's own plain subscription for the reply.
    fn answer_no_responders(&mut self, front: &NatsFront, subject: &[u8], reply: &[u8]) {
        self.burst.searched();
        let Some(target) = self.router().own_subscription(&self.client, reply) else { return };
        let Target::Client(subscription) = &*target else { return };
        front.metrics().no_responders.inc();
        let headers = [NO_RESPONDERS, b"Nats-Subject: ", subject, b"\r\n\r\n"].concat();
        let answer = Message { subject: reply, reply: None, headers: Some(&headers), payload: b"" };
        deliver_status(subscription, &answer, &mut self.burst);
    }
}

/// Returns the message that topics get.
fn captured<'m>(message: &Message<'m>, may_acknowledge: bool) -> Message<'m> {
    Message { reply: message.reply.filter(|_| may_acknowledge), ..*message }
}

/// Reports whether a subject has no empty words and no wildcards. Long ones are allowed here.
fn is_literal(subject: &[u8]) -> bool {
    subject.split(|&byte| byte == b'.').all(|word| !matches!(word, b"" | b"*" | b">"))
}
