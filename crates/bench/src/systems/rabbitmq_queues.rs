//! The queues of RabbitMQ, over its management API: none of its other protocols lists them.
//!
//! Settings: `management` (`HOST:PORT`, default port 15672 of the system's host), `user`, `password`,
//! `vhost`, and those of TLS. The plugin rabbitmq_management must be enabled.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::deed::Deed;
use super::http;
use super::settings::Settings;
use super::site::Site;
use crate::error::RequesterError;

const PORT: u16 = 15_672;

/// Lists queues, and deletes the chosen ones.
pub(super) fn left_over(
    site: &Site,
    settings: &mut Settings,
    deed: Deed,
    chosen: impl FnOnce(Vec<String>) -> Vec<String>,
) -> Result<Vec<String>, RequesterError> {
    let mut take = |key, default: &str| settings.take(key).unwrap_or_else(|| default.to_owned());
    let host = site.address.rsplit_once(':').map_or(site.address.as_str(), |(host, _)| host);
    let management = take("management", &format!("{host}:{PORT}"));
    let authorization = STANDARD.encode(format!("{}:{}", take("user", "guest"), take("password", "guest")));
    let path = format!("/api/queues/{}", escaped(&take("vhost", "/")));
    let site = site.at(&management);
    let ask = |verb: &str, path: &str| ask(&site, verb, path, &authorization);
    let listed: serde_json::Value =
        serde_json::from_slice(&ask("GET", &format!("{path}?columns=name"))?).unwrap_or_default();
    let Some(listed) = listed.as_array() else {
        let reason = format!("{management} lists no queues: is it RabbitMQ's management API?");
        return Err(RequesterError::Unsupported(reason));
    };
    let found = chosen(listed.iter().filter_map(|queue| Some(queue["name"].as_str()?.to_owned())).collect());
    if deed == Deed::Remove {
        for name in &found {
            ask("DELETE", &format!("{path}/{}", escaped(name)))?;
        }
    }
    Ok(found)
}

/// Sends a request, and returns the body of the response.
fn ask(site: &Site, verb: &str, path: &str, authorization: &str) -> Result<Vec<u8>, RequesterError> {
    let host = &site.address;
    let mut wire = site.connect().map_err(|error| {
        RequesterError::Unsupported(format!(
            "{error}; RabbitMQ lists its queues over the plugin rabbitmq_management alone: expected \
             --set management=HOST:PORT"
        ))
    })?;
    let (status, body) = http::ask(&mut wire, verb, path, Some(&format!("Basic {authorization}")))?;
    match status {
        200..300 => Ok(body),
        // The queue was deleted meanwhile.
        404 if verb == "DELETE" => Ok(body),
        401 | 403 => {
            let reason =
                "its management API wants a user with the tag management: expected --set user=, password=";
            Err(RequesterError::Unsupported(format!("{host} says HTTP status {status}: {reason}")))
        }
        _ => Err(RequesterError::Unsupported(format!("{host} says HTTP status {status} to {verb} {path}"))),
    }
}

/// Escapes one part of a path.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths() {
        assert_eq!(escaped("/"), "%2F");
        assert_eq!(escaped("tailrace-bench.7.0"), "tailrace-bench.7.0");
        assert_eq!(escaped("\u{e9} ?"), "%C3%A9%20%3F");
    }
}
