//! `tailrace bench run` when it is interrupted, at any moment, and when the disk is full.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Output};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use crate::plans::{self, Plan, WORKLOAD};
use crate::support::{TAILRACE, command, failure, run};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tailrace_bench::systems::{EchoProtocol, EchoServer};

/// Without the interrupt, every run here would take much longer than this.
const PATIENCE: Duration = Duration::from_secs(40);

/// The log of the only run's server.
fn log(plan: &Plan) -> String {
    std::fs::read_to_string(plan.file("noop/w/round-1/server.log")).unwrap_or_default()
}

fn interrupt(child: &Child) {
    kill_process(Pid::from_child(child), Signal::INT).unwrap();
}

/// Waits for the end and returns the output. Fails if the process does not end.
fn ended(mut child: Child) -> Output {
    let deadline = Instant::now() + PATIENCE;
    while child.try_wait().unwrap().is_none() {
        if Instant::now() >= deadline {
            child.kill().unwrap();
            panic!("still there: {:?}", child.wait_with_output().unwrap());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child.wait_with_output().unwrap()
}

/// Waits until `is_so` holds.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "waited too long: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn bench(more: &[&str]) -> Child {
    command(&[&["bench", "run"], more].concat()).spawn().unwrap()
}

#[test]
fn while_it_connects() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let child = bench(&["--system", "nats", "--address", &address, "--connections", "100"]);
    // The listener never sends INFO, so each connection would be waited for for ten seconds. The first one is
    // to query the version.
    let (_version, _) = listener.accept().unwrap();
    let (_first, _) = listener.accept().unwrap();
    interrupt(&child);
    let text = failure(&ended(child), 1);
    assert_eq!(text, "tailrace: interrupted while connecting: nothing was measured\n");
}

#[test]
fn in_the_warm_up() {
    let echo = EchoServer::start(EchoProtocol::Tcp).unwrap();
    let address = echo.address().to_string();
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("r");
    let times = ["--warm-up", "600s", "--rate", "100", "--out", out.to_str().unwrap(), "-o", "json"];
    let child = bench(&[&["--system", "tcp-echo", "--address", &address], &times[..]].concat());
    until("answers", || echo.answers() >= 10);
    interrupt(&child);
    let output = ended(child);
    assert_eq!(
        failure(&output, 3),
        "{\"error\":\"nothing was measured: the run was stopped within its warm-up\",\"status\":3}\n"
    );
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&result["interrupted"], &result["valid"]), (&true.into(), &false.into()));
    assert!(out.join("result.json").exists() && !out.join("result.part").exists());
}

/// An echo server that answers only the first message, and reports when it has read this many more.
fn silent_after_one(bytes: usize, messages: usize) -> (String, Receiver<TcpStream>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut message = vec![0; bytes];
        stream.read_exact(&mut message).unwrap();
        stream.write_all(&message).unwrap();
        for _ in 0..messages {
            stream.read_exact(&mut message).unwrap();
        }
        sender.send(stream).unwrap();
    });
    (address, receiver)
}

#[test]
fn while_it_waits_for_the_last_answers() {
    let (address, all_sent) = silent_after_one(128, 50);
    let load = ["--rate", "1000", "--messages", "50", "--warm-up", "0s", "--duration", "1s"];
    let waits = ["--drain", "600s", "--timeout", "600s", "-o", "json"];
    let child = bench(&[&["--system", "tcp-echo", "--address", &address], &load[..], &waits].concat());
    let _stream = all_sent.recv().unwrap();
    interrupt(&child);
    let output = ended(child);
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&result["interrupted"], &result["counts"]["sent"]), (&true.into(), &50.into()));
    assert_eq!(result["latency"]["receipt-timeout"]["count"], 50);
}

#[test]
fn between_two_runs() {
    let plan = Plan::new(&format!("rounds = 2\npause = '600s'\n[[system]]\nsystem = 'noop'\n{WORKLOAD}"));
    let child = bench(&plan.words());
    until("a result", || plan.file("noop/w/round-1/result.json").exists());
    interrupt(&child);
    let output = ended(child);
    let text = failure(&output, 1);
    assert!(text.ends_with("tailrace: interrupted: the same command continues from here\n"), "{text}");
    // The result of the first round is printed.
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(shown.contains("acknowledgement") && shown.contains(" of 1"), "{shown}");
    assert!(!plan.file("noop/w/round-2").exists());
}

/// A plan whose server is a script that first prints its process id.
fn scripted(script: &str) -> Plan {
    // Nothing listens on port 1.
    Plan::new(&format!(
        "rounds = 1\n[[system]]\nsystem = 'noop'\nready = '127.0.0.1:1'\nready-timeout = '600s'\n\
         start = ['sh', '-c', 'echo up $$; {script}']\n{WORKLOAD}"
    ))
}

fn process_of(plan: &Plan) -> String {
    until("the server's output", || log(plan).contains("up ") && log(plan).ends_with('\n'));
    let log = log(plan);
    let number = log.lines().find_map(|line| line.strip_prefix("up ")).unwrap();
    format!("/proc/{number}")
}

#[test]
fn while_a_server_is_not_ready() {
    let plan = scripted("exec sleep 600");
    let child = bench(&plan.words());
    let process = process_of(&plan);
    assert!(Path::new(&process).exists());
    interrupt(&child);
    let text = failure(&ended(child), 1);
    assert!(text.contains("sh does not listen at 127.0.0.1:1: the wait was interrupted; see "), "{text}");
    assert!(text.ends_with("tailrace: interrupted: the same command continues from here\n"), "{text}");
    assert!(!Path::new(&process).exists(), "the server was left behind");
}

#[test]
fn twice_while_a_server_does_not_end() {
    let plan = scripted("trap \"echo no\" TERM; echo deaf; while :; do sleep 1; done");
    let child = bench(&plan.words());
    let process = process_of(&plan);
    // Before the trap is set, the signal would end the script.
    until("the server's trap", || log(&plan).contains("deaf\n"));
    interrupt(&child);
    until("the server heard it", || log(&plan).contains("no\n"));
    interrupt(&child);
    assert_eq!(ended(child).status.code(), Some(130));
    until("the server's end", || !is_alive(&process));
}

/// Reports whether the process is alive. A killed process may stay a zombie until init reaps it.
fn is_alive(process: &str) -> bool {
    let stat = std::fs::read_to_string(format!("{process}/stat")).unwrap_or_default();
    stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().next()).is_some_and(|state| state != "Z")
}

/// The text without the line about a late generator: the machine may be busy.
fn without_verdict(text: &str) -> String {
    text.lines().filter(|line| !line.contains("the run is invalid")).map(|line| format!("{line}\n")).collect()
}

/// Runs the command where files cannot grow beyond 512 bytes.
fn on_a_full_disk(arguments: &[&str]) -> Output {
    let limited = ["-c", "trap '' XFSZ; ulimit -f 1; exec \"$0\" \"$@\"", TAILRACE, "bench", "run"];
    Command::new("sh").args(limited).args(arguments).output().unwrap()
}

#[test]
fn a_full_disk_loses_the_files_and_not_the_result() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("r");
    let load = ["--system", "noop", "--rate", "2000", "--duration", "1s", "--warm-up", "0s"];
    let output =
        on_a_full_disk(&[&load[..], &["--interval", "100ms", "--out", out.to_str().unwrap()]].concat());
    let text = without_verdict(&failure(&output, 1));
    // The error appears once, with the path.
    let place = format!("tailrace: cannot write {}", out.display());
    assert!(
        text.starts_with(&place) && text.contains("file too large") && text.lines().count() == 1,
        "{text}"
    );
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(shown.contains("messages: 2000 due, 2000 sent, 2000 acknowledged"), "{shown}");
    assert!(shown.contains("MILLISECONDS") && shown.contains("lateness"), "{shown}");
    assert!(!out.join("result.json").exists() && !out.join("result.part").exists());
}

#[test]
fn a_plan_goes_on_when_the_disk_has_room_again() {
    let plan = Plan::new(&format!("rounds = 1\npause = '0s'\n[[system]]\nsystem = 'noop'\n{WORKLOAD}"));
    let arguments = plan.words();
    let output = on_a_full_disk(&arguments);
    let text = failure(&output, 1);
    assert!(text.contains("messages: 20 due, 20 sent, 20 acknowledged"), "{text}");
    assert_eq!(text.matches("cannot write").count(), 1, "{text}");
    assert!(text.ends_with("tailrace: 1 runs failed; the same command tries them again\n"), "{text}");
    let result = plan.file("noop/w/round-1/result.json");
    assert!(!result.exists());
    plans::ran(&run(&[&["bench", "run"], &arguments[..]].concat()));
    assert!(result.exists());
}

/// A file system with room for 16 KiB, if the test may mount one.
#[test]
fn a_disk_that_fills_up() {
    let dir = tempfile::tempdir().unwrap();
    let script = "mount -t tmpfs -o size=16k none \"$1\" || exit 77; cd \"$1\"; echo kept > before; \
        \"$0\" bench run --system noop --rate 20k --duration 3s --warm-up 0s --interval 10ms --out r; \
        echo \"status $?\"; ls r; cat before";
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", script, TAILRACE])
        .arg(dir.path())
        .output();
    let Some(output) = output.ok().filter(|output| {
        let errors = String::from_utf8_lossy(&output.stderr);
        output.status.code() != Some(77) && !errors.contains("unshare")
    }) else {
        eprintln!("not tried: no file system can be mounted here");
        return;
    };
    let (shown, text) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(shown.contains("messages: 60000 due") && shown.contains("status 1\n"), "{shown}{text}");
    assert!(shown.contains("intervals.hlog") && !shown.contains("result"), "{shown}");
    assert!(shown.ends_with("kept\n"), "{shown}");
    assert_eq!(without_verdict(&text), "tailrace: cannot write r: no space left on device\n");
}

/// A plan with packet trouble, whose server is tailrace itself; and the server's data folder.
fn packets_in_trouble() -> (Plan, tempfile::TempDir) {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let data = tempfile::tempdir().unwrap();
    let plan = Plan::new(&format!(
        "rounds = 1\npause = '0s'\n[trouble]\nnetem = 'delay=20ms'\nnetem-to-server = 'loss=1%,duplicate=1%'\n\
         [[system]]\nname = 'noop'\nsystem = 'tailrace-nats'\naddress = '{{host}}:{port}'\n\
         start = ['{TAILRACE}', 'serve', '--data-dir', '{}', '--kafka', '{{host}}:0', '--http', '{{host}}:0', \
         '--nats', '{{host}}:{port}']\n{WORKLOAD}drain = '60s'\n",
        data.path().display()
    ));
    (plan, data)
}

/// If this machine cannot make the requested trouble, no result looks as if it had been made.
#[test]
fn trouble_that_cannot_be_made_fails_the_run() {
    let (plan, _data) = packets_in_trouble();
    // A machine without the programs that make it.
    let mut child = command(&[&["bench", "run"][..], &plan.words()[..]].concat());
    let output = child.env("PATH", "/nonexistent").output().unwrap();
    let text = failure(&output, 1);
    assert!(text.contains("noop, w, round 1: netem cannot be set up here: cannot run ip"), "{text}");
    assert!(text.contains("--without-trouble-if-impossible runs without it"), "{text}");
    assert!(text.ends_with("tailrace: 1 runs failed; the same command tries them again\n"), "{text}");
    assert!(!plan.file("noop/w/round-1/result.json").exists());
    // With permission the run goes on without it, and everything that is shown says so.
    let words = [&["bench", "run", "--without-trouble-if-impossible"], &plan.words()[..]].concat();
    let output = command(&words).env("PATH", "/nonexistent").output().unwrap();
    plans::ran(&output);
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(shown.contains(", 1 WITHOUT TROUBLE\n"), "{shown}");
    assert!(shown.contains("trouble that was asked for was not made: to server: tc netem"), "{shown}");
    let result = plan.result("noop/w/round-1");
    assert_eq!(result["trouble_not_made"].as_array().unwrap().len(), 1, "{result}");
    assert!(["doubtful", "invalid"].contains(&result["verdict"]["kind"].as_str().unwrap()), "{result}");
    assert!(result["verdict"]["reasons"].to_string().contains("was not made"), "{result}");
    let page = std::fs::read_to_string(plan.file("report.html")).unwrap();
    let top = page.split("</header>").next().unwrap();
    assert!(top.contains("trouble that was asked for was not made: to server: tc netem"), "{top}");
}

/// Signals are trouble, too. A signal that was not sent because the run was too short counts as not made.
#[test]
fn a_signal_that_was_not_sent_makes_the_run_invalid() {
    let address = crate::support::free_addresses(1).remove(0);
    let echo = EchoServer::start(EchoProtocol::Tcp).unwrap();
    let plan = Plan::new(&format!(
        "rounds = 1\npause = '0s'\n[trouble]\nsignals = [{{ at = '20s', signal = 'SIGSTOP' }}]\n[[system]]\n\
         name = 'echo'\nsystem = 'tcp-echo'\naddress = '{address}'\n\
         start = ['{TAILRACE}', 'bench', 'proxy', '--listen', '{address}', '--to', '{}']\n\
         [[workload]]\nname = 'w'\nrate = 100\nmessages = 20\nduration = '30s'\nwarm-up = '0s'\n",
        echo.address()
    ));
    let words = [&["bench", "run"], &plan.words()[..]].concat();
    let output = run(&words);
    let text = failure(&output, 1);
    assert!(text.contains("1 of 1 runs are invalid or measured nothing: echo/w/round-1"), "{text}");
    // The run is repeated once, and only once.
    assert_eq!(text.matches("repeats echo/w/round-1, which was INVALID: trouble").count(), 1, "{text}");
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(
        shown.contains(" 0 of 1") && shown.contains("not made: SIGSTOP not sent: the run ended before"),
        "{shown}"
    );
    let result = plan.result("echo/w/round-1");
    assert_eq!((&result["valid"], &result["verdict"]["kind"]), (&false.into(), &"invalid".into()));
    assert_eq!(result["trouble_not_made"][0], "SIGSTOP not sent: the run ended before");
    let earlier = result["earlier_attempts"].as_array().unwrap();
    assert!(earlier.len() == 1 && earlier[0].as_str().unwrap().starts_with("INVALID: "), "{result}");
    assert!(shown.contains(" 0 of 1, 1 repeated"), "{shown}");
}

/// The plan's server is tailrace itself, in a network namespace if the machine allows that, and otherwise on
/// loopback.
#[test]
fn packets_are_lost_on_purpose_or_the_run_says_why_not() {
    let (plan, _data) = packets_in_trouble();
    // A leftover of a dead process's run, if it can be made here.
    let stale = "tailrace-bench-4194304-1";
    let ip = |words: &[&str]| {
        Command::new("ip").args(words).output().ok().filter(|output| output.status.success())
    };
    let made = ip(&["netns", "add", stale]).is_some();
    let child = bench(&[&["--without-trouble-if-impossible"], &plan.words()[..]].concat());
    let pid = child.id();
    let output = ended(child);
    let text = String::from_utf8(output.stderr.clone()).unwrap();
    plans::ran(&output);
    let result = std::fs::read(plan.file("noop/w/round-1/result.json")).unwrap();
    let result: Value = serde_json::from_slice(&result).unwrap();
    let told = result["trouble"][0].as_str().unwrap();
    let asked = "to server: tc netem limit 100000 delay 20000us loss 1% duplicate 1%, to client: tc netem limit 100000 delay 20000us";
    assert!(told.starts_with(asked), "{told}");
    let median = result["latency"]["receipt"]["quantiles_ns"]["0.5"].as_u64().unwrap();
    let (shown, address) = (result.to_string(), result["address"].as_str().unwrap());
    if let Some(reason) = told.strip_prefix(asked).unwrap().strip_prefix(" NOT DONE: ") {
        assert!(text.contains(&format!("the run continues without netem: {reason}")), "{text}");
        assert!(address.starts_with("127.0.0.1:") && result["trouble_not_made"][0] == told, "{shown}");
        eprintln!("not tried: {reason}");
    } else {
        // 20 ms each way; TCP hides the rest.
        assert!(median >= 40_000_000 && address.starts_with("198.1"), "{shown}");
        assert_eq!(result["trouble_not_made"], serde_json::json!([]));
    }
    assert_eq!(
        (&result["counts"]["received"], &result["counts"]["lost"]),
        (&20.into(), &0.into()),
        "{shown}"
    );
    // Nothing is left, neither of this run nor of the dead one.
    if made {
        assert!(text.contains(&format!("leftovers of a killed run: {stale}")), "{text}");
        let left = String::from_utf8(ip(&["netns", "list"]).unwrap().stdout).unwrap();
        assert!(!left.contains(stale) && !left.contains(&format!("tailrace-bench-{pid}-")), "{left}");
        assert!(ip(&["link", "show", &format!("tb{pid:x}h")]).is_none());
    }
}
