//! A real nats-server as the server under test, which proves that the scripts are right.

use std::fmt::Write as _;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::player::Stage;
use super::script::{Rules, Wanted, Who};

/// Longer than the server takes to start.
const PATIENCE: Duration = Duration::from_secs(10);

/// A running nats-server with its own empty folder.
pub struct RealServer {
    child: Child,
    address: SocketAddr,
    _folder: tempfile::TempDir,
}

impl RealServer {
    /// Starts this binary with the settings that a script wants.
    pub fn start(binary: &Path, wanted: &Wanted) -> Self {
        let folder = tempfile::TempDir::new().expect("a temporary folder");
        // The port is free now, and nothing else on this machine is likely to pick it at random before the
        // server does.
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("the listener is bound");
        drop(listener);
        let config = folder.path().join("nats.conf");
        std::fs::write(&config, configuration(address, wanted)).expect("the folder can be written");
        let mut command = Command::new(binary);
        command.arg("-c").arg(config).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().expect("nats-server starts");
        let server = Self { child, address, _folder: folder };
        let end = Instant::now() + PATIENCE;
        while TcpStream::connect(address).is_err() {
            assert!(Instant::now() < end, "nats-server does not accept connections");
            std::thread::sleep(Duration::from_millis(5));
        }
        server
    }
}

impl Drop for RealServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Stage for RealServer {
    fn who(&self) -> Who {
        Who::NatsServer
    }

    fn address(&self) -> SocketAddr {
        self.address
    }

    fn lame_duck(&self) {
        let killed = Command::new("kill").arg("-USR2").arg(self.child.id().to_string()).status();
        assert!(killed.expect("kill runs").success());
    }
}

/// Translates our settings to a configuration of nats-server.
fn configuration(address: SocketAddr, wanted: &Wanted) -> String {
    let mut lines = format!("listen: \"{address}\"\n");
    let mut authorization = String::new();
    for (key, value) in &wanted.settings {
        let key = key.strip_prefix("tailrace.nats.").expect("only settings of the NATS front");
        let (block, line) = match key {
            "max.payload.bytes" => (&mut lines, format!("max_payload: {value}")),
            "max.control.line.bytes" => (&mut lines, format!("max_control_line: {value}")),
            "max.pending.bytes" => (&mut lines, format!("max_pending: {value}")),
            "max.connections" => (&mut lines, format!("max_connections: {value}")),
            "max.subscriptions" => (&mut lines, format!("max_subscriptions: {value}")),
            "ping.interval.ms" => (&mut lines, format!("ping_interval: \"{value}ms\"")),
            "ping.max" => (&mut lines, format!("ping_max: {value}")),
            "write.deadline.ms" => (&mut lines, format!("write_deadline: \"{value}ms\"")),
            "lame.duck.duration.ms" => (&mut lines, format!("lame_duck_duration: \"{value}ms\"")),
            "lame.duck.grace.ms" => (&mut lines, format!("lame_duck_grace_period: \"{value}ms\"")),
            "server.name" => (&mut lines, format!("server_name: \"{value}\"")),
            "auth.timeout.ms" => {
                let seconds = value.parse::<f64>().expect("a number") / 1000.0;
                (&mut authorization, format!("timeout: {seconds}"))
            }
            "user" | "password" | "token" => (&mut authorization, format!("{key}: \"{value}\"")),
            _ => panic!("no setting of nats-server is known for {key}"),
        };
        writeln!(block, "{line}").expect("writing to a string cannot fail");
    }
    if !wanted.users.is_empty() {
        authorization += &users(wanted);
    }
    if authorization.is_empty() { lines } else { format!("{lines}authorization {{\n{authorization}}}\n") }
}

fn users(wanted: &Wanted) -> String {
    let mut text = "users: [\n".to_owned();
    for user in &wanted.users {
        let (publish, subscribe) = (rules("publish", &user.publish), rules("subscribe", &user.subscribe));
        let responses = user.responses.map_or(String::new(), |(count, ms)| {
            format!("allow_responses: {{ max: {count}, expires: \"{ms}ms\" }}\n")
        });
        let (name, password) = (&user.name, &user.password);
        writeln!(text, "{{ user: \"{name}\", password: \"{password}\", permissions: {{\n{publish}{subscribe}{responses}}} }}")
            .expect("writing to a string cannot fail");
    }
    text + "]\n"
}

fn rules(what: &str, rules: &Rules) -> String {
    let mut inner = String::new();
    for (word, list) in [("allow", &rules.allow), ("deny", &rules.deny)] {
        if !list.is_empty() {
            write!(inner, "{word}: {list:?}, ").expect("writing to a string cannot fail");
        }
    }
    if inner.is_empty() { inner } else { format!("{what}: {{ {inner}}}\n") }
}
