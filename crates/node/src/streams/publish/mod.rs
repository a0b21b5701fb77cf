//! Publishes into a stream that ask for more than storage: judged at the leader, in the order of the log.
//!
//! `work` takes the batches of a publisher under the partition's lock, in one `turn` or several. A turn
//! judges message by message (`checks`), with JetStream's own checks (`tailrace_jetstream::publish`), and
//! appends those that pass (`rebuilt`) before it lets the lock go. So nothing comes between a check and what
//! it was made for.
//!
//! A check sees the stream as the next message finds it (`view`): the table of what is committed, and behind
//! it the `tail`: what was appended and is not in the table yet. The tail begins with the first publish that
//! is judged, and ends when there were none for a while, or when it would become too long. It begins again
//! at the end of the log, and then checks wait until the table has come that far. A question that both
//! together cannot answer exactly, because limits are about to remove messages, waits for the table, too.
//!
//! All of that, and the answers that may be asked for again (`answers`), belongs to one epoch (`judging`).
//! Under a later leader, `repeated` finds out what an earlier one stored of a request that comes again.

mod answers;
mod checks;
mod given;
mod judging;
mod rebuilt;
mod repeated;
mod tail;
mod turn;
mod types;
mod view;
mod work;

pub(super) use judging::Judging;
pub use types::Published;
pub(crate) use types::{NotPublished, PublishRequest, PublishedHere, Sender};
pub(crate) use work::publish_here;
