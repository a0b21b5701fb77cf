//! Each API needs exactly the rights of the table: with all of them it works. Without any single one, and
//! without all of them, it is refused with the code of the first one that is missing, and changes nothing.

macro_rules! case {
    ($name:literal, [$($right:expr),*], $version:literal, |$id:ident| $request:expr, |$answer:ident| $code:expr) => {
        Case {
            name: $name,
            rights: vec![$($right),*],
            call: |client, $id| {
                Box::pin(async move {
                    let _ = $id;
                    let $answer = client.call($version, &$request).await;
                    error($code)
                })
            },
        }
    };
}

mod access;
mod cluster;
mod groups;
mod records;
mod settings;
mod share_groups;
mod topics;
mod transactions;

use std::pin::Pin;
use std::sync::Arc;

use tailrace_identity::acl::Operation::{
    self, Alter, AlterConfigs, ClusterAction, Create, Delete, Describe, DescribeConfigs, IdempotentWrite,
    Read, Write,
};
use tailrace_identity::acl::ResourceKind::{self, Group, Topic, TransactionalId};
use tailrace_identity::acl::{CLUSTER_NAME, ResourceKind::Cluster};
use tailrace_kafka_wire::ErrorCode::{
    self, ClusterAuthorizationFailed, GroupAuthorizationFailed, TopicAuthorizationFailed,
    TransactionalIdAuthorizationFailed,
};
use tailrace_kafka_wire::messages::*;
use tailrace_types::TopicId;

use super::{Rig, Right, is_refusal};
use crate::common::rig::{fetch_request, produce_request};
use crate::common::{Client, batch, error, topic};

const T: &str = "t";
const G: &str = "g";
const X: &str = "x";
const MEMBER: &str = "m";

type Answer<'a> = Pin<Box<dyn Future<Output = ErrorCode> + Send + 'a>>;

/// One request, and the rights that it needs. Each comes with the kind of resource.
#[derive(Clone)]
struct Case {
    name: &'static str,
    rights: Vec<(Operation, ResourceKind, &'static str)>,
    /// Sends the request for topic [`T`], whose id is given, and returns the code that matters.
    call: for<'a> fn(&'a mut Client, [u8; 16]) -> Answer<'a>,
}

/// Returns the code with which the lack of a right is told.
fn code(kind: ResourceKind) -> ErrorCode {
    match kind {
        Topic => TopicAuthorizationFailed,
        Group => GroupAuthorizationFailed,
        Cluster => ClusterAuthorizationFailed,
        _ => TransactionalIdAuthorizationFailed,
    }
}

/// The first code that is an error.
fn first(codes: impl IntoIterator<Item = i16>) -> i16 {
    codes.into_iter().find(|code| *code != 0).unwrap_or_default()
}

async fn check(rig: &Rig, client: &mut Client, case: &Case, id: [u8; 16]) {
    let refused = async |client: &mut Client, missing: ResourceKind, what: &str| {
        let before = rig.server.node().image();
        let found = (case.call)(client, id).await;
        assert_eq!(found, code(missing), "{} without {what}", case.name);
        let after = rig.server.node().image();
        assert!(Arc::ptr_eq(&before, &after), "{} without {what} has changed something", case.name);
    };
    refused(client, case.rights[0].1, "any right").await;
    for (number, missing) in case.rights.iter().enumerate() {
        let mut others = case.rights.clone();
        others.remove(number);
        rig.allow(&others).await;
        refused(client, missing.1, &format!("{missing:?}")).await;
        rig.forget(&others).await;
    }
    rig.allow(&case.rights).await;
    let found = (case.call)(client, id).await;
    assert!(!is_refusal(found), "{} with its rights: {found:?}", case.name);
    rig.forget(&case.rights).await;
}

async fn check_all(cases: &[Case]) {
    let rig = &mut Rig::new().await;
    let id = rig.admin.create_topic(T, 2, &[]).await;
    rig.admin.create_topic("gone", 1, &[]).await;
    rig.admin.produce(T, 0, &[1, 2, 3]).await;
    // A share group without members.
    rig.admin.call(0, &share_groups::offsets_of("h")).await;
    let mut client = rig.anonymous().await;
    for case in cases {
        check(rig, &mut client, case, id).await;
    }
}

const ON_T: &[i32] = &[0];

fn names(name: &str) -> Vec<String> {
    vec![name.to_owned()]
}

/// Rights of the table that no case here has, and the test that asks for each.
const ELSEWHERE: [(&str, &str, &str, &str); 21] = [
    (
        "Produce",
        "WRITE transactional id",
        RECORDS,
        "a_transactional_batch_needs_the_right_for_its_transactional_id",
    ),
    (
        "Metadata",
        "CREATE cluster",
        HIDING,
        "a_topic_is_created_automatically_only_by_a_client_that_may_create_it",
    ),
    ("ListGroups", "DESCRIBE cluster", FILTERS, LISTED_GROUPS),
    ("ListGroups", "DESCRIBE group", FILTERS, LISTED_GROUPS),
    (
        "CreateTopics",
        "DESCRIBE_CONFIGS topic",
        HIDING,
        "the_settings_of_a_created_topic_are_for_clients_that_may_describe_them",
    ),
    ("CreateTopics", "READ subject", SUBJECTS, REPLACED),
    ("CreateTopics", "WRITE subject", SUBJECTS, REPLACED),
    ("CreateTopics", "ALTER cluster", SUBJECTS, CAPTURES),
    ("DeleteTopics", "DESCRIBE topic", HIDING, "deletion_tells_no_name_and_no_existence_of_a_hidden_topic"),
    (
        "DeleteTopics",
        "DELETE cluster",
        HIDING,
        "a_rule_for_everything_of_the_cluster_allows_to_delete_topics",
    ),
    ("AlterConfigs", "READ subject", SUBJECTS, REPLACED),
    ("AlterConfigs", "WRITE subject", SUBJECTS, REPLACED),
    ("AlterConfigs", "ALTER cluster", SUBJECTS, CAPTURES),
    ("IncrementalAlterConfigs", "READ subject", SUBJECTS, "a_pattern_needs_read_of_all_its_subjects"),
    ("IncrementalAlterConfigs", "WRITE subject", SUBJECTS, "acknowledgements_need_write_too"),
    ("IncrementalAlterConfigs", "ALTER cluster", SUBJECTS, CAPTURES),
    ("CreateDelegationToken", "CREATE_TOKENS user", TOKENS, OF_OTHERS),
    ("DescribeDelegationToken", "DESCRIBE delegation token", TOKENS, OF_OTHERS),
    ("DescribeDelegationToken", "DESCRIBE_TOKENS user", TOKENS, OF_OTHERS),
    (
        "DescribeTransactions",
        "DESCRIBE topic",
        FILTERS,
        "a_transaction_is_described_with_the_topics_that_may_be_described",
    ),
    (
        "ListTransactions",
        "DESCRIBE transactional id",
        FILTERS,
        "transactional_ids_are_listed_that_may_be_described",
    ),
];
const LISTED_GROUPS: &str = "groups_are_listed_that_may_be_described_or_all_to_who_may_describe_the_cluster";
const REPLACED: &str = "new_topics_and_replaced_settings_are_checked_too";
const CAPTURES: &str = "who_may_alter_the_cluster_may_capture_everything";
const OF_OTHERS: &str = "tokens_of_others_need_rights";

const RECORDS: &str = include_str!("../records.rs");
const HIDING: &str = include_str!("../hiding.rs");
const FILTERS: &str = include_str!("../filters.rs");
const SUBJECTS: &str = include_str!("../subjects.rs");
const TOKENS: &str = include_str!("../../delegation_tokens.rs");

/// Splits the needs of a row, `READ group; READ topic (a remark; more)`, and leaves out the remarks.
fn needs(cell: &str) -> Vec<String> {
    let mut depth = 0;
    let without_remarks = cell.chars().filter(|letter| {
        depth += i32::from(*letter == '(');
        let is_outside = depth == 0;
        depth -= i32::from(*letter == ')');
        is_outside
    });
    let text: String = without_remarks.collect();
    text.split(';').map(|need| need.trim().to_owned()).collect()
}

/// The right as the table writes it.
fn written((operation, kind, _): &(Operation, ResourceKind, &'static str)) -> String {
    format!("{} {}", operation.name().replace('-', "_").to_uppercase(), kind.name().replace('-', " "))
}

/// Who adds a right to an API adds a case.
#[test]
fn every_right_of_the_table_has_a_case() {
    let all = [
        access::cases(),
        cluster::cases(),
        groups::cases(),
        records::cases(),
        settings::cases(),
        share_groups::cases(),
        topics::cases(),
        transactions::cases(),
    ]
    .concat();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/security.md");
    let text = std::fs::read_to_string(path).expect("the document exists");
    let (_, table) = text.split_once("<!-- rights").expect("the table begins");
    let (table, _) = table.split_once("<!-- end of rights").expect("the table ends");
    let mut missing = Vec::new();
    for row in table.lines().skip(1).filter(|line| line.starts_with("| ")).skip(1) {
        let cells: Vec<_> = row.split(" | ").map(|cell| cell.trim_matches(['|', ' '])).collect();
        let api = cells[1];
        let of_api = all.iter().filter(|case| case.name.split([' ', ',']).next() == Some(api));
        let asked: Vec<_> = of_api.flat_map(|case| case.rights.iter().map(written)).collect();
        for need in needs(cells[2]).into_iter().filter(|need| need != "nothing") {
            let is_elsewhere = ELSEWHERE.iter().any(|(known, right, text, test)| {
                *known == api && *right == need && text.contains(&format!("async fn {test}("))
            });
            if !asked.contains(&need) && !is_elsewhere {
                missing.push(format!("{api}: {need}"));
            }
        }
    }
    assert_eq!(missing, [""; 0]);
}
