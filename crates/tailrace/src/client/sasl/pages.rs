//! The login at the HTTP pages: the same name and password, by basic authentication (RFC 7617).

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

use super::login::Login;

/// What a request for a page presents. It is never printed, and erased when it is dropped.
#[derive(Clone)]
pub(crate) struct PageLogin(Arc<Zeroizing<String>>);

impl PageLogin {
    /// # Errors
    /// Pages do not take this login.
    pub(crate) fn new(login: &Login) -> Result<Self, &'static str> {
        if login.is_token {
            return Err("the HTTP pages do not take delegation tokens: name a user and the password");
        }
        if login.user.contains(':') {
            return Err("the HTTP pages cannot tell a user with a colon in the name from the password");
        }
        let (user, password) = (login.user.as_bytes(), login.password.bytes());
        let mut both = Zeroizing::new(Vec::with_capacity(user.len() + 1 + password.len()));
        for part in [user, b":", password] {
            both.extend_from_slice(part);
        }
        Ok(Self(Arc::new(Zeroizing::new(STANDARD.encode(&*both)))))
    }

    /// The value of the header Authorization.
    pub(crate) fn header(&self) -> Zeroizing<String> {
        Zeroizing::new(format!("Basic {}", self.0.as_str()))
    }
}
