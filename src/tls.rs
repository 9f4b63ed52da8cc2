//! How we speak TLS as a client: whose certificates are believed, and what is said when one is not.

use std::error::Error;
use std::io;
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::{CertificateError, ClientConfig, RootCertStore};

/// Whose certificates are believed: those of the public web's authorities, and of those that were added, as a house has
/// one for what is reached only inside it.
#[derive(Clone, Debug, Default)]
pub struct Trust {
    added: Vec<CertificateDer<'static>>,
}

/// Why a file of authorities was refused.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// It cannot be read, or is no PEM.
    #[error("cannot be read: {0}")]
    Unreadable(String),
    /// It holds no certificate.
    #[error("holds no certificate; it must be PEM, with lines such as -----BEGIN CERTIFICATE-----")]
    Empty,
    /// A certificate that cannot be one of an authority.
    #[error("holds a certificate, number {number}, that is not one of an authority: {problem}")]
    Unusable {
        /// Counted from one.
        number: usize,
        /// In the library's words.
        problem: rustls::Error,
    },
}

impl Trust {
    /// Adds the authorities of a file of certificates in PEM.
    ///
    /// # Errors
    /// When it is no such file.
    pub fn with_file(file: &Path) -> Result<Self, TrustError> {
        let unreadable = |problem: &dyn std::fmt::Display| TrustError::Unreadable(problem.to_string());
        let read = CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        let added = read.map_err(|problem| match problem {
            pem::Error::Io(problem) => unreadable(&problem),
            problem => unreadable(&problem),
        })?;
        if added.is_empty() {
            return Err(TrustError::Empty);
        }
        let mut roots = RootCertStore::empty();
        for (n, certificate) in added.iter().enumerate() {
            roots
                .add(certificate.clone())
                .map_err(|problem| TrustError::Unusable { number: n + 1, problem })?;
        }
        Ok(Self { added })
    }

    /// Those that were added, in DER.
    #[must_use]
    pub fn added(&self) -> &[CertificateDer<'static>] {
        &self.added
    }

    /// The configuration of every client of ours that speaks HTTP.
    ///
    /// # Errors
    /// When TLS cannot be set up.
    pub fn client(&self) -> Result<ClientConfig, rustls::Error> {
        let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
        roots.add_parsable_certificates(self.added.iter().cloned());
        let builder = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()));
        Ok(builder.with_safe_default_protocol_versions()?.with_root_certificates(roots).with_no_client_auth())
    }
}

/// What is wrong with how the other side speaks TLS, for whoever can mend it; `None` when the trouble is another.
#[must_use]
pub fn trouble(error: &(dyn Error + 'static)) -> Option<String> {
    let mut next = Some(error);
    while let Some(error) = next {
        // A stream's error holds what went wrong, and does not name it as its source.
        let held = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        if let Some(problem) = held.and_then(|held| held.downcast_ref()).or_else(|| error.downcast_ref()) {
            return Some(in_words(problem));
        }
        next = held.map_or_else(|| error.source(), |held| Some(held));
    }
    None
}

fn in_words(problem: &rustls::Error) -> String {
    let rustls::Error::InvalidCertificate(certificate) = problem else {
        return format!("TLS failed: {problem}");
    };
    match certificate {
        CertificateError::UnknownIssuer => {
            "its certificate is of an authority that is not trusted (--extra-ca-certs adds one)".to_owned()
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "its certificate is for another name".to_owned()
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "its certificate has expired".to_owned()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "its certificate is not valid yet".to_owned()
        }
        CertificateError::BadSignature => {
            "its certificate is not signed by the authority that it names".to_owned()
        }
        // The verifier's own errors have no variant here.
        other if other.to_string().contains("CaUsedAsEndEntity") => {
            "its certificate signs itself, as an authority's does (`openssl req -x509` makes such ones): one has to be \
             signed by an authority"
                .to_owned()
        }
        other => format!("its certificate is not valid ({other})"),
    }
}
