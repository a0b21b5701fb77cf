//! Dispatch of requests about offsets.

use std::sync::Arc;

use super::event::{OffsetsEvent, OffsetsReply};
use crate::coordinator::{Effects, Moment, Token};
use crate::groups::coordinator::GroupCoordinator;
use crate::groups::event::GroupReply;

impl GroupCoordinator {
    pub(in crate::groups) fn step_offsets(
        &mut self,
        token: Token,
        group: &Arc<str>,
        event: OffsetsEvent,
        moment: &Moment<'_>,
        effects: &mut Effects<Self>,
    ) {
        let reply = match event {
            OffsetsEvent::Commit(request) => {
                OffsetsReply::Commit(self.commit(group, request, moment, effects))
            }
            OffsetsEvent::Fetch(request) => OffsetsReply::Fetch(self.fetch(group, &request, moment)),
            OffsetsEvent::Delete(topics) => {
                OffsetsReply::Delete(self.delete_offsets(group, &topics, moment, effects))
            }
        };
        effects.replies.push((token, GroupReply::Offsets(reply)));
    }
}
