//! Explains a decision: DescribeAcls with a tagged field of our own ([`own_fields::EXPLAIN`]), whose filter
//! describes a request instead of rules.

use std::net::IpAddr;

use tailrace_identity::acl::{Acl, Operation, ResourceKind};
use tailrace_kafka_wire::TaggedFields;
use tailrace_kafka_wire::messages::describe_acls_response::{AclDescription, DescribeAclsResource};
use tailrace_kafka_wire::messages::{DescribeAclsRequest, DescribeAclsResponse};
use tailrace_kafka_wire::own_fields::{self, Verdict};
use tailrace_node::access::{Explained, Question};

use crate::commands::Refusal;
use crate::context::Context;

/// Reports whether the request asks for an explanation.
pub(crate) fn is_asked(request: &DescribeAclsRequest) -> bool {
    request.unknown_tagged_fields.get(own_fields::EXPLAIN).is_some()
}

/// Decides on the request that the filter describes. The answer has the rule that decided, if one did.
pub(crate) fn explain(
    context: &Context,
    request: &DescribeAclsRequest,
) -> Result<DescribeAclsResponse, Refusal> {
    let invalid = |what: &str| Refusal::invalid_request(format!("An explanation needs {what}."));
    let principal = request.principal_filter.as_deref().and_then(|text| text.strip_prefix("User:"));
    let user = principal.filter(|user| !user.is_empty()).ok_or_else(|| invalid("a user"))?;
    let name = request.resource_name_filter.as_deref().filter(|name| !name.is_empty());
    let name = name.ok_or_else(|| invalid("the name of a resource"))?;
    let kind = ResourceKind::from_code(request.resource_type_filter).ok_or_else(|| invalid("a resource"))?;
    let operation = Operation::from_code(request.operation);
    let operation = operation.filter(|operation| *operation != Operation::All);
    let operation = operation.ok_or_else(|| invalid("a single operation"))?;
    let address = request.host_filter.as_deref().map(str::parse::<IpAddr>).transpose();
    let address = address.map_err(|_| invalid("an address, or none"))?;
    let question = Question { user, address, operation, kind, name };
    let explained = context.node().explain(question).ok_or_else(|| invalid("a subject of NATS"))?;
    let (reason, rule) = match explained.reason {
        Explained::SuperUser => (own_fields::Reason::SuperUser, None),
        Explained::Rule(acl) => (own_fields::Reason::Rule, Some(acl)),
        Explained::Default { has_rules: true } => (own_fields::Reason::DefaultBesideRules, None),
        Explained::Default { has_rules: false } => (own_fields::Reason::DefaultWithoutRules, None),
        Explained::AuditTopic => (own_fields::Reason::AuditTopic, None),
    };
    let (is_allowed, is_partial) = (explained.is_allowed, explained.is_partial);
    let verdict = Verdict { is_allowed, is_partial, is_tried: explained.is_tried, reason };
    Ok(DescribeAclsResponse {
        resources: rule.into_iter().map(resource).collect(),
        unknown_tagged_fields: TaggedFields::of(own_fields::EXPLAIN, verdict.encode()),
        ..Default::default()
    })
}

fn resource(acl: Acl) -> DescribeAclsResource {
    let rule = AclDescription {
        principal: acl.principal,
        host: acl.host,
        operation: acl.operation.code(),
        permission_type: acl.permission.code(),
        ..Default::default()
    };
    DescribeAclsResource {
        resource_type: acl.kind.code(),
        resource_name: acl.name,
        pattern_type: acl.pattern.code(),
        acls: vec![rule],
        ..Default::default()
    }
}
