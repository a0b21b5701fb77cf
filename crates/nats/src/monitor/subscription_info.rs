//! A subscription as the pages show it.

use serde::Serialize;

use crate::subscription::ClientSubscription;

/// One subscription, with nats-server's field names in its order.
#[derive(Clone, Debug, Serialize)]
pub(super) struct SubscriptionInfo {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) account: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) account_tag: Option<String>,
    pub(super) subject: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    qgroup: Option<String>,
    sid: String,
    msgs: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    max: Option<u64>,
    pub(super) cid: u64,
    #[serde(skip)]
    pub(super) number: u64,
}

impl SubscriptionInfo {
    pub(super) fn new(pattern: &[u8], subscription: &ClientSubscription) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self {
            account: None,
            account_tag: None,
            subject: text(pattern),
            qgroup: subscription.queue.as_deref().map(text),
            sid: text(subscription.sid()),
            msgs: subscription.delivered(),
            max: subscription.max(),
            cid: subscription.client.id,
            number: subscription.number,
        }
    }
}
