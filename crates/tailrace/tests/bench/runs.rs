//! Runs, plans, calibration, comparison and reports.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use std::time::{Duration, Instant};

use crate::plans;
use crate::support::{Server, command, failure, free_addresses, run, success};
use serde_json::Value;
use tailrace_bench::systems::{EchoProtocol, EchoServer};

const SHORT: [&str; 8] = ["--duration", "1s", "--warm-up", "200ms", "--rate", "500", "--drain", "2s"];

/// Starts an echo server. Also returns the lines of a plan that start a proxy in front of it as the server
/// under test, and the proxy's address.
fn proxied_echo() -> (EchoServer, String, String) {
    let echo = EchoServer::start(EchoProtocol::Tcp).unwrap();
    let address = free_addresses(1).remove(0);
    let (program, to) = (crate::support::TAILRACE, echo.address());
    let server = format!(
        "address = '{address}'\nstart = ['{program}', 'bench', 'proxy', '--listen', '{address}', '--to', '{to}']\n"
    );
    (echo, address, server)
}

fn bench_run(more: &[&str]) -> std::process::Output {
    let mut arguments = vec!["bench", "run"];
    arguments.extend(SHORT);
    arguments.extend(more);
    run(&arguments)
}

#[test]
fn a_run_counts_every_message() {
    let output = bench_run(&["--system", "tcp-echo", "--connections", "2", "--threads", "2", "-o", "json"]);
    // On a busy machine the generator may be late. The run reports that, and the counts hold all the same.
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output.status.success(), result["valid"].as_bool().unwrap(), "{result}");
    assert_eq!(result["counts"]["due"], 500);
    assert_eq!(result["counts"]["received"], 500);
    assert_eq!(result["latency"]["receipt"]["count"], 500);
    assert_eq!(result["mode"], "open-loop");
    assert!(result["latency"]["lateness"]["count"].as_u64().unwrap() > 0);
    // What is needed to repeat the run.
    assert_eq!(result["tailrace_version"], env!("CARGO_PKG_VERSION"));
    assert!(result["tailrace_commit"].as_str().is_none_or(|commit| commit.len() >= 40), "{result}");
    let arguments: Vec<&str> =
        result["arguments"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect();
    assert_eq!(arguments[..2], SHORT[..2]);
    assert_eq!(arguments[arguments.len() - 2..], ["-o", "json"]);
}

#[test]
fn tailrace_is_measured_over_nats() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir.path().join("data"), &[]);
    let output = bench_run(&["--system", "tailrace-nats", "--address", &server.nats, "-o", "json"]);
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(result["counts"]["due"], 500);
    assert_eq!(result["counts"]["received"], 500);
    assert_eq!(result["latency"]["receipt"]["count"], 500);
}

#[test]
fn results_are_left_in_a_folder_once() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("r").to_str().unwrap().to_owned();
    let arguments = ["--system", "noop", "--out", &out];
    bench_run(&arguments);
    for name in [
        "result.json",
        "intervals.hlog",
        "timeline.csv",
        "percentiles.csv",
        "resources.csv",
        "acknowledgement.hgrm",
        "lateness.hgrm",
    ] {
        let bytes =
            std::fs::read(dir.path().join("r").join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(!bytes.is_empty(), "{name}");
    }
    let text = failure(&bench_run(&arguments), 1);
    assert!(text.contains("holds results already"), "{text}");
}

#[test]
fn other_loads_are_labelled() {
    let closed = bench_run(&["--system", "tcp-echo", "--mode", "closed"]);
    let text = String::from_utf8(closed.stdout).unwrap();
    assert!(text.contains("CLOSED LOOP") && text.contains("reply, corrected"), "{text}");
    let throttle = bench_run(&["--system", "noop", "--mode", "full-throttle", "--messages", "10000"]);
    let text = String::from_utf8(throttle.stdout).unwrap();
    assert!(text.contains("FULL THROTTLE"), "{text}");
}

#[test]
fn messages_that_end_within_the_warm_up_are_no_fault_of_the_generator() {
    let output = bench_run(&["--system", "noop", "--mode", "full-throttle", "--messages", "1000", "-q"]);
    let text = failure(&output, 3);
    assert_eq!(text, "tailrace: nothing was measured: the 1000 messages were sent within the warm-up\n");
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(shown.contains("NOTHING MEASURED: the 1000 messages were sent"), "{shown}");
    assert!(!shown.contains("INVALID") && !shown.contains("doubtful") && !shown.contains("floor"), "{shown}");
}

#[test]
fn wrong_options_are_named() {
    for (more, words) in [
        (&["--system", "noop", "--size", "10"][..], "size is 10: expected 24 to"),
        (&["--system", "noop", "--steps", "1000"], "'1000' is not a step"),
        (&["--system", "noop", "--set", "a=b"], "'a' is not a setting of the system noop"),
        (&["--system", "nats", "--address", "127.0.0.1:1"], "cannot connect to 127.0.0.1:1"),
        (&["plan.toml"], "cannot read plan.toml"),
        (&["--system", "noop", "--out", "x", "--server-pid", "4194305"], "there is no process 4194305"),
    ] {
        let text = failure(&bench_run(more), 1);
        assert!(text.starts_with("tailrace: ") && text.contains(words), "{text}");
    }
    failure(&bench_run(&["--rate", "often"]), 2);
    let text = failure(&bench_run(&["--system", "pigeon"]), 2);
    assert!(text.contains("'pigeon'") && text.contains("expected one of noop, "), "{text}");
    let text = failure(&run(&["bench", "proxy", "--to", "127.0.0.1:1", "--both", "rain=1s"]), 1);
    assert!(text.contains("'rain' is not a kind of trouble"), "{text}");
}

/// The names and contents of all files in a folder.
fn contents(folder: &std::path::Path) -> String {
    let mut text = String::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        text.push_str(&path.display().to_string());
        if path.is_dir() {
            text.push_str(&contents(&path));
        } else {
            text.push_str(&String::from_utf8_lossy(&std::fs::read(&path).unwrap()));
        }
    }
    text
}

#[test]
fn secrets_stay_out_of_results_reports_and_messages() {
    let dir = tempfile::tempdir().unwrap();
    let (echo, address, _) = proxied_echo();
    let (plan, page) = (dir.path().join("plan.toml"), dir.path().join("report.html"));
    let (program, to) = (crate::support::TAILRACE, echo.address());
    let script = "exec \"$0\" bench proxy --listen \"$1\" --to \"$2\" # API_TOKEN=hush-1";
    let text = format!(
        "rounds = 1\npause = '0s'\n[[system]]\nname = 'echo'\nSYSTEM\naddress = '{address}'\n\
         version = ['VERSION', '-c', 'echo 7', '--key=hush-2', '--token', 'hush-3']\n\
         start = ['sh', '-c', '{script}', '{program}', '{address}', '{to}', '--password', 'hush-4']\n\
         [[workload]]\nname = 'w'\nrate = 50\nduration = '200ms'\nwarm-up = '0s'\n",
    );
    let tcp = "system = 'tcp-echo'";
    // The echo server does not speak STOMP. The error may show its wrong answer, but not the settings.
    let stomp = "system = 'stomp'\nset = { user = 'me', password = 'hush-5' }";
    let mut seen = String::new();
    for (name, system, version, expected) in [
        ("works", tcp, "sh", "p99"),
        ("answers", stomp, "sh", "sent an unexpected answer"),
        ("version", tcp, "false", "'false -c echo 7 --key=*** --token ***' reported no version"),
    ] {
        std::fs::write(&plan, text.replace("SYSTEM", system).replace("VERSION", version)).unwrap();
        let out = dir.path().join(name);
        let arguments = ["bench", "run", plan.to_str().unwrap(), "--out", out.to_str().unwrap()];
        // The second time it is recognized as the same plan.
        for _ in 0..2 {
            let output = run(&arguments);
            let told = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
            assert!(told.to_lowercase().contains(expected) || told.contains(expected), "{told}");
            seen.push_str(&told);
        }
        seen.push_str(&contents(&out));
    }
    let works = dir.path().join("works");
    success(run(&["bench", "report", works.to_str().unwrap(), "--html", page.to_str().unwrap()]));
    seen.push_str(&std::fs::read_to_string(&page).unwrap());
    let secret = ["--system", "rabbitmq", "--set", "password=hush-6", "--address", "me:hush-7@127.0.0.1:1"];
    let text = failure(&bench_run(&secret), 1);
    assert!(text.contains("the address ***@127.0.0.1:1 names a user"), "{text}");
    seen.push_str(&text);
    assert!(!seen.contains("hush"), "{seen}");
    assert!(seen.contains("--password', \"***\"]") && seen.contains("# API_TOKEN=***"), "{seen}");
}

#[test]
fn interruption_keeps_what_was_measured() {
    let echo = EchoServer::start(EchoProtocol::Tcp).unwrap();
    let address = echo.address().to_string();
    let run = [
        "bench",
        "run",
        "--system",
        "tcp-echo",
        "--address",
        &address,
        "--rate",
        "1000",
        "--duration",
        "60s",
    ];
    let mut child = command(&[&run[..], &["--warm-up", "0s", "-o", "json"]].concat()).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(30);
    while echo.answers() < 500 {
        assert!(Instant::now() < deadline, "{} answers", echo.answers());
        std::thread::sleep(Duration::from_millis(1));
    }
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let mut text = String::new();
    std::io::Read::read_to_string(&mut stdout, &mut text).unwrap();
    child.wait().unwrap();
    let result: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(result["interrupted"], true);
    assert!(result["counts"]["sent"].as_u64().unwrap() > 100, "{result}");
    // Messages due at that moment are neither failures nor latencies.
    assert_eq!((&result["counts"]["unsent"], &result["counts"]["lost"]), (&0.into(), &0.into()), "{result}");
    assert_eq!(result["counts"]["due"], result["counts"]["sent"], "{result}");
    assert_eq!(result["latency"]["receipt"]["count"], result["counts"]["sent"], "{result}");
    assert!(result["latency"].get("receipt-timeout").is_none(), "{result}");
}

#[test]
fn calibration_shows_the_stall_and_who_hides_it() {
    let dir = tempfile::tempdir().unwrap();
    let (svg, png) = (dir.path().join("stall.svg"), dir.path().join("stall.png"));
    let arguments = [
        "bench",
        "calibrate",
        "--duration",
        "4s",
        "--stall",
        "2s",
        "--rate",
        "500",
        "--slack",
        "500ms",
        "-o",
        "json",
        "--svg",
        svg.to_str().unwrap(),
        "--png",
        png.to_str().unwrap(),
    ];
    let judged: Value = serde_json::from_slice(&success(run(&arguments))).unwrap();
    assert_eq!((&judged[0]["right"], &judged[0]["omits"]), (&Value::Bool(true), &Value::Bool(false)));
    assert_eq!((&judged[1]["right"], &judged[1]["omits"]), (&Value::Bool(false), &Value::Bool(true)));
    let drawn = std::fs::read_to_string(svg).unwrap();
    for label in ["open loop", "closed loop, for comparison", "closed loop, corrected", "computed by hand"] {
        assert!(drawn.contains(label), "{label}");
    }
    assert_eq!(drawn.matches("<polyline").count() + drawn.matches("<path").count(), 3, "{drawn}");
    assert!(std::fs::read(png).unwrap().starts_with(b"\x89PNG"));
}

#[test]
fn runs_are_compared_as_runs() {
    let dir = tempfile::tempdir().unwrap();
    for (set, median) in [("a", 100_000), ("b", 300_000)] {
        for run in 0..4 {
            let folder = dir.path().join(set).join(run.to_string());
            std::fs::create_dir_all(&folder).unwrap();
            let quantiles = serde_json::json!({"0.5": median + run * 1000, "0.99": 1_000_000 + run * 50_000});
            let result = serde_json::json!({
                "system": set, "valid": true, "interrupted": false, "mode": "open-loop",
                "latency": {"receipt": {"quantiles_ns": quantiles}}
            });
            std::fs::write(folder.join("result.json"), result.to_string()).unwrap();
        }
    }
    let (a, b) = (dir.path().join("a"), dir.path().join("b"));
    let arguments = ["bench", "compare", a.to_str().unwrap(), b.to_str().unwrap()];
    let text = String::from_utf8(success(run(&arguments))).unwrap();
    let p50 = text.lines().find(|line| line.contains("p50")).unwrap();
    assert!(p50.ends_with("differs"), "{text}");
    let p99 = text.lines().find(|line| line.contains("p99 ")).unwrap();
    assert!(p99.ends_with("no difference shown"), "{text}");
    let text = failure(&run(&["bench", "compare", a.to_str().unwrap(), "/nonexistent"]), 1);
    assert!(text.contains("cannot read /nonexistent"), "{text}");
}

#[test]
fn a_plan_takes_turns_starts_servers_and_goes_on_where_it_stopped() {
    let dir = tempfile::tempdir().unwrap();
    let (_echo, _, server) = proxied_echo();
    let (plan, out) = (dir.path().join("plan.toml"), dir.path().join("out"));
    let text = format!(
        "rounds = 2\npause = '0s'\n[[system]]\nsystem = 'noop'\n[[system]]\nname = 'echo'\nsystem = 'tcp-echo'\n\
         version = ['{}', '--version']\ncommit = ['echo', 'deadbeef']\n{server}\
         [[workload]]\nname = 'w'\nrate = 200\nduration = '300ms'\nwarm-up = '100ms'\n",
        crate::support::TAILRACE,
    );
    std::fs::write(&plan, &text).unwrap();
    let arguments = ["bench", "run", plan.to_str().unwrap(), "--out", out.to_str().unwrap(), "-o", "json"];
    let results: Value = serde_json::from_slice(plans::ran(&run(&arguments))).unwrap();
    let runs: Vec<_> = results.as_array().unwrap().iter().map(|row| (&row["system"], &row["runs"])).collect();
    assert_eq!(runs, [(&Value::from("noop"), &Value::from(2)), (&Value::from("echo"), &Value::from(2))]);
    let folder = out.join("echo/w/round-2");
    let resources = std::fs::read_to_string(folder.join("resources.csv")).unwrap();
    assert!(resources.contains(",server,") && resources.contains(",generator,"), "{resources}");
    assert!(std::fs::read_to_string(folder.join("server.log")).unwrap().starts_with("ready "));
    let page = dir.path().join("report.html");
    let svg = dir.path().join("svg");
    let report = [
        "bench",
        "report",
        out.to_str().unwrap(),
        "--html",
        page.to_str().unwrap(),
        "--svg",
        svg.to_str().unwrap(),
        "--png",
        svg.to_str().unwrap(),
    ];
    success(run(&report));
    let text_of_page = std::fs::read_to_string(&page).unwrap();
    // Four charts of messages, and charts of resources that are not all 0; each of them as SVG and as PNG,
    // with an index.
    let charts = text_of_page.matches("<div class=\"wide\">").count();
    assert!(text_of_page.contains("<h2>w <span") && (7..=11).contains(&charts), "{charts}");
    assert_eq!(std::fs::read_dir(&svg).unwrap().count(), 2 * charts + 1);
    assert!(std::fs::read(svg.join(format!("chart-{charts}.png"))).unwrap().starts_with(b"\x89PNG"));
    let version = format!("tailrace {}", env!("CARGO_PKG_VERSION"));
    let result: Value = serde_json::from_slice(&std::fs::read(folder.join("result.json")).unwrap()).unwrap();
    assert_eq!(result["version_command_output"], version.as_str());
    assert_eq!(result["system_commit"], "deadbeef");
    assert!(text_of_page.contains("<td>commit of the system</td>") && text_of_page.contains("deadbeef"));
    assert!(text_of_page.contains(&version) && text_of_page.contains("--system=tcp-echo"), "{text_of_page}");
    assert!(text_of_page.contains("name = 'echo'"), "the plan is shown");
    // Three curves of resources: two generators and one server.
    let memory = text_of_page.split("<svg").find(|chart| chart.contains("w: memory in RAM")).unwrap();
    assert_eq!(memory.matches("<polyline").count(), 3, "{memory}");
    assert!(memory.contains("echo: server") && memory.contains(">MiB<"), "{memory}");
    // A valid result is not measured again; a missing one is.
    let valid = serde_json::json!({"valid": true, "interrupted": false, "system": "kept"}).to_string();
    std::fs::write(folder.join("result.json"), &valid).unwrap();
    std::fs::remove_file(out.join("noop/w/round-1/result.json")).unwrap();
    plans::ran(&run(&arguments));
    assert_eq!(std::fs::read_to_string(folder.join("result.json")).unwrap(), valid);
    assert!(out.join("noop/w/round-1/result.json").exists());
    // Results of another plan are not mixed in.
    std::fs::write(&plan, text.replace("rounds = 2", "rounds = 3")).unwrap();
    assert!(failure(&run(&arguments), 1).contains("belongs to another plan"));
    // If a server does not start, its runs fail, and the others go on.
    std::fs::write(
        &plan,
        text.replace(&format!("start = ['{}'", crate::support::TAILRACE), "start = ['/bin/false'"),
    )
    .unwrap();
    let other = dir.path().join("other");
    let output = run(&["bench", "run", plan.to_str().unwrap(), "--out", other.to_str().unwrap()]);
    let text = failure(&output, 1);
    assert!(text.contains("ended before it was ready") && text.contains("2 runs failed"), "{text}");
    assert!(other.join("noop/w/round-2/result.json").exists());
}

/// The result of a run in full throttle, with the throughput that the law predicts.
fn scaled_run(folder: &std::path::Path, connections: u32, mode: &str) {
    let n = f64::from(connections);
    let throughput = 5000.0 * n / (1.0 + 0.04 * (n - 1.0) + 0.0006 * n * (n - 1.0));
    let result = serde_json::json!({
        "system": "js", "valid": true, "interrupted": false, "mode": mode, "connections": connections, "in_flight_max": 2,
        "received_per_second": throughput, "latency": {"receipt": {"mean_ns": n / throughput * 1e9}},
    });
    std::fs::create_dir_all(folder).unwrap();
    std::fs::write(folder.join("result.json"), result.to_string()).unwrap();
}

#[test]
fn scalability_is_fitted_from_results() {
    let dir = tempfile::tempdir().unwrap();
    let results = dir.path().join("results");
    for connections in [1, 2, 4, 8, 16, 32, 64] {
        for round in ["round-1", "round-2"] {
            let folder = results.join("js").join(connections.to_string()).join(round);
            scaled_run(&folder, connections, "full-throttle");
        }
    }
    let (js, svg) = (results.join("js"), dir.path().join("usl.svg"));
    let png = dir.path().join("usl.png");
    let usl = [
        "bench",
        "usl",
        js.to_str().unwrap(),
        "--svg",
        svg.to_str().unwrap(),
        "--png",
        png.to_str().unwrap(),
    ];
    // With two messages in flight per connection the curve is the same, over twice the load.
    for (load, gamma, peak) in [
        ("connections", 5000.0, 40.0),
        ("measured", 5000.0, 40.0),
        ("in-flight", 2500.0 / (1.0 - 0.04 / 2.0 - 0.0006 / 4.0), 80.0),
    ] {
        let arguments = [&usl[..], &["--load", load, "-o", "json"]].concat();
        let found: Value = serde_json::from_slice(&success(run(&arguments))).unwrap();
        let fit = &found["fit"];
        let near = |key: &str, expected: f64| (fit[key].as_f64().unwrap() / expected - 1.0).abs() < 1e-6;
        assert_eq!((&found["runs"], fit["residuals"].as_array().unwrap().len()), (&Value::from(14), 14));
        assert!(near("gamma", gamma) && near("peak_throughput", 200_000.0 / 3.496), "{found}");
        assert!(near("peak_load", peak), "{found}");
        assert!(load == "in-flight" || (near("sigma", 0.04) && near("kappa", 0.0006)), "{found}");
    }
    let text = String::from_utf8(success(run(&usl))).unwrap();
    for words in
        ["js, 14 runs; load: connections", "sigma 0.040000", "peak N* 40.00: 57.2 k", "R squared 1.0000"]
    {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert!(std::fs::read(&png).unwrap().starts_with(b"\x89PNG"));
    let picture = std::fs::read_to_string(&svg).unwrap();
    assert_eq!((picture.matches("<circle").count(), picture.matches("<polyline").count()), (14, 1));
    // Data that cannot be fitted is rejected.
    let of = |connections: &str| js.join(connections).to_str().unwrap().to_owned();
    let text = failure(&run(&["bench", "usl", &of("1"), &of("2"), &of("4")]), 1);
    assert!(text.contains("4 different loads or more: found 3 (1, 2, 4)"), "{text}");
    scaled_run(&js.join("2").join("round-1"), 2, "open-loop");
    let text = failure(&run(&["bench", "usl", js.to_str().unwrap()]), 1);
    assert!(text.contains("the runs are not alike: mode is"), "{text}");
    let text = failure(&run(&["bench", "usl", js.join("2").join("round-1").to_str().unwrap()]), 1);
    assert!(text.contains("whose schedule decides how much is sent"), "{text}");
}

#[test]
fn a_killed_server_is_started_again_within_the_run() {
    let dir = tempfile::tempdir().unwrap();
    let (_echo, _, server) = proxied_echo();
    let (plan, out) = (dir.path().join("plan.toml"), dir.path().join("out"));
    let text = format!(
        "rounds = 1\npause = '0s'\n[trouble]\n\
         signals = [{{ at = '1100ms', start = true }}, {{ at = '500ms', signal = 'SIGKILL' }}]\n[[system]]\n\
         name = 'echo'\nsystem = 'tcp-echo'\n{server}\
         [[workload]]\nname = 'w'\nrate = 200\nduration = '3s'\nwarm-up = '0s'\n"
    );
    std::fs::write(&plan, &text).unwrap();
    plans::ran(&run(&["bench", "run", plan.to_str().unwrap(), "--out", out.to_str().unwrap()]));
    let folder = out.join("echo/w/round-1");
    let result: Value = serde_json::from_slice(&std::fs::read(folder.join("result.json")).unwrap()).unwrap();
    let trouble: Vec<&str> =
        result["trouble"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect();
    assert!(trouble[0].starts_with("SIGKILL to the server at 0.5"), "{trouble:?}");
    let (started, ready) = trouble[1]
        .strip_prefix("server started again at ")
        .and_then(|rest| rest.split_once(" s, ready at "))
        .unwrap_or_else(|| panic!("{trouble:?}"));
    let ready: f64 = ready.strip_suffix(" s").unwrap().parse().unwrap();
    assert!(started.parse::<f64>().unwrap() >= 1.1 && ready >= 1.1, "{trouble:?}");
    // Both processes wrote to one log. Every message was sent, and the longest wait was for the second
    // process.
    let log = std::fs::read_to_string(folder.join("server.log")).unwrap();
    assert_eq!(log.matches("ready proxy=").count(), 2, "{log}");
    let counts = &result["counts"];
    assert_eq!((&counts["broken_connections"], &counts["reconnected"]), (&1.into(), &1.into()), "{result}");
    assert_eq!((&counts["sent"], &counts["lost"], &counts["unsent"]), (&600.into(), &0.into(), &0.into()));
    let back = result["breaks"][0]["back_at_ns"].as_f64().unwrap() / 1e9;
    let longest = result["latency"]["receipt"]["quantiles_ns"]["1"].as_f64().unwrap() / 1e9;
    assert!(back >= 1.1 && longest >= 0.5 && result["failures"] == serde_json::json!([]), "{result}");
    // The second process is sampled as the first one was: it has memory at the end.
    let resources = std::fs::read_to_string(folder.join("resources.csv")).unwrap();
    let last = resources.lines().rfind(|line| line.contains(",server,")).unwrap();
    let resident: u64 = last.split(',').nth(3).unwrap().parse().unwrap();
    assert!(resident > 0, "{resources}");
    // The result of a plan with this key can be drawn.
    let page = dir.path().join("report.html");
    success(run(&["bench", "report", out.to_str().unwrap(), "--html", page.to_str().unwrap()]));
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("1 times broken, 1 times reconnected: at 0.5"), "{page}");
}

#[test]
fn a_plan_makes_trouble() {
    let dir = tempfile::tempdir().unwrap();
    let (_echo, address, server) = proxied_echo();
    let (plan, out) = (dir.path().join("plan.toml"), dir.path().join("out"));
    // The trouble in front of the stopped proxy is the plan's own.
    let text = format!(
        "rounds = 1\npause = '0s'\n[trouble]\nboth = 'latency=20ms'\n\
         signals = [{{ at = '1s', signal = 'SIGCONT' }}, {{ at = '300ms', signal = 'SIGSTOP' }}]\n[[system]]\n\
         name = 'echo'\nsystem = 'tcp-echo'\n{server}\
         [[workload]]\nname = 'w'\nrate = 200\nduration = '1500ms'\nwarm-up = '0s'\n"
    );
    std::fs::write(&plan, &text).unwrap();
    plans::ran(&run(&["bench", "run", plan.to_str().unwrap(), "--out", out.to_str().unwrap()]));
    let result = std::fs::read(out.join("echo/w/round-1/result.json")).unwrap();
    let result: Value = serde_json::from_slice(&result).unwrap();
    let trouble: Vec<&str> =
        result["trouble"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect();
    assert_eq!(trouble[0], format!("proxy to {address} --both=latency=20ms"));
    let sent_at = |sent: &str, name: &str| -> f64 {
        let seconds = sent.strip_prefix(name).and_then(|rest| rest.strip_prefix(" to the server at "));
        seconds.and_then(|rest| rest.strip_suffix(" s")).unwrap().parse().unwrap()
    };
    let (stopped, went_on) = (sent_at(trouble[1], "SIGSTOP"), sent_at(trouble[2], "SIGCONT"));
    assert!(stopped >= 0.3 && went_on >= 1.0, "{trouble:?}");
    // No message is lost, every message takes the proxy's 40 ms, and the first one due in the stall waited
    // for its end.
    assert_eq!((&result["counts"]["received"], &result["counts"]["lost"]), (&300.into(), &0.into()));
    let quantiles = &result["latency"]["receipt"]["quantiles_ns"];
    assert!(quantiles["0.5"].as_u64().unwrap() >= 40_000_000, "{quantiles}");
    let longest = quantiles["1"].as_u64().unwrap() as f64 / 1e9;
    assert!(longest >= went_on - stopped - 0.05, "{longest} {trouble:?}");
}
