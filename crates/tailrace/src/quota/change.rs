//! Requests that read and change quotas.

use std::collections::BTreeMap;

use tailrace_kafka_wire::messages::alter_client_quotas_request::{EntryData, OpData};
use tailrace_kafka_wire::messages::{AlterClientQuotasRequest, DescribeClientQuotasRequest};

use super::entity::Entity;
use crate::client::{ClientError, Cluster, check, retrying};

/// Values by key.
pub(super) type Quotas = BTreeMap<String, f64>;

/// The quotas of the entities that have all parts of `entity`. With `strict`, of those that have no others.
pub(super) async fn find(
    cluster: &mut Cluster,
    entity: &Entity,
    strict: bool,
) -> Result<BTreeMap<Entity, Quotas>, ClientError> {
    let request =
        DescribeClientQuotasRequest { components: entity.to_filter(), strict, ..Default::default() };
    retrying(cluster, async |cluster| {
        let answer = cluster.any().await?.call(&request).await?;
        check(answer.error_code, answer.error_message.as_ref(), || "cannot read quotas".to_owned())?;
        let mut found: BTreeMap<Entity, Quotas> = BTreeMap::new();
        for entry in answer.entries.unwrap_or_default() {
            let values = entry.values.into_iter().map(|value| (value.key, value.value));
            found.entry(Entity::from_answer(entry.entity)).or_default().extend(values);
        }
        Ok(found)
    })
    .await
}

/// Sets the keys that have a value, and removes the others.
pub(super) async fn alter(
    cluster: &mut Cluster,
    entity: &Entity,
    changes: &[(String, Option<f64>)],
    validate_only: bool,
) -> Result<(), ClientError> {
    let op = |(key, value): &(String, Option<f64>)| OpData {
        key: key.clone(),
        value: value.unwrap_or_default(),
        remove: value.is_none(),
        ..Default::default()
    };
    let entry = EntryData {
        entity: entity.to_request(),
        ops: changes.iter().map(op).collect(),
        ..Default::default()
    };
    let request = AlterClientQuotasRequest { entries: vec![entry], validate_only, ..Default::default() };
    let what = || format!("cannot change the quotas of {entity}");
    retrying(cluster, async |cluster| {
        let answer = cluster.controller().await?.call(&request).await?;
        let result = answer.entries.first().ok_or_else(|| ClientError::NoResult { what: what() })?;
        check(result.error_code, result.error_message.as_ref(), what)
    })
    .await
}
