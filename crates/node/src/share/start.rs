//! Where a share group starts in a partition that it has not read yet (`share.auto.offset.reset`).

use std::sync::Arc;

use tailrace_config::ShareOffsetReset;
use tailrace_types::{Offset, TimestampMs};

use super::failure::ShareFailure;
use super::settings::GroupSettings;
use crate::node::Node;
use crate::partitions::{LookupFailure, PartitionHandle, ReadFailure};

/// Returns the offset that the setting means now.
pub(super) async fn first_offset(
    node: &Node,
    handle: &Arc<PartitionHandle>,
    settings: &GroupSettings,
) -> Result<Offset, ShareFailure> {
    let bounds = handle.bounds();
    let latest = bounds.high_watermark;
    match settings.beginning {
        ShareOffsetReset::Latest => Ok(latest),
        ShareOffsetReset::Earliest => Ok(bounds.log_start),
        ShareOffsetReset::ByDuration(duration) => {
            let ms = i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
            let since = TimestampMs(node.now().0.saturating_sub(ms));
            let found = node.lookups().offset_for_time(handle, since, latest).await;
            let found = found.map_err(|failure| match failure {
                LookupFailure::Log(error) => ShareFailure::Read(ReadFailure::Log(error)),
                LookupFailure::Panicked => ShareFailure::Internal,
            })?;
            Ok(found.map_or(latest, |(offset, ..)| offset))
        }
    }
}
