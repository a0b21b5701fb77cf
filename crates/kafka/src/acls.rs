//! DescribeAcls (29), CreateAcls (30) and DeleteAcls (31): KIP-140, KIP-290.
//!
//! Without an authorizer (`authorizer.class.name`) the answer is that of a Kafka without one, which clients
//! and tools recognize. Rules for subjects, which Kafka does not know, have a kind of their own
//! ([`ResourceKind::Subject`]). A filter finds them only if it names that kind, or has a tagged field of our
//! own ([`own_fields::EVERY_KIND`]).

use std::collections::BTreeMap;
use std::sync::Arc;

use tailrace_identity::acl::{
    Acl, AclFilter, KindFilter, Operation, PatternFilter, PatternKind, Permission, ResourceKind,
};
use tailrace_kafka_wire::messages::create_acls_request::AclCreation;
use tailrace_kafka_wire::messages::create_acls_response::AclCreationResult;
use tailrace_kafka_wire::messages::delete_acls_response::{DeleteAclsFilterResult, DeleteAclsMatchingAcl};
use tailrace_kafka_wire::messages::describe_acls_response::{AclDescription, DescribeAclsResource};
use tailrace_kafka_wire::messages::{
    CreateAclsRequest, CreateAclsResponse, DeleteAclsRequest, DeleteAclsResponse, DescribeAclsRequest,
    DescribeAclsResponse,
};
use tailrace_kafka_wire::{ErrorCode, own_fields};
use tailrace_metadata::Command;

use crate::commands::{ITEMS_MAX, Refusal};
use crate::context::Context;
use crate::explain;

/// Refuses who may not do this to the cluster, and everybody without an authorizer.
fn check(context: &Context, operation: Operation) -> Result<(), Refusal> {
    if !context.node().has_authorizer() {
        return Err(Refusal::new(ErrorCode::SecurityDisabled, "No Authorizer is configured."));
    }
    if context.rights().cluster(operation).is_ok() {
        return Ok(());
    }
    Err(Refusal::unauthorized(ErrorCode::ClusterAuthorizationFailed))
}

/// Converts `code` with `convert`. 1 stands for any, which is `None`.
fn any_or<T>(code: i8, what: &str, convert: fn(i8) -> Option<T>) -> Result<Option<T>, Refusal> {
    match code {
        1 => Ok(None),
        code => known(code, what, convert).map(Some),
    }
}

fn known<T>(code: i8, what: &str, convert: fn(i8) -> Option<T>) -> Result<T, Refusal> {
    let unknown = || Refusal::invalid_request(format!("Invalid or unknown {what}: {code}"));
    convert(code).ok_or_else(unknown)
}

/// The filter of DescribeAcls, which is also one of DeleteAcls.
fn filter(wanted: DescribeAclsRequest) -> Result<AclFilter, Refusal> {
    Ok(AclFilter {
        kind: known(wanted.resource_type_filter, "resource type", KindFilter::from_code)?,
        name: wanted.resource_name_filter,
        pattern: known(wanted.pattern_type_filter, "pattern type", PatternFilter::from_code)?,
        principal: wanted.principal_filter,
        host: wanted.host_filter,
        operation: any_or(wanted.operation, "operation", Operation::from_code)?,
        permission: any_or(wanted.permission_type, "permission type", Permission::from_code)?,
    })
}

pub(crate) async fn describe(context: Arc<Context>, request: DescribeAclsRequest) -> DescribeAclsResponse {
    let refused = |refusal: Refusal| DescribeAclsResponse {
        error_code: refusal.code.code(),
        error_message: Some(refusal.message),
        ..Default::default()
    };
    if explain::is_asked(&request) {
        let explained = check(&context, Operation::Describe);
        return explained.and_then(|()| explain::explain(&context, &request)).unwrap_or_else(refused);
    }
    let has_every_kind = request.unknown_tagged_fields.get(own_fields::EVERY_KIND).is_some();
    let filter = match check(&context, Operation::Describe).and_then(|()| filter(request)) {
        Ok(filter) if has_every_kind && filter.kind == KindFilter::AnyOfKafka => {
            AclFilter { kind: KindFilter::Any, ..filter }
        }
        Ok(filter) => filter,
        Err(refusal) => return refused(refusal),
    };
    let image = context.node().image();
    let mut resources: BTreeMap<(ResourceKind, &str, PatternKind), Vec<AclDescription>> = BTreeMap::new();
    let mut charges = context.charges();
    for acl in image.access().rules().matching(&filter) {
        if charges.is_full() {
            return refused(Refusal::too_long());
        }
        charges
            .add(size_of::<AclDescription>() + acl.principal.len() + acl.host.len() + acl.name.len())
            .await;
        resources.entry((acl.kind, &acl.name, acl.pattern)).or_default().push(AclDescription {
            principal: acl.principal.clone(),
            host: acl.host.clone(),
            operation: acl.operation.code(),
            permission_type: acl.permission.code(),
            ..Default::default()
        });
    }
    let resources = resources.into_iter().map(|((kind, name, pattern), acls)| DescribeAclsResource {
        resource_type: kind.code(),
        resource_name: name.to_owned(),
        pattern_type: pattern.code(),
        acls,
        ..Default::default()
    });
    DescribeAclsResponse { resources: resources.collect(), ..Default::default() }
}

/// Reads one rule.
fn rule(wanted: AclCreation) -> Result<Acl, Refusal> {
    let acl = Acl {
        kind: known(wanted.resource_type, "resource type", ResourceKind::from_code)?,
        name: wanted.resource_name,
        pattern: known(wanted.resource_pattern_type, "pattern type", PatternKind::from_code)?,
        principal: wanted.principal,
        host: wanted.host,
        operation: known(wanted.operation, "operation", Operation::from_code)?,
        permission: known(wanted.permission_type, "permission type", Permission::from_code)?,
    };
    acl.check().map_err(|error| Refusal::invalid_request(error.to_string()))?;
    Ok(acl)
}

pub(crate) async fn create(context: Arc<Context>, request: CreateAclsRequest) -> CreateAclsResponse {
    let allowed = check(&context, Operation::Alter);
    let count = request.creations.len();
    let mut rules: Vec<Result<Acl, Refusal>> = match &allowed {
        Err(refusal) => (0..count.min(ITEMS_MAX)).map(|_| Err(refusal.clone())).collect(),
        Ok(()) if count > ITEMS_MAX => (0..ITEMS_MAX).map(|_| Err(Refusal::too_many("rules"))).collect(),
        Ok(()) => request.creations.into_iter().map(rule).collect(),
    };
    let legal: Vec<Acl> = rules.iter().filter_map(|rule| rule.as_ref().ok()).cloned().collect();
    if !legal.is_empty()
        && let Err(refusal) = context.carried_out(context.caller(), Command::CreateAcls(legal)).await
    {
        rules.iter_mut().filter(|rule| rule.is_ok()).for_each(|rule| *rule = Err(refusal.clone()));
    }
    let result = |rule: Result<Acl, Refusal>| match rule {
        Ok(_) => AclCreationResult::default(),
        Err(refusal) => AclCreationResult {
            error_code: refusal.code.code(),
            error_message: Some(refusal.message),
            ..Default::default()
        },
    };
    CreateAclsResponse { results: rules.into_iter().map(result).collect(), ..Default::default() }
}

/// Returns the rules that each filter selects, and all of them once.
///
/// # Errors
/// Together they are more than one request may delete.
fn selected(
    context: &Context,
    filters: &[Result<AclFilter, Refusal>],
) -> Result<(Vec<Vec<Acl>>, Vec<Acl>), Refusal> {
    let image = context.node().image();
    let (mut of_each, mut all) = (Vec::new(), std::collections::BTreeSet::new());
    let mut found = 0;
    for filter in filters {
        let mut of_filter = Vec::new();
        for acl in filter.iter().flat_map(|filter| image.access().rules().matching(filter)) {
            found += 1;
            if found > ITEMS_MAX {
                return Err(Refusal::too_many("rules to delete"));
            }
            all.insert(acl.clone());
            of_filter.push(acl.clone());
        }
        of_each.push(of_filter);
    }
    Ok((of_each, all.into_iter().collect()))
}

pub(crate) async fn delete(context: Arc<Context>, request: DeleteAclsRequest) -> DeleteAclsResponse {
    let count = request.filters.len();
    let filters: Vec<Result<AclFilter, Refusal>> = match check(&context, Operation::Alter) {
        Err(refusal) => (0..count.min(ITEMS_MAX)).map(|_| Err(refusal.clone())).collect(),
        Ok(()) if count > ITEMS_MAX => (0..ITEMS_MAX).map(|_| Err(Refusal::too_many("filters"))).collect(),
        Ok(()) => {
            let wanted = request.filters.into_iter().map(|wanted| {
                filter(DescribeAclsRequest {
                    resource_type_filter: wanted.resource_type_filter,
                    resource_name_filter: wanted.resource_name_filter,
                    pattern_type_filter: wanted.pattern_type_filter,
                    principal_filter: wanted.principal_filter,
                    host_filter: wanted.host_filter,
                    operation: wanted.operation,
                    permission_type: wanted.permission_type,
                    ..Default::default()
                })
            });
            wanted.collect()
        }
    };
    let deleted = match selected(&context, &filters) {
        Ok((of_each, all)) if all.is_empty() => Ok(of_each),
        Ok((of_each, all)) => {
            let command = Command::DeleteAcls(all);
            context.carried_out(context.caller(), command).await.map(|_| of_each)
        }
        Err(refusal) => Err(refusal),
    };
    let results = filters.into_iter().enumerate().map(|(number, filter)| {
        let outcome = filter.and_then(|_| match &deleted {
            Ok(of_each) => Ok(&of_each[number]),
            Err(refusal) => Err(refusal.clone()),
        });
        match outcome {
            Ok(acls) => DeleteAclsFilterResult {
                matching_acls: acls.iter().map(deleted_rule).collect(),
                ..Default::default()
            },
            Err(refusal) => DeleteAclsFilterResult {
                error_code: refusal.code.code(),
                error_message: Some(refusal.message),
                ..Default::default()
            },
        }
    });
    DeleteAclsResponse { filter_results: results.collect(), ..Default::default() }
}

fn deleted_rule(acl: &Acl) -> DeleteAclsMatchingAcl {
    DeleteAclsMatchingAcl {
        resource_type: acl.kind.code(),
        resource_name: acl.name.clone(),
        pattern_type: acl.pattern.code(),
        principal: acl.principal.clone(),
        host: acl.host.clone(),
        operation: acl.operation.code(),
        permission_type: acl.permission.code(),
        ..Default::default()
    }
}
