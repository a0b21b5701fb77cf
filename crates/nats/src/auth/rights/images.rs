//! The subjects of topics behind the subjects of an account that imports them. The rules of the cluster
//! protect topics: an import is not a way around them.

use std::sync::Arc;

use tailrace_identity::nats_accounts::{AccountTable, ShareKind};

use crate::auth::operator::Operator;

/// Most accounts between a client's and the one of the topics.
const DEPTH_MAX: usize = 10;

/// Most subjects of topics behind one subject. With more, everything is refused.
const IMAGES_MAX: usize = 64;

/// Where the accounts are known from.
#[derive(Clone)]
pub(crate) enum Source {
    /// The users file.
    File(Arc<AccountTable>),
    /// The claims that an operator has signed.
    Claims(Arc<Operator>),
}

impl Source {
    pub(crate) fn table(&self) -> Arc<AccountTable> {
        match self {
            Self::File(table) => Arc::clone(table),
            Self::Claims(operator) => operator.table(),
        }
    }
}

/// What an account imports from that of the topics.
#[derive(Clone)]
pub(crate) struct Images {
    source: Source,
    account: Arc<str>,
    topics: Arc<str>,
}

impl Images {
    /// `None` if the account is that of the topics.
    pub(crate) fn of(source: &Source, account: &Arc<str>, topics: &Arc<str>) -> Option<Self> {
        let is_other = account != topics;
        is_other.then(|| Self {
            source: source.clone(),
            account: Arc::clone(account),
            topics: Arc::clone(topics),
        })
    }

    /// Reports whether `allows` is true for every subject of topics where a message on `subject` goes (of a
    /// service), or from where it comes (of a stream).
    pub(in crate::auth) fn all(
        &self,
        kind: ShareKind,
        subject: &[u8],
        allows: impl Fn(&[u8]) -> bool,
    ) -> bool {
        let mut found = Vec::new();
        let table = self.source.table();
        self.collect(&table, kind, &self.account, subject, DEPTH_MAX, &mut found)
            && found.iter().all(|subject| allows(subject))
    }

    /// Returns the subjects of the account whose messages become requests on this subject of the topics.
    pub(in crate::auth) fn origins(&self, subject: &[u8]) -> Vec<Vec<u8>> {
        self.origins_in(&self.source.table(), &self.account, subject, DEPTH_MAX)
    }

    fn origins_in(&self, table: &AccountTable, account: &str, subject: &[u8], depth: usize) -> Vec<Vec<u8>> {
        let mut found = Vec::new();
        for import in table.account(account).map(|account| account.services()).unwrap_or_default() {
            let exporter = import.account().as_str();
            let there = match (exporter == &*self.topics, depth) {
                (true, _) => vec![subject.to_vec()],
                (false, 0) => Vec::new(),
                (false, _) => self.origins_in(table, exporter, subject, depth - 1),
            };
            found.extend(there.iter().filter_map(|subject| import.to_local(subject)));
            found.truncate(IMAGES_MAX);
        }
        found
    }

    /// Reports whether all were found.
    fn collect(
        &self,
        table: &AccountTable,
        kind: ShareKind,
        account: &str,
        subject: &[u8],
        depth: usize,
        found: &mut Vec<Vec<u8>>,
    ) -> bool {
        let Some(account) = table.account(account) else { return true };
        let routes: Vec<_> = match kind {
            ShareKind::Service => account
                .service_routes(subject)
                .map(|route| (route.import.account().clone(), route.subject))
                .collect(),
            ShareKind::Stream => account
                .stream_routes(subject)
                .map(|route| (route.import.account().clone(), route.pattern))
                .collect(),
        };
        routes.into_iter().all(|(account, subject)| {
            if account.as_str() == &*self.topics {
                found.push(subject);
                return found.len() <= IMAGES_MAX;
            }
            depth > 0 && self.collect(table, kind, account.as_str(), &subject, depth - 1, found)
        })
    }
}
