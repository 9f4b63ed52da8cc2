//! An authority of a test's own, and a front that speaks TLS, with a certificate of that authority, before any server of
//! the harness.

use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;

use fairlist::tls::Trust;
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd,
};
use rustls::ServerConfig;
use rustls::pki_types::PrivatePkcs8KeyDer;
use tempfile::NamedTempFile;
use tokio::io::{self, AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

/// Signs certificates that nobody believes who was not told to.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

/// What a server shows.
#[derive(Clone)]
pub struct Identity(Arc<ServerConfig>);

impl Authority {
    pub fn new() -> Self {
        Self::called("House of Music")
    }

    /// With that name, which others may have as well.
    pub fn called(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        Self(CertifiedIssuer::self_signed(params, key).expect("an authority"))
    }

    /// Its certificate, as operators have it.
    pub fn file(&self) -> NamedTempFile {
        let mut file = NamedTempFile::new().expect("a file");
        file.write_all(self.0.pem().as_bytes()).expect("written");
        file
    }

    /// Whoever believes it.
    pub fn trust(&self) -> Trust {
        Trust::with_file(self.file().path()).expect("a file of certificates")
    }

    /// A certificate for this name.
    pub fn identity(&self, name: &str) -> Identity {
        self.identity_until(name, 4096)
    }

    /// The same, and its time ends with the beginning of that year.
    pub fn identity_until(&self, name: &str, year: i32) -> Identity {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new([name.to_owned()]).expect("a name");
        params.not_after = date_time_ymd(year, 1, 1);
        let certificate = params.signed_by(&key, &self.0).expect("a certificate");
        Identity::of(&certificate, &key)
    }
}

impl Identity {
    /// One that no authority signed, as `openssl req -x509` makes it.
    pub fn self_signed(name: &str) -> Self {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new([name.to_owned()]).expect("a name");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self::of(&params.self_signed(&key).expect("a certificate"), &key)
    }

    fn of(certificate: &Certificate, key: &KeyPair) -> Self {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(
                vec![certificate.der().clone()],
                PrivatePkcs8KeyDer::from(key.serialize_der()).into(),
            )
            .expect("an identity");
        Self(Arc::new(config))
    }
}

/// When TLS begins.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Begin {
    AtOnce,
    /// A mail server's way: after a greeting, when it is asked to.
    StartTls,
}

/// How the handshakes went.
#[derive(Clone, Copy, Debug, Default)]
pub struct Handshakes {
    pub good: usize,
    pub broken: usize,
}

/// See the module. Dropping it ends every conversation.
pub struct TlsFront {
    address: SocketAddr,
    handshakes: watch::Sender<Handshakes>,
    _tasks: JoinSet<()>,
}

impl TlsFront {
    /// TLS from the first byte.
    pub async fn before(upstream: SocketAddr, identity: Identity) -> Self {
        Self::start(upstream, identity, Begin::AtOnce).await
    }

    /// STARTTLS before a mail server.
    pub async fn before_mail(upstream: SocketAddr, identity: Identity) -> Self {
        Self::start(upstream, identity, Begin::StartTls).await
    }

    async fn start(upstream: SocketAddr, identity: Identity, begin: Begin) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
        let address = listener.local_addr().expect("a bound address");
        let handshakes = watch::Sender::default();
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, upstream, TlsAcceptor::from(identity.0), begin, handshakes.clone()));
        Self { address, handshakes, _tasks: tasks }
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    pub fn handshakes(&self) -> Handshakes {
        *self.handshakes.borrow()
    }
}

async fn accept(
    listener: TcpListener,
    upstream: SocketAddr,
    acceptor: TlsAcceptor,
    begin: Begin,
    handshakes: watch::Sender<Handshakes>,
) {
    let mut conversations = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let (acceptor, handshakes) = (acceptor.clone(), handshakes.clone());
        conversations.spawn(async move {
            // Whoever breaks off has their reasons, which are the test's.
            drop(converse(stream, upstream, acceptor, begin, &handshakes).await);
        });
        while conversations.try_join_next().is_some() {}
    }
}

async fn converse(
    stream: TcpStream,
    upstream: SocketAddr,
    acceptor: TlsAcceptor,
    begin: Begin,
    handshakes: &watch::Sender<Handshakes>,
) -> io::Result<()> {
    let mut stream = BufReader::new(stream);
    if begin == Begin::StartTls {
        stream.write_all(b"220 in front\r\n").await?;
        for answer in ["250-in front\r\n250 STARTTLS\r\n", "220 go ahead\r\n"] {
            stream.read_line(&mut String::new()).await?;
            stream.write_all(answer.as_bytes()).await?;
        }
    }
    let spoken = acceptor.accept(stream).await;
    handshakes.send_modify(|all| match &spoken {
        Ok(_) => all.good += 1,
        Err(_) => all.broken += 1,
    });
    let mut inside = spoken?;
    let mut behind = BufReader::new(TcpStream::connect(upstream).await?);
    if begin == Begin::StartTls {
        // Its greeting was given already.
        behind.read_line(&mut String::new()).await?;
    }
    io::copy_bidirectional(&mut inside, &mut behind).await.map(drop)
}
