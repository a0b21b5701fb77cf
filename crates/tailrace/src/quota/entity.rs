//! Whom a quota is for.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use clap::{ArgGroup, Args};
use serde_json::{Value, json};
use tailrace_kafka_wire::messages::describe_client_quotas_request::ComponentData;
use tailrace_kafka_wire::messages::{alter_client_quotas_request, describe_client_quotas_response};

use crate::shown::shown;

/// The types of entities, as Kafka names them (KIP-546).
pub(super) const USER: &str = "user";
const CLIENT_ID: &str = "client-id";
pub(super) const IP: &str = "ip";

/// Match types of a filter: by name, and the default entity.
const EXACT: i8 = 0;
const DEFAULT: i8 = 1;

/// Options that name an entity, or a part of one.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("entity").multiple(true))]
#[command(group = ArgGroup::new("client").multiple(true))]
#[command(group = ArgGroup::new("address").multiple(false).conflicts_with("client"))]
pub(super) struct EntityArguments {
    /// A user; ANONYMOUS for those who do not log in
    #[arg(long, value_name = "NAME", groups = ["entity", "client"], value_parser = name)]
    user: Option<String>,
    /// Each user without a quota of its own
    #[arg(long, groups = ["entity", "client"], conflicts_with = "user")]
    default_user: bool,
    /// A client id, of all users or of that user
    #[arg(long, value_name = "ID", groups = ["entity", "client"], value_parser = name)]
    client_id: Option<String>,
    /// Each client id without a quota of its own
    #[arg(long, groups = ["entity", "client"], conflicts_with = "client_id")]
    default_client_id: bool,
    /// An address, for the rate of its connections
    #[arg(long, value_name = "ADDRESS", groups = ["entity", "address"])]
    ip: Option<IpAddr>,
    /// Each address without a quota of its own
    #[arg(long, groups = ["entity", "address"])]
    default_ip: bool,
}

impl EntityArguments {
    /// The entity. It has no parts if none was named.
    pub(super) fn entity(&self) -> Entity {
        let parts = [
            (USER, self.user.clone(), self.default_user),
            (CLIENT_ID, self.client_id.clone(), self.default_client_id),
            (IP, self.ip.map(|address| address.to_string()), self.default_ip),
        ];
        let named = parts.into_iter().filter(|(_, name, is_default)| name.is_some() || *is_default);
        Entity(named.map(|(kind, name, _)| (kind.to_owned(), name)).collect())
    }
}

/// An empty name would be one that no client has.
fn name(text: &str) -> Result<String, String> {
    if text.is_empty() { Err("it is empty".to_owned()) } else { Ok(text.to_owned()) }
}

/// The name of each part by its type. `None` is the default entity of that type.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Entity(BTreeMap<String, Option<String>>);

impl Entity {
    /// An entity that a server describes.
    pub(super) fn from_answer(parts: Vec<describe_client_quotas_response::EntityData>) -> Self {
        Self(parts.into_iter().map(|part| (part.entity_type, part.entity_name)).collect())
    }

    /// Reports whether it is an address.
    pub(super) fn is_address(&self) -> bool {
        self.0.contains_key(IP)
    }

    pub(super) fn to_request(&self) -> Vec<alter_client_quotas_request::EntityData> {
        let part = |(kind, name): (&String, &Option<String>)| alter_client_quotas_request::EntityData {
            entity_type: kind.clone(),
            entity_name: name.clone(),
            ..Default::default()
        };
        self.0.iter().map(part).collect()
    }

    /// The filter that matches entities with all these parts.
    pub(super) fn to_filter(&self) -> Vec<ComponentData> {
        let part = |(kind, name): (&String, &Option<String>)| ComponentData {
            entity_type: kind.clone(),
            match_type: if name.is_some() { EXACT } else { DEFAULT },
            r#match: name.clone(),
            ..Default::default()
        };
        self.0.iter().map(part).collect()
    }

    /// By type. Null is the default entity.
    pub(super) fn to_json(&self) -> Value {
        json!(self.0)
    }

    fn part(kind: &str, name: Option<&String>) -> String {
        match name {
            Some(name) => format!("{} '{}'", shown(kind), shown(name)),
            None => format!("the default {}", shown(kind)),
        }
    }
}

/// As in `user 'alice', client-id 'app'`. Users come first.
impl fmt::Display for Entity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts: Vec<_> = self.0.iter().collect();
        parts.sort_by_key(|(kind, _)| kind.as_str() != USER);
        let parts: Vec<String> =
            parts.into_iter().map(|(kind, name)| Self::part(kind, name.as_ref())).collect();
        f.write_str(&parts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        entity: EntityArguments,
    }

    fn parse(line: &str) -> Result<Entity, clap::Error> {
        let words = std::iter::once("quota").chain(line.split(' ').filter(|word| !word.is_empty()));
        Line::try_parse_from(words).map(|line| line.entity.entity())
    }

    #[test]
    fn entities_are_named_by_their_parts() {
        for (line, expected, json) in [
            ("", "", json!({})),
            ("--user alice", "user 'alice'", json!({ "user": "alice" })),
            ("--default-user", "the default user", json!({ "user": null })),
            (
                "--client-id app --user a",
                "user 'a', client-id 'app'",
                json!({ "client-id": "app", "user": "a" }),
            ),
            (
                "--default-client-id --user a",
                "user 'a', the default client-id",
                json!({ "client-id": null, "user": "a" }),
            ),
            ("--ip 10.0.0.5", "ip '10.0.0.5'", json!({ "ip": "10.0.0.5" })),
            ("--ip 0:0::1", "ip '::1'", json!({ "ip": "::1" })),
            ("--default-ip", "the default ip", json!({ "ip": null })),
        ] {
            let entity = parse(line).unwrap();
            assert_eq!(entity.to_string(), expected, "{line}");
            assert_eq!(entity.to_json(), json, "{line}");
        }
    }

    #[test]
    fn an_address_stands_for_itself() {
        for line in [
            "--user a --default-user",
            "--client-id a --default-client-id",
            "--ip ::1 --default-ip",
            "--ip ::1 --user a",
            "--default-ip --default-client-id",
            "--ip localhost",
            "--user=",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }

    #[test]
    fn a_filter_has_a_component_for_each_part() {
        let filter = parse("--user alice --default-client-id").unwrap().to_filter();
        let filter: Vec<_> =
            filter.iter().map(|c| (&*c.entity_type, c.match_type, c.r#match.as_deref())).collect();
        assert_eq!(filter, [("client-id", DEFAULT, None), ("user", EXACT, Some("alice"))]);
    }

    #[test]
    fn names_that_a_server_sends_are_shown_harmless() {
        let part = |kind: &str, name: &str| describe_client_quotas_response::EntityData {
            entity_type: kind.to_owned(),
            entity_name: Some(name.to_owned()),
            ..Default::default()
        };
        let entity = Entity::from_answer(vec![part("planet", "a\x1bb")]);
        assert_eq!(entity.to_string(), "planet 'a\\u{1b}b'");
    }
}
