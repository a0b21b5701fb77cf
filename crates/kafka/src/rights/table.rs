//! What a client needs for each API: one table, by which the handlers ask, and of which docs/security.md has
//! a copy.

use tailrace_identity::acl::Operation::{
    Alter, AlterConfigs, ClusterAction, Create, CreateTokens, Delete, Describe, DescribeConfigs,
    DescribeTokens, IdempotentWrite, Read, Write,
};
use tailrace_identity::acl::ResourceKind::{
    Cluster, DelegationToken, Group, Subject, Topic, TransactionalId, User,
};
use tailrace_identity::acl::{Operation, ResourceKind};
use tailrace_kafka_wire::ApiKey;

/// One right that an API asks for.
#[derive(Debug)]
struct Need {
    operation: Operation,
    kind: ResourceKind,
    /// When it is asked, and what else would do. For the document.
    #[cfg_attr(not(test), expect(dead_code, reason = "only the document has it"))]
    remark: &'static str,
}

/// All rights that an API asks for. Without any, every client that may send requests may send this one.
struct Row {
    key: ApiKey,
    needs: &'static [Need],
}

const fn need(operation: Operation, kind: ResourceKind, remark: &'static str) -> Need {
    Need { operation, kind, remark }
}

const fn row(key: ApiKey, needs: &'static [Need]) -> Row {
    Row { key, needs }
}

const FILTERED: &str = "others are left out";
const BINDS: Need =
    need(Read, Subject, "for each pattern added to `tailrace.subjects`, or ALTER of the cluster");
const BINDS_WITH_ACKS: Need = need(Write, Subject, "the same, with `tailrace.subjects.ack`");
const BINDS_ANY: Need = need(Alter, Cluster, "instead of the rights for subjects");

/// The table, in the order of the keys.
const ROWS: &[Row] = &[
    row(
        ApiKey::Produce,
        &[need(Write, Topic, ""), need(Write, TransactionalId, "if a batch is transactional")],
    ),
    row(ApiKey::Fetch, &[need(Read, Topic, "asked again at each fetch of a session")]),
    row(ApiKey::ListOffsets, &[need(Describe, Topic, "")]),
    row(
        ApiKey::Metadata,
        &[
            need(Describe, Topic, "in a list of all topics, others are left out"),
            need(Create, Cluster, "to create a topic automatically"),
            need(Create, Topic, "instead of CREATE of the cluster"),
        ],
    ),
    row(ApiKey::OffsetCommit, &[need(Read, Group, ""), need(Read, Topic, "")]),
    row(
        ApiKey::OffsetFetch,
        &[need(Describe, Group, ""), need(Describe, Topic, "if all are asked for, others are left out")],
    ),
    row(
        ApiKey::FindCoordinator,
        &[
            need(Describe, Group, "for a group"),
            need(Describe, TransactionalId, "for a transactional id"),
            need(ClusterAction, Cluster, "for a share-partition"),
        ],
    ),
    row(ApiKey::JoinGroup, &[need(Read, Group, "")]),
    row(ApiKey::Heartbeat, &[need(Read, Group, "")]),
    row(ApiKey::LeaveGroup, &[need(Read, Group, "")]),
    row(ApiKey::SyncGroup, &[need(Read, Group, "")]),
    row(ApiKey::DescribeGroups, &[need(Describe, Group, "")]),
    row(ApiKey::ListGroups, &[need(Describe, Cluster, "for all groups"), need(Describe, Group, FILTERED)]),
    row(ApiKey::SaslHandshake, &[]),
    row(ApiKey::ApiVersions, &[]),
    row(
        ApiKey::CreateTopics,
        &[
            need(Create, Cluster, ""),
            need(Create, Topic, "instead of CREATE of the cluster"),
            need(DescribeConfigs, Topic, "to get the settings in the answer"),
            BINDS,
            BINDS_WITH_ACKS,
            BINDS_ANY,
        ],
    ),
    row(
        ApiKey::DeleteTopics,
        &[
            need(Describe, Topic, "otherwise the answer has no name that the request does not have"),
            need(Delete, Topic, ""),
            need(Delete, Cluster, "instead of both: a rule for ALL of the cluster"),
        ],
    ),
    row(ApiKey::DeleteRecords, &[need(Delete, Topic, "")]),
    row(
        ApiKey::InitProducerId,
        &[
            need(Write, TransactionalId, "with a transactional id"),
            need(IdempotentWrite, Cluster, "without one, or WRITE of any topic"),
        ],
    ),
    row(
        ApiKey::OffsetForLeaderEpoch,
        &[need(Describe, Topic, ""), need(ClusterAction, Cluster, "instead of it")],
    ),
    row(
        ApiKey::AddPartitionsToTxn,
        &[
            need(Write, TransactionalId, "up to version 3"),
            need(Write, Topic, "up to version 3; if one is refused, none is added"),
            need(ClusterAction, Cluster, "from version 4 on"),
        ],
    ),
    row(ApiKey::AddOffsetsToTxn, &[need(Write, TransactionalId, ""), need(Read, Group, "")]),
    row(ApiKey::EndTxn, &[need(Write, TransactionalId, "")]),
    row(ApiKey::WriteTxnMarkers, &[need(Alter, Cluster, ""), need(ClusterAction, Cluster, "instead of it")]),
    row(
        ApiKey::TxnOffsetCommit,
        &[need(Write, TransactionalId, ""), need(Read, Group, ""), need(Read, Topic, "")],
    ),
    row(ApiKey::DescribeAcls, &[need(Describe, Cluster, "")]),
    row(ApiKey::CreateAcls, &[need(Alter, Cluster, "")]),
    row(ApiKey::DeleteAcls, &[need(Alter, Cluster, "")]),
    row(
        ApiKey::DescribeConfigs,
        &[
            need(DescribeConfigs, Topic, "for a topic"),
            need(DescribeConfigs, Group, "for a group"),
            need(DescribeConfigs, Cluster, "for everything else"),
        ],
    ),
    row(ApiKey::AlterConfigs, ALTER_CONFIGS),
    row(ApiKey::DescribeLogDirs, &[need(Describe, Cluster, "")]),
    row(ApiKey::SaslAuthenticate, &[]),
    row(ApiKey::CreatePartitions, &[need(Alter, Topic, "")]),
    row(
        ApiKey::CreateDelegationToken,
        &[need(CreateTokens, User, "for another owner; not by a client that logged in with a token")],
    ),
    row(ApiKey::RenewDelegationToken, &[]),
    row(ApiKey::ExpireDelegationToken, &[]),
    row(
        ApiKey::DescribeDelegationToken,
        &[
            need(Describe, DelegationToken, "of tokens that the user may not renew"),
            need(DescribeTokens, User, "of their owner, instead of it; others are left out"),
        ],
    ),
    row(ApiKey::DeleteGroups, &[need(Delete, Group, "")]),
    row(ApiKey::ElectLeaders, &[need(Alter, Cluster, "")]),
    row(ApiKey::IncrementalAlterConfigs, ALTER_CONFIGS),
    row(ApiKey::AlterPartitionReassignments, &[need(Alter, Cluster, "")]),
    row(ApiKey::ListPartitionReassignments, &[need(Describe, Cluster, "")]),
    row(ApiKey::OffsetDelete, &[need(Delete, Group, ""), need(Read, Topic, "")]),
    row(ApiKey::DescribeClientQuotas, &[need(DescribeConfigs, Cluster, "")]),
    row(ApiKey::AlterClientQuotas, &[need(AlterConfigs, Cluster, "")]),
    row(ApiKey::DescribeUserScramCredentials, &[need(Describe, Cluster, "")]),
    row(ApiKey::AlterUserScramCredentials, &[need(Alter, Cluster, "")]),
    row(ApiKey::DescribeQuorum, &[need(Describe, Cluster, "")]),
    row(ApiKey::UpdateFeatures, &[need(Alter, Cluster, "")]),
    row(ApiKey::DescribeCluster, &[]),
    row(ApiKey::DescribeProducers, &[need(Read, Topic, "")]),
    row(ApiKey::UnregisterBroker, &[need(Alter, Cluster, "")]),
    row(
        ApiKey::DescribeTransactions,
        &[need(Describe, TransactionalId, ""), need(Describe, Topic, FILTERED)],
    ),
    row(ApiKey::ListTransactions, &[need(Describe, TransactionalId, FILTERED)]),
    row(ApiKey::ConsumerGroupHeartbeat, MEMBERS),
    row(ApiKey::ConsumerGroupDescribe, DESCRIBED_MEMBERS),
    row(ApiKey::ListConfigResources, &[need(DescribeConfigs, Cluster, "")]),
    row(
        ApiKey::DescribeTopicPartitions,
        &[need(Describe, Topic, "in a list of all topics, others are left out")],
    ),
    row(ApiKey::ShareGroupHeartbeat, MEMBERS),
    row(ApiKey::ShareGroupDescribe, DESCRIBED_MEMBERS),
    row(ApiKey::ShareFetch, &[need(Read, Group, ""), need(Read, Topic, "")]),
    row(ApiKey::ShareAcknowledge, &[need(Read, Group, ""), need(Read, Topic, "")]),
    row(
        ApiKey::DescribeShareGroupOffsets,
        &[need(Describe, Group, ""), need(Describe, Topic, "if all are asked for, others are left out")],
    ),
    row(ApiKey::AlterShareGroupOffsets, &[need(Read, Group, ""), need(Read, Topic, "")]),
    row(ApiKey::DeleteShareGroupOffsets, &[need(Delete, Group, ""), need(Read, Topic, "")]),
];

const ALTER_CONFIGS: &[Need] = &[
    need(AlterConfigs, Topic, "for a topic"),
    need(AlterConfigs, Group, "for a group"),
    need(AlterConfigs, Cluster, "for everything else"),
    BINDS,
    BINDS_WITH_ACKS,
    need(
        Alter,
        Cluster,
        "instead of the rights for subjects, and to change `tailrace.authorizer.report.only`",
    ),
];

const MEMBERS: &[Need] = &[
    need(Read, Group, ""),
    need(Describe, Topic, "of every subscribed name; what an expression matches is filtered"),
];

const DESCRIBED_MEMBERS: &[Need] = &[
    need(Describe, Group, ""),
    need(Describe, Topic, "of every topic of the members; otherwise the answer has no members"),
];

/// Reports whether the table says that an API asks for this.
pub(super) fn asks_for(key: ApiKey, operation: Operation, kind: ResourceKind) -> bool {
    let needs = ROWS.iter().find(|row| row.key == key).map_or(&[][..], |row| row.needs);
    needs.iter().any(|need| need.operation == operation && need.kind == kind)
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;
    use crate::served::SERVED;

    /// The lines around the table in the document.
    const BEGIN: &str =
        "<!-- rights: copied from crates/kafka/src/rights/table.rs, whose test compares them -->\n";
    const END: &str = "<!-- end of rights -->";

    fn document() -> String {
        let mut text = "| key | API | needs |\n|---|---|---|\n".to_owned();
        for Row { key, needs } in ROWS {
            let one = |Need { operation, kind, remark }: &Need| {
                let operation = operation.name().replace('-', "_").to_uppercase();
                let kind = kind.name().replace('-', " ");
                if remark.is_empty() {
                    format!("{operation} {kind}")
                } else {
                    format!("{operation} {kind} ({remark})")
                }
            };
            let needs: Vec<_> = needs.iter().map(one).collect();
            let needs = if needs.is_empty() { "nothing".to_owned() } else { needs.join("; ") };
            writeln!(text, "| {} | {} | {needs} |", key.code(), key.name()).expect("memory is enough");
        }
        text
    }

    #[test]
    fn every_served_api_has_a_row_and_only_those() {
        let rows: Vec<_> = ROWS.iter().map(|row| row.key).collect();
        let served: Vec<_> = SERVED.iter().map(|served| served.key).collect();
        assert_eq!(rows, served);
    }

    #[test]
    fn an_api_asks_for_what_its_row_has_and_for_nothing_else() {
        assert!(asks_for(ApiKey::Fetch, Read, Topic));
        assert!(!asks_for(ApiKey::Fetch, Write, Topic) && !asks_for(ApiKey::Fetch, Read, Group));
        assert!(!asks_for(ApiKey::ApiVersions, Describe, Cluster));
    }

    #[test]
    fn no_row_asks_for_an_operation_that_its_resource_does_not_have() {
        for Row { key, needs } in ROWS {
            for need in *needs {
                // Kafka asks for DELETE of the cluster, which only a rule for ALL allows.
                let is_known = need.kind.operations().contains(&need.operation)
                    || (*key, need.operation, need.kind) == (ApiKey::DeleteTopics, Delete, Cluster);
                assert!(is_known, "{}: {need:?}", key.name());
            }
        }
    }

    #[test]
    fn the_document_has_the_same_table() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/security.md");
        let text = std::fs::read_to_string(path).expect("the document exists");
        let found = text.split_once(BEGIN).and_then(|(_, rest)| rest.split_once(END)).map(|(table, _)| table);
        assert_eq!(found, Some(document().as_str()), "the table for docs/security.md:\n{}", document());
    }
}
