//! Where a share group begins in a partition that it has not read yet.

use std::sync::Arc;

use tailrace_kafka_wire::ErrorCode;
use tailrace_types::Offset;

use super::settings::{Beginning, GroupSettings};
use crate::partitions::PartitionHandle;

/// The offset that `share.auto.offset.reset` stands for now.
pub(super) async fn first_offset(
    handle: &Arc<PartitionHandle>,
    settings: &GroupSettings,
) -> Result<Offset, ErrorCode> {
    match settings.beginning {
        Beginning::Latest => Ok(handle.reader.high_watermark().offset()),
    }
}
