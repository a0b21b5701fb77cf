//! The targets and loads of the tests.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tailrace_bench::clock::{Clock, MonotonicClock, SECOND_NS, Waiting};
use tailrace_bench::engine::{self, Interval, Load, LoadOptions, Observer, Outcome};
use tailrace_bench::schedule::{Rate, Schedule};
use tailrace_bench::systems::{self, Settings, Target};

use crate::peers;

pub(crate) fn target(system: &str, address: Option<String>) -> Target {
    let payload_bytes = 128;
    let run = (std::process::id() % 30_000) as u16;
    Target {
        system: system.to_owned(),
        address,
        connections: 3,
        payload_bytes,
        run,
        settings: Settings::default(),
    }
}

pub(crate) fn options(target: &Target, per_second: u64) -> LoadOptions {
    options_of(target, per_second, SECOND_NS)
}

pub(crate) fn options_of(target: &Target, per_second: u64, duration_ns: u64) -> LoadOptions {
    let schedule = Schedule::constant(Rate::per_second(per_second).unwrap()).unwrap();
    let mut options = LoadOptions::new(Load::Open(schedule));
    (options.warm_up_ns, options.duration_ns) = (SECOND_NS / 5, duration_ns);
    (options.threads, options.payload_bytes, options.run) = (2, target.payload_bytes, target.run);
    options
}

pub(crate) fn settings(values: &[(&str, &str)]) -> Settings {
    Settings::new(values.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect())
}

pub(crate) fn run(target: &Target, options: &LoadOptions, stop: &Arc<AtomicBool>) -> Outcome {
    run_observed(target, options, stop, &mut |_: &Interval<'_>| {})
}

pub(crate) fn run_observed(
    target: &Target,
    options: &LoadOptions,
    stop: &Arc<AtomicBool>,
    observer: &mut dyn Observer,
) -> Outcome {
    let clock: Arc<dyn Clock> = Arc::new(MonotonicClock::new(Waiting::Sleep));
    let mut opened = systems::open(target).unwrap();
    systems::set_up(&mut opened.requesters, target, &*clock).unwrap();
    let requesters = opened.requesters;
    let (outcome, requesters) = engine::run(options, requesters, &clock, stop, observer).unwrap();
    for mut requester in requesters {
        requester.tear_down().unwrap();
    }
    outcome
}

pub(crate) fn server(name: &str) -> Option<String> {
    let variable = format!("TAILRACE_BENCH_{}", name.to_uppercase().replace('-', "_"));
    let address = std::env::var(&variable).ok();
    if address.is_none() {
        peers::not_tried(name, &format!("{variable} names none"));
    }
    address
}

pub(crate) fn set_up_fails(target: &Target) -> String {
    let mut opened = systems::open(target).unwrap();
    let error = systems::set_up(&mut opened.requesters, target, &MonotonicClock::default()).unwrap_err();
    error.to_string()
}
