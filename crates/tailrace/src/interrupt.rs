//! Ctrl-C and SIGTERM, for verbs that must finish something before they exit.

use std::process::ExitCode;
use std::time::Duration;

use tailrace_cli::failure::{Failure, Status, plain};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// Time to finish after the first signal, for verbs that wait for no one else.
pub(crate) const FINISH: Duration = Duration::from_secs(3);

/// The signal that stopped a verb.
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

    /// The exit status of a verb that was interrupted.
    pub(crate) fn status(self) -> Status {
        match self {
            Self::Interrupt => Status::Interrupted,
            Self::Terminate => Status::Terminated,
        }
    }
}

/// Waits for SIGINT or SIGTERM. A second signal, or a stop that takes too long, ends the process at once.
#[derive(Clone, Debug)]
pub(crate) struct Interrupt(watch::Receiver<Option<Stop>>);

impl Interrupt {
    /// Takes over SIGINT and SIGTERM. The verb has `finish` to end after the first signal. A thread of its
    /// own waits for the signals, since the verb's thread may be stuck in a write to a pipe that nobody
    /// reads.
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

    /// Waits for the first signal, and returns it.
    pub(crate) async fn wait(&mut self) -> Stop {
        match self.0.wait_for(Option::is_some).await.map(|stop| *stop) {
            Ok(Some(stop)) => stop,
            _ => std::future::pending().await,
        }
    }
}

/// The exit status of a verb: that of the signal that interrupted it, or success.
pub(crate) fn ended(stop: Option<Stop>) -> ExitCode {
    stop.map_or(ExitCode::SUCCESS, |stop| stop.status().into())
}
