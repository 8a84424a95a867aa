//! What users of the manager and people on the workers do meanwhile, whether the process runs or not.

pub mod jobs;
mod workers;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use super::check::Foreign;
use super::dice::Dice;
use crate::{World, wait_for};

/// One namespace whose workloads stay together, one whose pods go anywhere.
const NAMESPACES: [(&str, &str); 2] = [("chaos-together", "Owner"), ("chaos-apart", "None")];
const USER: &str = "alice";
/// More pods at a time than this are not made: the machine is small.
const MOST_PODS: usize = 24;
const SECOND: Duration = Duration::from_secs(1);

/// Users and their objects.
pub struct Load<'a> {
    world: &'a World,
    dice: Dice,
    users: Client,
    workers: Vec<Client>,
    made: usize,
    bare: Vec<(usize, String)>,
    deployments: Vec<(usize, String)>,
    sets: Vec<(usize, String)>,
    jobs: Vec<jobs::Made>,
    foreign: Vec<Foreign>,
    foreign_jobs: BTreeSet<String>,
    counts: [u32; 4],
    /// `CHAOS_VERBOSE`: what was refused is printed.
    verbose: bool,
}

impl<'a> Load<'a> {
    /// Namespaces, opted in to policies of their own.
    ///
    /// # Errors
    /// The manager refused something.
    pub async fn prepare(world: &'a World, dice: Dice) -> Result<Self> {
        let mut names: Vec<&str> = world.workers.iter().map(|worker| worker.cluster.name()).collect();
        for (namespace, colocate) in NAMESPACES {
            names.reverse(); // each worker is the first choice of somebody
            let policy = format!(
                "{{apiVersion: portcullis.dev/v1alpha1, kind: DispatchPolicy, metadata: {{name: {namespace}}}, \
                 spec: {{clusters: [{}], colocate: {colocate}, unschedulableAfter: 1s, namespaces: {{create: true}}}}}}",
                names.join(", ")
            );
            world.manager.apply(&policy).await?;
            world
                .manager
                .create_namespace(namespace, &[("portcullis.dev/dispatch", namespace)])
                .await?;
            world.manager.grant_edit(USER, namespace).await?;
            jobs::allow(world, namespace).await?;
            await_gate(world, namespace).await?;
        }
        let mut workers = Vec::new();
        for worker in &world.workers {
            workers.push(worker.cluster.admin_client().await?);
        }
        let users = world.manager.client_for(USER).await?;
        Ok(Self {
            world,
            dice,
            users,
            workers,
            made: 0,
            bare: Vec::new(),
            deployments: Vec::new(),
            sets: Vec::new(),
            jobs: Vec::new(),
            foreign: Vec::new(),
            foreign_jobs: BTreeSet::new(),
            counts: [0; 4],
            verbose: std::env::var_os("CHAOS_VERBOSE").is_some(),
        })
    }

    /// Until then. What is refused is refused: users try things.
    pub async fn play(&mut self, until: Instant) {
        let mut cordoned: Option<Instant> = None;
        while Instant::now() < until {
            let began = Instant::now();
            let done = tokio::time::timeout(20 * SECOND, self.act(&mut cordoned)).await;
            let failed = !matches!(done, Ok(Ok(())));
            if let (true, Ok(Err(error))) = (self.verbose, &done) {
                println!("chaos: refused: {error:#}");
            }
            self.counts[usize::from(failed)] += 1;
            let pause = self.dice.between(50 * SECOND / 1000, 900 * SECOND / 1000);
            tokio::time::sleep(pause.saturating_sub(began.elapsed())).await;
        }
    }

    async fn act(&mut self, cordoned: &mut Option<Instant>) -> Result<()> {
        if cordoned.is_some_and(|since| since.elapsed() > 12 * SECOND) {
            *cordoned = None;
            return self.heal().await;
        }
        if self.dice.happens(35) {
            return self.act_on_jobs().await;
        }
        let full = self.pods().await? >= MOST_PODS;
        match self.dice.roll(100) {
            0..24 if !full => self.make_pod().await,
            24..30 if !full => self.make_deployment().await,
            30..36 if !full => self.make_set().await,
            36..44 => self.scale().await,
            44..50 => self.roll_out().await,
            50..54 => self.edit_pod().await,
            54..72 => self.delete_something().await,
            72..80 => self.finish_on_worker().await,
            80..88 => self.delete_on_worker().await,
            88..92 => self.foreign_namesake().await,
            92..97 if cordoned.is_none() => {
                *cordoned = Some(Instant::now());
                self.cordon().await
            }
            _ => self.delete_any_pod().await,
        }
    }

    async fn pods(&self) -> Result<usize> {
        let mut count = 0;
        for (namespace, _) in NAMESPACES {
            count += self
                .pods_in(namespace)
                .list(&ListParams::default())
                .await?
                .items
                .len();
        }
        Ok(count)
    }

    fn pods_in(&self, namespace: &str) -> Api<Pod> {
        Api::namespaced(self.users.clone(), namespace)
    }

    fn next(&mut self, kind: &str) -> (usize, String) {
        self.made += 1;
        (self.dice.roll(NAMESPACES.len()), format!("{kind}-{}", self.made))
    }

    async fn make_pod(&mut self) -> Result<()> {
        let (place, name) = self.next("bare");
        let annotations = self.directives(true);
        let pod = json!({"metadata": {"name": name, "annotations": annotations}, "spec": spec("app:1")});
        self.bare.push((place, name));
        self.pods_in(NAMESPACES[place].0)
            .create(&PostParams::default(), &serde_json::from_value(pod)?)
            .await?;
        Ok(())
    }

    /// For the kubelet that plays the pod: slow starts, slow ends, and the end itself.
    fn directives(&mut self, may_end: bool) -> Value {
        let mut annotations = json!({});
        if self.dice.happens(40) {
            annotations["kwok.test/terminate-after"] = format!("{}s", 1 + self.dice.roll(8)).into();
        }
        if self.dice.happens(25) {
            annotations["kwok.test/start-after"] = format!("{}s", 1 + self.dice.roll(3)).into();
        }
        if may_end && self.dice.happens(20) {
            annotations["kwok.test/end"] = if self.dice.happens(70) { "complete" } else { "fail" }.into();
        }
        annotations
    }

    async fn make_deployment(&mut self) -> Result<()> {
        let (place, name) = self.next("deploy");
        let deployment = json!({"metadata": {"name": name}, "spec": {
            "replicas": 1 + self.dice.roll(3),
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}, "annotations": self.directives(false)}, "spec": spec("app:1")},
        }});
        self.deployments.push((place, name));
        let api: Api<Deployment> = Api::namespaced(self.users.clone(), NAMESPACES[place].0);
        api.create(&PostParams::default(), &serde_json::from_value(deployment)?)
            .await?;
        Ok(())
    }

    async fn make_set(&mut self) -> Result<()> {
        let (place, name) = self.next("set");
        let set = json!({"metadata": {"name": name}, "spec": {
            "replicas": 1 + self.dice.roll(2),
            "serviceName": name,
            "podManagementPolicy": if self.dice.happens(50) { "Parallel" } else { "OrderedReady" },
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}, "annotations": self.directives(false)}, "spec": spec("app:1")},
        }});
        self.sets.push((place, name));
        let api: Api<StatefulSet> = Api::namespaced(self.users.clone(), NAMESPACES[place].0);
        api.create(&PostParams::default(), &serde_json::from_value(set)?)
            .await?;
        Ok(())
    }

    async fn patch_workload(&mut self, patch: Value) -> Result<()> {
        let patch = Patch::Merge(patch);
        let params = PatchParams::default();
        if self.dice.happens(50) {
            let Some((place, name)) = self.dice.pick(&self.deployments) else {
                return Ok(());
            };
            let api: Api<Deployment> = Api::namespaced(self.users.clone(), NAMESPACES[*place].0);
            api.patch(name, &params, &patch).await?;
        } else {
            let Some((place, name)) = self.dice.pick(&self.sets) else {
                return Ok(());
            };
            let api: Api<StatefulSet> = Api::namespaced(self.users.clone(), NAMESPACES[*place].0);
            api.patch(name, &params, &patch).await?;
        }
        Ok(())
    }

    async fn scale(&mut self) -> Result<()> {
        let replicas = self.dice.roll(4);
        self.patch_workload(json!({"spec": {"replicas": replicas}})).await
    }

    async fn roll_out(&mut self) -> Result<()> {
        self.made += 1;
        let container = json!({"name": "main", "image": format!("app:{}", self.made)});
        self.patch_workload(json!({"spec": {"template": {"spec": {"containers": [container]}}}}))
            .await
    }

    /// Allowed until the pod is committed.
    async fn edit_pod(&mut self) -> Result<()> {
        self.made += 1;
        let patch =
            json!({"spec": {"containers": [{"name": "main", "image": format!("app:{}", self.made)}]}});
        let Some((place, name)) = self.bare.last() else {
            return Ok(());
        };
        self.pods_in(NAMESPACES[*place].0)
            .patch(name, &PatchParams::default(), &Patch::Strategic(patch))
            .await?;
        Ok(())
    }

    async fn delete_something(&mut self) -> Result<()> {
        let params = DeleteParams::default();
        match self.dice.roll(4) {
            0 if !self.deployments.is_empty() => {
                let (place, name) = self
                    .deployments
                    .swap_remove(self.dice.roll(self.deployments.len()));
                let api: Api<Deployment> = Api::namespaced(self.users.clone(), NAMESPACES[place].0);
                api.delete(&name, &params).await?;
            }
            1 if !self.sets.is_empty() => {
                let (place, name) = self.sets.swap_remove(self.dice.roll(self.sets.len()));
                let api: Api<StatefulSet> = Api::namespaced(self.users.clone(), NAMESPACES[place].0);
                api.delete(&name, &params).await?;
            }
            _ if !self.bare.is_empty() => {
                let (place, name) = self.bare.swap_remove(self.dice.roll(self.bare.len()));
                self.pods_in(NAMESPACES[place].0).delete(&name, &params).await?;
            }
            _ => {}
        }
        Ok(())
    }

    /// One pod of a controller, which makes another: for a StatefulSet of the same name.
    async fn delete_any_pod(&mut self) -> Result<()> {
        let place = self.dice.roll(NAMESPACES.len());
        let pods = self.pods_in(NAMESPACES[place].0);
        let all = pods.list(&ListParams::default().labels("app")).await?;
        let Some(pod) = self.dice.pick(&all.items) else {
            return Ok(());
        };
        let params = if self.dice.happens(30) {
            DeleteParams::default().grace_period(0)
        } else {
            DeleteParams::default()
        };
        pods.delete(&pod.name_any(), &params).await?;
        Ok(())
    }

    /// Workloads first, so that nothing is made anew.
    ///
    /// # Errors
    /// The manager refused it.
    pub async fn delete_everything(&mut self) -> Result<()> {
        for (namespace, _) in NAMESPACES {
            for kind in ["deployments,statefulsets,jobs,mpijobs.kubeflow.org", "pods"] {
                self.world
                    .manager
                    .kubectl(&["delete", kind, "-n", namespace, "--all", "--wait=false"])
                    .await?;
            }
        }
        Ok(())
    }

    pub fn namespaces(&self) -> impl Iterator<Item = String> + use<> {
        NAMESPACES.map(|(name, _)| name.to_owned()).into_iter()
    }

    #[must_use]
    pub fn foreign(&self) -> Vec<Foreign> {
        self.foreign.clone()
    }

    #[must_use]
    pub fn summary(&self) -> String {
        let [done, refused, on_workers, cordons] = self.counts;
        format!("{done} acts of users ({refused} refused), {on_workers} on workers, {cordons} cordons")
    }
}

/// Policies need a moment until they know of a new namespace label: a dry-run create tells.
///
/// # Errors
/// It never came back gated.
pub async fn await_gate(world: &World, namespace: &str) -> Result<()> {
    let pods: Api<Pod> = Api::namespaced(world.manager.admin_client().await?, namespace);
    let probe: Pod = serde_json::from_value(json!({"metadata": {"name": "probe"}, "spec": spec("app:1")}))?;
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    wait_for("a dry-run create to come back gated", 60 * SECOND, async || {
        let answer = pods.create(&dry, &probe).await?;
        let gated = answer
            .spec
            .and_then(|spec| spec.scheduling_gates)
            .is_some_and(|gates| !gates.is_empty());
        Ok::<_, anyhow::Error>(gated.then_some(()))
    })
    .await
    .context("the inject layer")
}

fn spec(image: &str) -> Value {
    json!({"containers": [{"name": "main", "image": image, "resources": {"requests": {"cpu": "10m"}}}], "terminationGracePeriodSeconds": 10})
}
