//! Replicas with the same log know the same of the producers that wrote it.

use std::collections::BTreeMap;

use tailrace_replication::{Producers, RememberedBatch};
use tailrace_types::{Offset, ProducerEpoch, ProducerId};

/// Of each producer with batches: its epoch, and those that are remembered.
type Known = BTreeMap<ProducerId, (ProducerEpoch, Vec<RememberedBatch>)>;

/// What is known of batches from `from` on. When a producer last wrote each replica tells by its own clock.
fn known(producers: &Producers, from: Offset) -> Known {
    let of_each = producers.iter().map(|(id, state)| {
        let batches = state.batches.iter().filter(|batch| batch.base_offset >= from);
        (id, (state.epoch, batches.copied().collect::<Vec<_>>()))
    });
    of_each.filter(|(_, (_, batches))| !batches.is_empty()).collect()
}

/// Compares the tables of replicas, by their numbers. Their logs are the same from `from` on, and none of
/// them was compacted.
pub(crate) fn judge<'t>(
    tables: impl IntoIterator<Item = (u64, &'t Producers)>,
    from: Offset,
) -> Result<(), String> {
    let mut first: Option<(u64, Known)> = None;
    for (number, producers) in tables {
        let known = known(producers, from);
        let (other, expected) = first.get_or_insert_with(|| (number, known.clone()));
        if known != *expected {
            return Err(format!(
                "different-tables: from {from} on, {number} knows {known:?}, and {other} {expected:?}"
            ));
        }
    }
    Ok(())
}
