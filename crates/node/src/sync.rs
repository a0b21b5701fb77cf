//! Locks and atomics of code that models check: those of the standard library, or under `--cfg shuttle` those
//! of the model checker `shuttle`, which decides at every access which thread continues. Modules named
//! `models`, beside the code they model, state what must hold. All other code locks with `parking_lot`, which
//! `shuttle` does not know.

#[cfg(not(shuttle))]
pub(crate) use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering, fence};
#[cfg(not(shuttle))]
pub(crate) use std::sync::{Mutex, MutexGuard};

#[cfg(shuttle)]
pub(crate) use shuttle::sync::atomic::{AtomicU8, AtomicUsize, Ordering, fence};
#[cfg(shuttle)]
pub(crate) use shuttle::sync::{Mutex, MutexGuard};

/// Runs a model under two schedulers, `TAILRACE_MODEL_RUNS` times each.
#[cfg(all(test, shuttle))]
pub(crate) fn explore(model: impl Fn() + Send + Sync + 'static) {
    use shuttle::scheduler::{PctScheduler, RandomScheduler};
    use shuttle::{Config, Runner};

    let runs = std::env::var("TAILRACE_MODEL_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(2_000);
    let model = std::sync::Arc::new(model);
    let random = std::sync::Arc::clone(&model);
    Runner::new(RandomScheduler::new(runs), Config::default()).run(move || random());
    Runner::new(PctScheduler::new(3, runs), Config::default()).run(move || model());
}
