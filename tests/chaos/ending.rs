//! How a script ends: the judge speaks, and the stage is cleared for the next one.

use anyhow::{Result, bail};
use kube::ResourceExt;
use kube::api::{DeleteParams, Patch, PatchParams};
use portcullis_testbed::chaos::check::{Checker, Kind, Violation};
use portcullis_testbed::{chaos, wait_for};
use serde_json::json;

use crate::stage::{A, B, FIRST, LIMIT, POD, SECOND, Stage};

impl Stage {
    /// The judge, after a while: a correct world comes to rest, a faulty one shows a violation of one of these kinds.
    pub async fn judge(&self, shows: Option<&[Kind]>) -> Result<()> {
        let world = &self.rig().world;
        let mut checker = Checker::new(world, [self.namespace.clone()], self.foreign.clone());
        match shows {
            None => {
                let rest = wait_for("everything to run", LIMIT, async || checker.rest(true).await).await;
                let violations = checker.judge().await?;
                chaos::verdict(&checker, violations)?;
                rest
            }
            Some(kinds) => {
                let mut found: Vec<Violation> = Vec::new();
                let seen = wait_for("the judge to see it", LIMIT, async || {
                    found = checker.judge().await?;
                    Ok::<_, anyhow::Error>(
                        found
                            .iter()
                            .any(|violation| kinds.contains(&violation.kind))
                            .then_some(()),
                    )
                });
                if seen.await.is_err() {
                    bail!(
                        "the judge saw no {kinds:?}, only {:?}",
                        found.iter().map(ToString::to_string).collect::<Vec<_>>()
                    );
                }
                Ok(())
            }
        }
    }

    /// The next script finds the workers as they were.
    pub async fn clear(mut self) -> Result<()> {
        self.kill(A);
        self.kill(B);
        for worker in [FIRST, SECOND] {
            self.heal(worker);
            self.cordon_nodes(worker, false).await?;
            self.cordon_cluster(worker, false).await?;
            let force = DeleteParams::default().grace_period(0);
            let _gone = self.pods(Some(worker)).await?.delete(POD, &force).await;
        }
        self.clear_jobs().await?;
        let pods = self.pods(None).await?;
        if let Some(pod) = self.local().await? {
            pods.delete(POD, &DeleteParams::default().grace_period(0)).await?;
            if !pod.finalizers().is_empty() {
                let _gone = pods
                    .patch(
                        POD,
                        &PatchParams::default(),
                        &Patch::Merge(json!({"metadata": {"finalizers": null}})),
                    )
                    .await;
            }
        }
        Ok(())
    }
}
