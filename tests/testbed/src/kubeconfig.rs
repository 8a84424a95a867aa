//! Who calls which server: server, authority and token, as a kubeconfig file or a client.

use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::{Context, Result};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;

/// One identity at one API server. Everything is inline, no file is referred to.
#[derive(Clone, Debug)]
pub struct Kubeconfig {
    /// Context, cluster and user are named like this.
    pub cluster: String,
    pub server: SocketAddr,
    /// PEM.
    pub certificate_authority: Vec<u8>,
    pub token: String,
}

impl Kubeconfig {
    /// The same identity through another address, such as a [`crate::Proxy`]'s.
    #[must_use]
    pub fn via(mut self, server: SocketAddr) -> Self {
        self.server = server;
        self
    }

    /// The file's text.
    #[must_use]
    pub fn text(&self) -> String {
        let Self {
            cluster,
            server,
            certificate_authority,
            token,
        } = self;
        let authority = BASE64_STANDARD.encode(certificate_authority);
        format!(
            "apiVersion: v1
kind: Config
current-context: {cluster}
contexts:
- name: {cluster}
  context: {{cluster: {cluster}, user: {cluster}}}
clusters:
- name: {cluster}
  cluster:
    server: https://{server}
    certificate-authority-data: {authority}
users:
- name: {cluster}
  user:
    token: {token}
"
        )
    }

    /// Writes the file, readable by its owner only.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn save(&self, path: &Path) -> Result<()> {
        let write = || -> std::io::Result<()> {
            let _ = std::fs::remove_file(path);
            let mut file = std::fs::OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(path)?;
            file.write_all(self.text().as_bytes())
        };
        write().with_context(|| format!("write {}", path.display()))
    }

    /// A client with this identity. It belongs to the runtime in which it was made.
    ///
    /// # Errors
    /// The authority is no certificate.
    pub async fn client(&self) -> Result<kube::Client> {
        let parsed = kube::config::Kubeconfig::from_yaml(&self.text())?;
        let config =
            kube::Config::from_custom_kubeconfig(parsed, &kube::config::KubeConfigOptions::default()).await?;
        Ok(kube::Client::try_from(config)?)
    }
}
