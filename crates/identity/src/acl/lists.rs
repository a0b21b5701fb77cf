//! Searches in the rules for subjects that are about a user, the lists of nats-server: what is allowed and
//! what is denied, for reading and for writing.

use std::borrow::Cow;
use std::sync::Arc;

use super::decide::{Authorizer, Found, Requester};
use super::holder::{Rule, SubjectList};
use super::uses::{Access, SubjectUse};
use super::{Acl, Operation, Permission};
use crate::rules::{Wild, matches};

/// What the ALLOWs for subjects say of a subject.
#[derive(Clone, Copy)]
pub(super) enum Listed<'a> {
    /// The user has no list.
    NoList,
    /// The list does not have it.
    Missing,
    /// The list has it for other queue groups.
    OtherQueues(&'a Acl),
    /// By this rule.
    Allowed(&'a Acl),
}

/// Picks one of several rules, for a queue group or for none.
type Pick<'a, 'f> = &'f dyn Fn(&'a [Arc<Rule>], Option<&[u8]>) -> Option<&'a Acl>;

impl Authorizer {
    /// Finds the rules that match a subject, without those for queue groups.
    pub(super) fn find_subject(
        &self,
        who: &Requester<'_>,
        operation: Operation,
        subject: &[u8],
    ) -> Found<'_> {
        let Some(access) = Access::of(operation) else {
            return Found::default();
        };
        let find = |permission| {
            self.in_lists(who, permission, access, |list, pick| {
                list.find_matching(subject, Wild::Literal, |rules| pick(rules, None))
            })
        };
        match find(Permission::Deny) {
            Some(acl) => Found { deny: Some(acl), allow: None },
            None => Found { deny: None, allow: find(Permission::Allow) },
        }
    }

    /// Reports whether there is an ALLOW that no single DENY covers.
    pub(super) fn allows_any_subject(&self, who: &Requester<'_>, operation: Operation) -> bool {
        let Some(access) = Access::of(operation) else {
            return false;
        };
        let is_covered = |acl: &Acl| {
            let (pattern, _) = acl.subject_and_queue();
            let deny = self.in_lists(who, Permission::Deny, access, |list, pick| {
                list.find_matching(pattern.as_bytes(), Wild::Everything, |rules| pick(rules, None))
            });
            deny.is_some()
        };
        let open = self.in_lists(who, Permission::Allow, access, |list, pick| {
            list.find(|rules| pick(rules, None).filter(|acl| !is_covered(acl)))
        });
        open.is_some()
    }

    /// Returns the DENY that forbids a subject or a subscription as a whole. As in nats-server, the words of
    /// a subscription are compared as literals.
    pub(super) fn matching_deny(&self, who: &Requester<'_>, wanted: SubjectUse<'_>) -> Option<&Acl> {
        self.in_lists(who, Permission::Deny, wanted.access, |list, pick| {
            list.find_matching(wanted.subject, Wild::Literal, |rules| pick(rules, wanted.queue))
        })
    }

    /// Returns a DENY for subjects that one of the patterns matches too.
    pub(super) fn colliding_deny<'p>(
        &self,
        who: &Requester<'_>,
        access: Access,
        mut patterns: impl Iterator<Item = Cow<'p, [u8]>>,
        queue: Option<&[u8]>,
    ) -> Option<&Acl> {
        if !self.has_list(who, Permission::Deny, access) {
            return None;
        }
        patterns.find_map(|pattern| {
            self.in_lists(who, Permission::Deny, access, |list, pick| {
                list.find_colliding(&pattern, |rules| pick(rules, queue))
            })
        })
    }

    /// Returns the first of the ALLOWs that cover the patterns, if each pattern is covered by one.
    pub(super) fn covering_allow<'p>(
        &self,
        who: &Requester<'_>,
        access: Access,
        patterns: impl Iterator<Item = Cow<'p, [u8]>>,
    ) -> Option<&Acl> {
        if !self.has_list(who, Permission::Allow, access) {
            return None;
        }
        let mut first = None;
        for pattern in patterns {
            let covering = self.in_lists(who, Permission::Allow, access, |list, pick| {
                list.find_matching(&pattern, Wild::Everything, |rules| pick(rules, None))
            });
            first = first.or(Some(covering?));
        }
        first
    }

    /// Looks a subject up in the ALLOWs. If matching rules name queue groups, the group of the subscription
    /// must be one of those, even if another rule allows the subject alone.
    pub(super) fn listed(&self, who: &Requester<'_>, wanted: SubjectUse<'_>) -> Listed<'_> {
        let (mut plain, mut queues, mut other_queues) = (None, None, None);
        let address = who.canonical_address();
        for holder in self.acls.holders(who.user) {
            let list = holder.list(Permission::Allow, wanted.access);
            list.find_matching(wanted.subject, wanted.wild(), |rules| {
                for rule in rules.iter().filter(|rule| rule.is_about_address(address)) {
                    let place = match rule.acl.subject_and_queue() {
                        (_, None) => &mut plain,
                        (_, Some(queue)) if is_queue(queue, wanted.queue) => &mut queues,
                        _ => &mut other_queues,
                    };
                    place.get_or_insert(&rule.acl);
                }
                None::<()>
            });
        }
        match (queues, other_queues.filter(|_| wanted.queue.is_some()), plain) {
            (Some(acl), _, _) => Listed::Allowed(acl),
            (None, Some(acl), _) => Listed::OtherQueues(acl),
            (None, None, Some(acl)) => Listed::Allowed(acl),
            (None, None, None) if self.has_list(who, Permission::Allow, wanted.access) => Listed::Missing,
            (None, None, None) => Listed::NoList,
        }
    }

    /// Reports whether a list has any rules, for any address.
    fn has_list(&self, who: &Requester<'_>, permission: Permission, access: Access) -> bool {
        self.acls.holders(who.user).any(|holder| !holder.list(permission, access).is_empty())
    }

    /// Searches the lists of the user and of everybody. `search` gets a list, and a function that picks from
    /// rules with the same pattern one that is about the request: about its address, and about all
    /// subscriptions or about its queue group.
    fn in_lists<'a>(
        &'a self,
        who: &Requester<'_>,
        permission: Permission,
        access: Access,
        search: impl Fn(&'a SubjectList, Pick<'a, '_>) -> Option<&'a Acl>,
    ) -> Option<&'a Acl> {
        let address = who.canonical_address();
        let pick = |rules: &'a [Arc<Rule>], queue: Option<&[u8]>| {
            let is_met = |rule: &&'a Arc<Rule>| {
                let (_, own) = rule.acl.subject_and_queue();
                rule.is_about_address(address) && own.is_none_or(|own| is_queue(own, queue))
            };
            rules.iter().find(is_met).map(|rule| &rule.acl)
        };
        self.acls.holders(who.user).find_map(|holder| search(holder.list(permission, access), &pick))
    }
}

fn is_queue(pattern: &str, queue: Option<&[u8]>) -> bool {
    queue.is_some_and(|queue| matches(pattern.as_bytes(), queue, Wild::Literal))
}
