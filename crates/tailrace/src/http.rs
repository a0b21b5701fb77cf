//! GET of a small JSON page. Uses HTTP/1.0, so that the response comes in one piece and the connection ends
//! with it.

use std::time::Duration;

use serde::de::DeserializeOwned;
use tailrace_cli::failure::{Failure, plain};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use zeroize::Zeroizing;

use crate::client::address::nature;
use crate::client::{PageLogin, Tls};

/// Longest page that is read: about ten thousand connections.
const PAGE_BYTES_MAX: u64 = 64 << 20;

/// The HTTP listener that serves the pages.
pub(crate) struct Site {
    pub(crate) address: String,
    pub(crate) tls: Option<Tls>,
    pub(crate) login: Option<PageLogin>,
    /// The option that names the port, for errors.
    pub(crate) option: &'static str,
}

impl Site {
    /// The same pages of another node.
    pub(crate) fn at(&self, address: &str) -> Self {
        let (tls, login) = (self.tls.clone(), self.login.clone());
        Self { address: address.to_owned(), tls, login, option: self.option }
    }
}

/// Gets `path` and reads its JSON.
pub(crate) async fn get<T: DeserializeOwned>(
    site: &Site,
    path: &str,
    timeout: Duration,
) -> Result<T, Failure> {
    let address = &site.address;
    let page = tokio::time::timeout(timeout, fetch(site, path))
        .await
        .map_err(|_| format!("{address} did not answer {path} within {timeout:?}"))??;
    serde_json::from_slice(&page).map_err(|error| {
        format!("{address}{path} is not a page of tailrace's HTTP port ({error}); see {}", site.option).into()
    })
}

async fn fetch(site: &Site, path: &str) -> Result<Vec<u8>, Failure> {
    let address = &site.address;
    let failed = |error: std::io::Error| {
        format!(
            "cannot get {path} from {address}: {}; name the HTTP port with {}",
            plain(&error),
            site.option
        )
    };
    let stream = TcpStream::connect(address).await.map_err(failed)?;
    let is_private = site.tls.is_some() || is_on_this_machine(&stream);
    if site.login.is_some() && !is_private {
        return Err(format!(
            "the connection to {address} is not encrypted, and would show the password to those who read it; use TLS \
             (--tls-ca), or run this on the machine of the node"
        )
        .into());
    }
    match &site.tls {
        None => exchange(stream, site, path).await,
        Some(tls) => {
            let stream = tls.connect(address, stream).await;
            exchange(stream.map_err(|reason| format!("{address}: {reason}"))?, site, path).await
        }
    }
}

fn is_on_this_machine(stream: &TcpStream) -> bool {
    stream.peer_addr().is_ok_and(|peer| peer.ip().to_canonical().is_loopback())
}

async fn exchange<S: AsyncRead + AsyncWrite + Unpin>(
    mut stream: S,
    site: &Site,
    path: &str,
) -> Result<Vec<u8>, Failure> {
    let (address, option) = (&site.address, site.option);
    let failed = |error: std::io::Error| format!("cannot get {path} from {address}: {}", plain(&error));
    let header =
        |login: &PageLogin| Zeroizing::new(format!("Authorization: {}\r\n", login.header().as_str()));
    let login = site.login.as_ref().map(header).unwrap_or_default();
    let request = Zeroizing::new(format!(
        "GET {path} HTTP/1.0\r\nHost: {address}\r\nAccept: application/json\r\n{}\r\n",
        login.as_str()
    ));
    stream.write_all(request.as_bytes()).await.map_err(failed)?;
    let mut answer = Vec::new();
    match stream.take(PAGE_BYTES_MAX).read_to_end(&mut answer).await {
        // Some servers close TLS connections without a close_notify.
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {}
        read => drop(read.map_err(failed)?),
    }
    let (head, body) = split(&answer).ok_or_else(|| not_http(address, &answer, option))?;
    match head.split_whitespace().nth(1) {
        Some("200") => Ok(body.to_vec()),
        Some("401") if site.login.is_some() => {
            Err(format!("{address} refuses {path}: the user or the password is wrong").into())
        }
        Some("401") => {
            Err(format!("{address} demands a login for {path}; name a user with --sasl-user").into())
        }
        _ => {
            let status = head.lines().next().unwrap_or_default();
            Err(format!("{address} answers {path} with '{status}': {}", text(body)).into())
        }
    }
}

/// The error for a response that is not HTTP. A Kafka listener closes the connection without answering a line
/// of HTTP.
fn not_http(address: &str, answer: &[u8], option: &str) -> String {
    match nature(answer) {
        Some(what) => format!("{address} is {what}; name the HTTP port with {option}"),
        None if answer.is_empty() => format!(
            "{address} closed the connection without an answer, as the port for Kafka clients does; name the HTTP port \
             with {option}"
        ),
        None => format!("{address} does not speak HTTP; name the HTTP port with {option}"),
    }
}

fn split(answer: &[u8]) -> Option<(&str, &[u8])> {
    let end = memchr::memmem::find(answer, b"\r\n\r\n")?;
    let head = std::str::from_utf8(&answer[..end]).ok().filter(|head| head.starts_with("HTTP/"))?;
    Some((head, &answer[end + 4..]))
}

/// The start of an unexpected page, for the error.
fn text(body: &[u8]) -> String {
    const SHOWN: usize = 200;
    String::from_utf8_lossy(&body[..body.len().min(SHOWN)]).trim().replace(char::is_control, " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn head_and_body_are_told_apart() {
        assert_eq!(
            split(b"HTTP/1.0 200 OK\r\nA: b\r\n\r\n{}"),
            Some(("HTTP/1.0 200 OK\r\nA: b", &b"{}"[..]))
        );
        assert_eq!(split(b"INFO {}\r\n\r\n"), None);
        assert_eq!(split(b"HTTP/1.0 200 OK\r\n"), None);
    }
}
