//! How we speak TLS as a client: the roots of the public web, and ring.

use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore};

/// The configuration of every client of ours that speaks HTTP.
///
/// # Errors
/// When TLS cannot be set up.
pub fn client() -> Result<ClientConfig, rustls::Error> {
    let roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    let builder = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()));
    Ok(builder.with_safe_default_protocol_versions()?.with_root_certificates(roots).with_no_client_auth())
}
