//! Whom to believe that they are the server, when it speaks TLS.

use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

use crate::failure::Failure;

/// Believes the server that shows the certificate in this file, the one it was started with, whatever name is in it: tools
/// on the same machine know the server by its address, and its certificate by the settings they share.
pub fn shown_in(certificate_file: &Path) -> Result<Arc<ClientConfig>, Failure> {
    let shown = certificate_file.display();
    let certificate = CertificateDer::from_pem_file(certificate_file).map_err(|error| {
        Failure::usage(format!(
            "the server speaks TLS, and its certificate cannot be read from {shown} \
             (server.tls.certificate_file): {error}"
        ))
    })?;
    let provider = ring::default_provider();
    let only = OnlyThis { certificate, algorithms: provider.signature_verification_algorithms };
    let config = with(provider)?.dangerous().with_custom_certificate_verifier(Arc::new(only));
    Ok(Arc::new(config.with_no_client_auth()))
}

/// Believes whom the machine's root certificates vouch for. `SSL_CERT_FILE` names others.
pub fn machine() -> Result<Arc<ClientConfig>, Failure> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        return Err(Failure::failed("this machine has no root certificates; SSL_CERT_FILE may name some"));
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
struct OnlyThis {
    certificate: CertificateDer<'static>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for OnlyThis {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if *end_entity == self.certificate {
            Ok(ServerCertVerified::assertion())
        } else {
            let reason = "it shows another certificate than the one in server.tls.certificate_file";
            Err(Error::General(reason.into()))
        }
    }

    /// A certificate is public; that the server has its key shows here.
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
