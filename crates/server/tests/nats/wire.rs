//! The NATS protocol, byte for byte: conversations in `conversations/`, whose golden bytes come from
//! nats-server.
//!
//! By default each script gets a tailrace server with the settings it asks for. The environment can change
//! that:
//! * `TAILRACE_TEST_NATS_SERVER=PATH` uses that nats-server instead, which checks the scripts themselves.
//! * `TAILRACE_TEST_NATS_RECORD=1` in addition replaces the scripts' `A < ?` lines with what was received.
//! * `TAILRACE_TEST_NATS=HOST:PORT` uses a running server. Scripts that need settings are skipped.

use std::collections::BTreeSet;
use std::env;
use std::fmt::Write as _;
use std::io::Read as _;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::common::TestServer;
use crate::conversation::player::{Recorded, Stage, play};
use crate::conversation::real::RealServer;
use crate::conversation::script::{Rules, Script, User, Wanted, Who};
use tokio::runtime::Runtime;

macro_rules! conversations {
    ($($name:ident)*) => {
        const CONVERSATIONS: &[&str] = &[$(stringify!($name)),*];
        $(
            #[test]
            fn $name() {
                converse(stringify!($name));
            }
        )*
    };
}

conversations! {
    auth_first auth_timeout auth_token auth_user bad_input connect_again connections control_line echo headers hello lame_duck limits
    no_responders pedantic permissions publish queue request reserved responses stale subjects tolerance unsubscribe verbose
    wildcards
}

#[test]
fn every_script_is_played() {
    let files = std::fs::read_dir(folder()).expect("the folder exists");
    let names = files.map(|file| {
        let path = file.expect("a readable entry").path();
        path.file_stem().expect("a file name").to_string_lossy().into_owned()
    });
    assert_eq!(names.collect::<BTreeSet<_>>(), CONVERSATIONS.iter().map(|&name| name.to_owned()).collect());
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/nats/conversations")
}

/// Plays all scenes of a script, then reports everything that went wrong.
fn converse(name: &str) {
    let path = folder().join(name).with_extension("txt");
    let text = std::fs::read_to_string(&path).expect("the script can be read");
    let script = Script::parse(&text).expect("the script is legal");
    let Some(stage) = stage(&script.wanted) else {
        println!("{name} needs settings that the running server may not have: left out");
        return;
    };
    let (mut wrong, mut recorded) = (String::new(), Vec::new());
    for scene in &script.scenes {
        match play(scene, &*stage) {
            Ok(more) => recorded.extend(more),
            Err(what) => {
                writeln!(wrong, "{name}: {}: {what}", scene.title).expect("writing to a string cannot fail")
            }
        }
    }
    if !recorded.is_empty() {
        assert!(
            env::var_os("TAILRACE_TEST_NATS_RECORD").is_some(),
            "{name}: the script has a line to be recorded: `< ?`"
        );
        std::fs::write(&path, with(&text, &recorded)).expect("the script can be written");
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

fn with(text: &str, recorded: &[Recorded]) -> String {
    let line = |(index, line): (usize, &str)| match recorded.iter().find(|(number, _)| *number == index + 1) {
        Some((_, lines)) => lines.join("\n") + "\n",
        None => format!("{line}\n"),
    };
    text.lines().enumerate().map(line).collect()
}

fn stage(wanted: &Wanted) -> Option<Box<dyn Stage>> {
    if let Some(binary) = env::var_os("TAILRACE_TEST_NATS_SERVER") {
        return Some(Box::new(RealServer::start(Path::new(&binary), wanted)));
    }
    if let Ok(address) = env::var("TAILRACE_TEST_NATS") {
        let address = address.to_socket_addrs().expect("HOST:PORT").next().expect("an address");
        return (*wanted == Wanted::default()).then(|| Box::new(Running(address)) as Box<dyn Stage>);
    }
    Some(Box::new(Ours::start(wanted)))
}

/// A server that was started elsewhere.
struct Running(SocketAddr);

impl Stage for Running {
    fn who(&self) -> Who {
        let mut info = [0; 4096];
        let mut stream = TcpStream::connect(self.0).expect("the server accepts");
        let length = stream.read(&mut info).expect("an INFO");
        let from_go = String::from_utf8_lossy(&info[..length]).contains(r#""go":"go1"#);
        if from_go { Who::NatsServer } else { Who::Tailrace }
    }

    fn address(&self) -> SocketAddr {
        self.0
    }

    fn lame_duck(&self) {
        unreachable!("scripts that end a server have settings");
    }
}

/// A tailrace server in this process.
struct Ours {
    // Before the runtime, so that it is dropped first.
    server: Arc<TestServer>,
    runtime: Runtime,
    _folder: tempfile::TempDir,
}

impl Ours {
    fn start(wanted: &Wanted) -> Self {
        let folder = tempfile::TempDir::new().expect("a temporary folder");
        let mut settings: Vec<_> =
            wanted.settings.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
        if !wanted.users.is_empty() {
            let file = folder.path().join("users.toml");
            std::fs::write(&file, users_file(&wanted.users)).expect("the folder can be written");
            settings.push(("tailrace.nats.users.file".to_owned(), file.display().to_string()));
        }
        let settings: Vec<_> = settings.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        let runtime = Runtime::new().expect("a runtime");
        let server = Arc::new(runtime.block_on(TestServer::with(&settings)));
        Self { server, runtime, _folder: folder }
    }
}

impl Stage for Ours {
    fn who(&self) -> Who {
        Who::Tailrace
    }

    fn address(&self) -> SocketAddr {
        self.server.nats()
    }

    fn lame_duck(&self) {
        let server = Arc::clone(&self.server);
        self.runtime.spawn(async move { server.lame_duck().await });
    }
}

fn users_file(users: &[User]) -> String {
    let mut text = String::new();
    for user in users {
        let User { name, password, publish, subscribe, responses } = user;
        writeln!(text, "[[users]]\nuser = {name:?}\npassword = {password:?}")
            .expect("writing to a string cannot fail");
        text += &rules("publish", publish);
        text += &rules("subscribe", subscribe);
        if let Some((max, expires_ms)) = responses {
            writeln!(text, "allow_responses = {{ max = {max}, expires = \"{expires_ms}ms\" }}")
                .expect("writing to a string cannot fail");
        }
    }
    text
}

fn rules(what: &str, rules: &Rules) -> String {
    let lists = [("allow", &rules.allow), ("deny", &rules.deny)];
    let lists: Vec<_> = lists.iter().filter(|(_, list)| !list.is_empty()).collect();
    let lists: Vec<_> = lists.iter().map(|(word, list)| format!("{word} = {list:?}")).collect();
    if lists.is_empty() { String::new() } else { format!("{what} = {{ {} }}\n", lists.join(", ")) }
}
