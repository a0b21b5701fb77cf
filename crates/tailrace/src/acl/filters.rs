//! The filters for rules that a command line means.

use super::arguments::FilterArguments;
use super::resources::resources;
use super::rule::Filter;
use super::words::{Kind, Operation, Pattern, Permission};

/// Most filters of one run. Each is a request.
const FILTERS_MAX: usize = 1_000;

/// The filters of rules to remove.
///
/// # Errors
/// They name neither a principal nor a resource, or there are too many.
pub(super) fn removals(arguments: &FilterArguments) -> Result<Vec<Filter>, String> {
    let filters = filters(arguments, Pattern::LITERAL)?;
    match filters.iter().all(|filter| filter.principal.is_none() && filter.name.is_none()) {
        true => {
            Err("say which rules: by --user, --topic, --group, --transactional-id, --cluster or --subject"
                .to_owned())
        }
        false => Ok(filters),
    }
}

/// The filters: each principal with each resource and each operation. `pattern` is for names without
/// `--prefixed`.
///
/// # Errors
/// There are too many.
pub(super) fn filters(arguments: &FilterArguments, pattern: Pattern) -> Result<Vec<Filter>, String> {
    let is_prefixed = arguments.resources.prefixed;
    let pattern = if is_prefixed { Pattern::PREFIXED } else { pattern };
    // Without a name: every rule, or every rule with a prefix.
    let pattern_of_all = if is_prefixed { Pattern::PREFIXED } else { Pattern::ANY };
    let principals = or_any(arguments.who.names().collect());
    let resources = or_any(resources(&arguments.resources, pattern));
    let operations = or_any(arguments.operation.clone());
    let count = principals.len().saturating_mul(resources.len()).saturating_mul(operations.len());
    if count > FILTERS_MAX {
        return Err(format!("that is {count} questions for the server; {FILTERS_MAX} are the most at once"));
    }
    let permission = match (arguments.allow, arguments.deny) {
        (true, _) => Permission::ALLOW,
        (_, true) => Permission::DENY,
        _ => Permission::ANY,
    };
    let mut filters = Vec::with_capacity(count);
    for principal in &principals {
        for resource in &resources {
            let of_resource = operations.iter().map(|operation| Filter {
                kind: resource.as_ref().map_or(Kind::ANY, |resource| resource.kind),
                name: resource.as_ref().map(|resource| resource.name.clone()),
                pattern: resource.as_ref().map_or(pattern_of_all, |resource| resource.pattern),
                principal: principal.clone(),
                host: arguments.host.clone(),
                operation: operation.unwrap_or(Operation::ANY),
                permission,
            });
            filters.extend(of_resource);
        }
    }
    Ok(filters)
}

/// Each of the list, or the single `None` of an empty one.
fn or_any<T>(list: Vec<T>) -> Vec<Option<T>> {
    if list.is_empty() { vec![None] } else { list.into_iter().map(Some).collect() }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::acl::arguments::AclVerb;
    use crate::acl::rule::CLUSTER_NAME;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(subcommand)]
        verb: AclVerb,
    }

    fn verb(line: &str) -> AclVerb {
        let words = std::iter::once("acl").chain(line.split(' '));
        Line::try_parse_from(words).unwrap_or_else(|error| panic!("{line}: {error}")).verb
    }

    fn asked(line: &str) -> Result<Vec<Filter>, String> {
        match verb(line) {
            AclVerb::List(arguments) => filters(&arguments.filter, Pattern::MATCH),
            AclVerb::Remove(arguments) => removals(&arguments.filter),
            _ => panic!("{line}: no filter"),
        }
    }

    #[test]
    fn filters_name_what_was_named_and_leave_the_rest_open() {
        let any = Filter {
            kind: Kind::ANY,
            name: None,
            pattern: Pattern::ANY,
            principal: None,
            host: None,
            operation: Operation::ANY,
            permission: Permission::ANY,
        };
        let of =
            |kind, name: &str, pattern| Filter { kind, name: Some(name.to_owned()), pattern, ..any.clone() };
        let alice = |filter: Filter| Filter { principal: Some("User:alice".to_owned()), ..filter };
        let topic = of(Kind::TOPIC, "t", Pattern::MATCH);
        for (line, expected) in [
            ("list", vec![any.clone()]),
            ("list --user alice", vec![alice(any.clone())]),
            ("list --prefixed", vec![Filter { pattern: Pattern::PREFIXED, ..any.clone() }]),
            ("list --topic t", vec![topic.clone()]),
            ("list --topic t --prefixed", vec![of(Kind::TOPIC, "t", Pattern::PREFIXED)]),
            ("list --topic t --deny", vec![Filter { permission: Permission::DENY, ..topic.clone() }]),
            ("list --host *", vec![Filter { host: Some("*".to_owned()), ..any.clone() }]),
            ("list --cluster", vec![of(Kind::CLUSTER, CLUSTER_NAME, Pattern::LITERAL)]),
            (
                "list --user alice --topic t --group g --operation read",
                vec![
                    alice(Filter { operation: Operation::READ, ..topic }),
                    alice(Filter { operation: Operation::READ, ..of(Kind::GROUP, "g", Pattern::MATCH) }),
                ],
            ),
        ] {
            assert_eq!(asked(line).unwrap(), expected, "{line}");
        }
        let remove = asked("remove --topic t --allow").unwrap();
        let literal = of(Kind::TOPIC, "t", Pattern::LITERAL);
        assert_eq!(remove, [Filter { permission: Permission::ALLOW, ..literal }]);
        for line in ["remove", "remove --operation read", "remove --deny --host *"] {
            assert!(asked(line).unwrap_err().starts_with("say which rules"), "{line}");
        }
        assert_eq!(asked("remove --cluster").unwrap().len(), 1);
        assert!(Line::try_parse_from(["acl", "remove", "--user", "a", "--allow", "--deny"]).is_err());
    }

    #[test]
    fn there_are_not_too_many_questions() {
        let many = (0..1001).map(|number| format!(" --user u{number}")).collect::<String>();
        let error = asked(&format!("list{many}")).unwrap_err();
        assert!(error.starts_with("that is 1001 questions"), "{error}");
    }
}
