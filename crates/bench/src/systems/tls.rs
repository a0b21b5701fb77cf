//! TLS to a system: which authorities to trust, and which certificate to present.
//!
//! The settings are the same for every system that supports TLS: `tls-ca` (a PEM file; turns on TLS, and
//! trusts only servers with a certificate of these authorities), `tls-name` (the name that the certificate
//! must contain, if it is not the address's), `tls-cert` and `tls-key` (the certificate to present if the
//! server demands one), and `tls=unchecked` (encrypted, with any server). Files are read where connections
//! are made. Deliberately absent: the machine's own authorities.

use std::sync::Arc;

use rustls::client::WantsClientCert;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, ConfigBuilder, RootCertStore, WantsVerifier};

use super::settings::Settings;
use crate::error::RequesterError;
use crate::remote::AnyCertificate;

/// Creates TLS connections; one for all connections of a run.
#[derive(Clone)]
pub(super) struct Tls {
    config: Arc<ClientConfig>,
    name: Option<ServerName<'static>>,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Tls")
    }
}

impl Tls {
    /// Reads settings and files. `None` if TLS was not requested.
    pub(super) fn take(settings: &mut Settings) -> Result<Option<Self>, RequesterError> {
        let unchecked = match settings.take("tls").as_deref() {
            None => false,
            Some("unchecked") => true,
            Some(other) => {
                return unsupported(format!(
                    "tls={other} is unknown: expected tls-ca=FILE, or tls=unchecked to trust any server"
                ));
            }
        };
        let authorities = settings.take("tls-ca");
        let shown = (settings.take("tls-cert"), settings.take("tls-key"));
        let name = settings.take("tls-name");
        let builder = match (unchecked, authorities) {
            (true, None) => unchecked_servers(builder()?),
            (true, Some(_)) => return unsupported("tls-ca and tls=unchecked exclude each other".to_owned()),
            (false, Some(file)) => servers_of(builder()?, &file)?,
            (false, None) if shown.0.is_some() || shown.1.is_some() || name.is_some() => {
                return unsupported(
                    "tls-cert, tls-key and tls-name require tls-ca or tls=unchecked".to_owned(),
                );
            }
            (false, None) => return Ok(None),
        };
        let config = match shown {
            (None, None) => builder.with_no_client_auth(),
            (Some(certificate), Some(key)) => with_certificate(builder, &certificate, &key)?,
            _ => return unsupported("tls-cert and tls-key go together".to_owned()),
        };
        let name = name.map(|name| server_name(&name)).transpose()?;
        Ok(Some(Self { config: Arc::new(config), name }))
    }

    /// Starts a handshake with the server at `address` (`HOST:PORT`).
    pub(super) fn begin(&self, address: &str) -> Result<ClientConnection, RequesterError> {
        let name = match &self.name {
            Some(name) => name.clone(),
            None => server_name(host(address))?,
        };
        ClientConnection::new(Arc::clone(&self.config), name)
            .map_err(|error| RequesterError::Unsupported(format!("TLS to {address}: {error}")))
    }
}

/// The host of `HOST:PORT`, without the brackets of IPv6.
fn host(address: &str) -> &str {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    host.trim_start_matches('[').trim_end_matches(']')
}

fn builder() -> Result<ConfigBuilder<ClientConfig, WantsVerifier>, RequesterError> {
    ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| RequesterError::Unsupported(format!("TLS: {error}")))
}

fn unchecked_servers(
    builder: ConfigBuilder<ClientConfig, WantsVerifier>,
) -> ConfigBuilder<ClientConfig, WantsClientCert> {
    let anybody = AnyCertificate(Arc::new(default_provider()));
    builder.dangerous().with_custom_certificate_verifier(Arc::new(anybody))
}

fn servers_of(
    builder: ConfigBuilder<ClientConfig, WantsVerifier>,
    file: &str,
) -> Result<ConfigBuilder<ClientConfig, WantsClientCert>, RequesterError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates("tls-ca", file)? {
        roots.add(certificate).map_err(|error| unusable("tls-ca", file, &error))?;
    }
    Ok(builder.with_root_certificates(roots))
}

fn with_certificate(
    builder: ConfigBuilder<ClientConfig, WantsClientCert>,
    certificate: &str,
    key: &str,
) -> Result<ClientConfig, RequesterError> {
    let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| unusable("tls-key", key, &error))?;
    builder
        .with_client_auth_cert(certificates("tls-cert", certificate)?, secret)
        .map_err(|error| unusable("tls-cert", certificate, &error))
}

fn certificates(setting: &str, file: &str) -> Result<Vec<CertificateDer<'static>>, RequesterError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_file_iter(file).and_then(Iterator::collect);
    match found {
        Ok(found) if found.is_empty() => {
            Err(unusable(setting, file, &"there is no certificate in it (expected PEM)"))
        }
        Ok(found) => Ok(found),
        Err(error) => Err(unusable(setting, file, &error)),
    }
}

fn server_name(name: &str) -> Result<ServerName<'static>, RequesterError> {
    ServerName::try_from(name.to_owned())
        .map_err(|error| RequesterError::Unsupported(format!("'{name}' is not a server name: {error}")))
}

fn unusable(setting: &str, file: &str, reason: &dyn std::fmt::Display) -> RequesterError {
    RequesterError::Unsupported(format!("{setting}: cannot use {file}: {reason}"))
}

fn unsupported<T>(reason: String) -> Result<T, RequesterError> {
    Err(RequesterError::Unsupported(reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(values: &[(&str, &str)]) -> Result<Option<Tls>, String> {
        let values = values.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        Tls::take(&mut Settings::new(values)).map_err(|error| error.to_string())
    }

    #[test]
    fn settings_that_do_not_fit() {
        assert!(take(&[]).unwrap().is_none());
        assert!(take(&[("tls", "unchecked")]).unwrap().is_some());
        for (values, expected) in [
            (&[("tls", "on")][..], "tls=on is unknown: expected tls-ca=FILE"),
            (&[("tls", "unchecked"), ("tls-ca", "x")], "exclude each other"),
            (&[("tls-name", "x")], "require tls-ca"),
            (&[("tls", "unchecked"), ("tls-cert", "x")], "tls-cert and tls-key go together"),
            (&[("tls", "unchecked"), ("tls-name", "not a name")], "'not a name' is not a server name"),
            (&[("tls-ca", "/nowhere")], "tls-ca: cannot use /nowhere: "),
            (&[("tls-ca", "/dev/null")], "there is no certificate in it"),
            (
                &[("tls", "unchecked"), ("tls-cert", "/nowhere"), ("tls-key", "/no")],
                "tls-key: cannot use /no: ",
            ),
        ] {
            let error = take(values).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn hosts() {
        for (address, expected) in [("a.b:4222", "a.b"), ("[::1]:4222", "::1"), ("127.0.0.1:1", "127.0.0.1")]
        {
            assert_eq!(host(address), expected);
            server_name(expected).unwrap();
        }
    }
}
