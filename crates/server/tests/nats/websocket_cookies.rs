//! Credentials in the cookies of a WebSocket: they let a client in whose CONNECT has none, and pages of other
//! sites cannot use them.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use nkeys::KeyPair;
use serde_json::json;
use tokio::net::TcpStream;

use crate::common::TestServer;
use crate::operator::{World, user_of};
use crate::websocket::Frames;

const USER: (&str, &str) = ("tailrace.nats.websocket.user.cookie", "nats_user");
const PASS: (&str, &str) = ("tailrace.nats.websocket.pass.cookie", "nats_pass");
const TOKEN: (&str, &str) = ("tailrace.nats.websocket.token.cookie", "nats_token");
const JWT: (&str, &str) = ("tailrace.nats.websocket.jwt.cookie", "nats_jwt");

const SECRET: &str = "secret-31be";

/// Connects with these cookies, and sends CONNECT with these options.
async fn connect(server: &TestServer, cookies: &str, options: &str) -> Frames<TcpStream> {
    let header = format!("Cookie: {cookies}");
    let mut frames = Frames::with(server, &[&header]).await.unwrap();
    frames.send(format!("CONNECT {{\"verbose\":false{options}}}\r\nPING\r\n").as_bytes()).await;
    frames
}

async fn is_let_in(server: &TestServer, cookies: &str, options: &str) {
    connect(server, cookies, options).await.until("PONG\r\n").await;
}

async fn is_refused(server: &TestServer, cookies: &str, options: &str) {
    connect(server, cookies, options).await.until("-ERR 'Authorization Violation'\r\n").await;
}

async fn with_password(more: &[(&str, &str)]) -> TestServer {
    let settings = [("tailrace.nats.user", "shop"), ("tailrace.nats.password", SECRET), USER, PASS];
    TestServer::with(&[&settings, more].concat()).await
}

#[tokio::test]
async fn a_user_and_a_password_in_cookies_let_a_client_in() {
    let server = with_password(&[]).await;
    for cookies in [
        "nats_user=shop; nats_pass=secret-31be",
        "theme=dark; nats_pass=\"secret-31be\"; nats_user=shop",
        "nats_user=shop; nats_pass=secret-31be; nats_pass=another",
    ] {
        is_let_in(&server, cookies, "").await;
    }
    is_let_in(&server, "nats_pass=secret-31be", ",\"user\":\"shop\"").await;
    is_let_in(&server, "nats_user=shop; nats_pass=secret-31be", ",\"user\":\"\",\"pass\":\"\"").await;
}

#[tokio::test]
async fn wrong_cookies_are_refused_and_so_are_those_of_other_names() {
    let server = with_password(&[]).await;
    for cookies in [
        "nats_user=shop; nats_pass=wrong",
        "nats_user=other; nats_pass=secret-31be",
        "nats_user=shop",
        "nats_pass=secret-31be",
        "nats_user=shop; pass=secret-31be",
        "nats_user=shop; NATS_PASS=secret-31be",
        "nats_user=shop; nats_token=secret-31be",
        "nats_user=shop; nats_pass=secret-31be\"",
        "",
    ] {
        is_refused(&server, cookies, "").await;
    }
    // What CONNECT says counts.
    is_refused(&server, "nats_user=shop; nats_pass=secret-31be", ",\"pass\":\"wrong\"").await;
    let other = with_password(&[(USER.0, ""), (PASS.0, "")]).await;
    is_refused(&other, "nats_user=shop; nats_pass=secret-31be", "").await;
}

#[tokio::test]
async fn a_token_in_a_cookie_lets_a_client_in() {
    let server = TestServer::with(&[("tailrace.nats.token", SECRET), TOKEN]).await;
    is_let_in(&server, "nats_token=secret-31be", "").await;
    for cookies in ["nats_token=wrong", "nats_pass=secret-31be", "nats_token="] {
        is_refused(&server, cookies, "").await;
    }
}

#[tokio::test]
async fn bearer_claims_in_a_cookie_let_a_client_in_and_claims_that_need_a_signature_do_not() {
    let world = World::new();
    let server = world.start(json!({}), &[JWT]).await;
    let user = KeyPair::new_user();
    let bearer = json!({ "bearer_token": true });
    let valid = world.user(&user, bearer.clone(), json!({}));
    let mut frames = connect(&server, &format!("nats_jwt={valid}"), "").await;
    frames.until("PONG\r\n").await;
    frames.send(b"SUB a 1\r\nPUB a 1\r\n!\r\nPING\r\n").await;
    assert_eq!(frames.until("PONG\r\n").await, "MSG a 1 1\r\n!\r\nPONG\r\n");
    let with_key = world.user(&user, json!({}), json!({}));
    let foreign = user_of(&KeyPair::new_account(), &user, bearer.clone(), json!({}));
    let late = world.user(&user, bearer, json!({ "exp": 1 }));
    let cut = &valid[..valid.len() - 2];
    for jwt in [&with_key, &foreign, &late, cut, "x", ""] {
        is_refused(&server, &format!("nats_jwt={jwt}"), "").await;
    }
}

#[tokio::test]
async fn a_page_of_another_site_cannot_use_the_cookies() {
    let server = with_password(&[("tailrace.nats.websocket.origins", "https://shop.example")]).await;
    let cookies = "Cookie: nats_user=shop; nats_pass=secret-31be";
    for foreign in
        ["https://evil.example", "https://shop.example.evil.example", "http://shop.example", "null"]
    {
        let origin = format!("Origin: {foreign}");
        let refused = Frames::with(&server, &[cookies, &origin]).await.err().unwrap();
        assert!(refused.starts_with("http/1.1 403 "), "{foreign}: {refused}");
    }
    let mut own = Frames::with(&server, &[cookies, "Origin: https://shop.example"]).await.ok().unwrap();
    own.send(b"CONNECT {\"verbose\":false}\r\nPING\r\n").await;
    own.until("PONG\r\n").await;
}
