//! Parses scripts.

use std::collections::BTreeMap;
use std::time::Duration;

use super::pattern::{Pattern, bytes};

/// What a script requires of the server: our settings, and users.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Wanted {
    pub settings: BTreeMap<String, String>,
    pub users: Vec<User>,
}

/// A user and its permissions, as `(allowed, denied)` subjects. `None` allows everything.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct User {
    pub name: String,
    pub password: String,
    pub publish: Rules,
    pub subscribe: Rules,
    /// Permission to answer received requests: how many answers, and for how many milliseconds.
    pub responses: Option<(u32, u32)>,
}

#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Rules {
    pub allow: Vec<String>,
    pub deny: Vec<String>,
}

#[derive(Debug)]
pub struct Script {
    pub wanted: Wanted,
    pub scenes: Vec<Scene>,
}

#[derive(Debug)]
pub struct Scene {
    pub title: String,
    pub steps: Vec<Step>,
}

/// A step, and the server it applies to. Where the two differ on purpose, the script has a step for each.
#[derive(Debug)]
pub struct Step {
    /// Line number, counted from 1.
    pub line: usize,
    pub only: Option<Who>,
    pub act: Act,
}

/// The server under test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who {
    Tailrace,
    NatsServer,
}

#[derive(Debug)]
pub enum Act {
    Connects(String),
    Sends(String, Vec<u8>),
    Receives(String, Pattern),
    /// `< ?`: recording writes what was received into the script.
    Records(String),
    Info(String, String),
    Silence(String),
    Closed(String),
    Refused(String, Pattern),
    Leaves(String),
    InTheMiddle(String),
    OneOf(Vec<String>, Pattern),
    Share(usize, Vec<String>, Pattern),
    /// For things that only time brings about.
    Waits(Duration),
    LameDuck,
}

impl Script {
    /// Parses a script. The error names the line.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut script = Self { wanted: Wanted::default(), scenes: Vec::new() };
        for (index, line) in text.lines().enumerate() {
            if !line.trim().is_empty() && !line.starts_with('#') {
                script
                    .take(index + 1, line)
                    .map_err(|wrong| format!("line {}: {wrong}: {line}", index + 1))?;
            }
        }
        Ok(script)
    }

    fn take(&mut self, number: usize, line: &str) -> Result<(), String> {
        if let Some(title) = line.strip_prefix("== ") {
            self.scenes.push(Scene { title: title.to_owned(), steps: Vec::new() });
            return Ok(());
        }
        let Some(scene) = self.scenes.last_mut() else { return self.wanted.take(line) };
        let (only, line) = if let Some(line) = line.strip_prefix("tailrace: ") {
            (Some(Who::Tailrace), line)
        } else if let Some(line) = line.strip_prefix("nats-server: ") {
            (Some(Who::NatsServer), line)
        } else {
            (None, line)
        };
        scene.steps.push(Step { line: number, only, act: act(line)? });
        Ok(())
    }
}

fn act(line: &str) -> Result<Act, String> {
    if line == "server lame-duck" {
        return Ok(Act::LameDuck);
    }
    if let Some(rest) = line.strip_prefix("one-of ") {
        let (names, expected) = rest.split_once(" < ").ok_or("no ` < `")?;
        return Ok(Act::OneOf(words(names), Pattern::parse(expected)?));
    }
    if let Some(rest) = line.strip_prefix("share ") {
        let (names, expected) = rest.split_once(" < ").ok_or("no ` < `")?;
        let (count, names) = names.split_once(' ').ok_or("no count")?;
        let count = count.parse().map_err(|_| "no count")?;
        return Ok(Act::Share(count, words(names), Pattern::parse(expected)?));
    }
    let (name, what) = line.split_once(' ').ok_or("nothing happens")?;
    let (verb, rest) = what.split_once(' ').unwrap_or((what, ""));
    let name = name.to_owned();
    Ok(match verb {
        ">" => Act::Sends(name, bytes(rest)?),
        "<" if rest == "?" => Act::Records(name),
        "<" => Act::Receives(name, Pattern::parse(rest)?),
        "connects" => Act::Connects(name),
        "info" => Act::Info(name, rest.to_owned()),
        "silence" => Act::Silence(name),
        "closed" => Act::Closed(name),
        "refused" => Act::Refused(name, Pattern::parse(rest)?),
        "waits" => Act::Waits(Duration::from_millis(rest.parse().map_err(|_| "milliseconds")?)),
        "leaves" => Act::Leaves(name),
        "in" => Act::InTheMiddle(name),
        _ => return Err("what is that?".to_owned()),
    })
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

impl Wanted {
    fn take(&mut self, line: &str) -> Result<(), String> {
        if let Some(rest) = line.strip_prefix("set ") {
            let (key, value) = rest.split_once(" = ").ok_or("no ` = `")?;
            self.settings.insert(key.trim().to_owned(), value.trim().to_owned());
        } else if let Some(rest) = line.strip_prefix("user ") {
            self.users.push(User::parse(rest)?);
        } else {
            return Err("neither `set` nor `user`, and no scene yet".to_owned());
        }
        Ok(())
    }
}

impl User {
    fn parse(text: &str) -> Result<Self, String> {
        let mut words = text.split_whitespace();
        let mut user = Self { name: words.next().ok_or("no name")?.to_owned(), ..Self::default() };
        for word in words {
            let (key, value) = word.split_once('=').ok_or("no `=`")?;
            let list = || value.split(',').map(str::to_owned).collect();
            match key {
                "password" => user.password = value.to_owned(),
                "publish" => user.publish.allow = list(),
                "!publish" => user.publish.deny = list(),
                "subscribe" => user.subscribe.allow = list(),
                "!subscribe" => user.subscribe.deny = list(),
                "responses" => {
                    let (count, ms) = value.split_once('/').ok_or("COUNT/MILLISECONDS")?;
                    let number = |text: &str| text.parse().map_err(|_| format!("{text} is not a number"));
                    user.responses = Some((number(count)?, number(ms)?));
                }
                _ => return Err(format!("{key} is unknown")),
            }
        }
        Ok(user)
    }
}
