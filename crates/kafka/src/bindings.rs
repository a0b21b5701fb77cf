//! Rights for the setting `tailrace.subjects`, which bind subjects to a topic.

use tailrace_kafka_wire::ErrorCode;
use tailrace_metadata::Command;
use tailrace_node::Caller;

use crate::commands::{Mode, Refusal};
use crate::context::Context;
use crate::rights::ApiRights;

/// The settings that bind subjects.
const SETTINGS: [&str; 2] = ["tailrace.subjects", "tailrace.subjects.ack"];

/// Parts of the text of an overlap, around the name of the other topic.
const OVERLAPS: &str = " overlaps '";
const OF_TOPIC: &str = "' of topic '";

/// Reports whether a request may change what a topic captures: whether it names one of these settings, or
/// resets those that it does not name.
pub(crate) fn concerns<'a>(mut named: impl Iterator<Item = &'a str>, resets_others: bool) -> bool {
    resets_others || named.any(|key| SETTINGS.contains(&key))
}

/// Refuses a command by which the topic would capture subjects that the client may not read. With acks, the
/// server answers on behalf of the topic, so the client must be allowed to write to them, too.
///
/// # Errors
/// What the command would be refused with, or TOPIC_AUTHORIZATION_FAILED.
pub(crate) async fn check(
    context: &Context,
    caller: &Caller,
    topic: &str,
    command: &Command,
) -> Result<(), Refusal> {
    if context.rights().is_unlimited() {
        return Ok(());
    }
    let before = context.node().image();
    let after = context.command(caller, command.clone(), Mode::ValidateOnly).await;
    let after = after.map_err(|refusal| without_hidden_topic(&context.rights(), refusal))?;
    let rights = context.rights();
    let (before, after) = (before.topic(topic).map(AsRef::as_ref), after.topic(topic).map(AsRef::as_ref));
    if rights.sees_change_of_bindings(before, after) {
        return Ok(());
    }
    let message = "The client may not capture these subjects: it needs READ of each pattern, and WRITE if tailrace.subjects.ack is set.";
    Err(Refusal::new(ErrorCode::TopicAuthorizationFailed, message))
}

/// Takes the name of a topic that the client may not DESCRIBE out of the text of an overlap.
pub(crate) fn without_hidden_topic(rights: &ApiRights<'_>, refusal: Refusal) -> Refusal {
    if rights.is_unlimited() || !refusal.message.contains(OVERLAPS) {
        return refusal;
    }
    if other_topic(&refusal.message).is_some_and(|topic| rights.may_name(topic)) {
        return refusal;
    }
    let message =
        "tailrace.subjects: a pattern overlaps one of another topic; a subject can be captured only once";
    Refusal { message: message.to_owned(), ..refusal }
}

/// Returns the name of the other topic in the text of an overlap. It comes last, and no name has a quote.
fn other_topic(text: &str) -> Option<&str> {
    let (_, rest) = text.rsplit_once(OF_TOPIC)?;
    rest.split_once('\'').map(|(topic, _)| topic)
}

#[cfg(test)]
mod tests {
    use tailrace_metadata::ControlError;
    use tailrace_types::TopicName;

    use super::*;

    #[test]
    fn the_other_topic_is_found_in_the_text_of_an_overlap() {
        let name = |name| TopicName::new(name).unwrap();
        let error = ControlError::SubjectsOverlap {
            topic: name("mine"),
            pattern: "a.*".to_owned(),
            other: name("secret"),
            other_pattern: "a.>".to_owned(),
        };
        let text = error.to_string();
        assert!(text.contains(OVERLAPS), "{text}");
        assert_eq!(other_topic(&text), Some("secret"), "{text}");
        assert_eq!(other_topic("tailrace.subjects: something else"), None);
    }

    #[test]
    fn a_request_concerns_bindings_if_it_names_or_resets_them() {
        assert!(concerns(["retention.ms", "tailrace.subjects"].into_iter(), false));
        assert!(concerns(["tailrace.subjects.ack"].into_iter(), false));
        assert!(!concerns(["retention.ms"].into_iter(), false));
        assert!(concerns([].into_iter(), true));
    }
}
