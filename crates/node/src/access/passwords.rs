//! Checks of passwords, which take milliseconds each.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tailrace_env::sync::{Semaphore, oneshot};
use tailrace_env::thread;
use tailrace_identity::scram::ScramVerifier;
use tailrace_identity::{RememberedPasswords, UserName};

/// Most checks at the same time. Each has a thread of its own, so that tasks which wait for the disk do not
/// wait for strangers.
const CHECKS_AT_ONCE: usize = 2;

/// Most checks that wait for those. More are refused: a client would wait longer than its login may take.
const WAITING_MAX: usize = 256;

/// Too many checks wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Busy;

/// The checks of one node, and the passwords that it accepted.
pub(super) struct Passwords {
    remembered: Mutex<RememberedPasswords>,
    places: Arc<Semaphore>,
    waiting: AtomicUsize,
}

impl Passwords {
    /// `random` must be unpredictable.
    pub(super) fn new(random: &[u8; 32]) -> Self {
        Self {
            remembered: Mutex::new(RememberedPasswords::new(random)),
            places: Arc::new(Semaphore::new(CHECKS_AT_ONCE)),
            waiting: AtomicUsize::new(0),
        }
    }

    /// Reports whether this password was accepted before, by the same verifier.
    pub(super) fn remembers(&self, user: &UserName, verifier: &ScramVerifier, password: &str) -> bool {
        self.remembered.lock().is(user, verifier, password)
    }

    /// Returns the verifier that accepts the password. Also computes the hashes of the decoys, so that an
    /// unknown user takes as long as a known one.
    ///
    /// # Errors
    /// Too many checks wait.
    pub(super) async fn check(
        &self,
        user: &UserName,
        verifiers: Vec<ScramVerifier>,
        decoys: Vec<ScramVerifier>,
        password: &str,
    ) -> Result<Option<ScramVerifier>, Busy> {
        let presented = zeroizing(password);
        let check = move || {
            let accepted = verifiers.into_iter().find(|known| known.is_password(&presented));
            decoys.iter().for_each(|decoy| {
                let _ = decoy.is_password(&presented);
            });
            accepted
        };
        let accepted = self.compute(check).await?;
        if let Some(verifier) = &accepted {
            self.remembered.lock().remember(user.clone(), verifier, password);
        }
        Ok(accepted)
    }
}

impl Passwords {
    /// Computes something that takes as long as a check.
    ///
    /// # Errors
    /// Too many checks wait, or no thread could be started.
    pub(super) async fn compute<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Busy> {
        let waiting = Waiting::new(&self.waiting).ok_or(Busy)?;
        // The semaphore is never closed.
        let place = Arc::clone(&self.places).acquire_owned().await;
        drop(waiting);
        let (tell, told) = oneshot::channel();
        let work = move || {
            let result = work();
            // Released here even if the client has gone, because the thread was busy until now.
            drop(place);
            let _ = tell.send(result);
        };
        if let Err(error) = thread::spawn("password", work) {
            tracing::error!(%error, "a password cannot be checked: no thread could be started");
            return Err(Busy);
        }
        told.await.map_err(|_| {
            tracing::error!("a bug in the server: checking a password panicked");
            Busy
        })
    }
}

/// A copy that is erased when it is dropped.
fn zeroizing(password: &str) -> zeroize::Zeroizing<String> {
    zeroize::Zeroizing::new(password.to_owned())
}

/// A check that waits, counted until it is dropped.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn new(count: &'a AtomicUsize) -> Option<Self> {
        let waiting = Self(count);
        (count.fetch_add(1, Ordering::AcqRel) < WAITING_MAX).then_some(waiting)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}
