//! Queue groups: of each group that matches, one member gets the message.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use crate::subscription::ClientSubscription;
use crate::target::Target;

/// Groups that are found by looking at all of them; with more, a table is used.
const FEW_GROUPS: usize = 8;

/// No member before this one.
const NONE: usize = usize::MAX;

/// Picks members. Keeps its memory from message to message.
#[derive(Debug)]
pub(super) struct QueuePicker {
    groups: Vec<Group>,
    /// Of each match, the member of the same group before it.
    before: Vec<usize>,
    /// Groups by the place of their name, if they are many.
    by_name: HashMap<usize, usize>,
    random: u64,
}

#[derive(Debug)]
struct Group {
    /// Place of its name in memory: names are kept once, so the same name is the same place.
    name: usize,
    /// Members seen.
    count: u64,
    /// Index of the one picked so far, and of the last one seen.
    picked: usize,
    last: usize,
    served: bool,
}

impl QueuePicker {
    pub(super) fn new(seed: u64) -> Self {
        // The generator stands still at zero.
        Self { groups: Vec::new(), before: Vec::new(), by_name: HashMap::new(), random: seed | 1 }
    }

    /// Picks a member of each group that is `wanted`, uniformly among those that are connected, and hands it to `deliver`. If that fails, since the
    /// member is full, just closed, unsubscribed, or not allowed to have the message, others of its group are tried. Returns the deliveries.
    pub(super) fn deliver(
        &mut self,
        targets: &[Arc<Target>],
        wanted: impl Fn(&[u8]) -> bool,
        mut deliver: impl FnMut(&ClientSubscription) -> bool,
    ) -> usize {
        self.begin(targets.len());
        self.gather(targets, 0..targets.len(), wanted);
        (0..self.groups.len()).filter(|number| self.serve(targets, *number, &mut deliver)).count()
    }

    /// Forgets the groups of the message before. The next one has so many targets.
    pub(super) fn begin(&mut self, targets: usize) {
        self.groups.clear();
        self.by_name.clear();
        self.before.clear();
        self.before.resize(targets, NONE);
    }

    /// Groups that were found.
    pub(super) fn groups(&self) -> usize {
        self.groups.len()
    }

    /// Delivers to a member of one group. True if somebody has it.
    pub(crate) fn serve(
        &mut self,
        targets: &[Arc<Target>],
        number: usize,
        deliver: &mut impl FnMut(&ClientSubscription) -> bool,
    ) -> bool {
        let group = &mut self.groups[number];
        let mut done = deliver(member(targets, group.picked));
        let mut other = group.last;
        while !done && other != NONE {
            done = other != group.picked && deliver(member(targets, other));
            other = self.before[other];
        }
        group.served = done;
        done
    }

    /// True if the last message was delivered to a member of this group, which is told by the place of its name.
    pub(super) fn has_served(&self, name: usize) -> bool {
        self.find(name).is_some_and(|number| self.groups[number].served)
    }

    /// Puts the members among these targets into their groups, picking one of each.
    pub(super) fn gather(
        &mut self,
        targets: &[Arc<Target>],
        range: Range<usize>,
        wanted: impl Fn(&[u8]) -> bool,
    ) {
        for index in range {
            let target = &targets[index];
            let Target::Client(subscription) = &**target else { continue };
            let Some(queue) = &subscription.queue else { continue };
            if subscription.client.out.is_closed() || subscription.has_ended() || !wanted(queue) {
                continue;
            }
            let name = Arc::as_ptr(queue).cast::<u8>() as usize;
            let Some(number) = self.find(name) else {
                self.add(name, index);
                continue;
            };
            let chance = next_random(&mut self.random);
            let group = &mut self.groups[number];
            group.count += 1;
            if chance.is_multiple_of(group.count) {
                group.picked = index;
            }
            self.before[index] = std::mem::replace(&mut group.last, index);
        }
    }

    fn find(&self, name: usize) -> Option<usize> {
        if self.groups.len() <= FEW_GROUPS {
            return self.groups.iter().position(|group| group.name == name);
        }
        self.by_name.get(&name).copied()
    }

    fn add(&mut self, name: usize, index: usize) {
        self.groups.push(Group { name, count: 1, picked: index, last: index, served: false });
        if self.groups.len() == FEW_GROUPS + 1 {
            self.by_name.extend(self.groups.iter().enumerate().map(|(number, group)| (group.name, number)));
        } else if self.groups.len() > FEW_GROUPS {
            self.by_name.insert(name, self.groups.len() - 1);
        }
    }
}

fn member(targets: &[Arc<Target>], index: usize) -> &ClientSubscription {
    match &*targets[index] {
        Target::Client(subscription) => subscription,
        Target::Topic(_) | Target::Node(_) => unreachable!("only clients are put into groups"),
    }
}

/// xorshift64*: quick, and good enough to spread load.
pub(super) fn next_random(state: &mut u64) -> u64 {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33
}
