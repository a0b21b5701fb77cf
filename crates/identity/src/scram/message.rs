//! The four messages of SCRAM (RFC 5802, section 7), parsed strictly.
//!
//! Each message has one form only: what was parsed is written with the same bytes. So what a client signs is
//! what the server has understood, to the last byte.

use core::fmt::{self, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

pub(super) use super::bounds::{MESSAGE_BYTES_MAX, NONCE_BYTES_MAX};
use super::errors::ScramError;
use super::verifier::check;
use crate::names::UserName;

/// Maximum length of a value in base64, in bytes of text. It is that of a salt of 255 bytes.
const BASE64_BYTES_MAX: usize = 340;

/// The only extension: the user is the id of a delegation token (KIP-48).
const TOKEN: &str = "tokenauth=true";

/// The client's first message: `n,[a=USER],n=USER,r=NONCE[,tokenauth=true]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientFirst {
    /// The user, or the id of a token.
    pub user: UserName,
    /// The client's part of the nonce.
    pub nonce: String,
    /// Whether the message names the user to act as. If so, it is the same user.
    pub has_authzid: bool,
    /// Whether the user is the id of a delegation token.
    pub is_token: bool,
}

impl ClientFirst {
    /// Parses the message.
    ///
    /// # Errors
    /// It does not have its form, asks for channel binding or an unknown extension, or names another user to
    /// act as.
    pub fn parse(message: &[u8]) -> Result<Self, ScramError> {
        let text = text(message)?;
        let (binding, rest) = text.split_once(',').ok_or(expected("the header n,,"))?;
        match binding {
            "n" => {}
            "y" => return Err(ScramError::ChannelBinding),
            _ if binding.starts_with("p=") => return Err(ScramError::ChannelBinding),
            _ => return Err(expected("the header n,,")),
        }
        let (authzid, bare) = rest.split_once(',').ok_or(expected("the header n,,"))?;
        let mut attributes = Attributes(Some(bare));
        let escaped = attributes.next("n=")?;
        let user = UserName::new(&unescaped(escaped)?)?;
        let nonce = nonce(attributes.next("r=")?, NONCE_BYTES_MAX / 2)?;
        let is_token = attributes.0 == Some(TOKEN);
        if !is_token {
            attributes.end()?;
        }
        match authzid.strip_prefix("a=") {
            Some(authzid) if authzid == escaped => {}
            Some("") => return Err(expected("a user's name after a=")),
            Some(_) => return Err(ScramError::OtherUser),
            None if authzid.is_empty() => {}
            None => return Err(expected("a= and a user's name, or nothing")),
        }
        Ok(Self { user, nonce, has_authzid: !authzid.is_empty(), is_token })
    }

    /// Returns the header of GS2, which the client's final message repeats: `n,[a=USER],`.
    pub(crate) fn gs2_header(&self) -> String {
        if self.has_authzid { format!("n,a={},", Escaped(&self.user)) } else { "n,,".to_owned() }
    }

    /// Returns the message without the header: the part that is signed.
    pub fn bare(&self) -> String {
        let token = if self.is_token { format!(",{TOKEN}") } else { String::new() };
        format!("n={},r={}{token}", Escaped(&self.user), self.nonce)
    }

    /// Returns the whole message.
    pub fn message(&self) -> String {
        self.gs2_header() + &self.bare()
    }
}

/// The server's first message, the challenge: `r=NONCE,s=SALT,i=ITERATIONS`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerFirst {
    /// The client's part of the nonce and the server's. A client must check that it starts with its own part.
    pub nonce: String,
    /// The salt.
    pub salt: Box<[u8]>,
    /// The number of iterations.
    pub iterations: u32,
}

impl ServerFirst {
    /// Parses the message.
    ///
    /// # Errors
    /// It does not have its form, or the salt or the number of iterations is out of its range.
    pub fn parse(message: &[u8]) -> Result<Self, ScramError> {
        let mut attributes = Attributes(Some(text(message)?));
        let nonce = nonce(attributes.next("r=")?, NONCE_BYTES_MAX)?;
        let salt = decoded(attributes.next("s=")?)?;
        let iterations = number(attributes.next("i=")?).ok_or(expected("a number of iterations"))?;
        attributes.end()?;
        check(&salt, iterations)?;
        Ok(Self { nonce, salt: salt.as_slice().into(), iterations })
    }

    /// Returns the message.
    pub fn message(&self) -> String {
        format!("r={},s={},i={}", self.nonce, STANDARD.encode(&self.salt), self.iterations)
    }
}

/// The client's final message: `c=HEADER,r=NONCE,p=PROOF`. It has no `Debug`: together with a stolen verifier
/// the proof is enough to log in.
pub struct ClientFinal {
    /// The header of GS2 of the client's first message, in base64.
    pub channel_binding: String,
    /// The whole nonce.
    pub nonce: String,
    /// The proof. Its length is not checked yet.
    pub proof: Zeroizing<Vec<u8>>,
}

impl ClientFinal {
    /// Parses the message.
    ///
    /// # Errors
    /// It does not have its form. The values are not compared with those of the other messages yet.
    pub fn parse(message: &[u8]) -> Result<Self, ScramError> {
        let mut attributes = Attributes(Some(text(message)?));
        let channel_binding = attributes.next("c=")?.to_owned();
        let nonce = nonce(attributes.next("r=")?, NONCE_BYTES_MAX)?;
        let proof = decoded(attributes.next("p=")?)?;
        attributes.end()?;
        Ok(Self { channel_binding, nonce, proof })
    }

    /// Returns the message without the proof: the part that is signed.
    pub fn without_proof(&self) -> String {
        format!("c={},r={}", self.channel_binding, self.nonce)
    }

    /// Returns the whole message.
    pub fn message(&self) -> String {
        format!("{},p={}", self.without_proof(), STANDARD.encode(&self.proof))
    }
}

/// The server's final message, by which it proves to know the verifier: `v=SIGNATURE`.
pub struct ServerFinal {
    /// The signature.
    pub signature: Zeroizing<Vec<u8>>,
}

impl ServerFinal {
    /// Parses the message.
    ///
    /// # Errors
    /// It does not have its form. An error of the server (`e=`) does not have it.
    pub fn parse(message: &[u8]) -> Result<Self, ScramError> {
        let mut attributes = Attributes(Some(text(message)?));
        let signature = decoded(attributes.next("v=")?)?;
        attributes.end()?;
        Ok(Self { signature })
    }

    /// Returns the message.
    pub fn message(&self) -> String {
        format!("v={}", STANDARD.encode(&self.signature))
    }
}

/// The attributes of a message that are not parsed yet, with commas between them. `None` after the last one.
struct Attributes<'a>(Option<&'a str>);

impl<'a> Attributes<'a> {
    /// Returns the value of the next attribute, which must start with `name` and must not be empty.
    fn next(&mut self, name: &'static str) -> Result<&'a str, ScramError> {
        let rest = self.0.ok_or(expected(name))?;
        let (attribute, rest) = match rest.split_once(',') {
            Some((attribute, rest)) => (attribute, Some(rest)),
            None => (rest, None),
        };
        let value = match attribute.strip_prefix(name) {
            Some(value) if !value.is_empty() => value,
            _ if attribute.starts_with("m=") => return Err(ScramError::MandatoryExtension),
            _ => return Err(expected(name)),
        };
        self.0 = rest;
        Ok(value)
    }

    /// Checks that no attribute is left.
    fn end(&self) -> Result<(), ScramError> {
        match self.0 {
            None => Ok(()),
            Some(rest) if rest.starts_with("m=") => Err(ScramError::MandatoryExtension),
            Some(_) => Err(ScramError::Extension),
        }
    }
}

fn expected(expected: &'static str) -> ScramError {
    ScramError::Expected { expected }
}

fn text(message: &[u8]) -> Result<&str, ScramError> {
    if message.len() > MESSAGE_BYTES_MAX {
        return Err(ScramError::TooLong { found: message.len() });
    }
    str::from_utf8(message).map_err(|_| ScramError::NotUtf8)
}

fn nonce(text: &str, bytes_max: usize) -> Result<String, ScramError> {
    let is_legal = text.len() <= bytes_max && text.bytes().all(|b| b.is_ascii_graphic());
    if is_legal { Ok(text.to_owned()) } else { Err(ScramError::Nonce) }
}

/// Decodes base64. Only one text is legal for the same bytes: with padding, and without stray bits.
fn decoded(text: &str) -> Result<Zeroizing<Vec<u8>>, ScramError> {
    if text.len() > BASE64_BYTES_MAX {
        return Err(ScramError::Base64);
    }
    STANDARD.decode(text).map(Zeroizing::new).map_err(|_| ScramError::Base64)
}

/// Parses a decimal number without sign and without leading zeros.
fn number(text: &str) -> Option<u32> {
    let is_legal = text.bytes().all(|b| b.is_ascii_digit()) && !text.starts_with('0');
    if is_legal { text.parse().ok() } else { None }
}

/// Decodes `=2C` and `=3D` in a name.
fn unescaped(text: &str) -> Result<String, ScramError> {
    let mut parts = text.split('=');
    let mut name = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (c, rest) = if let Some(rest) = part.strip_prefix("2C") {
            (',', rest)
        } else if let Some(rest) = part.strip_prefix("3D") {
            ('=', rest)
        } else {
            return Err(ScramError::Escape);
        };
        name.push(c);
        name.push_str(rest);
    }
    Ok(name)
}

/// Writes a name with `=2C` and `=3D` for comma and equals sign.
struct Escaped<'a>(&'a UserName);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_str().chars().try_for_each(|c| match c {
            ',' => f.write_str("=2C"),
            '=' => f.write_str("=3D"),
            c => f.write_char(c),
        })
    }
}
