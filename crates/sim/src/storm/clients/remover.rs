//! Administrators who delete groups and create them again: a group with offsets, and a share group. The next
//! group of a name must not see what the previous one had.

use std::collections::BTreeSet;

use tailrace_kafka_wire::ErrorCode;
use tailrace_kafka_wire::messages::delete_share_group_offsets_request::DeleteShareGroupOffsetsRequestTopic;
use tailrace_kafka_wire::messages::{DeleteGroupsRequest, DeleteShareGroupOffsetsRequest};
use tailrace_types::{Offset, PartitionId};

use super::client::{Client, Coordinated, below, code, pause};
use super::offsets::{commit, committed};
use super::share::{Member, configure};
use crate::storm::site::{DATA_TOPIC, OUT_TOPIC, topic_partition};

const DELETE_GROUPS: i16 = 2;
const DELETE_SHARE_GROUP_OFFSETS: i16 = 0;

/// The group with offsets.
const READERS: &str = "passing readers";

/// The share group.
const WORKERS: &str = "passing workers";

/// Maximum number of turns of a member before the group is deleted.
const TURNS: u64 = 12;

/// What a group has committed, as far as is known.
struct Committed {
    next: i64,
    /// The last acknowledged offset; -1 for none.
    acknowledged: i64,
    /// Requests without an answer, which may still be carried out later. -1 stands for a deletion.
    given_up: BTreeSet<i64>,
}

/// Deletes and recreates a group with offsets. `number` identifies the client in the history, after the
/// nodes.
pub(super) async fn remove_readers(mut client: Client, number: usize) {
    let mut offsets = Committed { next: 0, acknowledged: -1, given_up: BTreeSet::new() };
    client.history.lock().begins();
    while !client.history.lock().has_ended(number) {
        pause(150).await;
        match below(4) {
            0 => offsets.delete(&mut client).await,
            1 => offsets.commit(&mut client).await,
            _ => offsets.look(&mut client, number).await,
        }
    }
    client.history.lock().finishes();
}

impl Committed {
    async fn commit(&mut self, client: &mut Client) {
        self.next += 1;
        let partition = topic_partition(DATA_TOPIC, PartitionId(0));
        match commit(client, READERS, &partition, Offset(self.next)).await {
            Some(ErrorCode::None) => self.acknowledged = self.next,
            _ => {
                self.given_up.insert(self.next);
                client.refresh().await;
            }
        }
    }

    async fn delete(&mut self, client: &mut Client) {
        match delete_group(client, READERS).await {
            Some((_, ErrorCode::None)) => {
                if self.acknowledged >= 0 {
                    client.count("a group with offsets was deleted");
                }
                self.acknowledged = -1;
            }
            // An earlier request without an answer deleted the group, or the answer comes from a deposed
            // coordinator.
            Some((_, ErrorCode::GroupIdNotFound)) => {}
            _ => {
                self.given_up.insert(-1);
                client.refresh().await;
            }
        }
    }

    async fn look(&mut self, client: &mut Client, number: usize) {
        let partition = topic_partition(DATA_TOPIC, PartitionId(0));
        let Some(found) = committed(client, READERS, &partition).await else {
            return client.refresh().await;
        };
        client.history.lock().done(number);
        let fits = found.get() == self.acknowledged || self.given_up.contains(&found.get());
        // A deposed coordinator that does not know yet still returns what it knew, so check only at the end.
        if !fits && client.is_ending() {
            let what = format!(
                "{READERS}: offset {found} is committed, and {} was acknowledged since the group was deleted",
                self.acknowledged
            );
            client.history.lock().found(what);
        }
    }
}

/// Deletes and recreates a share group. Each new group must get every record.
pub(super) async fn remove_workers(mut client: Client) {
    client.history.lock().begins();
    configure(&mut client, WORKERS).await;
    let mut member = Member::new(WORKERS);
    loop {
        let is_last = client.is_ending();
        if is_last && below(2) == 0 {
            break;
        }
        for _ in 0..=below(TURNS) {
            member.turn(&mut client).await;
            if below(10) == 0 {
                delete_beside(&mut client, &mut member).await;
            }
        }
        while !member.leave(&mut client).await {
            client.refresh().await;
        }
        delete_workers(&mut client).await;
        member = Member::new(WORKERS);
        if is_last {
            break;
        }
    }
    client.history.lock().finishes();
    loop {
        member.turn(&mut client).await;
    }
}

/// Tries to delete a group that has a member, which must be refused.
async fn delete_beside(client: &mut Client, member: &mut Member) {
    let Some(node) = member.beat(client).await else { return };
    match delete_group(client, WORKERS).await {
        Some((_, ErrorCode::NonEmptyGroup)) => client.count("a group with a member was not deleted"),
        Some((coordinator, ErrorCode::None)) => {
            client.history.lock().successor_begins();
            // A deposed coordinator may know nothing of the member. If it does not know yet that it is
            // deposed, it may still know the member.
            if coordinator == node && member.beat(client).await == Some(node) {
                client.history.lock().found(format!("{WORKERS} was deleted although it had a member"));
            }
        }
        _ => client.refresh().await,
    }
}

/// Repeats until the group is deleted, or its offsets are.
async fn delete_workers(client: &mut Client) {
    let mut only_offsets = below(3) == 0;
    loop {
        let answer = if only_offsets {
            delete_offsets(client).await
        } else {
            delete_group(client, WORKERS).await.map(|(_, code)| code)
        };
        match answer {
            Some(ErrorCode::None) => {
                client.count(if only_offsets {
                    "offsets of a share group were deleted"
                } else {
                    "a share group was deleted"
                });
                return client.history.lock().successor_begins();
            }
            // An earlier request without an answer deleted the group, or the answer comes from a deposed
            // coordinator.
            Some(ErrorCode::GroupIdNotFound) => return,
            Some(ErrorCode::UnknownTopicOrPartition | ErrorCode::NonEmptyGroup) if only_offsets => {
                only_offsets = false;
            }
            _ => client.refresh().await,
        }
    }
}

/// Deletes a group. Returns the coordinator and its answer.
async fn delete_group(client: &mut Client, group: &str) -> Option<(u8, ErrorCode)> {
    let node = client.coordinator(Coordinated::Group, group).await?;
    let request = DeleteGroupsRequest { groups_names: vec![group.to_owned()], ..Default::default() };
    let answer = client.ask(node, DELETE_GROUPS, &request).await?;
    Some((node, code(answer.results.first()?.error_code)))
}

async fn delete_offsets(client: &mut Client) -> Option<ErrorCode> {
    let node = client.coordinator(Coordinated::Group, WORKERS).await?;
    let topic =
        DeleteShareGroupOffsetsRequestTopic { topic_name: OUT_TOPIC.to_owned(), ..Default::default() };
    let request = DeleteShareGroupOffsetsRequest {
        group_id: WORKERS.to_owned(),
        topics: vec![topic],
        ..Default::default()
    };
    let answer = client.ask(node, DELETE_SHARE_GROUP_OFFSETS, &request).await?;
    match code(answer.error_code) {
        ErrorCode::None => Some(code(answer.responses.first()?.error_code)),
        refused => Some(refused),
    }
}
