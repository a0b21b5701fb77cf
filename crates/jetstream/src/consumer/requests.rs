//! Pull requests: which are taken in, and which of them gets a message.

use std::sync::Arc;

use super::advisory::Advisory;
use super::output::{BadRequest, Moment, Outbox, StatusKind};
use super::pull::PullBody;
use super::push::base62;
use super::rules::{PriorityPolicy, PullRules};
use super::state::{Consumer, Pin};
use super::view::StreamView;
use super::waiting::Request;

/// The level of requests without the pin, where there is one.
const WITHOUT_PIN: u8 = 1;

/// The request that gets a message.
pub(super) struct Chosen {
    pub(super) to: Arc<str>,
    pub(super) pin: Option<Arc<str>>,
    /// What to say after the message.
    pub(super) farewell: Option<StatusKind>,
    /// True if the request is served with it.
    pub(super) is_last: bool,
}

impl Consumer {
    /// Takes in a pull request. The inbox must be interested already. Serve the consumer afterwards. Returns
    /// whether the request waits; otherwise it is over, with a status or in silence.
    pub fn pull(
        &mut self,
        inbox: &Arc<str>,
        body: &[u8],
        view: &mut impl StreamView,
        at: Moment,
        out: &mut Outbox,
    ) -> bool {
        if self.is_closed {
            out.status(inbox, StatusKind::ConsumerDeleted);
            return false;
        }
        match self.admit(inbox, body, view, at, out) {
            Ok(request) => {
                self.waiting.push(Box::new(request));
                return true;
            }
            Err(Some(kind)) => out.status(inbox, kind),
            Err(None) => {}
        }
        false
    }

    /// Returns how many pull requests wait.
    pub fn num_waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Returns the request to wait, or why it does not. `None`: in silence.
    fn admit(
        &mut self,
        inbox: &Arc<str>,
        body: &[u8],
        view: &mut impl StreamView,
        at: Moment,
        out: &mut Outbox,
    ) -> Result<Request, Option<StatusKind>> {
        let Some(pull) = self.rules.pull() else { return Err(Some(StatusKind::ConsumerIsPushBased)) };
        if body.len() > self.bounds.request_bytes_max as usize {
            return Err(Some(StatusKind::BadRequest(BadRequest::TooLarge)));
        }
        let body = PullBody::parse(body).map_err(|bad| Some(StatusKind::BadRequest(bad)))?;
        exceeded(pull, &body).map_or(Ok(()), |kind| Err(Some(kind)))?;
        bad_priority(pull, &body).map_or(Ok(()), |bad| Err(Some(StatusKind::BadRequest(bad))))?;
        let pin_ns = pull.pin_ns;
        let waiting_max = pull.waiting_max.min(self.bounds.waiting_max) as usize;
        if let (Some(pin), false) = (&mut self.pin, body.id.is_empty()) {
            if *pin.id != *body.id {
                return Err(Some(StatusKind::PinIdMismatch));
            }
            pin.until_ns = at.now_ns.saturating_add(pin_ns);
        }
        if self.waiting.len() >= waiting_max {
            self.sweep(false, view, at, out);
        }
        if body.no_wait {
            self.admit_no_wait(&body, view, at, out)?;
        }
        self.active_ns = at.now_ns;
        if self.waiting.len() >= waiting_max {
            // A client with heartbeats would ask again at once, and again.
            return Err((body.heartbeat_ns <= 0).then_some(StatusKind::ExceededMaxWaiting));
        }
        Ok(self.request(inbox, body, at))
    }

    fn admit_no_wait(
        &mut self,
        body: &PullBody,
        view: &mut impl StreamView,
        at: Moment,
        out: &mut Outbox,
    ) -> Result<(), Option<StatusKind>> {
        let available = self.num_pending(view).saturating_add(self.pending.queued() as u64);
        let available = i64::try_from(available).unwrap_or(i64::MAX);
        let refused = if available == 0 && body.expires_ns == 0 {
            StatusKind::NoMessages
        } else {
            if available > 0 && self.waiting.wanted() > available {
                self.sweep(false, view, at, out);
            }
            if available == 0 || self.waiting.wanted() <= available {
                return Ok(());
            }
            StatusKind::RequestsPending
        };
        self.active_ns = at.now_ns;
        Err(Some(refused))
    }

    fn request(&self, inbox: &Arc<str>, body: PullBody, at: Moment) -> Request {
        let later = |ns: i64| if ns == 0 { 0 } else { at.now_ns.saturating_add(ns) };
        let heartbeat_ns =
            if body.heartbeat_ns > 0 { body.heartbeat_ns.max(self.bounds.heartbeat_min_ns) } else { 0 };
        let pin: Option<Arc<str>> = (!body.id.is_empty()).then(|| body.id.into());
        let level = match self.rules.priority() {
            PriorityPolicy::Pinned if pin.is_none() => WITHOUT_PIN,
            PriorityPolicy::Prioritized => u8::try_from(body.priority).unwrap_or(9),
            _ => 0,
        };
        Request {
            inbox: Arc::clone(inbox),
            left: body.batch,
            bytes: body.max_bytes.max(0),
            is_served: false,
            no_wait: body.no_wait,
            expires_ns: later(body.expires_ns),
            heartbeat_ns,
            heartbeat_at_ns: later(heartbeat_ns),
            level,
            min_pending: body.min_pending,
            min_ack_pending: body.min_ack_pending,
            group: (!body.group.is_empty()).then(|| body.group.into()),
            pin,
        }
    }

    /// Ends requests whose time is over or whose inbox is gone, and sends heartbeats. At the end of what
    /// there is to deliver, requests that do not wait end, too.
    pub(super) fn sweep(&mut self, is_end: bool, view: &mut impl StreamView, at: Moment, out: &mut Outbox) {
        let mut waiting = std::mem::take(&mut self.waiting);
        let mut active_ns = self.active_ns;
        waiting.sweep(|request| {
            if request.is_expired(at.now_ns) {
                active_ns = active_ns.max(request.expires_ns);
                out.status(&request.inbox, StatusKind::RequestTimeout(request.unserved()));
                return false;
            }
            if is_end && request.no_wait && (request.expires_ns == 0 || request.is_served) {
                active_ns = active_ns.max(at.now_ns);
                out.status(&request.inbox, StatusKind::NoMessages);
                return false;
            }
            if !view.is_interested(&request.inbox) {
                return false;
            }
            if request.heartbeat_ns > 0 && request.heartbeat_at_ns <= at.now_ns {
                out.status(&request.inbox, self.heartbeat());
                request.heartbeat_at_ns = at.now_ns.saturating_add(request.heartbeat_ns);
            }
            true
        });
        (self.waiting, self.active_ns) = (waiting, active_ns);
    }

    /// Drops the requests of an inbox that nobody subscribes to any more, in silence.
    pub fn lost_interest(&mut self, inbox: &str) {
        self.waiting.sweep(|request| *request.inbox != *inbox);
    }

    /// Chooses the request that gets a message of this size, and ends those on the way that cannot get it.
    pub(super) fn choose(
        &mut self,
        size: u64,
        view: &mut impl StreamView,
        at: Moment,
        out: &mut Outbox,
    ) -> Option<Chosen> {
        let size = i64::try_from(size).unwrap_or(i64::MAX);
        let policy = self.rules.priority();
        let mut passed_over = 0;
        while let Some(front) = self.waiting.front() {
            if policy == PriorityPolicy::Pinned && self.pin.is_some() && front.level == WITHOUT_PIN {
                return None;
            }
            if policy == PriorityPolicy::Overflow && passed_over >= self.waiting.len() {
                return None;
            }
            let mut request = self.waiting.pop()?;
            if request.is_expired(at.now_ns) {
                self.active_ns = self.active_ns.max(request.expires_ns);
                out.status(&request.inbox, StatusKind::RequestTimeout(request.unserved()));
                continue;
            }
            if !view.is_interested(&request.inbox) {
                continue;
            }
            if policy == PriorityPolicy::Overflow && !self.overflows(&request, view) {
                passed_over += 1;
                self.waiting.push(request);
                continue;
            }
            if policy == PriorityPolicy::Pinned && request.pin.is_some() && !self.is_pinned(&request) {
                out.status(&request.inbox, StatusKind::WrongPinId(request.unserved()));
                continue;
            }
            if request.bytes > 0 && size > request.bytes {
                out.status(&request.inbox, StatusKind::MessageSizeExceedsMaxBytes(request.unserved()));
                continue;
            }
            if policy == PriorityPolicy::Pinned && self.pin.is_none() {
                self.give_pin(&mut request, at, out);
            }
            return Some(self.serve_request(request, size, at));
        }
        None
    }

    fn serve_request(&mut self, mut request: Box<Request>, size: i64, at: Moment) -> Chosen {
        if request.bytes > 0 {
            request.bytes -= size;
            if request.bytes == 0 {
                request.left = 1;
            }
        }
        request.left -= 1;
        request.is_served = true;
        let to = Arc::clone(&request.inbox);
        let pin = self.pin.as_ref().map(|pin| Arc::clone(&pin.id));
        if request.left > 0 {
            if request.heartbeat_ns > 0 {
                request.heartbeat_at_ns = at.now_ns.saturating_add(request.heartbeat_ns);
            }
            self.waiting.push(request);
            return Chosen { to, pin, farewell: None, is_last: false };
        }
        request.left = 0;
        let farewell = (request.bytes > 0).then(|| StatusKind::BatchCompleted(request.unserved()));
        Chosen { to, pin, farewell, is_last: true }
    }

    /// Either limit that is set and reached is enough.
    fn overflows(&self, request: &Request, view: &mut impl StreamView) -> bool {
        let (min_pending, min_ack_pending) = (request.min_pending, request.min_ack_pending);
        if min_pending <= 0 && min_ack_pending <= 0 {
            return true;
        }
        let pending = i64::try_from(self.num_pending(view)).unwrap_or(i64::MAX);
        let ack_pending = i64::try_from(self.pending.len()).unwrap_or(i64::MAX);
        (min_pending > 0 && min_pending <= pending) || (min_ack_pending > 0 && min_ack_pending <= ack_pending)
    }

    fn is_pinned(&self, request: &Request) -> bool {
        self.pin.as_ref().is_some_and(|pin| request.pin.as_deref() == Some(&*pin.id))
    }

    fn give_pin(&mut self, request: &mut Request, at: Moment, out: &mut Outbox) {
        let (Some(pull), Some(group)) = (self.rules.pull(), &request.group) else { return };
        let id: Arc<str> = base62::<22>(at.random(self.consumer_seq)).into();
        let until_ns = at.now_ns.saturating_add(pull.pin_ns);
        let pin = Pin { id: Arc::clone(&id), group: Arc::clone(group), since_ns: at.now_ns, until_ns };
        out.advise(Advisory::Pinned { group: group.to_string(), pin: id.to_string() });
        request.pin = Some(id);
        request.level = 0;
        self.pin = Some(pin);
    }

    /// Takes the pin from its owner: by request (`CONSUMER.UNPIN`), or because the owner was quiet too long.
    /// Returns whether there was one.
    pub fn unpin(&mut self, is_admin: bool, out: &mut Outbox) -> bool {
        let Some(pin) = self.pin.take() else { return false };
        out.advise(Advisory::Unpinned { group: pin.group.to_string(), admin: is_admin });
        true
    }
}

fn exceeded(pull: &PullRules, body: &PullBody) -> Option<StatusKind> {
    if pull.batch_max > 0 && body.batch > pull.batch_max {
        return Some(StatusKind::ExceededMaxRequestBatch(pull.batch_max));
    }
    if pull.expires_max_ns > 0 && body.expires_ns > pull.expires_max_ns {
        return Some(StatusKind::ExceededMaxRequestExpires { limit_ns: pull.expires_max_ns });
    }
    if pull.bytes_max > 0 && body.max_bytes > pull.bytes_max {
        return Some(StatusKind::ExceededMaxRequestMaxBytes(pull.bytes_max));
    }
    None
}

fn bad_priority(pull: &PullRules, body: &PullBody) -> Option<BadRequest> {
    if !body.is_json {
        return None;
    }
    let policy = pull.priority;
    if (body.min_pending != 0 || body.min_ack_pending != 0) && policy != PriorityPolicy::Overflow {
        return Some(BadRequest::NotOverflow);
    }
    if !body.id.is_empty() && policy != PriorityPolicy::Pinned {
        return Some(BadRequest::NotPinned);
    }
    if !(0..=9).contains(&body.priority) {
        return Some(BadRequest::PriorityOutOfRange);
    }
    if policy == PriorityPolicy::None {
        return None;
    }
    if body.group.is_empty() {
        return Some(BadRequest::GroupMissing);
    }
    let is_known = pull.groups.iter().any(|group| **group == *body.group);
    (!is_known).then_some(BadRequest::InvalidGroup)
}
