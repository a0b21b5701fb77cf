//! Sets of tasks with one owner.

use std::collections::BTreeMap;

use tokio::sync::mpsc;

use super::catch::Caught;
use super::join_error::JoinError;
use crate::world::{Running, current};

/// A set of tasks with one owner. They are joined in the order in which they end. Dropping the set drops the
/// tasks that still run.
pub struct JoinSet<T> {
    tasks: BTreeMap<u64, Box<dyn Running>>,
    next_id: u64,
    tell: mpsc::UnboundedSender<Ended<T>>,
    /// Never closed. Bounded by the number of tasks.
    ended: mpsc::UnboundedReceiver<Ended<T>>,
}

struct Ended<T> {
    id: u64,
    outcome: Result<T, JoinError>,
}

/// Reports the end of a task, even if the task is dropped.
struct Teller<T> {
    id: u64,
    tell: mpsc::UnboundedSender<Ended<T>>,
    is_told: bool,
}

impl<T> Teller<T> {
    fn tell(&mut self, outcome: Result<T, JoinError>) {
        self.is_told = true;
        // The set may be gone.
        let _ = self.tell.send(Ended { id: self.id, outcome });
    }
}

impl<T> Drop for Teller<T> {
    fn drop(&mut self) {
        if !self.is_told {
            self.tell(Err(JoinError::dropped()));
        }
    }
}

impl<T> Default for JoinSet<T> {
    fn default() -> Self {
        let (tell, ended) = mpsc::unbounded_channel();
        Self { tasks: BTreeMap::new(), next_id: 0, tell, ended }
    }
}

impl<T: Send + 'static> JoinSet<T> {
    /// Creates an empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Runs `work` as a task next to the caller's task. Returns the task's number in this set.
    ///
    /// # Panics
    /// Outside of a task, or if there is no world.
    pub fn spawn(&mut self, work: impl Future<Output = T> + Send + 'static) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        let mut teller = Teller { id, tell: self.tell.clone(), is_told: false };
        let work = Caught { work };
        let task = async move {
            let outcome = work.await;
            teller.tell(outcome);
        };
        self.tasks.insert(id, current().spawn(Box::pin(task)));
        id
    }

    /// Waits for the next task to end. Returns its number and its outcome. `None` if no task is left.
    pub async fn join_next_with_id(&mut self) -> Option<(u64, Result<T, JoinError>)> {
        if self.tasks.is_empty() {
            return None;
        }
        let Ended { id, outcome } = self.ended.recv().await?;
        self.tasks.remove(&id);
        Some((id, outcome))
    }

    /// Waits for the next task to end. `None` if no task is left.
    pub async fn join_next(&mut self) -> Option<Result<T, JoinError>> {
        self.join_next_with_id().await.map(|(_, outcome)| outcome)
    }

    /// Drops the task with this number at its await point. Its end is reported like any other.
    pub fn abort(&self, id: u64) {
        if let Some(task) = self.tasks.get(&id) {
            task.abort();
        }
    }

    /// Drops all tasks at their await points, and waits until they are gone.
    pub async fn shutdown(&mut self) {
        self.tasks.values().for_each(|task| task.abort());
        while self.join_next_with_id().await.is_some() {}
    }

    /// Number of tasks that were not joined yet.
    pub fn len(&self) -> usize {
        self.tasks.len()
    }

    /// True if all tasks have been joined.
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }
}

impl<T> Drop for JoinSet<T> {
    fn drop(&mut self) {
        self.tasks.values().for_each(|task| task.abort());
    }
}
