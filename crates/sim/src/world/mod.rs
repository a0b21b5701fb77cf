//! A world that follows from one number: [`tailrace_env::World`] for several machines, on one thread.
//!
//! A [`Universe`] has machines. What runs on one (tasks, work that may block, threads) takes turns with what runs on the others, in an
//! order that the seed decides. Time passes a little with each turn, and a lot when everybody waits. A thread of a machine is a coroutine
//! with a stack of its own: all that waits in it waits by way of the world.
//!
//! A machine that loses its power loses all that runs on it at once: tasks are dropped, threads unwind out of whatever they wait for.

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
