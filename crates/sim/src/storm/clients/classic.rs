//! A member of a group of the classic protocol. It joins, assigns partitions if it leads the group,
//! heartbeats, gives everything up in a rebalance, leaves, or vanishes.

use std::collections::BTreeSet;

use bytes::Bytes;
use tailrace_env::time::{self, Instant};
use tailrace_kafka_wire::ErrorCode;
use tailrace_kafka_wire::messages::join_group_request::JoinGroupRequestProtocol;
use tailrace_kafka_wire::messages::join_group_response::{JoinGroupResponse, JoinGroupResponseMember};
use tailrace_kafka_wire::messages::leave_group_request::MemberIdentity;
use tailrace_kafka_wire::messages::sync_group_request::SyncGroupRequestAssignment;
use tailrace_kafka_wire::messages::{
    HeartbeatRequest, JoinGroupRequest, LeaveGroupRequest, SyncGroupRequest,
};

use super::client::{Client, Coordinated, below, code};
use super::ownership::{HEARTBEAT_INTERVAL, Ownership, while_owning};
use crate::storm::history::Phase;
use crate::storm::site::{DATA_PARTITIONS, SESSION_TIMEOUT};

const JOIN_GROUP: i16 = 9;
const SYNC_GROUP: i16 = 5;
const HEARTBEAT: i16 = 4;
const LEAVE_GROUP: i16 = 5;

const GROUP: &str = "classic readers";

/// Not a protocol of Kafka's: a coordinator does not look into what members tell each other.
const PROTOCOL: &str = "sim";

struct Classic {
    /// Empty until the coordinator has assigned one.
    id: String,
    /// `None` if it has to join.
    generation: Option<i32>,
    owns: Ownership,
    /// When it sent the last request that was answered.
    alive_at: Instant,
}

/// `number` identifies the client in the history, after the nodes.
pub(super) async fn run(mut client: Client, number: usize) {
    client.history.lock().begins();
    let owns = Ownership::none(GROUP, number);
    let mut member = Classic { id: String::new(), generation: None, owns, alive_at: Instant::now() };
    while !client.history.lock().has_ended(number) {
        time::sleep(HEARTBEAT_INTERVAL).await;
        let is_served = match member.generation {
            Some(generation) => member.beat(&mut client, generation).await,
            None => {
                member.join(&mut client).await;
                false
            }
        };
        if is_served {
            client.history.lock().done(number);
        }
        if client.history.lock().phase() == Phase::Storm {
            match below(60) {
                0 => member.leave(&mut client).await,
                // Its partitions become free when its session has expired.
                1 => member.forget(&client),
                _ => {}
            }
        }
    }
    member.leave(&mut client).await;
    client.history.lock().finishes();
}

impl Classic {
    async fn join(&mut self, client: &mut Client) {
        let Some(node) = client.coordinator(Coordinated::Group, GROUP).await else { return };
        let protocol = JoinGroupRequestProtocol { name: PROTOCOL.to_owned(), ..Default::default() };
        let timeout_ms = i32::try_from(SESSION_TIMEOUT.as_millis()).expect("a short timeout");
        let request = JoinGroupRequest {
            group_id: GROUP.to_owned(),
            session_timeout_ms: timeout_ms,
            rebalance_timeout_ms: timeout_ms,
            member_id: self.id.clone(),
            protocol_type: PROTOCOL.to_owned(),
            protocols: vec![protocol],
            ..Default::default()
        };
        let Some(answer) = client.ask(node, JOIN_GROUP, &request).await else {
            return client.refresh().await;
        };
        match code(answer.error_code) {
            ErrorCode::None => self.sync(client, &answer).await,
            ErrorCode::MemberIdRequired => self.id = answer.member_id,
            ErrorCode::UnknownMemberId => self.forget(client),
            _ => client.refresh().await,
        }
    }

    /// Gets its assignment after it has joined a generation.
    async fn sync(&mut self, client: &mut Client, joined: &JoinGroupResponse) {
        let Some(node) = client.coordinator(Coordinated::Group, GROUP).await else { return };
        self.id.clone_from(&joined.member_id);
        let leads = joined.leader == joined.member_id;
        let request = SyncGroupRequest {
            group_id: GROUP.to_owned(),
            generation_id: joined.generation_id,
            member_id: self.id.clone(),
            protocol_type: Some(PROTOCOL.to_owned()),
            protocol_name: Some(PROTOCOL.to_owned()),
            assignments: if leads { assign(&joined.members) } else { Vec::new() },
            ..Default::default()
        };
        let sent = Instant::now();
        let Some(Some(answer)) = while_owning(sent, client.ask(node, SYNC_GROUP, &request)).await else {
            return client.refresh().await;
        };
        match code(answer.error_code) {
            ErrorCode::None => {
                (self.generation, self.alive_at) = (Some(joined.generation_id), sent);
                let assigned: BTreeSet<i32> =
                    answer.assignment.iter().map(|number| (*number).into()).collect();
                self.owns.take(client, assigned);
            }
            ErrorCode::UnknownMemberId => self.forget(client),
            ErrorCode::RebalanceInProgress | ErrorCode::IllegalGeneration => {}
            _ => client.refresh().await,
        }
    }

    /// Heartbeats. Returns true if it is still a member.
    async fn beat(&mut self, client: &mut Client, generation_id: i32) -> bool {
        let heard = while_owning(self.alive_at, self.heartbeat(client, generation_id)).await;
        if heard.is_none() {
            self.owns.give_up(client);
            self.generation = None;
        }
        heard.unwrap_or(false)
    }

    /// Sends a heartbeat. Returns true if it is still a member.
    async fn heartbeat(&mut self, client: &mut Client, generation_id: i32) -> bool {
        let sent = Instant::now();
        let Some(node) = client.coordinator(Coordinated::Group, GROUP).await else { return false };
        let request = HeartbeatRequest {
            group_id: GROUP.to_owned(),
            generation_id,
            member_id: self.id.clone(),
            ..Default::default()
        };
        let answer = client.ask(node, HEARTBEAT, &request).await;
        match answer.map(|answer| code(answer.error_code)) {
            Some(ErrorCode::None) => {
                self.alive_at = sent;
                return true;
            }
            Some(ErrorCode::RebalanceInProgress | ErrorCode::IllegalGeneration) => {
                client.count("a classic group was rebalanced");
                self.owns.give_up(client);
                self.generation = None;
            }
            Some(ErrorCode::UnknownMemberId) => {
                client.count("a member was fenced");
                self.forget(client);
            }
            Some(_) | None => client.refresh().await,
        }
        false
    }

    async fn leave(&mut self, client: &mut Client) {
        // Another member may own the partitions before this is answered.
        self.owns.give_up(client);
        if let Some(node) = client.coordinator(Coordinated::Group, GROUP).await {
            let member = MemberIdentity { member_id: self.id.clone(), ..Default::default() };
            let members = vec![member];
            let request = LeaveGroupRequest { group_id: GROUP.to_owned(), members, ..Default::default() };
            if client.ask(node, LEAVE_GROUP, &request).await.is_some_and(|answer| answer.error_code == 0) {
                client.count("a member left");
            }
        }
        self.forget(client);
    }

    /// Gives up everything. It comes back as another member.
    fn forget(&mut self, client: &Client) {
        self.owns.give_up(client);
        (self.id, self.generation) = (String::new(), None);
    }
}

/// Builds the assignments that the leader of a group sends: partition numbers, one byte each.
fn assign(members: &[JoinGroupResponseMember]) -> Vec<SyncGroupRequestAssignment> {
    let given = |index: usize| -> Bytes {
        let own = (0..DATA_PARTITIONS).filter(|number| number % members.len() == index);
        own.map(|number| u8::try_from(number).expect("a small number")).collect()
    };
    let one = |(index, member): (usize, &JoinGroupResponseMember)| SyncGroupRequestAssignment {
        member_id: member.member_id.clone(),
        assignment: given(index),
        ..Default::default()
    };
    members.iter().enumerate().map(one).collect()
}
