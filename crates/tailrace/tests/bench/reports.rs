//! Reports as a person sees them: the page, its pictures, and what they show when something went wrong.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use std::path::Path;
use std::time::Duration;

use crate::support::{TAILRACE, free_addresses, run, success};
use serde_json::{Value, json};
use tailrace_bench::recorder::Recorder;
use tailrace_bench::recorder::interval_log::IntervalLogWriter;
use tailrace_bench::systems::{EchoProtocol, EchoServer};

/// Writes the results of an invented run: 1,000 receipts per second for three seconds.
fn made_up(folder: &Path, median_us: u64, more: &Value) {
    std::fs::create_dir_all(folder).unwrap();
    let file = std::fs::File::create(folder.join("intervals.hlog")).unwrap();
    let mut log = IntervalLogWriter::new(file, Duration::from_secs(1_700_000_000), "made up").unwrap();
    let mut total = Recorder::default();
    for second in 0..3 {
        let mut interval = Recorder::default();
        (0..1000).for_each(|n| interval.receipt.success.record((median_us - 500 + n) * 1000));
        log.write(Duration::from_secs(second), Duration::from_secs(1), &interval).unwrap();
        total.add(&interval);
    }
    log.finish().unwrap();
    let latency = tailrace_bench::report::Described::new(&total.receipt.success);
    let mut result = json!({
        "system": "nats", "valid": true, "interrupted": false, "mode": "open-loop", "rate_per_second": 1000.0,
        "warm_up_seconds": 0.0, "measured_seconds": 3.0, "latency": {"receipt": latency},
        "started_at": "2026-11-24T09:08:07.250Z", "ended_at": "2026-11-24T09:08:10.250Z",
    });
    result.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    std::fs::write(folder.join("result.json"), result.to_string()).unwrap();
}

fn report(folders: &[&Path], more: &[&str], page: &Path) -> String {
    let mut arguments = vec!["bench", "report", "--html", page.to_str().unwrap()];
    arguments.extend(folders.iter().map(|folder| folder.to_str().unwrap()));
    arguments.extend(more);
    success(run(&arguments));
    std::fs::read_to_string(page).unwrap()
}

#[test]
fn before_and_after_are_in_one_chart_with_their_difference() {
    let dir = tempfile::tempdir().unwrap();
    let (before, after) = (dir.path().join("before"), dir.path().join("after"));
    for number in 0..4 {
        made_up(&before.join(number.to_string()), 1000 + number, &json!({}));
        made_up(&after.join(number.to_string()), 2000 + number, &json!({}));
    }
    let page = dir.path().join("page.html");
    let text = report(&[&before, &after], &[], &page);
    for words in [
        "<h1>Latency of nats: before, after</h1>",
        "<dt>measured</dt><dd>2026-11-24, 09:08:07 to 09:08:10 UTC</dd>",
        "after of receipt: p50 is 2.0",
        "(p = 0.029, 4 and 4 runs): more than noise.",
        ">more than noise</td>",
        "<h3>before, 4 rounds",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let chart = text.split("<svg").find(|chart| chart.contains("latency by percentile")).unwrap();
    assert!(chart.contains("before: receipt") && chart.contains("after: receipt"), "{chart}");
    assert!(chart.contains("more than noise."), "the picture says it too: {chart}");
    // Runs with different options are drawn, but not compared.
    made_up(&after.join("4"), 2000, &json!({"rate_per_second": 2000.0}));
    let text = report(&[&before, &after], &[], &page);
    assert!(
        text.contains("before and after are not compared: rate_per_second is 1000.0 and 2000.0"),
        "{text}"
    );
    // A report of one folder has a line for each run.
    let text = report(&[&before], &[], &page);
    assert!(
        text.contains("0: receipt") && text.contains("3: receipt") && !text.contains("The difference"),
        "{text}"
    );
}

#[test]
fn an_invalid_run_is_marked_in_every_file() {
    let dir = tempfile::tempdir().unwrap();
    let (results, pictures) = (dir.path().join("results"), dir.path().join("pictures"));
    made_up(&results.join("good"), 1000, &json!({}));
    let verdict = json!({"invalid": ["the generator was late, by hand"]});
    made_up(&results.join("late"), 1000, &json!({"valid": false, "verdict": verdict}));
    let folder = pictures.to_str().unwrap();
    let text = report(&[&results], &["--svg", folder, "--png", folder], &dir.path().join("page.html"));
    assert!(text.contains("<div class=\"verdict invalid\">INVALID: 1 of 2 runs<ul>"), "{text}");
    assert!(
        text.contains(
            "<h3>late <span class=\"badge invalid\">INVALID: the generator was late, by hand</span>"
        ),
        "{text}"
    );
    let index = std::fs::read_to_string(pictures.join("index.html")).unwrap();
    for entry in std::fs::read_dir(&pictures).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if name.ends_with(".svg") {
            let picture = std::fs::read_to_string(pictures.join(&name)).unwrap();
            assert!(picture.contains("late: INVALID: the generator was late, by hand"), "{name}: {picture}");
            assert!(picture.contains(">INVALID</text>"), "{name}: {picture}");
        }
        assert!(name == "index.html" || index.contains(&format!("<img src=\"{name}\"")), "{name}: {index}");
    }
}

#[test]
fn a_stall_is_seconds_with_nothing_in_them() {
    let dir = tempfile::tempdir().unwrap();
    let echo = EchoServer::start(EchoProtocol::Tcp).unwrap();
    let address = free_addresses(1).remove(0);
    let (plan, out) = (dir.path().join("plan.toml"), dir.path().join("out"));
    let text = format!(
        "rounds = 1\npause = '0s'\n[trouble]\n\
         signals = [{{ at = '1s', signal = 'SIGSTOP' }}, {{ at = '3500ms', signal = 'SIGCONT' }}]\n[[system]]\n\
         name = 'echo'\nsystem = 'tcp-echo'\naddress = '{address}'\n\
         start = ['{TAILRACE}', 'bench', 'proxy', '--listen', '{address}', '--to', '{}']\n\
         [[workload]]\nname = 'w'\nrate = 200\nduration = '5s'\nwarm-up = '0s'\n",
        echo.address()
    );
    std::fs::write(&plan, text).unwrap();
    let output = run(&["bench", "run", plan.to_str().unwrap(), "--out", out.to_str().unwrap()]);
    // The page exists, and its name is the last line of output.
    let said = String::from_utf8(output.stdout).unwrap();
    let page = out.join("report.html");
    assert_eq!(said.lines().last(), Some(format!("to look at: {}", page.display()).as_str()), "{said}");
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("w: the longest wait over time") && !page.contains("not recorded"), "{page}");
    // No message came between the signals, and at least one waited.
    let timeline = std::fs::read_to_string(out.join("echo/w/round-1/timeline.csv")).unwrap();
    let head: Vec<&str> = timeline.lines().next().unwrap().split(',').collect();
    let column = |name: &str| head.iter().position(|found| *found == name).unwrap();
    let rows: Vec<Vec<&str>> = timeline.lines().skip(1).map(|line| line.split(',').collect()).collect();
    let stalled = rows.iter().find(|row| row[column("second")] == "2.000").unwrap();
    assert_eq!(
        (stalled[column("received")], stalled[column("max_us")], stalled[column("distribution")]),
        ("0", "", "receipt")
    );
    let waited: f64 = stalled[column("oldest_waiting_us")].parse().unwrap();
    assert!((1_500_000.0..=2_100_000.0).contains(&waited), "{timeline}");
    let result = std::fs::read(out.join("echo/w/round-1/result.json")).unwrap();
    let result: Value = serde_json::from_slice(&result).unwrap();
    let time = |key: &str| result[key].as_str().unwrap_or_else(|| panic!("{key}: {result}")).to_owned();
    assert!(time("started_at") < time("ended_at") && time("started_at").ends_with('Z'), "{result}");
}
