//! Mutual TLS between nodes.

use std::path::PathBuf;
use tailrace_env::{task, time};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use tempfile::TempDir;

use super::*;

const LONG: Duration = Duration::from_secs(60);
const BOTH: [ExtendedKeyUsagePurpose; 2] =
    [ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];

struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: TempDir,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let folder = TempDir::new().unwrap();
        std::fs::write(folder.path().join("ca.pem"), issuer.pem()).unwrap();
        Self { issuer, folder }
    }

    fn path(&self, file: &str) -> PathBuf {
        self.folder.path().join(file)
    }

    fn issue(&self, name: &str, host: &str, purposes: &[ExtendedKeyUsagePurpose]) {
        let mut params = CertificateParams::new(vec![host.to_owned()]).unwrap();
        params.extended_key_usages = purposes.to_vec();
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        std::fs::write(self.path(&format!("{name}.pem")), certificate.pem()).unwrap();
        std::fs::write(self.path(&format!("{name}.key")), key.serialize_pem()).unwrap();
    }

    /// Loads TLS with a certificate of this authority, trusting `trusted`.
    fn load(&self, name: &str, trusted: &Authority) -> Arc<PeerTls> {
        let (certificate, key) = (self.path(&format!("{name}.pem")), self.path(&format!("{name}.key")));
        PeerTls::load(&certificate, &key, &trusted.path("ca.pem")).unwrap()
    }

    /// Starts a node with a certificate for this host and these purposes.
    async fn node(&self, node: i32, host: &str, purposes: &[ExtendedKeyUsagePurpose]) -> Node {
        let name = format!("node{node}");
        self.issue(&name, host, purposes);
        node_with(node, self.load(&name, self)).await
    }
}

async fn node_with(node: i32, tls: Arc<PeerTls>) -> Node {
    let mut setup = Setup::new(node);
    setup.tls = Some(tls);
    setup.start().await
}

async fn ask(from: &Node, to: &Node) -> Result<(PeerIdentity, Bytes), PeerError> {
    from.peers.ask(&to.address.to_string(), RequestKind::Status, Bytes::new(), LONG).await
}

fn is_tls(outcome: &Result<(PeerIdentity, Bytes), PeerError>) -> bool {
    matches!(outcome, Err(PeerError::Tls { .. }))
}

#[tokio::test]
async fn nodes_of_one_authority_are_linked() {
    let authority = Authority::new();
    let mut one = authority.node(1, "127.0.0.1", &BOTH).await;
    let mut two = authority.node(2, "127.0.0.1", &[]).await;
    one.peers.set_nodes(vec![two.as_peer()]);
    two.peers.set_nodes(vec![one.as_peer()]);
    one.connected(2).await;
    two.connected(1).await;
    for index in 0..50 {
        assert!(one.peers.send(NodeId(2), group(1), append(1, 2, index, &vec![5; 100_000])));
    }
    let arrived = two.messages(50).await;
    assert_eq!(arrived[49].2, append(1, 2, 49, &vec![5; 100_000]));
    let body = Bytes::from(vec![6; 3 << 20]);
    let answer = two.peers.request(NodeId(1), RequestKind::Chunk, body, LONG).await.unwrap();
    assert_eq!(answer.len(), "Chunk of Some(2): ".len() + (3 << 20));
    one.stop().await;
    two.stop().await;
}

#[tokio::test]
async fn a_certificate_of_another_authority_is_refused_by_either_end() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let one = ours.node(1, "127.0.0.1", &BOTH).await;
    let stranger = theirs.node(2, "127.0.0.1", &BOTH).await;
    assert!(is_tls(&ask(&stranger, &one).await));
    // It accepts our certificate, but still presents its own.
    let cunning = node_with(3, theirs.load("node2", &ours)).await;
    let outcome = ask(&cunning, &one).await;
    assert!(is_tls(&outcome), "{outcome:?}");
    until(|| one.counts().refusals("this_node", "tls") == 2).await;
    for node in [one, stranger, cunning] {
        node.stop().await;
    }
}

#[tokio::test]
async fn a_clients_or_a_servers_certificate_is_no_nodes() {
    let authority = Authority::new();
    let one = authority.node(1, "127.0.0.1", &BOTH).await;
    let client = authority.node(2, "127.0.0.1", &[ExtendedKeyUsagePurpose::ClientAuth]).await;
    let server = authority.node(3, "127.0.0.1", &[ExtendedKeyUsagePurpose::ServerAuth]).await;
    for other in [&client, &server] {
        let outcome = ask(other, &one).await;
        assert!(is_tls(&outcome), "{outcome:?}");
    }
    until(|| one.counts().refusals("this_node", "tls") == 2).await;
    for node in [one, client, server] {
        node.stop().await;
    }
}

#[tokio::test]
async fn a_certificate_for_another_host_is_refused_by_who_dials_it() {
    let authority = Authority::new();
    let one = authority.node(1, "127.0.0.1", &BOTH).await;
    let elsewhere = authority.node(2, "127.0.0.2", &BOTH).await;
    assert!(is_tls(&ask(&one, &elsewhere).await));
    assert!(ask(&elsewhere, &one).await.is_ok());
    one.stop().await;
    elsewhere.stop().await;
}

#[tokio::test]
async fn without_a_certificate_nobody_gets_in() {
    let authority = Authority::new();
    let one = authority.node(1, "127.0.0.1", &BOTH).await;
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(authority.path("ca.pem")).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(one.address).await.unwrap();
    let name = ServerName::try_from("127.0.0.1").unwrap();
    let mut stream = tokio_rustls::TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
    let call = Greeting::call(&Setup::new(2).identity(), Purpose::Ask, None).encode();
    // Whether the write or the read notices this depends on which is quicker.
    let refused = async {
        stream.write_all(&call).await?;
        stream.read_u8().await
    };
    assert!(refused.await.is_err());
    until(|| one.counts().refusals("this_node", "tls") == 1).await;
    one.stop().await;
}

#[tokio::test]
async fn plain_and_tls_do_not_meet_and_say_so() {
    let authority = Authority::new();
    let secure = authority.node(1, "127.0.0.1", &BOTH).await;
    let plain = Node::start(2).await;
    let outcome = ask(&plain, &secure).await;
    assert!(
        matches!(&outcome, Err(PeerError::NoPeer { reason, .. }) if reason.contains("TLS")),
        "{outcome:?}"
    );
    until(|| secure.counts().refusals("this_node", "not_tls") == 1).await;
    assert!(is_tls(&ask(&secure, &plain).await));
    until(|| plain.counts().refusals("this_node", "tls_on_plain") == 1).await;
    secure.stop().await;
    plain.stop().await;
}

#[tokio::test]
async fn certificates_are_read_again_when_they_change() {
    let authority = Authority::new();
    authority.issue("one", "127.0.0.2", &BOTH);
    let tls = authority.load("one", &authority);
    let one = node_with(1, Arc::clone(&tls)).await;
    let two = authority.node(2, "127.0.0.1", &BOTH).await;
    assert!(is_tls(&ask(&two, &one).await));
    let watching = task::spawn(Arc::clone(&tls).watch());
    authority.issue("one", "127.0.0.1", &BOTH);
    let began = Instant::now();
    while ask(&two, &one).await.is_err() {
        assert!(began.elapsed() < PATIENCE, "the new certificate is not used");
        time::sleep(Duration::from_millis(50)).await;
    }
    watching.abort();
    one.stop().await;
    two.stop().await;
}

#[test]
fn files_that_cannot_be_used_are_named_with_their_setting() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    ours.issue("a", "127.0.0.1", &BOTH);
    theirs.issue("a", "127.0.0.1", &BOTH);
    let load = |certificate: PathBuf, key: PathBuf, authorities: PathBuf| {
        PeerTls::load(&certificate, &key, &authorities).err().unwrap().to_string()
    };
    let missing = load(ours.path("b.pem"), ours.path("a.key"), ours.path("ca.pem"));
    assert!(missing.contains("tailrace.cluster.tls.certificate.file"), "{missing}");
    let mixed = load(ours.path("a.pem"), theirs.path("a.key"), ours.path("ca.pem"));
    assert!(mixed.contains("tailrace.cluster.tls.key.file") && mixed.contains("does not belong"), "{mixed}");
    let wrong = load(ours.path("a.pem"), ours.path("a.key"), ours.path("a.key"));
    assert!(wrong.contains("tailrace.cluster.tls.ca.file"), "{wrong}");
}
