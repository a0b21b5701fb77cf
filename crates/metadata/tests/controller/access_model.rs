//! Users, rules and quotas against a plain model: random commands are carried out by both.

use std::collections::BTreeMap;
use std::net::IpAddr;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use tailrace_identity::acl::{Acl, CLUSTER_NAME, ResourceKind};
use tailrace_identity::quota::{EntityName, QuotaEntity, QuotaKey};
use tailrace_identity::scram::ScramMechanism;
use tailrace_metadata::*;

use crate::access_rig;
use crate::cluster_rig::Rig;

/// A password by its number, when it was set, and the one before it with its end.
type Password = (u8, i64, Option<(u8, i64)>);

/// What was asked for so far, kept as simply as possible.
#[derive(Debug, Default, PartialEq)]
struct Model {
    disabled: BTreeMap<String, i64>,
    passwords: BTreeMap<(String, ScramMechanism), Password>,
    acls: Vec<Acl>,
    limits: BTreeMap<(QuotaEntity, QuotaKey), f64>,
}

impl Model {
    fn knows(&self, user: &str) -> bool {
        self.disabled.contains_key(user) || self.passwords.keys().any(|(name, _)| name == user)
    }

    /// Carries out a command. `false` if it is refused.
    fn run(&mut self, command: &Command) -> bool {
        match command {
            Command::AlterScramCredential { user, change, now, .. } => self.alter(user, change, now.0),
            Command::DisableUser { user, .. } | Command::RemoveUser { user } if !self.knows(user) => false,
            Command::DisableUser { user, disabled: true, now, .. } => {
                self.disabled.entry(user.clone()).or_insert(now.0);
                true
            }
            Command::DisableUser { user, .. } => {
                self.disabled.remove(user);
                true
            }
            Command::RemoveUser { user } => {
                self.disabled.remove(user);
                self.passwords.retain(|(name, _), _| name != user);
                true
            }
            Command::CreateAcls(acls) => {
                let is_legal = |acl: &Acl| {
                    acl.name == CLUSTER_NAME || (acl.kind == ResourceKind::Topic && !acl.name.is_empty())
                };
                if !acls.iter().all(is_legal) {
                    return false;
                }
                self.acls.extend(acls.iter().cloned());
                self.acls.sort();
                self.acls.dedup();
                true
            }
            Command::DeleteAcls(acls) => {
                self.acls.retain(|acl| !acls.contains(acl));
                true
            }
            Command::AlterClientQuota { entity, set, remove } => self.limit(entity, set, remove),
            other => panic!("{other}"),
        }
    }

    fn alter(&mut self, user: &str, change: &ScramChange, now: i64) -> bool {
        if ["", "*"].contains(&user) {
            return false;
        }
        let is_done = match change {
            ScramChange::Delete { mechanism } => {
                self.passwords.remove(&(user.to_owned(), *mechanism)).is_some()
            }
            ScramChange::Set { keep_previous_until: Some(until), .. } if until.0 <= now => false,
            ScramChange::Set { verifier, keep_previous_until } => {
                let key = (user.to_owned(), verifier.mechanism());
                let new = verifier.stored_key()[0];
                let (set_at, older) = match self.passwords.get(&key) {
                    None => (now, None),
                    Some((same, at, older)) if *same == new => {
                        let valid = older.filter(|(_, until)| *until > now);
                        (*at, valid.map(|(number, _)| number))
                    }
                    Some((other, ..)) => (now, Some(*other)),
                };
                let kept = older.zip(keep_previous_until.map(|until| until.0));
                self.passwords.insert(key, (new, set_at, kept));
                true
            }
        };
        if is_done {
            for ((name, _), (_, _, older)) in &mut self.passwords {
                if name == user {
                    *older = older.filter(|(_, until)| *until > now);
                }
            }
        }
        is_done
    }

    fn limit(
        &mut self,
        entity: &QuotaEntity,
        set: &BTreeMap<QuotaKey, QuotaLimit>,
        remove: &[QuotaKey],
    ) -> bool {
        let mut entity = entity.clone();
        if let Some(EntityName::Named(ip)) = &mut entity.ip {
            let Ok(address) = ip.parse::<IpAddr>() else { return false };
            *ip = address.to_canonical().to_string();
        }
        let is_address = entity.ip.is_some();
        let fits = |key: &QuotaKey| is_address == (*key == QuotaKey::ConnectionCreationRate);
        if entity == QuotaEntity::default() || !set.keys().all(|key| fits(key) && !remove.contains(key)) {
            return false;
        }
        for (key, limit) in set {
            self.limits.insert((entity.clone(), *key), limit.get());
        }
        self.limits.retain(|(other, key), _| *other != entity || !remove.contains(key));
        true
    }

    /// Returns the model of an image.
    fn of(image: &MetadataImage) -> Self {
        let mut model = Self { acls: image.access().acls().iter().cloned().collect(), ..Self::default() };
        for user in image.access().users() {
            if let Some(disabled) = &user.disabled {
                model.disabled.insert(user.name.clone(), disabled.at.0);
            }
            for credential in &user.credentials {
                let older = credential.previous.as_ref();
                let older = older.map(|older| (older.verifier.stored_key()[0], older.valid_until.0));
                let password = (credential.verifier.stored_key()[0], credential.set.at.0, older);
                model.passwords.insert((user.name.clone(), credential.verifier.mechanism()), password);
            }
        }
        for (entity, limits) in image.access().quotas().iter() {
            let limits = limits.iter().map(|(key, limit)| ((entity.clone(), *key), limit.get()));
            model.limits.extend(limits);
        }
        model
    }
}

/// Carries out a command with the controller and the model, and checks that they agree. Returns the number of
/// records, or `None` for a refusal.
fn step(rig: &mut Rig, model: &mut Model, command: &Command) -> Option<usize> {
    let before = rig.image();
    let written = rig.run(command);
    assert_eq!(written.is_ok(), model.run(command), "{command}: {written:?}");
    let image = rig.image();
    assert_eq!(Model::of(&image), *model, "{command}");
    let (old, new) = (before.access(), image.access());
    let records = written.as_ref().map_or(0, |records| *records);
    assert_eq!(new.version(), old.version() + records as u64);
    assert_eq!(records == 0, old == new, "a record changes something, and nothing changes without one");
    assert!(new.users().all(|user| user.disabled.is_some() || !user.credentials.is_empty()));
    assert!(new.quotas().values().all(|limits| !limits.is_empty()));
    written.ok()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn commands_do_what_a_plain_model_does(
        commands in prop::collection::vec(access_rig::command(), 0..60),
        in_cluster in any::<bool>(),
    ) {
        let mut rig = if in_cluster { Rig::cluster(2) } else { Rig::alone() };
        let mut model = Model::default();
        for command in &commands {
            step(&mut rig, &mut model, command);
        }
        let replayed = Rig::replay(&[], &rig.log);
        prop_assert_eq!(replayed.image(), rig.image());
        let restored = Rig::replay(&[], &rig.controller.snapshot_records());
        prop_assert_eq!(restored.image(), rig.image());
        prop_assert_eq!(Model::of(&restored.image()), model);
    }
}

/// Without this test, most cases of the property could be refusals.
#[test]
fn commands_of_each_kind_are_carried_out_refused_and_without_effect() {
    let mut runner = TestRunner::deterministic();
    let mut seen: BTreeMap<(String, Option<usize>), usize> = BTreeMap::new();
    for _ in 0..64 {
        let (mut rig, mut model) = (Rig::alone(), Model::default());
        for _ in 0..60 {
            let command = access_rig::command().new_tree(&mut runner).expect("nothing is filtered").current();
            let written = step(&mut rig, &mut model, &command);
            let text = command.to_string();
            let kind = text.split(|letter: char| !letter.is_alphabetic()).next().unwrap_or_default();
            *seen.entry((kind.to_owned(), written)).or_default() += 1;
        }
    }
    let kinds = ["AlterScramCredential", "DisableUser", "CreateAcls", "DeleteAcls", "AlterClientQuota"];
    for kind in kinds {
        for written in [Some(0), Some(1)] {
            let count = seen.get(&(kind.to_owned(), written)).copied().unwrap_or_default();
            assert!(count >= 10, "{kind} {written:?}: {seen:?}");
        }
    }
    for kind in ["AlterScramCredential", "DisableUser", "RemoveUser", "CreateAcls", "AlterClientQuota"] {
        assert!(seen.get(&(kind.to_owned(), None)).copied().unwrap_or_default() >= 10, "{kind}: {seen:?}");
    }
    assert!(seen.keys().all(|(_, written)| written.is_none_or(|records| records <= 1)), "{seen:?}");
}
