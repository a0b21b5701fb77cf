//! Queue groups: one member of each matching group gets the message.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use crate::subscription::ClientSubscription;
use crate::target::Target;

/// Number of groups up to which a linear search is used. With more, there is a table.
const FEW_GROUPS: usize = 8;

/// The first member of a group has this as its predecessor.
const NONE: usize = usize::MAX;

/// Picks members. Keeps its memory from message to message.
#[derive(Debug)]
pub(super) struct QueuePicker {
    groups: Vec<Group>,
    /// For each match, the previous member of the same group.
    before: Vec<usize>,
    /// Groups by the address of their name, if there are many.
    by_name: HashMap<usize, usize>,
    random: u64,
}

#[derive(Debug)]
struct Group {
    /// Address of the group's name. Names are interned, so the same name has the same address.
    name: usize,
    /// Number of members seen.
    count: u64,
    /// Indexes of the member picked so far, and of the last one seen.
    picked: usize,
    last: usize,
    served: bool,
}

impl QueuePicker {
    pub(super) fn new(seed: u64) -> Self {
        // The generator would stay at zero.
        Self { groups: Vec::new(), before: Vec::new(), by_name: HashMap::new(), random: seed | 1 }
    }

    /// Picks a member of each group that is `wanted`, uniformly among those connected, and passes it to
    /// `deliver`. If that fails because the member is full, was just closed, has unsubscribed or may not get
    /// the message, tries others of its group. Returns the number of deliveries.
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

    /// Clears the groups of the previous message. The next one has this many targets.
    pub(super) fn begin(&mut self, targets: usize) {
        self.groups.clear();
        self.by_name.clear();
        self.before.clear();
        self.before.resize(targets, NONE);
    }

    /// Number of groups found.
    pub(super) fn groups(&self) -> usize {
        self.groups.len()
    }

    /// Delivers to a member of one group. Reports whether a member got the message.
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

    /// Reports whether a member of this group got the last message. The group is identified by the address of
    /// its name.
    pub(super) fn has_served(&self, name: usize) -> bool {
        self.find(name).is_some_and(|number| self.groups[number].served)
    }

    /// Adds the members among these targets to their groups, and picks one for each group.
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
        Target::Topic(_) | Target::Node(_) | Target::Account(_) => {
            unreachable!("only clients are members of groups")
        }
    }
}

/// xorshift64*: fast, and good enough to spread load.
pub(super) fn next_random(state: &mut u64) -> u64 {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33
}
