//! Finds the rules that filters match.

use std::collections::BTreeSet;

use super::rule::{Filter, Rule};
use crate::client::{ClientError, Cluster, check, retrying};

/// The rules that any of the filters matches, sorted.
pub(super) async fn find(cluster: &mut Cluster, filters: &[Filter]) -> Result<Vec<Rule>, ClientError> {
    let mut rules = BTreeSet::new();
    for filter in filters {
        let request = filter.to_request();
        let found = retrying(cluster, async |cluster| {
            let answer = cluster.any().await?.call(&request).await?;
            check(answer.error_code, answer.error_message.as_ref(), || "cannot read rules".to_owned())?;
            Ok(answer.resources)
        })
        .await?;
        rules.extend(found.into_iter().flat_map(Rule::from_resource));
    }
    Ok(rules.into_iter().collect())
}
