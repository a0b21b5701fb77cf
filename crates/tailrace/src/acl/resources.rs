//! The resources that a command line names.

use super::arguments::ResourceArguments;
use super::rule::CLUSTER_NAME;
use super::words::{Kind, Pattern};

/// A resource, or all whose names begin like this.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Resource {
    pub(super) kind: Kind,
    pub(super) name: String,
    pub(super) pattern: Pattern,
}

/// Every resource, in the order of kinds and then of the command line. `pattern` is for all but the cluster.
pub(super) fn resources(arguments: &ResourceArguments, pattern: Pattern) -> Vec<Resource> {
    let named = |kind: Kind, names: &[String]| {
        names.iter().map(|name| Resource { kind, name: name.clone(), pattern }).collect::<Vec<_>>()
    };
    let cluster = arguments.cluster.then(|| Resource {
        kind: Kind::CLUSTER,
        name: CLUSTER_NAME.to_owned(),
        pattern: Pattern::LITERAL,
    });
    let topics = named(Kind::TOPIC, &arguments.topic);
    let groups = named(Kind::GROUP, &arguments.group);
    let ids = named(Kind::TRANSACTIONAL_ID, &arguments.transactional_id);
    let tokens = named(Kind::DELEGATION_TOKEN, &arguments.delegation_token);
    let owners = named(Kind::USER, &arguments.token_owner);
    let subjects = named(Kind::SUBJECT, &arguments.subject);
    let kafkas = topics.into_iter().chain(groups).chain(ids).chain(cluster);
    kafkas.chain(tokens).chain(owners).chain(subjects).collect()
}
