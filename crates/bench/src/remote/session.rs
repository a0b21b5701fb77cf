//! One coordinator's session at an agent: answers probes at once, passes orders on, and sends the work's
//! messages.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use super::RemoteError;
use super::link::Link;
use super::messages::{ToAgent, ToCoordinator, decode, encode};
use super::shifted::ShiftedClock;
use super::work::Work;
use crate::clock::{Clock as _, Waiting};

/// Longest time without a message from a coordinator; it sends a probe every second.
pub(super) const SILENCE_MAX: Duration = Duration::from_secs(15);

/// Longest time before a message of the work is sent.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Messages of the work waiting to be sent: four minutes of reports at one per second.
const WAITING_MAX: usize = 256;

/// Serves a coordinator until it says goodbye, disappears, or the agent ends.
///
/// When this returns, the load has stopped and everything is torn down.
pub(super) fn serve(
    link: &mut Link,
    shift_ns: &Arc<AtomicI64>,
    stop: &AtomicBool,
) -> Result<(), RemoteError> {
    let (said, messages) = mpsc::sync_channel(WAITING_MAX);
    let work = Work::start(Arc::clone(shift_ns), said)?;
    let clock = ShiftedClock::new(Waiting::Sleep, shift_ns);
    let ended = converse(link, &clock, &work, &messages, stop);
    // Otherwise the work would wait for room.
    drop(messages);
    work.end();
    link.close();
    ended
}

fn converse(
    link: &mut Link,
    clock: &ShiftedClock,
    work: &Work,
    messages: &mpsc::Receiver<ToCoordinator>,
    stop: &AtomicBool,
) -> Result<(), RemoteError> {
    let (mut heard, mut told) = (Instant::now(), false);
    loop {
        let ended = work.has_ended();
        while let Ok(message) = messages.try_recv() {
            link.send(&encode(&message)?)?;
        }
        if stop.load(Ordering::Relaxed) {
            let reason = "the agent was told to end".to_owned();
            return link.send(&encode(&ToCoordinator::Failed { reason })?);
        }
        // The coordinator says goodbye when it has read the reason.
        if ended && !std::mem::replace(&mut told, true) {
            let reason = "the agent's work has ended".to_owned();
            link.send(&encode(&ToCoordinator::Failed { reason })?)?;
        }
        let Some(frame) = link.receive(Instant::now() + POLL_INTERVAL)? else {
            if heard.elapsed() > SILENCE_MAX {
                return Err(RemoteError::Silent { seconds: SILENCE_MAX.as_secs() });
            }
            continue;
        };
        let received_ns = clock.now_ns();
        heard = Instant::now();
        match decode(&frame)? {
            ToAgent::Probe { number } => {
                let answered_ns = clock.now_ns();
                link.send(&encode(&ToCoordinator::Probed { number, received_ns, answered_ns })?)?;
            }
            ToAgent::Goodbye => return Ok(()),
            order => work.order(order)?,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::thread;

    use super::super::handshake::FRAME_BYTES_MAX;
    use super::super::link::server_config;
    use super::super::messages::{MESSAGE_BYTES_MAX, Start};
    use super::*;

    /// A session, and the coordinator's end of its connection.
    fn session() -> (Link, thread::JoinHandle<Result<(), RemoteError>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut coordinator =
            Link::client(TcpStream::connect(listener.local_addr().unwrap()).unwrap(), FRAME_BYTES_MAX)
                .unwrap();
        let config = server_config().unwrap();
        let serving = thread::spawn(move || {
            let stream = listener.accept().unwrap().0;
            let mut link = Link::server(stream, &Arc::clone(&config), MESSAGE_BYTES_MAX).unwrap();
            link.shake_hands(Instant::now() + SILENCE_MAX).unwrap();
            serve(&mut link, &Arc::default(), &AtomicBool::new(false))
        });
        coordinator.shake_hands(Instant::now() + SILENCE_MAX).unwrap();
        coordinator.allow(MESSAGE_BYTES_MAX);
        (coordinator, serving)
    }

    fn heard(link: &mut Link) -> ToCoordinator {
        decode(&link.receive(Instant::now() + SILENCE_MAX).unwrap().unwrap()).unwrap()
    }

    #[test]
    fn an_order_out_of_turn_is_refused_and_the_conversation_goes_on() {
        let (mut coordinator, serving) = session();
        let start = Start { begin_ns: 0, begins_ns: Vec::new(), offsets_ns: Vec::new() };
        coordinator.send(&encode(&ToAgent::Start(start)).unwrap()).unwrap();
        let ToCoordinator::Failed { reason } = heard(&mut coordinator) else { panic!("not refused") };
        assert_eq!(reason, "expected an assignment, found none");
        coordinator.send(&encode(&ToAgent::Probe { number: 7 }).unwrap()).unwrap();
        let answered = |said: &ToCoordinator| matches!(said, ToCoordinator::Probed { number: 7, .. });
        while !answered(&heard(&mut coordinator)) {}
        coordinator.send(&encode(&ToAgent::Goodbye).unwrap()).unwrap();
        serving.join().unwrap().unwrap();
    }

    #[test]
    fn what_is_no_message_ends_the_session() {
        for rubbish in [&b"{}"[..], b"\xFF\xFF", br#"{"prepare":{"system":"noop"}}"#] {
            let (mut coordinator, serving) = session();
            coordinator.send(rubbish).unwrap();
            let told = serving.join().unwrap().unwrap_err().to_string();
            assert!(told.starts_with("expected a message of this protocol"), "{told}");
        }
    }

    #[test]
    fn a_coordinator_that_vanishes_is_noticed() {
        let (coordinator, serving) = session();
        drop(coordinator);
        assert_eq!(serving.join().unwrap().unwrap_err().to_string(), "the connection was closed");
    }
}
