//! The topics of an nsqd, over its HTTP API: its own protocol can neither list nor delete them.
//!
//! The topics of runs are ephemeral and disappear with their channel. But if an nsqd reads a killed
//! publisher's messages after it has noticed that the subscriber is gone, it creates the topic again, and
//! keeps it. Settings: `http` (`HOST:PORT`, default port 4151 of the system's host), and those of TLS.

use super::deed::Deed;
use super::http;
use super::settings::Settings;
use super::site::Site;
use crate::error::RequesterError;

const PORT: u16 = 4151;

/// Lists topics, and deletes the chosen ones.
pub(super) fn left_over(
    site: &Site,
    settings: &mut Settings,
    deed: Deed,
    chosen: impl FnOnce(Vec<String>) -> Vec<String>,
) -> Result<Vec<String>, RequesterError> {
    let host = site.address.rsplit_once(':').map_or(site.address.as_str(), |(host, _)| host);
    let site = site.at(&settings.take("http").unwrap_or_else(|| format!("{host}:{PORT}")));
    let (status, stats) = ask(&site, "GET", "/stats?format=json&include_clients=false&include_mem=false")?;
    let stats: serde_json::Value = serde_json::from_slice(&stats).unwrap_or_default();
    let Some(topics) = stats["topics"].as_array() else {
        let address = &site.address;
        let reason =
            format!("{address} lists no topics (HTTP status {status}): is it the HTTP address of nsqd?");
        return Err(RequesterError::Unsupported(reason));
    };
    let names = topics.iter().filter_map(|topic| Some(topic["topic_name"].as_str()?.to_owned()));
    let found = chosen(names.collect());
    if deed == Deed::Remove {
        for name in &found {
            // Names consist of letters, digits, dots and hyphens.
            let path = format!("/topic/delete?topic={}", name.replace('#', "%23"));
            let (status, body) = ask(&site, "POST", &path)?;
            // 404: the topic was deleted meanwhile.
            if status != 200 && status != 404 {
                let reason = String::from_utf8_lossy(&body).into_owned();
                return Err(RequesterError::Unsupported(format!(
                    "{} says HTTP status {status} to {path}: {reason}",
                    site.address
                )));
            }
        }
    }
    Ok(found)
}

fn ask(site: &Site, verb: &str, path: &str) -> Result<(u16, Vec<u8>), RequesterError> {
    let mut wire = site.connect().map_err(|error| {
        RequesterError::Unsupported(format!(
            "{error}; nsqd lists its topics over HTTP alone: expected --set http=HOST:PORT"
        ))
    })?;
    http::ask(&mut wire, verb, path, None)
}
