//! Filters over rules, as in Kafka's DescribeAcls and DeleteAcls (KIP-290).

use super::{Acl, Operation, PatternKind, Permission, ResourceKind, WILDCARD};
use crate::rules::{Wild, matches};

/// The kinds of resources that a filter selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KindFilter {
    /// All.
    Any,
    /// All that Kafka knows. This is what `ANY` means on Kafka's wire: its tools neither see nor remove rules
    /// for subjects.
    AnyOfKafka,
    /// This one.
    Only(ResourceKind),
}

impl KindFilter {
    /// Returns the filter with this code in Kafka's protocol. `None` for 0 (unknown), and for codes that name
    /// no kind. Our code for subjects selects their rules.
    pub fn from_code(code: i8) -> Option<Self> {
        match code {
            1 => Some(Self::AnyOfKafka),
            _ => ResourceKind::from_code(code).map(Self::Only),
        }
    }

    fn matches(self, kind: ResourceKind) -> bool {
        match self {
            Self::Any => true,
            Self::AnyOfKafka => kind.is_kafkas(),
            Self::Only(only) => kind == only,
        }
    }
}

/// How a filter's name is compared with the names of rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatternFilter {
    /// Equal, whatever the rule's pattern is.
    Any,
    /// The filter's name is that of a resource, and the rule applies to it.
    Match,
    /// Equal, and the rule has this pattern.
    Only(PatternKind),
}

impl PatternFilter {
    /// Returns the filter with this code in Kafka's protocol. `None` for 0 (unknown) and for codes that Kafka
    /// does not know.
    pub fn from_code(code: i8) -> Option<Self> {
        match code {
            1 => Some(Self::Any),
            2 => Some(Self::Match),
            _ => PatternKind::from_code(code).map(Self::Only),
        }
    }
}

/// Selects rules. `None` selects all. Texts are compared exactly: a principal without wildcard, a host as it
/// is written in the rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AclFilter {
    /// The kind of resource.
    pub kind: KindFilter,
    /// The name of the resource.
    pub name: Option<String>,
    /// How `name` is compared.
    pub pattern: PatternFilter,
    /// The principal.
    pub principal: Option<String>,
    /// The host.
    pub host: Option<String>,
    /// The operation.
    pub operation: Option<Operation>,
    /// Whether it is allowed or denied.
    pub permission: Option<Permission>,
}

impl AclFilter {
    /// Selects every rule.
    #[cfg(test)]
    pub(crate) const EVERY: Self = Self {
        kind: KindFilter::Any,
        name: None,
        pattern: PatternFilter::Any,
        principal: None,
        host: None,
        operation: None,
        permission: None,
    };

    /// Reports whether the filter selects a rule.
    pub fn matches(&self, acl: &Acl) -> bool {
        let is_text = |wanted: &Option<String>, text: &str| wanted.as_deref().is_none_or(|one| one == text);
        self.kind.matches(acl.kind)
            && self.matches_name(acl)
            && is_text(&self.principal, &acl.principal)
            && is_text(&self.host, &acl.host)
            && self.operation.is_none_or(|operation| operation == acl.operation)
            && self.permission.is_none_or(|permission| permission == acl.permission)
    }

    fn matches_name(&self, acl: &Acl) -> bool {
        let is_named =
            |named: fn(&Acl, &str) -> bool| self.name.as_deref().is_none_or(|name| named(acl, name));
        match self.pattern {
            PatternFilter::Any => is_named(|acl, name| acl.name == name),
            PatternFilter::Match => is_named(applies_to),
            PatternFilter::Only(pattern) => acl.pattern == pattern && is_named(|acl, name| acl.name == name),
        }
    }
}

/// Reports whether a rule applies to the resource of this name.
fn applies_to(acl: &Acl, name: &str) -> bool {
    match (acl.kind, acl.pattern) {
        (ResourceKind::Subject, _) => {
            let (pattern, _) = acl.subject_and_queue();
            acl.name == name || matches(pattern.as_bytes(), name.as_bytes(), Wild::Everything)
        }
        (_, PatternKind::Literal) => acl.name == name || acl.name == WILDCARD,
        (_, PatternKind::Prefixed) => name.starts_with(&acl.name),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::acl;
    use super::*;

    /// The positions of the rules that a filter selects.
    fn selected(filter: &AclFilter) -> Vec<usize> {
        let rules = [
            "topic:orders User:a allow read",
            "topic:orders* User:a allow read",
            "topic:* User:b deny write",
            "topic:o* User:* allow describe from 10.0.0.1",
            "group:orders User:a allow read",
            "subject:orders.> User:a allow read",
            "topic:order User:a allow read",
        ];
        (0..rules.len()).filter(|at| filter.matches(&acl(rules[*at]))).collect()
    }

    #[test]
    fn names_are_compared_as_the_pattern_says() {
        use PatternFilter::{Any, Match, Only};
        let topics = |name: Option<&str>, pattern| AclFilter {
            kind: KindFilter::Only(ResourceKind::Topic),
            name: name.map(str::to_owned),
            pattern,
            ..AclFilter::EVERY
        };
        for (name, pattern, expected) in [
            (None, Any, &[0, 1, 2, 3, 6][..]),
            (None, Match, &[0, 1, 2, 3, 6]),
            (None, Only(PatternKind::Prefixed), &[1, 3]),
            (Some("orders"), Any, &[0, 1]),
            (Some("orders"), Match, &[0, 1, 2, 3]),
            (Some("orders.eu"), Match, &[1, 2, 3]),
            (Some("other"), Match, &[2, 3]),
            (Some("x"), Match, &[2]),
            (Some("*"), Match, &[2]),
            (Some("*"), Any, &[2]),
            (Some("orders"), Only(PatternKind::Literal), &[0]),
            (Some("orders"), Only(PatternKind::Prefixed), &[1]),
            (Some("o"), Only(PatternKind::Literal), &[]),
        ] {
            assert_eq!(selected(&topics(name, pattern)), expected, "{name:?} {pattern:?}");
        }
    }

    #[test]
    fn kafkas_filters_do_not_select_subjects() {
        let kind = |kind| AclFilter { kind, ..AclFilter::EVERY };
        assert_eq!(selected(&kind(KindFilter::Any)).len(), 7);
        assert_eq!(selected(&kind(KindFilter::from_code(1).unwrap())), [0, 1, 2, 3, 4, 6]);
        assert_eq!(selected(&kind(KindFilter::from_code(3).unwrap())), [4]);
        assert_eq!(selected(&kind(KindFilter::Only(ResourceKind::Subject))), [5]);
        for code in [0, 8, 99, -1] {
            assert_eq!(KindFilter::from_code(code), None);
        }
        for (code, expected) in [(0, None), (1, Some(PatternFilter::Any)), (2, Some(PatternFilter::Match))] {
            assert_eq!(PatternFilter::from_code(code), expected);
        }
        assert_eq!(PatternFilter::from_code(4), Some(PatternFilter::Only(PatternKind::Prefixed)));
    }

    #[test]
    fn every_other_field_is_compared_exactly() {
        let every = AclFilter::EVERY;
        let text = |text: &str| Some(text.to_owned());
        for (filter, expected) in [
            (AclFilter { principal: text("User:a"), ..every.clone() }, &[0, 1, 4, 5, 6][..]),
            (AclFilter { principal: text("User:*"), ..every.clone() }, &[3]),
            (AclFilter { principal: text("User:A"), ..every.clone() }, &[]),
            (AclFilter { host: text("*"), ..every.clone() }, &[0, 1, 2, 4, 5, 6]),
            (AclFilter { host: text("::ffff:10.0.0.1"), ..every.clone() }, &[]),
            (AclFilter { operation: Some(Operation::Write), ..every.clone() }, &[2]),
            (AclFilter { operation: Some(Operation::All), ..every.clone() }, &[]),
            (AclFilter { permission: Some(Permission::Deny), ..every.clone() }, &[2]),
        ] {
            assert_eq!(selected(&filter), expected, "{filter:?}");
        }
    }

    #[test]
    fn a_resource_that_is_a_subject_is_matched_by_patterns() {
        let subject = |name: &str, pattern| AclFilter {
            kind: KindFilter::Only(ResourceKind::Subject),
            name: Some(name.to_owned()),
            pattern,
            ..AclFilter::EVERY
        };
        assert_eq!(selected(&subject("orders.eu.new", PatternFilter::Match)), [5]);
        assert_eq!(selected(&subject("orders", PatternFilter::Match)), Vec::<usize>::new());
        assert_eq!(selected(&subject("orders.eu", PatternFilter::Any)), Vec::<usize>::new());
        assert_eq!(selected(&subject("orders.>", PatternFilter::Any)), [5]);
    }
}
