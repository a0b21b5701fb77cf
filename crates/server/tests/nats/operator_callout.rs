//! Auth callout with an operator: the claims of an account name its service, which decides about the
//! account's users.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use nkeys::KeyPair;
use serde_json::{Value, json};

use crate::callout::{self, question, say};
use crate::common::TestServer;
use crate::operator::{Talker, World, connect, login, refusal, token, user_of};

const VIOLATION: &str = "-ERR 'Authorization Violation'";

/// An account whose service is `service`.
fn authorization(service: &KeyPair, allowed: &[String]) -> Value {
    json!({ "authorization": { "auth_users": [service.public_key()], "allowed_accounts": allowed } })
}

async fn serve(server: &TestServer, world: &World, service: &KeyPair) -> Talker {
    let mut lines = login(server, &world.user(service, json!({}), json!({})), service).await;
    lines.send("SUB $SYS.REQ.USER.AUTH 1\r\n").await;
    assert_eq!(lines.until_pong().await, [""; 0]);
    lines
}

fn answer(signer: &KeyPair, asked: &Value, nats: Value) -> String {
    let server = asked["nats"]["server_id"]["id"].as_str().unwrap();
    let user = asked["nats"]["user_nkey"].as_str().unwrap();
    token(signer, user, "authorization_response", nats, json!({ "aud": server }))
}

/// The claims of the user who is asked about.
fn placed(signer: &KeyPair, asked: &Value, nats: Value) -> String {
    let mut full = json!({ "subs": -1, "data": -1, "payload": -1, "pub": { "deny": ["secret"] } });
    full.as_object_mut().unwrap().extend(nats.as_object().unwrap().clone());
    token(signer, asked["nats"]["user_nkey"].as_str().unwrap(), "user", full, json!({ "name": "alice" }))
}

async fn who(lines: &mut Talker) -> (String, String) {
    lines.send("SUB _INBOX.1 9\r\nPUB $SYS.REQ.USER.INFO _INBOX.1 0\r\n\r\n").await;
    loop {
        let said = lines.until_pong().await;
        if let Some(body) = said.iter().find(|line| line.starts_with('{')) {
            let info: Value = serde_json::from_str(body).unwrap();
            let text = |member: &str| info["data"][member].as_str().unwrap().to_owned();
            return (text("user"), text("account"));
        }
    }
}

#[tokio::test]
async fn the_service_of_an_account_decides_about_its_users_and_where_they_are() {
    let (world, service) = (World::new(), KeyPair::new_user());
    let (account, other) = (world.account.public_key(), world.other.public_key());
    let server = world.start(authorization(&service, std::slice::from_ref(&other)), &[]).await;
    let user = KeyPair::new_user();
    let tags = json!({ "bearer_token": true, "tags": ["eu"] });
    let jwt = world.user(&user, tags, json!({}));
    // Nobody is let in as long as the service is not there.
    assert_eq!(connect(&server, &jwt, None).await.until_end().await, [VIOLATION]);
    let mut service_lines = serve(&server, &world, &service).await;
    // Users of another account are not asked about.
    let stranger = KeyPair::new_user();
    drop(login(&server, &user_of(&world.other, &stranger, json!({}), json!({})), &stranger).await);
    for (signer, expected) in [(&world.account, &account), (&world.other, &other)] {
        let mut client = connect(&server, &jwt, None).await;
        let (asked, reply) = question(&mut service_lines).await;
        let about = &asked["nats"]["client_info"];
        assert_eq!((&about["user"], &about["name_tag"]), (&user.public_key().into(), &"name".into()));
        assert_eq!(
            (&about["tags"], &asked["nats"]["connect_opts"]["jwt"]),
            (&json!(["eu"]), &jwt.clone().into())
        );
        assert_eq!(asked["sub"], account);
        let says = json!({ "jwt": placed(signer, &asked, json!({})) });
        say(&mut service_lines, &reply, &answer(&world.account, &asked, says)).await;
        assert_eq!(who(&mut client).await, ("alice".to_owned(), expected.clone()));
        client.send("PUB secret 0\r\n\r\n").await;
        let violation = |subject: &str| format!("-ERR 'Permissions Violation for Publish to \"{subject}\"'");
        assert_eq!(client.until_pong().await, [violation("secret")]);
        // Within the service's account nobody else asks it.
        client.send("PUB $SYS.REQ.USER.AUTH 1\r\n?\r\n").await;
        let said = client.until_pong().await;
        let expected = if *expected == account { vec![violation("$SYS.REQ.USER.AUTH")] } else { vec![] };
        assert_eq!(said, expected);
    }
    // Without claims of the account there is no question.
    assert_eq!(connect(&server, "", None).await.until_end().await, [VIOLATION]);
    let signed = world.user(&user, json!({}), json!({}));
    assert_eq!(connect(&server, &signed, Some(&stranger)).await.until_end().await, [VIOLATION]);
    assert_eq!(service_lines.until_pong().await, [""; 0]);
}

#[tokio::test]
async fn answers_that_are_not_as_expected_let_nobody_in() {
    let (world, service) = (World::new(), KeyPair::new_user());
    let server =
        world.start(authorization(&service, &[]), &[("tailrace.nats.auth.timeout.ms", "3000")]).await;
    let user = KeyPair::new_user();
    let jwt = world.user(&user, json!({ "bearer_token": true }), json!({}));
    let mut lines = serve(&server, &world, &service).await;
    let (account, other, stranger) = (&world.account, &world.other, KeyPair::new_account());
    for wrong in 0..8 {
        let mut client = connect(&server, &jwt, None).await;
        let (mut asked, reply) = question(&mut lines).await;
        let good = placed(account, &asked, json!({}));
        let text = match wrong {
            0 => answer(account, &asked, json!({ "error": "no" })),
            // Signed by others: the answer, and the user.
            1 => answer(other, &asked, json!({ "jwt": good })),
            2 => answer(account, &asked, json!({ "jwt": placed(&stranger, &asked, json!({})) })),
            // In an account that is not allowed, or does not exist.
            3 => answer(account, &asked, json!({ "jwt": placed(other, &asked, json!({})) })),
            4 => {
                let claims = json!({ "issuer_account": other.public_key() });
                answer(account, &asked, json!({ "jwt": placed(account, &asked, claims) }))
            }
            5 => answer(account, &asked, json!({ "jwt": good, "issuer_account": other.public_key() })),
            6 => {
                asked["nats"]["user_nkey"] = KeyPair::new_user().public_key().into();
                answer(account, &asked, json!({ "jwt": good }))
            }
            _ => answer(
                account,
                &asked,
                json!({ "jwt": placed(account, &asked, json!({ "src": ["10.0.0.0/8"] })) }),
            ),
        };
        say(&mut lines, &reply, &text).await;
        assert_eq!(client.until_end().await, [VIOLATION], "{wrong}");
    }
    assert_eq!(connect(&server, &jwt, None).await.until_end().await, [VIOLATION]);
}

#[tokio::test]
async fn changed_claims_hold_for_users_whom_a_service_has_let_in() {
    let (world, service) = (World::new(), KeyPair::new_user());
    let other = world.other.public_key();
    let both = [other.clone(), world.account.public_key()];
    let server = world.start(authorization(&service, &both), &[]).await;
    let jwt = world.user(&KeyPair::new_user(), json!({ "bearer_token": true }), json!({}));
    let mut lines = serve(&server, &world, &service).await;
    let mut clients = Vec::new();
    for signer in [&world.account, &world.other] {
        let mut client = connect(&server, &jwt, None).await;
        let (asked, reply) = question(&mut lines).await;
        let says = json!({ "jwt": placed(signer, &asked, json!({})) });
        say(&mut lines, &reply, &answer(&world.account, &asked, says)).await;
        assert_eq!(client.until_pong().await, [""; 0]);
        clients.push(client);
    }
    // The service may no longer place users in the other account.
    world.write_accounts(authorization(&service, &[]));
    assert_eq!(clients[1].until_end().await, [VIOLATION]);
    assert_eq!(clients[0].until_pong().await, [""; 0]);
    // The account has no service any more: who came by it comes again.
    world.write_accounts(json!({}));
    assert_eq!(clients[0].until_end().await, [VIOLATION]);
}

#[tokio::test]
async fn clients_without_claims_are_asked_about_as_the_sentinel() {
    let (world, service, sentinel) = (World::new(), KeyPair::new_user(), KeyPair::new_user());
    let nats = json!({ "bearer_token": true, "pub": { "deny": [">"] }, "sub": { "deny": [">"] } });
    let jwt = world.user(&sentinel, nats, json!({}));
    let file = world.write("sentinel.jwt", std::slice::from_ref(&jwt));
    let setting = ("tailrace.nats.operator.sentinel.file", &*file);
    let server = world.start(authorization(&service, &[]), &[setting]).await;
    let mut lines = serve(&server, &world, &service).await;
    let mut client = callout::connect(&server, "\"user\":\"bob\",\"pass\":\"p\"").await;
    let (asked, reply) = question(&mut lines).await;
    let options = &asked["nats"]["connect_opts"];
    assert_eq!((&options["user"], &options["pass"]), (&"bob".into(), &"p".into()));
    assert_eq!((&options["jwt"], &asked["nats"]["client_info"]["user"]), (&jwt.into(), &"bob".into()));
    let says = json!({ "jwt": placed(&world.account, &asked, json!({})) });
    say(&mut lines, &reply, &answer(&world.account, &asked, says)).await;
    assert_eq!(who(&mut client).await.0, "alice");
    // Claims that are wrong are not replaced.
    assert_eq!(connect(&server, "x", None).await.until_end().await, [VIOLATION]);
    // The sentinel must be a bearer.
    let file = world.write("other.jwt", &[world.user(&sentinel, json!({}), json!({}))]);
    let operator = world.write_operator();
    let settings = [("tailrace.nats.operator.file", &*operator), (setting.0, &*file)];
    let error = refusal(&world, &settings).await;
    assert!(error.contains("the user must be a bearer"), "{error}");
    let error = refusal(&world, &[(setting.0, &*file)]).await;
    assert!(error.contains("tailrace.nats.operator.file must be set"), "{error}");
}
