//! `tailrace log dump`.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::{Value, json};
use tailrace_cli::failure::{Failure, complain, plain};
use tailrace_cli::output::Output;
use tailrace_cli::text::escape::quote;
use tailrace_cli::text::time::format_instant;
use tailrace_log::RealDisk;
use tailrace_log::inspect::{DumpedBatch, dump_dir};
use tailrace_records::{BatchHeader, DecodedBatch, Record};
use tailrace_types::Offset;

use super::arguments::DumpArguments;
use super::folders::partitions;
use crate::consume::{DECOMPRESSED_BYTES_MAX, RecordOrigin, write_json_record};

/// Runs the dump. It reports damage on standard error, and goes on with the next segment.
pub(super) fn run(arguments: &DumpArguments) -> Result<ExitCode, Failure> {
    let mut dumper =
        Dumper { out: BufWriter::new(io::stdout().lock()), arguments, last: None, failed: false };
    for path in segments_or_folders(&arguments.paths)? {
        for batch in dump_dir(&RealDisk, &path).map_err(|error| error.to_string())? {
            match batch {
                Ok(batch) => dumper.batch(&batch)?,
                Err(error) => dumper.fail(&error.to_string())?,
            }
        }
    }
    dumper.out.flush()?;
    Ok(if dumper.failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn segments_or_folders(paths: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut found = Vec::new();
    for path in paths {
        let metadata =
            path.metadata().map_err(|error| format!("cannot read {}: {}", path.display(), plain(&error)))?;
        match metadata.is_dir() {
            true => found.extend(partitions(path)?),
            false if path.extension().is_some_and(|extension| extension == "log") => found.push(path.clone()),
            false => return Err(format!("{} is neither a .log file nor a folder", path.display()).into()),
        }
    }
    Ok(found)
}

struct Dumper<'a, W: Write> {
    out: BufWriter<W>,
    arguments: &'a DumpArguments,
    /// The last segment shown, and the offset after its last batch.
    last: Option<(PathBuf, Offset)>,
    failed: bool,
}

impl<W: Write> Dumper<'_, W> {
    fn fail(&mut self, reason: &str) -> Result<(), Failure> {
        self.failed = true;
        self.out.flush()?;
        complain(reason);
        Ok(())
    }

    fn batch(&mut self, batch: &DumpedBatch) -> Result<(), Failure> {
        let same_segment = self.last.take().filter(|(file, _)| *file == batch.file);
        // The checksum does not cover the offset. Gaps are legal, since compaction leaves them.
        if let Some((file, end)) = same_segment.as_ref().filter(|(_, end)| batch.header.base_offset < *end) {
            let (file, position, found) = (file.display(), batch.position, batch.header.base_offset);
            self.fail(&format!(
                "{file} is damaged at byte {position}: a batch at offset {found}, expected {end} or later"
            ))?;
        }
        match self.arguments.output {
            Output::Json => writeln!(self.out, "{}", json_of(batch))?,
            Output::Text => {
                if same_segment.is_none() {
                    writeln!(self.out, "{}", batch.file.display())?;
                }
                writeln!(self.out, "{}", text_of(batch))?;
            }
        }
        self.last = Some((batch.file.clone(), batch.header.next_offset()));
        if self.arguments.records { self.records(batch) } else { Ok(()) }
    }

    fn records(&mut self, batch: &DumpedBatch) -> Result<(), Failure> {
        let at = |error| format!("{} at byte {}: {error}", batch.file.display(), batch.position);
        let decoded = match DecodedBatch::new(&batch.bytes, DECOMPRESSED_BYTES_MAX) {
            Ok(decoded) => decoded,
            Err(error) => return self.fail(&at(error)),
        };
        let (topic, partition) = place_of(&batch.file);
        let mut line = Vec::new();
        for record in decoded.records() {
            let record = match record {
                Ok(record) => record,
                Err(error) => return self.fail(&at(error)),
            };
            line.clear();
            match self.arguments.output {
                Output::Json => {
                    write_json_record(RecordOrigin { topic: &topic, partition }, &record, &mut line)
                }
                Output::Text => line.extend_from_slice(text_of_record(&record).as_bytes()),
            }
            line.push(b'\n');
            self.out.write_all(&line)?;
        }
        Ok(())
    }
}

/// Topic and partition, from the folder's name.
fn place_of(file: &Path) -> (String, i32) {
    let absolute = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    let folder =
        absolute.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy().into_owned();
    let split = folder.rsplit_once('-').and_then(|(topic, n)| Some((topic.to_owned(), n.parse().ok()?)));
    split.unwrap_or((folder, -1))
}

fn codec(header: &BatchHeader) -> String {
    header.attributes.compression().map_or_else(|error| error.to_string(), |codec| codec.to_string())
}

fn text_of(batch: &DumpedBatch) -> String {
    let header = &batch.header;
    let mut text = format!(
        "offset {} to {}  at byte {}  {} bytes  {} records  epoch {}  {} {}  {}",
        header.base_offset,
        header.last_offset(),
        batch.position,
        header.total_bytes(),
        header.record_count,
        header.leader_epoch,
        header.attributes.timestamp_type(),
        format_instant(header.max_timestamp.0),
        codec(header),
    );
    if header.has_producer_id() {
        let (id, epoch) = (header.producer_id, header.producer_epoch);
        text.push_str(&format!(
            "  producer {id}/{epoch} sequence {} to {}",
            header.base_sequence,
            header.last_sequence()
        ));
    }
    let marks = [
        (header.attributes.is_transactional(), "  transactional"),
        (header.attributes.is_control(), "  control"),
        (header.attributes.has_delete_horizon(), "  delete horizon"),
    ];
    text.extend(marks.iter().filter(|(set, _)| *set).map(|(_, mark)| *mark));
    text
}

fn text_of_record(record: &Record<'_>) -> String {
    let (key, value) = (quote(record.key), quote(record.value));
    let mut text =
        format!("  {}  {}  key {key}  value {value}", record.offset, format_instant(record.timestamp.0));
    for header in record.headers {
        text.push_str(&format!("  {}={}", header.key_text(), quote(header.value)));
    }
    text
}

fn json_of(batch: &DumpedBatch) -> Value {
    let header = &batch.header;
    json!({
        "segment": batch.file.display().to_string(),
        "position": batch.position,
        "bytes": header.total_bytes(),
        "base_offset": header.base_offset.0,
        "last_offset": header.last_offset().0,
        "records": header.record_count,
        "leader_epoch": header.leader_epoch.0,
        "crc": header.crc,
        "compression": codec(header),
        "timestamp_type": header.attributes.timestamp_type().name(),
        "base_timestamp": header.base_timestamp.0,
        "max_timestamp": header.max_timestamp.0,
        "producer_id": header.producer_id.0,
        "producer_epoch": header.producer_epoch.0,
        "base_sequence": header.base_sequence,
        "transactional": header.attributes.is_transactional(),
        "control": header.attributes.is_control(),
    })
}
