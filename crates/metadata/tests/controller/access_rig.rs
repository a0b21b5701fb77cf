//! Users, rules and quotas for tests: few names, so that commands affect each other.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use tailrace_identity::acl::{Acl, Operation, PatternKind, Permission, ResourceKind};
use tailrace_identity::quota::{EntityName, QuotaEntity, QuotaKey};
use tailrace_identity::scram::{ScramMechanism, ScramVerifier};
use tailrace_metadata::*;
use tailrace_types::TimestampMs;

pub(crate) use ScramMechanism::{Sha256, Sha512};

/// Returns the verifier of the password number `password`. The bytes of its keys are `password` and one more.
pub(crate) fn verifier(mechanism: ScramMechanism, password: u8) -> ScramVerifier {
    let key = |byte| vec![byte; mechanism.hash_bytes()];
    let (stored_key, server_key) = (key(password), key(password + 1));
    ScramVerifier::from_parts(mechanism, b"salt", 4096, &stored_key, &server_key).expect("legal")
}

pub(crate) fn alter(user: &str, change: ScramChange, now: i64) -> Command {
    let (user, by) = (user.to_owned(), "User:admin".to_owned());
    Command::AlterScramCredential { user, change, by, now: TimestampMs(now) }
}

/// Returns the command that sets a password, with the end of the one before it.
pub(crate) fn set(
    user: &str,
    mechanism: ScramMechanism,
    password: u8,
    keep_until: Option<i64>,
    now: i64,
) -> Command {
    let keep_previous_until = keep_until.map(TimestampMs);
    alter(user, ScramChange::Set { verifier: verifier(mechanism, password), keep_previous_until }, now)
}

pub(crate) fn delete(user: &str, mechanism: ScramMechanism, now: i64) -> Command {
    alter(user, ScramChange::Delete { mechanism }, now)
}

pub(crate) fn disable(user: &str, disabled: bool, now: i64) -> Command {
    let (user, by) = (user.to_owned(), "User:admin".to_owned());
    Command::DisableUser { user, disabled, by, now: TimestampMs(now) }
}

pub(crate) fn remove(user: &str) -> Command {
    Command::RemoveUser { user: user.to_owned() }
}

/// Returns the rule that allows alice to read a topic.
pub(crate) fn acl(topic: &str) -> Acl {
    Acl {
        kind: ResourceKind::Topic,
        name: topic.to_owned(),
        pattern: PatternKind::Literal,
        principal: "User:alice".to_owned(),
        host: "*".to_owned(),
        operation: Operation::Read,
        permission: Permission::Allow,
    }
}

pub(crate) fn named(name: &str) -> Option<EntityName> {
    Some(EntityName::Named(name.to_owned()))
}

pub(crate) fn limits(limits: &[(QuotaKey, f64)]) -> BTreeMap<QuotaKey, QuotaLimit> {
    limits.iter().map(|(key, limit)| (*key, QuotaLimit::new(*key, *limit).expect("legal"))).collect()
}

pub(crate) fn quota(entity: &QuotaEntity, set: &[(QuotaKey, f64)], remove: &[QuotaKey]) -> Command {
    Command::AlterClientQuota { entity: entity.clone(), set: limits(set), remove: remove.to_vec() }
}

fn user() -> impl Strategy<Value = &'static str> {
    prop::sample::select(&["alice", "alice", "alice", "bob", "ü", "", "*"][..])
}

fn mechanism() -> impl Strategy<Value = ScramMechanism> {
    prop::sample::select(&ScramMechanism::ALL[..])
}

fn user_command() -> impl Strategy<Value = Command> {
    let kept = prop::option::of(0..40_i64);
    prop_oneof![
        6 => (user(), mechanism(), 0..4_u8, kept, 0..20_i64)
            .prop_map(|(user, mechanism, password, kept, now)| set(user, mechanism, password, kept, now)),
        3 => (user(), mechanism(), 0..20_i64).prop_map(|(user, mechanism, now)| delete(user, mechanism, now)),
        3 => (user(), any::<bool>(), 0..20_i64).prop_map(|(user, disabled, now)| disable(user, disabled, now)),
        2 => user().prop_map(remove),
    ]
}

fn acls() -> impl Strategy<Value = Vec<Acl>> {
    let name = prop::sample::select(&["a", "a", "a", "b", "kafka-cluster", ""][..]);
    let kind = prop::sample::select(&[ResourceKind::Topic, ResourceKind::Topic, ResourceKind::Cluster][..]);
    let permission = prop_oneof![3 => Just(Permission::Allow), 1 => Just(Permission::Deny)];
    let one =
        (name, kind, permission).prop_map(|(name, kind, permission)| Acl { kind, permission, ..acl(name) });
    prop::collection::vec(one, 0..3)
}

fn quota_command() -> impl Strategy<Value = Command> {
    let name = || {
        let some = prop_oneof![
            3 => Just(EntityName::Named("alice".to_owned())),
            1 => Just(EntityName::Default),
        ];
        prop::option::weighted(0.7, some)
    };
    let ip = prop::sample::select(&["10.0.0.1", "::ffff:10.0.0.1", "here"][..]).prop_map(named);
    let entity = prop_oneof![
        4 => (name(), name()).prop_map(|(user, client_id)| QuotaEntity { user, client_id, ip: None }),
        2 => ip.prop_map(|ip| QuotaEntity { ip, ..QuotaEntity::default() }),
    ];
    let key = || prop::sample::select(&QuotaKey::ALL[..]);
    let set = prop::collection::btree_map(key(), (1..4_u8).prop_map(f64::from), 0..2);
    (entity, set, prop::collection::vec(key(), 0..3)).prop_map(|(entity, set, remove)| {
        let set: Vec<_> = set.into_iter().collect();
        quota(&entity, &set, &remove)
    })
}

/// Any command about users, rules or quotas, legal or not.
pub(crate) fn command() -> impl Strategy<Value = Command> {
    prop_oneof![
        6 => user_command(),
        2 => acls().prop_map(Command::CreateAcls),
        2 => acls().prop_map(Command::DeleteAcls),
        3 => quota_command(),
    ]
}

/// Records with their encoding, byte for byte.
pub(crate) fn encodings() -> Vec<(MetadataRecord, &'static str)> {
    let stamp = |at| Stamp { at: TimestampMs(at), by: "User:admin".to_owned() };
    let user = StoredUser {
        name: "alice".to_owned(),
        disabled: None,
        credentials: vec![StoredCredential {
            verifier: verifier(Sha256, 1),
            set: stamp(5),
            previous: Some(PreviousCredential { verifier: verifier(Sha256, 7), valid_until: TimestampMs(9) }),
        }],
    };
    let disabled = StoredUser { name: "b".to_owned(), disabled: Some(stamp(6)), credentials: Vec::new() };
    let denied = Acl {
        kind: ResourceKind::TransactionalId,
        pattern: PatternKind::Prefixed,
        host: "10.0.0.0/8".to_owned(),
        operation: Operation::IdempotentWrite,
        permission: Permission::Deny,
        ..acl("t-")
    };
    let both = QuotaEntity { user: named("alice"), client_id: Some(EntityName::Default), ip: None };
    let ip = QuotaEntity { ip: named("10.0.0.1"), ..QuotaEntity::default() };
    let set = limits(&[(QuotaKey::ProducerByteRate, 1_048_576.0), (QuotaKey::RequestPercentage, 12.5)]);
    vec![
        (
            MetadataRecord::User(user),
            r#"{"version":4,"type":"user","name":"alice","disabled":null,"credentials":[{"verifier":{"mechanism":"SCRAM-SHA-256","salt":"c2FsdA==","iterations":4096,"stored_key":"AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=","server_key":"AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI="},"set":{"at":5,"by":"User:admin"},"previous":{"verifier":{"mechanism":"SCRAM-SHA-256","salt":"c2FsdA==","iterations":4096,"stored_key":"BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=","server_key":"CAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAg="},"valid_until":9}}]}"#,
        ),
        (
            MetadataRecord::User(disabled),
            r#"{"version":4,"type":"user","name":"b","disabled":{"at":6,"by":"User:admin"},"credentials":[]}"#,
        ),
        (
            MetadataRecord::UserRemoved { name: "alice".to_owned() },
            r#"{"version":4,"type":"user-removed","name":"alice"}"#,
        ),
        (
            MetadataRecord::AclsChanged {
                added: BTreeSet::from([acl("orders")]),
                removed: BTreeSet::from([denied]),
            },
            r#"{"version":4,"type":"acls-changed","added":[{"kind":"topic","name":"orders","pattern":"literal","principal":"User:alice","host":"*","operation":"read","permission":"allow"}],"removed":[{"kind":"transactional-id","name":"t-","pattern":"prefixed","principal":"User:alice","host":"10.0.0.0/8","operation":"idempotent-write","permission":"deny"}]}"#,
        ),
        (
            MetadataRecord::ClientQuota { entity: both, limits: set },
            r#"{"version":4,"type":"client-quota","entity":{"user":{"named":"alice"},"client_id":"default"},"limits":{"producer_byte_rate":"1048576","request_percentage":"12.5"}}"#,
        ),
        (
            MetadataRecord::ClientQuota { entity: ip, limits: BTreeMap::new() },
            r#"{"version":4,"type":"client-quota","entity":{"ip":{"named":"10.0.0.1"}},"limits":{}}"#,
        ),
        (
            MetadataRecord::AccessVersion { version: 7 },
            r#"{"version":4,"type":"access-version","access_version":7}"#,
        ),
        (
            MetadataRecord::Token(StoredToken {
                id: "lWqVzAlQQxKcnbfmFZsVdw".to_owned(),
                owner: "alice".to_owned(),
                requester: "admin".to_owned(),
                renewers: vec!["bob".to_owned()],
                issued_at: TimestampMs(1),
                max_at: TimestampMs(3),
                expires_at: TimestampMs(2),
            }),
            r#"{"version":4,"type":"token","id":"lWqVzAlQQxKcnbfmFZsVdw","owner":"alice","requester":"admin","renewers":["bob"],"issued_at":1,"max_at":3,"expires_at":2}"#,
        ),
        (
            MetadataRecord::TokenRemoved { id: "lWqVzAlQQxKcnbfmFZsVdw".to_owned() },
            r#"{"version":4,"type":"token-removed","id":"lWqVzAlQQxKcnbfmFZsVdw"}"#,
        ),
    ]
}
