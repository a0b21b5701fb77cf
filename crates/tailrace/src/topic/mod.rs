//! `tailrace topic ...`: creates, shows, changes and deletes topics.

mod alter;
mod arguments;
mod change;
mod create;
mod delete;
mod describe;
mod list;

use std::process::ExitCode;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use tailrace_cli::failure::Failure;

pub(crate) use self::arguments::TopicArguments;
use self::arguments::TopicVerb;
use crate::client::{Cluster, block_on};

pub(crate) fn run(arguments: &TopicArguments) -> Result<ExitCode, Failure> {
    let verb = &arguments.verb;
    block_on(async {
        let mut cluster = Cluster::connect(&verb.common().connect).await?;
        match verb {
            TopicVerb::Create(arguments) => create::run(&mut cluster, arguments).await,
            TopicVerb::List(arguments) => list::run(&mut cluster, arguments).await,
            TopicVerb::Describe(arguments) => describe::run(&mut cluster, arguments).await,
            TopicVerb::Alter(arguments) => alter::run(&mut cluster, arguments).await,
            TopicVerb::Delete(arguments) => delete::run(&mut cluster, arguments).await,
        }
    })
}

/// Returns a topic id as Kafka's tools show it: 22 characters.
fn id_text(id: &[u8; 16]) -> String {
    URL_SAFE_NO_PAD.encode(id)
}

#[cfg(test)]
mod tests {
    use super::id_text;

    #[test]
    fn ids_are_url_safe_and_unpadded() {
        assert_eq!(id_text(&[0; 16]), "AAAAAAAAAAAAAAAAAAAAAA");
        assert_eq!(id_text(&[0xff; 16]), "_____________________w");
    }
}
