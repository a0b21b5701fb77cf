//! Client quotas: limits of users, client ids and addresses.

use std::collections::BTreeMap;

use QuotaKey::{
    ConnectionCreationRate, ConsumerByteRate, ControllerMutationRate, ProducerByteRate, RequestPercentage,
};
use tailrace_identity::quota::{EntityName, QuotaEntity, QuotaKey};
use tailrace_metadata::*;

use crate::access_rig::{limits, named, quota};
use crate::cluster_rig::Rig;

fn user(name: &str) -> QuotaEntity {
    QuotaEntity { user: named(name), ..QuotaEntity::default() }
}

fn ip(address: &str) -> QuotaEntity {
    QuotaEntity { ip: named(address), ..QuotaEntity::default() }
}

fn stored(rig: &Rig, entity: &QuotaEntity) -> Option<BTreeMap<QuotaKey, QuotaLimit>> {
    rig.image().access().quotas().get(entity).cloned()
}

#[test]
fn limits_are_set_changed_and_removed_per_entity() {
    let mut rig = Rig::alone();
    let alice = user("alice");
    let both = QuotaEntity { client_id: Some(EntityName::Default), ..alice.clone() };
    rig.run(&quota(&alice, &[(ProducerByteRate, 100.0), (RequestPercentage, 12.5)], &[])).unwrap();
    rig.run(&quota(&both, &[(ProducerByteRate, 7.0)], &[])).unwrap();
    rig.run(&quota(
        &alice,
        &[(ProducerByteRate, 200.0), (ControllerMutationRate, 0.5)],
        &[RequestPercentage],
    ))
    .unwrap();
    let expected = limits(&[(ProducerByteRate, 200.0), (ControllerMutationRate, 0.5)]);
    assert_eq!(stored(&rig, &alice), Some(expected));
    assert_eq!(stored(&rig, &both), Some(limits(&[(ProducerByteRate, 7.0)])));
    for nothing in [
        quota(
            &alice,
            &[(ProducerByteRate, 200.0)],
            &[ConsumerByteRate, ConsumerByteRate, ConnectionCreationRate],
        ),
        quota(&user("bob"), &[], &[ProducerByteRate]),
        quota(&user("bob"), &[], &[]),
    ] {
        assert_eq!(rig.run(&nothing), Ok(0), "removing what is not set is no error");
    }
    rig.run(&quota(&alice, &[], &[ProducerByteRate, ControllerMutationRate])).unwrap();
    assert_eq!(stored(&rig, &alice), None, "nothing is left of it");
    assert_eq!(rig.image().access().quotas().len(), 1);
}

#[test]
fn an_address_has_one_quota_however_it_is_written() {
    let mut rig = Rig::alone();
    rig.run(&quota(&ip("::ffff:10.0.0.1"), &[(ConnectionCreationRate, 5.0)], &[])).unwrap();
    rig.run(&quota(&ip("10.0.0.1"), &[(ConnectionCreationRate, 6.0)], &[])).unwrap();
    rig.run(&quota(&ip("0:0:0:0:0:0:0:1"), &[(ConnectionCreationRate, 7.0)], &[])).unwrap();
    let quotas = rig.image().access().quotas().as_ref().clone();
    let expected = [("10.0.0.1", 6.0), ("::1", 7.0)];
    let expected = expected.map(|(address, rate)| (ip(address), limits(&[(ConnectionCreationRate, rate)])));
    assert_eq!(quotas, BTreeMap::from(expected));
    rig.run(&quota(&ip("::ffff:a00:1"), &[], &[ConnectionCreationRate])).unwrap();
    assert_eq!(stored(&rig, &ip("10.0.0.1")), None);
    let all = QuotaEntity { ip: Some(EntityName::Default), ..QuotaEntity::default() };
    rig.run(&quota(&all, &[(ConnectionCreationRate, 1.0)], &[])).unwrap();
}

#[test]
fn quotas_that_are_refused() {
    let mut rig = Rig::alone();
    let rate = [(ProducerByteRate, 1.0)];
    let connections = [(ConnectionCreationRate, 1.0)];
    let long = "x".repeat(256);
    let client_id = |name: &str| QuotaEntity { client_id: named(name), ..QuotaEntity::default() };
    let mixed = QuotaEntity { ip: named("10.0.0.1"), ..user("alice") };
    for (command, words) in [
        (quota(&QuotaEntity::default(), &rate, &[]), "Invalid empty client quota entity"),
        (quota(&mixed, &rate, &[]), "Invalid empty client quota entity"),
        (quota(&user(""), &rate, &[]), "Empty user not supported"),
        (quota(&client_id(""), &rate, &[]), "Empty client-id not supported"),
        (quota(&ip(""), &connections, &[]), "Empty ip not supported"),
        (quota(&user(&long), &rate, &[]), "The user of a quota has at most 255 bytes"),
        (quota(&client_id(&long), &rate, &[]), "The client-id of a quota has at most 255 bytes"),
        (quota(&ip("localhost"), &connections, &[]), "localhost is not a valid IP"),
        (quota(&ip("10.0.0.0/8"), &connections, &[]), "10.0.0.0/8 is not a valid IP"),
        (quota(&user("alice"), &connections, &[]), "Invalid configuration key connection_creation_rate"),
        (quota(&ip("10.0.0.1"), &rate, &[]), "Invalid configuration key producer_byte_rate"),
        (quota(&user("alice"), &rate, &[ProducerByteRate]), "Duplicate quota key producer_byte_rate"),
    ] {
        assert_eq!(rig.refusal(&command), words);
        assert_eq!(rig.run(&command).unwrap_err().kind(), ControlErrorKind::InvalidRequest);
    }
    rig.run(&quota(&user(&long[1..]), &rate, &[])).unwrap();
    // Fronts make limits of numbers, and answer as the controller would.
    let refused: ControlError = AccessError::from(QuotaLimit::new(ProducerByteRate, 0.0).unwrap_err()).into();
    assert_eq!(refused.to_string(), "Quota producer_byte_rate must be greater than 0");
    assert_eq!(refused.kind(), ControlErrorKind::InvalidRequest);
}

#[test]
fn there_are_at_most_10_000_entities() {
    let mut rig = Rig::alone();
    let rate = [(ProducerByteRate, 1.0)];
    for number in 0..10_000 {
        let limits = limits(&rate);
        let record = MetadataRecord::ClientQuota { entity: user(&format!("u{number}")), limits };
        rig.controller.apply(&record).expect("legal");
    }
    let more = quota(&user("alice"), &rate, &[]);
    let full = "10000 entities have quotas already; remove the quotas of others first.";
    assert_eq!(rig.refusal(&more), full);
    assert_eq!(rig.run(&more).unwrap_err().kind(), ControlErrorKind::Policy);
    rig.run(&quota(&user("u1"), &[(ConsumerByteRate, 2.0)], &[])).unwrap();
    rig.run(&quota(&user("u2"), &[], &[ProducerByteRate])).unwrap();
    rig.run(&more).unwrap();
}

#[test]
fn the_log_names_the_entity_of_a_quota_and_escapes_it() {
    let both = QuotaEntity { client_id: Some(EntityName::Default), ..user("a\nb") };
    let text = |entity| quota(entity, &[], &[ProducerByteRate]).to_string();
    assert_eq!(text(&both), "AlterClientQuota user=a\\nb client-id=<default>");
    assert_eq!(text(&ip("::1")), "AlterClientQuota ip=::1");
}
