//! An agent's clock goes wrong during a run. The result must say so, and must not contain latencies made up
//! by the clock.

#[allow(dead_code, reason = "other tests use more of it")]
#[path = "../../tests/peers/nsqd.rs"]
mod nsqd;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use nsqd::Nsqd;

use super::{Agent, AgentOptions, Coordinator, Key, Placement, RemoteLoad, RemoteOutcome};
use crate::clock::{Clock, MonotonicClock, SECOND_NS, Waiting};
use crate::engine::{Interval, Load, LoadOptions};
use crate::schedule::{Rate, Schedule};
use crate::systems::{EchoProtocol, EchoServer, Settings, Target};
use crate::verdict::VerdictKind;

/// Two agents. A test may change the second one's clock.
struct Lab {
    key: Key,
    agents: Vec<Agent>,
    shift_ns: Arc<AtomicI64>,
}

impl Lab {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        Key::write_new(&path).unwrap();
        let shift_ns = Arc::new(AtomicI64::new(0));
        let agent = |clock_shift_ns| {
            let mut options = AgentOptions::new("127.0.0.1:0".to_owned(), Key::read(&path).unwrap());
            options.clock_shift_ns = clock_shift_ns;
            Agent::start(options, Arc::new(|_: &str| {})).unwrap()
        };
        let agents = vec![agent(Arc::default()), agent(Arc::clone(&shift_ns))];
        Self { key: Key::read(&path).unwrap(), agents, shift_ns }
    }

    /// Runs four seconds of load. `at` is called for each interval of half a second, with the clock.
    fn run(
        &self,
        placement: Placement,
        system: &str,
        address: String,
        at: &mut dyn FnMut(u64, &AtomicI64),
    ) -> RemoteOutcome {
        let mut options =
            LoadOptions::new(Load::Open(Schedule::constant(Rate::per_second(200).unwrap()).unwrap()));
        (options.warm_up_ns, options.duration_ns) = (0, 4 * SECOND_NS);
        (options.interval_ns, options.run) = (SECOND_NS / 2, (std::process::id() % 30_000) as u16 + 1);
        let target = Target {
            system: system.to_owned(),
            address: Some(address),
            connections: 2,
            payload_bytes: 128,
            run: options.run,
            settings: Settings::default(),
        };
        let agents: Vec<String> = self.agents.iter().map(|agent| agent.address().to_string()).collect();
        let load = RemoteLoad {
            agents: &agents,
            key: &self.key,
            placement,
            target: &target,
            options: &options,
            waiting: Waiting::Sleep,
        };
        let clock: Arc<dyn Clock> = Arc::new(MonotonicClock::default());
        let mut observer =
            |interval: &Interval<'_>| at(interval.begin_ns / interval.length_ns, &self.shift_ns);
        Coordinator::prepare(&load, &clock, &Arc::default()).unwrap().run(&mut observer).unwrap()
    }
}

fn jump(interval: u64, shift_ns: &AtomicI64) {
    if interval == 2 {
        shift_ns.store(250_000_000, Ordering::Relaxed);
    }
}

#[test]
fn a_jump_is_found_where_each_latency_is_of_one_clock() {
    let echo = EchoServer::start(EchoProtocol::Tcp).unwrap();
    let lab = Lab::new();
    let found = lab.run(Placement::Together, "tcp-echo", echo.address().to_string(), &mut jump);
    let (one, two) = (&found.report.agents[0], &found.report.agents[1]);
    assert_eq!(one.clock.as_ref().map(|clock| clock.steps), Some(0), "{:?}", one.clock);
    let clock = two.clock.as_ref().unwrap();
    assert!(clock.steps >= 1 && clock.bound_ns >= 200_000_000, "{clock:?}");
    let verdict = &found.outcome.verdict;
    let said = format!("the clock of agent {} jumped or changed its rate", two.address);
    assert!(verdict.reasons().iter().any(|reason| reason.starts_with(&said)), "{verdict:?}");
    assert!(verdict.kind() > VerdictKind::Valid, "{verdict:?}");
}

#[test]
fn receipts_across_a_jump_are_invalid() {
    let (nsqd, lab) = (Nsqd::start(), Lab::new());
    let found = lab.run(Placement::Apart, "nsq", nsqd.address.clone(), &mut jump);
    // The clocks' bound is at least their actual error.
    let bound = found.report.receipt_bound_ns.unwrap();
    assert!(bound >= 200_000_000, "{bound}");
    let verdict = &found.outcome.verdict;
    assert_eq!(verdict.kind(), VerdictKind::Invalid, "{verdict:?}");
    assert!(verdict.reasons().iter().any(|reason| reason.contains("--placement together")), "{verdict:?}");
}

/// A clock that is too fast by one in a thousand is beyond any that the kernel disciplines: no line of at
/// most 500 ppm agrees with it.
#[test]
fn a_clock_that_runs_away_is_found() {
    let echo = EchoServer::start(EchoProtocol::Tcp).unwrap();
    let lab = Lab::new();
    let mut run_away = |interval: u64, shift_ns: &AtomicI64| {
        shift_ns.store(interval as i64 * 20_000_000, Ordering::Relaxed);
    };
    let found = lab.run(Placement::Together, "tcp-echo", echo.address().to_string(), &mut run_away);
    let clock = found.report.agents[1].clock.as_ref().unwrap();
    assert!(clock.steps >= 2, "{clock:?}");
    assert!(found.outcome.verdict.kind() > VerdictKind::Valid, "{:?}", found.outcome.verdict);
}
