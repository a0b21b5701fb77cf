//! A single-threaded world whose time passes only while all tasks wait. The same program runs the same way
//! each time.

#![allow(clippy::unwrap_used, reason = "a test")]

mod network;

use std::any::Any;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use network::Network;
use tailrace_env::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tailrace_env::net::{self, Listen, Opening, Socket};
use tailrace_env::time::{self, Duration, Instant, MissedTicks};
use tailrace_env::workers::{Panicked, Workers};
use tailrace_env::{Join, Park, Running, Spawn, Task, Timer, Work, World, enter, random, select, sync, task};

/// How long bytes are in flight.
const LATENCY: Duration = Duration::from_millis(30);

#[derive(Default)]
struct State {
    age: Duration,
    drawn: u8,
    next_id: u64,
    tasks: BTreeMap<u64, Task>,
    ready: VecDeque<u64>,
    timers: BTreeMap<(Duration, u64), Waker>,
}

#[derive(Clone, Copy)]
struct SmallWorld(&'static Mutex<State>, &'static Arc<Network>);

impl SmallWorld {
    fn new() -> Self {
        Self(Box::leak(Box::default()), Box::leak(Box::new(Network::new(LATENCY))))
    }

    fn id(self) -> u64 {
        let mut state = self.0.lock().unwrap();
        state.next_id += 1;
        state.next_id
    }

    /// Runs `main` and all tasks that it starts, until no task waits any more.
    fn run<T: Send + 'static>(self, main: impl Future<Output = T> + Send + 'static) -> T {
        let _inside = enter(Box::leak(Box::new(self)));
        let outcome = task::spawn(main);
        loop {
            let next = {
                let mut state = self.0.lock().unwrap();
                let id = state.ready.pop_front();
                id.and_then(|id| Some((id, state.tasks.remove(&id)?)))
            };
            if let Some((id, mut task)) = next {
                let waker = Waker::from(Arc::new(TaskWaker { id, world: self }));
                if task.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
                    self.0.lock().unwrap().tasks.insert(id, task);
                }
                continue;
            }
            let mut state = self.0.lock().unwrap();
            if !state.ready.is_empty() {
                continue;
            }
            let Some(((age, _), waker)) = state.timers.pop_first() else { break };
            state.age = state.age.max(age);
            drop(state);
            waker.wake();
        }
        let mut outcome = std::pin::pin!(outcome);
        match outcome.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(outcome) => outcome.unwrap(),
            Poll::Pending => panic!("it waits for something that never comes"),
        }
    }
}

struct TaskWaker {
    id: u64,
    world: SmallWorld,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.world.0.lock().unwrap().ready.push_back(self.id);
    }
}

struct SmallTimer {
    id: u64,
    age: Duration,
    world: SmallWorld,
}

impl Future for SmallTimer {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.world.0.lock().unwrap();
        if state.age >= self.age {
            return Poll::Ready(());
        }
        state.timers.insert((self.age, self.id), cx.waker().clone());
        Poll::Pending
    }
}

impl Timer for SmallTimer {
    fn reset(mut self: Pin<&mut Self>, age: Duration) {
        self.world.0.lock().unwrap().timers.remove(&(self.age, self.id));
        self.age = age;
    }
}

impl Drop for SmallTimer {
    fn drop(&mut self) {
        self.world.0.lock().unwrap().timers.remove(&(self.age, self.id));
    }
}

struct SmallTask {
    id: u64,
    world: SmallWorld,
}

impl Running for SmallTask {
    fn abort(&self) {
        let task = self.world.0.lock().unwrap().tasks.remove(&self.id);
        drop(task);
    }

    fn is_finished(&self) -> bool {
        !self.world.0.lock().unwrap().tasks.contains_key(&self.id)
    }
}

impl Spawn for SmallWorld {
    fn spawn(&self, task: Task) -> Box<dyn Running> {
        let id = self.id();
        let mut state = self.0.lock().unwrap();
        state.tasks.insert(id, task);
        state.ready.push_back(id);
        Box::new(SmallTask { id, world: *self })
    }

    fn spawn_blocking(&self, work: Work) {
        drop(Spawn::spawn(self, Box::pin(async { work() })));
    }
}

struct Ended;

impl Join for Ended {
    fn is_finished(&self) -> bool {
        true
    }

    fn join(self: Box<Self>) -> Result<(), Box<dyn Any + Send>> {
        Ok(())
    }
}

impl World for SmallWorld {
    fn age(&self) -> Duration {
        self.0.lock().unwrap().age
    }

    fn since_1970(&self) -> Duration {
        self.age()
    }

    fn timer(&self, age: Duration) -> Pin<Box<dyn Timer>> {
        Box::pin(SmallTimer { id: self.id(), age, world: *self })
    }

    fn yield_now(&self) -> Task {
        let yielded = AtomicBool::new(false);
        Box::pin(std::future::poll_fn(move |cx| {
            if yielded.swap(true, Ordering::Relaxed) {
                return Poll::Ready(());
            }
            cx.waker().wake_by_ref();
            Poll::Pending
        }))
    }

    fn spawn(&self, task: Task) -> Box<dyn Running> {
        Spawn::spawn(self, task)
    }

    fn spawn_blocking(&self, work: Work) {
        Spawn::spawn_blocking(self, work);
    }

    fn spawner(&self) -> Option<Arc<dyn Spawn>> {
        Some(Arc::new(*self))
    }

    fn start_loops(&self, _: &str, _: usize, _: usize) -> io::Result<Arc<dyn Spawn>> {
        Ok(Arc::new(*self))
    }

    fn processors(&self) -> usize {
        1
    }

    fn listen<'a>(&'a self, address: &'a str) -> Opening<'a, Box<dyn Listen>> {
        Box::pin(self.1.listen(address))
    }

    fn connect<'a>(&'a self, address: &'a str) -> Opening<'a, Arc<dyn Socket>> {
        Box::pin(self.1.connect(address))
    }

    fn fill_random(&self, bytes: &mut [u8]) {
        let mut state = self.0.lock().unwrap();
        state.drawn += 1;
        bytes.fill(state.drawn);
    }

    fn spawn_thread(&self, _: String, work: Work) -> io::Result<Box<dyn Join>> {
        work();
        Ok(Box::new(Ended))
    }

    fn parking(&self) -> Arc<dyn Park> {
        unreachable!("it has no threads")
    }

    fn on_threads(&self, _: usize, work: &(dyn Fn() + Sync)) {
        work();
    }
}

#[test]
fn time_passes_only_when_everybody_waits() {
    let began = std::time::Instant::now();
    let took = SmallWorld::new().run(async {
        let before = Instant::now();
        time::sleep(Duration::from_secs(3600)).await;
        before.elapsed()
    });
    assert_eq!(took, Duration::from_secs(3600));
    assert!(began.elapsed() < Duration::from_secs(60), "it waited for the real clock");
}

/// Runs a few tasks and returns what they did, in order.
fn play() -> Vec<String> {
    SmallWorld::new().run(async {
        let (tell, mut told) = sync::mpsc::unbounded_channel();
        let mut tasks = task::JoinSet::new();
        for name in ["a", "b"] {
            let tell = tell.clone();
            tasks.spawn(async move {
                for number in 0..3 {
                    let at = Instant::now();
                    time::sleep(Duration::from_millis(10)).await;
                    let _ = tell.send(format!("{name}{number} after {:?}", at.elapsed()));
                }
                random::u64()
            });
        }
        drop(tell);
        let mut said = Vec::new();
        let mut ticks = time::interval(Duration::from_millis(15));
        ticks.set_missed(MissedTicks::Delay);
        loop {
            select! {
                word = told.recv() => match word {
                    Some(word) => said.push(word),
                    None => break,
                },
                () = ticks.tick() => said.push(format!("tick at {}", time::wall_clock().0)),
            }
        }
        while let Some(ended) = tasks.join_next().await {
            said.push(format!("drew {:x}", ended.unwrap()));
        }
        said
    })
}

#[test]
fn the_same_program_runs_the_same_way() {
    let said = play();
    assert_eq!(said.len(), 6 + 3 + 2, "{said:?}");
    assert_eq!(said, play());
}

#[test]
fn who_is_too_slow_is_dropped_and_who_panics_is_named() {
    let outcome = SmallWorld::new().run(async {
        // The sleep passes in simulated time.
        let slow = task::spawn(time::sleep(Duration::from_secs(9)));
        let late = time::timeout(Duration::from_secs(1), slow).await.is_err();
        let kept = time::timeout(Duration::from_secs(1), async { 7 }).await;
        let panicked = task::spawn(async { panic!("as it should") }).await.unwrap_err().is_panic();
        let aborted = task::spawn(std::future::pending::<()>());
        aborted.abort();
        let dropped = !aborted.await.unwrap_err().is_panic();
        let blocking = task::spawn_blocking(|| 8).await.unwrap();
        (late, kept, panicked, dropped, blocking)
    });
    assert_eq!(outcome, (true, Ok(7), true, true, 8));
}

#[test]
fn work_that_panics_gives_its_place_back() {
    let outcome = SmallWorld::new().run(async {
        let workers = Workers::start().unwrap();
        let panicked = workers.work::<()>(|| panic!("as it should")).await;
        (panicked, workers.work(|| 8).await)
    });
    assert_eq!(outcome, (Err(Panicked), Ok(8)));
}

#[test]
fn a_task_that_is_polled_by_hand_comes_again_after_the_others() {
    let said = SmallWorld::new().run(async {
        let (tell, mut told) = sync::mpsc::unbounded_channel();
        for name in ["a", "b"] {
            let tell = tell.clone();
            let (mut next_turn, mut left) = (task::NextTurn::default(), 3);
            drop(task::spawn(std::future::poll_fn(move |cx| {
                tell.send(name).unwrap();
                left -= 1;
                if left == 0 {
                    return Poll::Ready(());
                }
                next_turn.ask(cx);
                Poll::Pending
            })));
        }
        drop(tell);
        let mut said = String::new();
        while let Some(name) = told.recv().await {
            said.push_str(name);
        }
        said
    });
    assert_eq!(said, "ababab");
}

/// Sends a word to the other end and back, then more than the network holds at once. Returns what happened,
/// with the times.
fn talk() -> Vec<(Duration, String)> {
    const MANY: usize = 200_000;
    SmallWorld::new().run(async {
        let (tell, mut told) = sync::mpsc::unbounded_channel();
        let say = move |what: &str| tell.send((Instant::now(), what.to_owned())).unwrap();
        let listener = net::listen("echo", "10.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let taken = net::listen("another", &address).await.unwrap_err();
        assert_eq!(taken.to_string(), format!("cannot listen on {address} (another): address in use"));
        let hear = say.clone();
        let echo = task::spawn(async move {
            let (mut stream, peer) = listener.accept().await.unwrap();
            hear(&format!("{} is there", peer.ip()));
            let mut bytes = [0; 1000];
            loop {
                match stream.read(&mut bytes).await.unwrap() {
                    0 => break hear("it has ended"),
                    count => stream.write_all(&bytes[..count]).await.unwrap(),
                }
            }
            stream.write_all(b"bye").await.unwrap();
        });
        let (mut reader, mut writer) = net::connect(&address).await.unwrap().into_split();
        say("connected");
        writer.write_all(b"hello").await.unwrap();
        let mut word = [0; 5];
        reader.read_exact(&mut word).await.unwrap();
        say(std::str::from_utf8(&word).unwrap());
        let writing = task::spawn(async move {
            writer.write_all(&[7; MANY]).await.unwrap();
            // Dropping the half ends this direction.
        });
        let mut rest = Vec::new();
        reader.read_to_end(&mut rest).await.unwrap();
        assert_eq!(rest.len(), MANY + 3);
        assert!(rest.ends_with(b"\x07bye"));
        say("all came back");
        writing.await.unwrap();
        echo.await.unwrap();
        assert_eq!(net::connect(&address).await.unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
        drop(say);
        let mut all = Vec::new();
        while let Some((at, what)) = told.recv().await {
            all.push((at.elapsed(), what));
        }
        let end = all[0].0;
        all.into_iter().map(|(ago, what)| (end - ago, what)).collect()
    })
}

#[test]
fn two_tasks_talk_over_a_network_of_their_world() {
    let said = talk();
    let began = [(0, "connected"), (0, "10.0.0.1 is there"), (2, "hello")];
    for ((at, what), (latencies, expected)) in said.iter().zip(began) {
        assert_eq!((*at, what.as_str()), (LATENCY * latencies, expected), "{said:?}");
    }
    assert_eq!(said[3].1, "it has ended");
    assert_eq!(said[4].1, "all came back");
    assert_eq!(said[4].0, said[3].0 + LATENCY);
    assert_eq!(said, talk());
}
