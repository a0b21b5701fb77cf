//! Arbitrary lines as records of the metadata log. Decoding and applying them must not panic. A decoded
//! record must encode to a record that decodes to the same. The records of a snapshot must lead to the same
//! snapshot.
//!
//! Run: `cargo +nightly fuzz run metadata_record -- -max_len=4096 -rss_limit_mb=512`

#![no_main]

use std::collections::BTreeMap;

use libfuzzer_sys::fuzz_target;
use tailrace_metadata::{Controller, MetadataRecord};

fuzz_target!(|data: &[u8]| {
    let mut controller = Controller::new(BTreeMap::new()).expect("the defaults are legal");
    for line in data.split(|byte| *byte == b'\n') {
        let Ok(record) = MetadataRecord::decode(line) else { continue };
        assert_eq!(MetadataRecord::decode(&record.encode()).as_ref(), Ok(&record));
        // A record that contradicts earlier ones is refused.
        let _ = controller.apply(&record);
    }
    let (mut again, snapshot) = (controller.emptied(), controller.snapshot_records());
    for record in &snapshot {
        assert_eq!(again.apply(record).map_err(|error| error.to_string()), Ok(()), "{record:?}");
    }
    assert_eq!(again.snapshot_records(), snapshot);
});
