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

#[cfg(test)]
mod tests {
    use tailrace_identity::scram::ScramMechanism;
    use tailrace_metadata::{Command, ScramChange};
    use tailrace_types::TimestampMs;
    use tempfile::TempDir;

    use super::*;
    use crate::caller::Caller;
    use crate::testing::start_in;

    fn verifier(password: &str) -> ScramVerifier {
        ScramVerifier::from_password(ScramMechanism::Sha256, password, b"salt of 16 bytes", 4096).unwrap()
    }

    fn set(password: &str, keep_previous_until: Option<TimestampMs>) -> Command {
        let change = ScramChange::Set { verifier: verifier(password), keep_previous_until };
        let (user, by) = ("alice".to_owned(), "User:admin".to_owned());
        Command::AlterScramCredential { user, change, by, now: TimestampMs(1000) }
    }

    #[tokio::test]
    async fn an_earlier_success_lets_in_nobody_who_may_no_longer_log_in() {
        let folder = TempDir::new().unwrap();
        let running = start_in(&folder, &[]).await;
        let node = running.node();
        let run = async |command| drop(node.execute(Caller::internal(), command).await.unwrap());
        let alice = || UserName::new("alice").unwrap();
        let may = async |password: &str| node.check_password(alice(), password).await.is_ok();
        let is_remembered =
            |password: &str| node.access.passwords.remembers(&alice(), &verifier(password), password);
        run(set("one", None)).await;
        assert!(may("one").await && is_remembered("one") && may("one").await);
        // Another password, without an overlap, and with one that is over.
        run(set("two", None)).await;
        assert!(is_remembered("one") && !may("one").await && may("two").await && is_remembered("two"));
        run(set("three", Some(TimestampMs(2000)))).await;
        assert!(is_remembered("two") && !may("two").await, "the overlap has ended");
        assert!(may("three").await && is_remembered("three"));
        // While it is checked, the password changes.
        run(set("four", None)).await;
        assert!(node.logged_in(alice(), verifier("three")).is_err());
        assert!(may("four").await && is_remembered("four"));
        let disable = |disabled| {
            let (user, by) = ("alice".to_owned(), "User:admin".to_owned());
            Command::DisableUser { user, disabled, by, now: TimestampMs(1000) }
        };
        run(disable(true)).await;
        assert!(is_remembered("four") && !may("four").await, "disabled");
        run(disable(false)).await;
        assert!(may("four").await);
        run(Command::RemoveUser { user: "alice".to_owned() }).await;
        assert!(is_remembered("four") && !may("four").await, "removed");
        running.stop().await;
    }
}
