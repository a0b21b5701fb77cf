//! A rule, and filters for rules.

use std::fmt;

use bytes::Bytes;
use serde_json::{Value, json};
use tailrace_cli::text::table::Table;
use tailrace_kafka_wire::messages::create_acls_request::AclCreation;
use tailrace_kafka_wire::messages::delete_acls_request::DeleteAclsFilter;
use tailrace_kafka_wire::messages::delete_acls_response::DeleteAclsMatchingAcl;
use tailrace_kafka_wire::messages::describe_acls_response::DescribeAclsResource;
use tailrace_kafka_wire::messages::{DescribeAclsRequest, describe_acls_response};
use tailrace_kafka_wire::{TaggedFields, own_fields};

use super::words::{Kind, Operation, Pattern, Permission};
use crate::shown::shown;

/// The name of the only cluster.
pub(super) const CLUSTER_NAME: &str = "kafka-cluster";

/// One ACL.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rule {
    pub(super) kind: Kind,
    pub(super) name: String,
    pub(super) pattern: Pattern,
    pub(super) principal: String,
    pub(super) host: String,
    pub(super) operation: Operation,
    pub(super) permission: Permission,
}

impl Rule {
    /// The rules of a resource, as DescribeAcls answers.
    pub(super) fn from_resource(resource: DescribeAclsResource) -> Vec<Self> {
        let DescribeAclsResource { resource_type, resource_name, pattern_type, acls, .. } = resource;
        let rule = |acl: describe_acls_response::AclDescription| Self {
            kind: Kind(resource_type),
            name: resource_name.clone(),
            pattern: Pattern(pattern_type),
            principal: acl.principal,
            host: acl.host,
            operation: Operation(acl.operation),
            permission: Permission(acl.permission_type),
        };
        acls.into_iter().map(rule).collect()
    }

    /// A rule that was removed.
    pub(super) fn from_match(found: DeleteAclsMatchingAcl) -> Self {
        Self {
            kind: Kind(found.resource_type),
            name: found.resource_name,
            pattern: Pattern(found.pattern_type),
            principal: found.principal,
            host: found.host,
            operation: Operation(found.operation),
            permission: Permission(found.permission_type),
        }
    }

    pub(super) fn to_creation(&self) -> AclCreation {
        AclCreation {
            resource_type: self.kind.0,
            resource_name: self.name.clone(),
            resource_pattern_type: self.pattern.0,
            principal: self.principal.clone(),
            host: self.host.clone(),
            operation: self.operation.0,
            permission_type: self.permission.0,
            ..Default::default()
        }
    }

    /// The filter that matches this rule and no other.
    pub(super) fn to_filter(&self) -> DeleteAclsFilter {
        DeleteAclsFilter {
            resource_type_filter: self.kind.0,
            resource_name_filter: Some(self.name.clone()),
            pattern_type_filter: self.pattern.0,
            principal_filter: Some(self.principal.clone()),
            host_filter: Some(self.host.clone()),
            operation: self.operation.0,
            permission_type: self.permission.0,
            ..Default::default()
        }
    }

    pub(super) fn to_json(&self) -> Value {
        json!({
            "resource_type": self.kind.to_string(),
            "resource_name": self.name,
            "pattern": self.pattern.to_string(),
            "principal": self.principal,
            "host": self.host,
            "operation": self.operation.to_string(),
            "permission": self.permission.to_string(),
        })
    }
}

/// As in `User:alice: allow read on topic prefix orders, from 10.0.0.5`.
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, operation, permission, .. } = self;
        write!(f, "{}: {permission} {operation} on {kind}", shown(&self.principal))?;
        if self.kind != Kind::CLUSTER {
            let how = if self.pattern == Pattern::PREFIXED { "prefix " } else { "" };
            write!(f, " {how}{}", shown(&self.name))?;
        }
        if self.host == "*" { Ok(()) } else { write!(f, ", from {}", shown(&self.host)) }
    }
}

/// Rules as a table.
pub(super) fn table(rules: &[Rule]) -> String {
    let head = ["RESOURCE", "NAME", "PATTERN", "PRINCIPAL", "HOST", "OPERATION", "PERMISSION"];
    let mut table = Table::new(0, &head);
    for rule in rules {
        table.row(vec![
            rule.kind.to_string(),
            shown(&rule.name).into_owned(),
            rule.pattern.to_string(),
            shown(&rule.principal).into_owned(),
            shown(&rule.host).into_owned(),
            rule.operation.to_string(),
            rule.permission.to_string(),
        ]);
    }
    table.render()
}

/// Which rules to find. `None` is any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Filter {
    pub(super) kind: Kind,
    pub(super) name: Option<String>,
    pub(super) pattern: Pattern,
    pub(super) principal: Option<String>,
    pub(super) host: Option<String>,
    pub(super) operation: Operation,
    pub(super) permission: Permission,
}

impl Filter {
    pub(super) fn to_request(&self) -> DescribeAclsRequest {
        DescribeAclsRequest {
            resource_type_filter: self.kind.0,
            resource_name_filter: self.name.clone(),
            pattern_type_filter: self.pattern.0,
            principal_filter: self.principal.clone(),
            host_filter: self.host.clone(),
            operation: self.operation.0,
            permission_type: self.permission.0,
            // Rules of every kind are those for subjects, too.
            unknown_tagged_fields: TaggedFields::of(own_fields::EVERY_KIND, Bytes::new()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule() -> Rule {
        Rule {
            kind: Kind::TOPIC,
            name: "orders".to_owned(),
            pattern: Pattern::LITERAL,
            principal: "User:alice".to_owned(),
            host: "*".to_owned(),
            operation: Operation::READ,
            permission: Permission::ALLOW,
        }
    }

    #[test]
    fn a_rule_is_shown_on_a_line() {
        let prefixed = Rule { pattern: Pattern::PREFIXED, host: "10.0.0.5".to_owned(), ..rule() };
        let denied = Rule { permission: Permission::DENY, operation: Operation::ALL, ..rule() };
        let cluster = Rule { kind: Kind::CLUSTER, name: CLUSTER_NAME.to_owned(), ..rule() };
        for (rule, expected) in [
            (rule(), "User:alice: allow read on topic orders"),
            (prefixed, "User:alice: allow read on topic prefix orders, from 10.0.0.5"),
            (denied, "User:alice: deny all on topic orders"),
            (cluster, "User:alice: allow read on cluster"),
            (Rule { principal: "User:a\nb".to_owned(), ..rule() }, "User:a\\nb: allow read on topic orders"),
        ] {
            assert_eq!(rule.to_string(), expected);
        }
    }

    #[test]
    fn the_filter_of_a_rule_names_every_part_of_it() {
        let filter = rule().to_filter();
        assert_eq!(
            (
                filter.resource_type_filter,
                filter.pattern_type_filter,
                filter.operation,
                filter.permission_type
            ),
            (2, 3, 3, 3)
        );
        let names = [filter.resource_name_filter, filter.principal_filter, filter.host_filter];
        assert_eq!(names.map(Option::unwrap), ["orders", "User:alice", "*"]);
    }

    #[test]
    fn what_a_server_sends_and_removes_is_the_same_rule() {
        let acl = describe_acls_response::AclDescription {
            principal: "User:alice".to_owned(),
            host: "*".to_owned(),
            operation: 3,
            permission_type: 3,
            ..Default::default()
        };
        let resource = DescribeAclsResource {
            resource_type: 2,
            resource_name: "orders".to_owned(),
            pattern_type: 3,
            acls: vec![acl],
            ..Default::default()
        };
        assert_eq!(Rule::from_resource(resource), [rule()]);
        let removed = DeleteAclsMatchingAcl {
            resource_type: 2,
            resource_name: "orders".to_owned(),
            pattern_type: 3,
            principal: "User:alice".to_owned(),
            host: "*".to_owned(),
            operation: 3,
            permission_type: 3,
            ..Default::default()
        };
        assert_eq!(Rule::from_match(removed), rule());
    }

    #[test]
    fn a_table_has_a_row_for_each_rule() {
        assert_eq!(
            table(&[rule()]),
            "RESOURCE  NAME    PATTERN  PRINCIPAL   HOST  OPERATION  PERMISSION\n\
             topic     orders  literal  User:alice  *     read       allow\n"
        );
    }
}
