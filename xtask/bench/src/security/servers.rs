//! The servers of the comparison: tailrace with everything on or off, Kafka with SCRAM or TLS, nats-server
//! with TLS.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use super::super::lab::{Lab, succeeded};
use super::super::process::command;
use super::super::servers::{
    self, CLUSTER_ID, Durability, Endpoint, JVM, Server, create, empty, free_port, write,
};
use super::Programs;

/// The password of all users.
pub(super) const PASSWORD: &str = "a password of the bench";

/// The names of the servers, which the samples have as systems.
pub(super) const ON: &str = "tailrace";
pub(super) const OFF: &str = "off";

const RULES: [&str; 5] = [
    "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users=User:admin",
    "tailrace.first.user=admin",
    "tailrace.kafka.authentication=required",
    "tailrace.nats.authentication=required",
];

/// A certificate for localhost, with its key.
pub(super) struct Certificate {
    pub(super) file: PathBuf,
    pub(super) key: PathBuf,
    /// Key and certificate together, as Kafka reads them.
    both: PathBuf,
}

impl Certificate {
    /// Makes one with openssl, which signs itself.
    pub(super) fn make(folder: &Path) -> Result<Self, String> {
        let (file, key, both) =
            (folder.join("server.pem"), folder.join("server.key"), folder.join("both.pem"));
        let mut openssl = std::process::Command::new("openssl");
        openssl.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]);
        openssl.args(["-days", "30", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]);
        openssl.args(["-addext", "basicConstraints=critical,CA:FALSE", "-keyout"]).arg(&key);
        openssl.arg("-out").arg(&file).stdout(Stdio::null()).stderr(Stdio::null());
        xtask::run::run(&mut openssl)?;
        let read = |path: &Path| {
            std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
        };
        write(&both, &(read(&key)? + &read(&file)?))?;
        Ok(Self { file, key, both })
    }
}

/// Runs a load without keeping its figures.
pub(super) fn prepare(lab: &Lab, programs: &Programs, load: &str, words: &[String]) -> Result<(), String> {
    let arguments: Vec<String> = std::iter::once(load.to_owned()).chain(words.iter().cloned()).collect();
    let finished = lab.tool_at(&programs.load, &arguments)?;
    succeeded(load, &finished)
}

/// Starts a tailrace with users, rules and quotas, on an empty folder.
pub(super) fn on(lab: &Lab, programs: &Programs, more: &[&str]) -> Result<Server, String> {
    let data = empty(lab.scratch.join("on"))?;
    let password = format!("tailrace.first.password={PASSWORD}");
    let settings: Vec<&str> = RULES.iter().copied().chain([&*password]).chain(more.iter().copied()).collect();
    let server = servers::tailrace_with(&lab.binary, &lab.scratch, &data, Durability::Relaxed, &settings)?;
    let kafka = format!("kafka={}", server.endpoint().address);
    let words = [kafka, format!("admin={PASSWORD}"), format!("password={PASSWORD}"), "topic=t".to_owned()];
    prepare(lab, programs, "set-up", &words)?;
    let words = topic(&server.endpoint(), Some(&format!("admin={PASSWORD}")));
    prepare(lab, programs, "topic", &words)?;
    Ok(server)
}

/// Starts a tailrace without any of that.
pub(super) fn off(lab: &Lab, programs: &Programs, more: &[&str]) -> Result<Server, String> {
    let data = empty(lab.scratch.join("off"))?;
    let server = servers::tailrace_with(&lab.binary, &lab.scratch, &data, Durability::Relaxed, more)?;
    prepare(lab, programs, "topic", &topic(&server.endpoint(), None))?;
    Ok(server)
}

fn topic(endpoint: &Endpoint, admin: Option<&str>) -> Vec<String> {
    let mut words = vec![format!("kafka={}", endpoint.address), "topic=t".to_owned()];
    if admin.is_some() {
        words.extend(["user=admin".to_owned(), format!("password={PASSWORD}")]);
    }
    words
}

/// Starts a Kafka whose listener has SCRAM (with the user `user-0`) or TLS.
pub(super) fn kafka(
    lab: &Lab,
    programs: &Programs,
    certificate: Option<&Certificate>,
) -> Result<Server, String> {
    let data = empty(lab.scratch.join("kafka"))?;
    let (port, controller) = (free_port()?, free_port()?);
    let protocol = if certificate.is_some() { "SSL" } else { "SASL_PLAINTEXT" };
    let mut properties = format!(
        "process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners={protocol}://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners={protocol}://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,{protocol}:{protocol}
inter.broker.listener.name={protocol}
num.network.threads=3
num.io.threads=8
log.dirs={}
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
",
        data.display()
    );
    match certificate {
        Some(certificate) => properties.push_str(&format!(
            "ssl.keystore.type=PEM\nssl.keystore.location={0}\nssl.truststore.type=PEM\nssl.truststore.location={1}\n",
            certificate.both.display(),
            certificate.file.display()
        )),
        None => properties.push_str(&format!(
            "sasl.enabled.mechanisms=SCRAM-SHA-256\nsasl.mechanism.inter.broker.protocol=SCRAM-SHA-256\n\
             listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config=org.apache.kafka.common.security.scram.\
             ScramLoginModule required username=\"user-0\" password=\"{PASSWORD}\";\n"
        )),
    }
    let file = lab.scratch.join("server.properties");
    write(&file, &properties)?;
    write(&lab.scratch.join("log4j2.xml"), servers::LOG4J)?;
    let mut format = servers::java(&lab.peers, &lab.scratch, &["-Xmx512m"])?;
    format.args(["kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c"]).arg(&file);
    if certificate.is_none() {
        format.args([
            "--add-scram",
            &format!("SCRAM-SHA-256=[name=user-0,password={PASSWORD},iterations=4096]"),
        ]);
    }
    format.stdout(Stdio::null()).stderr(create(&lab.scratch.join("kafka-format.log"))?);
    xtask::run::run(&mut format)?;
    let server = servers::kafka_again(&lab.peers, &lab.scratch, &format!("127.0.0.1:{port}"), &data, JVM)?;
    if let Some(certificate) = certificate {
        let mut words = topic(&server.endpoint(), None);
        words.push(format!("ca={}", certificate.file.display()));
        prepare(lab, programs, "topic", &words)?;
    }
    Ok(server)
}

/// Starts a nats-server with TLS.
pub(super) fn nats_server(lab: &Lab, certificate: &Certificate) -> Result<Server, String> {
    let data = empty(lab.scratch.join("nats"))?;
    let port = free_port()?;
    let config = lab.scratch.join("nats.conf");
    let (file, key) = (certificate.file.display(), certificate.key.display());
    write(
        &config,
        &format!(
            "listen: \"127.0.0.1:{port}\"\ntls {{ cert_file: \"{file}\", key_file: \"{key}\", timeout: 10 }}\n"
        ),
    )?;
    let mut command = command(&lab.peers.program("bin/nats-server"))?;
    command.arg("-c").arg(&config).stdout(Stdio::null()).stderr(create(&lab.scratch.join("nats.log"))?);
    servers::peer("nats-server", port, &data, &mut command)
}
