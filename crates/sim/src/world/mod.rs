//! A world that follows from one number: [`tailrace_env::World`] for several machines, on one thread.
//!
//! A [`Universe`] has machines. Whatever runs on one (tasks, blocking work, threads) takes turns with
//! whatever runs on the others, in an order that the seed decides. Time passes a little with each turn, and a
//! lot when everything waits. A thread of a machine is a coroutine with its own stack: everything in it that
//! waits must wait through the world.
//!
//! A machine that loses its power loses everything that runs on it at once: tasks are dropped, and threads
//! unwind out of whatever they wait for.

mod entropy;
mod fiber;
mod here;
mod machine;
mod network;
mod thread;
mod turns;

pub(crate) use entropy::seed_thread;
pub use here::here;
pub(crate) use machine::Machine;
pub(crate) use network::Network;
pub(crate) use turns::Universe;
