//! Share sessions (KIP-932): the partitions that a member fetches from, remembered between its requests.
//!
//! Each request of a session carries the next epoch, so that none is executed twice. A session belongs to the
//! connection that used it last and ends with it. Then everything that its member held is released.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tailrace_types::TopicId;

use super::failure::SessionFailure;

/// The epoch that opens a session.
pub const INITIAL_EPOCH: i32 = 0;

/// The epoch that closes a session.
pub const FINAL_EPOCH: i32 = -1;

/// Maximum partitions of one session. Each costs 24 bytes.
const SESSION_PARTITIONS_MAX: usize = 100_000;

/// Maximum partitions of all sessions together, which bounds their memory to about 12 MB. A client that would
/// exceed it gets the error that there are too many sessions.
const ALL_PARTITIONS_MAX: usize = 500_000;

/// A partition of a topic.
pub type Partition = (TopicId, i32);

type Member = (Arc<str>, Arc<str>);

#[derive(Debug)]
struct Session {
    /// The epoch that the next request must carry.
    epoch: i32,
    connection: u64,
    /// In the order in which they were named.
    partitions: Vec<Partition>,
}

#[derive(Debug, Default)]
struct Table {
    sessions: HashMap<Member, Session>,
    /// Number of partitions in all sessions.
    partitions: usize,
}

/// All share sessions of the server.
#[derive(Debug, Default)]
pub struct ShareSessions {
    table: Mutex<Table>,
}

/// The session part of a request.
#[derive(Debug)]
pub struct SessionRequest<'a> {
    /// The group.
    pub group: &'a Arc<str>,
    /// The member.
    pub member: &'a Arc<str>,
    /// The session epoch of the request.
    pub epoch: i32,
    /// The connection of the request.
    pub connection: u64,
    /// Partitions to fetch from now on.
    pub added: Vec<Partition>,
    /// Partitions to stop fetching.
    pub forgotten: Vec<Partition>,
}

impl ShareSessions {
    /// Opens or continues a session with a fetch. Returns the partitions to fetch from. It starts with
    /// another partition each time, so that a small limit starves none.
    ///
    /// # Errors
    /// The request does not continue the member's session, or there is no room for what it adds.
    pub fn fetch(
        &self,
        request: SessionRequest<'_>,
        sessions_max: u32,
    ) -> Result<Vec<Partition>, SessionFailure> {
        let mut table = self.table.lock();
        let member: Member = (Arc::clone(request.group), Arc::clone(request.member));
        if request.epoch == INITIAL_EPOCH {
            table.remove(&member);
            return table.open(member, request, sessions_max);
        }
        let session = table.continued(&member, request.epoch, request.connection)?;
        let before = session.partitions.len();
        add(&mut session.partitions, request.added);
        if !request.forgotten.is_empty() {
            let forgotten: std::collections::HashSet<_> = request.forgotten.into_iter().collect();
            session.partitions.retain(|partition| !forgotten.contains(partition));
        }
        let (now, mut partitions) = (session.partitions.len(), session.partitions.clone());
        let turn = usize::try_from(request.epoch).unwrap_or(0);
        let others = table.partitions.checked_sub(before);
        table.partitions = others.expect("all sessions together have the partitions of each") + now;
        if now > SESSION_PARTITIONS_MAX || table.partitions > ALL_PARTITIONS_MAX {
            table.remove(&member);
            return Err(SessionFailure::LimitReached);
        }
        if now > 0 {
            partitions.rotate_left(turn % now);
        }
        Ok(partitions)
    }

    /// Continues a session with a request that only acknowledges. A request that closes the session only
    /// looks it up.
    ///
    /// # Errors
    /// The request does not continue the member's session.
    pub fn acknowledge(
        &self,
        group: &Arc<str>,
        member: &Arc<str>,
        epoch: i32,
        connection: u64,
    ) -> Result<(), SessionFailure> {
        if epoch == INITIAL_EPOCH {
            return Err(SessionFailure::Epoch);
        }
        let member = (Arc::clone(group), Arc::clone(member));
        self.table.lock().continued(&member, epoch, connection).map(drop)
    }

    /// Ends a session, if it exists.
    pub(crate) fn remove(&self, group: &str, member: &str) {
        self.table.lock().remove(&(Arc::from(group), Arc::from(member)));
    }

    /// Ends the sessions of a connection. Returns their groups and members.
    pub(crate) fn remove_of(&self, connection: u64) -> Vec<Member> {
        let mut table = self.table.lock();
        let of_connection = table.sessions.iter().filter(|(_, session)| session.connection == connection);
        let members: Vec<Member> = of_connection.map(|(member, _)| member.clone()).collect();
        members.iter().for_each(|member| table.remove(member));
        members
    }

    /// Reports whether a member of the group has a session.
    pub fn has_group(&self, group: &str) -> bool {
        self.table.lock().sessions.keys().any(|(of, _)| &**of == group)
    }

    /// Returns the number of sessions.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.table.lock().sessions.len()
    }
}

impl Table {
    fn open(
        &mut self,
        member: Member,
        request: SessionRequest<'_>,
        sessions_max: u32,
    ) -> Result<Vec<Partition>, SessionFailure> {
        let mut partitions = Vec::new();
        add(&mut partitions, request.added);
        let all = self.partitions + partitions.len();
        let is_full = self.sessions.len() >= sessions_max as usize;
        if is_full || partitions.len() > SESSION_PARTITIONS_MAX || all > ALL_PARTITIONS_MAX {
            return Err(SessionFailure::LimitReached);
        }
        assert!(!self.sessions.contains_key(&member), "a second session of {member:?}");
        self.partitions = all;
        let session = Session { epoch: 1, connection: request.connection, partitions: partitions.clone() };
        self.sessions.insert(member, session);
        Ok(partitions)
    }

    /// Returns the session, advanced to its next epoch.
    fn continued(
        &mut self,
        member: &Member,
        epoch: i32,
        connection: u64,
    ) -> Result<&mut Session, SessionFailure> {
        let session = self.sessions.get_mut(member).ok_or(SessionFailure::NotFound)?;
        if epoch != FINAL_EPOCH {
            if epoch != session.epoch {
                return Err(SessionFailure::Epoch);
            }
            // Epochs run from 1 to the largest number and start again at 1.
            session.epoch = session.epoch.checked_add(1).unwrap_or(1);
        }
        session.connection = connection;
        Ok(session)
    }

    fn remove(&mut self, member: &Member) {
        if let Some(session) = self.sessions.remove(member) {
            let left = self.partitions.checked_sub(session.partitions.len());
            self.partitions = left.expect("all sessions together have the partitions of each");
        }
    }
}

/// Adds the partitions that are not in the list yet.
fn add(partitions: &mut Vec<Partition>, added: Vec<Partition>) {
    if added.is_empty() {
        return;
    }
    let mut known: std::collections::HashSet<Partition> = partitions.iter().copied().collect();
    partitions.extend(added.into_iter().filter(|partition| known.insert(*partition)));
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOPIC: TopicId = TopicId([7; 16]);

    struct Rig {
        sessions: ShareSessions,
        group: Arc<str>,
    }

    impl Rig {
        fn new() -> Self {
            Self { sessions: ShareSessions::default(), group: "g".into() }
        }

        fn fetch(
            &self,
            member: &str,
            epoch: i32,
            connection: u64,
            added: std::ops::Range<i32>,
            forgotten: std::ops::Range<i32>,
        ) -> Result<Vec<i32>, SessionFailure> {
            let request = SessionRequest {
                group: &self.group,
                member: &member.into(),
                epoch,
                connection,
                added: added.map(|number| (TOPIC, number)).collect(),
                forgotten: forgotten.map(|number| (TOPIC, number)).collect(),
            };
            let partitions = self.sessions.fetch(request, 3)?;
            Ok(partitions.into_iter().map(|(_, number)| number).collect())
        }
    }

    #[test]
    fn a_session_remembers_partitions_and_goes_on_from_epoch_to_epoch() {
        let rig = Rig::new();
        assert_eq!(rig.fetch("m", 1, 1, 0..0, 0..0), Err(SessionFailure::NotFound));
        assert_eq!(rig.fetch("m", 0, 1, 0..3, 0..0), Ok(vec![0, 1, 2]));
        assert_eq!(rig.fetch("m", 2, 1, 0..0, 0..0), Err(SessionFailure::Epoch));
        assert_eq!(rig.fetch("m", 1, 1, 2..4, 0..1), Ok(vec![2, 3, 1]), "each time another one is first");
        assert_eq!(rig.fetch("m", 1, 1, 0..0, 0..0), Err(SessionFailure::Epoch), "a repeated request");
        let (group, member) = (Arc::clone(&rig.group), Arc::from("m"));
        assert_eq!(rig.sessions.acknowledge(&group, &member, 2, 1), Ok(()));
        assert_eq!(rig.sessions.acknowledge(&group, &member, 0, 1), Err(SessionFailure::Epoch));
        assert_eq!(rig.sessions.acknowledge(&group, &member, -1, 1), Ok(()));
        assert_eq!(rig.fetch("m", 3, 1, 0..0, 0..0).map(|all| all.len()), Ok(3));
        assert_eq!(rig.fetch("m", 0, 1, 0..1, 0..0), Ok(vec![0]), "it starts again");
        rig.sessions.remove("g", "m");
        assert_eq!(rig.sessions.acknowledge(&group, &member, 1, 1), Err(SessionFailure::NotFound));
    }

    #[test]
    fn sessions_are_bounded_and_end_with_their_connection() {
        let rig = Rig::new();
        for (member, connection) in [("a", 1), ("b", 2), ("c", 2)] {
            assert!(rig.fetch(member, 0, connection, 0..1, 0..0).is_ok());
        }
        let full = Err(SessionFailure::LimitReached);
        assert_eq!(rig.fetch("d", 0, 3, 0..1, 0..0), full);
        assert!(rig.fetch("c", 1, 1, 0..0, 0..0).is_ok(), "it continues on another connection");
        let gone = rig.sessions.remove_of(2);
        assert_eq!(gone, [(Arc::from("g"), Arc::from("b"))]);
        assert!(rig.fetch("d", 0, 3, 0..100_000, 0..0).is_ok());
        assert_eq!(rig.fetch("d", 1, 3, 100_000..100_001, 0..0), full);
        assert_eq!(rig.sessions.len(), 2, "the session that grew too large is gone");
        assert_eq!(rig.sessions.table.lock().partitions, 2);
    }
}
