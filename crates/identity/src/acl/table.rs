//! The table of all rules, with the indexes that make decisions fast.
//!
//! Rules lie by principal first, because a request asks for two of them only: the user's, and those for
//! everybody. Below that, names lie in a [`Radix`], where one walk along a name finds the rule for it and the
//! rules for its prefixes. Patterns of subjects also lie in [`Patterns`], one for each of the four lists that
//! nats-server has. Only the rules of one principal for one name are compared one by one.
//!
//! A rule takes somewhat less than a kilobyte. `examples/decision_cost.rs` prints what decisions cost.

use std::fmt;
use std::sync::Arc;

use super::check::AclError;
use super::filter::AclFilter;
use super::holder::{Holder, KINDS, Rule, index};
use super::patterns::Patterns;
use super::radix::Radix;
use super::{Acl, PatternKind, ResourceKind, USER_TYPE, WILDCARD};

/// A set of rules. Cheap to clone: a copy shares all rules with its original, and a change copies only a few
/// of the nodes of the indexes. All rules pass [`Acl::check`]. The owner bounds their number.
#[derive(Clone, Default)]
pub struct Acls {
    /// By the name of the user, `*` for everybody.
    users: Radix<Holder>,
    /// By the principal, if that is not a user. No request has such a principal.
    others: Radix<Holder>,
    /// The number of rules for each name, by kind. Empty for subjects.
    named: [Radix<RuleCounts>; KINDS],
    /// The number of rules for each pattern of subjects.
    subjects: Patterns<usize>,
    len: usize,
}

/// The number of rules with one name.
#[derive(Clone, Copy, Debug, Default)]
struct RuleCounts {
    literal: usize,
    prefixed: usize,
}

impl Acls {
    /// Adds a rule. Returns whether it was new. Two rules are the same if all their texts are.
    ///
    /// # Errors
    /// The rule does not pass [`Acl::check`].
    pub fn insert(&mut self, acl: Acl) -> Result<bool, AclError> {
        let host = acl.checked_host()?;
        let rule = Arc::new(Rule { acl, host });
        let (holders, key) = self.place(&rule.acl.principal);
        let is_new = holders.change(key, |holder| holder.get_or_insert_default().insert(&rule));
        if is_new {
            self.count(&rule.acl, |count| *count += 1);
            self.len += 1;
        }
        Ok(is_new)
    }

    /// Removes a rule. Returns whether there was one.
    pub fn remove(&mut self, acl: &Acl) -> bool {
        let (holders, key) = self.place(&acl.principal);
        let is_changed = holders.change(key, |place| {
            let is_changed = place.as_mut().is_some_and(|holder| holder.remove(acl));
            if place.as_ref().is_some_and(Holder::is_empty) {
                *place = None;
            }
            is_changed
        });
        if is_changed {
            self.count(acl, |count| *count -= 1);
            self.len -= 1;
        }
        is_changed
    }

    /// Returns the number of rules.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Reports whether there are no rules.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns all rules: by principal, kind, name and pattern, users first. The order does not depend on the
    /// order of insertion.
    pub fn iter(&self) -> impl Iterator<Item = &Acl> {
        self.users.values().chain(self.others.values()).flat_map(Holder::rules)
    }

    /// Returns the rules that a filter selects, in the order of [`Acls::iter`]. Takes time for every rule, or
    /// for those of one principal if the filter names it.
    pub fn matching<'a>(&'a self, filter: &'a AclFilter) -> impl Iterator<Item = &'a Acl> {
        let named = filter.principal.as_deref().map(|principal| match principal.strip_prefix(USER_TYPE) {
            Some(user) => self.users.get(user.as_bytes()),
            None => self.others.get(principal.as_bytes()),
        });
        let every = self.users.values().chain(self.others.values()).filter(move |_| named.is_none());
        named.flatten().into_iter().chain(every).flat_map(Holder::rules).filter(|acl| filter.matches(acl))
    }

    /// Returns the holders whose rules are about a user: the user, and everybody.
    pub(super) fn holders(&self, user: &str) -> impl Iterator<Item = &Holder> {
        let own = self.users.get(user.as_bytes());
        own.into_iter().chain(self.users.get(WILDCARD.as_bytes()))
    }

    /// Reports whether any rule matches the name of a resource, whatever else it says. Not for subjects.
    pub(super) fn has_rules(&self, kind: ResourceKind, name: &str) -> bool {
        let named = &self.named[index(kind)];
        let is_met = |(bytes, counts): (usize, &RuleCounts)| {
            counts.prefixed > 0 || (bytes == name.len() && counts.literal > 0)
        };
        named.prefixes(name.as_bytes()).any(is_met) || self.has_rules_for_all(kind)
    }

    /// Reports whether there is a rule for all resources of a kind. Not for subjects.
    pub(super) fn has_rules_for_all(&self, kind: ResourceKind) -> bool {
        self.named[index(kind)].get(WILDCARD.as_bytes()).is_some_and(|counts| counts.literal > 0)
    }

    /// Reports whether any rule for subjects collides with a pattern, whatever else it says.
    pub(super) fn has_subject_rules(&self, pattern: &[u8]) -> bool {
        self.subjects.find_colliding(pattern, |_| Some(())).is_some()
    }

    /// Returns where the holder of a principal lies.
    fn place<'a>(&mut self, principal: &'a str) -> (&mut Radix<Holder>, &'a [u8]) {
        match principal.strip_prefix(USER_TYPE) {
            Some(user) => (&mut self.users, user.as_bytes()),
            None => (&mut self.others, principal.as_bytes()),
        }
    }

    /// Changes the number of rules with the name of this one.
    fn count(&mut self, acl: &Acl, change: impl FnOnce(&mut usize)) {
        if acl.kind == ResourceKind::Subject {
            let (pattern, _) = acl.subject_and_queue();
            return self.subjects.change(pattern.as_bytes(), |place| {
                change(place.get_or_insert_default());
                place.take_if(|count| *count == 0);
            });
        }
        self.named[index(acl.kind)].change(acl.name.as_bytes(), |place| {
            let counts = place.get_or_insert_default();
            change(match acl.pattern {
                PatternKind::Literal => &mut counts.literal,
                PatternKind::Prefixed => &mut counts.prefixed,
            });
            place.take_if(|counts| counts.literal + counts.prefixed == 0);
        });
    }
}

impl PartialEq for Acls {
    fn eq(&self, other: &Self) -> bool {
        self.len == other.len && self.iter().eq(other.iter())
    }
}

impl Eq for Acls {}

impl fmt::Debug for Acls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}
