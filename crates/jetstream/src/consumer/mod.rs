//! The state machine of a consumer.
//!
//! A [`Consumer`] lives beside the leader of its stream's partition. The caller tells it what happens, with
//! the time and a random number ([`Moment`]), lets it look into the stream ([`StreamView`]), and does what
//! the [`Outbox`] says. One consumer has one owner: no call waits, none is repeated by itself.
//!
//! | What happens | Call |
//! |---|---|
//! | `CONSUMER.CREATE`; a failover | [`Consumer::create`]; [`DurableState::decode`], [`Consumer::load`] |
//! | `CONSUMER.MSG.NEXT` | [`Consumer::pull`], then [`Consumer::serve`] |
//! | a message to `$JS.ACK.>` | [`AckSubject::parse`], [`Consumer::ack`], then serve |
//! | a message to `$JS.FC.>` | [`Consumer::flow_answer`], then serve |
//! | an inbox loses interest | [`Consumer::lost_interest`] |
//! | the deliver subject gains or loses it | [`Consumer::set_bound`] |
//! | matching messages were appended | serve |
//! | messages were deleted | [`Consumer::removed`], [`Consumer::removed_below`], [`Consumer::recheck`] |
//! | [`Consumer::next_deadline_ns`] is reached | [`Consumer::tick`], then serve |
//! | [`Consumer::save_need`] says so | [`Consumer::encode_update`], [`Consumer::saved`] |
//! | a delivery did not reach its client | [`Consumer::not_delivered`] |
//! | update, pause | [`Consumer::update`], [`Consumer::pause`] |
//! | unpin, reset | [`Consumer::unpin`], [`Consumer::reset`] |
//! | delete; lost leadership | [`Consumer::delete`]; [`Consumer::step_down`] |
//! | shutdown | [`Consumer::shut_down`] |
//!
//! A change takes effect at once. What must not be seen before the change is durable is left in
//! [`Outbox::after_save`], and [`Consumer::save_need`] asks for a save. If it cannot be saved, the caller
//! drops the value, and loads another one.
//!
//! Traps: the number of a delivery must never be given out twice, so an upper bound of them is saved ahead
//! ([`Served::Save`]). The position is not saved: after a failover it is where everything below is settled,
//! so acknowledgements arrive for messages above it. The pending count is a difference to a counter of the
//! stream, so every deletion above the position must be told.
//!
//! Deliberately not here: reading messages, matching filters, choosing a member of a queue group, the API's
//! JSON.

mod ack;
mod acks;
mod advisory;
mod changes;
mod durable;
mod names;
mod output;
mod pending;
mod pull;
mod push;
mod ranges;
mod requests;
mod rules;
mod saving;
mod serve;
mod state;
#[cfg(test)]
mod tests;
mod time;
mod view;
mod waiting;
mod window;

pub use ack::AckSubject;
pub use acks::Ack;
pub use advisory::{Advisory, Envelope, Refused};
pub use changes::{FiltersChanged, Removal, ResetError};
pub use durable::{DecodeError, DurableState, Sequences};
pub use names::Names;
pub use output::{BadRequest, Delivery, Moment, Outbox, Send, Status, StatusKind, Unserved};
pub use rules::{AckPolicy, Bounds, Mode, PriorityPolicy, PullRules, PushRules, Retention, Rules, StartRule};
pub use saving::{IsSnapshot, SaveNeed, SaveVersion};
pub use serve::Served;
pub use state::{Consumer, Info, Setup, Start};
pub use view::{Candidate, Found, StreamView};
