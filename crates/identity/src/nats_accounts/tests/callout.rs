//! Questions to an external service, and what of its answers is believed.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};

use super::super::callout::*;
use super::super::jwt::{KeyKind, TokenError, UserDenied};
use super::super::*;
use super::vectors::*;

fn settings() -> CalloutSettings {
    CalloutSettings {
        account: AccountName::new("AUTH").unwrap(),
        issuer: key("account").as_str().into(),
        auth_users: BTreeSet::from(["auth".into()]),
        xkey: Some(key("service curve").as_str().into()),
        allowed_accounts: CalloutAccounts::Any,
    }
}

fn table() -> AccountTable {
    let names = ["APP", "AUTH", "OTHER"];
    AccountTable::build(names.map(|name| AccountDefinition::new(AccountName::new(name).unwrap())).into(), 0).0
}

fn check_with(
    settings: &CalloutSettings,
    answer: &[u8],
    address: &str,
) -> Result<CalloutUser, CalloutDenied> {
    let (accounts, curve) = (table(), CurveKey::new(seed("curve")).unwrap());
    let (server_key, user_key) = (key("server"), key("user"));
    let expected = Expected {
        settings,
        server_key: &server_key,
        user_key: &user_key,
        curve_key: Some(&curve),
        authority: Authority::Configured { accounts: &accounts },
    };
    expected.check(answer, tcp(address), now())
}

fn check(name: &str) -> Result<CalloutUser, CalloutDenied> {
    check_with(&settings(), text(&format!("response/{name}")).as_bytes(), "10.0.0.1")
}

#[test]
fn a_right_answer_places_the_user_in_the_account_it_names() {
    let user = check("plain").unwrap().user;
    assert_eq!(user.account.as_str(), "APP");
    assert_eq!(&**user.user.name().unwrap(), "APP/alice");
}

#[test]
fn each_wrong_field_is_refused() {
    for (name, expected) in [
        ("other_issuer", CalloutDenied::Issuer),
        ("other_user", CalloutDenied::OtherUser),
        ("other_server", CalloutDenied::OtherServer),
        ("expired", CalloutDenied::Time),
        ("error", CalloutDenied::Refused { reason: "no such user".to_owned() }),
        ("both", CalloutDenied::Ambiguous),
        ("neither", CalloutDenied::Ambiguous),
        ("inner_account", CalloutDenied::Account),
        ("inner_issuer", CalloutDenied::User(UserDenied::Issuer)),
        ("issuer_account", CalloutDenied::IssuerAccount),
        ("inner_user", CalloutDenied::OtherUser),
    ] {
        assert_eq!(check(name), Err(expected), "{name}");
    }
    let check = |answer: &[u8]| check_with(&settings(), answer, "10.0.0.1");
    assert_eq!(check(b""), Err(CalloutDenied::Empty));
    assert_eq!(check(b"hello"), Err(CalloutDenied::Seal(SealError::Form)));
    assert_eq!(
        check(text("user/plain").as_bytes()).unwrap_err(),
        TokenError::Type { expected: "authorization_response" }.into()
    );
    let found = ANSWER_BYTES_MAX + 1;
    assert_eq!(check(&vec![b'a'; found]), Err(CalloutDenied::TooLong { found }));
}

#[test]
fn networks_and_limits_of_the_answer_apply() {
    let answer = text("response/src");
    let check = |address| check_with(&settings(), answer.as_bytes(), address);
    assert_eq!(check("10.1.1.1").unwrap().user.limits.subscriptions, Some(5));
    assert_eq!(check("11.1.1.1"), Err(CalloutDenied::User(UserDenied::Address)));
}

#[test]
fn the_service_places_users_where_it_may_only() {
    let listed = |names: &[&str]| CalloutSettings {
        allowed_accounts: CalloutAccounts::Listed(
            names.iter().map(|name| AccountName::new(name).unwrap()).collect(),
        ),
        ..settings()
    };
    let check = |names: &[&str]| check_with(&listed(names), text("response/plain").as_bytes(), "10.0.0.1");
    assert!(check(&["APP"]).is_ok());
    assert_eq!(check(&["OTHER"]), Err(CalloutDenied::Account));
}

#[test]
fn a_name_that_looks_like_a_key_is_not_the_name_of_the_user() {
    let user = check("key_named").unwrap().user;
    // The key of this login, which nobody has proved to have.
    assert_eq!(**user.user.name().unwrap(), format!("APP/{}", key("user")));
}

#[test]
fn with_an_operator_the_accounts_claims_decide() {
    let (asked, other) = (account("callout"), account("importing"));
    let settings = asked.definition().callout.clone().unwrap();
    let find = |name: &AccountName| (name == other.id()).then(|| Arc::clone(&other));
    let (server_key, user_key) = (key("server"), key("user"));
    let check = |answer: &str| {
        let expected = Expected {
            settings: &settings,
            server_key: &server_key,
            user_key: &user_key,
            curve_key: None,
            authority: Authority::Operator { asked: &asked, account: &find },
        };
        expected.check(text(&format!("response/{answer}")).as_bytes(), tcp("10.0.0.1"), now())
    };
    let first = check("plain").unwrap();
    assert_eq!(first.user.account, *asked.id());
    // Later, with other claims of the account.
    let later = account("main");
    let authority = Authority::Operator { asked: &later, account: &find };
    let (server_key, curve_key) = (server_key.as_str(), None);
    let expected = Expected { settings: &settings, server_key, user_key: &user_key, curve_key, authority };
    assert_eq!(expected.recheck(&first, tcp("10.0.0.1"), now()).unwrap(), first);
    assert_eq!(check("in_other").unwrap().user.account, *other.id());
    assert_eq!(check("in_third"), Err(CalloutDenied::Account));
    assert_eq!(check("other_issuer"), Err(CalloutDenied::Issuer));
    // Names itself as issuer_account, as it may here.
    assert!(check("issuer_account").is_ok());
}

fn question<'a>(settings: &'a CalloutSettings, user_key: &'a str) -> Question<'a> {
    Question {
        settings,
        server: ServerInfo { name: "n1", host: "10.0.0.9", version: "1.0.0", cluster: "" },
        user_key,
        client: QuestionClient {
            host: "10.0.0.1",
            id: 7,
            user: "bob",
            name: "app",
            tags: &[],
            name_tag: "",
            kind: "Client",
            client_type: "nats",
            nonce: "NONCE",
        },
        options: ConnectOptions {
            user: "bob",
            password: "hunter2",
            protocol: 1,
            ..ConnectOptions::default()
        },
        tls: None,
        expires_at_s: 1_000,
    }
}

fn body(token: &str) -> Value {
    use base64::Engine;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    let payload = token.split('.').nth(1).unwrap();
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(payload).unwrap()).unwrap()
}

#[test]
fn a_question_says_who_asks_about_whom() {
    let server = signing_key(KeyKind::Server, "server");
    assert_eq!(server.public(), key("server"));
    let (settings, user_key) = (CalloutSettings { xkey: None, ..settings() }, key("user"));
    let mut question = question(&settings, &user_key);
    let message = String::from_utf8(question.message(&server, None, 990).unwrap()).unwrap();
    let found = body(&message);
    let expected = json!({
        "aud": "nats-authorization-request", "exp": 1000, "iat": 990, "jti": found["jti"],
        "iss": key("server"), "sub": key("account"),
        "nats": {
            "server_id": {"name": "n1", "host": "10.0.0.9", "version": "1.0.0", "id": key("server")},
            "user_nkey": user_key,
            "client_info": {"host": "10.0.0.1", "id": 7, "user": "bob", "name": "app", "kind": "Client", "type": "nats"},
            "connect_opts": {"user": "bob", "pass": "hunter2", "protocol": 1},
            "type": "authorization_request", "version": 2,
        },
    });
    assert_eq!(found, expected);
    assert_eq!(found["jti"].as_str().unwrap().len(), 52);
    // The nonce goes with a signature only.
    question.options.signature = "SIG";
    let message = String::from_utf8(question.message(&server, None, 990).unwrap()).unwrap();
    assert_eq!(body(&message)["nats"]["client_info"]["nonce"], "NONCE");
}

#[test]
fn a_question_to_a_service_with_a_curve_key_is_sealed_or_not_asked() {
    let server = signing_key(KeyKind::Server, "server");
    let (settings, user_key) = (settings(), key("user"));
    let question = question(&settings, &user_key);
    assert_eq!(question.message(&server, None, 990), Err(QuestionError::NoCurveKey));
    let own = CurveKey::new(seed("curve")).unwrap();
    let sealed = question.message(&server, Some(SealWith { key: &own, nonce: [9; 24] }), 990).unwrap();
    assert!(!String::from_utf8_lossy(&sealed).contains("hunter2"));
    let service = CurveKey::new(seed("service curve")).unwrap();
    let token = String::from_utf8(service.open(own.public(), &sealed).unwrap()).unwrap();
    assert_eq!(body(&token)["nats"]["server_id"]["xkey"], own.public());
    assert_eq!(body(&token)["nats"]["connect_opts"]["pass"], "hunter2");
}

#[test]
fn what_gos_nkeys_seals_is_opened_and_the_other_way_round() {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    let sealed = STANDARD.decode(text("sealed")).unwrap();
    let own = CurveKey::new(seed("curve")).unwrap();
    let service = CurveKey::new(seed("service curve")).unwrap();
    assert_eq!((own.public(), service.public()), (&*key("curve"), &*key("service curve")));
    assert_eq!(own.open(service.public(), &sealed).unwrap(), b"eyJ hello");
    // Byte by byte the same, with the same nonce.
    let nonce = seed("nonce")[..24].try_into().unwrap();
    assert_eq!(service.seal(own.public(), nonce, b"eyJ hello").unwrap(), sealed);
    for at in 0..sealed.len() {
        let mut changed = sealed.clone();
        changed[at] ^= 1;
        assert!(own.open(service.public(), &changed).is_err(), "{at}");
        assert!(own.open(service.public(), &sealed[..at]).is_err(), "{at}");
    }
    // Another sender, another recipient.
    assert_eq!(own.open(own.public(), &sealed), Err(SealError::NotForUs));
    let third = CurveKey::new(seed("third")).unwrap();
    assert_eq!(third.open(service.public(), &sealed), Err(SealError::NotForUs));
    assert_eq!(own.open(&key("user"), &sealed), Err(SealError::Key));
}

#[test]
fn a_sealed_answer_is_opened() {
    let service = CurveKey::new(seed("service curve")).unwrap();
    let answer = text("response/plain");
    let sealed = service.seal(&key("curve"), [3; 24], answer.as_bytes()).unwrap();
    assert!(check_with(&settings(), &sealed, "10.0.0.1").is_ok());
    // Sealed by another key: nobody but the service is believed.
    let other = CurveKey::new(seed("third")).unwrap();
    let sealed = other.seal(&key("curve"), [3; 24], answer.as_bytes()).unwrap();
    assert_eq!(check_with(&settings(), &sealed, "10.0.0.1"), Err(CalloutDenied::Seal(SealError::NotForUs)));
}

#[test]
fn the_table_of_a_file_is_checked() {
    let read = |text: &str| {
        let table: CalloutTable = toml::from_str(text).map_err(|error| error.message().to_owned())?;
        table.settings(|user| user == "auth", |account| account.as_str() != "NONE")
    };
    let issuer = format!("issuer = \"{}\"\n", key("account"));
    let users = "auth_users = [\"auth\"]\n";
    let right =
        read(&format!("{issuer}{users}account = \"AUTH\"\nxkey = \"{}\"", key("service curve"))).unwrap();
    assert_eq!(right, settings());
    for (text, expected) in [
        (users.to_owned(), "issuer"),
        (format!("issuer = \"{}\"\n{users}", key("user")), "kind Account"),
        (issuer.clone(), "the service itself"),
        (format!("{issuer}auth_users = [\"bob\"]"), "no user bob"),
        (format!("{issuer}{users}account = \"NONE\""), "no account NONE"),
        (format!("{issuer}{users}allowed_accounts = [\"NONE\"]"), "no account NONE"),
        (format!("{issuer}{users}xkey = \"{}\"", key("user")), "kind Curve"),
        (format!("{issuer}{users}other = 1"), "other"),
    ] {
        let found = read(&text).unwrap_err();
        assert!(found.contains(expected), "{text}: {found}");
    }
}
