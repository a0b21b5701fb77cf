//! Messages with secrets do not show them.

use bytes::Bytes;
use tailrace_kafka_wire::messages::alter_user_scram_credentials_request::ScramCredentialUpsertion;
use tailrace_kafka_wire::messages::describe_delegation_token_response::DescribedDelegationToken;
use tailrace_kafka_wire::messages::{
    AlterUserScramCredentialsRequest, CreateDelegationTokenResponse, DescribeDelegationTokenResponse,
    ExpireDelegationTokenRequest, RenewDelegationTokenRequest, SaslAuthenticateRequest,
    SaslAuthenticateResponse, alter_configs_request, incremental_alter_configs_request,
};

/// Neither as text nor as numbers.
fn is_hidden(shown: &str) -> bool {
    let numbers = format!("{:?}", "sesame".as_bytes());
    shown.contains("<hidden>")
        && !shown.contains("sesame")
        && !shown.contains(numbers.trim_matches(['[', ']']))
}

#[test]
fn no_secret_of_a_message_is_printed() {
    let secret = || Bytes::from_static(b"open sesame");
    let text = || Some("open sesame".to_owned());
    let upsertion = ScramCredentialUpsertion {
        name: "alice".to_owned(),
        salt: secret(),
        salted_password: secret(),
        ..Default::default()
    };
    let token = DescribedDelegationToken { hmac: secret(), ..Default::default() };
    let shown = [
        format!("{:?}", SaslAuthenticateRequest { auth_bytes: secret(), ..Default::default() }),
        format!("{:?}", SaslAuthenticateResponse { auth_bytes: secret(), ..Default::default() }),
        format!(
            "{:?}",
            AlterUserScramCredentialsRequest { upsertions: vec![upsertion], ..Default::default() }
        ),
        format!("{:?}", CreateDelegationTokenResponse { hmac: secret(), ..Default::default() }),
        format!("{:?}", RenewDelegationTokenRequest { hmac: secret(), ..Default::default() }),
        format!("{:?}", ExpireDelegationTokenRequest { hmac: secret(), ..Default::default() }),
        format!("{:#?}", DescribeDelegationTokenResponse { tokens: vec![token], ..Default::default() }),
        format!("{:?}", alter_configs_request::AlterableConfig { value: text(), ..Default::default() }),
        format!(
            "{:?}",
            incremental_alter_configs_request::AlterableConfig { value: text(), ..Default::default() }
        ),
    ];
    for shown in &shown {
        assert!(is_hidden(shown), "{shown}");
    }
    // What is no secret is shown.
    assert!(shown[2].contains("alice"), "{}", shown[2]);
}

#[test]
fn the_test_sees_what_is_not_hidden() {
    assert!(!is_hidden("<hidden> open sesame"));
    assert!(!is_hidden(&format!("<hidden> {:?}", b"open sesame")));
}
