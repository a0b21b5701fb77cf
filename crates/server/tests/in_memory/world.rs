//! The real world with a network in memory. Traffic on the kernel's sockets cannot reach these tests.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Once, OnceLock};
use std::time::Duration;

use tailrace_env::net::{Listen, Opening, Socket};
use tailrace_env::{Join, Park, Running, Spawn, Task, Timer, Work, World};

use crate::network::Network;

/// How long bytes are in transit.
const LATENCY: Duration = Duration::from_millis(1);

struct InMemory;

/// Installs it as the world of this process.
pub(crate) fn install() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| tailrace_env::install(&InMemory));
}

fn network() -> &'static Arc<Network> {
    static NETWORK: OnceLock<Arc<Network>> = OnceLock::new();
    NETWORK.get_or_init(|| Network::new(LATENCY))
}

fn real() -> &'static dyn World {
    tailrace_runtime::world()
}

impl World for InMemory {
    fn listen<'a>(&'a self, address: &'a str) -> Opening<'a, Box<dyn Listen>> {
        Box::pin(network().listen(address))
    }

    fn connect<'a>(&'a self, address: &'a str) -> Opening<'a, Arc<dyn Socket>> {
        Box::pin(network().connect(address))
    }

    fn age(&self) -> Duration {
        real().age()
    }

    fn since_1970(&self) -> Duration {
        real().since_1970()
    }

    fn timer(&self, age: Duration) -> Pin<Box<dyn Timer>> {
        real().timer(age)
    }

    fn yield_now(&self) -> Task {
        real().yield_now()
    }

    fn spawn(&self, task: Task) -> Box<dyn Running> {
        real().spawn(task)
    }

    fn spawn_blocking(&self, work: Work) {
        real().spawn_blocking(work);
    }

    fn spawner(&self) -> Option<Arc<dyn Spawn>> {
        real().spawner()
    }

    fn start_loops(&self, name: &str, loops: usize, blocking: usize) -> io::Result<Arc<dyn Spawn>> {
        real().start_loops(name, loops, blocking)
    }

    fn processors(&self) -> usize {
        real().processors()
    }

    fn fill_random(&self, bytes: &mut [u8]) {
        real().fill_random(bytes);
    }

    fn spawn_thread(&self, name: String, work: Work) -> io::Result<Box<dyn Join>> {
        real().spawn_thread(name, work)
    }

    fn parking(&self) -> Arc<dyn Park> {
        real().parking()
    }

    fn on_threads(&self, threads: usize, work: &(dyn Fn() + Sync)) {
        real().on_threads(threads, work);
    }
}
