//! In some runs every leader is cut off soon after its election, and the one cut off before it is
//! reconnected. This leads to entries of older terms that are on a majority and are still overwritten.

use tailrace_replication::raft::Role;

use super::world::{Node, World};
use crate::mask::AIMED_FROM;

impl World {
    pub(super) fn cut_leaders(&mut self) {
        if !self.aim.is_taken {
            return;
        }
        let leads = |(id, node): (&u64, &Node)| {
            let replica = node.replica.as_ref().filter(|replica| replica.role() == Role::Leader)?;
            Some((replica.epoch(), *id))
        };
        let newest = self.nodes.iter().filter_map(leads).max();
        if let Some((epoch, id)) = newest.filter(|(epoch, _)| *epoch > self.aim.epoch) {
            self.aim.epoch = epoch;
            self.aim.next = Some((id, self.now_ms + self.rng.below(60)));
        }
        let now_ms = self.now_ms;
        let Some((id, _)) = self.aim.next.take_if(|(_, at_ms)| *at_ms <= now_ms) else { return };
        let number = AIMED_FROM + self.aim.made;
        self.aim.made += 1;
        if self.mask.leaves_out(number) {
            return;
        }
        self.injected
            .push((number, format!("at {now_ms} ms, replica {id}: cut off right after its election")));
        self.count("cut right after an election");
        if let Some(before) = self.aim.cut.replace(id) {
            self.ids().into_iter().for_each(|other| {
                self.network.join(before, other);
                self.network.join(other, before);
            });
        }
        for other in self.ids().into_iter().filter(|other| *other != id) {
            self.network.cut(id, other);
            self.network.cut(other, id);
        }
    }
}
