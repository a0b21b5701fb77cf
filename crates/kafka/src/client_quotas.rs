//! DescribeClientQuotas (48) and AlterClientQuotas (49). There are no quotas yet: the list is empty, and
//! setting one is refused.

use std::collections::BTreeSet;
use std::sync::Arc;

use tailrace_kafka_wire::ErrorCode;
use tailrace_kafka_wire::messages::describe_client_quotas_request::ComponentData;
use tailrace_kafka_wire::messages::{
    AlterClientQuotasRequest, AlterClientQuotasResponse, DescribeClientQuotasRequest,
    DescribeClientQuotasResponse, alter_client_quotas_response,
};

use crate::commands::{ITEMS_MAX, Refusal};
use crate::context::Context;

/// Entity types of quotas. An address cannot be combined with the others.
const ADDRESS: &str = "ip";
const ENTITY_TYPES: [&str; 3] = ["user", "client-id", ADDRESS];

/// Match types of a filter component: by name, the default entity, any entity.
const EXACT: i8 = 0;
const DEFAULT: i8 = 1;
const SPECIFIED: i8 = 2;

pub(crate) async fn describe(
    _context: Arc<Context>,
    request: DescribeClientQuotasRequest,
) -> DescribeClientQuotasResponse {
    match check_filter(&request.components) {
        Ok(()) => DescribeClientQuotasResponse {
            error_message: Some(String::new()),
            entries: Some(Vec::new()),
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

/// Refuses the filters that Kafka refuses, so that tools fail here as they do there.
fn check_filter(components: &[ComponentData]) -> Result<(), Refusal> {
    let mut seen = BTreeSet::new();
    for component in components {
        let kind = component.entity_type.as_str();
        if !seen.insert(kind) {
            let message = format!("Entity type {kind} cannot appear more than once in the filter.");
            return Err(Refusal::invalid_request(message));
        }
        if !ENTITY_TYPES.contains(&kind) {
            let message = format!("Unsupported entity type {kind}");
            return Err(Refusal::new(ErrorCode::UnsupportedVersion, message));
        }
        match (component.match_type, &component.r#match) {
            (EXACT, Some(_)) | (DEFAULT | SPECIFIED, None) => {}
            (EXACT, None) => return Err(Refusal::invalid_request("An exact match needs a name.")),
            (DEFAULT | SPECIFIED, Some(_)) => {
                return Err(Refusal::invalid_request("Only an exact match can have a name."));
            }
            (other, _) => return Err(Refusal::invalid_request(format!("Unknown match type {other}"))),
        }
    }
    if seen.contains(ADDRESS) && seen.len() > 1 {
        return Err(Refusal::invalid_request("A filter for ip can have no component for user or client-id."));
    }
    Ok(())
}

pub(crate) async fn alter(
    _context: Arc<Context>,
    request: AlterClientQuotasRequest,
) -> AlterClientQuotasResponse {
    let entity = |entity: tailrace_kafka_wire::messages::alter_client_quotas_request::EntityData| {
        alter_client_quotas_response::EntityData {
            entity_type: entity.entity_type,
            entity_name: entity.entity_name,
            ..Default::default()
        }
    };
    let entries =
        request.entries.into_iter().take(ITEMS_MAX).map(|entry| alter_client_quotas_response::EntryData {
            error_code: ErrorCode::InvalidRequest.code(),
            error_message: Some("tailrace has no quotas for clients yet.".to_owned()),
            entity: entry.entity.into_iter().map(entity).collect(),
            ..Default::default()
        });
    AlterClientQuotasResponse { entries: entries.collect(), ..Default::default() }
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
        let code = |components: &[ComponentData]| check_filter(components).map_err(|refusal| refusal.code);
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
