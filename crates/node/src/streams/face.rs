//! What fronts ask of a stream, on whichever node its leader is.
//!
//! A stream is a topic with one partition. Each question waits for its leader until the caller's deadline, or
//! [`STREAM_TIMEOUT`]. A read sees all that was committed when it came.

use std::sync::Arc;

use super::failure::StreamFailure;
use super::types::{Messages, Publication, Published, ReadBounds, Select, StateTerms, StreamState};
use crate::caller::Caller;
use crate::node::Node;
use crate::partitions::Topic;

/// Tells what is in a stream.
///
/// # Errors
/// [`StreamFailure`]
pub async fn state(
    node: &Arc<Node>,
    caller: &Caller,
    topic: &Topic,
    terms: StateTerms,
) -> Result<StreamState, StreamFailure> {
    let _ = (node, caller, topic, terms);
    Err(StreamFailure::NoStream)
}

/// Reads messages of a stream.
///
/// # Errors
/// [`StreamFailure`]; [`StreamFailure::NoMessage`] if there are none.
pub async fn messages(
    node: &Arc<Node>,
    caller: &Caller,
    topic: &Topic,
    select: Select,
    bounds: ReadBounds,
) -> Result<Messages, StreamFailure> {
    let _ = (node, caller, topic, select, bounds);
    Err(StreamFailure::NoStream)
}

/// Judges messages by the rules of the stream, and stores those that may be stored. Each gets its own answer,
/// in the order in which they came. They are as durable as the topic promises.
///
/// # Errors
/// [`StreamFailure`]: some of them may be stored, and some not.
pub async fn publish(
    node: &Arc<Node>,
    caller: &Caller,
    topic: &Topic,
    publications: Vec<Publication>,
) -> Result<Vec<Published>, StreamFailure> {
    let _ = (node, caller, topic, publications);
    Err(StreamFailure::NoStream)
}
