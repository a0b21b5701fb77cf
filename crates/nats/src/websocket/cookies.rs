//! Credentials in cookies. A page that its server has logged in connects without showing them to its scripts.

use hyper::header::{COOKIE, HeaderMap};
use tailrace_config::BrokerConfig;
use tailrace_nats_wire::ConnectOptions;

/// Longest value of a cookie, in bytes. A token is the longest.
const VALUE_BYTES_MAX: usize = 16 * 1024;

/// The names of the cookies. Empty ones are not used.
#[derive(Clone, Debug)]
pub(super) struct CookieNames {
    jwt: String,
    user: String,
    pass: String,
    token: String,
}

/// What the cookies of a connection hold.
#[derive(Default)]
pub(crate) struct Cookies {
    jwt: Option<String>,
    user: Option<String>,
    pass: Option<String>,
    token: Option<String>,
}

impl CookieNames {
    pub(super) fn of(config: &BrokerConfig) -> Self {
        Self {
            jwt: config.tailrace_nats_websocket_jwt_cookie.clone(),
            user: config.tailrace_nats_websocket_user_cookie.clone(),
            pass: config.tailrace_nats_websocket_pass_cookie.clone(),
            token: config.tailrace_nats_websocket_token_cookie.clone(),
        }
    }

    /// Takes the values from the headers of a request.
    pub(super) fn read(&self, headers: &HeaderMap) -> Cookies {
        let value = |name: &str| value(headers, name).map(str::to_owned);
        Cookies {
            jwt: value(&self.jwt),
            user: value(&self.user),
            pass: value(&self.pass),
            token: value(&self.token),
        }
    }
}

/// Returns the first cookie of this name.
fn value<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    if name.is_empty() {
        return None;
    }
    let texts = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = texts.flat_map(|text| text.split(';')).filter_map(|pair| pair.trim().split_once('='));
    let (_, value) = pairs.find(|(known, _)| *known == name)?;
    let value = value.strip_prefix('"').and_then(|inner| inner.strip_suffix('"')).unwrap_or(value);
    Some(value).filter(|value| !value.is_empty() && value.len() <= VALUE_BYTES_MAX)
}

impl Cookies {
    /// Adds what a CONNECT leaves out.
    pub(crate) fn fill(&self, options: &mut ConnectOptions) {
        let fill = |field: &mut Option<String>, value: &Option<String>| {
            if field.as_ref().is_none_or(String::is_empty) && value.is_some() {
                field.clone_from(value);
            }
        };
        fill(&mut options.jwt, &self.jwt);
        fill(&mut options.user, &self.user);
        fill(&mut options.pass, &self.pass);
        fill(&mut options.auth_token, &self.token);
    }
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    fn names() -> CookieNames {
        let [jwt, user, pass, token] = ["j", "u", "p", ""].map(str::to_owned);
        CookieNames { jwt, user, pass, token }
    }

    fn read(cookies: &[&str]) -> ConnectOptions {
        let mut headers = HeaderMap::new();
        for text in cookies {
            headers.append(COOKIE, HeaderValue::from_str(text).unwrap());
        }
        let mut options = ConnectOptions { user: Some("said".to_owned()), ..ConnectOptions::default() };
        options.pass = Some(String::new());
        names().read(&headers).fill(&mut options);
        options
    }

    #[test]
    fn cookies_fill_what_connect_leaves_out() {
        let options = read(&["a=b; u=cookie;p=secret", "j=\"t\"; =x; j=other"]);
        assert_eq!(
            (options.user.as_deref(), options.pass.as_deref(), options.jwt.as_deref(), options.auth_token),
            (Some("said"), Some("secret"), Some("t"), None)
        );
    }

    #[test]
    fn what_is_no_cookie_is_nothing() {
        for text in
            ["", ";;;", "p", "pp=x", "P=x", "p=", "p=\"\"", &format!("p={}", "x".repeat(VALUE_BYTES_MAX + 1))]
        {
            assert_eq!(read(&[text]).pass.as_deref(), Some(""), "{text:?}");
        }
    }
}
