//! Checks of the core transitions: step by step in one thread, and by the model checker `shuttle`
//! (`RUSTFLAGS="--cfg shuttle"`), which decides at every access to an atomic which thread goes on. `cargo
//! xtask prove subjects` runs both.

#[cfg(shuttle)]
mod contention;
#[cfg(shuttle)]
#[path = "../../../tests/history/mod.rs"]
mod history;
#[cfg(shuttle)]
mod memory;
#[cfg(shuttle)]
mod runs;
#[cfg(not(shuttle))]
mod steps;
#[cfg(shuttle)]
mod transitions;
