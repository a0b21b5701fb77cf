//! Creates the adapter of each system from its settings.

use super::brokerless::Brokerless;
#[cfg(feature = "kafka")]
use super::librdkafka;
use super::settings::Settings;
use super::site::Site;
use super::turning::Turning;
use super::{
    Role, System, Target, addresses, http, jetstream, kafka, mqtt, nats, nng, noop, nsq, postgres, rabbitmq,
    redis, stomp, tcp_echo, zeromq,
};
use crate::error::RequesterError;
use crate::requester::Requester;

/// Connects to the next of the addresses in turn, if there are several.
pub(super) fn connect_in_turn(
    system: &System,
    list: &str,
    connection: u32,
    name: &str,
    role: Role,
    target: &Target,
) -> Result<Box<dyn Requester>, RequesterError> {
    let all: Vec<String> = addresses(list).map(str::to_owned).collect();
    // Kafka's clients handle such lists themselves.
    if all.len() < 2 || system.name.contains("kafka") {
        return connect(system.name, list.to_owned(), name, role, target);
    }
    let at = connection as usize % all.len();
    let mut requester = connect(system.name, all[at].clone(), name, role, target)?;
    if !requester.turn_to(&all[at]) {
        let reason = format!("several addresses ({list}) cannot be combined with the system {}", system.name);
        return Err(RequesterError::Unsupported(reason));
    }
    Ok(Box::new(Turning::new(requester, all, at)))
}

fn connect(
    system: &str,
    address: String,
    name: &str,
    role: Role,
    target: &Target,
) -> Result<Box<dyn Requester>, RequesterError> {
    let mut left = target.settings.clone();
    let settings = &mut left;
    let site = |settings: &mut Settings| Site::new(address.clone(), settings);
    let requester: Box<dyn Requester> = match system {
        "tcp-echo" => Box::new(tcp_echo::TcpEcho::new(address, target.payload_bytes)),
        "http" => Box::new(http::Http::new(site(settings)?, settings)?),
        "nats" | "tailrace-nats" => Box::new(nats::Nats::new(site(settings)?, name, role, settings)?),
        "jetstream" => Box::new(jetstream::JetStream::new(site(settings)?, name, role, settings)?),
        "redis" | "redis-streams" | "redis-lists" => {
            let way = redis::Way::of(system);
            Box::new(redis::Redis::new(site(settings)?, name, role, way, settings)?)
        }
        "rabbitmq" => Box::new(rabbitmq::RabbitMq::new(site(settings)?, name, role, settings)?),
        "mqtt" => Box::new(mqtt::Mqtt::new(site(settings)?, name, role, settings)?),
        "stomp" => Box::new(stomp::Stomp::new(site(settings)?, name, role, settings)?),
        "nng" => Box::new(Brokerless::<nng::ScalabilityProtocols>::new(
            target.address.as_deref(),
            target.connections,
            settings,
        )?),
        "zeromq" => Box::new(Brokerless::<zeromq::Zmtp>::new(
            target.address.as_deref(),
            target.connections,
            settings,
        )?),
        "nsq" => Box::new(nsq::Nsq::new(site(settings)?, name, role, settings)?),
        "postgres" => {
            let site = site(settings)?;
            Box::new(postgres::Postgres::new(site, name, role, target.payload_bytes, settings)?)
        }
        "kafka" | "tailrace-kafka" => Box::new(kafka::Kafka::new(&address, name, role, settings)?),
        #[cfg(feature = "kafka")]
        "kafka-librdkafka" => Box::new(librdkafka::LibrdKafka::new(address, name, settings)),
        #[cfg(not(feature = "kafka"))]
        "kafka-librdkafka" => {
            let reason =
                "this build has no librdkafka, the cargo feature bench-kafka; --system kafka needs none";
            return Err(RequesterError::Unsupported(reason.to_owned()));
        }
        _ => Box::new(noop::Noop::default()),
    };
    left.finish(system)?;
    Ok(requester)
}
