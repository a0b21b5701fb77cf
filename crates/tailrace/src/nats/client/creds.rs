//! A credentials file: the claims (JWT) of a user and the seed of the user's nkey, as `nsc` and the Go
//! library write them.

use std::io::Read;
use std::path::Path;

use tailrace_cli::failure::plain;
use zeroize::Zeroizing;

use super::nkey::Nkey;

/// Maximum length of a file: nats-server takes claims of 1 MiB at most.
const FILE_BYTES_MAX: u64 = 2 << 20;

/// How claims begin: `{"` in base64.
const CLAIMS_START: &str = "eyJ";

/// The claims, and the key that signs the server's nonce. Neither is ever shown.
pub(super) struct Credentials {
    claims: Zeroizing<String>,
    key: Nkey,
}

impl Credentials {
    /// Reads a file.
    pub(super) fn read(path: &Path) -> Result<Self, String> {
        let failed = |error| format!("cannot read {}: {}", path.display(), plain(&error));
        let mut text = Zeroizing::new(String::new());
        let file = std::fs::File::open(path).map_err(failed)?;
        file.take(FILE_BYTES_MAX).read_to_string(&mut text).map_err(failed)?;
        let missing = |what| format!("{} holds no {what}", path.display());
        let claims = line(&text, CLAIMS_START).ok_or_else(|| missing("claims (JWT) of a user"))?;
        let seed = line(&text, Nkey::SEED_START).and_then(Nkey::parse);
        let key = seed.ok_or_else(|| missing("user's nkey seed (SU and 56 more letters)"))?;
        Ok(Self { claims: Zeroizing::new(claims.to_owned()), key })
    }

    /// The claims.
    pub(super) fn claims(&self) -> &str {
        &self.claims
    }

    /// The signature of the server's nonce, in base64.
    pub(super) fn sign(&self, nonce: &str) -> String {
        self.key.sign(nonce)
    }
}

/// Finds the line that begins with a text.
fn line<'a>(text: &'a str, start: &str) -> Option<&'a str> {
    text.lines().map(str::trim).find(|line| line.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `jwt.FormatUserConfig` of the Go library writes it, with shorter claims.
    const FILE: &str = "-----BEGIN NATS USER JWT-----\neyJ0.eyJqdGkiOiJY.5RYQ\n------END NATS USER JWT------\n\n\
        ************************* IMPORTANT *************************\n\
        NKEY Seed printed below can be used to sign and prove identity.\n\
        NKEYs are sensitive and should be treated as secrets.\n\n-----BEGIN USER NKEY SEED-----\n\
        SUAAOBYHA4DQOBYHA4DQOBYHA4DQOBYHA4DQOBYHA4DQOBYHA4DQOBZ5FE\n------END USER NKEY SEED------\n\n\
        *************************************************************\n";

    fn read(text: &str) -> Result<Credentials, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("user.creds");
        std::fs::write(&path, text).unwrap();
        Credentials::read(&path)
    }

    #[test]
    fn claims_and_seed_are_found() {
        for text in [FILE.to_owned(), FILE.replace('\n', "\r\n")] {
            let credentials = read(&text).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(credentials.claims(), "eyJ0.eyJqdGkiOiJY.5RYQ");
            assert!(credentials.sign("nonce").starts_with("tGzA0mHx0G153n88JvBTKOaRWmSDzbp7"));
        }
    }

    #[test]
    fn a_file_without_one_of_them_is_refused_without_showing_the_other() {
        for (text, expected) in [
            (FILE.replace("eyJ0", "x"), "holds no claims"),
            (FILE.replace("SUAAO", "SUAAB"), "holds no user's nkey seed"),
            (String::new(), "holds no claims"),
        ] {
            let error = read(&text).err().expect("it is refused");
            assert!(error.contains(expected), "{error}");
            assert!(!error.contains("eyJ") && !error.contains("DQOBYHA4"), "{error}");
        }
        let error = Credentials::read(Path::new("/no/such/file")).err().expect("it is refused");
        assert!(error.starts_with("cannot read /no/such/file"), "{error}");
    }
}
