//! Users from settings and files, and the checks of what clients present.

use std::sync::Arc;

use crate::{Check, Credential, CredentialError, Denied, User, Users};

const RANDOM: [u8; 48] = [7; 48];

/// The user, or why access is denied, and whether that took a slow check.
struct Checked {
    user: Result<Arc<User>, Denied>,
    slowly: bool,
}

fn check(users: &Users, credential: Credential<'_>) -> Checked {
    match users.check(&credential) {
        Check::Done(user) => Checked { user, slowly: false },
        Check::Slow(slow) => Checked { user: slow.run(), slowly: true },
    }
}

fn password<'a>(user: &'a str, password: &'a str) -> Credential<'a> {
    Credential::Password { user, password }
}

fn name(user: &User) -> &str {
    user.name().map_or("", |name| name)
}

#[test]
fn a_user_needs_the_password_and_what_is_wrong_is_said_to_the_log() {
    let mut users = Users::new(RANDOM);
    assert!(!users.is_needed());
    users.set_password("alice", "sesame").unwrap();
    users.set_token("t0ken").unwrap();
    assert!(users.is_needed() && users.has_users() && users.has_token() && !users.has_keys());
    for (credential, expected) in [
        (password("alice", "sesame"), Ok("alice")),
        (password("alice", "sesam"), Err(Denied::WrongSecret)),
        (password("alice", "t0ken"), Err(Denied::WrongSecret)),
        (password("alice", ""), Err(Denied::WrongSecret)),
        (password("bob", "sesame"), Err(Denied::Unknown)),
        (Credential::Token("t0ken"), Ok("token")),
        (Credential::Token("sesame"), Err(Denied::WrongSecret)),
    ] {
        let found = check(&users, credential);
        assert_eq!(found.user.as_deref().map(name).map_err(|denied| *denied), expected, "{credential:?}");
        assert!(!found.slowly);
    }
    let other = Users::new(RANDOM);
    assert_eq!(check(&other, Credential::Token("t0ken")).user, Err(Denied::Unknown));
    let shown = format!("{users:?} {:?}", password("alice", "sesame"));
    assert!(!shown.contains("sesame") && !shown.contains("t0ken"), "{shown}");
}

#[test]
fn bcrypt_hashes_of_every_kind_are_checked_slowly_and_what_was_accepted_is_remembered() {
    let hash = bcrypt::hash_with_result("sesame", 4).unwrap();
    for version in [bcrypt::Version::TwoA, bcrypt::Version::TwoB, bcrypt::Version::TwoY] {
        let text = hash.format_for_version(version);
        let mut users = Users::new(RANDOM);
        users.set_password("alice", &text).unwrap();
        let said = |presented, user| {
            let found = check(&users, password(user, presented));
            (found.user.is_ok(), found.slowly)
        };
        assert_eq!(said("sesamE", "alice"), (false, true));
        // The hash itself is not the password.
        assert_eq!(said(&text, "alice"), (false, true));
        assert_eq!(said("sesame", "alice"), (true, true));
        assert_eq!(said("sesame", "alice"), (true, false));
        assert_eq!(said("sesamE", "alice"), (false, true));
        assert_eq!(said(&"x".repeat(5000), "alice"), (false, false));
    }
}

/// A client that guesses names learns nothing from the time a check takes, nor from trying twice.
#[test]
fn an_unknown_user_is_looked_up_as_slowly_as_the_slowest_one_each_time() {
    let hash = bcrypt::hash_with_result("sesame", 4).unwrap().to_string();
    let mut users = Users::new(RANDOM);
    users.set_password("quick", "plain").unwrap();
    users.set_password("slow", &hash).unwrap();
    for presented in ["wrong", "sesame", "sesame", "plain"] {
        let found = check(&users, password("mallory", presented));
        assert_eq!((found.user, found.slowly), (Err(Denied::Unknown), true), "{presented}");
    }
}

#[test]
fn a_key_must_sign_this_connections_nonce() {
    use base64::Engine;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    let (pair, other) = (nkeys::KeyPair::new_user(), nkeys::KeyPair::new_user());
    let mut users = Users::new(RANDOM);
    users.set_key(&pair.public_key()).unwrap();
    assert!(users.has_keys());
    let signed = |pair: &nkeys::KeyPair| URL_SAFE_NO_PAD.encode(pair.sign(b"nonce").unwrap());
    let (own, others) = (pair.public_key(), other.public_key());
    for (key, signature, nonce, expected) in [
        (&own, signed(&pair), "nonce", Ok(own.as_str())),
        (&own, signed(&pair), "another", Err(Denied::WrongSignature)),
        (&own, signed(&pair), "", Err(Denied::WrongSignature)),
        (&own, signed(&other), "nonce", Err(Denied::WrongSignature)),
        (&own, String::new(), "nonce", Err(Denied::WrongSignature)),
        (&others, signed(&other), "nonce", Err(Denied::Unknown)),
    ] {
        let found = check(&users, Credential::Signature { key, nonce, signature: &signature });
        assert_eq!(found.user.as_deref().map(name).map_err(|denied| *denied), expected);
    }
    assert_eq!(check(&users, password(&own, "x")).user, Err(Denied::Unknown), "it has no password");
}

#[test]
fn keys_that_are_none_are_refused_and_seeds_not_shown() {
    let pair = nkeys::KeyPair::new_user();
    let (key, seed) = (pair.public_key(), pair.seed().unwrap());
    let mut changed = key.clone().into_bytes();
    changed[20] = if changed[20] == b'A' { b'B' } else { b'A' };
    for (text, expected) in [
        (seed.clone(), CredentialError::Seed),
        (nkeys::KeyPair::new_account().public_key(), CredentialError::NotAUsersKey),
        (String::from_utf8(changed).unwrap(), CredentialError::Checksum),
        (key[..55].to_owned(), CredentialError::NotAKey),
        (key.to_lowercase(), CredentialError::NotAKey),
    ] {
        let error = Users::new(RANDOM).set_key(&text).unwrap_err();
        assert!(!error.to_string().contains(&seed), "{error}");
        assert_eq!(error, expected);
    }
}

/// A rule for `User:*` is one for everybody, so nobody can have that name.
#[test]
fn no_user_is_called_as_everybody_is_in_rules() {
    let named = |name: &str| Users::new(RANDOM).set_password(name, "p");
    assert_eq!(named("*"), Err(CredentialError::Everybody));
    assert_eq!(named("a\nb"), Err(CredentialError::Control));
    assert_eq!(named("a*"), Ok(()));
    let file = "[[users]]\nuser = \"*\"\npassword = \"p\"\n";
    let error = Users::new(RANDOM).read(file).unwrap_err();
    assert!(error.line == 2 && error.reason.contains("stands for everybody in rules"), "{error}");
}

#[test]
fn secrets_that_protect_nothing_are_refused() {
    let named = |text: &str| Users::new(RANDOM).set_password("alice", text).unwrap_err();
    assert_eq!(named(""), CredentialError::Empty);
    assert_eq!(named("$2b$10$short"), CredentialError::NotBcrypt);
    for cost in [3, 17] {
        let hash = format!("$2b${cost:02}${}", "a".repeat(53));
        assert_eq!(named(&hash), CredentialError::Cost { cost, cost_min: 4, cost_max: 16 });
    }
}

#[test]
fn errors_in_the_file_name_line_and_key_and_no_secret() {
    let nkey = nkeys::KeyPair::new_user().public_key();
    let user = "[[users]]\nuser = \"a\"\npassword = \"s3cret\"\n";
    for (text, line, part) in [
        ("", 1, "users: there are none"),
        ("users = 3", 1, "expected a sequence"),
        ("[[users]]\nuser = \"a\"\npasword = \"s3cret\"", 3, "unknown field `pasword`"),
        ("[[users]]\nuser = \"a\"", 2, "password: it is missing"),
        ("[[users]]\nuser = \"a\"\npassword = 9151", 3, "a string in quotes"),
        ("[[users]]\nuser = \"a\"\npassword = \"\"", 3, "password: it must not be empty"),
        ("[[users]]\nuser = \"a\"\npassword = \"$2b$99$s3cret\"", 3, "bcrypt"),
        ("[[users]]\nuser = \"a\"\npassword = \"s3cret", 3, ""),
        ("[[users]]\nuser = \"\"\npassword = \"s3cret\"", 2, "user: it must not be empty"),
        ("[[users]]\npassword = \"s3cret\"", 1, "user or nkey is missing"),
        (&format!("[[users]]\nnkey = \"{nkey}\"\npassword = \"s3cret\""), 2, "either an nkey"),
        ("[[users]]\nnkey = \"UABC\"", 2, "nkey: expected a public user nkey"),
        (&format!("{user}{user}"), 5, "a is defined twice"),
        (&format!("no_auth_user = \"b\"\n{user}"), 1, "no_auth_user: there is no such user"),
        (&format!("{user}publish = {{ allow = [\n\"a\",\n\"b..c\"] }}"), 6, "users.publish.allow: \"b..c\""),
        (&format!("{user}publish = {{ deny = [\"a.>.b\"] }}"), 4, "users.publish.deny"),
        (&format!("{user}publish = {{ allow = [\"a q\"] }}"), 4, "only subscriptions have queue groups"),
        (&format!("{user}subscribe = {{ allow = [\"a q r\"] }}"), 4, "not a valid subject"),
        (&format!("{user}subscribe = {{ allow = [] }}"), 4, "ambiguous"),
        (&format!("{user}subscribe = {{ }}"), 4, "says nothing"),
        (&format!("{user}allowed_connection_types = [\"TELNET\"]"), 4, "\"TELNET\" is no kind of connection"),
        (&format!("{user}allowed_connection_types = []"), 4, "it must name a kind"),
        (&format!("{user}subscribe = {{ permit = [\"a\"] }}"), 4, "unknown field `permit`"),
        (&format!("{user}allow_responses = 3"), 4, "expected true, false, or a table"),
        (&format!("{user}allow_responses = {{ max = 0 }}"), 4, "max: 0"),
        (&format!("{user}allow_responses = {{ expires = \"soon\" }}"), 4, "expires: \"soon\""),
        (
            &format!("[default_permissions]\npublish = {{ allow = [\"\"] }}\n{user}"),
            2,
            "default_permissions.publish.allow",
        ),
    ] {
        let error = Users::new(RANDOM).read(text).expect_err(text);
        assert!(error.line == line && error.reason.contains(part), "{text}\n{error}");
        assert!(!error.reason.contains("s3cret") && !error.reason.contains("9151"), "{error}");
    }
}

#[test]
fn defaults_are_for_users_without_rules_and_somebody_may_stand_for_those_who_present_nothing() {
    let text = r#"
no_auth_user = "guest"
[default_permissions]
subscribe = { allow = ["public.>"] }
publish = { deny = [">"] }
[[users]]
user = "guest"
password = "never used"
[[users]]
user = "own"
password = "p"
publish = { allow = ["x"] }
allow_responses = { max = -1, expires = "2m" }
"#;
    let mut users = Users::new(RANDOM);
    users.read(text).unwrap();
    let guest = users.guest().unwrap();
    let rules = guest.rules().unwrap();
    assert_eq!(name(guest), "guest");
    assert!(rules.may_subscribe(b"public.a", None) && !rules.may_subscribe(b"a", None));
    assert!(!rules.may_publish(b"a") && rules.responses().is_none());
    let own = check(&users, password("own", "p")).user.unwrap();
    let rules = own.rules().unwrap();
    assert!(rules.may_publish(b"x") && !rules.may_publish(b"y") && rules.may_subscribe(b"a", None));
    let limits = rules.responses().unwrap();
    assert_eq!((limits.max, limits.expires_ms), (None, Some(120_000)));
}

#[test]
fn accounts_of_the_file_are_checked_against_each_other_and_users_belong_to_them() {
    const USER: &str = "[[users]]\nuser = \"a\"\npassword = \"p\"\n";
    for (accounts, line, reason) in [
        ("[[accounts]]\nname = \"A.B\"\n", 2, "accounts.name: an account's name must be one word"),
        ("[[accounts]]\nname = \"A\"\n[[accounts]]\nname = \"A\"\n", 4, "the account A is defined twice"),
        (
            "[[accounts]]\nname = \"A\"\nexports = [{ response = \"stream\" }]\n",
            3,
            "either stream or service",
        ),
        (
            "[[accounts]]\nname = \"A\"\nexports = [{ stream = \"a.b\", account_token_position = 2 }]\n",
            3,
            "word 2 of \"a.b\" is not *",
        ),
        (
            "[[accounts]]\nname = \"A\"\nexports = [{ stream = \"a\", response = \"stream\" }]\n",
            3,
            "only a service has responses",
        ),
        (
            "[[accounts]]\nname = \"A\"\nexports = [{ service = \"a\", response = \"two\" }]\n",
            3,
            "none of singleton, stream and chunked",
        ),
        (
            "[[accounts]]\nname = \"A\"\nimports = [{ stream = \"a\", from = \"B\", to = \"b.*\" }]\n",
            3,
            "accounts.imports",
        ),
        (
            "[[accounts]]\nname = \"A\"\nimports = [{ stream = \"a\", from = \"B\", share = true }]\n",
            3,
            "only an import of a service",
        ),
        ("[[accounts]]\nname = \"A\"\nimports = [{ stream = \"a\", from = \"B\" }]\n", 1, "account A: "),
        ("[[accounts]]\nname = \"A\"\nsecret = 1\n", 3, "unknown field"),
    ] {
        let error = Users::new(RANDOM).read(&format!("{accounts}{USER}")).expect_err(accounts);
        assert_eq!(error.line, line, "{accounts}{error}");
        assert!(error.reason.contains(reason), "{accounts}{error}");
    }
    let mut users = Users::new(RANDOM);
    let nowhere = "[[users]]\nuser = \"a\"\npassword = \"p\"\naccount = \"A\"\n";
    let reason = users.read(nowhere).unwrap_err().reason;
    assert!(reason.contains("no account 'A' in this file; add [[accounts]] with that name"), "{reason}");
    let mut users = Users::new(RANDOM);
    let text = "[[accounts]]\nname = \"A\"\ndefault_permissions = { publish = { allow = [\"x\"] } }\n\
                [[users]]\nuser = \"a\"\npassword = \"p\"\naccount = \"A\"\n\
                [[users]]\nuser = \"b\"\npassword = \"p\"\n";
    users.read(text).unwrap();
    let account = |name: &str| users.user(name).unwrap().account().map(|account| account.as_str().to_owned());
    assert_eq!((account("a").as_deref(), account("b")), (Some("A"), None));
    let may = |name: &str| users.user(name).unwrap().rules().is_none_or(|rules| rules.may_publish(b"y"));
    assert_eq!((may("a"), may("b")), (false, true));
}

#[test]
fn a_service_is_imported_under_a_local_subject_with_its_words_in_another_order() {
    let text = "[[accounts]]\nname = \"B\"\nexports = [{ service = \"q.*.*\" }, { service = \"r\" }]\n\
                [[accounts]]\nname = \"A\"\nimports = [\
                { service = \"q.*.*\", from = \"B\", to = \"l.$2.$1\" },\
                { service = \"r\", from = \"B\", prefix = \"of.b\" }]\n\
                [[users]]\nuser = \"a\"\npassword = \"p\"\naccount = \"A\"\n";
    let mut users = Users::new(RANDOM);
    users.read(text).unwrap();
    let account = users.user("a").unwrap().account().unwrap().clone();
    let accounts = users.accounts();
    let routes = |subject: &str| -> Vec<String> {
        let routes = accounts.account(account.as_str()).unwrap().service_routes(subject.as_bytes());
        routes.map(|route| String::from_utf8(route.subject).unwrap()).collect()
    };
    assert_eq!(routes("l.x.y"), ["q.y.x"]);
    assert_eq!(routes("of.b.r"), ["r"]);
    assert_eq!((routes("q.x.y"), routes("r")), (Vec::<String>::new(), Vec::new()));
    let wild = text.replace("of.b", "of.*");
    assert!(Users::new(RANDOM).read(&wild).unwrap_err().reason.contains("without wildcards"));
}

/// CVE-2021-38153: passwords were compared byte by byte. Everything that a client presents is compared by
/// `is_same_secret`, or by ring, in constant time.
#[test]
fn no_secret_is_compared_with_an_operator() {
    const SECRETS: [&str; 6] = ["stored_key", "server_key", "salted_password", "password", "proof", "hmac"];
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let names_secret = |side: &str| {
        let words = side.split(|letter: char| !is_word(u8::try_from(letter).unwrap_or(b' ')));
        words.clone().any(|word| SECRETS.contains(&word)) && !words.clone().any(|word| word == "len")
    };
    let (mut folders, mut files) =
        (vec![std::path::PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/src"))], 0);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            // Keys there are public ones. Tests compare with what they expect.
            if path.is_dir() && name != "tests" && name != "nats_accounts" {
                folders.push(path);
            } else if name.ends_with(".rs") && name != "tests.rs" {
                files += 1;
                let text = std::fs::read_to_string(&path).unwrap();
                let product = text.split("#[cfg(test)]").next().unwrap();
                for line in product.lines().filter(|line| !line.trim_start().starts_with("//")) {
                    for operator in [" == ", " != "] {
                        let Some((left, right)) = line.split_once(operator) else { continue };
                        let near = |side: &str, is_left: bool| {
                            let ends = |letter: char| " (){};,|&!".contains(letter);
                            let side = side.trim_matches(ends);
                            let word =
                                if is_left { side.rsplit(ends).next() } else { side.split(ends).next() };
                            word.is_some_and(names_secret)
                        };
                        assert!(!near(left, true) && !near(right, false), "{}: {line}", path.display());
                    }
                }
            }
        }
    }
    assert!(files > 40, "{files}");
}

/// docs/security-tests.md names a file below crates/ and then tests in it, again and again.
#[test]
fn the_tests_that_the_page_about_attacks_names_exist() {
    let root = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let page = std::fs::read_to_string(root.join("docs/security-tests.md")).unwrap();
    let (mut file, mut tests) = (String::new(), 0);
    for quoted in page.split('`').skip(1).step_by(2) {
        if quoted.starts_with("fuzz/") || quoted.starts_with("interop/") {
            assert!(root.join(quoted).exists(), "{quoted}");
        } else if quoted.ends_with(".rs") {
            file = std::fs::read_to_string(root.join("crates").join(quoted))
                .unwrap_or_else(|_| panic!("{quoted}"));
        } else if quoted.len() > 12 && quoted.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_') {
            assert!(file.contains(&format!("fn {quoted}(")), "{quoted}");
            tests += 1;
        }
    }
    assert!(tests > 80, "{tests}");
}
