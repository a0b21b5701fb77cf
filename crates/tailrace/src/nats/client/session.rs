//! A connection with subscriptions that is made anew when it breaks.

use std::time::Duration;

use super::{ConnectArguments, Connection, Incoming, NatsError};
use crate::failure::{complain, plain};

/// First wait before connecting again.
const WAIT_FIRST: Duration = Duration::from_millis(50);
/// Longest wait.
const WAIT_MAX: Duration = Duration::from_secs(2);

#[derive(Debug)]
struct Subscription {
    subject: String,
    queue: Option<String>,
    /// Messages after which it ends; counted down as they arrive.
    left: Option<u64>,
}

/// See the module. What is lost between two connections is lost: NATS's core promises at most once.
#[derive(Debug)]
pub(crate) struct Session {
    arguments: ConnectArguments,
    connection: Connection,
    /// Their number, from 1 on, is the sid.
    subscriptions: Vec<Subscription>,
    /// The wait before the next try, while there is no connection.
    broken: Option<Duration>,
}

impl Session {
    /// Connects; this first time failure is final.
    pub(crate) async fn open(arguments: &ConnectArguments) -> Result<Self, NatsError> {
        let connection = arguments.open().await?;
        Ok(Self { arguments: arguments.clone(), connection, subscriptions: Vec::new(), broken: None })
    }

    /// The connection of the moment.
    pub(crate) fn connection(&mut self) -> &mut Connection {
        &mut self.connection
    }

    /// Subscribes, for good or until `max` messages came.
    pub(crate) fn subscribe(&mut self, subject: &str, queue: Option<&str>, max: Option<u64>) {
        self.subscriptions.push(Subscription {
            subject: subject.to_owned(),
            queue: queue.map(str::to_owned),
            left: max,
        });
        self.send_subscription(self.subscriptions.len());
    }

    fn send_subscription(&mut self, number: usize) {
        let Subscription { subject, queue, left } = &self.subscriptions[number - 1];
        if *left == Some(0) {
            return;
        }
        self.connection.subscribe(subject.as_bytes(), queue.as_deref().map(str::as_bytes), number as u64);
        if left.is_some() {
            self.connection.unsubscribe(number as u64, *left);
        }
    }

    /// Ends all subscriptions. What the server had sent before still comes, and then the PONG.
    pub(crate) fn drain(&mut self) {
        for number in 1..=self.subscriptions.len() {
            self.connection.unsubscribe(number as u64, None);
        }
        self.connection.ping();
    }

    /// What has arrived, if there is something.
    pub(crate) fn take(&mut self) -> Result<Option<Incoming>, NatsError> {
        if self.broken.is_some() {
            return Ok(None);
        }
        let incoming = self.connection.take()?;
        if let Some(Incoming::Message(message)) = &incoming {
            let number = usize::try_from(message.sid).unwrap_or(0);
            if let Some(subscription) = self.subscriptions.get_mut(number.wrapping_sub(1)) {
                subscription.left = subscription.left.map(|left| left.saturating_sub(1));
            }
        }
        Ok(incoming)
    }

    /// Waits for what arrives next, over as many connections as it takes. Nothing is lost if the wait is given up.
    pub(crate) async fn next(&mut self) -> Result<Incoming, NatsError> {
        loop {
            if self.broken.is_some() {
                self.connect_again().await?;
            }
            if let Some(incoming) = self.take()? {
                return Ok(incoming);
            }
            match self.connection.drive().await {
                Ok(()) => {}
                Err(error) if self.arguments.reconnects() && error.is_retriable() => {
                    complain(&format!("{error}; connecting again"));
                    self.broken = Some(WAIT_FIRST);
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn connect_again(&mut self) -> Result<(), NatsError> {
        while let Some(wait) = self.broken {
            match self.arguments.open().await {
                Ok(connection) => {
                    complain(&format!("connected again, to {}", connection.address()));
                    self.connection = connection;
                    self.broken = None;
                }
                Err(error) if error.is_retriable() => {
                    tokio::time::sleep(wait).await;
                    self.broken = Some((wait * 2).min(WAIT_MAX));
                }
                Err(error) => return Err(error),
            }
        }
        (1..=self.subscriptions.len()).for_each(|number| self.send_subscription(number));
        Ok(())
    }
}

/// Waits for the process to be told to stop. A second signal, or a stop that takes long, ends it at once.
#[derive(Debug)]
pub(crate) struct Interrupt(tokio::sync::watch::Receiver<bool>);

/// Time to finish after the first signal, unless it is given by a caller who is stuck in a write.
const FINISH: Duration = Duration::from_secs(3);

impl Interrupt {
    /// Takes SIGINT and SIGTERM over. The signals are waited for on a thread of their own, since the verb's may be stuck in
    /// a write to a pipe that nobody reads.
    pub(crate) fn install() -> Result<Self, crate::failure::Failure> {
        let (sender, receiver) = tokio::sync::watch::channel(false);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| format!("cannot start: {}", plain(&error)))?;
        let mut terminate = {
            let _inside = runtime.enter();
            tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())
                .map_err(|error| format!("cannot wait for signals: {}", plain(&error)))?
        };
        let waiting = std::thread::Builder::new().name("interrupt".to_owned()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    _ = tokio::signal::ctrl_c() => {}
                    _ = terminate.recv() => {}
                }
                let _ = sender.send(true);
                let _ = tokio::time::timeout(FINISH, tokio::signal::ctrl_c()).await;
                std::process::exit(130);
            });
        });
        waiting.map_err(|error| format!("cannot start: {}", plain(&error)))?;
        Ok(Self(receiver))
    }

    /// Ends with the first signal.
    pub(crate) async fn wait(&mut self) {
        if self.0.wait_for(|stop| *stop).await.is_err() {
            std::future::pending().await
        }
    }
}
