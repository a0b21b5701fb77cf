//! The example does what it says.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../examples/embedded.rs"]
#[allow(dead_code, reason = "its main function")]
mod embedded;

#[tokio::test]
async fn a_program_without_protocol_and_port_stores_reads_and_taps() {
    let folder = tempfile::TempDir::new().unwrap();
    let data = folder.path().join("data").display().to_string();
    let said = embedded::run(data.clone()).await.unwrap();
    assert_eq!(said, ["stored at offset 0", "read: hello", "tapped: hello"]);
    let said = embedded::run(data).await.unwrap();
    assert_eq!(
        said,
        ["stored at offset 1", "read: hello", "tapped: hello"],
        "the first record is still there"
    );
}
