//! A client of SCRAM-SHA-256 that computes the slow hash once for each salt, so that it costs less than the
//! server.

use std::collections::HashMap;
use std::num::NonZeroU32;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use parking_lot::Mutex;
use ring::rand::{SecureRandom, SystemRandom};
use ring::{digest, hmac, pbkdf2};

use crate::Failure;

/// The number of iterations of the users that are made here: the least that Kafka accepts.
pub(crate) const ITERATIONS: u32 = 4096;

/// What a slow hash depends on, besides the password: salt and iterations.
type Slow = (Vec<u8>, u32);

/// A user, with the slow hashes that were computed.
pub(crate) struct User {
    name: String,
    password: String,
    salted: Mutex<HashMap<Slow, [u8; 32]>>,
}

/// A login that has begun.
pub(crate) struct Begun {
    bare: String,
}

pub(crate) fn salted(password: &str, salt: &[u8], iterations: u32) -> Result<[u8; 32], Failure> {
    let iterations = NonZeroU32::new(iterations).ok_or("no iterations")?;
    let mut salted = [0; 32];
    pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, iterations, salt, password.as_bytes(), &mut salted);
    Ok(salted)
}

fn mac(key: &[u8], text: &[u8]) -> hmac::Tag {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text)
}

impl User {
    pub(crate) fn new(name: &str, password: &str) -> Self {
        Self { name: name.to_owned(), password: password.to_owned(), salted: Mutex::default() }
    }

    /// Returns the first message.
    pub(crate) fn begin(&self) -> Result<(Begun, String), Failure> {
        let mut nonce = [0; 18];
        SystemRandom::new().fill(&mut nonce).map_err(|_| "no random numbers")?;
        let bare = format!("n={},r={}", self.name, STANDARD.encode(nonce));
        let first = format!("n,,{bare}");
        Ok((Begun { bare }, first))
    }

    /// Returns the last message, for the server's first.
    pub(crate) fn finish(&self, begun: &Begun, server: &str) -> Result<String, Failure> {
        let field = |name: &str| {
            let found = server.split(',').find_map(|part| part.strip_prefix(name));
            found.ok_or_else(|| format!("no {name} in {server}"))
        };
        let (nonce, salt, iterations) = (field("r=")?, STANDARD.decode(field("s=")?)?, field("i=")?.parse()?);
        let known = self.salted.lock().get(&(salt.clone(), iterations)).copied();
        let salted = match known {
            Some(salted) => salted,
            None => {
                let salted = salted(&self.password, &salt, iterations)?;
                self.salted.lock().insert((salt, iterations), salted);
                salted
            }
        };
        let client_key = mac(&salted, b"Client Key");
        let stored_key = digest::digest(&digest::SHA256, client_key.as_ref());
        let without_proof = format!("c=biws,r={nonce}");
        let signed = mac(stored_key.as_ref(), format!("{},{server},{without_proof}", begun.bare).as_bytes());
        let proof: Vec<u8> =
            client_key.as_ref().iter().zip(signed.as_ref()).map(|(key, sign)| key ^ sign).collect();
        Ok(format!("{without_proof},p={}", STANDARD.encode(proof)))
    }
}
