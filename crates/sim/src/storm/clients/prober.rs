//! A Kafka client of a user whose rules and credentials change. It logs in, asks for what it may or may not
//! have, and waits to be disconnected. Whatever a node answers is compared with the rules that this node has.

use tailrace_env::time::{Duration, Instant};
use tailrace_kafka_wire::messages::fetch_request::{FetchPartition, FetchTopic};
use tailrace_kafka_wire::messages::produce_request::{PartitionProduceData, TopicProduceData};
use tailrace_kafka_wire::messages::{FetchRequest, FindCoordinatorRequest, ProduceRequest};
use tailrace_kafka_wire::{ErrorCode, Records, Request};
use tailrace_records::BatchOptions;
use tailrace_types::{Offset, PartitionId};

use super::client::{Client, batch, below, code, pause};
use super::connection::{CallError, Connection};
use super::judged::{judge_answer, judge_login};
use super::sasl::{Login, Outcome};
use crate::storm::access::{GUARDED_GROUP, Look, Overdue, Right, Secret, WATCHED};
use crate::storm::history::{BatchFate, BatchName};
use crate::storm::site::{TOPIC, topic_partition};

const PRODUCE: i16 = 9;
const FETCH: i16 = 12;
const FIND_COORDINATOR: i16 = 4;

/// A connection is used for less than this time.
const STAYS_MS: u64 = 3_500;

/// One of so many connections says nothing after its login.
const QUIET_ONE_IN: u64 = 3;

/// A connection that says nothing is kept for so long, and longer once it has to end.
const QUIET: Duration = Duration::from_secs(5);

/// The longest pause between two connections.
const PAUSE_MS: u64 = 300;

/// How long the client waits at a time for the end of its connection.
const IDLE: Duration = Duration::from_millis(120);

/// What is counted when a connection has ended.
const ENDED: &str = "a connection of a user who may not log in any more ended";
const QUIET_ENDED: &str = "a quiet connection of a user who may not log in any more ended";

struct Prober {
    client: Client,
    user: &'static str,
    /// The next batch to offer.
    next: BatchName,
}

/// A connection, and what its user logged in with.
struct Session {
    connection: Connection,
    node: u8,
    secret: Secret,
    /// The node at the login.
    begun: Look,
    overdue: Overdue,
}

/// Whether a connection is still open.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Still {
    Open,
    Closed,
}

/// `number` identifies the client in the history, after the nodes.
pub(super) async fn run(client: Client, number: usize, user: usize) {
    client.history.lock().begins();
    let next = BatchName { node: number, start: 0, writer: 0, number: 0 };
    let mut prober = Prober { client, user: WATCHED[user], next };
    while !prober.client.history.lock().has_ended(number) {
        prober.visit().await;
        prober.next.start += 1;
        pause(PAUSE_MS).await;
    }
    prober.client.history.lock().finishes();
}

impl Prober {
    /// Uses one connection.
    async fn visit(&mut self) {
        let Some(mut session) = self.log_in().await else { return };
        if below(QUIET_ONE_IN) == 0 {
            return self.keep_quiet(session).await;
        }
        let until = Instant::now() + Duration::from_millis(below(STAYS_MS));
        while Instant::now() < until {
            let still = match below(5) {
                0 | 1 => session.idle().await,
                2 => self.produce(&mut session).await,
                3 => self.fetch(&mut session).await,
                _ => self.find(&mut session).await,
            };
            if self.look(&mut session, still, ENDED) == Still::Closed {
                return;
            }
        }
    }

    /// Says nothing, and waits whether the connection ends with the credential. Not when the run ends: then
    /// the client has to be served.
    async fn keep_quiet(&self, mut session: Session) {
        let until = Instant::now() + QUIET;
        while !self.client.is_ending() && (Instant::now() < until || session.overdue.has_begun()) {
            let still = session.idle().await;
            if self.look(&mut session, still, QUIET_ENDED) == Still::Closed {
                return;
            }
        }
    }

    /// Checks a connection that is open, and counts those that had to end. `what` they are called.
    fn look(&self, session: &mut Session, still: Still, what: &'static str) -> Still {
        let mut history = self.client.history.lock();
        let Session { begun, node, secret, overdue, .. } = session;
        if still == Still::Open {
            let open = history.access.check_open(begun, *node, self.user, secret, overdue);
            history.check(open);
        } else if history.access.is_void(begun, *node, self.user, secret) {
            history.count(what);
        }
        still
    }

    /// Logs in at the leader of the topic, mostly.
    async fn log_in(&mut self) -> Option<Session> {
        if below(4) == 0 {
            self.client.refresh().await;
        }
        let leader = self.client.leader(&topic_partition(TOPIC, PartitionId(0))).await;
        let node = match leader {
            Some((leader, _)) if below(10) < 7 => leader,
            _ => self.client.any_node(),
        };
        let secret = self.client.history.lock().access.secret(self.user, below(1_000));
        let mut connection = Connection::open(node).await.ok()?;
        let login = Login { user: self.user, secret: secret.clone() };
        let begun = self.client.history.lock().access.look(node);
        let outcome = connection.log_in(&login, &self.client.history).await;
        judge_login(&self.client.history, node, &login, begun.as_ref(), outcome);
        match outcome {
            Outcome::LoggedIn => {
                Some(Session { connection, node, secret, begun: begun?, overdue: Overdue::default() })
            }
            Outcome::Refused => {
                self.client.history.lock().done(self.next.node);
                None
            }
            Outcome::Lost => None,
        }
    }

    /// Sends a request. `is_allowed` reads the answer: `None` if it does not tell.
    async fn ask<R: Request>(
        &mut self,
        session: &mut Session,
        right: Right,
        version: i16,
        request: &R,
        is_allowed: impl FnOnce(&R::Response) -> Option<bool>,
    ) -> Option<R::Response> {
        let before = self.client.history.lock().access.look(session.node);
        let answer = match session.connection.call(version, request).await {
            Ok(answer) => answer,
            Err(CallError::Lost) => return None,
            Err(CallError::Illegible(what)) => {
                self.client.history.lock().found(what);
                return None;
            }
        };
        let after = self.client.history.lock().access.look(session.node);
        if let (Some(look), Some(is_allowed)) = (Look::settled(before.as_ref(), after), is_allowed(&answer)) {
            judge_answer(&self.client.history, &look, (self.user, Some(&session.secret)), right, is_allowed);
        }
        self.client.history.lock().done(self.next.node);
        Some(answer)
    }

    async fn produce(&mut self, session: &mut Session) -> Still {
        let name = self.next;
        self.next.number += 1;
        let options = BatchOptions::default();
        let data = PartitionProduceData {
            index: 0,
            records: Records::Bytes(batch(Some(&name.key()), &name.to_string(), options)),
            ..Default::default()
        };
        let topic =
            TopicProduceData { name: TOPIC.to_owned(), partition_data: vec![data], ..Default::default() };
        let request =
            ProduceRequest { acks: -1, timeout_ms: 1_000, topic_data: vec![topic], ..Default::default() };
        {
            let mut history = self.client.history.lock();
            history.offered(name);
            let look = history.access.look(session.node);
            if history.access.is_unwelcome(name, self.user, look.as_ref()) {
                history.count("a message with an unwelcome user was offered");
            }
        }
        let error = |answer: &<ProduceRequest as Request>::Response| {
            let partition = answer.responses.first()?.partition_responses.first()?;
            Some((code(partition.error_code), Offset(partition.base_offset)))
        };
        let is_allowed = |answer: &_| match error(answer)?.0 {
            ErrorCode::None => Some(true),
            ErrorCode::TopicAuthorizationFailed => Some(false),
            _ => None,
        };
        let answer = self.ask(session, Right::Produce, PRODUCE, &request, is_allowed).await;
        let Some(answer) = answer else { return Still::Closed };
        let fate = match error(&answer) {
            Some((ErrorCode::None, offset)) => BatchFate::Stored(offset),
            Some((ErrorCode::TopicAuthorizationFailed, _)) => BatchFate::Refused,
            _ => BatchFate::Unknown,
        };
        self.client.history.lock().told(name, fate);
        Still::Open
    }

    async fn fetch(&mut self, session: &mut Session) -> Still {
        let partition = FetchPartition {
            partition_max_bytes: 1_000,
            current_leader_epoch: -1,
            ..FetchPartition::default()
        };
        let topic =
            FetchTopic { topic: TOPIC.to_owned(), partitions: vec![partition], ..FetchTopic::default() };
        let request =
            FetchRequest { max_wait_ms: 50, min_bytes: 1, topics: vec![topic], ..FetchRequest::default() };
        let is_allowed = |answer: &<FetchRequest as Request>::Response| {
            let partition = answer.responses.first()?.partitions.first()?;
            match code(partition.error_code) {
                ErrorCode::None => Some(true),
                ErrorCode::TopicAuthorizationFailed => Some(false),
                _ => None,
            }
        };
        let answer = self.ask(session, Right::Fetch, FETCH, &request, is_allowed).await;
        if answer.is_some() { Still::Open } else { Still::Closed }
    }

    /// Asks for the coordinator of a group.
    async fn find(&mut self, session: &mut Session) -> Still {
        let request =
            FindCoordinatorRequest { coordinator_keys: vec![GUARDED_GROUP.to_owned()], ..Default::default() };
        let is_allowed = |answer: &<FindCoordinatorRequest as Request>::Response| {
            let refused = ErrorCode::GroupAuthorizationFailed;
            Some(code(answer.coordinators.first()?.error_code) != refused)
        };
        let answer = self.ask(session, Right::SeeGroup, FIND_COORDINATOR, &request, is_allowed).await;
        if answer.is_some() { Still::Open } else { Still::Closed }
    }
}

impl Session {
    /// Waits for a while whether the node ends the connection.
    async fn idle(&mut self) -> Still {
        if self.connection.is_ended(IDLE).await { Still::Closed } else { Still::Open }
    }
}
