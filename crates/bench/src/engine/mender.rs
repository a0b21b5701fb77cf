//! Reconnects broken connections off the generator's threads: set-up may block, and no schedule may wait for
//! it.
//!
//! It uses a bounded number of threads, as many as there is work for. The generator's threads only put a
//! requester into a queue and check whether it has come back.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use parking_lot::{Condvar, Mutex};

use crate::error::{BenchError, RequesterError};
use crate::requester::Requester;

/// Most connections to set up at the same time. A server that does not answer blocks each thread for the
/// set-up timeout.
const THREADS_MAX: usize = 16;

/// A requester, and whether it was set up again.
pub(super) type Mended = (Box<dyn Requester>, Result<(), RequesterError>);

struct Job {
    requester: Box<dyn Requester>,
    back: Sender<Mended>,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    idle: usize,
    threads: usize,
    closed: bool,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    bell: Condvar,
}

/// A pool that reconnects requesters. Threads that are busy when it is dropped end by themselves.
pub(super) struct Mender {
    /// `None` if the calling thread does the work.
    shared: Option<Arc<Shared>>,
}

impl Mender {
    /// With `aside`, the mender has threads of its own. Otherwise the caller waits, which virtual clocks
    /// need.
    pub(super) fn new(aside: bool) -> Result<Self, BenchError> {
        if !aside {
            return Ok(Self { shared: None });
        }
        let shared = Arc::new(Shared::default());
        shared.queue.lock().threads = 1;
        // The first thread starts before it is needed: starting it later would make the generator late.
        Shared::start(&shared).map_err(BenchError::Thread)?;
        Ok(Self { shared: Some(shared) })
    }

    /// Queues a requester for set-up. The result comes through the channel.
    pub(super) fn hand_over(&self, mut requester: Box<dyn Requester>) -> Receiver<Mended> {
        let (back, coming) = channel();
        match &self.shared {
            Some(shared) => {
                shared.queue.lock().jobs.push_back(Job { requester, back });
                shared.bell.notify_one();
            }
            None => {
                let result = requester.set_up();
                let _ = back.send((requester, result));
            }
        }
        coming
    }
}

impl Drop for Mender {
    fn drop(&mut self) {
        if let Some(shared) = &self.shared {
            shared.queue.lock().closed = true;
            shared.bell.notify_all();
        }
    }
}

impl Shared {
    fn start(shared: &Arc<Self>) -> std::io::Result<()> {
        let own = Arc::clone(shared);
        thread::Builder::new().name("reconnect".to_owned()).spawn(move || own.work()).map(drop)
    }

    fn work(self: Arc<Self>) {
        while let Some(mut job) = self.next() {
            let result = job.requester.set_up();
            // The receiver is gone if the run has ended.
            let _ = job.back.send((job.requester, result));
        }
    }

    /// Waits for the next job. `None` at the end. Starts another thread if there is more work than this one
    /// can do.
    fn next(self: &Arc<Self>) -> Option<Job> {
        let mut queue = self.queue.lock();
        queue.idle += 1;
        while queue.jobs.is_empty() && !queue.closed {
            self.bell.wait(&mut queue);
        }
        queue.idle -= 1;
        if queue.closed {
            return None;
        }
        let job = queue.jobs.pop_front();
        if queue.jobs.len() > queue.idle && queue.threads < THREADS_MAX {
            // If no thread can be started, it takes longer.
            queue.threads += usize::from(Self::start(self).is_ok());
        }
        job
    }
}
