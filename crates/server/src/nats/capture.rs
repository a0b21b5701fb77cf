//! Stub until the capture lands.

use std::sync::Arc;

use tailrace_nats_wire::Message;

use crate::broker::Broker;

pub(crate) struct Binding {}

impl Binding {
    pub(crate) fn acknowledges(&self) -> bool {
        false
    }
}

#[derive(Default)]
pub(crate) struct CaptureBurst {}

impl CaptureBurst {
    pub(crate) fn push(&mut self, _binding: &Arc<Binding>, _message: &Message<'_>) {}

    pub(crate) fn is_empty(&self) -> bool {
        true
    }

    pub(crate) async fn append(&mut self, _broker: &Arc<Broker>) {}
}
