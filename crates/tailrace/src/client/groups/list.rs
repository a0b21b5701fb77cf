//! Lists groups.

use tailrace_kafka_wire::messages::ListGroupsRequest;

use super::{GroupKind, ListedGroup};
use crate::client::{ClientError, Cluster, check, retrying};

/// Lists all groups of the cluster, by id. Each node knows the groups that it coordinates.
pub(crate) async fn list_groups(cluster: &mut Cluster) -> Result<Vec<ListedGroup>, ClientError> {
    retrying(cluster, async |cluster| {
        cluster.metadata(Some(&[]), false).await?;
        let mut groups = Vec::new();
        for node in cluster.node_ids() {
            let answer = cluster.node(node).await?.call(&ListGroupsRequest::default()).await?;
            check(answer.error_code, None, || "cannot list groups".to_owned())?;
            groups.extend(answer.groups.into_iter().map(|group| ListedGroup {
                id: group.group_id,
                kind: GroupKind::named(&group.group_type),
                state: group.group_state,
                protocol_type: group.protocol_type,
            }));
        }
        groups.sort_by(|a, b| a.id.cmp(&b.id));
        groups.dedup_by(|a, b| a.id == b.id);
        Ok(groups)
    })
    .await
}
