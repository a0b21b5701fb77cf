//! The verbs that speak NATS: `pub`, `sub`, `request`, `reply`, and `top`, which polls the monitoring port.

mod client;
mod printer;
mod publish;
mod reply;
mod request;
mod subscribe;
mod text;
mod top;

pub(crate) use publish::{PublishArguments, run as publish};
pub(crate) use reply::{ReplyArguments, run as reply};
pub(crate) use request::{RequestArguments, run as request};
pub(crate) use subscribe::{SubscribeArguments, run as subscribe};
pub(crate) use top::{TopArguments, run as top};
