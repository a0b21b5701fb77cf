//! Groups and offsets, read when Prometheus scrapes.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use tailrace_coordination::groups::{GroupCounts, GroupKind, GroupState};
use tailrace_types::i64_of;

use crate::node::Node;

/// Asks the coordinators of groups. A busy one is left out of this scrape.
pub(crate) struct GroupCollector {
    node: Weak<Node>,
    /// The largest counts so far. Counters must not go back because a coordinator is busy or was loaded
    /// again.
    seen: Mutex<GroupCounts>,
}

impl GroupCollector {
    pub(crate) fn new(node: &Arc<Node>) -> Self {
        Self { node: Arc::downgrade(node), seen: Mutex::default() }
    }
}

impl fmt::Debug for GroupCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GroupCollector")
    }
}

#[derive(Debug, EncodeLabelSet)]
struct GroupLabels {
    kind: &'static str,
    state: &'static str,
}

impl Collector for GroupCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Some(node) = self.node.upgrade() else { return Ok(()) };
        let mut groups: BTreeMap<(GroupKind, GroupState), usize> = BTreeMap::new();
        let (mut counts, mut offsets, mut coordinators) = (GroupCounts::default(), 0, 0);
        node.coordinators.groups.look(|core| {
            for (key, count) in core.census() {
                *groups.entry(key).or_default() += count;
            }
            counts.add(core.counts());
            offsets += core.offsets();
            coordinators += 1;
        });
        let mut family =
            encoder.encode_descriptor("groups", "Groups, by kind and state", None, MetricType::Gauge)?;
        for ((kind, state), count) in groups {
            let labels = GroupLabels { kind: kind.name(), state: state.name() };
            gauge(count).encode(family.encode_family(&labels)?)?;
        }
        for (name, help, value) in [
            ("committed_offsets", "Offsets that groups have committed", offsets),
            ("group_coordinators", "Coordinators of groups that are loaded and not busy", coordinators),
        ] {
            gauge(value).encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)?;
        }
        let mut seen = self.seen.lock();
        seen.raise_to(counts);
        for (name, help, value) in [
            ("classic_group_rebalances", "Rebalances of classic groups completed", seen.classic_rebalances),
            ("offset_commits", "Offsets committed, each partition counted", seen.offset_commits),
            ("offset_expirations", "Offsets that expired", seen.offset_expirations),
            ("offset_deletions", "Offsets deleted on request or with their topic", seen.offset_deletions),
        ] {
            ConstCounter::new(value).encode(encoder.encode_descriptor(
                name,
                help,
                None,
                MetricType::Counter,
            )?)?;
        }
        Ok(())
    }
}

fn gauge(value: usize) -> ConstGauge<i64> {
    ConstGauge::new(i64_of(value))
}
