//! The cluster that all tests share: native gangs on, coscheduling, two operators, portcullis.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use portcullis_testbed::{
    Cluster, Manifests, Portcullis, PortcullisOptions, Reminder, Route, World, install, suite, wait_for,
};
use tokio::sync::Mutex;

use crate::steps::of;

/// What should come, comes in this time.
pub const SOON: Duration = Duration::from_secs(90);

/// A test on these clusters.
pub type Case = suite::Case<Rig>;

/// The cluster, and the process under test.
pub struct Rig {
    /// A manager without workers: jobs run here.
    pub world: World,
    /// Portcullis; whoever stops it starts it again.
    pub portcullis: Mutex<Portcullis>,
}

/// The program under test.
pub const BINARY: &str = env!("CARGO_BIN_EXE_portcullis");

/// What differs from the defaults here: the name of the second scheduler, and a short timeout.
const CONFIGURATION: &str = "apiVersion: portcullis.dev/v1alpha1
kind: PortcullisConfiguration
gang:
  coschedulingSchedulerName: coscheduling
  holdTimeout: 20s
";

impl suite::Rig for Rig {
    async fn start() -> Result<Self> {
        let world = World::start_with(0, |options| options.native_gangs = true).await?;
        world.manager.start_coscheduler().await?;
        world.manager.start_mpi_operator(&[]).await?;
        world.manager.start_training_operator(&[]).await?;
        let folder = world.folder().to_owned();
        let configuration = folder.join("configuration.yaml");
        std::fs::write(&configuration, CONFIGURATION)?;
        let kubeconfig: PathBuf = folder.join("portcullis.kubeconfig");
        let mut options = PortcullisOptions::new(BINARY.as_ref(), &kubeconfig, &folder);
        options.args = vec![
            format!("--config={}", configuration.display()),
            "--log-level=portcullis=debug,info".to_owned(),
        ];
        let mut portcullis = Portcullis::new(options)?;
        let manifests = Manifests::printed_by(BINARY.as_ref(), portcullis.webhook()).await?;
        install(&world, &manifests, Route::Direct).await?;
        portcullis.start().await?;
        Ok(Self {
            world,
            portcullis: Mutex::new(portcullis),
        })
    }

    /// What is left of the case before goes, portcullis runs, all nodes take pods.
    async fn recover(&self) -> Result<()> {
        let mut portcullis = self.portcullis.lock().await;
        if !portcullis.is_running() {
            portcullis.start().await.context("start portcullis again")?;
        }
        drop(portcullis);
        for node in self.cluster().nodes() {
            self.kubectl(&["uncordon", &node]).await?;
        }
        // They go in their own time: each test has namespaces of its own names.
        self.kubectl(&["delete", "namespaces", "-l=gang.test=true", "--wait=false"])
            .await?;
        Ok(())
    }

    fn folder(&self) -> &Path {
        self.world.folder()
    }
}

impl Rig {
    /// The cluster.
    pub fn cluster(&self) -> &Cluster {
        &self.world.manager
    }

    /// Waits until the nodes are empty, for a test that fills them.
    pub async fn empty_nodes(&self) -> Result<()> {
        wait_for("the pods of the test before to go", SOON, async || {
            let args = ["get", "pods", "--all-namespaces", "-o=name"];
            let pods = self.kubectl(&args).await?;
            pods.is_empty().then_some(Some(())).context(pods)
        })
        .await
    }

    /// A namespace with these labels, which goes with the test.
    pub async fn namespace(&self, name: &str, labels: &[(&str, &str)]) -> Result<()> {
        let labels = [&[("gang.test", "true")], labels].concat();
        self.cluster().create_namespace(name, &labels).await
    }

    /// A namespace whose jobs get PodGroups of this back end, once the policies know of it.
    pub async fn ganged(&self, name: &str, back_end: &str) -> Result<()> {
        self.namespace(name, &[("portcullis.dev/gang", back_end)]).await?;
        let probe = crate::jobs::mpi(name, "probe", 1, "1");
        self.would_be_held(&probe).await
    }

    /// Waits until a job like this one would be held.
    pub async fn would_be_held(&self, job: &serde_json::Value) -> Result<()> {
        let probe = job.to_string();
        wait_for("a dry-run job to come back held", SOON, async || {
            let answer = self
                .cluster()
                .kubectl_with(
                    "admin",
                    &["create", "--dry-run=server", "-o=yaml", "-f", "-"],
                    &probe,
                )
                .await?;
            let is_held = answer.contains("portcullis.dev/held");
            is_held.then_some(Some(())).context("it came back as it was")
        })
        .await
    }

    /// `kubectl …` as administrator.
    pub async fn kubectl(&self, args: &[&str]) -> Result<String> {
        self.cluster().kubectl(args).await
    }

    /// `portcullis status` of a namespace, as administrator.
    pub async fn status(&self, namespace: &str) -> Result<String> {
        status(&self.world, &["-n", namespace]).await
    }

    /// Creates an object, as its user does.
    pub async fn create(&self, object: &serde_json::Value) -> Result<String> {
        self.cluster()
            .kubectl_with("admin", &["create", "-f", "-"], &object.to_string())
            .await
    }

    /// A field, by jsonpath; empty if it is not there.
    pub async fn get(&self, namespace: &str, object: &str, path: &str) -> Result<String> {
        self.kubectl(&["get", "-n", namespace, object, &format!("-o=jsonpath={path}")])
            .await
    }

    /// Phase and node of each pod of a job.
    pub async fn pods(&self, namespace: &str, job: &str) -> Result<Vec<(String, String)>> {
        let path = r#"{.status.phase}{","}{.spec.nodeName}"#;
        let lines = self.of_pods(namespace, &of(job), path).await?;
        let pod = |line: &str| {
            line.split_once(',')
                .map(|(phase, node)| (phase.to_owned(), node.to_owned()))
        };
        Ok(lines.iter().map(String::as_str).filter_map(pod).collect())
    }

    /// Waits until exactly so many pods of the job are there and all of them run.
    pub async fn await_running(&self, namespace: &str, job: &str, count: usize) -> Result<()> {
        let what = format!("{count} pods of {job} to run");
        let selector = of(job);
        let mut reminder = Reminder::new(self.cluster(), namespace, &selector);
        wait_for(&what, SOON, async || {
            reminder.look().await?;
            let pods = self.pods(namespace, job).await?;
            let all = pods.len() == count && pods.iter().all(|(phase, _)| phase == "Running");
            all.then_some(Some(())).with_context(|| format!("{pods:?}"))
        })
        .await
        .with_context(|| self.cluster().log_tails(3))
    }

    /// Waits until so many pods of the job are there, whatever they do.
    pub async fn await_pods(&self, namespace: &str, job: &str, count: usize) -> Result<()> {
        let what = format!("{count} pods of {job} to be there");
        wait_for(&what, SOON, async || {
            let pods = self.pods(namespace, job).await?;
            (pods.len() == count)
                .then_some(Some(()))
                .with_context(|| format!("{pods:?}"))
        })
        .await
    }

    /// No pod of the job has a node.
    pub async fn must_be_unbound(&self, namespace: &str, job: &str) -> Result<()> {
        let bound: Vec<_> = self
            .pods(namespace, job)
            .await?
            .into_iter()
            .filter(|(_, node)| !node.is_empty())
            .collect();
        if bound.is_empty() {
            Ok(())
        } else {
            bail!("bound: {bound:?}")
        }
    }

    /// Waits until the field has this value.
    pub async fn await_value(&self, namespace: &str, object: &str, path: &str, value: &str) -> Result<()> {
        wait_for(&format!("{path} of {object} to be {value:?}"), SOON, async || {
            let found = self.get(namespace, object, path).await?;
            (found == value)
                .then_some(Some(()))
                .with_context(|| format!("it is {found:?}"))
        })
        .await
    }

    /// Waits for an Event with this reason about the object of this name.
    pub async fn await_event(&self, namespace: &str, name: &str, reason: &str) -> Result<String> {
        wait_for(&format!("an event {reason} about {name}"), SOON, async || {
            let args = [
                "get",
                "events",
                "-n",
                namespace,
                &format!("--field-selector=involvedObject.name={name},reason={reason}"),
                "-o=jsonpath={.items[*].message}",
            ];
            let found = self.kubectl(&args).await?;
            (!found.is_empty()).then_some(Some(found)).context("none yet")
        })
        .await
    }
}

/// `portcullis status` with these arguments, as administrator.
pub async fn status(world: &World, args: &[&str]) -> Result<String> {
    let output = tokio::process::Command::new(BINARY)
        .args(["status", "--kubeconfig"])
        .arg(world.manager.admin_kubeconfig())
        .args(args)
        .output()
        .await?;
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    ensure!(output.status.success(), "{}", said(&output.stderr));
    Ok(said(&output.stdout))
}
