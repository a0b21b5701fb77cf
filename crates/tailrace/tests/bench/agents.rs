//! `tailrace bench agent` and `bench run --agent`: load from several processes, as from several machines.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Output};
use std::time::Duration;

use crate::support::{Server, command, failure, run, success, until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tailrace_bench::proxy::{Proxy, ProxyOptions, Trouble};
use tailrace_bench::schedule::Schedule;
use tailrace_bench::systems::{EchoProtocol, EchoServer};
use tempfile::TempDir;

const SECOND_NS: u64 = 1_000_000_000;

/// 400 messages per second at random, 1.5 s of which half a second is warm-up.
const LOAD: [&str; 14] = [
    "--rate",
    "400",
    "--schedule",
    "poisson",
    "--seed",
    "7",
    "--warm-up",
    "500ms",
    "--duration",
    "1s",
    "--drain",
    "5s",
    "-o",
    "json",
];

/// Messages due in the measured time of [`LOAD`] on these of its four connections.
fn due(connections: &[u32]) -> u64 {
    let schedule = Schedule::poisson("400".parse().unwrap(), 7).unwrap();
    let measured = SECOND_NS / 2..SECOND_NS * 3 / 2;
    let of = |connection: &u32| {
        let times = schedule.due_times(*connection, 4).take_while(|due| *due < measured.end);
        times.filter(|due| measured.contains(due)).count() as u64
    };
    connections.iter().map(of).sum()
}

/// A folder with a key.
struct Workshop {
    dir: TempDir,
    key: String,
}

impl Workshop {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let key = dir.path().join("key").to_str().unwrap().to_owned();
        success(run(&["bench", "agent", "--new-key", &key]));
        Self { dir, key }
    }

    fn agent(&self, more: &[&str]) -> Agent {
        Agent::start(&[&["--key-file", &self.key], more].concat())
    }

    /// The arguments of a run over four connections from these agents.
    fn words<'a>(&'a self, agents: &[&'a Agent], more: &[&'a str]) -> Vec<&'a str> {
        let mut words = vec!["bench", "run", "--connections", "4", "--agent-key-file", &self.key];
        agents.iter().for_each(|agent| words.extend(["--agent", &agent.address]));
        words.extend(more);
        words
    }

    fn run(&self, agents: &[&Agent], more: &[&str]) -> Output {
        run(&self.words(agents, more))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
}

/// A running agent.
struct Agent {
    child: Child,
    address: String,
}

impl Agent {
    fn start(more: &[&str]) -> Self {
        let words = [&["bench", "agent", "--listen", "127.0.0.1:0"], more].concat();
        let mut child = command(&words).spawn().unwrap();
        let mut ready = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut ready).unwrap();
        let address = ready.strip_prefix("ready ").unwrap_or_else(|| panic!("{ready:?}")).trim().to_owned();
        Self { child, address }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Sends SIGTERM, and returns the exit status and standard error.
    fn end(mut self) -> (Option<i32>, String) {
        self.signal(Signal::TERM);
        let mut said = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        (self.child.wait().unwrap().code(), said)
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn echo() -> (EchoServer, String) {
    let echo = EchoServer::start(EchoProtocol::Tcp).unwrap();
    let address = echo.address().to_string();
    (echo, address)
}

/// The result on standard output. On a busy machine the generator may be late; the counts hold all the same.
fn result(output: &Output) -> Value {
    let errors = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {errors}"))
}

fn read(folder: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(folder.join("result.json")).unwrap()).unwrap()
}

/// Asserts that no message was lost, duplicated or damaged.
fn assert_whole(result: &Value, due: u64) {
    let counts = &result["counts"];
    for name in ["due", "sent", "received"] {
        assert_eq!(counts[name], due, "{name}: {result}");
    }
    for name in
        ["unsent", "lost", "duplicates", "reordered", "corrupt", "foreign", "unknown", "broken_connections"]
    {
        assert_eq!(counts[name], 0, "{name}: {result}");
    }
    assert_eq!(result["latency"]["receipt"]["count"], due);
    assert_eq!(
        (&result["interrupted"], &result["remote"]["lost_agents"]),
        (&false.into(), &Value::Array(vec![]))
    );
}

/// Offset and bound of an agent's clock.
fn clock(result: &Value, agent: usize) -> (i64, u64) {
    let clock = &result["remote"]["agents"][agent]["clock"];
    (clock["offset_ns"].as_i64().unwrap(), clock["bound_ns"].as_u64().unwrap())
}

#[test]
fn together_is_the_schedule_of_one_machine() {
    let (workshop, (_echo, echo)) = (Workshop::new(), echo());
    let (one, two) = (workshop.agent(&[]), workshop.agent(&["--clock-shift-ns", "3600000000000"]));
    let system = ["--system", "tcp-echo", "--address", &echo];
    let out = workshop.path("out");
    let more = [&LOAD[..], &system, &["--out", out.to_str().unwrap()]].concat();
    let result = result(&workshop.run(&[&one, &two], &more));
    assert_whole(&result, due(&[0, 1, 2, 3]));
    assert_eq!(read(&out), result);
    let alone = [&["bench", "run", "--connections", "4"], &LOAD[..], &system].concat();
    assert_eq!(self::result(&run(&alone))["counts"], result["counts"]);
    // Each agent drove its own connections, and no others.
    let agents = &result["remote"]["agents"];
    for (number, connections) in [[0, 2], [1, 3]].into_iter().enumerate() {
        assert_eq!(agents[number]["connections"], serde_json::json!(connections));
        assert_eq!(agents[number]["counts"]["received"], due(&connections));
    }
    // However far the second clock is off, the offset is measured, and no latency contains it.
    for (agent, shift) in [(0, 0), (1, 3600 * SECOND_NS as i64)] {
        let (offset, bound) = clock(&result, agent);
        assert!(offset.abs_diff(shift) <= bound && bound < SECOND_NS, "{result}");
    }
    let remote = &result["remote"];
    assert_eq!((&remote["placement"], &remote["offsets_in_latencies"]), (&"together".into(), &false.into()));
    assert!(remote["receipt_bound_ns"].is_null() && result["counts"]["negative"] == 0, "{result}");
    // The parts of the log add up to the whole, and each agent was sampled.
    let log = std::fs::read(out.join("intervals.hlog")).unwrap();
    let logged = tailrace_bench::recorder::interval_log::total(
        &tailrace_bench::recorder::interval_log::read("log", &log).unwrap(),
    );
    assert_eq!(logged.receipt.success.count(), due(&[0, 1, 2, 3]));
    let resources = std::fs::read_to_string(out.join("resources.csv")).unwrap();
    for agent in [&one, &two] {
        assert!(resources.contains(&format!(",agent {},", agent.address)), "{resources}");
    }
    let page = workshop.path("page.html");
    success(run(&["bench", "report", out.to_str().unwrap(), "--html", page.to_str().unwrap()]));
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("placement together: each latency is of one clock"), "{page}");
    // The key appears in no output.
    let key = std::fs::read_to_string(&workshop.key).unwrap();
    assert!(!page.contains(key.trim()) && !result.to_string().contains(key.trim()));
    let (status, said) = one.end();
    assert_eq!(status, Some(0));
    assert!(said.contains("serving 127.0.0.1") && !said.contains(key.trim()), "{said}");
}

#[test]
fn apart_publishers_and_subscribers_have_two_clocks() {
    let workshop = Workshop::new();
    let server = Server::start(&workshop.path("data"), &[]);
    let (one, two) = (workshop.agent(&[]), workshop.agent(&["--clock-shift-ns", "3600000000000"]));
    let more = [&LOAD[..], &["--system", "nats", "--address", &server.nats, "--placement", "apart"]].concat();
    let result = result(&workshop.run(&[&one, &two], &more));
    let all = due(&[0, 1, 2, 3]);
    assert_whole(&result, all);
    let agents = &result["remote"]["agents"];
    assert_eq!((&agents[0]["role"], &agents[0]["counts"]["sent"]), (&"publisher".into(), &all.into()));
    assert_eq!((&agents[1]["role"], &agents[1]["counts"]["received"]), (&"subscriber".into(), &all.into()));
    let ((first, first_bound), (second, second_bound)) = (clock(&result, 0), clock(&result, 1));
    assert!(first.unsigned_abs() <= first_bound, "{result}");
    assert!(second.abs_diff(3600 * SECOND_NS as i64) <= second_bound, "{result}");
    let remote = &result["remote"];
    assert_eq!(remote["receipt_bound_ns"], first_bound + second_bound);
    assert_eq!(remote["offsets_in_latencies"], true);
    // No latency contains the hour between the clocks.
    let receipt = &result["latency"]["receipt"];
    assert!(receipt["max_ns"].as_u64().unwrap() < 60 * SECOND_NS, "{result}");
    // Values below the bound are not printed. If the median is one of them, the run is invalid.
    let bound = first_bound + second_bound;
    let told = receipt["quantiles_ns"].as_object().unwrap();
    assert!(told.values().filter_map(Value::as_u64).all(|ns| ns >= bound), "{result}");
    let small = remote["receipt_doubtful_quantiles"].as_array().unwrap();
    for quantile in small.iter().map(|quantile| quantile.as_f64().unwrap().to_string()) {
        assert!(told[&quantile].is_null(), "{quantile}: {result}");
    }
    let is_unknown = small.contains(&Value::from(0.5));
    assert!(!is_unknown || result["verdict"]["kind"] == "invalid", "{result}");
    assert!(
        !is_unknown || result["verdict"]["reasons"].to_string().contains("--placement together"),
        "{result}"
    );
}

/// Packets to the second agent take 100 ms, and packets back take no time. So its clock is known to within 50
/// ms, and the estimate is off by as much.
#[test]
fn receipts_that_the_clocks_cannot_tell_are_neither_printed_nor_valid() {
    let workshop = Workshop::new();
    let server = Server::start(&workshop.path("data"), &[]);
    let (one, two) = (workshop.agent(&[]), workshop.agent(&[]));
    let proxy = Proxy::start(ProxyOptions {
        listen: "127.0.0.1:0".parse().unwrap(),
        upstream: two.address.clone(),
        to_server: Trouble { latency: Duration::from_millis(100), ..Trouble::default() },
        to_client: Trouble::default(),
        resets: Vec::new(),
        seed: 1,
    });
    let (proxy, out) = (proxy.unwrap(), workshop.path("out"));
    let far = proxy.address().to_string();
    let mut words = vec!["bench", "run", "--connections", "4", "--agent-key-file", &workshop.key];
    words.extend(["--agent", &one.address, "--agent", &far, "--system", "nats", "--address", &server.nats]);
    words.extend(["--placement", "apart", "--out", out.to_str().unwrap()]);
    words.extend(&LOAD[..LOAD.len() - 2]);
    let output = run(&words);
    let said = failure(&output, 1);
    let reason = "the clocks of publishers and subscribers are known to ±";
    assert!(said.contains("the run is invalid: ") && said.contains(reason), "{said}");
    assert!(said.contains("--placement together"), "{said}");
    let shown = String::from_utf8(output.stdout.clone()).unwrap();
    let receipt = shown.lines().find(|line| line.starts_with("receipt ")).unwrap();
    let cells: Vec<&str> = receipt.split_whitespace().collect();
    assert!(cells[1].starts_with('<'), "{shown}");
    let bound = read(&out)["remote"]["receipt_bound_ns"].as_f64().unwrap() / 1e6;
    assert!(bound >= 50.0, "{shown}");
    let printed = cells[1..10].iter().filter_map(|cell| cell.parse::<f64>().ok());
    assert!(printed.into_iter().all(|milliseconds| milliseconds >= bound - 0.001), "{bound} {shown}");
    assert!(shown.contains("<: smaller than the possible error of the clocks"), "{shown}");
    assert!(shown.contains("INVALID: ") && !shown.contains("\nvalid"), "{shown}");
    // They are not in files or on the page, either.
    let csv = std::fs::read_to_string(out.join("percentiles.csv")).unwrap();
    let median = csv.lines().find(|line| line.starts_with("receipt,0.5,")).unwrap();
    assert!(median.starts_with("receipt,0.5,,") && median.contains("the clocks tell only that"), "{csv}");
    let hgrm = std::fs::read_to_string(out.join("receipt.hgrm")).unwrap();
    let rows = hgrm.lines().filter_map(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    assert!(rows.into_iter().all(|milliseconds| milliseconds >= bound - 0.001), "{bound} {hgrm}");
    let page = std::fs::read_to_string(out.join("report.html")).unwrap();
    let top = page.split("</header>").next().unwrap().split("<header>").nth(1).unwrap();
    assert!(top.contains("<div class=\"verdict invalid\">INVALID: ") && top.contains(reason), "{top}");
    let receipt = page.split("<tr>").find(|row| row.starts_with("<th scope=\"row\">out: receipt")).unwrap();
    assert!(receipt.contains("<td>&lt;") && page.contains("A sign &lt;: "), "{receipt}");
    assert_eq!(read(&out)["latency"]["receipt"]["untold"]["0.5"]["reason"], "below-clocks");
}

#[test]
fn an_agent_that_is_killed_takes_only_its_own_with_it() {
    let (workshop, (server, echo)) = (Workshop::new(), echo());
    let (one, two) = (workshop.agent(&[]), workshop.agent(&[]));
    let system = ["--system", "tcp-echo", "--address", &echo, "-o", "json"];
    let load = ["--rate", "400", "--warm-up", "0s", "--duration", "4s"];
    let words = workshop.words(&[&one, &two], &[&system[..], &load].concat());
    let child = command(&words).spawn().unwrap();
    // By then more than the first second's report has been sent.
    until("the load", || server.answers() > 700);
    two.signal(Signal::KILL);
    let output = child.wait_with_output().unwrap();
    let result = result(&output);
    let said = failure(&output, 1);
    assert_eq!(
        (&result["interrupted"], &result["remote"]["lost_agents"][0]),
        (&true.into(), &two.address.as_str().into())
    );
    let failures = result["failures"].to_string();
    assert!(
        failures.contains(&two.address) && failures.contains("its connections: 1, 3"),
        "{failures} {said}"
    );
    let agents = &result["remote"]["agents"];
    assert_eq!((&agents[0]["counts"]["due"], &agents[0]["counts"]["received"]), (&800.into(), &800.into()));
    let kept = agents[1]["counts"]["received"].as_u64().unwrap();
    assert!((1..800).contains(&kept) && agents[1]["lost"].is_string(), "{result}");
    assert_eq!(result["counts"]["received"], 800 + kept);
    // The other agent serves again.
    let output = workshop.run(&[&one], &[&LOAD[..], &system[..4]].concat());
    assert_eq!(self::result(&output)["counts"]["received"], due(&[0, 1, 2, 3]));
}

/// Starts a long run over two agents, and waits until it is under way.
fn long_run(workshop: &Workshop, agents: &[&Agent], server: &EchoServer) -> Child {
    let echo = server.address().to_string();
    let system = ["--system", "tcp-echo", "--address", &echo, "-o", "json"];
    let load = ["--rate", "400", "--warm-up", "0s", "--duration", "10m"];
    let before = server.answers();
    let child = command(&workshop.words(agents, &[&system[..], &load].concat())).spawn().unwrap();
    // By then more than the first second's report has been sent.
    until("the load", || server.answers() > before + 700);
    child
}

#[test]
fn interruption_stops_all_agents_and_keeps_what_was_measured() {
    let (workshop, (server, _)) = (Workshop::new(), echo());
    let agents = [workshop.agent(&[]), workshop.agent(&[])];
    let child = long_run(&workshop, &[&agents[0], &agents[1]], &server);
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let result = result(&child.wait_with_output().unwrap());
    assert_eq!(
        (&result["interrupted"], &result["remote"]["lost_agents"]),
        (&true.into(), &Value::Array(vec![]))
    );
    let counts = &result["counts"];
    assert!(counts["received"].as_u64().unwrap() >= 600 && counts["lost"] == 0, "{result}");
    assert!(result["measured_seconds"].as_f64().unwrap() < 300.0, "{result}");
}

#[test]
fn a_coordinator_that_is_killed_leaves_no_load_behind() {
    let (workshop, (server, echo)) = (Workshop::new(), echo());
    let agent = workshop.agent(&[]);
    let mut child = long_run(&workshop, &[&agent], &server);
    // Meanwhile the agent serves no other coordinator.
    let more = [&LOAD[..], &["--system", "tcp-echo", "--address", &echo]].concat();
    let said = failure(&workshop.run(&[&agent], &more), 1);
    assert!(said.contains("the agent is busy with another coordinator"), "{said}");
    child.kill().unwrap();
    child.wait().unwrap();
    // The run that finds the agent free counts, even if this machine is too busy to keep its schedule.
    let mut free = None;
    until("the agent is free again", || {
        let output = workshop.run(&[&agent], &more);
        let busy = String::from_utf8_lossy(&output.stderr).contains("busy with another coordinator");
        free = (!busy).then_some(output);
        !busy
    });
    let counts = &result(&free.unwrap())["counts"];
    assert!(counts["received"] == due(&[0, 1, 2, 3]) && counts["lost"] == 0, "{counts}");
    let (status, said) = agent.end();
    assert_eq!(status, Some(0), "{said}");
    assert!(said.contains("lost 127.0.0.1") && said.contains("its load was torn down"), "{said}");
}

#[test]
fn an_agent_that_ends_in_mid_run_says_so() {
    let (workshop, (server, _)) = (Workshop::new(), echo());
    let (one, two) = (workshop.agent(&[]), workshop.agent(&[]));
    let child = long_run(&workshop, &[&one, &two], &server);
    assert_eq!(two.end().0, Some(0));
    assert_eq!(one.end().0, Some(0));
    let output = child.wait_with_output().unwrap();
    let said = result(&output)["failures"].to_string();
    assert!(said.contains("the agent was told to end"), "{said}");
    failure(&output, 1);
}

#[test]
fn wrong_keys_and_wrong_runs_are_named() {
    let (workshop, (_echo, echo)) = (Workshop::new(), echo());
    let agent = workshop.agent(&[]);
    let system = ["--system", "tcp-echo", "--address", &echo];
    let other = Workshop::new();
    let said = failure(&other.run(&[&agent], &system), 1);
    assert!(
        said.contains(&format!("agent {}: ", agent.address)) && said.contains("key is a different one"),
        "{said}"
    );
    for (more, words) in [
        (&["--system", "tcp-echo"][..], "tcp-echo needs --address with agents"),
        (&["--system", "tcp-echo", "--address", &echo, "--placement", "apart"], "at least two agents"),
        (&["--system", "tcp-echo", "--address", &echo, "--agent", &agent.address], "is named twice"),
        (&["--system", "tcp-echo", "--address", "127.0.0.1:1"], "cannot connect to 127.0.0.1:1"),
    ] {
        let said = failure(&workshop.run(&[&agent], more), 1);
        assert!(said.contains(words), "{said}");
    }
    let second = workshop.agent(&[]);
    for (more, words) in [
        (&system[..], "publisher and subscriber of tcp-echo cannot be apart: expected one of nats,"),
        (
            &["--system", "nats", "--address", "127.0.0.1:1", "--mode", "closed"],
            "nats acknowledges nothing, so a publisher apart cannot wait",
        ),
    ] {
        let said = failure(&workshop.run(&[&agent, &second], &[more, &["--placement", "apart"]].concat()), 1);
        assert!(said.contains(words), "{said}");
    }
    // The agent is still up.
    let result = result(&workshop.run(&[&agent], &[&LOAD[..], &system].concat()));
    assert_eq!(result["counts"]["received"], due(&[0, 1, 2, 3]));
    let (_, said) = agent.end();
    assert!(said.contains("the coordinator does not have the same key"), "{said}");
    // Keys that others can read, and key files that exist already.
    let path = Path::new(&workshop.key);
    assert!(failure(&run(&["bench", "agent", "--new-key", &workshop.key]), 1).contains("exists"));
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o644)).unwrap();
    let words = ["bench", "agent", "--listen", "127.0.0.1:0", "--key-file", &workshop.key];
    assert!(failure(&run(&words), 1).contains("others may read it (mode 0644): expected 0600"));
    failure(&run(&["bench", "agent", "--listen", "127.0.0.1:0"]), 2);
    failure(&run(&["bench", "run", "--system", "noop", "--agent", "127.0.0.1:1"]), 2);
}

#[test]
fn a_plan_has_agents() {
    let (workshop, (_echo, echo)) = (Workshop::new(), echo());
    let (one, two) = (workshop.agent(&[]), workshop.agent(&[]));
    let (plan, out) = (workshop.path("plan.toml"), workshop.path("out"));
    let text = format!(
        "rounds = 2\npause = '0s'\nagents = ['{}', '{}']\nagent-key-file = '{}'\n\
         [[system]]\nsystem = 'tcp-echo'\naddress = '{echo}'\n\
         [[workload]]\nname = 'w'\nrate = 200\nduration = '500ms'\nwarm-up = '0s'\nconnections = 2\n",
        one.address, two.address, workshop.key
    );
    std::fs::write(&plan, &text).unwrap();
    // On a busy machine the generator may be late; the counts hold all the same.
    run(&["bench", "run", plan.to_str().unwrap(), "--out", out.to_str().unwrap()]);
    for round in ["round-1", "round-2"] {
        let result = read(&out.join("tcp-echo/w").join(round));
        assert_eq!(
            (&result["counts"]["received"], &result["remote"]["placement"]),
            (&100.into(), &"together".into())
        );
    }
    // What agents cannot do is reported before the first run.
    for (from, to, words) in [
        ("rounds = 2", "rounds = 2\nplacement = 'apart'", "tcp-echo cannot be apart"),
        ("[[workload]]", "[trouble]\nboth = 'latency=1ms'\n[[workload]]", "cannot be combined with agents"),
    ] {
        std::fs::write(&plan, text.replace(from, to)).unwrap();
        let other = workshop.path("other");
        let said =
            failure(&run(&["bench", "run", plan.to_str().unwrap(), "--out", other.to_str().unwrap()]), 1);
        assert!(said.contains(words) && !other.exists(), "{said}");
    }
}
