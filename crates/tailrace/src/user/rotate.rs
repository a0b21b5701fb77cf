//! `tailrace user rotate`.

use std::process::ExitCode;
use std::time::Duration;

use serde_json::json;
use tailrace_cli::failure::Failure;
use tailrace_cli::output::{Output, print, print_json};
use tailrace_cli::text::time::{format_instant, now_ms};

use super::arguments::{ITERATIONS_MAX, ITERATIONS_MIN, RotateArguments};
use super::credentials::{Change, Credential, Hashing, find_user};
use crate::client::{Cluster, ScramMechanism};
use crate::shown::shown;

/// Changes one mechanism after the other. If one fails, the error says which have the new password already.
pub(super) async fn run(cluster: &mut Cluster, arguments: &RotateArguments) -> Result<ExitCode, Failure> {
    let RotateArguments { name, password, .. } = arguments;
    let user = find_user(cluster, name).await?;
    let hashings = user.credentials.iter().filter_map(|credential| hashing(arguments, credential));
    let known: Vec<Hashing> = hashings.collect::<Result<_, _>>()?;
    if known.is_empty() {
        return Err(format!("user '{name}' has no password for a mechanism that this tailrace knows").into());
    }
    let secret = password.read(name)?;
    let mut changed = Vec::new();
    for hashing in known {
        let change = Change::set(name, &hashing, &secret, password.without_tls)?;
        match change.apply(cluster).await {
            Ok(()) => changed.push(hashing.mechanism.name()),
            Err(error) if changed.is_empty() => return Err(error.into()),
            Err(error) => {
                return Err(format!("{error}; {} has the new password already", changed.join(", ")).into());
            }
        }
    }
    let until_ms = arguments.keep_old.map(|keep_old| now_ms().saturating_add(millis(keep_old)));
    match arguments.common.output {
        Output::Text => {
            let kept =
                until_ms.map(|until| format!(", and the old one works until {}", format_instant(until)));
            let kept = kept.unwrap_or_default();
            print(&format!("{}: new password for {}{kept}\n", shown(name), changed.join(" and ")))?;
        }
        Output::Json => {
            print_json(&json!({ "user": name, "mechanisms": changed, "old_password_until_ms": until_ms }))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

/// How the new password for a mechanism is hashed. `None` for a mechanism that is not known here.
fn hashing(arguments: &RotateArguments, credential: &Credential) -> Option<Result<Hashing, Failure>> {
    let mechanism = ScramMechanism::from_code(credential.mechanism)?;
    let before = u32::try_from(credential.iterations).unwrap_or_default();
    let Some(keep_old) = arguments.keep_old else {
        let before = before.clamp(ITERATIONS_MIN, ITERATIONS_MAX);
        return Some(Hashing::new(mechanism, arguments.iterations.unwrap_or(before)));
    };
    // A server that does not tell the salt would end the old password at once.
    Some(match &credential.state {
        Some(state) => Ok(Hashing::beside(mechanism, before, state.salt.clone(), keep_old)),
        None => Err(format!(
            "the server cannot keep an old password, and that of '{}' was not changed; leave out --keep-old",
            arguments.name
        )
        .into()),
    })
}
