//! Finds Kafka's client library and extracts the message definitions from it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

use super::definition::Definition;
use super::failure::failure;

/// The Kafka release whose definitions are used.
const KAFKA_VERSION: &str = "4.3.1";
/// The environment variable with the path of the jar.
const JAR_VARIABLE: &str = "KAFKA_CLIENTS_JAR";

/// Returns the path of the jar: the given one, else the one of the environment variable, else the one in the
/// local Maven repository, else one that it fetches.
pub(super) fn locate(given: Option<&Path>) -> Result<PathBuf, String> {
    if let Some(jar) = given.map(Path::to_owned).or_else(|| env::var_os(JAR_VARIABLE).map(PathBuf::from)) {
        return if jar.is_file() { Ok(jar) } else { Err(format!("{} is not a file", jar.display())) };
    }
    let known = known();
    if let Some(jar) = known.iter().find(|jar| jar.is_file()) {
        return Ok(jar.clone());
    }
    let [_, fetched] = known;
    fetch(fetched.parent().ok_or("the jar has no folder")?)?;
    Ok(fetched)
}

/// Reports whether a jar can be used without fetching one.
pub(super) fn is_here() -> bool {
    env::var_os(JAR_VARIABLE).is_some() || known().iter().any(|jar| jar.is_file())
}

/// The jar in the local Maven repository, and the one that was fetched.
fn known() -> [PathBuf; 2] {
    let name = format!("kafka-clients-{KAFKA_VERSION}.jar");
    let local = env::home_dir().unwrap_or_default().join(".m2/repository/org/apache/kafka/kafka-clients");
    let fetched = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/codegen");
    [local.join(KAFKA_VERSION).join(&name), fetched.join(&name)]
}

fn fetch(folder: &Path) -> Result<(), String> {
    let artifact = format!("-Dartifact=org.apache.kafka:kafka-clients:{KAFKA_VERSION}");
    let output = format!("-DoutputDirectory={}", folder.display());
    let status = Command::new("mvn")
        .args(["-q", "-B", "dependency:copy", &artifact, &output])
        .stdout(Stdio::null())
        .status();
    match status {
        Ok(status) if status.success() => Ok(()),
        _ => Err(format!(
            "no kafka-clients jar: give --jar PATH or set {JAR_VARIABLE}, \
             or install Maven so that kafka-clients {KAFKA_VERSION} can be fetched"
        )),
    }
}

/// Reads all definitions in `jar`.
pub(super) fn definitions(jar: &Path) -> Result<Vec<Definition>, String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/codegen/definitions");
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(|error| failure(&folder, &error))?;
    }
    fs::create_dir_all(&folder).map_err(|error| failure(&folder, &error))?;
    unpack(jar, &folder)?;
    let messages = folder.join("common/message");
    let entries = fs::read_dir(&messages)
        .map_err(|_| format!("{} has no message definitions; is it a kafka-clients jar?", jar.display()))?;
    let mut paths: Vec<_> = entries.filter_map(Result::ok).map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    paths.sort();
    paths.iter().map(|path| Definition::read(path)).collect()
}

fn unpack(jar: &Path, folder: &Path) -> Result<(), String> {
    let jar = jar.canonicalize().map_err(|error| failure(jar, &error))?;
    let mut unzip = Command::new("unzip");
    unzip.arg("-q").arg(&jar).arg("common/message/*.json").arg("-d").arg(folder);
    let mut from_jdk = Command::new("jar");
    from_jdk.arg("xf").arg(&jar).arg("common/message").current_dir(folder);
    let worked = |mut command: Command| command.status().is_ok_and(|status| status.success());
    if worked(unzip) || worked(from_jdk) {
        return Ok(());
    }
    Err(format!("cannot unpack {}: install `unzip`, or a JDK for its `jar`", jar.display()))
}
