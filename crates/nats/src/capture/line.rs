//! The acknowledgements of one connection, batch by batch.

use std::sync::Arc;

use parking_lot::Mutex;
use tailrace_env::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

/// Most bytes of reply subjects, with their indexes, whose acknowledgements one connection has not published
/// yet. Its next message with a reply subject is not acknowledged until there is room. This is enough for the
/// 4,000 messages that nats.go has in flight, with subjects of 40 bytes. It is also small enough that the
/// number of connections with slow acknowledgements does not matter.
const UNTOLD_BYTES_MAX: u32 = 256 * 1024;

/// A queue of batches whose acknowledgements are being published. Publishing takes several turns if very many
/// subscribers get them. Batches are handled first come, first served.
#[derive(Clone, Debug)]
pub(super) struct Line {
    last: Arc<Mutex<Option<oneshot::Receiver<()>>>>,
    /// Permits for [`UNTOLD_BYTES_MAX`] bytes.
    room: Arc<Semaphore>,
}

impl Default for Line {
    fn default() -> Self {
        Self { last: Arc::default(), room: Arc::new(Semaphore::new(UNTOLD_BYTES_MAX as usize)) }
    }
}

/// A place in the line. Dropping it makes the next one first.
#[derive(Debug)]
pub(super) struct LinePlace {
    before: Option<oneshot::Receiver<()>>,
    _next: oneshot::Sender<()>,
}

impl Line {
    /// Waits until there is room for this many bytes of replies. The room is taken until the permit is
    /// dropped.
    pub(super) async fn room(&self, bytes: usize) -> OwnedSemaphorePermit {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX).min(UNTOLD_BYTES_MAX);
        Arc::clone(&self.room).acquire_many_owned(bytes).await.expect("the semaphore is never closed")
    }

    /// Takes the last place.
    pub(super) fn join(&self) -> LinePlace {
        let (next, last) = oneshot::channel();
        // The code under this lock cannot panic half-way.
        let before = self.last.lock().replace(last);
        LinePlace { before, _next: next }
    }
}

impl LinePlace {
    /// Waits until all earlier places are done.
    pub(super) async fn first(&mut self) {
        if let Some(before) = &mut self.before {
            // It ends when its sender is dropped.
            let _ = before.await;
            self.before = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn is_first(place: &mut LinePlace) -> bool {
        pin!(place.first()).poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn who_came_first_is_done_first() {
        let line = Line::default();
        let (mut one, mut two, mut three) = (line.join(), line.join(), line.join());
        assert!(is_first(&mut one) && !is_first(&mut two) && !is_first(&mut three));
        drop(one);
        assert!(is_first(&mut two) && is_first(&mut two) && !is_first(&mut three));
        drop(two);
        assert!(is_first(&mut three));
        drop(three);
        assert!(is_first(&mut line.join()), "nobody is left");
    }

    #[test]
    fn who_has_too_many_to_be_told_waits_for_its_own_line() {
        let (line, other) = (Line::default(), Line::default());
        let room = |line: &Line, bytes| {
            let mut room = pin!(line.room(bytes));
            match room.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(room) => Some(room),
                Poll::Pending => None,
            }
        };
        // A batch that needs more than the limit takes all of it.
        let all = room(&line, usize::MAX).unwrap();
        assert!(room(&line, 1).is_none() && room(&other, 1).is_some());
        drop(all);
        assert!(room(&line, 1).is_some());
    }
}
