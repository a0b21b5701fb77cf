//! Answers of services to other accounts. A request crosses with a reply subject of the server's own, under
//! `_R_.`, which nobody can guess. What is published there goes to the reply subject of the request, in its
//! account.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use parking_lot::Mutex;
use tailrace_env::random;
use tailrace_env::sync::oneshot;
use tailrace_env::time::{Duration, Instant};
use tailrace_identity::nats_accounts::{Response, ServiceImport};
use tailrace_nats_wire::Message;

/// Most requests of one account's services that wait for answers: about 16 MB. Further ones have no
/// responders.
const WAITING_MAX: usize = 65_536;

/// Most of those requests that one account has made, so that others can ask, too. Questions of the server
/// itself are not bounded by these numbers, but by the logins that wait.
const WAITING_OF_ONE_MAX: usize = WAITING_MAX / 8;

/// Time between two looks for requests that are late, where there is no room.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Requests for one account's services. `A` is an account.
pub(crate) struct Replies<A> {
    /// `_R_.` and a word of this node.
    prefix: String,
    waiting: Mutex<Waiting<A>>,
}

struct Waiting<A> {
    requests: HashMap<Box<[u8]>, Request<A>>,
    /// Number of requests of each account, by its address. A request keeps the address in use.
    of_account: HashMap<usize, usize>,
    /// Number of requests at which those are removed whose time is over.
    look_again_at: usize,
    /// When that was done last.
    looked: Option<Instant>,
}

struct Request<A> {
    to: Destination<A>,
    response: Response,
    patience: Duration,
    until: Instant,
}

/// Where an answer goes.
enum Destination<A> {
    Account {
        account: Weak<A>,
        reply: Box<[u8]>,
    },
    /// To the server itself.
    Here(Option<oneshot::Sender<Vec<u8>>>),
}

impl<A> Replies<A> {
    pub(super) fn new() -> Self {
        let word = URL_SAFE_NO_PAD.encode(&random::bytes16()[..9]);
        Self {
            prefix: format!("_R_.{word}."),
            waiting: Mutex::new(Waiting {
                requests: HashMap::new(),
                of_account: HashMap::new(),
                look_again_at: 0,
                looked: None,
            }),
        }
    }

    /// The pattern of all reply subjects of this node.
    pub(super) fn pattern(&self) -> String {
        format!("{}*", self.prefix)
    }

    /// Makes a reply subject for a request of the account `from`. `None` if too many requests wait.
    pub(super) fn expect(&self, from: &Arc<A>, reply: &[u8], import: &ServiceImport) -> Option<Vec<u8>> {
        let patience = Duration::from_millis(import.response_threshold_ms());
        let to = Destination::Account { account: Arc::downgrade(from), reply: reply.into() };
        self.add(Request { to, response: import.response(), patience, until: Instant::now() + patience })
    }

    /// Makes a reply subject for a question of the server itself. `None` if too many requests wait.
    pub(super) fn ask(&self, patience: Duration) -> Option<(Vec<u8>, oneshot::Receiver<Vec<u8>>)> {
        let (tell, told) = oneshot::channel();
        let (to, until) = (Destination::Here(Some(tell)), Instant::now() + patience);
        let subject = self.add(Request { to, response: Response::Singleton, patience, until })?;
        Some((subject, told))
    }

    fn add(&self, request: Request<A>) -> Option<Vec<u8>> {
        let token = URL_SAFE_NO_PAD.encode(random::bytes16());
        let subject = [self.prefix.as_bytes(), token.as_bytes()].concat();
        let mut waiting = self.waiting.lock();
        waiting.has_room_for(&request.to).then(|| {
            if let Destination::Account { account, .. } = &request.to {
                *waiting.of_account.entry(account.as_ptr().addr()).or_default() += 1;
            }
            waiting.requests.insert(subject.as_slice().into(), request);
            subject
        })
    }

    /// Returns where an answer goes. `None` if no request waits for it, or it was one of the server itself.
    pub(super) fn take(&self, answer: &Message<'_>) -> Option<(Arc<A>, Vec<u8>)> {
        let mut waiting = self.waiting.lock();
        let now = Instant::now();
        let request = waiting.requests.get_mut(answer.subject)?;
        let is_late = request.until < now;
        let to = match &mut request.to {
            Destination::Account { account, reply } => {
                account.upgrade().map(|account| (account, reply.to_vec()))
            }
            Destination::Here(tell) => {
                if let Some(tell) = tell.take() {
                    // Nobody waits any more if this fails.
                    let _ = tell.send(answer.payload.to_vec());
                }
                None
            }
        };
        let is_last = match request.response {
            Response::Singleton => true,
            // As in nats-server, an empty message without headers ends an answer in several messages.
            Response::Stream | Response::Chunked => answer.payload.is_empty() && answer.headers.is_none(),
        };
        request.until = now + request.patience;
        if is_late || is_last {
            waiting.remove(answer.subject);
        }
        to.filter(|_| !is_late)
    }
}

impl<A> Waiting<A> {
    /// Reports whether there is room for one more request, after removing what is late if there are many.
    fn has_room_for(&mut self, to: &Destination<A>) -> bool {
        // Where there is no room, not for each request: a look takes time for each one that waits.
        let is_due = self.looked.is_none_or(|at| at.elapsed() >= LOOK_AGAIN);
        let waiting = self.requests.len();
        if waiting >= self.look_again_at && (waiting < WAITING_MAX || is_due) {
            self.remove_late();
        }
        let Destination::Account { account, .. } = to else { return true };
        if self.of(account) >= WAITING_OF_ONE_MAX && is_due {
            self.remove_late();
        }
        self.requests.len() < WAITING_MAX && self.of(account) < WAITING_OF_ONE_MAX
    }

    fn of(&self, account: &Weak<A>) -> usize {
        self.of_account.get(&account.as_ptr().addr()).copied().unwrap_or_default()
    }

    fn remove_late(&mut self) {
        let now = Instant::now();
        self.looked = Some(now);
        self.requests.retain(|_, request| request.until >= now);
        self.of_account.clear();
        for request in self.requests.values() {
            if let Destination::Account { account, .. } = &request.to {
                *self.of_account.entry(account.as_ptr().addr()).or_default() += 1;
            }
        }
        self.look_again_at = (2 * self.requests.len()).clamp(WAITING_MAX / 64, WAITING_MAX);
    }

    fn remove(&mut self, subject: &[u8]) {
        let Some(Request { to: Destination::Account { account, .. }, .. }) = self.requests.remove(subject)
        else {
            return;
        };
        if let Some(count) = self.of_account.get_mut(&account.as_ptr().addr()) {
            *count -= 1;
            if *count == 0 {
                self.of_account.remove(&account.as_ptr().addr());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tailrace_identity::nats_accounts::{
        AccountDefinition, AccountName, AccountTable, Export, ExportAccess, Import, ShareKind, SubjectMapping,
    };

    use super::*;
    use crate::account::Account;
    use crate::testing::front;

    fn import(response: Response, threshold_ms: u64) -> Arc<ServiceImport> {
        let name = |text: &str| AccountName::new(text).unwrap();
        let mut exporter = AccountDefinition::new(name("A"));
        exporter.exports.push(Export {
            kind: ShareKind::Service,
            subject: "q".into(),
            access: ExportAccess::Public,
            response,
            response_threshold_ms: Some(threshold_ms),
            revocations: Default::default(),
        });
        let mut importer = AccountDefinition::new(name("B"));
        let mapping = SubjectMapping::new("q", "q").unwrap();
        let import =
            Import { kind: ShareKind::Service, account: name("A"), mapping, share: false, token: None };
        importer.imports.push(import);
        let (table, faults) = AccountTable::build(vec![exporter, importer], 0);
        assert!(faults.is_empty(), "{faults:?}");
        Arc::clone(&table.account("B").unwrap().services()[0])
    }

    fn answer(replies: &Replies<Account>, subject: &[u8], payload: &[u8]) -> Option<Vec<u8>> {
        let message = Message { subject, reply: None, headers: None, payload };
        replies.take(&message).map(|(account, subject)| {
            assert_eq!(&**account.name(), "B");
            subject
        })
    }

    #[test]
    fn a_request_gets_as_many_answers_as_its_service_gives() {
        let front = front();
        let (replies, from) = (Replies::new(), front.accounts().get("B"));
        let inbox = || Some(b"_INBOX.1".to_vec());
        let ask = |response| replies.expect(&from, b"_INBOX.1", &import(response, 60_000)).unwrap();
        let one = ask(Response::Singleton);
        assert_eq!([answer(&replies, &one, b"x"), answer(&replies, &one, b"x")], [inbox(), None]);
        let many = ask(Response::Stream);
        let found = [&b"x"[..], b"y", b"", b"x"].map(|payload| answer(&replies, &many, payload));
        assert_eq!(found, [inbox(), inbox(), inbox(), None]);
        let chunks = ask(Response::Chunked);
        let found = [&b"x"[..], b"y", b"", b"z"].map(|payload| answer(&replies, &chunks, payload));
        assert_eq!(found, [inbox(), inbox(), inbox(), None]);
        assert!(one != many && many.starts_with(b"_R_."), "nobody can guess it");
    }

    #[test]
    fn what_waits_is_bounded_and_ends() {
        let front = front();
        let (replies, from) = (Replies::new(), front.accounts().get("B"));
        let (short, long) = (import(Response::Stream, 1), import(Response::Stream, 600_000));
        let late = replies.expect(&from, b"r", &short).unwrap();
        let began = Instant::now();
        while began.elapsed() < Duration::from_millis(5) {
            std::thread::yield_now();
        }
        assert_eq!(answer(&replies, &late, b"x"), None);
        let asked = |from| (0..WAITING_MAX).filter(|_| replies.expect(from, b"r", &long).is_some()).count();
        assert_eq!(asked(&from), WAITING_OF_ONE_MAX);
        let others: Vec<_> = (0..8).map(|number| front.accounts().get(&format!("C{number}"))).collect();
        let of_others: usize = others.iter().map(asked).sum();
        assert_eq!(of_others, WAITING_MAX - WAITING_OF_ONE_MAX, "all of them together");
        assert!(replies.ask(Duration::from_secs(1)).is_some(), "the server itself asks all the same");
    }
}
