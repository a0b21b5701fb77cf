//! What a server refuses of a list of rules. Equal refusals share a line.

use std::collections::BTreeMap;

use tailrace_cli::failure::complain;
use tailrace_cli::text::units::plural;

use crate::client::ClientError;

/// Refused rules, counted by code and message.
#[derive(Debug, Default)]
pub(super) struct Refusals(BTreeMap<(i16, Option<String>), u64>);

impl Refusals {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Counts a result, and reports whether it is a success.
    pub(super) fn accept(&mut self, code: i16, message: Option<&String>) -> bool {
        if code != 0 {
            *self.0.entry((code, message.cloned())).or_default() += 1;
        }
        code == 0
    }

    /// The error of a request that may succeed a little later.
    pub(super) fn retriable(&self, verb: &str) -> Option<ClientError> {
        self.errors(verb).find(ClientError::is_retriable)
    }

    /// Prints a line for each refusal. `verb` is what was refused.
    pub(super) fn complain(&self, verb: &str) {
        self.errors(verb).for_each(|error| complain(&error.to_string()));
    }

    fn errors(&self, verb: &str) -> impl Iterator<Item = ClientError> {
        self.0.iter().map(move |((code, message), count)| {
            ClientError::refused(format!("cannot {verb} {}", plural(*count, "rule")), *code, message.clone())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_refusals_are_counted_together() {
        let mut refusals = Refusals::default();
        let off = Some("off".to_owned());
        let results = [(0, None), (54, off.as_ref()), (42, None), (54, off.as_ref())]
            .map(|(c, m)| refusals.accept(c, m));
        assert_eq!(results, [true, false, false, false]);
        let lines: Vec<String> = refusals.errors("add").map(|error| error.to_string()).collect();
        assert_eq!(lines.len(), 2);
        assert!(
            lines[0].starts_with("cannot add 1 rule: ") && lines[0].ends_with("(INVALID_REQUEST)"),
            "{lines:?}"
        );
        assert_eq!(lines[1], "cannot add 2 rules: off (SECURITY_DISABLED)");
        assert!(refusals.retriable("add").is_none());
        refusals.accept(41, None);
        assert!(refusals.retriable("add").is_some());
    }
}
