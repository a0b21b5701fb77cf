//! A seeded network that delays, loses, duplicates and reorders messages. Each direction of a link can be
//! cut.

use std::collections::BTreeMap;

use crate::Rng;

/// How badly messages fare. Percentages are out of 100.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Weather {
    /// Messages that get lost.
    pub lost_percent: u64,
    /// Messages that are duplicated.
    pub doubled_percent: u64,
    /// Shortest delay, in milliseconds.
    pub delay_ms_min: u64,
    /// Longest delay, in milliseconds. Messages may overtake each other within it.
    pub delay_ms_max: u64,
    /// Messages that take much longer.
    pub late_percent: u64,
    /// Longest delay of those, in milliseconds.
    pub late_ms_max: u64,
}

impl Weather {
    /// Nothing is lost, duplicated or reordered.
    pub(crate) const FINE: Self = Self {
        lost_percent: 0,
        doubled_percent: 0,
        delay_ms_min: 1,
        delay_ms_max: 1,
        late_percent: 0,
        late_ms_max: 0,
    };
}

/// Statistics of the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Traffic {
    /// Messages handed over.
    pub sent: u64,
    /// Messages that were delivered, duplicates included.
    pub delivered: u64,
    /// Messages lost by chance.
    pub lost: u64,
    /// Messages duplicated.
    pub doubled: u64,
    /// Messages that were delivered after a later one of the same link.
    pub reordered: u64,
    /// Messages dropped because their link was cut.
    pub cut: u64,
    /// Messages that took much longer than most.
    pub late: u64,
}

/// Messages in transit between numbered nodes.
#[derive(Clone, Debug)]
pub(crate) struct Network<M> {
    rng: Rng,
    weather: Weather,
    /// Messages in transit by arrival time and sequence number.
    on_the_way: BTreeMap<(u64, u64), Parcel<M>>,
    number: u64,
    newest: BTreeMap<(u64, u64), u64>,
    cuts: Vec<(u64, u64)>,
    traffic: Traffic,
}

#[derive(Clone, Debug)]
struct Parcel<M> {
    from: u64,
    to: u64,
    number: u64,
    message: M,
}

impl<M: Clone> Network<M> {
    /// Returns a network whose decisions follow from `seed`.
    pub(crate) fn new(seed: u64, weather: Weather) -> Self {
        Self {
            rng: Rng::new(seed),
            weather,
            on_the_way: BTreeMap::new(),
            number: 0,
            newest: BTreeMap::new(),
            cuts: Vec::new(),
            traffic: Traffic::default(),
        }
    }

    /// Sets the weather from now on.
    pub(crate) fn set_weather(&mut self, weather: Weather) {
        self.weather = weather;
    }

    /// Cuts one direction of a link.
    pub(crate) fn cut(&mut self, from: u64, to: u64) {
        if !self.is_cut(from, to) {
            self.cuts.push((from, to));
        }
    }

    /// Restores one direction of a link.
    pub(crate) fn join(&mut self, from: u64, to: u64) {
        self.cuts.retain(|cut| *cut != (from, to));
    }

    /// Restores all cut links.
    pub(crate) fn mend(&mut self) {
        self.cuts.clear();
    }

    /// Reports whether nothing gets from one node to the other.
    pub(crate) fn is_cut(&self, from: u64, to: u64) -> bool {
        self.cuts.contains(&(from, to))
    }

    /// Returns the statistics of the network.
    pub(crate) fn traffic(&self) -> Traffic {
        self.traffic
    }

    /// Sends a message at `now_ms`.
    pub(crate) fn send(&mut self, now_ms: u64, from: u64, to: u64, message: M) {
        self.send_late(now_ms, from, to, message, 0);
    }

    /// Sends a message that takes at least `least_ms`.
    pub(crate) fn send_late(&mut self, now_ms: u64, from: u64, to: u64, message: M, least_ms: u64) {
        self.traffic.sent += 1;
        if self.is_cut(from, to) {
            self.traffic.cut += 1;
            return;
        }
        if self.rng.percent(self.weather.lost_percent) {
            self.traffic.lost += 1;
            return;
        }
        if self.rng.percent(self.weather.doubled_percent) {
            self.traffic.doubled += 1;
            self.dispatch(now_ms, from, to, message.clone(), least_ms);
        }
        self.dispatch(now_ms, from, to, message, least_ms);
    }

    fn dispatch(&mut self, now_ms: u64, from: u64, to: u64, message: M, least_ms: u64) {
        let delay = self.rng.between(self.weather.delay_ms_min, self.weather.delay_ms_max);
        let mut delay = delay.max(least_ms);
        if self.weather.late_percent > 0 && self.rng.percent(self.weather.late_percent) {
            self.traffic.late += 1;
            delay = delay.max(self.rng.below(self.weather.late_ms_max));
        }
        self.number += 1;
        let parcel = Parcel { from, to, number: self.number, message };
        self.on_the_way.insert((now_ms + delay, self.number), parcel);
    }

    /// Returns the next message that has arrived by `now_ms`, as sender, receiver and message. A cut also
    /// drops messages in transit.
    pub(crate) fn arrived(&mut self, now_ms: u64) -> Option<(u64, u64, M)> {
        loop {
            let entry = self.on_the_way.first_entry().filter(|entry| entry.key().0 <= now_ms)?;
            let Parcel { from, to, number, message } = entry.remove();
            if self.is_cut(from, to) {
                self.traffic.cut += 1;
                continue;
            }
            let newest = self.newest.entry((from, to)).or_default();
            if number < *newest {
                self.traffic.reordered += 1;
            }
            *newest = number.max(*newest);
            self.traffic.delivered += 1;
            return Some((from, to, message));
        }
    }

    /// Drops everything in transit to or from a node, because it crashed.
    pub(crate) fn forget(&mut self, node: u64) {
        self.on_the_way.retain(|_, parcel| parcel.from != node && parcel.to != node);
    }
}

/// See [`crate::checks`].
pub(crate) mod checks {
    use super::*;

    const STORM: Weather =
        Weather { lost_percent: 10, doubled_percent: 10, delay_ms_min: 1, delay_ms_max: 50, ..Weather::FINE };

    fn run(seed: u64) -> (Vec<(u64, u64)>, Traffic) {
        let mut network = Network::new(seed, STORM);
        let mut seen = Vec::new();
        for now in 0..500 {
            network.send(now, 1, 2, now);
            while let Some((_, _, message)) = network.arrived(now) {
                seen.push((now, message));
            }
        }
        (seen, network.traffic())
    }

    /// A seed tells everything and every fault happens.
    pub fn a_seed_tells_everything_and_every_fault_happens() {
        let (seen, traffic) = run(7);
        assert_eq!((seen, traffic), run(7));
        assert_ne!(run(7), run(8));
        assert!(traffic.lost > 0 && traffic.doubled > 0 && traffic.reordered > 0, "{traffic:?}");
        assert_eq!(traffic.sent, 500);
    }

    /// A cut is one way and stops what is on its way.
    pub fn a_cut_is_one_way_and_stops_what_is_on_its_way() {
        let mut network = Network::new(1, Weather::FINE);
        network.send(0, 1, 2, 'a');
        network.cut(1, 2);
        network.send(0, 1, 2, 'b');
        network.send(0, 2, 1, 'c');
        assert_eq!(network.arrived(5), Some((2, 1, 'c')));
        assert_eq!(network.arrived(5), None);
        network.mend();
        network.send(5, 1, 2, 'd');
        assert_eq!(network.arrived(6), Some((1, 2, 'd')));
        assert_eq!(network.traffic().cut, 2);
    }
}
