//! Stub until users land.

use std::sync::Arc;

use tailrace_nats_wire::ConnectOptions;

pub(crate) struct Permissions {}

impl Permissions {
    pub(crate) fn may_publish(&self, _subject: &[u8]) -> bool {
        true
    }
    pub(crate) fn may_subscribe(&self, _pattern: &[u8], _queue: Option<&[u8]>) -> bool {
        true
    }
    pub(crate) fn may_deliver(&self, _subject: &[u8]) -> bool {
        true
    }
}

#[derive(Debug)]
pub(crate) struct Denied;

pub(crate) struct Auth {}

impl Auth {
    pub(crate) fn required(&self) -> bool {
        false
    }
    pub(crate) fn wants_nonce(&self) -> bool {
        false
    }
    pub(crate) async fn authenticate(
        &self,
        _options: &ConnectOptions,
        _nonce: &str,
    ) -> Result<Arc<Permissions>, Denied> {
        Ok(Arc::new(Permissions {}))
    }
}
