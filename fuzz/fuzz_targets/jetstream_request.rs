//! Arbitrary bytes as the body of each request of JetStream's API. Reading must not panic. A stream or
//! consumer that is accepted echoes a configuration that is accepted, and the same.
//!
//! Run: `cargo +nightly fuzz run jetstream_request -- -max_len=4096 -rss_limit_mb=512`

#![no_main]

use libfuzzer_sys::fuzz_target;
use tailrace_jetstream::api::bodies;
use tailrace_jetstream::consumer_config::CreateRequest;
use tailrace_jetstream::error::ApiError;
use tailrace_jetstream::stream::{self, Creation, OtherStreams, StreamConfig, StreamLimits};

/// An account without streams.
struct Nothing;

impl OtherStreams for Nothing {
    fn config(&self, _: &str) -> Option<&StreamConfig> {
        None
    }

    fn any_subjects(&self, _: Option<&str>, _: &mut dyn FnMut(&[String]) -> bool) -> bool {
        false
    }

    fn count(&self, _: &str) -> usize {
        0
    }

    fn reserve(&self, _: &StreamConfig, _: Option<&StreamConfig>) -> Result<(), ApiError> {
        Ok(())
    }
}

fuzz_target!(|body: &[u8]| {
    let limits = StreamLimits::none(false);
    if let Ok(Creation::New(config)) = stream::create("S", body, &Nothing, &limits) {
        let echo = serde_json::to_vec(&config).expect("JSON");
        let again = stream::create("S", &echo, &Nothing, &limits);
        assert_eq!(again, Ok(Creation::New(config)), "{}", String::from_utf8_lossy(&echo));
    }
    if let Ok(request) = CreateRequest::parse(body) {
        let config = serde_json::to_string(&request.config).expect("JSON");
        let again = CreateRequest::parse(format!(r#"{{"config":{config}}}"#).as_bytes());
        assert_eq!(again.map(|again| again.config), Ok(request.config), "{config}");
    }
    let _ = bodies::nothing(body);
    let _ = bodies::ListRequest::of_stream_names(body);
    let _ = bodies::ListRequest::of_consumers(body);
    let _ = bodies::StreamInfoRequest::parse(body);
    let _ = bodies::PurgeRequest::parse(body);
    let _ = bodies::MessageDelete::parse(body);
    let _ = bodies::MessageGet::parse(body);
    let _ = bodies::MessageGet::parse_direct(body);
    let _ = bodies::MessageGet::parse_direct_last("a", body);
    let _ = bodies::PauseRequest::parse(body);
    let _ = bodies::unpin_group(body);
    let _ = bodies::reset_sequence(body);
    let _ = bodies::SnapshotRequest::parse(body);
    let _ = bodies::step_down(body);
});
