//! Each API needs exactly the rights of the table: with all of them it works, and without any single one it
//! is refused with that right's code and changes nothing.

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
    for (number, missing) in case.rights.iter().enumerate() {
        let mut others = case.rights.clone();
        others.remove(number);
        rig.allow(&others).await;
        let before = rig.server.node().image();
        let found = (case.call)(client, id).await;
        assert_eq!(found, code(missing.1), "{} without {missing:?}", case.name);
        let after = rig.server.node().image();
        assert!(Arc::ptr_eq(&before, &after), "{} without {missing:?} has changed something", case.name);
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

/// APIs that need rights and have no case here.
const ELSEWHERE: [&str; 12] = [
    // They filter, and refuse nothing: see `filters`.
    "ListGroups",
    "ListTransactions",
    // Their answers are not of topics, groups or transactional ids.
    "DescribeAcls",
    "CreateAcls",
    "DeleteAcls",
    "DescribeClientQuotas",
    "AlterClientQuotas",
    "DescribeUserScramCredentials",
    "AlterUserScramCredentials",
    // They need rights only for others than the client: see `delegation_tokens`.
    "CreateDelegationToken",
    "DescribeDelegationToken",
    // The title of the table.
    "API",
];

#[test]
fn every_api_of_the_table_has_a_case() {
    let all = [
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
    for row in table.lines().filter(|line| line.starts_with("| ")) {
        let cells: Vec<_> = row.split('|').map(str::trim).collect();
        let (api, needs) = (cells[2], cells[3]);
        let has_case = all.iter().any(|case| case.name.split([' ', ',']).next() == Some(api));
        assert!(needs == "nothing" || has_case || ELSEWHERE.contains(&api), "{api} needs {needs}");
    }
}
