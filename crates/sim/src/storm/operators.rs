//! The operators of a cluster. They know what each node reports about itself (`/clusterz`), and which disk
//! they suspect.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;
use tailrace_env::time::{self, Duration};
use tailrace_node::{Node, cluster};

use super::site::Site;
use crate::computer::Computer;

/// A node that does not answer within this time is not whole.
const PATIENCE: Duration = Duration::from_secs(1);

/// Time between two looks.
const LOOK: Duration = Duration::from_millis(100);

/// The maximum number of voters of the metadata.
const VOTERS_MAX: usize = 3;

#[derive(Default)]
pub(super) struct Operators {
    suspect: Option<Suspect>,
    /// When the operators look again.
    next_look: Duration,
}

/// A node that may have a damaged copy.
struct Suspect {
    computer: usize,
    /// The start of its node, and how many scrub rounds had ended by then. `None` while the harm may still be
    /// to come.
    since: Option<(u32, u64)>,
}

impl Operators {
    /// Suspects a node of damage. Nothing counts as whole until the node has been scrubbed.
    pub(super) fn suspect(&mut self, computer: usize) {
        self.suspect = Some(Suspect { computer, since: None });
    }

    /// Reports whether every node runs and reports nothing missing or damaged, and no node is suspect.
    pub(super) fn see_all_whole(&mut self, site: &Site) -> bool {
        let now = site.universe.now();
        if now < self.next_look {
            return false;
        }
        self.next_look = now + LOOK;
        let Some(pages) = site.computers.iter().map(|computer| page(site, computer)).collect() else {
            return false;
        };
        let pages: Vec<Value> = pages;
        self.look_through(site, &pages);
        self.suspect.is_none() && pages.iter().all(|page| tells_whole(page, pages.len()))
    }

    /// Clears the suspect once two rounds of its scrubber have ended. The first one may have started before
    /// the harm was done.
    fn look_through(&mut self, site: &Site, pages: &[Value]) {
        let Some(suspect) = &mut self.suspect else { return };
        let (start, page) = (site.starts[suspect.computer], &pages[suspect.computer]);
        let rounds = page.pointer("/scrub/rounds").and_then(Value::as_u64).unwrap_or(0);
        match suspect.since {
            None if site.computers[suspect.computer].disk().awaits_faults() => {}
            None => suspect.since = Some((start, rounds)),
            Some((at, before)) => {
                let wanted = if at == start { before + 2 } else { 1 };
                let is_read = page.pointer("/scrub/complete").and_then(Value::as_bool) == Some(true);
                if rounds >= wanted && is_read && is_empty(page, "/damaged") {
                    self.suspect = None;
                }
            }
        }
    }
}

/// Returns what a node reports about itself and the cluster, if it runs.
fn page(site: &Site, computer: &Computer) -> Option<Value> {
    let node: Arc<Node> = computer.node()?;
    let asked = async move { time::timeout(PATIENCE, cluster::page(&node)).await.ok() };
    let answer = site.universe.run(computer.machine(), asked).ok().flatten()?;
    serde_json::from_str(&answer).ok()
}

fn tells_whole(page: &Value, nodes: usize) -> bool {
    let is_none = |pointer: &str| page.pointer(pointer).and_then(Value::as_u64) == Some(0);
    let list = |pointer: &str| page.pointer(pointer).and_then(Value::as_array).into_iter().flatten();
    let unfenced = list("/nodes").filter(|node| node["fenced"] == false).count();
    let replicas = |pointer: &str| list(pointer).filter_map(Value::as_u64).collect::<Vec<_>>();
    let (voters, learners) = (replicas("/controller/voters"), replicas("/controller/learners"));
    // A node is listed twice until the replica that it has lost is removed. Until then a majority still
    // counts that replica.
    let there: BTreeSet<_> = voters.iter().chain(&learners).collect();
    unfenced == nodes
        && is_none("/partitions/leaderless_total")
        && is_none("/partitions/under_replicated_total")
        && is_empty(page, "/reassignments")
        && is_empty(page, "/damaged")
        && voters.len() == nodes.min(VOTERS_MAX)
        && voters.len() + learners.len() == nodes
        && there.len() == nodes
}

fn is_empty(page: &Value, pointer: &str) -> bool {
    page.pointer(pointer).and_then(Value::as_array).is_some_and(Vec::is_empty)
}
