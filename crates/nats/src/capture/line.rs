//! Acknowledgements of one connection, one batch after the other.

use std::sync::{Arc, Mutex, PoisonError};

use tailrace_env::sync::oneshot;

/// Where batches stand whose acknowledgements are being published. That takes several turns if very many get them; who
/// came first is done first.
#[derive(Clone, Debug, Default)]
pub(super) struct Line(Arc<Mutex<Option<oneshot::Receiver<()>>>>);

/// A place in the line. The next one is free when this is dropped.
#[derive(Debug)]
pub(super) struct LinePlace {
    before: Option<oneshot::Receiver<()>>,
    _next: oneshot::Sender<()>,
}

impl Line {
    /// Takes the last place.
    pub(super) fn join(&self) -> LinePlace {
        let (next, last) = oneshot::channel();
        // Nothing under this lock can panic half-way.
        let before = self.0.lock().unwrap_or_else(PoisonError::into_inner).replace(last);
        LinePlace { before, _next: next }
    }
}

impl LinePlace {
    /// Waits until all who came before are done.
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
    use std::task::{Context, Waker};

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
}
