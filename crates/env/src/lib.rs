//! The environment of a node. It covers time, timers, tasks, threads, random numbers and connections, and the
//! limits on processors ([`aside`], [`workers`]) and memory ([`budget`]).
//!
//! A node and its protocol sessions use this crate alone to wait, spawn, read clocks, draw random numbers,
//! listen and connect. The server process runs in the real world, which `tailrace-runtime` implements on
//! tokio. A simulated world implements [`World`] and takes its place without any change to the node.
//!
//! The world is ambient, like a tokio runtime: no argument carries it. [`install`] sets the world of the
//! process, once. [`enter`] sets the world of one thread, which takes precedence. [`time`], [`task`],
//! [`thread`], [`random`] and [`net`] use the current world.
//!
//! Channels, locks and the traits of byte streams do not depend on a world. [`sync`] and [`io`] re-export
//! tokio's, whose wakers work with every executor.
//!
//! # Traps
//!
//! * [`select!`] polls its branches in source order, so that a run can be repeated. A branch that is always
//!   ready starves those below it. Put the branch that ends a loop first.
//! * A thread that the world did not start has no task context. Code that spawns tasks from such a thread
//!   needs a [`task::Spawner`].
//! * A task that wakes itself delays tasks woken by other threads. It must yield. If it is polled by hand, it
//!   uses [`task::NextTurn`].

#[doc(hidden)]
pub use tokio as __tokio;
pub use tokio::sync;

pub mod aside;
pub mod budget;
pub mod file_stamp;
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
