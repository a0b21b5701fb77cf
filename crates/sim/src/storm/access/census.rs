//! How soon nodes learn of changes, and whether all of them learn the same.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tailrace_metadata::AccessImage;
use tailrace_node::Node;
use tailrace_node::cluster::leaders;
use tailrace_types::NodeId;

use super::known::AccessHistory;
use super::model::{Right, may};
use super::names::WATCHED;

/// Within this time, every node that can hear the controller has what some node has.
const KNOWN_WITHIN: Duration = Duration::from_secs(2);

/// What was seen of the nodes so far. The storm looks at them often.
#[derive(Default)]
pub(in crate::storm) struct Census {
    known: Vec<Known>,
    /// When each version was first seen on any node, in order.
    spreading: VecDeque<(Duration, u64)>,
    contents: BTreeMap<u64, AccessImage>,
    /// How often a node was judged.
    pub(in crate::storm) judged: u64,
}

/// What was seen of one node.
#[derive(Clone, Default)]
struct Known {
    /// Identifies the start of the node.
    start: usize,
    up_since: Duration,
    controller: Option<NodeId>,
    /// Since when it has taken that node for the controller.
    controlled_since: Duration,
    version: u64,
}

impl Census {
    /// Looks at all nodes.
    ///
    /// # Errors
    /// What one of them has is wrong, or comes too late.
    pub(in crate::storm) fn look(
        &mut self,
        nodes: &[Option<Arc<Node>>],
        history: &mut AccessHistory,
        disturbed: &[Duration],
        now: Duration,
    ) -> Result<(), String> {
        self.known.resize(nodes.len(), Known::default());
        history.disturb(disturbed);
        for (index, node) in nodes.iter().enumerate() {
            match node {
                Some(node) => self.look_at(index, node, history, now)?,
                None => self.known[index] = Known { up_since: now, ..Known::default() },
            }
        }
        self.judge_spread(nodes, disturbed, now)
    }

    fn look_at(
        &mut self,
        index: usize,
        node: &Arc<Node>,
        history: &mut AccessHistory,
        now: Duration,
    ) -> Result<(), String> {
        let known = &mut self.known[index];
        let start = Arc::as_ptr(node) as usize;
        if known.start != start {
            *known = Known { start, up_since: now, controlled_since: now, ..Known::default() };
        }
        let controller = leaders::controller(node);
        if known.controller != controller {
            (known.controller, known.controlled_since) = (controller, now);
        }
        let image = node.image();
        let version = image.access().version();
        for user in WATCHED {
            if may(image.access(), user, Right::Produce) || may(image.access(), user, Right::Publish) {
                history.let_write.insert(user, now);
            }
        }
        if version == known.version {
            return Ok(());
        }
        if version < known.version {
            return Err(format!(
                "node {} went from version {} of users and rules back to {version}",
                index + 1,
                known.version
            ));
        }
        known.version = version;
        if version > history.newest {
            history.newest = version;
            self.spreading.push_back((now, version));
        }
        match self.contents.get(&version) {
            Some(before) if before != image.access() => Err(format!(
                "node {} has other users and rules in version {version} than another node had",
                index + 1
            )),
            Some(_) => Ok(()),
            None => {
                self.contents.insert(version, image.access().clone());
                Ok(())
            }
        }
    }

    /// Checks that nodes which nothing keeps from hearing the controller have what some node had a while ago.
    fn judge_spread(
        &mut self,
        nodes: &[Option<Arc<Node>>],
        disturbed: &[Duration],
        now: Duration,
    ) -> Result<(), String> {
        let Some(then) = now.checked_sub(KNOWN_WITHIN) else { return Ok(()) };
        while self.spreading.get(1).is_some_and(|(seen, _)| *seen <= then) {
            self.spreading.pop_front();
        }
        let Some((_, wanted)) = self.spreading.front().filter(|(seen, _)| *seen <= then) else {
            return Ok(());
        };
        let is_calm = |index: usize| {
            let known = &self.known[index];
            nodes[index].is_some() && known.up_since <= then && disturbed[index] <= then
        };
        // At most one of three or five, so that most voters can hear each other.
        let restless = (0..nodes.len()).filter(|index| !is_calm(*index)).count();
        if restless > 1 {
            return Ok(());
        }
        for index in (0..nodes.len()).filter(|index| is_calm(*index)) {
            let known = &self.known[index];
            let controller = known.controller.and_then(|node| usize::try_from(node.get() - 1).ok());
            let Some(controller) = controller.filter(|controller| *controller < nodes.len()) else {
                continue;
            };
            let leads = &self.known[controller];
            let is_led = is_calm(controller)
                && leads.controller == known.controller
                && known.controlled_since.max(leads.controlled_since) <= then;
            if !is_led {
                continue;
            }
            self.judged += 1;
            if known.version < *wanted {
                return Err(format!(
                    "node {} has version {} of users and rules at {now:.3?}, and could hear node {}, the controller, for \
                     {KNOWN_WITHIN:?}: another one had {wanted} by then",
                    index + 1,
                    known.version,
                    controller + 1
                ));
            }
        }
        Ok(())
    }
}
