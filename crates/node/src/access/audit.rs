//! The audit log: logins, refusals and changes by administrators. No secret ever comes here.
//!
//! With `tailrace.audit.log.file`, each event is a JSON object in a line of that file. Otherwise logins and
//! refusals are events of the target `tailrace::audit` of the server's log, where changes are logged anyway.
//! With `tailrace.audit.log.topic`, the same objects go to a topic, too.
//! docs/security.md has the names of the members, which stay as they are.
//!
//! A stranger may cause as many events as it likes, so they are bounded ([`Bounds`]). Changes are not: who
//! may make them is no stranger, and nobody's flood must hide one.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use serde::Serialize;
use tailrace_config::BrokerConfig;
use tailrace_env::time::{Duration, wall_clock};
use tailrace_identity::acl::{Operation, ResourceKind};

use super::audit_bounds::{Bounds, Key, LeftOut};
use super::audit_file::AuditFile;
use super::audit_queue::{AuditQueue, Waiting};
use super::metrics::AccessMetrics;
use crate::caller::Caller;

pub(super) use super::audit_bounds::WINDOW;

/// Longest text of a member, in bytes. Longer ones are cut, and end with three dots.
const TEXT_BYTES_MAX: usize = 512;

/// Most details of a change.
pub(super) const DETAILS_MAX: usize = 100;

/// The file cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot open {} (tailrace.audit.log.file): {error}", .path.display())]
pub struct AuditFileError {
    path: PathBuf,
    error: std::io::Error,
}

/// What does not allow a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RefusedBy {
    /// The rules.
    Rules,
    /// The rules, but it is carried out all the same.
    TriedRules,
    /// The lists of a NATS user.
    Permissions,
}

/// A request that is not allowed.
pub(super) struct Refusal<'a> {
    pub(super) caller: &'a Caller,
    pub(super) operation: Operation,
    pub(super) kind: ResourceKind,
    pub(super) name: &'a str,
    pub(super) by: RefusedBy,
}

/// The details of a change.
pub(super) struct Details {
    pub(super) shown: Vec<String>,
    /// How many there are besides.
    pub(super) left_out: usize,
}

impl From<Vec<String>> for Details {
    fn from(mut shown: Vec<String>) -> Self {
        let left_out = shown.len().saturating_sub(DETAILS_MAX);
        shown.truncate(DETAILS_MAX);
        Self { shown, left_out }
    }
}

impl Details {
    fn cut(self) -> Vec<String> {
        let mut cut: Vec<_> = self.shown.iter().map(|text| bounded(text)).collect();
        if self.left_out > 0 {
            cut.push(format!("{} more", self.left_out));
        }
        cut
    }
}

/// A change that has ended.
pub(super) struct Ended<'a> {
    pub(super) caller: &'a Caller,
    pub(super) change: &'a str,
    pub(super) details: Details,
    pub(super) outcome: &'static str,
    pub(super) reason: Option<&'a str>,
}

impl Ended<'_> {
    fn log(&self) {
        let Self { caller, change, outcome, reason, .. } = self;
        tracing::info!(target: "tailrace::audit", %caller, %change, outcome, reason, "a change");
    }

    fn event(self) -> Event {
        Event {
            change: Some(bounded(self.change)),
            details: self.details.cut(),
            reason: self.reason.map(bounded),
            ..Event::of("change", self.outcome, self.caller)
        }
    }
}

/// One line of the file.
#[derive(Debug, Default, Serialize)]
struct Event {
    time_ms: i64,
    event: &'static str,
    outcome: &'static str,
    principal: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<String>,
    door: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    mechanism: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    operation: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    change: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    details: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    count: Option<u64>,
}

impl Event {
    fn of(event: &'static str, outcome: &'static str, caller: &Caller) -> Self {
        let address = caller.address().map(|address| address.ip().to_canonical().to_string());
        Self {
            time_ms: wall_clock().0,
            event,
            outcome,
            principal: bounded(&caller.principal_name()),
            address,
            door: caller.door().to_string(),
            ..Self::default()
        }
    }

    fn to_json(&self) -> String {
        // A struct of texts and numbers can be written.
        serde_json::to_string(self).unwrap_or_default()
    }
}

fn bounded(text: &str) -> String {
    let end = text.floor_char_boundary(TEXT_BYTES_MAX);
    if end < text.len() { format!("{}...", &text[..end]) } else { text.to_owned() }
}

/// The audit log.
pub(crate) struct Audit {
    bounds: Mutex<Bounds>,
    file: Option<AuditFile>,
    /// `None` if events go to no topic.
    topic: Option<Arc<AuditQueue>>,
    metrics: Arc<AccessMetrics>,
}

impl Audit {
    /// Opens the file, if the settings name one.
    pub(super) fn open(config: &BrokerConfig, metrics: &Arc<AccessMetrics>) -> Result<Self, AuditFileError> {
        let path = Path::new(&config.tailrace_audit_log_file);
        let (bytes_max, files) = (config.tailrace_audit_log_file_bytes, config.tailrace_audit_log_files);
        let count = Arc::clone(metrics);
        let lost = move |json: &str| fall_back(&count, json);
        let open = || AuditFile::open(path, bytes_max, files, lost);
        let file = (!config.tailrace_audit_log_file.is_empty()).then(open).transpose();
        let file = file.map_err(|error| AuditFileError { path: path.to_owned(), error })?;
        let topic = config.tailrace_audit_log_topic.then(|| Arc::new(AuditQueue::new(metrics)));
        Ok(Self { bounds: Mutex::default(), file, topic, metrics: Arc::clone(metrics) })
    }

    /// Returns the events that wait for the topic. `None` if events go to no topic.
    pub(super) fn queue(&self) -> Option<Arc<AuditQueue>> {
        self.topic.clone()
    }

    /// Reports whether an event of this caller is written. Otherwise counts it.
    fn admits(&self, event: &'static str, caller: &Caller, now: Duration) -> bool {
        let address = caller.address().map(|address| address.ip().to_canonical());
        let principal = bounded(&caller.principal_name());
        let is_admitted = self.bounds.lock().admits(Key { event, address, principal }, now);
        self.metrics.audited(if is_admitted { "written" } else { "left_out" });
        is_admitted
    }

    pub(super) fn refused(&self, refusal: &Refusal<'_>, reason: &dyn Display, now: Duration) {
        let Refusal { caller, operation, kind, name, by } = refusal;
        if !self.admits("refusal", caller, now) {
            return;
        }
        if self.file.is_none() {
            let message = match by {
                RefusedBy::Rules => "refused by the rules",
                RefusedBy::TriedRules => "would be refused by the rules",
                RefusedBy::Permissions => "refused by the user's permissions",
            };
            tracing::info!(
                target: "tailrace::audit", %caller, %operation, resource = %kind, name = %name.escape_debug(), %reason,
                "{message}"
            );
        }
        let outcome = match by {
            RefusedBy::Rules | RefusedBy::Permissions => "refused",
            RefusedBy::TriedRules => "tried",
        };
        self.offer(|| Event {
            operation: Some(operation.to_string()),
            resource: Some(kind.to_string()),
            name: Some(bounded(name)),
            reason: Some(bounded(&reason.to_string())),
            ..Event::of("refusal", outcome, caller)
        });
    }

    pub(super) fn login_failed(&self, caller: &Caller, mechanism: &str, reason: &dyn Display, now: Duration) {
        if !self.admits("login", caller, now) {
            return;
        }
        if self.file.is_none() {
            tracing::info!(target: "tailrace::audit", %caller, mechanism, %reason, "a login failed");
        }
        self.offer(|| {
            let (mechanism, reason) = (Some(mechanism.to_owned()), Some(bounded(&reason.to_string())));
            Event { mechanism, reason, ..Event::of("login", "failed", caller) }
        });
    }

    pub(super) fn login(&self, caller: &Caller, mechanism: &str, now: Duration) {
        if !self.admits("login", caller, now) {
            return;
        }
        if self.file.is_none() {
            tracing::info!(target: "tailrace::audit", %caller, mechanism, "logged in");
        }
        let mechanism = Some(mechanism.to_owned());
        self.offer(|| Event { mechanism, ..Event::of("login", "succeeded", caller) });
    }

    /// Writes how many events were left out, once their windows are over.
    pub(super) fn sweep(&self, now: Duration) {
        for LeftOut { key, count } in self.bounds.lock().sweep(now) {
            let of = key.as_ref().map_or("any", |key| key.event);
            let principal = key.as_ref().map_or("any", |key| key.principal.as_str());
            let address = key.as_ref().and_then(|key| key.address).map(|address| address.to_string());
            if self.file.is_none() {
                tracing::info!(
                    target: "tailrace::audit", of, principal = %principal.escape_debug(), ?address, count,
                    "events were left out"
                );
            }
            self.offer(|| Event {
                time_ms: wall_clock().0,
                event: "left_out",
                outcome: of,
                principal: principal.to_owned(),
                address,
                count: Some(count),
                ..Event::default()
            });
        }
    }

    /// Queues an event of a client for the file and the topic. Makes it only if there is one of them.
    fn offer(&self, event: impl FnOnce() -> Event) {
        if !self.is_kept() {
            return;
        }
        let event = event();
        let json = event.to_json();
        self.offer_to_topic(&event, &json, false);
        if let Some(Err(json)) = self.file.as_ref().map(|file| file.offer(json)) {
            fall_back(&self.metrics, &json);
        }
    }

    /// Reports whether events go anywhere but to the server's log.
    fn is_kept(&self) -> bool {
        self.file.is_some() || self.topic.is_some()
    }

    fn offer_to_topic(&self, event: &Event, json: &str, is_change: bool) {
        if let Some(topic) = &self.topic {
            topic.offer(Waiting { principal: event.principal.clone(), json: json.to_owned() }, is_change);
        }
    }

    /// Begins to record a change. Dropping it unfinished records that its outcome is unknown. `None` if there
    /// is neither a file nor a topic: the controller logs changes.
    pub(super) fn change<'a>(
        &'a self,
        caller: &Caller,
        change: impl Display,
        details: Details,
    ) -> Option<PendingChange<'a>> {
        if !self.is_kept() {
            return None;
        }
        let change = change.to_string();
        let ended = Ended { caller, change: &change, details, outcome: "unknown", reason: None };
        Some(PendingChange { audit: self, event: Some(ended.event()) })
    }

    /// Records a change that the controller does not log, without waiting for the disk.
    pub(super) fn ended_change(&self, ended: Ended<'_>) {
        if self.file.is_none() {
            ended.log();
        }
        if self.is_kept() {
            // Dropping it records it.
            drop(PendingChange { audit: self, event: Some(ended.event()) });
        }
    }

    /// The same for what ordinary clients do, too: it is bounded as their logins and refusals are.
    pub(super) fn common_change(&self, ended: Ended<'_>, now: Duration) {
        if !self.admits("change", ended.caller, now) {
            return;
        }
        if self.file.is_none() {
            ended.log();
        }
        self.offer(|| ended.event());
    }

    /// Writes what is queued for the file. Later events are not written.
    pub(crate) async fn close(&self) {
        if let Some(file) = &self.file {
            file.close().await;
        }
    }
}

/// A change whose outcome is not known yet.
pub(crate) struct PendingChange<'a> {
    audit: &'a Audit,
    event: Option<Event>,
}

impl PendingChange<'_> {
    /// Records the outcome. Waits if the disk is slow, and never for the topic.
    pub(crate) async fn ended(mut self, outcome: &'static str, reason: Option<String>) {
        let Some(event) = self.event.as_mut() else { return };
        (event.outcome, event.reason) = (outcome, reason.map(|reason| bounded(&reason)));
        let Some(file) = &self.audit.file else { return };
        let json = event.to_json();
        // Until the line is queued, a drop still records the change.
        let queued = file.put_change(json).await;
        let Some(event) = self.event.take() else { return };
        self.audit.recorded(&event, queued);
    }
}

impl Audit {
    /// Counts a change that the file took, or did not, and queues it for the topic.
    fn recorded(&self, change: &Event, queued: Result<(), String>) {
        if self.topic.is_some() {
            self.offer_to_topic(change, &change.to_json(), true);
        }
        match queued {
            Ok(()) => self.metrics.audited("written"),
            Err(json) => fall_back(&self.metrics, &json),
        }
    }
}

impl Drop for PendingChange<'_> {
    fn drop(&mut self) {
        let Some(event) = self.event.take() else { return };
        let queued = self.audit.file.as_ref().map_or(Ok(()), |file| file.offer_change(event.to_json()));
        self.audit.recorded(&event, queued);
    }
}

/// Puts an event that the file did not take into the server's log.
fn fall_back(metrics: &AccessMetrics, json: &str) {
    metrics.audited("lost");
    tracing::error!(target: "tailrace::audit", event = %json, "an event is not in the file of the audit log");
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use tailrace_config::DynamicConfigs;
    use tailrace_identity::acl::Reason;

    use super::*;
    use crate::caller::Door;

    fn audit(path: &Path) -> Audit {
        let settings = [("tailrace.audit.log.file".to_owned(), path.display().to_string())];
        let config = BrokerConfig::resolve(&BTreeMap::from(settings), &DynamicConfigs::default()).unwrap();
        Audit::open(&config, &Arc::default()).unwrap()
    }

    fn events(path: &Path) -> Vec<serde_json::Value> {
        let text = std::fs::read_to_string(path).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn client() -> Caller {
        Caller::client(Door::Kafka, "[::ffff:10.0.0.1]:5000".parse().unwrap())
    }

    #[tokio::test]
    async fn events_are_lines_of_json_with_names_that_cannot_forge_others() {
        tailrace_runtime::install();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.log");
        let audit = audit(&path);
        let caller = client().as_user("a\n{\"event\":\"login\"}".into());
        audit.login(&caller, "PLAIN", Duration::ZERO);
        audit.login_failed(&client(), "PLAIN", &"x".repeat(10_000), Duration::ZERO);
        let (operation, kind) = (Operation::Read, ResourceKind::Topic);
        let refusal =
            Refusal { caller: &caller, operation, kind, name: "o\nrders", by: RefusedBy::TriedRules };
        audit.refused(&refusal, &Reason::Default { has_rules: false }, Duration::ZERO);
        let details = (0..200).map(|number| number.to_string()).collect::<Vec<_>>().into();
        audit.change(&caller, "CreateAcls", details).unwrap().ended("done", None).await;
        drop(audit.change(&caller, "RemoveUser", Vec::new().into()));
        audit.close().await;
        let found = events(&path);
        assert_eq!(found.len(), 5);
        assert_eq!(found[0]["principal"], "User:a\n{\"event\":\"login\"}");
        assert_eq!((&found[0]["event"], &found[0]["outcome"]), (&"login".into(), &"succeeded".into()));
        assert_eq!((&found[0]["address"], &found[0]["door"]), (&"10.0.0.1".into(), &"kafka".into()));
        assert_eq!(found[1]["outcome"], "failed");
        assert_eq!(found[1]["reason"].as_str().unwrap().len(), TEXT_BYTES_MAX + 3);
        assert_eq!((&found[2]["outcome"], &found[2]["name"]), (&"tried".into(), &"o\nrders".into()));
        assert_eq!(found[3]["details"].as_array().unwrap().len(), DETAILS_MAX + 1);
        assert_eq!(found[3]["details"][DETAILS_MAX], "100 more");
        assert_eq!((&found[4]["change"], &found[4]["outcome"]), (&"RemoveUser".into(), &"unknown".into()));
        assert!(found.iter().all(|event| event["time_ms"].as_i64().unwrap() > 0));
    }

    /// A flood of refusals neither fills the disk nor hides changes.
    #[tokio::test]
    async fn a_flood_is_counted_and_changes_among_it_are_all_there() {
        tailrace_runtime::install();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.log");
        let audit = audit(&path);
        let caller = client();
        for number in 0..100_000 {
            let (operation, kind) = (Operation::Read, ResourceKind::Topic);
            let refusal = Refusal { caller: &caller, operation, kind, name: "orders", by: RefusedBy::Rules };
            audit.refused(&refusal, &Reason::Default { has_rules: true }, Duration::ZERO);
            if number % 1_000 == 0 {
                audit.change(&caller, number, Vec::new().into()).unwrap().ended("done", None).await;
            }
        }
        audit.sweep(WINDOW * 2);
        audit.close().await;
        let found = events(&path);
        let of = |event: &str| found.iter().filter(|found| found["event"] == event).collect::<Vec<_>>();
        assert_eq!((of("change").len(), of("refusal").len()), (100, 20));
        assert_eq!(of("left_out").len(), 1);
        assert_eq!(
            (&of("left_out")[0]["count"], &of("left_out")[0]["outcome"]),
            (&99_980.into(), &"refusal".into())
        );
    }
}
