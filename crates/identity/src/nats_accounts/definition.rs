//! What is known about one account, from the users file or from a claim.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::limits::AccountLimits;
use super::name::AccountName;
use super::pattern;
use super::subject_mapping::SubjectMapping;
use crate::rules::Rules;

/// Whether messages go from the exporting account to the importing one, or requests the other way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ShareKind {
    /// Messages of the exporting account are heard in the importing one.
    Stream,
    /// Requests of the importing account are answered in the exporting one.
    Service,
}

/// Who may import an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExportAccess {
    /// All accounts.
    Public,
    /// These accounts.
    Accounts(BTreeSet<AccountName>),
    /// Those with an activation token.
    Token,
    /// All accounts, but only subjects that have their name at this word, counted from 1.
    TokenPosition(usize),
}

/// How a service answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Response {
    /// With one message.
    #[default]
    Singleton,
    /// With any number of messages.
    Stream,
    /// With one answer in several messages.
    Chunked,
}

/// An export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// Its kind.
    pub kind: ShareKind,
    /// The pattern.
    pub subject: Arc<str>,
    /// Who may import it.
    pub access: ExportAccess,
    /// How the service answers.
    pub response: Response,
    /// How long the service has for its answer, in milliseconds. `None` for nats-server's default.
    pub response_threshold_ms: Option<u64>,
    /// Activation tokens that are no longer valid: those for an account that were issued at or before a
    /// time, in seconds since 1970. `*` is about all accounts.
    pub revocations: BTreeMap<Arc<str>, i64>,
}

/// An import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Import {
    /// Its kind.
    pub kind: ShareKind,
    /// The exporting account.
    pub account: AccountName,
    /// From the subjects where messages come from to those where they go: of a stream, from the exporting
    /// account's to this account's. Of a service, from this account's to the exporting account's.
    pub mapping: SubjectMapping,
    /// Whether the service hears who asks.
    pub share: bool,
    /// The activation token, a JWT.
    pub token: Option<Arc<str>>,
}

impl Import {
    /// Makes the mapping of a stream whose local subjects have a prefix.
    pub(crate) fn prefixed(subject: &str, prefix: &str) -> Result<SubjectMapping, String> {
        let prefix = prefix.strip_suffix('.').unwrap_or(prefix);
        if !pattern::is_valid(prefix) || pattern::has_wildcards(prefix) {
            return Err(format!("the prefix {prefix:?} must be a subject without wildcards"));
        }
        let local = format!("{prefix}.{subject}");
        SubjectMapping::new(subject, &local).map_err(|error| error.to_string())
    }

    /// Returns the pattern in the exporting account.
    pub fn exported(&self) -> &[u8] {
        match self.kind {
            ShareKind::Stream => self.mapping.source(),
            ShareKind::Service => self.mapping.destination(),
        }
    }

    /// Returns the pattern in the importing account.
    pub fn local(&self) -> &[u8] {
        match self.kind {
            ShareKind::Stream => self.mapping.destination(),
            ShareKind::Service => self.mapping.source(),
        }
    }
}

/// In which accounts an external service may place users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CalloutAccounts {
    /// In any.
    Any,
    /// In these, and in its own.
    Listed(BTreeSet<AccountName>),
}

/// Who is asked about users instead of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CalloutSettings {
    /// The account in which the service is asked.
    pub account: AccountName,
    /// The public key of the account that signs the answers. With an operator it is the account itself, and
    /// its signing keys may sign as well.
    pub issuer: Arc<str>,
    /// Users for whom the service is not asked: names or public keys. The service itself is one.
    pub auth_users: BTreeSet<Arc<str>>,
    /// The service's public curve key (`X...`). If there is one, requests are sealed.
    pub xkey: Option<Arc<str>>,
    /// In which accounts it may place users. Without an operator: in any that exists.
    pub allowed_accounts: CalloutAccounts,
}

impl CalloutSettings {
    /// Maximum number of users for whom the service is not asked, and of listed accounts.
    pub(super) const LIST_MAX: usize = 1_024;
}

/// An account, before it is checked against the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountDefinition {
    /// The name, or the public key.
    pub name: AccountName,
    /// What it shares.
    pub exports: Vec<Export>,
    /// What it takes.
    pub imports: Vec<Import>,
    /// Its limits.
    pub limits: AccountLimits,
    /// Rules of users without rules of their own.
    pub default_permissions: Option<Rules>,
    /// Keys that sign activation tokens for it, beside its own.
    pub signing_keys: BTreeSet<Arc<str>>,
    /// When its claim expires, in seconds since 1970. `None` for never.
    pub expires_at_s: Option<i64>,
    /// The callout of this account's users, with an operator.
    pub callout: Option<CalloutSettings>,
}

impl AccountDefinition {
    /// Makes an account that shares nothing and has no limits.
    pub fn new(name: AccountName) -> Self {
        Self {
            name,
            exports: Vec::new(),
            imports: Vec::new(),
            limits: AccountLimits::default(),
            default_permissions: None,
            signing_keys: BTreeSet::new(),
            expires_at_s: None,
            callout: None,
        }
    }
}

/// Maximum number of exports of an account.
const EXPORTS_MAX: usize = 1_024;

/// Maximum number of imports of an account.
const IMPORTS_MAX: usize = 1_024;

impl AccountDefinition {
    /// Returns what is wrong with the account itself, whatever the others are.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        self.check_counts(&mut faults);
        if !faults.is_empty() {
            return faults;
        }
        for (at, export) in self.exports.iter().enumerate() {
            if let Err(reason) = self.check_export(export) {
                faults.push(format!("export of {:?}: {reason}", export.subject));
                continue;
            }
            let earlier = self.exports.iter().take(at).filter(|other| other.kind == export.kind);
            for other in earlier.filter(|other| overlap(&other.subject, &export.subject)) {
                let (a, b) = (&export.subject, &other.subject);
                if a == b {
                    faults.push(format!("export of {a:?}: it is exported twice"));
                } else if other.access != export.access {
                    faults.push(format!(
                        "export of {a:?}: it overlaps the export of {b:?}, which others may import"
                    ));
                }
            }
        }
        for (at, import) in self.imports.iter().enumerate() {
            if let Err(reason) = self.check_import(import) {
                faults.push(format!("{}: {reason}", import.described()));
            }
            if self.imports.iter().take(at).any(|other| other.is_same_as(import)) {
                faults.push(format!("{}: it is imported twice", import.described()));
            }
        }
        faults
    }

    fn check_counts(&self, faults: &mut Vec<String>) {
        let mut check = |what: &str, found: usize, limit: Option<u64>, max: usize| {
            if found > max {
                faults.push(format!("it has {found} {what}, but at most {max} are possible"));
            }
            if let Some(limit) = limit.filter(|limit| found as u64 > *limit) {
                faults.push(format!("it has {found} {what}, but its limit is {limit}"));
            }
        };
        check("exports", self.exports.len(), self.limits.exports, EXPORTS_MAX);
        check("imports", self.imports.len(), self.limits.imports, IMPORTS_MAX);
    }

    fn check_export(&self, export: &Export) -> Result<(), String> {
        let subject = &*export.subject;
        if !pattern::is_valid(subject) {
            return Err("it is not a valid subject".to_owned());
        }
        // As in nats-server, the limit is about exports only if their number is limited.
        let forbids_wildcards = !self.limits.wildcard_exports && self.limits.exports.is_some();
        if forbids_wildcards && pattern::has_wildcards(subject) {
            return Err("the account's limits do not allow wildcards".to_owned());
        }
        if export.kind == ShareKind::Stream
            && (export.response != Response::Singleton || export.response_threshold_ms.is_some())
        {
            return Err("only services answer".to_owned());
        }
        match &export.access {
            ExportAccess::TokenPosition(position) => {
                let word = position.checked_sub(1).and_then(|at| subject.split('.').nth(at));
                if word != Some("*") {
                    return Err(format!("account_token_position {position} is not that of a *"));
                }
            }
            ExportAccess::Public | ExportAccess::Accounts(_) | ExportAccess::Token => {}
        }
        Ok(())
    }

    fn check_import(&self, import: &Import) -> Result<(), String> {
        if import.account == self.name {
            return Err("an account cannot import from itself".to_owned());
        }
        Ok(())
    }
}

impl Import {
    /// Reports whether both take the same to the same place.
    fn is_same_as(&self, other: &Self) -> bool {
        (self.kind, &self.account, &self.mapping) == (other.kind, &other.account, &other.mapping)
    }

    /// Describes the import for an error.
    pub(super) fn described(&self) -> String {
        let kind = match self.kind {
            ShareKind::Stream => "stream",
            ShareKind::Service => "service",
        };
        let subject = String::from_utf8_lossy(self.exported());
        format!("import of the {kind} {subject:?} from account {}", self.account)
    }
}

/// Reports whether some subject matches both patterns.
fn overlap(left: &str, right: &str) -> bool {
    crate::rules::collide(left.as_bytes(), right.as_bytes())
}
