//! What a node asks of the world: time, timers, tasks, threads, random numbers, connections; and what it may take of
//! it: processors ([`aside`], [`workers`]) and memory ([`budget`]).
//!
//! A node and the sessions of its fronts wait, spawn, read clocks, draw random numbers, listen and connect through this
//! crate alone. The process runs in the real world, which `tailrace-runtime` implements on tokio. A simulated world can
//! take its place without a change above: it implements [`World`].
//!
//! The world is ambient, as a runtime of tokio is: nobody hands it around. [`install`] sets that of the process, once.
//! [`enter`] sets another one for a thread, which comes first. [`time`], [`task`], [`thread`], [`random`] and [`net`]
//! ask the one that they find.
//!
//! Channels, locks and the traits of byte streams have no world: [`sync`] and [`io`] are those of tokio, whose wakers
//! work with every executor.
//!
//! # Traps
//!
//! * [`select!`] looks at its branches in the order in which they stand, so that a run can be repeated. A branch that
//!   is always ready starves those below it: what ends a loop stands first.
//! * A thread that the world did not start has no tasks around it: what spawns from there takes a [`task::Spawner`]
//!   along.
//! * A task that wakes itself keeps those waiting whom other threads have woken. It yields; where it is polled by hand,
//!   it asks for its next turn ([`task::NextTurn`]).

#[doc(hidden)]
pub use tokio as __tokio;
pub use tokio::sync;

pub mod aside;
pub mod budget;
pub mod io;
mod macros;
pub mod metrics;
pub mod net;
pub mod panics;
pub mod random;
pub mod task;
pub mod thread;
pub mod time;
pub mod workers;
mod world;

pub use world::{Entered, Join, Park, Running, Spawn, Task, Timer, Work, World, enter, install};
