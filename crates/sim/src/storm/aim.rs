//! In some runs leaders are cut off soon after their election, for about as long as the next one takes: what one has begun, others
//! end or overwrite.

use std::collections::BTreeMap;
use std::time::Duration;

use tailrace_node::cluster::leaders::leader_of;
use tailrace_types::LeaderEpoch;

use super::site::{DATA_TOPIC, INTERNAL_TOPICS, OUT_TOPIC, Site, TOPIC};
use crate::rng::Rng;

/// In so many runs.
const RUNS_PERCENT: u64 = 25;

/// So many elections are followed by a cut.
const ELECTIONS_PERCENT: u64 = 20;

/// How long after its election a leader is cut off, at most.
const AFTER_MS: u64 = 60;

/// For how long.
const LASTS_MS: (u64, u64) = (200, 700);

/// Topics of which the leaders of partition 0 are watched.
const WATCHED: [&str; 6] =
    [TOPIC, DATA_TOPIC, OUT_TOPIC, INTERNAL_TOPICS[0], INTERNAL_TOPICS[1], INTERNAL_TOPICS[2]];

pub(super) struct Aim {
    rng: Rng,
    /// The newest epoch that some node knows of, of each topic.
    epochs: BTreeMap<&'static str, LeaderEpoch>,
}

/// A leader to be cut off.
pub(super) struct Target {
    pub(super) computer: usize,
    pub(super) at: Duration,
    pub(super) lasts: Duration,
}

impl Aim {
    /// `None` in most runs.
    pub(super) fn draw(mut rng: Rng) -> Option<Self> {
        rng.percent(RUNS_PERCENT).then(|| Self { rng, epochs: BTreeMap::new() })
    }

    /// Leaders that were elected since the last look, and are to be cut off.
    pub(super) fn take(&mut self, site: &Site) -> Vec<Target> {
        let (now, mut targets) = (site.universe.now(), Vec::new());
        for topic in WATCHED {
            let newest = site.computers.iter().filter_map(|computer| {
                let node = computer.node()?;
                let found = node.topics().by_name(topic)?;
                leader_of(&node, &found, 0)
            });
            let Some((node, epoch)) = newest.max_by_key(|(_, epoch)| *epoch) else { continue };
            let is_new = self.epochs.insert(topic, epoch).is_some_and(|before| before < epoch);
            if is_new && self.rng.percent(ELECTIONS_PERCENT) {
                let Ok(computer) = usize::try_from(node.get() - 1) else { continue };
                let at = now + Duration::from_millis(self.rng.below(AFTER_MS));
                let lasts = Duration::from_millis(self.rng.between(LASTS_MS.0, LASTS_MS.1));
                targets.push(Target { computer, at, lasts });
            }
        }
        targets
    }
}
