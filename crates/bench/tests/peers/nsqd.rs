//! A simulated nsqd, as far as the load generator needs one: topics with one subscriber each, heartbeats that
//! must be answered, and a bound on unfinished messages.

use std::collections::{HashMap, HashSet, VecDeque};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// Unfinished messages that it allows, fewer than the client asks for.
const UNFINISHED_MAX: usize = 50;

/// Published messages between two heartbeats.
const HEARTBEAT_EVERY: usize = 20;

#[derive(Default)]
struct Topic {
    subscriber: Option<TcpStream>,
    waiting: VecDeque<Vec<u8>>,
    unfinished: HashSet<Vec<u8>>,
    delivered: u64,
    is_ready: bool,
}

/// Counts of what it has seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) finished: u64,
    pub(crate) heartbeats: u64,
    pub(crate) heartbeats_answered: u64,
}

#[derive(Default)]
struct State {
    topics: HashMap<String, Topic>,
    seen: Seen,
}

pub(crate) struct Nsqd {
    pub(crate) address: String,
    state: Arc<Mutex<State>>,
}

impl Nsqd {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let state = Arc::new(Mutex::new(State::default()));
        let its_state = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let state = Arc::clone(&its_state);
                // A client that disconnects is the normal end.
                std::thread::spawn(move || serve(stream.unwrap(), &state));
            }
        });
        Self { address, state }
    }

    pub(crate) fn seen(&self) -> Seen {
        self.state.lock().unwrap().seen
    }
}

fn frame(kind: u32, body: &[u8]) -> Vec<u8> {
    let mut frame = (body.len() as u32 + 4).to_be_bytes().to_vec();
    frame.extend_from_slice(&kind.to_be_bytes());
    frame.extend_from_slice(body);
    frame
}

fn body(reader: &mut impl Read) -> std::io::Result<Vec<u8>> {
    let mut length = [0; 4];
    reader.read_exact(&mut length)?;
    let mut body = vec![0; u32::from_be_bytes(length) as usize];
    reader.read_exact(&mut body)?;
    Ok(body)
}

impl Topic {
    /// Sends the messages that the subscriber may have.
    fn deliver(&mut self) -> std::io::Result<()> {
        let Some(subscriber) = self.subscriber.as_mut().filter(|_| self.is_ready) else { return Ok(()) };
        while self.unfinished.len() < UNFINISHED_MAX {
            let Some(body) = self.waiting.pop_front() else { break };
            self.delivered += 1;
            let id = format!("{:016x}", self.delivered).into_bytes();
            let mut message = vec![0; 8];
            message.extend_from_slice(&1_u16.to_be_bytes());
            message.extend_from_slice(&id);
            message.extend_from_slice(&body);
            self.unfinished.insert(id);
            subscriber.write_all(&frame(2, &message))?;
        }
        Ok(())
    }
}

fn serve(mut stream: TcpStream, state: &Mutex<State>) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut magic = [0; 4];
    reader.read_exact(&mut magic)?;
    assert_eq!(&magic, b"  V2");
    let (mut subscribed, mut published, mut line) = (String::new(), 0, String::new());
    loop {
        line.clear();
        if reader.read_line(&mut line)? == 0 {
            return Ok(());
        }
        let words: Vec<_> = line.trim_end().split(' ').collect();
        match words[..] {
            ["IDENTIFY"] => {
                let identity = String::from_utf8(body(&mut reader)?).unwrap();
                assert!(identity.contains("\"feature_negotiation\":true"), "{identity}");
                let features = format!("{{\"max_rdy_count\":{UNFINISHED_MAX},\"auth_required\":false}}");
                stream.write_all(&frame(0, features.as_bytes()))?;
            }
            ["SUB", topic, "tailrace-bench#ephemeral"] => {
                subscribed = topic.to_owned();
                let new = Topic { subscriber: Some(stream.try_clone()?), ..Topic::default() };
                state.lock().unwrap().topics.insert(subscribed.clone(), new);
                stream.write_all(&frame(0, b"OK"))?;
            }
            ["RDY", count] => {
                assert_eq!(count.parse(), Ok(UNFINISHED_MAX));
                let mut state = state.lock().unwrap();
                let topic = state.topics.get_mut(&subscribed).unwrap();
                topic.is_ready = true;
                topic.deliver()?;
            }
            ["PUB", name] => {
                let body = body(&mut reader)?;
                let mut state = state.lock().unwrap();
                stream.write_all(&frame(0, b"OK"))?;
                published += 1;
                if published % HEARTBEAT_EVERY == 0 {
                    stream.write_all(&frame(0, b"_heartbeat_"))?;
                    state.seen.heartbeats += 1;
                }
                let topic = state.topics.get_mut(name).unwrap();
                topic.waiting.push_back(body);
                topic.deliver()?;
            }
            ["FIN", id] => {
                let mut state = state.lock().unwrap();
                state.seen.finished += 1;
                let topic = state.topics.get_mut(&subscribed).unwrap();
                assert!(topic.unfinished.remove(id.as_bytes()), "{id} is not unfinished");
                topic.deliver()?;
            }
            ["NOP"] => state.lock().unwrap().seen.heartbeats_answered += 1,
            _ => panic!("{line:?} is no command"),
        }
    }
}
