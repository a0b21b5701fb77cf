//! A message on its way to everybody who gets it: in the account where it was published, and in those to
//! which it crosses. It may reach very many, so it is delivered in turns.

use std::ops::ControlFlow;
use std::sync::Arc;

use tailrace_env::time::Instant;
use tailrace_nats_wire::Message;

use crate::burst::{Arrival, Burst, Came, Crossing, CrossingTurn};
use crate::capture::Binding;
use crate::client::Client;
use crate::fan_out::{FanOut, Turn};
use crate::router::{Begun, Router};
use crate::target::Target;

/// Most accounts that a message passes one after the other. The imports form no cycle, so this bounds work,
/// not correctness.
const DEPTH_MAX: usize = 10;

/// Most times that one message is published again, however its imports branch.
const CROSSINGS_MAX: usize = 1024;

/// The progress of a message.
pub(crate) struct Spread {
    /// Set until all have it in the account where it was published.
    fan_out: Option<Box<FanOut>>,
    journey: Journey,
    receivers: usize,
    groups: Option<usize>,
}

impl Spread {
    /// What is left to do after the lookup, or the number of receivers if all have the message.
    pub(crate) fn of(begun: Begun, burst: &mut Burst) -> ControlFlow<usize, Self> {
        match begun {
            Begun::Done(receivers) if burst.crossings.is_empty() => ControlFlow::Break(receivers),
            Begun::Done(receivers) => ControlFlow::Continue(Self::crossing(burst, receivers)),
            Begun::Wide(targets) => ControlFlow::Continue(Self::wide(targets)),
        }
    }

    /// A message for very many subscriptions.
    pub(crate) fn wide(targets: Vec<Arc<Target>>) -> Self {
        Self::wide_to(targets, None)
    }

    /// The same for one that goes to another subject than its own, if there is one.
    pub(crate) fn wide_to(targets: Vec<Arc<Target>>, at: Option<&[u8]>) -> Self {
        let fan_out = Some(Box::new(FanOut::to(targets, at)));
        Self { fan_out, journey: Journey::default(), receivers: 0, groups: None }
    }

    /// A message that has this many receivers in its account, and crosses to others as the lookup has found.
    pub(crate) fn crossing(burst: &mut Burst, receivers: usize) -> Self {
        Self { fan_out: None, journey: Journey::begin(burst), receivers, groups: None }
    }

    /// Number of queue groups of which a member got the message for very many subscriptions, in the account
    /// where it was published. `None` before that is known.
    pub(crate) fn groups(&self) -> Option<usize> {
        self.groups
    }

    /// Continues for one turn. `router` is that of the account where it was published. Passes topics that
    /// capture the message to `captured`, with the message if it has crossed. Returns the number of receivers
    /// when all have it.
    pub(crate) fn go_on(
        &mut self,
        router: &Router,
        turn: Turn<'_, '_>,
        captured: &mut dyn FnMut(&Arc<Binding>, Option<&Message<'_>>),
    ) -> Option<usize> {
        let Turn { burst, origin, message, here, until } = turn;
        if let Some(fan_out) = &mut self.fan_out {
            let turn = Turn { burst: &mut *burst, origin, message, here, until };
            self.receivers = fan_out.go_on(router, turn, |binding| captured(binding, None))?;
            self.groups = Some(fan_out.groups());
            self.fan_out = None;
            self.journey = Journey::begin(burst);
        }
        let mut captured = |binding: &_, there: &Message<'_>| captured(binding, Some(there));
        let turn = CrossingTurn { burst, origin, payload: message.payload, until, captured: &mut captured };
        self.journey.go_on(message, turn).map(|further| self.receivers + further)
    }
}

/// The way of a message through other accounts.
#[derive(Default)]
struct Journey {
    /// The next one comes last.
    stops: Vec<Stop>,
    /// The one where it is being delivered, and how many accounts it may pass from there.
    here: Option<(Box<dyn Arrival>, usize)>,
    /// Number of times that it was published again.
    crossings: usize,
    receivers: usize,
}

/// A crossing that is still to be taken.
struct Stop {
    crossing: Arc<dyn Crossing>,
    /// The message where the crossing begins. `None` for the message as it was published.
    from: Option<Arc<dyn Arrival>>,
    /// Number of accounts that it may still pass one after the other.
    depth: usize,
}

impl Journey {
    fn begin(burst: &mut Burst) -> Self {
        let mut journey = Self::default();
        journey.follow(burst, None, DEPTH_MAX);
        journey
    }

    /// Takes the ways that the last lookup has found.
    fn follow(&mut self, burst: &mut Burst, from: Option<Arc<dyn Arrival>>, depth: usize) {
        let found = std::mem::take(&mut burst.crossings);
        if depth > 0 {
            let stop = |crossing| Stop { crossing, from: from.clone(), depth };
            self.stops.extend(found.into_iter().rev().map(stop));
        }
    }

    /// Continues for one turn, by at least one step. Returns the number of receivers when all have
    /// it.
    fn go_on(&mut self, message: &Message<'_>, turn: CrossingTurn<'_>) -> Option<usize> {
        let CrossingTurn { burst, origin, payload, until, captured } = turn;
        loop {
            if let Some((arrival, depth)) = &mut self.here {
                let turn =
                    CrossingTurn { burst: &mut *burst, origin, payload, until, captured: &mut *captured };
                self.receivers += arrival.go_on(turn)?;
                let depth = *depth;
                let from = self.here.take().map(|(arrival, _)| Arc::from(arrival));
                self.follow(burst, from, depth);
            } else {
                let Some(stop) = self.stops.pop().filter(|_| self.crossings < CROSSINGS_MAX) else {
                    return Some(self.receivers);
                };
                self.arrive(&stop, origin, message);
            }
            if Instant::now() >= until && (self.here.is_some() || !self.stops.is_empty()) {
                return None;
            }
        }
    }

    fn arrive(&mut self, stop: &Stop, origin: Option<&Client>, message: &Message<'_>) {
        let arrived = match &stop.from {
            None => stop.crossing.take(origin, message, Came::Published),
            Some(from) => stop.crossing.take(origin, &from.message(message.payload), from.came()),
        };
        if let Some(arrived) = arrived {
            self.crossings += 1;
            self.here = Some((arrived, stop.depth - 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use tailrace_identity::nats_accounts::{
        AccountDefinition, AccountName, AccountTable, Export, ExportAccess, Import, Response, ShareKind,
        SubjectMapping,
    };

    use super::*;
    use crate::front::NatsFront;
    use crate::testing::{front, subscriber_in};

    const MESSAGE: Message<'_> = Message { subject: b"s", reply: None, headers: None, payload: b"x" };

    /// An account that exports the stream `s`, and imports that of another one.
    fn account(name: &str, from: Option<&str>) -> AccountDefinition {
        let name_of = |text: &str| AccountName::new(text).unwrap();
        let mut account = AccountDefinition::new(name_of(name));
        account.exports.push(Export {
            kind: ShareKind::Stream,
            subject: "s".into(),
            access: ExportAccess::Public,
            response: Response::Singleton,
            response_threshold_ms: None,
            revocations: Default::default(),
        });
        account.imports.extend(from.map(|from| Import {
            kind: ShareKind::Stream,
            account: name_of(from),
            mapping: SubjectMapping::new("s", "s").unwrap(),
            share: false,
            token: None,
        }));
        account
    }

    fn define(front: &NatsFront, accounts: Vec<AccountDefinition>) {
        let (table, faults) = AccountTable::build(accounts, 0);
        assert!(faults.is_empty(), "{faults:?}");
        front.accounts().define(&table);
    }

    /// Publishes a message in the first account, in turns that are over at once. Returns the number of turns
    /// and of receivers.
    fn publish(front: &NatsFront) -> (usize, usize) {
        let first = front.accounts().get("A");
        let mut burst = Burst::default();
        let begun = first.router().begin_own(&mut burst, &MESSAGE);
        let ControlFlow::Continue(mut spread) = Spread::of(begun, &mut burst) else {
            panic!("nothing is left")
        };
        for turns in 1.. {
            let until = Instant::now();
            let turn = Turn { burst: &mut burst, origin: None, message: &MESSAGE, here: None, until };
            if let Some(receivers) = spread.go_on(first.router(), turn, &mut |_, _| {}) {
                burst.finish(front.metrics());
                return (turns, receivers);
            }
        }
        unreachable!("it ends")
    }

    #[test]
    fn a_message_that_very_many_get_in_another_account_takes_several_turns() {
        const LISTENERS: u64 = 5_000;
        let front = front();
        define(&front, vec![account("A", None), account("B", Some("A"))]);
        let client = subscriber_in(&front, front.accounts().get("B").router(), b"s", None, LISTENERS);
        let (turns, receivers) = publish(&front);
        assert!(turns > 30, "{turns}");
        assert_eq!((receivers as u64, client.sent().0), (LISTENERS, LISTENERS));
    }

    #[test]
    fn a_message_that_crosses_to_many_accounts_takes_several_turns_and_reaches_a_bounded_number() {
        let front = front();
        let names: Vec<_> = (0..CROSSINGS_MAX + 50).map(|number| format!("B{number}")).collect();
        let importers = names.iter().map(|name| account(name, Some("A")));
        define(&front, std::iter::once(account("A", None)).chain(importers).collect());
        let clients: Vec<_> = names
            .iter()
            .map(|name| subscriber_in(&front, front.accounts().get(name).router(), b"s", None, 1))
            .collect();
        let (turns, receivers) = publish(&front);
        assert!(turns > CROSSINGS_MAX / 2, "{turns}");
        assert_eq!(receivers, CROSSINGS_MAX);
        let sent: Vec<_> = clients.iter().map(|client| client.sent().0).collect();
        assert_eq!(sent.iter().sum::<u64>(), CROSSINGS_MAX as u64);
        assert!(sent.iter().all(|sent| *sent <= 1));
    }

    #[test]
    fn a_message_passes_a_bounded_number_of_accounts() {
        let front = front();
        let names: Vec<_> = (b'A'..=b'Z').map(|letter| char::from(letter).to_string()).collect();
        let before = std::iter::once(None).chain(names.iter().map(|name| Some(name.as_str())));
        define(&front, names.iter().zip(before).map(|(name, from)| account(name, from)).collect());
        let clients: Vec<_> = names
            .iter()
            .map(|name| subscriber_in(&front, front.accounts().get(name).router(), b"s", None, 1))
            .collect();
        let (_, receivers) = publish(&front);
        // The first account is where it was published.
        assert_eq!(receivers, DEPTH_MAX + 1);
        let sent: Vec<_> = clients.iter().map(|client| client.sent().0).collect();
        assert_eq!(sent.iter().position(|sent| *sent == 0), Some(DEPTH_MAX + 1), "{sent:?}");
        assert_eq!(sent.iter().sum::<u64>() as usize, DEPTH_MAX + 1);
    }
}
