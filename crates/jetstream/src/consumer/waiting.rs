//! Pull requests that wait for messages.

use std::collections::VecDeque;
use std::sync::Arc;

use super::output::Unserved;

/// A pull request that waits.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) inbox: Arc<str>,
    /// Messages that it still wants. A request without `batch` has 0 and gets one.
    pub(super) left: i64,
    /// Bytes that it still takes. 0: any number.
    pub(super) bytes: i64,
    /// True if it got a message.
    pub(super) is_served: bool,
    pub(super) no_wait: bool,
    /// 0: never.
    pub(super) expires_ns: i64,
    /// 0: none.
    pub(super) heartbeat_ns: i64,
    pub(super) heartbeat_at_ns: i64,
    /// The lowest is served first.
    pub(super) level: u8,
    pub(super) min_pending: i64,
    pub(super) min_ack_pending: i64,
    pub(super) group: Option<Arc<str>>,
    pub(super) pin: Option<Arc<str>>,
}

impl Request {
    pub(super) fn unserved(&self) -> Unserved {
        Unserved { messages: self.left, bytes: self.bytes }
    }

    pub(super) fn is_expired(&self, now_ns: i64) -> bool {
        self.expires_ns != 0 && self.expires_ns <= now_ns
    }

    fn due_ns(&self) -> i64 {
        let expires = if self.expires_ns == 0 { i64::MAX } else { self.expires_ns };
        let heartbeat = if self.heartbeat_ns == 0 { i64::MAX } else { self.heartbeat_at_ns };
        expires.min(heartbeat)
    }
}

/// The waiting requests: a ring for each level, served in turn.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    levels: Vec<VecDeque<Box<Request>>>,
    len: usize,
    wanted: i64,
    no_waits: usize,
    /// Not later than the first expiry or heartbeat.
    due_ns: i64,
}

impl Default for Waiting {
    fn default() -> Self {
        Self { levels: Vec::new(), len: 0, wanted: 0, no_waits: 0, due_ns: i64::MAX }
    }
}

impl Waiting {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns how many messages all of them want.
    pub(super) fn wanted(&self) -> i64 {
        self.wanted
    }

    pub(super) fn has_no_wait(&self) -> bool {
        self.no_waits > 0
    }

    /// Returns when [`Waiting::sweep`] may have something to do. `i64::MAX`: never.
    pub(super) fn due_ns(&self) -> i64 {
        self.due_ns
    }

    /// Adds a request at the end of its level's ring.
    pub(super) fn push(&mut self, request: Box<Request>) {
        let level = usize::from(request.level);
        if self.levels.len() <= level {
            self.levels.resize_with(level + 1, VecDeque::new);
        }
        self.count(&request, true);
        self.due_ns = self.due_ns.min(request.due_ns());
        self.levels[level].push_back(request);
    }

    fn count(&mut self, request: &Request, is_added: bool) {
        if is_added {
            self.len += 1;
            self.no_waits += usize::from(request.no_wait);
            self.wanted = self.wanted.saturating_add(request.left);
        } else {
            self.len -= 1;
            self.no_waits -= usize::from(request.no_wait);
            self.wanted = self.wanted.saturating_sub(request.left);
        }
    }

    /// Returns the request whose turn it is.
    pub(super) fn front(&self) -> Option<&Request> {
        self.levels.iter().find_map(VecDeque::front).map(Box::as_ref)
    }

    /// Takes out the request whose turn it is.
    pub(super) fn pop(&mut self) -> Option<Box<Request>> {
        let request = self.levels.iter_mut().find_map(VecDeque::pop_front)?;
        self.count(&request, false);
        if self.len == 0 {
            *self = Self::default();
        }
        Some(request)
    }

    /// Visits all requests, and drops those for which `keep` is false.
    pub(super) fn sweep(&mut self, mut keep: impl FnMut(&mut Request) -> bool) {
        let levels = std::mem::take(self).levels;
        for mut request in levels.into_iter().flatten() {
            if keep(&mut request) {
                self.push(request);
            }
        }
    }

    #[cfg(test)]
    pub(super) fn iter(&self) -> impl Iterator<Item = &Request> {
        self.levels.iter().flatten().map(Box::as_ref)
    }
}
