//! Operator mode: users prove who they are by claims (JWT) that their account has signed, and accounts by
//! claims that the operator has signed. The settings name files with the claims of the operator and of the
//! accounts.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tailrace_config::BrokerConfig;
use tailrace_env::file_stamp::FileStamp;
use tailrace_identity::nats_accounts::callout::{Authority, CalloutDenied, CalloutUser, Expected};
use tailrace_identity::nats_accounts::jwt::{
    AccountClaims, AccountUser, ClaimError, Connection, DeletedAccounts, OperatorTrust, Presented,
    UserClaims, UserDenied,
};
use tailrace_identity::nats_accounts::{AccountName, AccountTable, ConnectionLimits};
use tailrace_metadata::StoredAccountClaims;

use super::clock::now_s;
use super::error::AuthError;
use super::file;

const OPERATOR: &str = "tailrace.nats.operator.file";
const ACCOUNTS: &str = "tailrace.nats.operator.accounts.file";
const SENTINEL: &str = "tailrace.nats.operator.sentinel.file";

/// How the token of a JWT begins: `{"` in base64.
const TOKEN_START: &str = "eyJ";

/// The trusted operators, and the accounts that they have signed.
#[derive(Debug)]
pub(crate) struct Operator {
    trust: OperatorTrust,
    known: ArcSwap<Known>,
    sources: Mutex<Sources>,
    /// The file with the claims of accounts, and what it looked like when it was read.
    accounts_file: Option<PathBuf>,
    seen: Mutex<Option<FileStamp>>,
    /// The claims of clients that present none.
    sentinel: Option<String>,
}

/// Where claims come from. Of two claims of an account the newer one is in force.
#[derive(Debug, Default)]
struct Sources {
    file: BTreeMap<AccountName, Claim>,
    /// As they are in the metadata, and those of them that the operator has signed.
    stored: Option<Arc<BTreeMap<String, Arc<StoredAccountClaims>>>>,
    believed: BTreeMap<AccountName, Claim>,
}

impl Sources {
    fn all(&self) -> BTreeMap<AccountName, Claim> {
        let mut all = self.file.clone();
        for (id, claim) in &self.believed {
            let is_newer = |known: &Claim| known.claims.issued_at_s() <= claim.claims.issued_at_s();
            if all.get(id).is_none_or(is_newer) {
                all.insert(id.clone(), claim.clone());
            }
        }
        all
    }
}

/// The claims of an account, and their text.
#[derive(Clone, Debug)]
struct Claim {
    claims: Arc<AccountClaims>,
    token: Arc<str>,
}

/// The claims of all accounts.
#[derive(Debug, Default)]
struct Known {
    claims: BTreeMap<AccountName, Claim>,
    table: Arc<AccountTable>,
    version: u64,
}

/// A user who was let in by claims.
#[derive(Debug)]
pub(crate) struct Claimed {
    pub(super) claims: Arc<UserClaims>,
    pub(crate) user: AccountUser,
    /// The account whose service has let the user in, if one has, with an operator.
    pub(super) asked: Option<AccountName>,
}

impl Claimed {
    /// The key that has signed the claims: the account's, or one of its signing keys.
    pub(crate) fn issuer(&self) -> &str {
        self.claims.issuer()
    }

    /// The tags in the claims, for display.
    pub(crate) fn tags(&self) -> &[String] {
        self.claims.tags()
    }
}

impl Operator {
    /// Reads the files of the settings. `None` if no operator is set. Blocks.
    pub(super) fn load(config: &BrokerConfig) -> Result<Option<Arc<Self>>, AuthError> {
        if config.tailrace_nats_operator_file.is_empty() {
            let alone = |key| Err(AuthError::Alone { key, other: OPERATOR });
            return match () {
                () if !config.tailrace_nats_operator_accounts_file.is_empty() => alone(ACCOUNTS),
                () if !config.tailrace_nats_operator_sentinel_file.is_empty() => alone(SENTINEL),
                () => Ok(None),
            };
        }
        let path = PathBuf::from(&config.tailrace_nats_operator_file);
        let wrong = |path: &Path, reason: ClaimError| AuthError::Claims { path: path.to_owned(), reason };
        let tokens = tokens_of(OPERATOR, &path)?;
        let trust = OperatorTrust::read(tokens.iter().map(String::as_str)).map_err(|e| wrong(&path, e))?;
        let accounts_file = Some(PathBuf::from(&config.tailrace_nats_operator_accounts_file));
        let operator = Self {
            trust,
            known: ArcSwap::default(),
            sources: Mutex::default(),
            accounts_file: accounts_file.filter(|path| !path.as_os_str().is_empty()),
            seen: Mutex::default(),
            sentinel: sentinel(&config.tailrace_nats_operator_sentinel_file)?,
        };
        operator.read_accounts()?;
        Ok(Some(Arc::new(operator)))
    }

    /// Reads the claims of accounts from their file. They replace all others. Blocks.
    fn read_accounts(&self) -> Result<(), AuthError> {
        let Some(path) = &self.accounts_file else { return Ok(()) };
        *self.seen.lock() = FileStamp::of(path);
        let now_s = now_s();
        let mut all: BTreeMap<AccountName, Claim> = BTreeMap::new();
        for token in tokens_of(ACCOUNTS, path)? {
            let read = self.trust.account(&token, now_s);
            let claims = read.map_err(|reason| AuthError::Claims { path: path.clone(), reason })?;
            let is_newer = |known: &Claim| known.claims.issued_at_s() <= claims.issued_at_s();
            if all.get(claims.id()).is_none_or(is_newer) {
                all.insert(claims.id().clone(), Claim { claims, token: token.into() });
            }
        }
        let mut sources = self.sources.lock();
        sources.file = all;
        self.replace(&sources, now_s);
        Ok(())
    }

    /// Takes the claims that the metadata store. Those that no trusted operator has signed are left out: the
    /// metadata do not ask.
    pub(crate) fn set_stored(&self, stored: &Arc<BTreeMap<String, Arc<StoredAccountClaims>>>) {
        let mut sources = self.sources.lock();
        if sources.stored.as_ref().is_some_and(|known| Arc::ptr_eq(known, stored)) {
            return;
        }
        let now_s = now_s();
        let mut believed = BTreeMap::new();
        for one in stored.values() {
            let known = sources.believed.get(one.account.as_str());
            let claim = match known.filter(|known| *known.token == *one.token) {
                Some(known) => Ok(known.clone()),
                None => self.trust.account(&one.token, now_s).map(|claims| {
                    let token = Arc::clone(&one.token);
                    Claim { claims, token }
                }),
            };
            match claim {
                Ok(claim) => drop(believed.insert(claim.claims.id().clone(), claim)),
                Err(reason) => {
                    tracing::warn!(account = one.account, %reason, "the claims of an account do not count")
                }
            }
        }
        sources.believed = believed;
        sources.stored = Some(Arc::clone(stored));
        self.replace(&sources, now_s);
    }

    /// Checks claims that somebody wants to store. Returns the account.
    pub(crate) fn check_update(&self, token: &str) -> Result<AccountName, ClaimError> {
        self.trust.account(token, now_s()).map(|claims| claims.id().clone())
    }

    /// Checks a request to delete accounts.
    pub(crate) fn check_deletion(&self, token: &str) -> Result<DeletedAccounts, ClaimError> {
        self.trust.deletion(token, now_s())
    }

    /// Reads the claims of accounts again if their file has changed. If it cannot be believed, the old ones
    /// stay. Blocks.
    pub(crate) fn look_at_file(&self) {
        let Some(path) = &self.accounts_file else { return };
        let now = FileStamp::of(path);
        if now.is_none() || *self.seen.lock() == now {
            return;
        }
        match self.read_accounts() {
            Ok(()) => tracing::info!(path = %path.display(), "the claims of NATS accounts were read again"),
            Err(error) => tracing::error!(%error, "the claims of NATS accounts stay as they were"),
        }
    }

    /// The account of the server's own events.
    pub(crate) fn system_account(&self) -> Option<&AccountName> {
        self.trust.system_account()
    }

    /// All accounts whose claims are in force.
    pub(crate) fn table(&self) -> Arc<AccountTable> {
        Arc::clone(&self.known.load().table)
    }

    /// The public keys of all accounts.
    pub(crate) fn ids(&self) -> Vec<String> {
        self.known.load().claims.keys().map(ToString::to_string).collect()
    }

    /// The token with the claims of an account.
    pub(crate) fn token(&self, account: &str) -> Option<Arc<str>> {
        self.known.load().claims.get(account).map(|claim| Arc::clone(&claim.token))
    }

    /// The name that the claims give to an account.
    pub(crate) fn name_of(&self, account: &str) -> Option<String> {
        let known = self.known.load();
        known.claims.get(account).map(|claim| claim.claims.name().to_owned()).filter(|name| !name.is_empty())
    }

    /// The claims of all accounts, each with its account.
    pub(crate) fn tokens(&self) -> Vec<(String, Arc<str>)> {
        let known = self.known.load();
        known.claims.iter().map(|(id, claim)| (id.to_string(), Arc::clone(&claim.token))).collect()
    }

    /// Changes with the accounts.
    pub(crate) fn version(&self) -> u64 {
        self.known.load().version
    }

    /// Builds the accounts again if one of their claims, or of their activations, ends by now.
    pub(crate) fn look_at_clock(&self, now_s: i64) {
        let sources = self.sources.lock();
        if self.known.load().table.next_change_at_s().is_some_and(|at| at <= now_s) {
            self.replace(&sources, now_s);
        }
    }

    fn replace(&self, sources: &Sources, now_s: i64) {
        let (claims, version) = (sources.all(), self.known.load().version + 1);
        let definitions = claims.values().map(|claim| claim.claims.definition().clone()).collect();
        let (table, faults) = AccountTable::build(definitions, now_s);
        for fault in faults {
            tracing::warn!(%fault, "a part of an account's claims is not in force");
        }
        self.known.store(Arc::new(Known { claims, table: Arc::new(table), version }));
    }

    /// The claims (JWT) of clients that present none, if they are checked as somebody.
    pub(super) fn sentinel(&self) -> Option<&str> {
        self.sentinel.as_deref()
    }

    /// Decides whether a client is let in by its claims.
    pub(super) fn admit(
        &self,
        claims: &Arc<UserClaims>,
        presented: Presented<'_>,
        connection: Connection,
    ) -> Result<Claimed, UserDenied> {
        let account = self.account_of(claims.account())?;
        let user = account.admit(claims, presented, connection, now_s())?;
        Ok(Claimed { claims: Arc::clone(claims), user, asked: None })
    }

    /// Returns the account of a user who was let in by claims, if its service decides about the user in the
    /// end. Nobody is asked about the service itself.
    pub(super) fn asked_about(&self, claimed: &Claimed) -> Option<Arc<AccountClaims>> {
        let account = self.account_of(claimed.claims.account()).ok()?;
        let callout = account.definition().callout.as_ref()?;
        callout.is_asked_about(Some(claimed.claims.subject())).then_some(account)
    }

    /// Reports whether an account has a callout.
    pub(super) fn has_callout(&self, account: &str) -> bool {
        let known = self.known.load();
        known.claims.get(account).is_some_and(|claim| claim.claims.definition().callout.is_some())
    }

    /// Decides whether a user who was let in may stay, and returns its limits now. One whose permissions have
    /// changed may not stay: it comes back with the new ones.
    pub(crate) fn recheck(
        &self,
        claimed: &Claimed,
        connection: Connection,
    ) -> Result<ConnectionLimits, UserDenied> {
        let now = match &claimed.asked {
            None => {
                let account = self.account_of(claimed.claims.account())?;
                account.recheck(&claimed.claims, connection, now_s())?
            }
            Some(asked) => self.placed_again(claimed, asked, connection)?,
        };
        if now.user == claimed.user.user { Ok(now.limits) } else { Err(UserDenied::Issuer) }
    }

    /// Decides again about a user whom the service of an account has let in, without asking it.
    fn placed_again(
        &self,
        claimed: &Claimed,
        asked: &AccountName,
        connection: Connection,
    ) -> Result<AccountUser, UserDenied> {
        let asked = self.account_of(asked)?;
        let settings = asked.definition().callout.as_ref().ok_or(UserDenied::Issuer)?;
        let account = |name: &AccountName| self.account_of(name).ok();
        let expected = Expected {
            settings,
            // The answer itself was checked when it came.
            server_key: "",
            user_key: claimed.claims.subject(),
            curve_key: None,
            authority: Authority::Operator { asked: &asked, account: &account },
        };
        let user = CalloutUser { user: claimed.user.clone(), claims: Arc::clone(&claimed.claims) };
        match expected.recheck(&user, connection, now_s()) {
            Ok(now) => Ok(now.user),
            Err(CalloutDenied::User(reason)) => Err(reason),
            Err(_) => Err(UserDenied::Issuer),
        }
    }

    /// Returns the claims of an account that are in force.
    pub(super) fn account_of(&self, account: &AccountName) -> Result<Arc<AccountClaims>, UserDenied> {
        let known = self.known.load();
        match known.claims.get(account).map(|claim| &claim.claims) {
            Some(found) if self.trust.check(found, now_s()).is_ok() => Ok(Arc::clone(found)),
            Some(_) => Err(UserDenied::AccountExpired),
            None => Err(UserDenied::NoAccount { account: account.clone() }),
        }
    }
}

/// Reads the claims of clients that present none. They must be those of a bearer: nobody could sign for it.
fn sentinel(path: &str) -> Result<Option<String>, AuthError> {
    if path.is_empty() {
        return Ok(None);
    }
    let path = Path::new(path);
    let wrong = |reason: &dyn std::fmt::Display| AuthError::Sentinel {
        path: path.to_owned(),
        reason: reason.to_string(),
    };
    let mut tokens = tokens_of(SENTINEL, path)?;
    let (Some(token), true) = (tokens.pop(), tokens.is_empty()) else {
        return Err(wrong(&"expected the claims (JWT) of one user"));
    };
    match UserClaims::read(&token) {
        Ok(claims) if claims.is_bearer() => Ok(Some(token)),
        Ok(_) => Err(wrong(&"the user must be a bearer")),
        Err(reason) => Err(wrong(&reason)),
    }
}

/// Returns the tokens of a file: one on each line. Lines that are no token, like the dashes that nsc writes,
/// are ignored.
fn tokens_of(key: &'static str, path: &Path) -> Result<Vec<String>, AuthError> {
    let read = |error| AuthError::ReadClaims { key, path: path.to_owned(), error };
    let text = file::read(path).map_err(read)?;
    let tokens = text.lines().map(str::trim).filter(|line| line.starts_with(TOKEN_START));
    Ok(tokens.map(str::to_owned).collect())
}
