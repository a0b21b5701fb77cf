//! The login to a NATS server: with a password, a token, an nkey, or a JWT and its key.
//!
//! Settings: `user` and `password`; or `token`; or `nkey` (a seed); or `creds` (the content of a credentials
//! file). With `tls-first=true` the TLS handshake comes before the server's first line.

use serde_json::{Value, json};

use super::nkey::{UserKey, credentials};
use super::settings::Settings;
use super::site::Site;
use crate::error::RequesterError;

/// How a user authenticates.
enum Proof {
    Nothing,
    Password { user: String, password: String },
    Token(String),
    Key(UserKey),
    Jwt(String, UserKey),
}

pub(super) struct Login {
    proof: Proof,
    pub(super) tls_first: bool,
}

impl Login {
    /// Takes its settings out of `settings`.
    pub(super) fn take(site: &Site, settings: &mut Settings) -> Result<Self, RequesterError> {
        let unsupported = |reason: &str| Err(RequesterError::Unsupported(reason.to_owned()));
        let tls_first = match settings.take("tls-first").as_deref() {
            None | Some("false") => false,
            Some("true") if site.has_tls() => true,
            Some("true") => return unsupported("tls-first requires tls-ca or tls=unchecked"),
            Some(other) => return unsupported(&format!("tls-first={other}: expected true or false")),
        };
        let password = (settings.take("user"), settings.take("password"));
        let others = ["token", "nkey", "creds"].map(|key| settings.take(key));
        let proof = match (password, others) {
            ((None, None), [None, None, None]) => Proof::Nothing,
            ((Some(user), Some(password)), [None, None, None]) => Proof::Password { user, password },
            ((Some(_), None) | (None, Some(_)), [None, None, None]) => {
                return unsupported("user and password go together");
            }
            ((None, None), [Some(token), None, None]) => Proof::Token(token),
            ((None, None), [None, Some(seed), None]) => match UserKey::from_seed(&seed) {
                Some(key) => Proof::Key(key),
                None => return unsupported("nkey is not a user's seed: expected SU and 56 more letters"),
            },
            ((None, None), [None, None, Some(text)]) => {
                let found = credentials(&text);
                match found.and_then(|(jwt, seed)| Some((jwt, UserKey::from_seed(seed)?))) {
                    Some((jwt, key)) => Proof::Jwt(jwt.to_owned(), key),
                    None => return unsupported("creds holds no JWT with the seed of a user"),
                }
            }
            _ => return unsupported("expected one of user and password, token, nkey, creds"),
        };
        Ok(Self { proof, tls_first })
    }

    /// Reports whether the server must first send a nonce to sign.
    pub(super) fn needs_nonce(&self) -> bool {
        matches!(self.proof, Proof::Key(_) | Proof::Jwt(..))
    }

    /// The options of CONNECT.
    pub(super) fn hello(&self, nonce: &str) -> Value {
        let mut hello = json!({
            "verbose": false, "pedantic": false, "lang": "rust", "version": "0", "name": "tailrace bench",
            "protocol": 1, "headers": true, "no_responders": true,
        });
        match &self.proof {
            Proof::Nothing => {}
            Proof::Password { user, password } => {
                hello["user"] = json!(user);
                hello["pass"] = json!(password);
            }
            Proof::Token(token) => hello["auth_token"] = json!(token),
            Proof::Key(key) => {
                hello["nkey"] = json!(key.public());
                hello["sig"] = json!(key.sign(nonce));
            }
            Proof::Jwt(jwt, key) => {
                hello["jwt"] = json!(jwt);
                hello["sig"] = json!(key.sign(nonce));
            }
        }
        hello
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEED: &str = "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY";

    fn take(values: &[(&str, &str)]) -> Result<Login, String> {
        let values = values.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let mut settings = Settings::new(values);
        let site = Site::new("h:1".to_owned(), &mut settings).unwrap();
        let login = Login::take(&site, &mut settings).map_err(|error| error.to_string())?;
        settings.finish("nats").unwrap();
        Ok(login)
    }

    #[test]
    fn what_is_said() {
        assert!(take(&[]).unwrap().hello("n").get("user").is_none());
        let hello = take(&[("user", "a\"b"), ("password", "c")]).unwrap().hello("n");
        assert_eq!((&hello["user"], &hello["pass"]), (&json!("a\"b"), &json!("c")));
        assert_eq!(take(&[("token", "t")]).unwrap().hello("n")["auth_token"], "t");
        let key = take(&[("nkey", SEED)]).unwrap();
        assert!(key.needs_nonce() && key.hello("n")["nkey"].as_str().unwrap().starts_with('U'));
        assert_ne!(key.hello("n")["sig"], key.hello("m")["sig"]);
        let text = format!("-----BEGIN NATS USER JWT-----\nj\n-----BEGIN USER NKEY SEED-----\n{SEED}\n");
        let hello = take(&[("creds", &text)]).unwrap().hello("n");
        assert_eq!((&hello["jwt"], &hello["sig"]), (&json!("j"), &key.hello("n")["sig"]));
    }

    #[test]
    fn what_does_not_go_together() {
        for (values, expected) in [
            (&[("user", "a")][..], "user and password go together"),
            (&[("token", "a"), ("nkey", SEED)], "expected one of user and password, token, nkey, creds"),
            (&[("nkey", "SUAC")], "nkey is not a user's seed"),
            (&[("creds", "x")], "creds holds no JWT"),
            (&[("tls-first", "true")], "tls-first requires tls-ca"),
            (&[("tls", "unchecked"), ("tls-first", "maybe")], "tls-first=maybe"),
        ] {
            let error = take(values).err().unwrap();
            assert!(error.contains(expected) && !error.contains("SUAC"), "{error}");
        }
    }
}
