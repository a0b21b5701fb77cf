//! Requests to create consumers, from their subject and body to the configuration that takes effect.

use super::{AckPolicy, Action, ConsumerConfig, CreateRequest, DeliverPolicy};
use crate::error::{ApiError, ErrorKind};
use crate::json::strict;
use crate::limits::NAME_BYTES_MAX;
use crate::stream::metadata::copy_required_level;
use crate::stream::{Retention, StreamConfig};
use crate::subject::collide;

/// What the subject of a request to create a consumer says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreateForm<'a> {
    /// `CONSUMER.CREATE.S`: old clients, for ephemeral consumers.
    Unnamed {
        /// The stream.
        stream: &'a str,
    },
    /// `CONSUMER.CREATE.S.C` and `CONSUMER.CREATE.S.C.FILTER`.
    Named {
        /// The stream.
        stream: &'a str,
        /// The consumer.
        consumer: &'a str,
        /// The filter, which the configuration has to repeat.
        filter: Option<&'a str>,
    },
    /// `CONSUMER.DURABLE.CREATE.S.C`: old clients, for durable ones.
    Durable {
        /// The stream.
        stream: &'a str,
        /// The consumer.
        consumer: &'a str,
    },
}

impl<'a> CreateForm<'a> {
    /// The stream that the subject names.
    #[must_use]
    pub fn stream(&self) -> &'a str {
        let (Self::Unnamed { stream } | Self::Named { stream, .. } | Self::Durable { stream, .. }) = self;
        stream
    }
}

/// The other consumers of the stream, and who listens.
pub trait OtherConsumers {
    /// The configuration of the consumer of this name.
    fn config(&self, name: &str) -> Option<&ConsumerConfig>;

    /// Calls back for each consumer, until that returns true; returns whether it did.
    fn any(&self, found: &mut dyn FnMut(&str, &ConsumerConfig) -> bool) -> bool;

    /// How many there are, but for those that are direct or for sources.
    fn count(&self) -> usize;

    /// Whether somebody listens at a subject.
    fn has_interest(&self, subject: &str) -> bool;
}

/// The bounds that the server and the account set for consumers.
#[derive(Clone, Copy, Debug, Default)]
pub struct ConsumerLimitsInForce {
    /// There is one server only.
    pub is_single: bool,
    /// The most consumers of a stream in this account.
    pub account_max_consumers: Option<i64>,
    /// The most consumers of a stream that sets no limit, in an account that sets none.
    pub default_max_consumers: Option<i64>,
    /// The server's most messages that wait for acknowledgements.
    pub server_max_ack_pending: Option<i64>,
    /// The account's.
    pub account_max_ack_pending: Option<i64>,
    /// The server's largest batch of a pull request.
    pub max_request_batch: Option<i64>,
}

/// What becomes of a request to create a consumer.
#[derive(Clone, Debug, PartialEq)]
pub enum ConsumerCreation {
    /// It is to be created, under this name.
    New {
        /// Its name.
        name: String,
        /// Its configuration.
        config: Box<ConsumerConfig>,
    },
    /// It is there already and gets this configuration, which may be the one that it has.
    Update {
        /// Its name.
        name: String,
        /// Its configuration.
        config: Box<ConsumerConfig>,
    },
}

impl CreateRequest {
    /// Reads the body of a request.
    ///
    /// # Errors
    /// 10025.
    pub fn parse(body: &[u8]) -> Result<Self, ApiError> {
        let mut request = Self::default();
        strict(body, "server.CreateConsumerRequest", &mut request)?;
        Ok(request)
    }

    /// Checks that subject and body agree, and takes the name from the subject.
    ///
    /// # Errors
    /// The error of the answer.
    pub fn matched(mut self, form: &CreateForm<'_>) -> Result<Self, ApiError> {
        if form.stream() != self.stream {
            return Err(ErrorKind::StreamMismatch.into());
        }
        let consumer = match form {
            CreateForm::Unnamed { .. } => self.config.name.as_str(),
            CreateForm::Named { consumer, .. } | CreateForm::Durable { consumer, .. } => consumer,
        };
        if consumer.contains(['\\', '/']) {
            return Err(ErrorKind::ConsumerNameContainsPathSeparators.into());
        }
        let durable = &self.config.durable_name;
        match form {
            CreateForm::Unnamed { .. } if !durable.is_empty() => {
                return Err(ErrorKind::ConsumerEphemeralWithDurableName.into());
            }
            CreateForm::Durable { .. } if durable.is_empty() => {
                return Err(ErrorKind::ConsumerDurableNameNotSet.into());
            }
            CreateForm::Named { .. } | CreateForm::Durable { .. }
                if !durable.is_empty() && durable != consumer =>
            {
                return Err(ErrorKind::ConsumerDurableNameNotMatchSubject.into());
            }
            _ => self.config.name = consumer.to_owned(),
        }
        if let CreateForm::Named { filter: Some(filter), .. } = form {
            if !self.config.filter_subjects.is_empty() {
                return Err(ErrorKind::ConsumerMultipleFiltersNotAllowed.into());
            }
            if self.config.filter_subject != *filter {
                return Err(ErrorKind::ConsumerCreateFilterSubjectMismatch.into());
            }
        }
        Ok(self)
    }
}

/// Judges a request whose subject and body agree, on a stream with this configuration. `generated` is the
/// name of a consumer that has none: eight letters and digits, which no other has.
///
/// # Errors
/// The error of the answer.
pub fn create(
    request: CreateRequest,
    stream: &StreamConfig,
    others: &dyn OtherConsumers,
    limits: &ConsumerLimitsInForce,
    generated: &str,
) -> Result<ConsumerCreation, ApiError> {
    let CreateRequest { mut config, action, pedantic, .. } = request;
    if limits.is_single && config.num_replicas > 1 {
        return Err(ErrorKind::StreamReplicasNotSupported.into());
    }
    if config.direct && config.sourcing && !config.name.is_empty() {
        config.name_for_source(stream, generated);
    }
    let name = config.wanted_name().to_owned();
    let existing = others.config(&name).filter(|_| !name.is_empty());
    if let Some(existing) = existing {
        config.keep_of(existing);
    }
    config.set_required_level();
    config.fill(&stream.consumer_limits, limits, pedantic)?;
    config.check(stream, limits)?;
    if let Some(existing) = existing {
        config.check_replacing(&name, existing, action, stream, others)?;
        config.fill_inactive_threshold();
        return Ok(ConsumerCreation::Update { name, config: Box::new(config) });
    }
    if action == Action::Update {
        return Err(ErrorKind::ConsumerDoesNotExist.into());
    }
    config.check_room(stream, others, limits)?;
    config.check_work_queue(&name, stream, others)?;
    if config.durable_name.len() > NAME_BYTES_MAX || name.len() > NAME_BYTES_MAX {
        let most = NAME_BYTES_MAX.to_string();
        return Err(ApiError::with(ErrorKind::ConsumerNameTooLong, &[("{max}", &most)]));
    }
    config.fill_inactive_threshold();
    let name = if name.is_empty() { generated.to_owned() } else { name };
    Ok(ConsumerCreation::New { name, config: Box::new(config) })
}

impl ConsumerConfig {
    fn wanted_name(&self) -> &str {
        if self.is_durable() { &self.durable_name } else { &self.name }
    }

    /// The consumers of mirrors and sources ask under a name that stays the same. Where messages go when
    /// they are acknowledged it becomes durable; elsewhere each gets a name of its own.
    fn name_for_source(&mut self, stream: &StreamConfig, generated: &str) {
        if stream.retention == Retention::Limits {
            self.name = format!("{}-{generated}", self.name);
            return;
        }
        self.direct = false;
        self.durable_name = self.name.clone();
        self.ack_policy = AckPolicy::FlowControl;
        (self.ack_wait, self.max_deliver, self.inactive_threshold) = (0, 0, 0);
    }

    /// What a request to create cannot change, whatever it says.
    fn keep_of(&mut self, existing: &Self) {
        self.pause_until = existing.pause_until;
        if self.sourcing && self.is_durable() {
            self.deliver_policy = existing.deliver_policy;
            self.opt_start_seq = existing.opt_start_seq;
            self.opt_start_time = existing.opt_start_time;
        }
    }

    fn check_replacing(
        &mut self,
        name: &str,
        existing: &Self,
        action: Action,
        stream: &StreamConfig,
        others: &dyn OtherConsumers,
    ) -> Result<(), ApiError> {
        if action == Action::Create {
            copy_required_level(&mut self.metadata, &existing.metadata);
            if self != existing {
                return Err(ErrorKind::ConsumerAlreadyExists.into());
            }
        }
        if stream.retention == Retention::WorkQueue && self.shares_messages(name, others) {
            return Err(ErrorKind::ConsumerWqConsumerNotUnique.into());
        }
        self.check_against(existing, |subject| others.has_interest(subject))?;
        self.pause_until = self.pause_until.map(crate::go::Time::in_utc);
        Ok(())
    }

    fn check_room(
        &self,
        stream: &StreamConfig,
        others: &dyn OtherConsumers,
        limits: &ConsumerLimitsInForce,
    ) -> Result<(), ApiError> {
        if self.direct || self.sourcing {
            return Ok(());
        }
        let of_stream = (stream.max_consumers > 0).then_some(stream.max_consumers);
        let of_account = limits.account_max_consumers.filter(|most| *most > 0);
        let most = of_stream.into_iter().chain(of_account).min().or(limits.default_max_consumers);
        let count = i64::try_from(others.count()).unwrap_or(i64::MAX);
        if most.is_some_and(|most| most > 0 && count >= most) {
            return Err(ErrorKind::MaximumConsumersLimit.into());
        }
        Ok(())
    }

    fn check_work_queue(
        &self,
        name: &str,
        stream: &StreamConfig,
        others: &dyn OtherConsumers,
    ) -> Result<(), ApiError> {
        if stream.retention != Retention::WorkQueue || self.direct || self.sourcing {
            return Ok(());
        }
        if !matches!(self.ack_policy, AckPolicy::Explicit | AckPolicy::FlowControl) {
            return Err(ErrorKind::ConsumerWqRequiresExplicitAck.into());
        }
        if self.deliver_policy != DeliverPolicy::All {
            return Err(ErrorKind::ConsumerWqConsumerNotDeliverAll.into());
        }
        if others.count() == 0 {
            return Ok(());
        }
        if self.filters().next().is_none() {
            return Err(ErrorKind::ConsumerWqMultipleUnfiltered.into());
        }
        if self.shares_messages(name, others) {
            return Err(ErrorKind::ConsumerWqConsumerNotUnique.into());
        }
        Ok(())
    }

    /// Reports whether another consumer takes some of the same messages. One without a filter takes all;
    /// but if this one has none, nats-server finds no overlap here.
    fn shares_messages(&self, name: &str, others: &dyn OtherConsumers) -> bool {
        let mut ours = self.filters().peekable();
        if ours.peek().is_none() {
            return false;
        }
        let overlaps = |theirs: &ConsumerConfig| {
            theirs.filters().next().is_none()
                || theirs.filters().any(|theirs| self.filters().any(|ours| collide(ours, theirs)))
        };
        others
            .any(&mut |other, config| other != name && !config.direct && !config.sourcing && overlaps(config))
    }
}
