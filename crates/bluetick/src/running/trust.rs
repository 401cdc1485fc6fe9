//! How tools verify the certificate of the server.

use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

use crate::failure::Failure;

/// Trusts a server that presents one of these certificates, whatever name they contain. Tools on
/// the same machine know the address of the server and its certificate.
pub fn shown(certificates: Vec<CertificateDer<'static>>) -> Result<Arc<ClientConfig>, Failure> {
    by_sight(Some(certificates))
}

/// Trusts any server. For requests without secrets to this machine, whose answer is not worth
/// forging.
pub fn anyone() -> Result<Arc<ClientConfig>, Failure> {
    by_sight(None)
}

/// The server certificate, which is the first in the file.
pub fn certificate_in(certificate_file: &Path) -> Result<CertificateDer<'static>, Failure> {
    let file = certificate_file.display();
    CertificateDer::from_pem_file(certificate_file).map_err(|error| {
        Failure::usage(format!(
            "the server uses TLS, and its certificate cannot be read from {file} \
             (server.tls.certificate_file): {error}"
        ))
    })
}

fn by_sight(known: Option<Vec<CertificateDer<'static>>>) -> Result<Arc<ClientConfig>, Failure> {
    let provider = ring::default_provider();
    let verifier = PinnedCertificates { known, algorithms: provider.signature_verification_algorithms };
    let config = with(provider)?.dangerous().with_custom_certificate_verifier(Arc::new(verifier));
    Ok(Arc::new(config.with_no_client_auth()))
}

/// Trusts the root certificates of this machine, or those in `SSL_CERT_FILE`.
pub fn machine() -> Result<Arc<ClientConfig>, Failure> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        return Err(Failure::failed(
            "this machine has no root certificates; set SSL_CERT_FILE to a file with some",
        ));
    }
    let config = with(ring::default_provider())?.with_root_certificates(roots);
    Ok(Arc::new(config.with_no_client_auth()))
}

fn with(
    provider: CryptoProvider,
) -> Result<rustls::ConfigBuilder<ClientConfig, rustls::WantsVerifier>, Failure> {
    ClientConfig::builder_with_provider(Arc::new(provider))
        .with_safe_default_protocol_versions()
        .map_err(Failure::failed)
}

#[derive(Debug)]
struct PinnedCertificates {
    /// The accepted certificates. `None` accepts any.
    known: Option<Vec<CertificateDer<'static>>>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for PinnedCertificates {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if self.known.as_ref().is_none_or(|known| known.iter().any(|known| known == end_entity)) {
            Ok(ServerCertVerified::assertion())
        } else {
            let reason = "it presents another certificate than the server of this data directory";
            Err(Error::General(reason.into()))
        }
    }

    /// Proves that the server has the private key; the certificate alone is public.
    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
