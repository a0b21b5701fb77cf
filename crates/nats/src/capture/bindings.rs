//! The subjects that topics capture, kept in step with the table of topics.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tailrace_subjects::{Pattern, Subscription};
use tailrace_types::TopicId;

use super::binding::Binding;
use crate::router::Router;
use tailrace_node::partitions::{Topic, TopicTable};

/// Every topic that captures subjects.
#[derive(Debug)]
pub(crate) struct Bindings {
    /// A panic leaves every entry complete.
    by_topic: Mutex<HashMap<TopicId, Bound>>,
    /// Whether streams judge messages.
    is_enabled: bool,
}

#[derive(Debug)]
struct Bound {
    binding: Arc<Binding>,
    routes: Vec<(Pattern, Subscription)>,
}

impl Bindings {
    /// `is_enabled`: there is JetStream.
    pub(super) fn new(is_enabled: bool) -> Self {
        Self { by_topic: Mutex::default(), is_enabled }
    }

    /// Applies a changed table. Called for one table after the other.
    ///
    /// Patterns that stay are left alone. A topic's new patterns are added before its old ones are removed,
    /// so that a change loses no messages. [`super::CaptureBurst`] guarantees that none is captured twice
    /// meanwhile.
    pub(crate) fn follow(&self, router: &Router, table: &TopicTable) {
        let mut by_topic = self.by_topic.lock();
        by_topic.retain(|id, bound| {
            let stays = table.by_id(id.0).is_some_and(|topic| !topic.config.tailrace_subjects.is_empty());
            if !stays {
                bound.keep(router, &[]);
            }
            stays
        });
        for topic in table.iter().filter(|topic| !topic.config.tailrace_subjects.is_empty()) {
            let bound = by_topic.entry(topic.id).or_insert_with(|| Bound::new(topic, self.is_enabled));
            bound.follow(router, topic, self.is_enabled);
        }
    }
}

impl Bound {
    fn new(topic: &Arc<Topic>, is_enabled: bool) -> Self {
        Self { binding: Arc::new(Binding::new(topic, is_enabled)), routes: Vec::new() }
    }

    fn follow(&mut self, router: &Router, topic: &Arc<Topic>, is_enabled: bool) {
        let is_new = self.routes.is_empty();
        if !is_new && self.binding.is(topic) {
            return;
        }
        self.binding.set(topic, is_enabled);
        let wanted = topic.config.tailrace_subjects.patterns();
        for pattern in wanted {
            if self.routes.iter().any(|(known, _)| known == pattern) {
                continue;
            }
            match router.bind(pattern, Arc::clone(&self.binding)) {
                Ok(route) => self.routes.push((pattern.clone(), route)),
                Err(error) => {
                    tracing::error!(topic = %topic.name, %pattern, %error, "the topic cannot capture the subject");
                }
            }
        }
        self.keep(router, wanted);
    }

    /// Ends the capture of all patterns except these.
    fn keep(&mut self, router: &Router, wanted: &[Pattern]) {
        for (_, route) in self.routes.extract_if(.., |(pattern, _)| !wanted.contains(pattern)) {
            router.unbind(route);
        }
    }
}
