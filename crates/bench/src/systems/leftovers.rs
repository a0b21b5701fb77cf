//! What runs create on a system, and what killed runs left there. It is found by name, see [`super::PREFIX`].

use super::deed::Deed;
use super::settings::Settings;
use super::site::Site;
use super::{
    Target, addresses, check, find, jetstream, kafka_topics, kafka_wire, names, nats_login, nsq_topics,
    rabbitmq_queues, redis,
};
use crate::error::{BenchError, RequesterError};

/// An object on a system that carries our prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOver {
    /// Its kind: a stream, a key, a queue or a topic.
    pub kind: &'static str,
    /// Its name on the system.
    pub name: String,
}

/// What a run with this target creates that would remain if the run were killed: its kind, and the names of
/// the first and the last. `None` if nothing would remain.
pub fn made_by(target: &Target) -> Option<(&'static str, String, String)> {
    let (kind, called): (_, fn(&str) -> String) = match target.system.as_str() {
        "jetstream" => ("stream", names::dashed),
        "redis-streams" | "redis-lists" => ("key", names::dotted),
        "rabbitmq" => ("queue", names::dotted),
        "stomp" => ("queue", names::dashed),
        "nsq" => ("topic", |name| names::ephemeral(&names::dotted(name))),
        system if system.contains("kafka") => ("topic", names::dotted),
        _ => return None,
    };
    let of = |connection: u32| called(&format!("{}.{connection}", target.run));
    Some((kind, of(0), of(target.connections.saturating_sub(1))))
}

/// Reports whether runs can leave anything on a system.
///
/// # Errors
/// There is no such system.
pub(crate) fn leaves_something(system: &str) -> Result<bool, BenchError> {
    let target = Target {
        system: find(system)?.name.to_owned(),
        address: None,
        connections: 1,
        payload_bytes: 0,
        run: 0,
        settings: Settings::default(),
    };
    Ok(made_by(&target).is_some())
}

/// Lists objects that carry our prefix, or removes those of `only` that still exist. With several addresses,
/// only the first is contacted.
///
/// # Errors
/// The system cannot be reached, refuses, or stores nothing.
pub fn left_over(target: &Target, deed: Deed, only: &[LeftOver]) -> Result<Vec<LeftOver>, BenchError> {
    let system = find(&target.system)?;
    // The settings may be those of a run. Those of librdkafka include some that this client does not know.
    if system.name != "kafka-librdkafka" && leaves_something(system.name)? {
        check(target)?;
    }
    let list = target.address.as_deref().or(system.default_address).unwrap_or_default();
    let address = addresses(list).next().unwrap_or_default().to_owned();
    let mut left = target.settings.clone();
    let settings = &mut left;
    let site = Site::new(address, settings)?;
    let chosen = |names: Vec<String>| -> Vec<String> {
        names
            .into_iter()
            .filter(|name| names::is_ours(name))
            .filter(|name| deed == Deed::List || only.iter().any(|known| known.name == *name))
            .collect()
    };
    let (kind, found) = match system.name {
        "jetstream" => ("stream", streams(&site, settings, deed, chosen)?),
        "redis-streams" | "redis-lists" => ("key", redis::left_over(site, settings, deed, chosen)?),
        "rabbitmq" | "stomp" => ("queue", rabbitmq_queues::left_over(&site, settings, deed, chosen)?),
        "nsq" => ("topic", nsq_topics::left_over(&site, settings, deed, chosen)?),
        name if name.contains("kafka") => ("topic", topics(&site, settings, deed, chosen)?),
        name => {
            let reason = format!("runs leave nothing on the system {name}");
            return Err(RequesterError::Unsupported(reason).into());
        }
    };
    Ok(found.into_iter().map(|name| LeftOver { kind, name }).collect())
}

fn streams(
    site: &Site,
    settings: &mut Settings,
    deed: Deed,
    chosen: impl FnOnce(Vec<String>) -> Vec<String>,
) -> Result<Vec<String>, RequesterError> {
    let login = nats_login::Login::take(site, settings)?;
    let mut asking = jetstream::Asking::new(site, &login)?;
    let found = chosen(asking.streams()?);
    if deed == Deed::Remove {
        found.iter().try_for_each(|name| asking.delete(name))?;
    }
    Ok(found)
}

fn topics(
    site: &Site,
    settings: &mut Settings,
    deed: Deed,
    chosen: impl FnOnce(Vec<String>) -> Vec<String>,
) -> Result<Vec<String>, RequesterError> {
    let mut broker = kafka_wire::Broker::connect(site, &kafka_wire::Login::take(settings)?)?;
    let found = chosen(kafka_topics::list(&mut broker)?);
    if deed == Deed::Remove && !found.is_empty() {
        kafka_topics::delete(&mut broker, &found)?;
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(system: &str) -> Target {
        let (system, run, settings) = (system.to_owned(), 7, Settings::default());
        Target { system, address: None, connections: 3, payload_bytes: 24, run, settings }
    }

    #[test]
    fn what_is_made_is_ours() {
        for system in super::super::SYSTEMS {
            let made = made_by(&target(system.name));
            assert_eq!(made.is_some(), leaves_something(system.name).unwrap(), "{}", system.name);
            if let Some((_, first, last)) = made {
                assert!(names::is_ours(&first) && names::is_ours(&last) && first != last, "{first} {last}");
            }
        }
        assert_eq!(
            made_by(&target("jetstream")),
            Some(("stream", "tailrace-bench-7-0".to_owned(), "tailrace-bench-7-2".to_owned()))
        );
        let error = left_over(&target("mqtt"), Deed::List, &[]).unwrap_err().to_string();
        assert_eq!(error, "runs leave nothing on the system mqtt");
    }
}
