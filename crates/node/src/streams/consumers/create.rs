//! Creates and changes consumers.

use std::sync::Arc;

use tailrace_config::BrokerConfig;
use tailrace_jetstream::api::Request;
use tailrace_jetstream::consumer::{Bounds, Names};
use tailrace_jetstream::consumer_config::{
    ConsumerConfig, ConsumerCreation, ConsumerLimitsInForce, CreateRequest, OtherConsumers, create as judge,
};
use tailrace_jetstream::error::{ApiError, ErrorKind};
use tailrace_jetstream::stream::StreamConfig;

use super::super::failure::StreamFailure;
use super::beside::State;
use super::events::random_word;
use super::member::{Member, Origin, Turn};
use super::push::Pushes;
use super::rules;
use super::types::{ConsumerFacts, CreateConsumer};

/// Bytes of all configurations of a stream's consumers: each node that leads the stream loads them.
const CONFIGS_BYTES_MAX: usize = 64 << 20;

/// What the settings allow.
pub(super) struct Bound {
    consumers_max: u32,
    /// What a configuration may ask for.
    ack_pending_max: u32,
    of_each: Bounds,
}

impl Bound {
    pub(super) fn of(config: &BrokerConfig) -> Self {
        Self {
            consumers_max: config.tailrace_jetstream_stream_consumers_max,
            ack_pending_max: config.tailrace_jetstream_consumer_ack_pending_max,
            of_each: rules::bounds(config),
        }
    }
}

/// The consumers that are there.
struct Others<'a>(&'a State, &'a Pushes);

impl OtherConsumers for Others<'_> {
    fn config(&self, name: &str) -> Option<&ConsumerConfig> {
        self.0.members.get(name).map(|member| &member.config)
    }

    fn any(&self, found: &mut dyn FnMut(&str, &ConsumerConfig) -> bool) -> bool {
        self.0.members.iter().any(|(name, member)| found(name, &member.config))
    }

    fn count(&self) -> usize {
        self.0.members.len()
    }

    fn has_interest(&self, subject: &str) -> bool {
        self.1.has_interest(subject, None)
    }
}

/// Creates a consumer, or changes it.
pub(super) fn create(
    state: &mut State,
    turn: Turn<'_>,
    asked: &CreateConsumer,
    bound: &Bound,
) -> Result<ConsumerFacts, StreamFailure> {
    let failure = |error: ApiError| StreamFailure::of(&error);
    let stream = StreamConfig::from_stored(&asked.stream).map_err(failure)?;
    let name = match judged(state, turn.boxes.pushes, asked, &stream, bound).map_err(failure)? {
        ConsumerCreation::New { name, config } => {
            let names = Names { stream: stream.name.as_str().into(), consumer: name.as_str().into() };
            let origin = Origin { names, config: *config, bounds: bound.of_each };
            let mut member = Member::create(origin, turn)?;
            // As before the first delivery: some clients count down from there.
            let facts = member.facts(turn);
            state.add(turn, member);
            return Ok(facts);
        }
        ConsumerCreation::Update { name, config } => {
            let updated = state.with(turn, &name, |member, _| {
                let was_durable = member.is_durable();
                member.update(*config, turn)?;
                // What is kept of it must not come back.
                let ends = was_durable && !member.is_durable() && member.may_be_kept();
                Ok(ends.then(|| Arc::clone(&member.name)))
            });
            if let Some(name) = updated.transpose()?.flatten() {
                state.unsaved.deleted(&name);
            }
            name
        }
    };
    let facts = state.with(turn, &name, |member, _| member.facts(turn));
    facts.ok_or_else(|| failure(ErrorKind::ConsumerNotFound.into()))
}

fn judged(
    state: &State,
    pushes: &Pushes,
    asked: &CreateConsumer,
    stream: &StreamConfig,
    bound: &Bound,
) -> Result<ConsumerCreation, ApiError> {
    let Some(Request::ConsumerCreate(form)) = Request::parse(&asked.subject, None) else {
        return Err(ErrorKind::BadRequest.into());
    };
    let request = CreateRequest::parse(asked.body.as_bytes())?.matched(&form)?;
    let limits = ConsumerLimitsInForce {
        is_single: asked.is_single,
        default_max_consumers: Some(bound.consumers_max.into()),
        server_max_ack_pending: Some(bound.ack_pending_max.into()),
        ..ConsumerLimitsInForce::default()
    };
    let creation = judge(request, stream, &Others(state, pushes), &limits, &generated(state))?;
    let (ConsumerCreation::New { config, .. } | ConsumerCreation::Update { config, .. }) = &creation;
    if config.is_push() && !pushes.are_possible() {
        return Err(ApiError::because(ErrorKind::ConsumerCreate, "push consumers are not supported yet"));
    }
    // A stream may ask for more than the node has room for.
    let is_full = state.members.len() >= usize::try_from(bound.consumers_max).unwrap_or(usize::MAX);
    if is_full && matches!(creation, ConsumerCreation::New { .. }) {
        return Err(ErrorKind::MaximumConsumersLimit.into());
    }
    let present: usize = state.members.values().map(Member::config_bytes).sum();
    if present + config.to_stored().len() > CONFIGS_BYTES_MAX {
        return Err(ErrorKind::MaximumConsumersLimit.into());
    }
    Ok(creation)
}

/// A name of eight letters and digits that no consumer has.
fn generated(state: &State) -> String {
    loop {
        let name = random_word(8);
        if !state.members.contains_key(&*name) {
            return name;
        }
    }
}
