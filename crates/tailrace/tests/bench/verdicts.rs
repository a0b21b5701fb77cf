//! What failed runs report: on the screen, in JSON, and by the exit status.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use serde_json::{Value, json};
use tailrace_bench::systems::{EchoProtocol, EchoServer};

use crate::plans::{self, Plan, WORKLOAD};
use crate::support::{TAILRACE, command, failure, free_addresses, run};

fn text(output: &std::process::Output) -> (String, String) {
    (String::from_utf8(output.stdout.clone()).unwrap(), String::from_utf8(output.stderr.clone()).unwrap())
}

/// Lines that start with the word of a verdict.
fn verdicts(shown: &str) -> Vec<&str> {
    let words = ["valid", "doubtful", "INTERRUPTED", "INVALID", "NOTHING MEASURED"];
    shown.lines().filter(|line| words.iter().any(|word| line.starts_with(word))).collect()
}

/// A target that takes no time: every latency is the instrument's own.
#[test]
fn no_op_has_one_verdict_and_the_floor_beside_it() {
    let (shown, _) = text(&run(&[
        "bench",
        "run",
        "--system",
        "noop",
        "--rate",
        "500",
        "--duration",
        "1s",
        "--warm-up",
        "0s",
    ]));
    let found = verdicts(&shown);
    assert_eq!(found.len(), 1, "{shown}");
    // How many percentiles it covers depends on the machine's other load.
    assert!(found[0].starts_with("doubtful: at p50, ") || found[0].starts_with("INVALID: "), "{shown}");
    let floor = shown.lines().find(|line| line.starts_with("floor: ")).unwrap();
    assert!(
        !found[0].contains("p99.9"),
        "500 messages tell nothing of p99.9, so nobody is told to doubt it: {shown}"
    );
    assert!(
        floor.contains(" p50 ") && floor.contains(", max ") && floor.ends_with(" ms here (lateness)"),
        "{floor}"
    );
}

/// p99.9 of 500 messages would be close to the longest one, which says nothing.
#[test]
fn percentiles_that_the_messages_do_not_carry_are_not_printed() {
    let words =
        ["bench", "run", "--system", "tcp-echo", "--rate", "500", "--duration", "1s", "--warm-up", "0s"];
    let (shown, _) = text(&run(&words));
    let lines: Vec<&str> = shown.lines().collect();
    let at = lines.iter().position(|line| line.starts_with("reply ")).unwrap();
    let cells: Vec<&str> = lines[at].split_whitespace().collect();
    assert_eq!(cells[5..9], ["-"; 4], "{shown}");
    assert!(
        cells[4].parse::<f64>().is_ok() && cells[9].parse::<f64>().is_ok() && cells[10] == "500",
        "{shown}"
    );
    // Each percentile that is printed has its interval: p50, p75, p90 and p99.
    let intervals: Vec<&str> = lines[at + 1].split_whitespace().collect();
    assert_eq!((intervals[0], intervals.len()), ("95", 6), "{shown}");
    for (value, interval) in cells[1..5].iter().zip(&intervals[2..]) {
        let (low, high) = interval.split_once("..").unwrap();
        let [value, low, high] = [*value, low, high].map(|number| number.parse::<f64>().unwrap());
        assert!(low <= value && value <= high, "{shown}");
    }
    assert!(shown.contains("-: too few messages to tell; p99.9 takes 3688, p99.99 takes 36887, "), "{shown}");
    let result: Value = serde_json::from_slice(&run(&[&words[..], &["-o", "json"]].concat()).stdout).unwrap();
    let receipt = &result["latency"]["receipt"];
    assert!(
        receipt["quantiles_ns"]["0.999"].is_null() && receipt["quantiles_ns"]["0.99"].is_u64(),
        "{result}"
    );
    assert_eq!(receipt["untold"]["0.999"], json!({"reason": "too-few", "needed": 3688}));
    assert!(
        receipt["intervals_ns"]["0.99"].is_array() && receipt["intervals_ns"]["0.999"].is_null(),
        "{result}"
    );
    // The screen and the JSON show the same verdict.
    let headline = result["verdict"]["headline"].as_str().unwrap();
    assert!(headline.starts_with(result["verdict"]["word"].as_str().unwrap()), "{result}");
    let doubtful = result["verdict"]["doubtful_quantiles"].as_array().unwrap();
    assert!(doubtful.iter().filter_map(Value::as_f64).all(|share| share <= 0.99 || share == 1.0), "{result}");
}

#[test]
fn files_and_page_have_no_percentile_that_the_messages_do_not_carry() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let words =
        ["bench", "run", "--system", "tcp-echo", "--rate", "500", "--duration", "1s", "--warm-up", "0s"];
    run(&[&words[..], &["--out", out.to_str().unwrap()]].concat());
    let read = |name: &str| std::fs::read_to_string(out.join(name)).unwrap();
    let csv = read("percentiles.csv");
    let row = |name: &str| -> Vec<&str> {
        csv.lines()
            .find(|line| line.starts_with(name))
            .unwrap_or_else(|| panic!("{csv}"))
            .split(',')
            .collect()
    };
    let told = row("receipt,0.99,");
    assert!(told[2].parse::<f64>().is_ok() && told[4].parse::<f64>().is_ok() && told[6].is_empty(), "{csv}");
    assert_eq!(row("receipt,0.999,")[2..], ["", "500", "", "", "too few: takes 3688"], "{csv}");
    assert!(row("receipt,1,")[2].parse::<f64>().is_ok(), "{csv}");
    let hgrm = read("receipt.hgrm");
    let rows = tailrace_bench::report::read_hgrm("receipt.hgrm", &hgrm).unwrap();
    assert!(rows.iter().all(|row| row.quantile < 0.993 || row.quantile >= 1.0), "{hgrm}");
    assert!(hgrm.contains("#[Left out: ") && hgrm.contains(" that 500 messages do not tell;"), "{hgrm}");
    // A second of 500 messages does not tell p99.9, either.
    let timeline = read("timeline.csv");
    let second: Vec<&str> = timeline.lines().nth(1).unwrap().split(',').collect();
    assert!(!second[8].is_empty() && second[10].is_empty() && !second[11].is_empty(), "{timeline}");
    let page = read("report.html");
    let row = page.split("<tr>").find(|row| row.starts_with("<th scope=\"row\">out: reply")).unwrap();
    // p99.9 to p99.9999.
    assert_eq!(row.matches("<td>-</td>").count(), 4, "{row}");
}

fn invalid(reason: &str) -> Value {
    json!({"valid": false, "interrupted": false, "format": 2, "verdict": {"invalid": [reason]}})
}

#[test]
fn invalid_rounds_are_run_again_and_what_they_were_is_kept() {
    let plan = Plan::new(&format!("rounds = 2\npause = '0s'\n[[system]]\nsystem = 'noop'\n{WORKLOAD}"));
    plan.put("noop/w/round-1", &invalid("it was late"));
    let kept = json!({"valid": true, "interrupted": false, "format": 2, "latency": {"acknowledgement": {}}});
    plan.put("noop/w/round-2", &kept);
    let output = run(&[&["bench", "run"], &plan.words()[..]].concat());
    plans::ran(&output);
    let (shown, said) = text(&output);
    assert!(said.contains("tailrace: repeats noop/w/round-1, which was INVALID: it was late\n"), "{said}");
    let result = plan.result("noop/w/round-1");
    assert_eq!(result["earlier_attempts"][0], "INVALID: it was late");
    assert_eq!(plan.result("noop/w/round-2"), kept, "a valid round is kept");
    assert!(shown.contains(", 1 repeated"), "{shown}");
}

#[test]
fn force_names_what_it_repeats() {
    let plan = Plan::new(&format!("rounds = 2\npause = '0s'\n[[system]]\nsystem = 'noop'\n{WORKLOAD}"));
    let kept = json!({"valid": true, "interrupted": false, "format": 2});
    for name in ["noop/w/round-1", "noop/w/round-2"] {
        plan.put(name, &kept);
    }
    let words = |force: &'static str| [&["bench", "run", force], &plan.words()[..]].concat();
    let said = failure(&run(&words("--force=nats")), 1);
    assert!(
        said.contains("--force=nats: the plan has no such run: expected, for example, noop/w/round-1"),
        "{said}"
    );
    let output = run(&words("--force=noop/w/round-2"));
    plans::ran(&output);
    let (_, said) = text(&output);
    assert!(
        said.contains("repeats noop/w/round-2, which was valid\n") && !said.contains("noop/w/round-1,"),
        "{said}"
    );
    assert_eq!(plan.result("noop/w/round-1"), kept);
    assert_eq!(plan.result("noop/w/round-2")["earlier_attempts"][0], "valid");
    // All of them, each by its name.
    let (_, said) = text(&run(&words("--force")));
    assert!(said.contains("repeats noop/w/round-1") && said.contains("repeats noop/w/round-2"), "{said}");
    failure(&run(&["bench", "run", "--system", "noop", "--force"]), 2);
}

/// A proxy as the server: it can be killed, unlike the echo server behind it.
fn killed() -> (EchoServer, Plan) {
    let echo = EchoServer::start(EchoProtocol::Tcp).unwrap();
    let address = free_addresses(1).remove(0);
    let plan = Plan::new(&format!(
        "rounds = 1\npause = '0s'\n[trouble]\nsignals = [{{ at = '500ms', signal = 'SIGKILL' }}]\n[[system]]\n\
         name = 'echo'\nsystem = 'tcp-echo'\naddress = '{address}'\n\
         start = ['{TAILRACE}', 'bench', 'proxy', '--listen', '{address}', '--to', '{}']\n\
         [[workload]]\nname = 'w'\nrate = 200\nduration = '2s'\nwarm-up = '0s'\ntimeout = '300ms'\ndrain = '1s'\n",
        echo.address()
    ));
    (echo, plan)
}

#[test]
fn losses_errors_and_breaks_are_columns() {
    let (_echo, plan) = killed();
    let output = run(&[&["bench", "run"], &plan.words()[..]].concat());
    plans::ran(&output);
    let (shown, _) = text(&output);
    let mut lines = shown.lines();
    let (head, row) = (lines.next().unwrap(), lines.next().unwrap());
    let cell = |name: &str| -> u64 {
        let at = head.find(name).unwrap_or_else(|| panic!("{name}: {shown}"));
        row[at..].split_whitespace().next().unwrap().parse().unwrap()
    };
    let result = plan.result("echo/w/round-1");
    assert_eq!(cell("UNSENT"), result["counts"]["unsent"].as_u64().unwrap(), "{shown}");
    assert!(cell("UNSENT") > 100 && cell("ERRORS") >= cell("UNSENT"), "{shown}");
    assert_eq!((cell("BROKEN"), cell("ODD")), (1, 0), "{shown}");
    assert!(row.contains("1 (0 back)") && head.ends_with("VALID"), "{shown}");
    assert!(shown.contains("errors and timeouts are in no percentile"), "{shown}");
    let page = std::fs::read_to_string(plan.file("report.html")).unwrap();
    assert!(
        page.contains("<th scope=\"col\">never sent</th>") && page.contains("<td class=\"odd\">"),
        "{page}"
    );
    let all = serde_json::from_slice::<Value>(
        &run(&[&["bench", "run", "-o", "json"], &plan.words()[..]].concat()).stdout,
    );
    assert_eq!(all.unwrap()[0]["mishaps"]["broken_connections"], 1);
}

/// Two sets of four runs. One run of the second set lost messages.
fn sets(dir: &std::path::Path) -> [String; 2] {
    let of = |set: &str, lost: u64| {
        for number in 0..4_u64 {
            let folder = dir.join(set).join(number.to_string());
            let result = json!({
                "system": "nats", "valid": true, "interrupted": false, "format": 2, "counts": {"lost": if number == 0 { lost } else { 0 }},
                "latency": {"receipt": {"quantiles_ns": {"0.5": 100_000 + number * 500 + lost * 1_000, "0.999": null}}},
                "verdict": {"doubts": if number == 1 && lost > 0 { vec!["a clock jumped"] } else { Vec::new() }},
            });
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("result.json"), result.to_string()).unwrap();
        }
        dir.join(set).to_str().unwrap().to_owned()
    };
    [of("a", 0), of("b", 32)]
}

#[test]
fn a_comparison_says_what_went_wrong_and_refuses_with_the_reason() {
    let dir = tempfile::tempdir().unwrap();
    let [a, b] = sets(dir.path());
    let output = run(&["bench", "compare", &a, &b]);
    let (shown, said) = text(&output);
    assert!(output.status.success(), "{said}");
    let row = |name: &str| {
        shown.lines().rfind(|line| line.starts_with(name)).unwrap().split_whitespace().collect::<Vec<_>>()
    };
    let head = shown.lines().find(|line| line.contains("LOST")).unwrap();
    assert!(head.ends_with("VALID"), "{shown}");
    assert_eq!(shown.lines().filter(|line| line.starts_with("A  4     0 ")).count(), 1, "{shown}");
    assert!(shown.contains("all, 1 doubtful") && shown.contains("B: doubtful: a clock jumped\n"), "{shown}");
    assert_eq!(row("receipt")[1], "p50", "{shown}");
    assert!(
        shown.contains("left out, as not every run tells it: receipt p90, receipt p99, receipt p99.9"),
        "{shown}"
    );
    let ratio = row("receipt")[5];
    assert!(ratio.starts_with("1.3") && ratio.contains("..1.3"), "{shown}");
    std::fs::write(dir.path().join("b/2/result.json"), invalid("it was late").to_string()).unwrap();
    let said = failure(&run(&["bench", "compare", &a, &b]), 1);
    assert!(said.contains("b/2/result.json: INVALID: it was late; leave it out, or run it again"), "{said}");
}

#[test]
fn what_is_planned_for_after_the_end_is_refused() {
    for (trouble, words) in [
        ("reset = ['10s']", "reset=10s is due after the run's end"),
        ("to-client = 'latency=1ms,stall=5s:1s'", "stall=5s:1s is due after the run's end"),
        ("both = 'latency=50'", "'50' has no unit: expected, for example, 50ms or 50s"),
        ("both = 'bandwidth=10'", "'10' has no unit: expected, for example, 10MiB, 10KiB or 10B"),
        ("resets = '5'", "'5' has no unit"),
    ] {
        let plan = Plan::new(&format!(
            "[trouble]\n{trouble}\n[[system]]\nsystem = 'tcp-echo'\naddress = '127.0.0.1:1'\n{WORKLOAD}"
        ));
        let said = failure(&command(&[&["bench", "run"], &plan.words()[..]].concat()).output().unwrap(), 1);
        assert!(said.contains(words), "{said}");
        assert!(!plan.file("").exists(), "{trouble}");
    }
}
