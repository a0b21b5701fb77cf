//! ListTransactions (66): lists all transactional ids, or those that match the filters.

use std::sync::Arc;

use regex::{Regex, RegexBuilder};
use tailrace_coordination::transactions::{
    TransactionEvent, TransactionFilter, TransactionListing, TransactionReply, TransactionState,
};
use tailrace_identity::acl::Operation;
use tailrace_kafka_wire::messages::list_transactions_request::ListTransactionsRequest;
use tailrace_kafka_wire::messages::list_transactions_response::{
    ListTransactionsResponse, TransactionState as Listed,
};
use tailrace_kafka_wire::{ErrorCode, Reader};
use tailrace_types::ProducerId;

use crate::closed::Closed;
use crate::context::{Context, Decided, answer_later, decode};
use crate::errors::coordinator_code;
use crate::transactions::unexpected;

/// Memory of a compiled pattern, in bytes. It bounds the time of compiling. The time of matching depends only
/// on the length of the text.
const PATTERN_BYTES_MAX: usize = 128 << 10;

pub(crate) async fn decide(context: Context, reader: Reader) -> Result<Decided, Closed> {
    let request: ListTransactionsRequest = decode(&context, reader)?;
    let context = Arc::new(context);
    let Ok(pattern) = pattern(request.transactional_id_pattern.as_deref()) else {
        return Ok(Decided::Reply(context.reply(refused(ErrorCode::InvalidRegularExpression))?));
    };
    let (filter, unknown_state_filters) = filter(request);
    Ok(answer_later(Arc::clone(&context), async move {
        let (node, rights) = (context.node(), context.rights());
        let event = move |token| TransactionEvent::List { token, filter: filter.clone() };
        let mut transaction_states = Vec::new();
        for reply in node.transactions().submit_all(node, context.caller(), event).await {
            match reply {
                Ok(TransactionReply::Listed(all)) => {
                    let matches = |one: &TransactionListing| {
                        let id = &one.transactional_id;
                        pattern.as_ref().is_none_or(|p| p.is_match(id))
                            && rights.sees_transactional_id(Operation::Describe, id)
                    };
                    transaction_states.extend(all.into_iter().filter(matches).map(listed));
                }
                Ok(reply) => return refused(unexpected(&reply).code),
                Err(failure) => return refused(coordinator_code(&failure)),
            }
        }
        ListTransactionsResponse { unknown_state_filters, transaction_states, ..Default::default() }
    }))
}

fn refused(code: ErrorCode) -> ListTransactionsResponse {
    ListTransactionsResponse { error_code: code.code(), ..Default::default() }
}

fn listed(one: TransactionListing) -> Listed {
    Listed {
        transactional_id: one.transactional_id,
        producer_id: one.producer_id.get(),
        transaction_state: one.state.name().to_owned(),
        ..Default::default()
    }
}

/// Returns the filter, and the names in it that are not states. If all names are unknown, nothing matches.
fn filter(request: ListTransactionsRequest) -> (TransactionFilter, Vec<String>) {
    let filters_states = !request.state_filters.is_empty();
    let (known, unknown): (Vec<_>, Vec<_>) =
        request.state_filters.into_iter().partition(|name| TransactionState::named(name).is_some());
    let states = known.iter().filter_map(|name| TransactionState::named(name)).collect();
    let producers: std::collections::BTreeSet<_> =
        request.producer_id_filters.into_iter().map(ProducerId).collect();
    let filter = TransactionFilter {
        states: filters_states.then_some(states),
        producers: (!producers.is_empty()).then_some(producers),
        longer_than_ms: (request.duration_filter >= 0).then_some(request.duration_filter),
    };
    (filter, unknown)
}

/// Compiles a pattern, which has to match the whole id (KIP-1152). An empty pattern counts as none.
fn pattern(pattern: Option<&str>) -> Result<Option<Regex>, regex::Error> {
    let Some(pattern) = pattern.filter(|pattern| !pattern.is_empty()) else { return Ok(None) };
    // Compiled alone first, because the added text must not make "a)(b" legal.
    let compile = |text: &str| RegexBuilder::new(text).size_limit(PATTERN_BYTES_MAX).build();
    compile(pattern)?;
    compile(&format!("^(?:{pattern})$")).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_whole_ids() {
        let whole = pattern(Some("orders-.*|x")).unwrap().unwrap();
        assert!(whole.is_match("orders-1") && whole.is_match("x"));
        assert!(!whole.is_match("my-orders-1") && !whole.is_match("xy"));
        assert!(pattern(None).unwrap().is_none() && pattern(Some("")).unwrap().is_none());
        assert!(pattern(Some("a)(b")).is_err() && pattern(Some("(")).is_err());
        assert!(pattern(Some("(a{1000}){1000}")).is_err(), "a pattern that would take much memory");
    }

    #[test]
    fn unknown_states_are_told_and_let_nothing_through() {
        let request = ListTransactionsRequest {
            state_filters: vec!["Ongoing".to_owned(), "Busy".to_owned()],
            duration_filter: -1,
            ..Default::default()
        };
        let (filter, unknown) = filter(request);
        assert_eq!(unknown, ["Busy"]);
        assert_eq!(filter.states, Some([TransactionState::Ongoing].into()));
        assert_eq!((filter.producers, filter.longer_than_ms), (None, None));
    }
}
