//! Kafka, and any server that speaks its protocol, through librdkafka: its producer and consumer, a topic
//! with one partition per connection.
//!
//! librdkafka has queues and threads of its own, so this is the latency of system and client together, as
//! applications experience it. Two threads per connection receive librdkafka's events, timestamp them at
//! once, and wake the generator. By default it sends at once (`linger.ms` 0) and uses `acks` all.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{DeliveryResult, Message as _};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _, ProducerContext};
use rdkafka::{ClientContext, Offset, TopicPartitionList};
use rustix::event::{EventfdFlags, eventfd};

use super::names;
use super::settings::Settings;
use crate::clock::{Clock, MonotonicClock};
use crate::error::RequesterError;
use crate::requester::{Expects, Handed, PayloadBack, Readiness, Requester, Sink, Watched};

/// Timeout of librdkafka's one-time operations.
const SETUP_TIMEOUT: Duration = Duration::from_secs(20);

/// How long a thread waits before it checks whether it should end.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// An event from librdkafka, with its time.
enum Event {
    Delivered(u64, u64),
    Refused(u64, u64, String),
    Received(u64, Vec<u8>),
}

/// Passes events to the generator and wakes it. At most as many events are queued as messages are in flight.
#[derive(Clone)]
struct Reporter {
    events: Sender<Event>,
    bell: Arc<OwnedFd>,
    rung: Arc<AtomicBool>,
}

impl Reporter {
    fn report(&self, event: Event) {
        // Both fail only while the connection is being torn down.
        let _ = self.events.send(event);
        if !self.rung.swap(true, Ordering::SeqCst) {
            let _ = rustix::io::write(&*self.bell, &1_u64.to_ne_bytes());
        }
    }
}

struct Context {
    reporter: Reporter,
}

impl ClientContext for Context {}

impl ProducerContext for Context {
    type DeliveryOpaque = usize;

    fn delivery(&self, result: &DeliveryResult<'_>, sequence: usize) {
        let now = MonotonicClock::default().now_ns();
        self.reporter.report(match result {
            Ok(_) => Event::Delivered(now, sequence as u64),
            Err((error, _)) => Event::Refused(now, sequence as u64, error.to_string()),
        });
    }
}

/// The parts that exist while the connection is set up.
struct Running {
    producer: Arc<BaseProducer<Context>>,
    events: Receiver<Event>,
    reporter: Reporter,
    ending: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

pub(super) struct LibrdKafka {
    address: String,
    topic: String,
    client: Vec<(String, String)>,
    topic_settings: Vec<(String, String)>,
    running: Option<Running>,
    /// Whether the topic was created.
    is_made: bool,
    /// Messages received: all of the partition's from its first on.
    delivered: i64,
}

impl LibrdKafka {
    /// Creates it. The settings `topic.KEY` configure the topic, `client.KEY` librdkafka's producer. Those
    /// for access (`client.security.`, `client.sasl.`, `client.ssl.`) also apply to its consumer and its
    /// admin client.
    pub(super) fn new(address: String, name: &str, settings: &mut Settings) -> Self {
        Self {
            address,
            topic: names::dotted(name),
            client: settings.take_prefixed("client."),
            topic_settings: settings.take_prefixed("topic."),
            running: None,
            is_made: false,
            delivered: 0,
        }
    }

    /// Ends the threads. Messages still in the queue are dropped.
    fn stop(&mut self) -> bool {
        let Some(running) = self.running.take() else { return false };
        running.producer.purge(rdkafka::producer::PurgeConfig::default().queue().inflight());
        running.ending.store(true, Ordering::Relaxed);
        for thread in running.threads {
            let _ = thread.join();
        }
        true
    }

    fn config(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.address).set("socket.nagle.disable", "true");
        // Access settings are the same for producer, consumer and admin client.
        let is_access = |key: &str| ["security.", "sasl.", "ssl."].iter().any(|begin| key.starts_with(begin));
        for (key, value) in self.client.iter().filter(|(key, _)| is_access(key)) {
            config.set(key, value);
        }
        config
    }

    fn producer(&self, reporter: &Reporter) -> Result<BaseProducer<Context>, RequesterError> {
        let mut config = self.config();
        config.set("linger.ms", "0").set("acks", "all").set("queue.buffering.max.messages", "1000000");
        for (key, value) in &self.client {
            config.set(key, value);
        }
        let context = Context { reporter: reporter.clone() };
        config.create_with_context(context).map_err(|error| self.failed("producer", &error))
    }

    fn consumer(&self) -> Result<BaseConsumer, RequesterError> {
        let mut config = self.config();
        config.set("group.id", &self.topic).set("enable.auto.commit", "false").set("fetch.min.bytes", "1");
        config.set("fetch.error.backoff.ms", "10").set("auto.offset.reset", "earliest");
        let consumer: BaseConsumer = config.create().map_err(|error| self.failed("consumer", &error))?;
        let mut partitions = TopicPartitionList::new();
        partitions
            .add_partition_offset(&self.topic, 0, Offset::Offset(self.delivered))
            .and_then(|()| consumer.assign(&partitions))
            .map_err(|error| self.failed("consumer", &error))?;
        Ok(consumer)
    }

    /// Creates or deletes the topic.
    fn administer(&self, create: bool) -> Result<(), RequesterError> {
        let admin: AdminClient<DefaultClientContext> =
            self.config().create().map_err(|error| self.failed("administration", &error))?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| RequesterError::Connect { address: self.address.clone(), error })?;
        let options =
            AdminOptions::new().request_timeout(Some(SETUP_TIMEOUT)).operation_timeout(Some(SETUP_TIMEOUT));
        let mut topic = NewTopic::new(&self.topic, 1, TopicReplication::Fixed(1));
        for (key, value) in &self.topic_settings {
            topic = topic.set(key, value);
        }
        let results = runtime.block_on(async {
            if create {
                admin.create_topics([&topic], &options).await
            } else {
                admin.delete_topics(&[&self.topic], &options).await
            }
        });
        match results.map_err(|error| self.failed("administration", &error))?.into_iter().next() {
            Some(Err((topic, code))) => Err(RequesterError::Unsupported(format!("topic {topic}: {code}"))),
            _ => Ok(()),
        }
    }

    fn failed(&self, what: &str, error: &KafkaError) -> RequesterError {
        RequesterError::Unsupported(format!("{what} at {}: {error}", self.address))
    }
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, RequesterError> {
    let failed = |error| RequesterError::Connect { address: "a thread".to_owned(), error };
    thread::Builder::new().name(name.to_owned()).spawn(body).map_err(failed)
}

fn consume(consumer: &BaseConsumer, reporter: &Reporter, ending: &AtomicBool) {
    while !ending.load(Ordering::Relaxed) {
        // Errors are transient: librdkafka retries by itself, and the generator times out messages that never
        // come.
        if let Some(Ok(message)) = consumer.poll(POLL_INTERVAL) {
            let now = MonotonicClock::default().now_ns();
            reporter.report(Event::Received(now, message.payload().unwrap_or_default().to_vec()));
        }
    }
}

impl Requester for LibrdKafka {
    fn expects(&self) -> Expects {
        Expects { acknowledgement: true, payload: Some(PayloadBack::Receipt) }
    }

    fn set_up(&mut self) -> Result<(), RequesterError> {
        self.stop();
        if !self.is_made {
            self.administer(true)?;
            self.is_made = true;
        }
        let bell = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC).map_err(|error| {
            RequesterError::Connect { address: self.address.clone(), error: error.into() }
        })?;
        let (sender, events) = mpsc::channel();
        let reporter = Reporter { events: sender, bell: Arc::new(bell), rung: Arc::default() };
        let producer = Arc::new(self.producer(&reporter)?);
        let consumer = self.consumer()?;
        let ending = Arc::new(AtomicBool::new(false));
        let (its_producer, its_ending) = (Arc::clone(&producer), Arc::clone(&ending));
        let polling = spawn("kafka-producer", move || {
            while !its_ending.load(Ordering::Relaxed) {
                its_producer.poll(POLL_INTERVAL);
            }
        })?;
        let (its_reporter, its_ending) = (reporter.clone(), Arc::clone(&ending));
        let consuming = spawn("kafka-consumer", move || consume(&consumer, &its_reporter, &its_ending))?;
        self.running =
            Some(Running { producer, events, reporter, ending, threads: vec![polling, consuming] });
        Ok(())
    }

    fn publish(&mut self, sequence: u64, payload: &[u8]) -> Result<Handed, RequesterError> {
        let Some(running) = &self.running else { return Ok(Handed::Full) };
        let record: BaseRecord<'_, (), [u8], usize> =
            BaseRecord::with_opaque_to(&self.topic, sequence as usize).partition(0).payload(payload);
        match running.producer.send(record) {
            Ok(()) => Ok(Handed::Taken),
            Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), _)) => Ok(Handed::Full),
            Err((error, _)) => Err(self.failed("producer", &error)),
        }
    }

    fn flush(&mut self) -> Result<(), RequesterError> {
        Ok(())
    }

    fn receive(&mut self, _clock: &dyn Clock, sink: &mut dyn Sink) -> Result<(), RequesterError> {
        let Some(running) = &self.running else { return Ok(()) };
        // Clears the bell first: events reported from here on ring it again.
        let _ = rustix::io::read(&*running.reporter.bell, &mut [0; 8]);
        running.reporter.rung.store(false, Ordering::SeqCst);
        while let Ok(event) = running.events.try_recv() {
            match event {
                Event::Delivered(at_ns, sequence) => sink.acknowledged(at_ns, sequence),
                Event::Refused(at_ns, sequence, reason) => sink.refused(at_ns, sequence, &reason),
                Event::Received(at_ns, bytes) => {
                    self.delivered += 1;
                    sink.payload(at_ns, &bytes);
                }
            }
        }
        Ok(())
    }

    fn readiness(&self) -> Readiness<'_> {
        match &self.running {
            Some(running) => {
                Readiness::Sockets(Watched { fd: running.reporter.bell.as_fd(), unsent: false }, None)
            }
            None => Readiness::At(u64::MAX),
        }
    }

    fn tear_down(&mut self) -> Result<(), RequesterError> {
        if self.stop() { self.administer(false) } else { Ok(()) }
    }
}
