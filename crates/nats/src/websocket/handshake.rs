//! The upgrade of an HTTP request to WebSocket: RFC 6455, section 4, with nats-server's answers.

use std::net::IpAddr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper::header::{
    CONNECTION, HOST, HeaderMap, HeaderName, HeaderValue, ORIGIN, SEC_WEBSOCKET_ACCEPT,
    SEC_WEBSOCKET_EXTENSIONS, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use hyper::{Method, Request, StatusCode, Version};
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};

/// RFC 6455, section 1.3.
const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

const EXTENSION: &str = "permessage-deflate";

/// The server's answer. Contexts do not outlive a message, so that idle connections take no memory.
const EXTENSION_ANSWER: &str = "permessage-deflate; server_no_context_takeover; client_no_context_takeover";

const SUBPROTOCOL: &str = "nats";

/// The conditions for connections.
#[derive(Clone, Debug)]
pub(super) struct Policy {
    pub(super) compression: bool,
    /// Origins whose pages may connect. If empty, only pages of this server may.
    pub(super) origins: Vec<String>,
    /// The host name that is set for the listener, in lower case. Empty if there is none.
    pub(super) own_host: String,
    /// Whether the listener uses TLS.
    pub(super) secure: bool,
}

/// An accepted upgrade, answered with 101.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Upgrade {
    accept: String,
    subprotocol: bool,
    pub(super) compression: bool,
}

/// The reason for a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    pub(super) reason: &'static str,
}

/// Reports whether the request asks for a WebSocket, validly or not.
pub(crate) fn is_upgrade<B>(request: &Request<B>) -> bool {
    has_token(request.headers(), &UPGRADE, "websocket")
}

impl Upgrade {
    /// Decides about a request.
    ///
    /// # Errors
    /// The request's error.
    pub(super) fn of<B>(request: &Request<B>, policy: &Policy) -> Result<Self, Refusal> {
        let headers = request.headers();
        let refuse = |status, reason| Err(Refusal { status, reason });
        if request.method() != Method::GET {
            return refuse(StatusCode::METHOD_NOT_ALLOWED, "request method must be GET");
        }
        if request.version() != Version::HTTP_11 || !headers.contains_key(HOST) {
            return refuse(StatusCode::BAD_REQUEST, "HTTP/1.1 with a Host header is required");
        }
        if !has_token(headers, &CONNECTION, "upgrade") {
            return refuse(StatusCode::BAD_REQUEST, "invalid value for header 'Connection'");
        }
        if !has_token(headers, &SEC_WEBSOCKET_VERSION, "13") {
            return refuse(StatusCode::UPGRADE_REQUIRED, "invalid version");
        }
        let key = headers.get(SEC_WEBSOCKET_KEY).and_then(|key| key.to_str().ok()).unwrap_or_default();
        if STANDARD.decode(key).is_ok_and(|bytes| bytes.len() == 16) {
            if !policy.admits(headers) {
                return refuse(StatusCode::FORBIDDEN, "origin not allowed");
            }
            let compression = policy.compression && offers_compression(headers);
            let subprotocol = has_token(headers, &SEC_WEBSOCKET_PROTOCOL, SUBPROTOCOL);
            return Ok(Self { accept: accept_key(key), subprotocol, compression });
        }
        refuse(StatusCode::BAD_REQUEST, "invalid websocket key")
    }

    /// The headers of the answer.
    pub(super) fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
        // Base64 is always a legal value.
        if let Ok(accept) = HeaderValue::from_str(&self.accept) {
            headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
        }
        if self.compression {
            headers.insert(SEC_WEBSOCKET_EXTENSIONS, HeaderValue::from_static(EXTENSION_ANSWER));
        }
        if self.subprotocol {
            headers.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(SUBPROTOCOL));
        }
        headers
    }
}

impl Policy {
    /// Checks the origin. Browsers always send the origin of the page. Other programs are not bound by it.
    fn admits(&self, headers: &HeaderMap) -> bool {
        let Some(origin) = headers.get(ORIGIN) else { return true };
        let Some(origin) = origin.to_str().ok().and_then(Origin::parse) else { return false };
        if self.origins.is_empty() {
            let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
            let scheme = if self.secure { "https" } else { "http" };
            // With TLS, the certificate has proved that the name is this server's. Without it, anyone can
            // point a name of their own at this address.
            let is_ours = self.secure || cannot_be_rebound(&origin.host) || self.own_host == origin.host;
            return is_ours && Origin::parse(&format!("{scheme}://{host}")) == Some(origin);
        }
        self.origins.iter().any(|allowed| allowed == "*" || Origin::parse(allowed).as_ref() == Some(&origin))
    }
}

/// Reports whether DNS has no influence on the host: an address, or a name for the local machine.
fn cannot_be_rebound(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.ends_with(".localhost") || address.parse::<IpAddr>().is_ok()
}

#[derive(Debug, PartialEq, Eq)]
struct Origin {
    secure: bool,
    host: String,
    port: u16,
}

impl Origin {
    /// Parses `http://HOST` or `https://HOST`, with or without a port.
    fn parse(text: &str) -> Option<Self> {
        let (scheme, rest) = text.split_once("://")?;
        let secure = match scheme.to_ascii_lowercase().as_str() {
            "https" => true,
            "http" => false,
            _ => return None,
        };
        let usual = if secure { 443 } else { 80 };
        // The last colon of an address in brackets may be part of the address.
        let (host, port) = match rest.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok()?),
            _ => (rest, usual),
        };
        if host.is_empty() || host.contains(['/', '@', '?', '#', ' ']) {
            return None;
        }
        Some(Self { secure, host: host.to_ascii_lowercase(), port })
    }
}

/// Reports whether an offer can be accepted unchanged. One with a smaller window than usual cannot.
fn offers_compression(headers: &HeaderMap) -> bool {
    let texts = headers.get_all(SEC_WEBSOCKET_EXTENSIONS).iter().filter_map(|value| value.to_str().ok());
    texts.flat_map(|text| text.split(',')).any(|offer| {
        let mut parts = offer.split(';').map(str::trim);
        let is_ours = parts.next().is_some_and(|name| name.eq_ignore_ascii_case(EXTENSION));
        is_ours
            && parts.all(|part| {
                let name = part.split('=').next().unwrap_or_default().trim();
                ["server_no_context_takeover", "client_no_context_takeover", "client_max_window_bits"]
                    .iter()
                    .any(|known| name.eq_ignore_ascii_case(known))
            })
    })
}

fn has_token(headers: &HeaderMap, name: &HeaderName, token: &str) -> bool {
    let texts = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    texts.flat_map(|text| text.split(',')).any(|part| part.trim().eq_ignore_ascii_case(token))
}

fn accept_key(key: &str) -> String {
    STANDARD.encode(digest(&SHA1_FOR_LEGACY_USE_ONLY, format!("{key}{GUID}").as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(more: &[(&str, &str)]) -> Request<()> {
        let base = [
            ("host", "a.example:8222"),
            ("upgrade", "WebSocket"),
            ("connection", "keep-alive, Upgrade"),
            ("sec-websocket-version", "13"),
            ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ];
        let mut request = Request::new(());
        for (name, value) in base.iter().chain(more) {
            let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
            request.headers_mut().insert(name, HeaderValue::from_str(value).unwrap());
        }
        request
    }

    fn policy(origins: &[&str], secure: bool) -> Policy {
        let origins = origins.iter().map(|&text| text.to_owned()).collect();
        Policy { compression: true, origins, secure, own_host: String::new() }
    }

    #[test]
    fn the_answer_is_that_of_the_rfc() {
        let upgrade = Upgrade::of(&request(&[]), &policy(&[], false)).unwrap();
        assert_eq!(upgrade.accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        assert!(!upgrade.compression && !upgrade.subprotocol);
        let asked = request(&[("sec-websocket-protocol", "mqtt, nats")]);
        assert_eq!(
            Upgrade::of(&asked, &policy(&[], false)).unwrap().headers()[SEC_WEBSOCKET_PROTOCOL],
            "nats"
        );
    }

    #[test]
    fn bad_requests_are_refused() {
        for (name, value, status) in [
            ("connection", "close", 400),
            ("sec-websocket-version", "8", 426),
            ("sec-websocket-key", "c2hvcnQ=", 400),
            ("sec-websocket-key", "not base64 at all!!!!!!!", 400),
            ("origin", "http://evil.example", 403),
        ] {
            let refused = Upgrade::of(&request(&[(name, value)]), &policy(&[], false)).unwrap_err();
            assert_eq!(refused.status, status, "{name}: {value}");
        }
        let mut post = request(&[]);
        *post.method_mut() = Method::POST;
        assert_eq!(Upgrade::of(&post, &policy(&[], false)).unwrap_err().status, 405);
        assert!(!is_upgrade(&request(&[("upgrade", "h2c")])));
    }

    #[test]
    fn origins_are_this_servers_own_or_those_that_are_listed() {
        for (origins, secure, origin, expected) in [
            (&[][..], true, "https://a.example:8222", true),
            (&[], true, "https://A.EXAMPLE:8222", true),
            (&[], true, "http://a.example:8222", false),
            // A name that points here need not be this server's.
            (&[], false, "http://a.example:8222", false),
            (&[], false, "https://a.example:8222", false),
            (&[], false, "http://a.example", false),
            (&[], false, "null", false),
            (&[], false, "http://a.example:8222.evil.example", false),
            (&[], false, "http://a.example:8222@evil.example", false),
            (&["*"], false, "http://anybody.example", true),
            (&["*"], false, "null", false),
            (&["https://b.example"], false, "https://b.example:443", true),
            (&["https://b.example"], false, "https://b.example:444", false),
            (&["https://b.example"], false, "http://a.example:8222", false),
            (&["http://[::1]:80"], false, "http://[::1]", true),
            (&["http://a.example:8222"], false, "http://a.example:8222", true),
        ] {
            let found = Upgrade::of(&request(&[("origin", origin)]), &policy(origins, secure));
            assert_eq!(found.is_ok(), expected, "{origins:?} {origin}");
        }
    }

    #[test]
    fn without_tls_a_page_comes_from_an_address_or_a_name_that_is_known_to_be_ours() {
        let admits = |own_host: &str, host: &str| {
            let own_host = own_host.to_owned();
            let policy = Policy { own_host, ..policy(&[], false) };
            let mut request = request(&[("origin", &format!("http://{host}"))]);
            request.headers_mut().insert(HOST, HeaderValue::from_str(host).unwrap());
            Upgrade::of(&request, &policy).is_ok()
        };
        for host in ["127.0.0.1:8222", "10.1.2.3", "[::1]:8222", "localhost:8222", "app.localhost"] {
            assert!(admits("", host), "{host}");
        }
        for host in [
            "attacker.example:8222",
            "127.0.0.1.attacker.example",
            "localhost.attacker.example",
            "notlocalhost",
        ] {
            assert!(!admits("", host), "{host}");
        }
        assert!(admits("mq.example", "MQ.example:8222") && !admits("mq.example", "other.example"));
    }

    #[test]
    fn compression_is_agreed_to_if_an_offer_fits() {
        for (offer, expected) in [
            ("permessage-deflate", true),
            ("permessage-deflate; client_max_window_bits", true),
            ("permessage-deflate; server_no_context_takeover; client_no_context_takeover", true),
            ("x-webkit-deflate-frame", false),
            ("permessage-deflate; server_max_window_bits=9", false),
            ("permessage-deflate; server_max_window_bits=9, permessage-deflate", true),
            ("permessage-deflate; what", false),
        ] {
            let request = request(&[("sec-websocket-extensions", offer)]);
            assert_eq!(Upgrade::of(&request, &policy(&[], false)).unwrap().compression, expected, "{offer}");
            let off = Policy { compression: false, ..policy(&[], false) };
            assert!(!Upgrade::of(&request, &off).unwrap().compression);
        }
    }
}
