//! Operators with a webhook and a certificate in a Secret, which they make and want to find as files.

use std::path::PathBuf;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Secret;
use kube::api::Api;

use crate::ports::Port;
use crate::wait::wait_for;

use super::super::bring_up::PATIENCE;
use super::super::users;
use super::{Cluster, Part};

impl Cluster {
    /// Where an operator looks for its certificates.
    pub(super) fn certs_of(&self, part: Part) -> PathBuf {
        self.folder.join(format!("certs-{}", part.name()))
    }

    /// Plays the kubelet that mounts a Secret: the operator has filled it, now it wants to see it.
    pub(super) async fn play_mount(&self, part: Part, secret: (&str, &str)) -> Result<()> {
        let (namespace, name) = secret;
        let secrets: Api<Secret> = Api::namespaced(self.admin_client().await?, namespace);
        let data = wait_for(
            &format!("a certificate of {}", part.name()),
            PATIENCE,
            async || {
                self.still_runs(part)?;
                let data = secrets.get(name).await?.data.unwrap_or_default();
                Ok::<_, anyhow::Error>(data.contains_key("tls.crt").then_some(data))
            },
        )
        .await?;
        let folder = self.certs_of(part);
        std::fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
        for (file, bytes) in data {
            std::fs::write(folder.join(&file), bytes.0).with_context(|| format!("write {file}"))?;
        }
        Ok(())
    }

    /// Waits until the operator's webhooks answer: `probe` is an object that passes them. It is not kept.
    pub(super) async fn await_webhook(&self, part: Part, probe: &str) -> Result<()> {
        let args = ["create", "--dry-run=server", "-f", "-"];
        wait_for(
            &format!("the webhooks of {}", part.name()),
            PATIENCE,
            async || {
                self.still_runs(part)?;
                self.kubectl_with(users::ADMIN, &args, probe).await.map(Some)
            },
        )
        .await?;
        Ok(())
    }
}

/// An installation whose webhooks are at this port. It is 1 in the files `kustomization.yaml`.
pub(super) fn at_port(installation: &str, port: &Port) -> String {
    let lines = installation.lines().map(|line| match line.trim_start() {
        "port: 1" => line.replace('1', &port.number().to_string()),
        _ => line.to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use crate::ports::free_port;

    #[test]
    fn webhooks_are_at_the_port_and_nothing_else_is() {
        let port = free_port().expect("a port");
        let service = "  service:\n      path: /1\n      port: 1\n  port: 10\n  weight: 1";
        let number = port.number();
        let expected = format!("  service:\n      path: /1\n      port: {number}\n  port: 10\n  weight: 1");
        assert_eq!(super::at_port(service, &port), expected);
    }
}
