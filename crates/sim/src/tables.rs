//! Checks that replicas with the same log know the same of the producers that wrote it.

use std::collections::BTreeMap;

use tailrace_replication::{Producers, RememberedBatch};
use tailrace_types::{Offset, ProducerEpoch, ProducerId};

/// The epoch and the remembered batches of each producer that has any.
type Known = BTreeMap<ProducerId, (ProducerEpoch, Vec<RememberedBatch>)>;

/// Returns what is known of batches from `from` on. Leaves out when a producer last wrote, because each
/// replica measures that by its own clock.
fn known(producers: &Producers, from: Offset) -> Known {
    let of_each = producers.iter().map(|(id, state)| {
        let batches = state.batches.iter().filter(|batch| batch.base_offset >= from);
        (id, (state.epoch, batches.copied().collect::<Vec<_>>()))
    });
    of_each.filter(|(_, (_, batches))| !batches.is_empty()).collect()
}

/// Compares the tables of replicas, by number. The logs must be equal from `from` on and not compacted.
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
