//! DescribeClientQuotas (48) and AlterClientQuotas (49): KIP-546.
//!
//! `identity` checks entities, keys and limits, with Kafka's texts.

use std::collections::BTreeMap;
use std::sync::Arc;

use tailrace_identity::acl::Operation;
use tailrace_identity::quota::{NameFilter, QuotaAlteration, QuotaEntity, QuotaError, QuotaFilter, QuotaKey};
use tailrace_kafka_wire::ErrorCode;
use tailrace_kafka_wire::messages::alter_client_quotas_request::EntryData as Alteration;
use tailrace_kafka_wire::messages::describe_client_quotas_request::ComponentData;
use tailrace_kafka_wire::messages::{
    AlterClientQuotasRequest, AlterClientQuotasResponse, DescribeClientQuotasRequest,
    DescribeClientQuotasResponse, alter_client_quotas_response, describe_client_quotas_response,
};
use tailrace_metadata::{Command, QuotaLimit};

use crate::commands::{ITEMS_MAX, Mode, Refusal};
use crate::context::Context;

fn check(context: &Context, operation: Operation) -> Result<(), Refusal> {
    if context.node().rights(context.caller()).may_to_cluster(operation) {
        return Ok(());
    }
    Err(Refusal::new(ErrorCode::ClusterAuthorizationFailed, "Cluster authorization failed."))
}

fn refusal(error: QuotaError) -> Refusal {
    let code = match error {
        QuotaError::UnknownFilterType { .. } => ErrorCode::UnsupportedVersion,
        QuotaError::EmptyEntity
        | QuotaError::TypeTwice { .. }
        | QuotaError::UnknownType { .. }
        | QuotaError::EmptyName { .. }
        | QuotaError::NameTooLong { .. }
        | QuotaError::AddressCombined
        | QuotaError::Address { .. }
        | QuotaError::Key { .. }
        | QuotaError::KeyTwice { .. }
        | QuotaError::NotPositive { .. }
        | QuotaError::Fraction { .. }
        | QuotaError::TooLarge { .. }
        | QuotaError::EmptyFilterType
        | QuotaError::FilterTypeTwice { .. }
        | QuotaError::FilterAddressCombined
        | QuotaError::FilterName { .. }
        | QuotaError::FilterMatch { .. } => ErrorCode::InvalidRequest,
    };
    Refusal::new(code, error.to_string())
}

pub(crate) async fn describe(
    context: Arc<Context>,
    request: DescribeClientQuotasRequest,
) -> DescribeClientQuotasResponse {
    let allowed = check(&context, Operation::DescribeConfigs);
    let described = match allowed.and_then(|()| filter(&request.components, request.strict)) {
        Ok(filter) => entries(&context, &filter).await,
        Err(refusal) => Err(refusal),
    };
    match described {
        Ok(entries) => DescribeClientQuotasResponse {
            error_message: Some(String::new()),
            entries: Some(entries),
            ..Default::default()
        },
        Err(refusal) => DescribeClientQuotasResponse {
            error_code: refusal.code.code(),
            error_message: Some(refusal.message),
            entries: None,
            ..Default::default()
        },
    }
}

/// Reads a filter. Refuses those that Kafka refuses, so that tools fail here as they do there.
fn filter(components: &[ComponentData], strict: bool) -> Result<QuotaFilter, Refusal> {
    // Each type may appear once, so one more component than there are types is refused in any case.
    let parts = components.iter().take(4).map(|component| {
        let name = NameFilter::from_code(component.match_type, component.r#match.as_deref())?;
        Ok((component.entity_type.as_str(), name))
    });
    let parts = parts.collect::<Result<Vec<_>, _>>().map_err(refusal)?;
    QuotaFilter::from_parts(parts, strict).map_err(refusal)
}

async fn entries(
    context: &Context,
    filter: &QuotaFilter,
) -> Result<Vec<describe_client_quotas_response::EntryData>, Refusal> {
    let image = context.node().image();
    let mut entries = Vec::new();
    let mut charges = context.charges();
    for (entity, limits) in image.access().quotas().iter().filter(|(entity, _)| filter.matches(entity)) {
        if charges.is_full() {
            return Err(Refusal::too_long());
        }
        let entry = entry(entity, limits);
        let names = entry.entity.iter().filter_map(|part| part.entity_name.as_ref()).map(String::len);
        charges.add(size_of_val(&entry) + ENTRY_BYTES + names.sum::<usize>()).await;
        entries.push(entry);
    }
    Ok(entries)
}

/// Memory of the parts and limits of an entry, about.
const ENTRY_BYTES: usize = 512;

fn entry(
    entity: &QuotaEntity,
    limits: &BTreeMap<QuotaKey, QuotaLimit>,
) -> describe_client_quotas_response::EntryData {
    let part = |(entity_type, name): (&str, Option<&str>)| describe_client_quotas_response::EntityData {
        entity_type: entity_type.to_owned(),
        entity_name: name.map(str::to_owned),
        ..Default::default()
    };
    let value = |(key, limit): (&QuotaKey, &QuotaLimit)| describe_client_quotas_response::ValueData {
        key: key.name().to_owned(),
        value: limit.get(),
        ..Default::default()
    };
    describe_client_quotas_response::EntryData {
        entity: entity.parts().map(part).collect(),
        values: limits.iter().map(value).collect(),
        ..Default::default()
    }
}

pub(crate) async fn alter(
    context: Arc<Context>,
    request: AlterClientQuotasRequest,
) -> AlterClientQuotasResponse {
    let mode = Mode::validate_only(request.validate_only);
    let allowed = check(&context, Operation::AlterConfigs).and_then(|()| match request.entries.len() {
        ..=ITEMS_MAX => Ok(()),
        _ => Err(Refusal::too_many("entities")),
    });
    let mut entries = Vec::new();
    for entry in request.entries.into_iter().take(ITEMS_MAX) {
        let outcome = match &allowed {
            Ok(()) => altered(&context, &entry, mode).await,
            Err(refusal) => Err(refusal.clone()),
        };
        entries.push(result(entry, outcome.err()));
    }
    AlterClientQuotasResponse { entries, ..Default::default() }
}

async fn altered(context: &Context, entry: &Alteration, mode: Mode) -> Result<(), Refusal> {
    context.command(context.caller(), command(entry)?, mode).await.map(drop)
}

/// Reads the alteration of one entity.
fn command(entry: &Alteration) -> Result<Command, Refusal> {
    let parts = entry.entity.iter().map(|part| (part.entity_type.as_str(), part.entity_name.as_deref()));
    let entity = QuotaEntity::from_parts(parts).map_err(refusal)?;
    let mut changes = Vec::new();
    for op in &entry.ops {
        let key = QuotaKey::parse(&op.key).map_err(refusal)?;
        changes.push((key, (!op.remove).then_some(op.value)));
    }
    let alteration = QuotaAlteration { entity, changes };
    alteration.check().map_err(refusal)?;
    let (mut set, mut remove) = (BTreeMap::new(), Vec::new());
    for (key, limit) in alteration.changes {
        match limit {
            None => remove.push(key),
            Some(limit) => {
                let limit = QuotaLimit::new(key, limit);
                set.insert(key, limit.map_err(|error| Refusal::invalid_request(error.to_string()))?);
            }
        }
    }
    Ok(Command::AlterClientQuota { entity: alteration.entity, set, remove })
}

fn result(entry: Alteration, refusal: Option<Refusal>) -> alter_client_quotas_response::EntryData {
    let part = |part: tailrace_kafka_wire::messages::alter_client_quotas_request::EntityData| {
        alter_client_quotas_response::EntityData {
            entity_type: part.entity_type,
            entity_name: part.entity_name,
            ..Default::default()
        }
    };
    alter_client_quotas_response::EntryData {
        error_code: refusal.as_ref().map_or(ErrorCode::None, |refusal| refusal.code).code(),
        error_message: refusal.map(|refusal| refusal.message),
        entity: entry.entity.into_iter().map(part).collect(),
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn component(kind: &str, match_type: i8, name: Option<&str>) -> ComponentData {
        let name = name.map(str::to_owned);
        ComponentData { entity_type: kind.to_owned(), match_type, r#match: name, ..Default::default() }
    }

    #[test]
    fn filters_are_refused_where_kafka_refuses_them() {
        let code = |components: &[ComponentData]| {
            filter(components, false).map(drop).map_err(|refusal| refusal.code)
        };
        assert_eq!(code(&[]), Ok(()));
        assert_eq!(code(&[component("user", 0, Some("x")), component("client-id", 2, None)]), Ok(()));
        let invalid = Err(ErrorCode::InvalidRequest);
        assert_eq!(code(&[component("user", 2, None), component("user", 1, None)]), invalid);
        assert_eq!(code(&[component("user", 2, Some(""))]), invalid);
        assert_eq!(code(&[component("user", 0, None)]), invalid);
        assert_eq!(code(&[component("user", 9, None)]), invalid);
        assert_eq!(code(&[component("ip", 2, None), component("user", 2, None)]), invalid);
        assert_eq!(code(&[component("nope", 2, None)]), Err(ErrorCode::UnsupportedVersion));
    }
}
