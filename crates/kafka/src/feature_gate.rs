//! Requests that need a feature. While the feature is not in force they are answered with
//! UNSUPPORTED_VERSION, as in Kafka. ApiVersions lists them all the same, because a feature may come into
//! force while clients are connected.

use tailrace_kafka_wire::messages::consumer_group_describe_response::DescribedGroup as ConsumerGroup;
use tailrace_kafka_wire::messages::describe_share_group_offsets_response::DescribeShareGroupOffsetsResponseGroup;
use tailrace_kafka_wire::messages::share_group_describe_response::DescribedGroup as ShareGroup;
use tailrace_kafka_wire::messages::{
    AlterShareGroupOffsetsResponse, ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatResponse, DeleteShareGroupOffsetsResponse, DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse, ShareAcknowledgeResponse, ShareFetchResponse,
    ShareGroupDescribeRequest, ShareGroupDescribeResponse, ShareGroupHeartbeatResponse,
};
use tailrace_kafka_wire::{ApiKey, ErrorCode, Reader};
use tailrace_metadata::Feature;

use crate::closed::Closed;
use crate::commands::ITEMS_MAX;
use crate::context::{Context, Decided, decode};

/// Reports whether the feature that the request needs is not in force.
pub(crate) fn is_shut(context: &Context) -> bool {
    let needed = match context.header.api_key {
        ApiKey::ConsumerGroupHeartbeat | ApiKey::ConsumerGroupDescribe => Feature::Group,
        ApiKey::ShareGroupHeartbeat
        | ApiKey::ShareGroupDescribe
        | ApiKey::ShareFetch
        | ApiKey::ShareAcknowledge
        | ApiKey::DescribeShareGroupOffsets
        | ApiKey::AlterShareGroupOffsets
        | ApiKey::DeleteShareGroupOffsets => Feature::Share,
        _ => return false,
    };
    context.node().image().features().level(needed) == 0
}

/// Refuses a request for which [`is_shut`] holds.
pub(crate) fn refuse(context: &Context, reader: Reader) -> Result<Decided, Closed> {
    let error_code = ErrorCode::UnsupportedVersion.code();
    let reply = match context.header.api_key {
        ApiKey::ConsumerGroupHeartbeat => {
            context.reply(ConsumerGroupHeartbeatResponse { error_code, ..Default::default() })
        }
        ApiKey::ConsumerGroupDescribe => {
            let wanted = decode::<ConsumerGroupDescribeRequest>(context, reader)?.group_ids;
            let group = |group_id| ConsumerGroup { group_id, error_code, ..Default::default() };
            let groups = wanted.into_iter().take(ITEMS_MAX).map(group).collect();
            context.reply(ConsumerGroupDescribeResponse { groups, ..Default::default() })
        }
        ApiKey::ShareGroupHeartbeat => {
            context.reply(ShareGroupHeartbeatResponse { error_code, ..Default::default() })
        }
        ApiKey::ShareGroupDescribe => {
            let wanted = decode::<ShareGroupDescribeRequest>(context, reader)?.group_ids;
            let group = |group_id| ShareGroup { group_id, error_code, ..Default::default() };
            let groups = wanted.into_iter().take(ITEMS_MAX).map(group).collect();
            context.reply(ShareGroupDescribeResponse { groups, ..Default::default() })
        }
        ApiKey::ShareFetch => context.reply(ShareFetchResponse { error_code, ..Default::default() }),
        ApiKey::ShareAcknowledge => {
            context.reply(ShareAcknowledgeResponse { error_code, ..Default::default() })
        }
        ApiKey::DescribeShareGroupOffsets => {
            let wanted = decode::<DescribeShareGroupOffsetsRequest>(context, reader)?.groups;
            let group = |group_id| DescribeShareGroupOffsetsResponseGroup {
                group_id,
                error_code,
                ..Default::default()
            };
            let groups = wanted.into_iter().take(ITEMS_MAX).map(|wanted| group(wanted.group_id)).collect();
            context.reply(DescribeShareGroupOffsetsResponse { groups, ..Default::default() })
        }
        ApiKey::AlterShareGroupOffsets => {
            context.reply(AlterShareGroupOffsetsResponse { error_code, ..Default::default() })
        }
        ApiKey::DeleteShareGroupOffsets => {
            context.reply(DeleteShareGroupOffsetsResponse { error_code, ..Default::default() })
        }
        other => Err(Closed::Protocol(format!("{} needs a feature that is not in force", other.name()))),
    };
    Ok(Decided::Reply(reply?))
}
