//! A connection with subscriptions that is restored when it breaks.

use std::time::Duration;

use tailrace_cli::failure::note;

use super::{ConnectArguments, Connection, Incoming, NatsError};

/// Wait before the first attempt to reconnect.
const WAIT_FIRST: Duration = Duration::from_millis(50);
/// Longest wait between attempts.
const WAIT_MAX: Duration = Duration::from_secs(2);

#[derive(Debug)]
struct Subscription {
    subject: String,
    queue: Option<String>,
    /// Messages until it ends; counted down as they arrive.
    left: Option<u64>,
}

/// A session; see the module. Messages between two connections are lost: NATS's core promises at-most-once
/// delivery.
#[derive(Debug)]
pub(crate) struct Session {
    arguments: ConnectArguments,
    connection: Connection,
    /// A subscription's sid is its number, from 1.
    subscriptions: Vec<Subscription>,
    /// The wait before the next attempt, while disconnected.
    broken: Option<Duration>,
}

impl Session {
    /// Connects. Failure of this first attempt is final.
    pub(crate) async fn open(arguments: &ConnectArguments) -> Result<Self, NatsError> {
        let connection = arguments.open().await?;
        Ok(Self { arguments: arguments.clone(), connection, subscriptions: Vec::new(), broken: None })
    }

    /// The current connection.
    pub(crate) fn connection(&mut self) -> &mut Connection {
        &mut self.connection
    }

    /// Subscribes, without a limit or until `max` messages have arrived.
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

    /// Ends all subscriptions and sends a PING. Messages that the server has already sent still arrive before
    /// the PONG.
    pub(crate) fn drain(&mut self) {
        for number in 1..=self.subscriptions.len() {
            self.connection.unsubscribe(number as u64, None);
        }
        self.connection.ping();
    }

    /// Returns what has arrived, if anything.
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

    /// Waits for what arrives next, and reconnects as often as needed. Cancellation-safe.
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
                    note(&format!("{error}; reconnecting"));
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
                    note(&format!("reconnected to {}", connection.address()));
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
