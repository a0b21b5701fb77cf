//! Ctrl-C and SIGTERM, for verbs that have something to finish first.

use std::process::ExitCode;
use std::time::Duration;

use tailrace_cli::failure::{Failure, Status, plain};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// Time to finish after the first signal, for verbs that need not wait for others.
pub(crate) const FINISH: Duration = Duration::from_secs(3);

/// What ended a verb.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    Interrupt,
    Terminate,
}

impl Stop {
    /// The signal's name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Interrupt => "SIGINT",
            Self::Terminate => "SIGTERM",
        }
    }

    /// The status of a verb that was not done.
    pub(crate) fn status(self) -> Status {
        match self {
            Self::Interrupt => Status::Interrupted,
            Self::Terminate => Status::Terminated,
        }
    }
}

/// Waits for the process to be told to stop. A second signal, or a stop that takes long, ends it at once.
#[derive(Clone, Debug)]
pub(crate) struct Interrupt(watch::Receiver<Option<Stop>>);

impl Interrupt {
    /// Takes SIGINT and SIGTERM over; the verb has `finish` to end after the first of them. The signals are waited for on a thread of
    /// their own, since the verb's may be stuck in a write to a pipe that nobody reads.
    pub(crate) fn install(finish: Duration) -> Result<Self, Failure> {
        let (sender, receiver) = watch::channel(None);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| format!("cannot start: {}", plain(&error)))?;
        let taken = |kind| {
            let _inside = runtime.enter();
            signal(kind).map_err(|error| format!("cannot wait for signals: {}", plain(&error)))
        };
        let (mut interrupt, mut terminate) =
            (taken(SignalKind::interrupt())?, taken(SignalKind::terminate())?);
        let waiting = std::thread::Builder::new().name("interrupt".to_owned()).spawn(move || {
            runtime.block_on(async {
                let mut next = async || {
                    tokio::select! {
                        _ = interrupt.recv() => Stop::Interrupt,
                        _ = terminate.recv() => Stop::Terminate,
                    }
                };
                let first = next().await;
                let _ = sender.send(Some(first));
                let last = tokio::time::timeout(finish, next()).await.unwrap_or(first);
                std::process::exit(i32::from(last.status() as u8));
            });
        });
        waiting.map_err(|error| format!("cannot start: {}", plain(&error)))?;
        Ok(Self(receiver))
    }

    /// Ends with the first signal, and tells which it is.
    pub(crate) async fn wait(&mut self) -> Stop {
        match self.0.wait_for(Option::is_some).await.map(|stop| *stop) {
            Ok(Some(stop)) => stop,
            _ => std::future::pending().await,
        }
    }
}

/// The exit status of a verb that was ended by a signal before it was done, or was done.
pub(crate) fn ended(stop: Option<Stop>) -> ExitCode {
    stop.map_or(ExitCode::SUCCESS, |stop| stop.status().into())
}
