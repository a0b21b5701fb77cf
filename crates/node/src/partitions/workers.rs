//! Threads that work on items, mostly partitions. Each item is at most once in their queue or with one of
//! them, so the queue is bounded by the number of partitions.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use tailrace_env::panics;
use tailrace_env::thread::{self, Thread, Waiting};

use parking_lot::Mutex;

use crate::sync::{AtomicU8, Ordering};

const IDLE: u8 = 0;
const QUEUED: u8 = 1;
const RUNNING: u8 = 2;
const RUNNING_AND_WANTED: u8 = 3;

/// The state of one item with a pool of workers.
#[derive(Debug, Default)]
pub(crate) struct Claim(AtomicU8);

impl Claim {
    /// True if the caller has to queue the partition. False if it is queued, or will be, late enough to see
    /// the caller's wish.
    fn take(&self) -> bool {
        let next = |state| match state {
            IDLE => Some(QUEUED),
            RUNNING => Some(RUNNING_AND_WANTED),
            _ => None,
        };
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, next) == Ok(IDLE)
    }

    /// Records that a worker took the partition out of the queue. Later wishes need another round.
    fn started(&self) {
        self.0.store(RUNNING, Ordering::Release);
    }

    /// Records that the worker is done. True if the partition has to be queued again.
    fn ended(&self, wanted: bool) -> bool {
        let next = |state| Some(if wanted || state == RUNNING_AND_WANTED { QUEUED } else { IDLE });
        let before = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, next);
        wanted || before == Ok(RUNNING_AND_WANTED)
    }
}

/// What the workers do with an item. Returns true if the item is due again at once.
type Work<T> = dyn Fn(&Arc<T>) -> bool + Send + Sync;

/// What to do with an item whose work panicked, given the message. The thread continues, because other items
/// need it.
type Panicked<T> = fn(&Arc<T>, &str);

/// A bounded pool of threads.
pub(crate) struct Workers<T> {
    shared: Arc<Shared<T>>,
    threads: Mutex<Vec<Thread>>,
}

struct Shared<T> {
    queue: Mutex<Queue<T>>,
    claim: fn(&T) -> &Claim,
    work: Box<Work<T>>,
    panicked: Panicked<T>,
    /// How many items each thread has started and finished: odd while it works.
    progress: Vec<AtomicU64>,
}

struct Queue<T> {
    waiting: VecDeque<Arc<T>>,
    /// Idle threads.
    idle: Waiting,
    stopping: bool,
}

impl<T: Send + Sync + 'static> Workers<T> {
    /// Starts `threads` threads, named after `name` and their number.
    pub(crate) fn start(
        name: &str,
        threads: usize,
        claim: fn(&T) -> &Claim,
        work: impl Fn(&Arc<T>) -> bool + Send + Sync + 'static,
        panicked: Panicked<T>,
    ) -> std::io::Result<Self> {
        let work = Box::new(work);
        let shared = Arc::new(Shared {
            queue: Mutex::new(Queue { waiting: VecDeque::new(), idle: Waiting::default(), stopping: false }),
            claim,
            work,
            panicked,
            progress: (0..threads).map(|_| AtomicU64::new(0)).collect(),
        });
        let mut handles = Vec::with_capacity(threads);
        for number in 0..threads {
            let shared = Arc::clone(&shared);
            handles.push(thread::spawn(format!("{name}-{number}"), move || shared.run(number))?);
        }
        Ok(Self { shared, threads: Mutex::new(handles) })
    }

    /// Has a worker take the partition after this call. Never blocks on a disk.
    pub(crate) fn schedule(&self, partition: &Arc<T>) {
        if (self.shared.claim)(partition).take() {
            self.shared.push(Arc::clone(partition));
        }
    }

    /// Returns how many partitions wait.
    pub(crate) fn queued(&self) -> usize {
        self.shared.queue.lock().waiting.len()
    }

    /// Returns one number per thread, which changes whenever the thread starts or finishes a partition. It is
    /// odd in between.
    pub(crate) fn progress(&self) -> impl ExactSizeIterator<Item = u64> {
        self.shared.progress.iter().map(|progress| progress.load(Ordering::Relaxed))
    }

    /// Drains the queue, then ends the threads. Blocks.
    pub(crate) fn stop(&self) {
        self.shared.queue.lock().stop();
        let threads = std::mem::take(&mut *self.threads.lock());
        for thread in threads {
            let name = thread.name().to_owned();
            if thread.join().is_err() {
                tracing::error!(thread = name, "a worker panicked");
            }
        }
    }
}

impl<T> Drop for Workers<T> {
    /// The threads end when the queue is empty. Dropping does not wait for that.
    fn drop(&mut self) {
        self.shared.queue.lock().stop();
    }
}

impl<T> Queue<T> {
    fn stop(&mut self) {
        self.stopping = true;
        self.idle.wake_all();
    }
}

impl<T> Shared<T> {
    fn push(&self, partition: Arc<T>) {
        let mut queue = self.queue.lock();
        queue.waiting.push_back(partition);
        let idle = queue.idle.take();
        drop(queue);
        if let Some(idle) = idle {
            idle.unpark();
        }
    }

    fn run(&self, number: usize) {
        while let Some(partition) = self.next() {
            self.progress[number].fetch_add(1, Ordering::Relaxed);
            let claim = (self.claim)(&partition);
            claim.started();
            let done = catch_unwind(AssertUnwindSafe(|| (self.work)(&partition)));
            let wanted = done.unwrap_or_else(|panic| {
                (self.panicked)(&partition, panics::reason_of(&*panic));
                false
            });
            self.progress[number].fetch_add(1, Ordering::Relaxed);
            if claim.ended(wanted) {
                self.push(Arc::clone(&partition));
            }
        }
    }

    fn next(&self) -> Option<Arc<T>> {
        let mut queue = self.queue.lock();
        loop {
            if let Some(partition) = queue.waiting.pop_front() {
                return Some(partition);
            }
            if queue.stopping {
                return None;
            }
            let place = queue.idle.add();
            drop(queue);
            place.park(None);
            queue = self.queue.lock();
            queue.idle.remove(&place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    struct Job {
        claim: Claim,
        panics: bool,
        told: mpsc::Sender<String>,
    }

    fn told(job: &Arc<Job>, text: &str) {
        job.told.send(text.to_owned()).unwrap();
    }

    #[test]
    fn a_thread_goes_on_after_work_that_panicked() {
        tailrace_runtime::install();
        let (tell, hears) = mpsc::channel();
        let work = |job: &Arc<Job>| {
            assert!(!job.panics, "an invariant is broken");
            told(job, "done");
            false
        };
        let workers = Workers::start("test", 1, |job: &Job| &job.claim, work, told).unwrap();
        let job = |panics| Arc::new(Job { claim: Claim::default(), panics, told: tell.clone() });
        let (bad, good) = (job(true), job(false));
        for _ in 0..2 {
            workers.schedule(&bad);
            assert_eq!(hears.recv().unwrap(), "an invariant is broken");
            workers.schedule(&good);
            assert_eq!(hears.recv().unwrap(), "done");
        }
        workers.stop();
        assert!(workers.progress().all(|progress| progress == 8), "no thread counts as busy");
    }
}

#[cfg(all(test, shuttle))]
mod models {
    use super::*;
    use crate::sync::{AtomicUsize, explore};
    use shuttle::thread;

    #[derive(Default)]
    struct Model {
        claim: Claim,
        /// How often the partition is in the queue.
        queued: AtomicUsize,
        wished: AtomicUsize,
        /// Wishes that the last round of work had seen.
        seen: AtomicUsize,
    }

    impl Model {
        fn queue(&self) {
            assert_eq!(self.queued.fetch_add(1, Ordering::SeqCst), 0, "it is queued twice");
        }

        fn wish(&self) {
            self.wished.fetch_add(1, Ordering::SeqCst);
            if self.claim.take() {
                self.queue();
            }
        }

        /// One round of a worker, if there is work.
        fn work(&self, is_due_again: bool) {
            if self.queued.load(Ordering::SeqCst) == 0 {
                return thread::yield_now();
            }
            self.queued.fetch_sub(1, Ordering::SeqCst);
            self.claim.started();
            self.seen.store(self.wished.load(Ordering::SeqCst), Ordering::SeqCst);
            if self.claim.ended(is_due_again) {
                self.queue();
            }
        }
    }

    #[test]
    fn a_partition_is_queued_once_and_worked_on_after_each_wish() {
        explore(|| {
            let model = Arc::new(Model::default());
            let wishers = (0..2).map(|_| {
                let model = Arc::clone(&model);
                thread::spawn(move || (0..2).for_each(|_| model.wish()))
            });
            let wishers: Vec<_> = wishers.collect();
            let worker = Arc::clone(&model);
            let worker = thread::spawn(move || (0..4).for_each(|round| worker.work(round == 0)));
            for thread in wishers {
                thread.join().unwrap();
            }
            worker.join().unwrap();
            while model.queued.load(Ordering::SeqCst) > 0 {
                model.work(false);
            }
            assert_eq!(model.seen.load(Ordering::SeqCst), 4);
        });
    }
}
