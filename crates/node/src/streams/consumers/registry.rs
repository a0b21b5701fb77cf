//! The consumers of all streams that a node leads.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use parking_lot::Mutex;
use tailrace_env::task;
use tailrace_types::RaftGroup;

use super::super::serve::{Led, NotServed};
use super::beside::Beside;
use super::keep::keep;
use super::pulls::Pulls;
use crate::node::Node;

/// The consumers of all streams that a node leads.
#[derive(Default)]
pub(in super::super) struct Registry {
    all: Mutex<HashMap<RaftGroup, Arc<Beside>>>,
    /// Pulls of all streams.
    pulls: Arc<AtomicUsize>,
}

impl Registry {
    /// The consumers of a stream, if there are any.
    pub(super) fn get(&self, led: &Led) -> Option<Arc<Beside>> {
        let all = self.all.lock();
        all.get(&led.live.handle.group).filter(|beside| beside.is_led()).cloned()
    }

    /// The consumers of a stream. There may be none yet.
    pub(super) fn get_or_begin(&self, node: &Arc<Node>, led: &Led) -> Result<Arc<Beside>, NotServed> {
        let handle = &led.live.handle;
        let over = || NotServed::Elsewhere("another node leads the stream".to_owned());
        let epoch = handle.leads().ok_or_else(over)?;
        let mut all = self.all.lock();
        if let Some(beside) = all.get(&handle.group).filter(|beside| beside.is_led()) {
            return Ok(Arc::clone(beside));
        }
        let beside = Arc::new(Beside::new(led.topic.id.0, handle, epoch, Pulls::new(&self.pulls)));
        all.insert(handle.group, Arc::clone(&beside));
        drop(all);
        task::spawn(keep(Arc::clone(node), Arc::clone(&beside)));
        Ok(beside)
    }

    /// How many consumers a stream has.
    pub(in super::super) fn count(&self, group: &RaftGroup) -> usize {
        let beside = self.all.lock().get(group).cloned();
        beside.map_or(0, |beside| beside.count())
    }

    /// Forgets consumers that have ended.
    pub(super) fn remove(&self, beside: &Arc<Beside>) {
        let mut all = self.all.lock();
        if all.get(&beside.handle.group).is_some_and(|present| Arc::ptr_eq(present, beside)) {
            all.remove(&beside.handle.group);
        }
    }
}
