//! The demo.
use std::path::Path;

pub(crate) async fn run(_binary: &Path, _keep: bool) -> anyhow::Result<()> {
    anyhow::bail!("not yet")
}
