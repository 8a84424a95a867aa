//! One kept connection to one API server: hyper and rustls, nothing between.

use std::sync::Arc;

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use http::{Method, Request, header};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use portcullis_testbed::Kubeconfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use serde::Deserialize;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// JSON bodies by what they are.
pub(crate) const OBJECT: &str = "application/json";
pub(crate) const MERGE: &str = "application/merge-patch+json";
pub(crate) const JSON: &str = "application/json-patch+json";

/// A connection; one request at a time.
pub(crate) struct Line {
    sender: SendRequest<Full<Bytes>>,
    host: String,
    token: String,
}

/// What the next write needs of an answer.
#[derive(Deserialize)]
pub(crate) struct Answer {
    pub(crate) metadata: Identity,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Identity {
    pub(crate) uid: String,
    pub(crate) resource_version: String,
}

impl Line {
    pub(crate) async fn open(to: &Kubeconfig) -> Result<Self> {
        let mut roots = rustls::RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(&to.certificate_authority) {
            roots.add(certificate?)?;
        }
        let config = rustls::ClientConfig::builder()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let tcp = TcpStream::connect(to.server).await?;
        tcp.set_nodelay(true)?;
        let name = ServerName::IpAddress(to.server.ip().into());
        let tls = TlsConnector::from(Arc::new(config)).connect(name, tcp).await?;
        let (sender, connection) = http1::handshake(TokioIo::new(tls)).await?;
        tokio::spawn(connection);
        Ok(Self {
            sender,
            host: to.server.to_string(),
            token: format!("Bearer {}", to.token),
        })
    }

    /// The answer to one request; any code but 2xx is an error with the server's words.
    pub(crate) async fn call(
        &mut self,
        method: Method,
        path: &str,
        media: &str,
        body: impl Into<Bytes>,
    ) -> Result<Bytes> {
        let request = Request::builder()
            .method(&method)
            .uri(path)
            .header(header::HOST, &self.host)
            .header(header::AUTHORIZATION, &self.token)
            .header(header::CONTENT_TYPE, media)
            .header(header::ACCEPT, OBJECT)
            .body(Full::new(body.into()))?;
        let answer = async {
            self.sender.ready().await?;
            let answer = self.sender.send_request(request).await?;
            let status = answer.status();
            Ok::<_, hyper::Error>((status, answer.into_body().collect().await?.to_bytes()))
        };
        let (status, body) = answer.await.with_context(|| format!("{method} {path}"))?;
        if !status.is_success() {
            bail!("{method} {path}: {status}: {}", String::from_utf8_lossy(&body));
        }
        Ok(body)
    }

    /// As [`Self::call`], for the identity of the object in the answer.
    pub(crate) async fn write(
        &mut self,
        method: Method,
        path: &str,
        media: &str,
        body: impl Into<Bytes>,
    ) -> Result<Identity> {
        let body = self.call(method, path, media, body).await?;
        Ok(serde_json::from_slice::<Answer>(&body)?.metadata)
    }
}
