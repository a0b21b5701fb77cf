//! The rules of one principal.

use std::net::IpAddr;
use std::sync::Arc;

use super::host::Host;
use super::patterns::Patterns;
use super::radix::Radix;
use super::uses::Access;
use super::{Acl, Operation, PatternKind, Permission, ResourceKind, WILDCARD};

/// Number of kinds of resources.
pub(super) const KINDS: usize = ResourceKind::ALL.len();

/// A rule and its host.
#[derive(Debug)]
pub(super) struct Rule {
    pub(super) acl: Acl,
    pub(super) host: Host,
}

impl Rule {
    /// Reports whether it is about requests from this address, which is in canonical form. A request whose
    /// address is unknown might come from anywhere. So it meets every DENY, but only the ALLOWs for all
    /// addresses.
    pub(super) fn is_about_address(&self, address: Option<IpAddr>) -> bool {
        match address {
            Some(address) => self.host.contains(address),
            None => self.host == Host::Any || self.acl.permission == Permission::Deny,
        }
    }

    /// Reports whether it denies or allows an operation. An ALLOW of some operations implies another one. A
    /// DENY implies nothing.
    pub(super) fn is_about_operation(&self, operation: Operation) -> bool {
        use Operation::{All, Alter, AlterConfigs, Delete, Describe, DescribeConfigs, Read, Write};
        let own = self.acl.operation;
        let is_implied = match operation {
            Describe => matches!(own, Read | Write | Delete | Alter),
            DescribeConfigs => own == AlterConfigs,
            _ => false,
        };
        own == operation || own == All || (is_implied && self.acl.permission == Permission::Allow)
    }
}

/// The rules with one name.
#[derive(Clone, Debug, Default)]
struct Row {
    literal: Vec<Arc<Rule>>,
    prefixed: Vec<Arc<Rule>>,
}

/// Rules for subjects by their patterns.
pub(super) type SubjectList = Patterns<Vec<Arc<Rule>>>;

/// The rules of one principal.
#[derive(Clone, Debug, Default)]
pub(super) struct Holder {
    /// All rules, by kind and name.
    rows: [Radix<Row>; KINDS],
    /// The rules for subjects once more, by [`Permission`] and [`Access`]. ALL is in two lists.
    denied: [SubjectList; Access::ALL.len()],
    allowed: [SubjectList; Access::ALL.len()],
}

impl Holder {
    /// Returns the rules that match the name of a resource. Not for subjects.
    pub(super) fn rules_for<'a>(&'a self, kind: ResourceKind, name: &str) -> impl Iterator<Item = &'a Rule> {
        let rows = self.rows[index(kind)].prefixes(name.as_bytes()).flat_map(move |(bytes, row)| {
            let literal = if bytes == name.len() { &row.literal[..] } else { &[] };
            literal.iter().chain(&row.prefixed)
        });
        let for_all = if name == WILDCARD { &[] } else { self.literal_rules(kind, WILDCARD) };
        rows.chain(for_all).map(|rule| &**rule)
    }

    /// Returns the rules for exactly this name.
    fn literal_rules(&self, kind: ResourceKind, name: &str) -> &[Arc<Rule>] {
        self.rows[index(kind)].get(name.as_bytes()).map_or(&[], |row| &row.literal)
    }

    /// Returns all rules for resources of a kind.
    pub(super) fn rules_of(&self, kind: ResourceKind) -> impl Iterator<Item = &Rule> {
        self.rows[index(kind)].values().flat_map(Row::rules)
    }

    /// Returns the rules for subjects that deny this access, or allow it.
    pub(super) fn list(&self, permission: Permission, access: Access) -> &SubjectList {
        match permission {
            Permission::Deny => &self.denied[access as usize],
            Permission::Allow => &self.allowed[access as usize],
        }
    }

    /// Returns all rules.
    pub(super) fn rules(&self) -> impl Iterator<Item = &Acl> {
        self.rows.iter().flat_map(Radix::values).flat_map(Row::rules).map(|rule| &rule.acl)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.iter().all(Radix::is_empty)
    }

    /// Adds a rule. Returns whether it was new.
    pub(super) fn insert(&mut self, rule: &Arc<Rule>) -> bool {
        let acl = &rule.acl;
        let rows = &mut self.rows[index(acl.kind)];
        let is_new = rows.change(acl.name.as_bytes(), |row| row.get_or_insert_default().insert(rule));
        if is_new {
            self.change_lists(acl, |rules| rules.push(rule.clone()));
        }
        is_new
    }

    /// Removes a rule. Returns whether there was one.
    pub(super) fn remove(&mut self, acl: &Acl) -> bool {
        let is_changed = self.rows[index(acl.kind)].change(acl.name.as_bytes(), |place| {
            let is_changed = place.as_mut().is_some_and(|row| row.remove(acl));
            place.take_if(|row| row.literal.is_empty() && row.prefixed.is_empty());
            is_changed
        });
        if is_changed {
            self.change_lists(acl, |rules| rules.retain(|rule| rule.acl != *acl));
        }
        is_changed
    }

    /// Changes the rules with the pattern of this one, in the lists that it belongs to.
    fn change_lists(&mut self, acl: &Acl, mut change: impl FnMut(&mut Vec<Arc<Rule>>)) {
        if acl.kind != ResourceKind::Subject {
            return;
        }
        let (pattern, _) = acl.subject_and_queue();
        let lists = match acl.permission {
            Permission::Deny => &mut self.denied,
            Permission::Allow => &mut self.allowed,
        };
        for access in Access::ALL {
            if acl.operation == Operation::All || acl.operation == access.operation() {
                lists[access as usize].change(pattern.as_bytes(), |place| {
                    change(place.get_or_insert_default());
                    place.take_if(|rules| rules.is_empty());
                });
            }
        }
    }
}

impl Row {
    fn rules(&self) -> impl Iterator<Item = &Rule> {
        self.literal.iter().chain(&self.prefixed).map(|rule| &**rule)
    }

    fn side(&mut self, pattern: PatternKind) -> &mut Vec<Arc<Rule>> {
        match pattern {
            PatternKind::Literal => &mut self.literal,
            PatternKind::Prefixed => &mut self.prefixed,
        }
    }

    fn insert(&mut self, rule: &Arc<Rule>) -> bool {
        let rules = self.side(rule.acl.pattern);
        let place = rules.binary_search_by(|other| other.acl.cmp(&rule.acl));
        if let Err(at) = place {
            rules.insert(at, rule.clone());
        }
        place.is_err()
    }

    fn remove(&mut self, acl: &Acl) -> bool {
        let rules = self.side(acl.pattern);
        let place = rules.binary_search_by(|rule| rule.acl.cmp(acl));
        if let Ok(at) = place {
            rules.remove(at);
        }
        place.is_ok()
    }
}

/// The place of a kind in an array of all kinds.
pub(super) fn index(kind: ResourceKind) -> usize {
    kind as usize
}
