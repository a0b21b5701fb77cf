//! What fronts ask about the consumers of a stream, on whichever node its leader is.

use std::sync::Arc;

use super::consumers::{
    AckAsk, Acked, ConsumerAnswer, ConsumerAsk, ConsumerFacts, CreateConsumer, FlowAsk, Pulled,
};
use super::face::put;
use super::failure::StreamFailure;
use crate::ask::{StreamAnswer, StreamAsk};
use crate::caller::Caller;
use crate::node::Node;
use crate::partitions::Topic;

/// Who asks about the consumers of which stream.
#[derive(Clone, Copy)]
pub struct Consumers<'a> {
    /// The node that asks.
    pub node: &'a Arc<Node>,
    /// For whom.
    pub caller: &'a Caller,
    /// The stream.
    pub topic: &'a Topic,
}

impl Consumers<'_> {
    async fn put(self, what: ConsumerAsk) -> Result<ConsumerAnswer, StreamFailure> {
        match put(self.node, self.caller, self.topic, StreamAsk::Consumer(what)).await? {
            StreamAnswer::Consumer(answer) => Ok(*answer),
            _ => Err(wrong()),
        }
    }

    /// Creates a consumer, or changes it.
    ///
    /// # Errors
    /// [`StreamFailure`]
    pub async fn create(self, request: CreateConsumer) -> Result<ConsumerFacts, StreamFailure> {
        facts(self.put(ConsumerAsk::Create(request)).await?)
    }

    /// Tells of a consumer.
    ///
    /// # Errors
    /// [`StreamFailure`]
    pub async fn info(self, consumer: &str) -> Result<ConsumerFacts, StreamFailure> {
        facts(self.put(ConsumerAsk::Info(consumer.to_owned())).await?)
    }

    /// Deletes a consumer.
    ///
    /// # Errors
    /// [`StreamFailure`]
    pub async fn delete(self, consumer: &str) -> Result<(), StreamFailure> {
        match self.put(ConsumerAsk::Delete(consumer.to_owned())).await? {
            ConsumerAnswer::Deleted => Ok(()),
            _ => Err(wrong()),
        }
    }

    /// Pauses a consumer, or resumes it, as the client's request says.
    ///
    /// # Errors
    /// [`StreamFailure`]
    pub async fn pause(self, consumer: &str, body: &str) -> Result<ConsumerFacts, StreamFailure> {
        facts(self.put(ConsumerAsk::Pause { consumer: consumer.to_owned(), body: body.to_owned() }).await?)
    }

    /// Tells how many consumers there are, and the names of those from here on, sorted.
    ///
    /// # Errors
    /// [`StreamFailure`]
    pub async fn names(self, offset: i64) -> Result<(usize, Vec<String>), StreamFailure> {
        match self.put(ConsumerAsk::Names { offset }).await? {
            ConsumerAnswer::Names { total, names } => Ok((total, names)),
            _ => Err(wrong()),
        }
    }

    /// Tells how many consumers there are, and of those from here on, sorted by their names.
    ///
    /// # Errors
    /// [`StreamFailure`]
    pub async fn list(self, offset: i64) -> Result<(usize, Vec<ConsumerFacts>), StreamFailure> {
        match self.put(ConsumerAsk::List { offset }).await? {
            ConsumerAnswer::List { total, list } => Ok((total, list)),
            _ => Err(wrong()),
        }
    }

    /// Begins a pull. The answer has what came first, or nothing if that takes long.
    ///
    /// # Errors
    /// [`StreamFailure`]; [`StreamFailure::Busy`] if too many pulls wait.
    pub async fn pull(self, consumer: &str, body: &str) -> Result<Pulled, StreamFailure> {
        pulled(self.put(ConsumerAsk::Pull { consumer: consumer.to_owned(), body: body.to_owned() }).await?)
    }

    /// Waits for what comes next for a pull. The answer has nothing if that takes long.
    ///
    /// # Errors
    /// [`StreamFailure`]
    pub async fn more(self, pull: u64) -> Result<Pulled, StreamFailure> {
        pulled(self.put(ConsumerAsk::More(pull)).await?)
    }

    /// Ends a pull whose client is gone. These messages have not reached it.
    ///
    /// # Errors
    /// [`StreamFailure`]
    pub async fn gone(self, consumer: &str, pull: u64, undelivered: Vec<u64>) -> Result<(), StreamFailure> {
        let consumer = consumer.to_owned();
        match self.put(ConsumerAsk::Gone { consumer, pull, undelivered }).await? {
            ConsumerAnswer::Gone => Ok(()),
            _ => Err(wrong()),
        }
    }

    /// Passes acknowledgements on. The answer has one entry for each of them.
    ///
    /// # Errors
    /// [`StreamFailure`]
    pub async fn acks(self, acks: Vec<AckAsk>) -> Result<Vec<Acked>, StreamFailure> {
        match self.put(ConsumerAsk::Acks(acks)).await? {
            ConsumerAnswer::Acked(acked) => Ok(acked),
            _ => Err(wrong()),
        }
    }

    /// Passes an answer to a request of flow control on.
    ///
    /// # Errors
    /// [`StreamFailure`]
    pub async fn flow(self, flow: FlowAsk) -> Result<(), StreamFailure> {
        match self.put(ConsumerAsk::Flow(flow)).await? {
            ConsumerAnswer::Flowed => Ok(()),
            _ => Err(wrong()),
        }
    }
}

fn facts(answer: ConsumerAnswer) -> Result<ConsumerFacts, StreamFailure> {
    match answer {
        ConsumerAnswer::Facts(facts) => Ok(*facts),
        _ => Err(wrong()),
    }
}

fn pulled(answer: ConsumerAnswer) -> Result<Pulled, StreamFailure> {
    match answer {
        ConsumerAnswer::Pulled(pulled) => Ok(pulled),
        _ => Err(wrong()),
    }
}

fn wrong() -> StreamFailure {
    tracing::error!("a node answers another question about consumers than it was asked");
    StreamFailure::NoLeader("its answer is to another question".to_owned())
}
