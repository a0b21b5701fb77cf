//! Which server the verbs connect to, and as which user.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use tailrace_cli::text::units::parse_duration;
use tailrace_nats_wire::ConnectOptions;

use super::address::ServerAddress;
use super::connection::Connection;
use super::creds::Credentials;
use super::error::NatsError;
use super::identity::{Identity, Security};
use super::nkey::Nkey;
use crate::client::TlsArguments;

/// The default server.
const SERVER: &str = "127.0.0.1:4222";
/// The environment variable of NATS's own tool, used if ours is not set.
const NATS_URL: &str = "NATS_URL";

/// Which server to connect to, as which user, and with which timeout.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Connection")]
pub(crate) struct ConnectArguments {
    /// Server to connect to, as HOST:PORT or nats://USER:PASSWORD@HOST:PORT; of several, the first that
    /// answers [default: NATS_URL, or 127.0.0.1:4222]
    #[arg(
        short,
        long,
        value_name = "ADDRESS",
        env = "TAILRACE_NATS_SERVER",
        hide_env_values = true,
        value_delimiter = ',',
        value_parser = ServerAddress::parse
    )]
    server: Vec<ServerAddress>,
    /// User name
    #[arg(long, value_name = "NAME", env = "NATS_USER", conflicts_with = "token")]
    user: Option<String>,
    /// Password of the user
    #[arg(long, env = "NATS_PASSWORD", hide_env_values = true, requires = "user")]
    password: Option<Secret>,
    /// Token, if the server has no users
    #[arg(long, env = "NATS_TOKEN", hide_env_values = true)]
    token: Option<Secret>,
    /// File with the seed of the user's nkey
    #[arg(long, value_name = "FILE", env = "NATS_NKEY", conflicts_with_all = ["user", "token"])]
    nkey: Option<PathBuf>,
    /// Credentials file with the claims (JWT) and the seed of a user; --user and --token may be given
    /// beside it, for an auth callout
    #[arg(long, value_name = "FILE", env = "NATS_CREDS", conflicts_with = "nkey")]
    creds: Option<PathBuf>,
    #[command(flatten)]
    tls: TlsArguments,
    /// Start with the TLS handshake, before the server's first line (tailrace.nats.tls.handshake.first)
    #[arg(long, requires = "tls_ca")]
    tls_first: bool,
    /// Name of this client, as monitoring shows it
    #[arg(long, value_name = "NAME", default_value = "tailrace-cli")]
    connection_name: String,
    /// Fail when the connection breaks, instead of reconnecting
    #[arg(long)]
    no_reconnect: bool,
    /// Longest wait for the server, or for a reply: 500ms, 5s, 1m
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_duration)]
    pub(crate) timeout: Duration,
}

impl ConnectArguments {
    pub(super) fn reconnects(&self) -> bool {
        !self.no_reconnect
    }

    /// Connects to the first server that answers.
    pub(crate) async fn open(&self) -> Result<Connection, NatsError> {
        let tls = self.tls.load().map_err(|error| NatsError::TlsFiles(error.to_string()))?;
        let tls = tls.map(|tls| Security { tls, first: self.tls_first });
        let nkey = self.nkey.as_deref().map(Nkey::read).transpose().map_err(NatsError::Nkey)?;
        let creds = self.creds.as_deref().map(Credentials::read).transpose().map_err(NatsError::Creds)?;
        let mut first_error = None;
        for address in self.servers()? {
            let (nkey, credentials) = (nkey.as_ref(), creds.as_ref());
            let who = Identity { options: self.options(&address), nkey, credentials };
            match Connection::open(&address, who, tls.as_ref(), self.timeout).await {
                Ok(connection) => return Ok(connection),
                Err(error) => first_error = first_error.or(Some(error)),
            }
        }
        Err(first_error.unwrap_or(NatsError::Connect {
            address: "any server".to_owned(),
            reason: "no address was given".to_owned(),
        }))
    }

    fn servers(&self) -> Result<Vec<ServerAddress>, NatsError> {
        if !self.server.is_empty() {
            return Ok(self.server.clone());
        }
        let url = std::env::var(NATS_URL).ok().filter(|url| !url.trim().is_empty());
        let list = url.as_deref().unwrap_or(SERVER).split(',').map(ServerAddress::parse);
        list.collect::<Result<_, _>>()
            .map_err(|reason| NatsError::Connect { address: format!("the servers of {NATS_URL}"), reason })
    }

    fn options(&self, address: &ServerAddress) -> ConnectOptions {
        let secret = |secret: &Option<Secret>| secret.as_ref().map(|secret| secret.0.clone());
        let (mut user, mut pass) = (self.user.clone(), secret(&self.password));
        let mut auth_token = secret(&self.token);
        if user.is_none() && auth_token.is_none() {
            match address.credentials.clone() {
                Some((name, Some(password))) => (user, pass) = (Some(name), Some(password)),
                Some((token, None)) => auth_token = Some(token),
                None => {}
            }
        }
        ConnectOptions {
            verbose: false,
            pedantic: false,
            echo: true,
            headers: true,
            no_responders: true,
            protocol: 1,
            name: self.connection_name.clone(),
            lang: "rust".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            user,
            pass,
            auth_token,
            ..ConnectOptions::default()
        }
    }
}

/// A value that must not appear in logs.
#[derive(Clone)]
struct Secret(String);

impl std::str::FromStr for Secret {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self(text.to_owned()))
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("...")
    }
}
