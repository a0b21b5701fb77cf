//! Finds the programs that the peers' setup script installed. This module does not install them.

use std::path::{Path, PathBuf};

use xtask::run::root;

/// The folder of Kafka, of the clients, and of the data of all servers.
pub(super) struct Peers {
    folder: PathBuf,
}

impl Peers {
    /// Finds the folder (`PEERS_DIR`) into which setup.sh installs, and checks that it has all `programs`.
    /// `scripts` is the folder of setup.sh, for the error message.
    pub(super) fn find(scripts: Option<&Path>, programs: &[&str]) -> Result<Self, String> {
        let beside = root().parent().map_or_else(|| "../shared/peers".into(), |up| up.join("shared/peers"));
        let setup = scripts.unwrap_or(&beside).join("setup.sh");
        let temporary = std::env::temp_dir().join("peers");
        let folder = std::env::var_os("PEERS_DIR").map_or(temporary, PathBuf::from);
        for needed in programs {
            if !folder.join(needed).exists() {
                return Err(format!(
                    "{} is missing: run {} (or set PEERS_DIR to the folder it installed into, or --peers to the folder it is in)",
                    folder.join(needed).display(),
                    setup.display()
                ));
            }
        }
        Ok(Self { folder })
    }

    pub(super) fn program(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    pub(super) fn kafka_libraries(&self) -> PathBuf {
        self.folder.join("kafka/libs")
    }

    /// A scratch folder for this process.
    pub(super) fn scratch(&self) -> PathBuf {
        self.folder.join(format!("data/bench-{}", std::process::id()))
    }

    /// Removes the scratch folders of killed runs.
    pub(super) fn sweep(&self) {
        let Ok(entries) = std::fs::read_dir(self.folder.join("data")) else { return };
        for entry in entries.filter_map(Result::ok) {
            let name = entry.file_name();
            let pid = name.to_str().and_then(|name| name.strip_prefix("bench-"));
            if pid.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
                let _ = std::fs::remove_dir_all(entry.path());
            }
        }
    }

    /// The version of Kafka, such as `4.3.1`, from the name of the server's jar.
    pub(super) fn kafka_version(&self) -> String {
        let entries = std::fs::read_dir(self.kafka_libraries()).into_iter().flatten().filter_map(Result::ok);
        let mut names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        names.find_map(|name| jar_version(&name)).unwrap_or_else(|| "of unknown version".to_owned())
    }
}

fn jar_version(name: &str) -> Option<String> {
    let rest = name.strip_prefix("kafka_")?.strip_suffix(".jar")?;
    Some(rest.split_once('-')?.1.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_in_the_name_of_the_jar() {
        assert_eq!(jar_version("kafka_2.13-4.3.1.jar").as_deref(), Some("4.3.1"));
        assert_eq!(jar_version("kafka-clients-4.3.1.jar"), None);
    }
}
