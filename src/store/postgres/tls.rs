//! Encrypted connections to a PostgreSQL server: the certificate is checked as the system checks others.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::FutureExt;
use futures::future::BoxFuture;
use postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use rustls_platform_verifier::BuilderVerifierExt;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::TlsConnector;

/// Why a connection cannot be encrypted.
type Wrong = Box<dyn std::error::Error + Send + Sync>;

/// Encrypts connections.
#[derive(Clone)]
pub(super) struct Tls(Arc<ClientConfig>);

/// Encrypts the connection to one server; a socket of this machine has no name, and wants no encryption either.
pub(super) struct ToServer(Arc<ClientConfig>, String);

/// An encrypted connection.
pub(super) struct Stream<S>(tokio_rustls::client::TlsStream<S>);

impl Tls {
    /// With the certificates that the system trusts.
    ///
    /// # Errors
    /// When these cannot be read.
    pub(super) fn of_the_system() -> Result<Tls, Wrong> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
        Ok(Tls(Arc::new(config.with_platform_verifier()?.with_no_client_auth())))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> MakeTlsConnect<S> for Tls {
    type Stream = Stream<S>;
    type TlsConnect = ToServer;
    type Error = Wrong;

    fn make_tls_connect(&mut self, domain: &str) -> Result<ToServer, Wrong> {
        Ok(ToServer(self.0.clone(), domain.to_owned()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> TlsConnect<S> for ToServer {
    type Stream = Stream<S>;
    type Error = Wrong;
    type Future = BoxFuture<'static, Result<Stream<S>, Wrong>>;

    fn connect(self, stream: S) -> Self::Future {
        let ToServer(config, server) = self;
        async move {
            let server = ServerName::try_from(server)?;
            Ok(Stream(TlsConnector::from(config).connect(server, stream).await?))
        }
        .boxed()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> postgres::tls::TlsStream for Stream<S> {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Stream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Stream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
