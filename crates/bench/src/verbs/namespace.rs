//! A network namespace for the server of one run, and a pair of virtual Ethernet devices that leads into it.
//!
//! `tc` is only ever applied to these two devices, which the run itself created, never to a device of the
//! machine or to its loopback. Names contain the id and the start time of this process, so that the next run
//! recognises and removes what a killed run left behind.

use std::process::{Command, Stdio};

use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process};
use tailrace_cli::failure::{Failure, plain};

use super::netem::Impairment;

/// The start of all names of namespaces.
const PREFIX: &str = "tailrace-bench-";

/// Networks of four addresses to try before giving up.
const NETWORKS_TRIED: u32 = 64;

/// Runs commands of `ip` and `tc`, and kills processes.
pub(super) trait Tools {
    /// Runs a command. Returns its output, or why it failed.
    fn run(&mut self, words: &[&str]) -> Result<String, String>;
    /// When a process was started, in clock ticks. `None` if it does not exist.
    fn started(&self, pid: u32) -> Option<u64>;
    fn kill(&mut self, pid: u32);
}

/// The tools of this machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Machine;

impl Tools for Machine {
    fn run(&mut self, words: &[&str]) -> Result<String, String> {
        let output = Command::new(words[0])
            .args(&words[1..])
            .stdin(Stdio::null())
            .output()
            .map_err(|error| format!("cannot run {}: {}", words[0], plain(&error)))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let errors = String::from_utf8_lossy(&output.stderr);
        let first = errors.lines().find(|line| !line.trim().is_empty()).unwrap_or("it failed");
        Err(format!("`{}`: {}", words.join(" "), first.trim()))
    }

    fn started(&self, pid: u32) -> Option<u64> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit(')').next()?.split_whitespace().nth(19)?.parse().ok()
    }

    fn kill(&mut self, pid: u32) {
        if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

/// The process that created a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Owner {
    pid: u32,
    started: u64,
}

impl Owner {
    fn namespace(self) -> String {
        format!("{PREFIX}{}-{}", self.pid, self.started)
    }

    /// The device on the machine's side: at most 15 characters.
    fn device(self) -> String {
        format!("tb{:x}h", self.pid)
    }

    /// The device in the namespace.
    fn peer(self) -> String {
        format!("tb{:x}n", self.pid)
    }

    fn parse(name: &str) -> Option<Self> {
        let (pid, started) = name.strip_prefix(PREFIX)?.split_once('-')?;
        Some(Self { pid: pid.parse().ok()?, started: started.parse().ok()? })
    }
}

/// A namespace that is removed on drop.
#[derive(Debug)]
pub(super) struct Namespace {
    owner: Owner,
    /// The address of the server.
    host: String,
}

/// The existing namespace, for a program that ends at once.
static ACTIVE: Mutex<Option<Owner>> = Mutex::new(None);

/// Removes the namespace of this process, if there is one.
pub(super) fn remove_active() {
    if let Some(owner) = ACTIVE.lock().take() {
        remove(&mut Machine, owner);
    }
}

impl Namespace {
    /// Creates it, with what to do to packets to and from the server.
    pub(super) fn make(to_server: &[String], to_client: &[String]) -> Result<Self, String> {
        let pid = std::process::id();
        let started = Machine.started(pid).ok_or("this process is not in /proc")?;
        let owner = Owner { pid, started };
        *ACTIVE.lock() = Some(owner);
        let made = make(&mut Machine, owner, to_server, to_client);
        if made.is_err() {
            *ACTIVE.lock() = None;
        }
        Ok(Self { owner, host: made? })
    }

    pub(super) fn host(&self) -> &str {
        &self.host
    }

    /// The words before a command that is to run in it. `ip` execs the command, so the process stays the
    /// same.
    pub(super) fn prefix(&self) -> Vec<String> {
        ["ip", "netns", "exec", &self.owner.namespace()].map(str::to_owned).to_vec()
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        *ACTIVE.lock() = None;
        remove(&mut Machine, self.owner);
    }
}

/// The arguments of tc for both directions.
pub(super) fn words(impairment: &Impairment) -> Vec<String> {
    if impairment.is_none() { Vec::new() } else { impairment.words() }
}

/// Removes leftovers of killed runs. Returns the names of their namespaces.
pub(super) fn remove_stale(tools: &mut impl Tools) -> Vec<String> {
    let stale = stale(tools).unwrap_or_default();
    for owner in &stale {
        remove(tools, *owner);
    }
    stale.into_iter().map(Owner::namespace).collect()
}

/// Namespaces whose processes no longer exist.
fn stale(tools: &mut impl Tools) -> Result<Vec<Owner>, String> {
    let listed = tools.run(&["ip", "netns", "list"])?;
    let owners = listed.lines().filter_map(|line| Owner::parse(line.split_whitespace().next()?));
    Ok(owners.filter(|owner| tools.started(owner.pid) != Some(owner.started)).collect())
}

/// The name in `bench clean` for namespaces, and the servers in them.
pub(super) const NETEM: &str = "netem";

/// The names of namespaces that killed runs left behind, without those of runs in progress.
pub(super) fn namespaces_left() -> Result<Vec<String>, Failure> {
    Ok(stale(&mut Machine)?.into_iter().map(Owner::namespace).collect())
}

/// Removes those of `names` whose owner no longer exists, and the processes in them. Returns the names
/// removed.
pub(super) fn remove_namespaces(names: &[String]) -> Result<Vec<String>, Failure> {
    Ok(remove_named(&mut Machine, names)?)
}

fn remove_named(tools: &mut impl Tools, names: &[String]) -> Result<Vec<String>, String> {
    let mut removed = Vec::new();
    for owner in stale(tools)?.into_iter().filter(|owner| names.contains(&owner.namespace())) {
        remove(tools, owner);
        removed.push(owner.namespace());
    }
    // Each step of the removal may fail. What counts is whether the namespace still exists.
    let left = stale(tools)?;
    match left.into_iter().map(Owner::namespace).find(|name| removed.contains(name)) {
        Some(name) => Err(format!("{name} cannot be removed: only root can remove it")),
        None => Ok(removed),
    }
}

/// Creates a namespace. Returns the server's address.
fn make(
    tools: &mut impl Tools,
    owner: Owner,
    to_server: &[String],
    to_client: &[String],
) -> Result<String, String> {
    let addresses = tools.run(&["ip", "-4", "-o", "addr", "show"])?;
    let (near, far) = network(owner.pid, &addresses).ok_or("no network of 198.18.0.0/15 is free")?;
    let made = connect(tools, owner, &near, &far).and_then(|()| {
        let (name, device, peer) = (owner.namespace(), owner.device(), owner.peer());
        impair(tools, &["tc"], &device, to_server)?;
        impair(tools, &["tc", "-n", &name], &peer, to_client)
    });
    match made {
        Ok(()) => Ok(far),
        Err(reason) => {
            remove(tools, owner);
            Err(reason)
        }
    }
}

fn connect(tools: &mut impl Tools, owner: Owner, near: &str, far: &str) -> Result<(), String> {
    let (name, device, peer) = (owner.namespace(), owner.device(), owner.peer());
    let (near, far) = (format!("{near}/30"), format!("{far}/30"));
    for words in [
        &["ip", "netns", "add", &name][..],
        &["ip", "link", "add", &device, "type", "veth", "peer", "name", &peer, "netns", &name],
        &["ip", "addr", "add", &near, "dev", &device],
        &["ip", "link", "set", &device, "up"],
        &["ip", "-n", &name, "addr", "add", &far, "dev", &peer],
        &["ip", "-n", &name, "link", "set", &peer, "up"],
        &["ip", "-n", &name, "link", "set", "lo", "up"],
    ] {
        tools.run(words)?;
    }
    Ok(())
}

fn impair(tools: &mut impl Tools, tc: &[&str], device: &str, words: &[String]) -> Result<(), String> {
    if words.is_empty() {
        return Ok(());
    }
    let command = [tc, &["qdisc", "add", "dev", device, "root"]].concat();
    tools.run(&command.into_iter().chain(words.iter().map(String::as_str)).collect::<Vec<_>>()).map(drop)
}

/// Kills the processes in it, and removes devices and namespace. Anything missing counts as removed.
fn remove(tools: &mut impl Tools, owner: Owner) {
    let (name, device) = (owner.namespace(), owner.device());
    let pids = tools.run(&["ip", "netns", "pids", &name]).unwrap_or_default();
    for pid in pids.split_whitespace().filter_map(|pid| pid.parse().ok()) {
        tools.kill(pid);
    }
    // This removes its other end, too.
    let _ = tools.run(&["ip", "link", "del", &device]);
    let _ = tools.run(&["ip", "netns", "del", &name]);
}

/// Both addresses of a network within 198.18.0.0/15, which RFC 2544 reserves for measurements, that is unused
/// on this machine.
fn network(pid: u32, addresses: &str) -> Option<(String, String)> {
    (0..NETWORKS_TRIED).find_map(|step| {
        // 2^15 networks of four addresses.
        let base = (u32::from_be_bytes([198, 18, 0, 0])) + (pid.wrapping_add(step) % (1 << 15)) * 4;
        let [near, far] = [base + 1, base + 2].map(|address| std::net::Ipv4Addr::from(address).to_string());
        let is_taken = [&near, &far].iter().any(|address| addresses.contains(&format!(" {address}/")));
        (!is_taken).then_some((near, far))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records the commands; one of them fails.
    #[derive(Default)]
    struct Fake {
        said: Vec<String>,
        fails: Option<&'static str>,
        listed: &'static str,
        killed: Vec<u32>,
    }

    impl Tools for Fake {
        fn run(&mut self, words: &[&str]) -> Result<String, String> {
            let line = words.join(" ");
            self.said.push(line.clone());
            if self.fails.is_some_and(|fails| line.starts_with(fails)) {
                return Err(format!("`{line}`: Operation not permitted"));
            }
            Ok(match words {
                ["ip", "netns", "list"] => {
                    let is_there = |line: &&str| {
                        let name = line.split_whitespace().next().unwrap_or_default();
                        let deleted = format!("ip netns del {name}");
                        let fails = self.fails.is_some_and(|fails| deleted.starts_with(fails));
                        fails || !self.said.contains(&deleted)
                    };
                    self.listed.lines().filter(is_there).map(|line| format!("{line}\n")).collect()
                }
                ["ip", "netns", "pids", _] => "41\n42\n".to_owned(),
                _ => String::new(),
            })
        }

        fn started(&self, pid: u32) -> Option<u64> {
            (pid == 7).then_some(700)
        }

        fn kill(&mut self, pid: u32) {
            self.killed.push(pid);
        }
    }

    const OWNER: Owner = Owner { pid: 4_194_303, started: 99 };

    fn to(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn only_its_own_devices_are_touched() {
        let mut fake = Fake::default();
        let host = make(&mut fake, OWNER, &to(&["netem", "loss", "1%"]), &to(&["netem", "delay", "1ms"]));
        assert_eq!(host.as_deref(), Ok("198.19.255.254"));
        assert_eq!(
            fake.said,
            [
                "ip -4 -o addr show",
                "ip netns add tailrace-bench-4194303-99",
                "ip link add tb3fffffh type veth peer name tb3fffffn netns tailrace-bench-4194303-99",
                "ip addr add 198.19.255.253/30 dev tb3fffffh",
                "ip link set tb3fffffh up",
                "ip -n tailrace-bench-4194303-99 addr add 198.19.255.254/30 dev tb3fffffn",
                "ip -n tailrace-bench-4194303-99 link set tb3fffffn up",
                "ip -n tailrace-bench-4194303-99 link set lo up",
                "tc qdisc add dev tb3fffffh root netem loss 1%",
                "tc -n tailrace-bench-4194303-99 qdisc add dev tb3fffffn root netem delay 1ms",
            ]
        );
        assert!(OWNER.device().len() <= 15 && OWNER.peer().len() <= 15);
    }

    #[test]
    fn whatever_fails_leaves_nothing() {
        for fails in ["ip netns add", "ip link add", "ip addr add", "ip -n", "tc qdisc", "tc -n"] {
            let mut fake = Fake { fails: Some(fails), ..Fake::default() };
            let words = to(&["netem", "loss", "1%"]);
            let reason = make(&mut fake, OWNER, &words, &words).unwrap_err();
            assert!(
                reason.starts_with(&format!("`{fails}")) && reason.ends_with("not permitted"),
                "{reason}"
            );
            let end = &fake.said[fake.said.len() - 3..];
            assert_eq!(
                end,
                [
                    "ip netns pids tailrace-bench-4194303-99",
                    "ip link del tb3fffffh",
                    "ip netns del tailrace-bench-4194303-99"
                ]
            );
        }
        // Without `ip`, nothing is created.
        let mut fake = Fake { fails: Some("ip -4"), ..Fake::default() };
        make(&mut fake, OWNER, &[], &[]).unwrap_err();
        assert_eq!(fake.said.len(), 1);
    }

    #[test]
    fn only_what_dead_runs_left_is_removed() {
        // 7 is alive, but its id may also have belonged to an earlier process.
        let listed = "other\ntailrace-bench-7-700 (id: 1)\ntailrace-bench-7-600\ntailrace-bench-9-1 (id: 3)\ntailrace-bench-x\n";
        let mut fake = Fake { listed, ..Fake::default() };
        assert_eq!(remove_stale(&mut fake), ["tailrace-bench-7-600", "tailrace-bench-9-1"]);
        assert_eq!(fake.killed, [41, 42, 41, 42]);
        let removed: Vec<_> = fake.said.iter().filter(|line| line.starts_with("ip netns del")).collect();
        assert_eq!(removed, ["ip netns del tailrace-bench-7-600", "ip netns del tailrace-bench-9-1"]);
    }

    #[test]
    fn what_is_named_is_removed_if_it_belongs_to_nobody() {
        let listed = "tailrace-bench-7-700 (id: 1)\ntailrace-bench-7-600\ntailrace-bench-9-1 (id: 3)\n";
        let names = to(&["tailrace-bench-7-700", "tailrace-bench-9-1", "tailrace-bench-8-8"]);
        let mut fake = Fake { listed, ..Fake::default() };
        assert_eq!(remove_named(&mut fake, &names), Ok(to(&["tailrace-bench-9-1"])));
        assert_eq!(fake.killed, [41, 42]);
        assert_eq!(remove_named(&mut fake, &names), Ok(Vec::new()));
        let mut fake = Fake { listed, fails: Some("ip netns del"), ..Fake::default() };
        let reason = remove_named(&mut fake, &names).unwrap_err();
        assert_eq!(reason, "tailrace-bench-9-1 cannot be removed: only root can remove it");
    }

    #[test]
    fn a_network_that_is_taken_is_passed_over() {
        assert_eq!(network(1, ""), Some(("198.18.0.5".to_owned(), "198.18.0.6".to_owned())));
        let taken = "2: x    inet 198.18.0.6/30 scope global x\n3: y    inet 198.18.0.90/24";
        assert_eq!(network(1, taken), Some(("198.18.0.9".to_owned(), "198.18.0.10".to_owned())));
    }

    /// On the real machine, if it allows that. The queue is one that every kernel has, instead of netem.
    #[test]
    fn a_server_in_a_namespace_is_reached() {
        let space = match Namespace::make(&to(&["pfifo", "limit", "100"]), &to(&["pfifo", "limit", "100"])) {
            Ok(space) => space,
            Err(reason) => {
                eprintln!("not tried: {reason}");
                return;
            }
        };
        let (name, device) = (space.owner.namespace(), space.owner.device());
        let shown = Machine.run(&["tc", "qdisc", "show", "dev", &device]).unwrap();
        assert!(shown.contains("pfifo"), "{shown}");
        // A process in it has its address, and no other device.
        let inside: Vec<String> =
            space.prefix().into_iter().chain(to(&["ip", "-4", "-o", "addr", "show"])).collect();
        let inside: Vec<&str> = inside.iter().map(String::as_str).collect();
        let seen = Machine.run(&inside).unwrap();
        assert!(seen.contains(&format!("inet {}/30", space.host())) && seen.lines().count() == 2, "{seen}");
        assert!(Machine.run(&["ip", "netns", "list"]).unwrap().contains(&name));
        // It belongs to a live process.
        assert_eq!(Machine.started(std::process::id()), Some(space.owner.started));
        drop(space);
        assert!(!Machine.run(&["ip", "netns", "list"]).unwrap().contains(&name));
        Machine.run(&["ip", "link", "show", &device]).unwrap_err();
    }
}
