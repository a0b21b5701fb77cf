//! Every verb with names that do not exist, against a real server. Each one says which name it is, and none
//! ends with status 0 as if it had done something.
//!
//! The list of verbs comes from the binary's own help: a verb without a row fails the test.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use std::collections::BTreeSet;

use crate::support::{Server, run, success};

/// A verb, its arguments, the status that it must end with, and a text that must be on standard error.
/// `{dir}` is an empty folder that exists; `{closed}` is an address where nothing listens.
type Row = (&'static str, &'static [&'static str], i32, &'static str);

const MISSING: &str = "no such file or directory";

const ROWS: &[Row] = &[
    ("serve", &["--config", "{dir}/nope.toml"], 1, MISSING),
    ("serve", &["--set", "nope=1"], 1, "nope"),
    ("topic create", &["t", "--config", "nope=1"], 1, "nope"),
    ("topic create", &["t", "--replication-factor", "7"], 1, "7"),
    ("topic list", &["--bootstrap", "{closed}"], 1, "cannot connect to {closed}"),
    ("topic describe", &["nope"], 1, "there is no topic 'nope'"),
    ("topic describe", &["orders", "nope"], 1, "there is no topic 'nope'"),
    ("topic alter", &["nope", "--partitions", "2"], 1, "there is no topic 'nope'"),
    ("topic alter", &["orders", "--config", "nope=1"], 1, "nope"),
    ("topic alter", &["orders", "--delete-config", "nope"], 1, "topics have no setting 'nope'"),
    ("topic alter", &["orders"], 2, "--delete-config"),
    ("topic delete", &["nope"], 1, "there is no topic 'nope'"),
    ("group list", &["--state", "nope"], 2, "expected one of Assigning, "),
    ("group list", &["--type", "nope"], 2, "expected one of classic, consumer, share, streams"),
    ("group describe", &["nope"], 1, "there is no group 'nope'"),
    ("group lag", &["nope"], 1, "there is no group 'nope'"),
    ("group lag", &["--topic", "nope"], 1, "there is no topic 'nope'"),
    ("group lag", &["g", "--topic", "nope"], 1, "there is no topic 'nope'"),
    ("group reset", &["nope", "--all-topics", "--to-latest"], 1, "group 'nope' has no offsets"),
    ("group reset", &["g", "--topic", "nope", "--to-latest"], 1, "there is no topic 'nope'"),
    ("group reset", &["g", "--topic", "orders:9", "--to-latest"], 1, "has no partition 9"),
    ("group reset", &["g", "--from-file", "{dir}/nope"], 1, MISSING),
    ("group reset", &["g", "--topic", "orders", "--to-datetime", "tomorrow"], 2, "'tomorrow' is not a time"),
    ("group delete", &["nope"], 1, "there is no group 'nope'"),
    ("group delete", &["nope", "--topic", "orders"], 1, "there is no group 'nope'"),
    ("group delete", &["g", "--topic", "nope"], 1, "there is no topic 'nope'"),
    ("group delete", &["g", "--topic", "other"], 1, "group 'g' has no offsets of topic 'other'"),
    ("txn list", &["--state", "nope"], 2, "expected one of Empty, Ongoing, "),
    ("txn list", &["--pattern", "["], 1, "regular expression"),
    ("txn describe", &["nope"], 1, "there is no transactional id 'nope'"),
    ("txn abort", &["--transactional-id", "nope"], 1, "there is no transactional id 'nope'"),
    (
        "txn abort",
        &["--topic", "nope", "--partition", "0", "--producer-id", "1"],
        1,
        "there is no topic 'nope'",
    ),
    ("txn abort", &["--topic", "orders", "--partition", "9", "--producer-id", "1"], 1, "has no partition 9"),
    ("txn abort", &["--topic", "orders", "--partition", "0", "--producer-id", "7"], 1, "no such transaction"),
    ("cluster status", &["--http", "{closed}"], 1, "cannot get /clusterz from {closed}"),
    ("cluster reassign", &["--topic", "nope", "--replicas", "1"], 1, "there is no topic 'nope'"),
    ("cluster reassign", &["--topic", "orders", "--partition", "9", "--cancel"], 1, "has no partition 9"),
    ("cluster reassign", &["--topic", "orders", "--replicas", "77"], 1, "77"),
    ("cluster reassign", &["--topic", "orders"], 2, "--replication-factor"),
    ("cluster decommission", &["77"], 1, "there is no node 77"),
    ("cluster decommission", &["77", "--cancel"], 1, "there is no node 77"),
    ("cluster scrub", &["--topic", "nope"], 1, "there is no topic 'nope'"),
    ("cluster scrub", &["--http", "{closed}"], 1, "cannot get /clusterz from {closed}"),
    ("cluster repair", &["--topic", "nope"], 1, "there is no topic 'nope'"),
    ("cluster repair", &["--topic", "orders", "--partition", "9"], 1, "has no partition 9"),
    ("user add", &["nope", "--password-file", "{dir}/nope"], 1, MISSING),
    ("user add", &["nope", "--mechanism", "nope"], 2, "invalid value 'nope'"),
    ("user list", &["nope"], 1, "there is no user 'nope'"),
    ("user rotate", &["nope"], 1, "there is no user 'nope'"),
    ("user remove", &["nope"], 1, "there is no user 'nope'"),
    ("user enable", &["nope"], 1, "there is no user 'nope'"),
    ("user disable", &["nope"], 1, "there is no user 'nope'"),
    ("token create", &[], 1, "delegation tokens need another kind of connection"),
    ("token list", &[], 1, "delegation tokens need another kind of connection"),
    ("token renew", &["nope"], 1, "delegation tokens need another kind of connection"),
    ("token expire", &["nope"], 1, "delegation tokens need another kind of connection"),
    ("acl explain", &["--user", "a", "--topic", "t", "--operation", "nope"], 2, "expected one of all, "),
    ("acl add", &["--user", "nope", "--topic", "t", "--operation", "nope"], 2, "expected one of all, "),
    (
        "acl add",
        &[
            "--user",
            "a",
            "--topic",
            "t",
            "--operation",
            "read",
            "--sasl-user",
            "a",
            "--password-file",
            "{dir}/nope",
        ],
        1,
        MISSING,
    ),
    ("acl list", &["--sasl-user", "a", "--password-file", "{dir}/nope"], 1, MISSING),
    (
        "acl remove",
        &["--user", "a", "--yes", "--sasl-user", "a", "--password-file", "{dir}/nope"],
        1,
        MISSING,
    ),
    ("quota set", &["--user", "a", "--limit", "nope=nope"], 2, "'nope' is no rate"),
    (
        "quota set",
        &["--user", "a", "--mutations", "5", "--sasl-user", "a", "--password-file", "{dir}/nope"],
        1,
        MISSING,
    ),
    ("quota list", &["--sasl-user", "a", "--password-file", "{dir}/nope"], 1, MISSING),
    ("quota remove", &["--user", "nope"], 1, "user 'nope': there is no quota"),
    ("produce", &["nope"], 1, "there is no topic 'nope'"),
    ("produce", &["orders", "--partition", "9"], 1, "has no partition 9"),
    ("produce", &["orders", "--files", "{dir}/nope"], 1, MISSING),
    ("consume", &["nope"], 1, "there is no topic 'nope'"),
    ("consume", &["orders", "--partition", "9"], 1, "has no partition 9"),
    ("consume", &["orders", "--from", "4711"], 1, "orders-0 has no offset 4711"),
    ("consume", &["orders", "--format", "%q"], 2, "unknown %q"),
    ("pub", &["nope", "x", "--user", "nope", "--password", "x"], 1, "Authorization Violation"),
    ("pub", &["nope", "x", "--ack"], 1, "no topic stores messages to 'nope'"),
    ("pub", &["a b", "x"], 2, "a subject has no blanks"),
    ("pub", &["--template", "a.{{Nope}}", "x"], 2, "unknown {{nope}}"),
    ("sub", &["nope", "--user", "nope", "--password", "x"], 1, "Authorization Violation"),
    ("sub", &["nope", "--nkey", "{dir}/nope"], 1, MISSING),
    ("sub", &["nope", "--creds", "{dir}/nope"], 1, MISSING),
    ("request", &["nope", "x"], 1, "there are no responders for 'nope'"),
    ("reply", &["nope", "x", "--user", "nope", "--password", "x"], 1, "Authorization Violation"),
    ("top", &["--once", "--monitor", "{closed}"], 1, "from {closed}"),
    ("top", &["--once", "--sort", "nope"], 2, "possible values: rate"),
    ("log dump", &["{dir}/nope"], 1, MISSING),
    ("log verify", &["{dir}/nope"], 1, MISSING),
    ("log repair", &["{dir}/nope"], 1, MISSING),
    ("config check", &["--config", "{dir}/nope.toml"], 1, MISSING),
    ("config check", &["--set", "nope=1"], 1, "nope"),
    ("config print", &["--config", "{dir}/nope.toml"], 1, MISSING),
    ("config print", &["--set", "nope=1"], 1, "nope"),
    ("config reference", &["nope"], 2, "unexpected argument 'nope'"),
];

/// Rows of the feature `bench`.
const ROWS_OF_BENCH: &[Row] = &[
    ("bench run", &["--system", "nope"], 2, "expected one of noop, "),
    ("bench run", &["--system", "redis", "--set", "nope=1"], 1, "'nope' is not a setting"),
    ("bench run", &["{dir}/nope.toml", "--out", "{dir}/out"], 1, MISSING),
    ("bench run", &["--system", "nats", "--address", "{closed}"], 1, "cannot connect to {closed}"),
    ("bench agent", &["--listen", "127.0.0.1:0", "--key-file", "{dir}/nope"], 1, "key file {dir}/nope: "),
    ("bench calibrate", &["--judge", "{dir}/nope"], 1, MISSING),
    ("bench compare", &["{dir}/nope", "{dir}/nope"], 1, MISSING),
    ("bench usl", &["{dir}/nope"], 1, MISSING),
    ("bench report", &["{dir}/nope"], 1, MISSING),
    ("bench proxy", &["--to", "127.0.0.1:1", "--both", "nope=1"], 1, "'nope' is not a kind of trouble"),
    ("bench clean", &["nope"], 2, "expected one of noop, "),
    ("bench clean", &["noop"], 1, "runs leave nothing on the system noop"),
    ("bench clean", &["kafka", "--address", "{closed}"], 1, "cannot connect to {closed}"),
    ("bench clean", &["jetstream", "--set", "nope=1"], 1, "'nope' is not a setting"),
    ("bench systems", &["nope"], 2, "unexpected argument 'nope'"),
];

const CLOSED: &str = "127.0.0.1:1";

/// The rows of the verbs that this build has.
fn rows() -> impl Iterator<Item = &'static Row> {
    ROWS.iter().chain(ROWS_OF_BENCH.iter().filter(|_| cfg!(feature = "bench")))
}

/// The verbs without further verbs below them, as `--help` lists them.
fn verbs(above: &[String]) -> Vec<String> {
    let help = help(above);
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let names = listed
        .take_while(|line| !line.is_empty())
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names: Vec<String> =
        names.filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect();
    if names.is_empty() {
        return vec![above.join(" ")];
    }
    names.into_iter().flat_map(|name| verbs(&[above, &[name]].concat())).collect()
}

fn help(verb: &[String]) -> String {
    let words = verb.iter().map(String::as_str).chain(["--help"]).collect::<Vec<_>>();
    String::from_utf8(success(run(&words))).unwrap()
}

fn all_verbs() -> Vec<String> {
    let verbs = verbs(&[]);
    // Checks that the help was parsed.
    assert!(verbs.len() > 30 && verbs.contains(&"topic alter".to_owned()), "{verbs:?}");
    verbs
}

#[test]
fn the_version_comes_with_its_commit_and_build() {
    let output = |flag| {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_tailrace")).arg(flag).output().unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap()
    };
    let version = concat!("tailrace ", env!("CARGO_PKG_VERSION"));
    assert_eq!(output("-V"), format!("{version}\n"));
    let long = output("--version");
    let lines: Vec<&str> = long.lines().collect();
    let [first, commit, build] = lines[..] else { panic!("{long}") };
    assert_eq!(first, version);
    let commit = commit.strip_prefix("commit: ").unwrap();
    assert!(commit == "unknown" || commit.starts_with(|c: char| c.is_ascii_hexdigit()), "{long}");
    assert!(build.starts_with("build: ") && build.contains("rustc 1."), "{long}");
}

#[test]
fn no_verb_is_left_out() {
    let verbs: BTreeSet<String> = all_verbs().into_iter().collect();
    let rows: BTreeSet<String> = rows().map(|row| row.0.to_owned()).collect();
    assert_eq!(rows, verbs, "a verb without a row, or a row without a verb");
}

struct Bench {
    server: Server,
    dir: tempfile::TempDir,
}

impl Bench {
    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let set =
            ["auto.create.topics.enable=false", "tailrace.nats.user=alice", "tailrace.nats.password=s3sam"];
        let set: Vec<&str> = set.iter().flat_map(|set| ["--set", set]).collect();
        let server = Server::start(&dir.path().join("data"), &set);
        server.create("orders", 1);
        server.create("other", 1);
        let reset = ["group", "reset", "g", "--topic", "orders", "--to-earliest", "--execute"];
        server.output(&reset);
        std::fs::create_dir(dir.path().join("empty")).unwrap();
        Self { server, dir }
    }

    /// The whole command line of a row. The server's address is added if the verb takes one and the row has
    /// none.
    fn words(&self, (verb, arguments, ..): &Row) -> Vec<String> {
        let mut words: Vec<String> = verb.split(' ').map(str::to_owned).collect();
        let help = help(&words);
        words.extend(arguments.iter().map(|word| self.filled(word)));
        let server = &self.server;
        let nats = if words.iter().any(|word| word == "--user") {
            server.nats.clone()
        } else {
            format!("nats://alice:s3sam@{}", server.nats)
        };
        for (option, address) in [
            ("--bootstrap <HOST:PORT>", &server.kafka),
            ("--server <ADDRESS>", &nats),
            ("--http <HOST:PORT>", &server.http),
            ("--monitor <HOST:PORT>", &server.http),
        ] {
            let name = option.split(' ').next().unwrap();
            if help.contains(option) && !words.iter().any(|word| word == name) {
                words.extend([name.to_owned(), address.clone()]);
            }
        }
        words
    }

    fn filled(&self, text: &str) -> String {
        text.replace("{dir}", self.dir.path().join("empty").to_str().unwrap()).replace("{closed}", CLOSED)
    }
}

#[test]
fn names_that_do_not_exist_are_failures_that_name_them() {
    let bench = Bench::start();
    let mut wrong = Vec::new();
    for row in rows() {
        let words = bench.words(row);
        let output = run(&words.iter().map(String::as_str).collect::<Vec<_>>());
        let (said, shown) =
            (String::from_utf8_lossy(&output.stderr), String::from_utf8_lossy(&output.stdout));
        let (status, says) = (output.status.code(), bench.filled(row.3));
        let begins = if row.2 == 2 { "error: " } else { "tailrace: " };
        let has_begin = said.lines().any(|line| line.starts_with(begins) || line.starts_with("tailrace: "));
        if status != Some(row.2) || !said.contains(&says) || !has_begin || !shown.is_empty() {
            wrong.push(format!(
                "{}: status {status:?}, expected {} and {says:?}: {said}{shown}",
                words.join(" "),
                row.2
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn with_json_a_failure_is_an_object_on_standard_error() {
    let bench = Bench::start();
    let mut tried = 0;
    for row in rows() {
        let mut words = bench.words(row);
        if !help(&row.0.split(' ').map(str::to_owned).collect::<Vec<_>>()).contains("--output <")
            || row.1.contains(&"--format")
        {
            continue;
        }
        tried += 1;
        words.extend(["-o".to_owned(), "json".to_owned()]);
        let output = run(&words.iter().map(String::as_str).collect::<Vec<_>>());
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(row.2), "{words:?}: {said}");
        let objects: Vec<serde_json::Value> = said
            .lines()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{words:?}: no JSON: {line}")))
            .collect();
        let errors: Vec<_> = objects.iter().filter(|object| object["error"].is_string()).collect();
        assert_eq!(errors.len(), 1, "{words:?}: {said}");
        assert!(errors[0]["error"].as_str().unwrap().contains(&bench.filled(row.3)), "{words:?}: {said}");
        assert_eq!(errors[0]["status"], row.2, "{words:?}: {said}");
    }
    let enough = if cfg!(feature = "bench") { 40 } else { 30 };
    assert!(tried > enough, "{tried} verbs with --output");
}

/// Every verb that has such an option: nothing listens at the address, the file does not exist, the port is
/// invalid.
#[test]
fn servers_and_files_that_do_not_exist() {
    let bench = Bench::start();
    let mut tried = BTreeSet::new();
    for verb in all_verbs() {
        let Some(row) = rows().find(|row| row.0 == verb && row.2 == 1) else { continue };
        let help = help(&verb.split(' ').map(str::to_owned).collect::<Vec<_>>());
        for (shown, value, status, says) in [
            ("--bootstrap <HOST:PORT>", CLOSED, 1, "cannot connect to 127.0.0.1:1"),
            ("--bootstrap <HOST:PORT>", "host:99999", 2, "'99999' is not a port"),
            ("--server <ADDRESS>", CLOSED, 1, "cannot connect to 127.0.0.1:1"),
            ("--server <ADDRESS>", "host:99999", 2, "'99999' is not a port"),
            ("--http <HOST:PORT>", "host:99999", 2, "'99999' is not a port"),
            ("--monitor <HOST:PORT>", "host:99999", 2, "'99999' is not a port"),
            ("--tls-ca <FILE>", "{dir}/nope", 1, "cannot use {dir}/nope (--tls-ca): "),
        ] {
            if !help.contains(shown) {
                continue;
            }
            let option = shown.split(' ').next().unwrap();
            let mut words = bench.words(row);
            match words.iter().position(|word| word == option) {
                Some(at) => words[at + 1] = bench.filled(value),
                None => words.extend([option.to_owned(), bench.filled(value)]),
            }
            let output = run(&words.iter().map(String::as_str).collect::<Vec<_>>());
            let said = String::from_utf8_lossy(&output.stderr);
            // The verb may read its own files, or contact another server, first. With --tls-ca it would
            // report the same error if it went on in plain text.
            let own = option != "--tls-ca" && said.contains(&bench.filled(row.3)) && status == 1;
            assert_eq!(output.status.code(), Some(status), "{words:?}: {said}");
            assert!(own || said.contains(&bench.filled(says)), "{words:?}: {said}");
            tried.insert(shown);
        }
    }
    assert_eq!(tried.len(), 5, "{tried:?}");
}

/// A client that connects to a port of another protocol learns what listens there.
#[test]
fn a_port_for_another_protocol_is_recognised() {
    let bench = Bench::start();
    let Server { kafka, nats, http, .. } = &bench.server;
    let quick = ["--timeout", "1s"];
    for (verb, option, address, says) in [
        (
            &["consume", "orders"][..],
            "--bootstrap",
            http,
            "is an HTTP server; name the port for Kafka clients",
        ),
        (&["produce", "orders"], "--bootstrap", http, "is an HTTP server; name the port for Kafka clients"),
        (&["topic", "list"], "--bootstrap", nats, "is a NATS server; name the port for Kafka clients"),
        (&["pub", "a", "x"], "--server", http, "is an HTTP server; name the port for NATS clients"),
        (&["pub", "a", "x"], "--server", kafka, "this is the port for Kafka clients"),
        (
            &["cluster", "status"],
            "--http",
            kafka,
            "as the port for Kafka clients does; name the HTTP port with --http",
        ),
        (&["cluster", "status"], "--http", nats, "is a NATS server; name the HTTP port with --http"),
        (&["top", "--once"], "--monitor", nats, "is a NATS server; name the HTTP port with --monitor"),
        (&["top", "--once"], "--monitor", kafka, "as the port for Kafka clients does"),
    ] {
        let words = [verb, &[option, address.as_str()], &quick].concat();
        let output = run(&words);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{words:?}: {said}");
        assert!(said.contains(says) && said.contains(address.as_str()), "{words:?}: {said}");
    }
}
