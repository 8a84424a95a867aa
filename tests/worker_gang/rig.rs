//! The clusters that all tests share: a manager with operators of its own, worker-a with coscheduling and operators,
//! worker-b without a gang scheduler; and portcullis.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use portcullis_testbed::{
    Cluster, Crds, Manifests, Portcullis, PortcullisOptions, Reminder, Route, World, install, suite, wait_for,
};
use serde_json::{Value, json};
use tokio::sync::Mutex;

/// What should come, comes in this time.
pub const SOON: Duration = Duration::from_secs(90);
/// PodGroups of coscheduling.
pub const GROUP: &str = "podgroups.scheduling.x-k8s.io";

/// The name under which portcullis writes.
pub const US: &str = "system:serviceaccount:portcullis-system:portcullis";

/// A test on these clusters.
pub type Case = suite::Case<Rig>;

/// The clusters, and the process under test.
pub struct Rig {
    /// A manager and two workers.
    pub world: World,
    /// Portcullis; whoever stops it starts it again.
    pub portcullis: Mutex<Portcullis>,
}

/// Which cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// Where users are.
    Manager,
    /// The worker with coscheduling.
    A,
    /// The worker without.
    B,
}

const BINARY: &str = env!("CARGO_BIN_EXE_portcullis");

/// The name of worker-a's scheduler stands in its WorkerCluster.
const CONFIGURATION: &str = "apiVersion: portcullis.dev/v1alpha1
kind: PortcullisConfiguration
gang:
  holdTimeout: 15s
";

impl suite::Rig for Rig {
    async fn start() -> Result<Self> {
        let world = World::start_with(2, |options| options.native_gangs = options.name == "worker-a").await?;
        let (manager, a, b) = (
            &world.manager,
            &world.workers[0].cluster,
            &world.workers[1].cluster,
        );
        manager.start_mpi_operator(&[]).await?;
        manager.install_crds(Crds::TrainingOperator).await?;
        manager.install_crds(Crds::JobSet).await?;
        a.start_coscheduler().await?;
        a.start_jobset().await?;
        a.start_mpi_operator(&[]).await?;
        a.start_training_operator(&[]).await?;
        b.install_crds(Crds::MpiOperator).await?;
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
        let gang = ["--gang=coscheduling"];
        let manifests = Manifests::printed_with(BINARY.as_ref(), portcullis.webhook(), &gang).await?;
        install(&world, &manifests, Route::Direct).await?;
        let rig = |portcullis| Self {
            world,
            portcullis: Mutex::new(portcullis),
        };
        portcullis.start().await?;
        let rig = rig(portcullis);
        let policies = [
            ("a", "[worker-a]"),
            ("b", "[worker-b]"),
            ("b-a", "[worker-b, worker-a]"),
        ];
        for (name, clusters) in policies {
            let policy = format!(
                "apiVersion: portcullis.dev/v1alpha1\nkind: DispatchPolicy\nmetadata: {{name: {name}}}\nspec: {{clusters: {clusters}, namespaces: {{create: true}}}}\n"
            );
            rig.cluster(At::Manager).apply(&policy).await?;
        }
        let role = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": "operators", "labels": {"rbac.authorization.k8s.io/aggregate-to-edit": "true"}},
            "rules": [{"apiGroups": ["kubeflow.org", "jobset.x-k8s.io"], "resources": ["*"], "verbs": ["*"]}],
        });
        rig.cluster(At::Manager).apply(&role.to_string()).await?;
        Ok(rig)
    }

    /// Portcullis runs, all nodes take pods, only worker-a has a gang scheduler, and what is left of the case before goes.
    async fn recover(&self) -> Result<()> {
        let mut portcullis = self.portcullis.lock().await;
        if !portcullis.is_running() {
            portcullis.start().await.context("start portcullis again")?;
        }
        drop(portcullis);
        for node in self.cluster(At::A).nodes() {
            self.kubectl(At::A, &["uncordon", &node]).await?;
        }
        self.set_gang(
            "worker-a",
            json!({"scheduler": "Coscheduling", "schedulerName": "coscheduling"}),
        )
        .await?;
        self.set_gang("worker-b", Value::Null).await?;
        let namespaces = ["delete", "namespaces", "-l=gang.test=true", "--wait=false"];
        self.kubectl(At::Manager, &namespaces).await?;
        Ok(())
    }

    fn folder(&self) -> &Path {
        self.world.folder()
    }
}

impl Rig {
    /// A cluster.
    pub fn cluster(&self, at: At) -> &Cluster {
        match at {
            At::Manager => &self.world.manager,
            At::A => &self.world.workers[0].cluster,
            At::B => &self.world.workers[1].cluster,
        }
    }

    /// `spec.gang` of a WorkerCluster.
    pub async fn set_gang(&self, worker: &str, gang: Value) -> Result<()> {
        let patch = json!({"spec": {"gang": gang}}).to_string();
        let args = ["patch", "workercluster", worker, "--type=merge", "-p", &patch];
        self.kubectl(At::Manager, &args).await.map(drop)
    }

    /// A namespace of this policy where alice may edit, once the policies know of it.
    pub async fn opted_in(&self, name: &str, policy: &str) -> Result<()> {
        let labels = [("gang.test", "true"), ("portcullis.dev/dispatch", policy)];
        let manager = self.cluster(At::Manager);
        manager.create_namespace(name, &labels).await?;
        manager.grant_edit("alice", name).await?;
        let probe = crate::starts::mpi("probe", 1, "1").to_string();
        let args = ["create", "-n", name, "--dry-run=server", "-o=yaml", "-f", "-"];
        wait_for("a dry-run job to come back marked", SOON, async || {
            let answer = manager.kubectl_with("alice", &args, &probe).await?;
            let is_marked = answer.contains("managedBy: portcullis.dev/multikueue");
            is_marked.then_some(Some(())).context("it came back as it was")
        })
        .await
    }

    /// Creates a job, as alice.
    pub async fn create(&self, namespace: &str, job: &Value) -> Result<()> {
        let args = ["create", "-n", namespace, "-f", "-"];
        self.cluster(At::Manager)
            .kubectl_with("alice", &args, &job.to_string())
            .await
            .map(drop)
    }

    /// `kubectl …` as administrator.
    pub async fn kubectl(&self, at: At, args: &[&str]) -> Result<String> {
        self.cluster(at).kubectl(args).await
    }

    /// A field, by jsonpath; empty if it is not there.
    pub async fn get(&self, at: At, namespace: &str, object: &str, path: &str) -> Result<String> {
        let path = format!("-o=jsonpath={path}");
        self.kubectl(at, &["get", "-n", namespace, object, "--ignore-not-found", &path])
            .await
    }

    /// Waits until the field has this value.
    pub async fn await_value(
        &self,
        at: At,
        namespace: &str,
        object: &str,
        path: &str,
        value: &str,
    ) -> Result<()> {
        let what = format!("{path} of {object} at {at:?} to be {value:?}");
        wait_for(&what, SOON, async || {
            let found = self.get(at, namespace, object, path).await?;
            (found == value)
                .then_some(Some(()))
                .with_context(|| format!("it is {found:?}"))
        })
        .await
    }

    /// Waits until the words of our condition contain these.
    pub async fn await_said(&self, namespace: &str, object: &str, reason: &str, words: &str) -> Result<()> {
        let path = "{.status.conditions[?(@.type=='portcullis.dev/Dispatched')].reason}: \
                    {.status.conditions[?(@.type=='portcullis.dev/Dispatched')].message}";
        let what = format!("{object} to say {reason}: {words}");
        wait_for(&what, SOON, async || {
            let found = self.get(At::Manager, namespace, object, path).await?;
            (found.starts_with(reason) && found.contains(words))
                .then_some(Some(()))
                .with_context(|| format!("it says {found:?}"))
        })
        .await
    }

    /// Waits for an Event of this reason about the manager's MPIJob of this name.
    pub async fn await_event(&self, namespace: &str, name: &str, reason: &str) -> Result<String> {
        let object = format!("mpijob/{name}");
        self.await_event_of(namespace, &object, reason).await
    }

    /// Waits for an Event of this reason about the manager's object.
    pub async fn await_event_of(&self, namespace: &str, object: &str, reason: &str) -> Result<String> {
        let uid = self
            .get(At::Manager, namespace, object, "{.metadata.uid}")
            .await?;
        let selector = format!("--field-selector=involvedObject.uid={uid},reason={reason}");
        wait_for(&format!("an Event {reason} about {object}"), SOON, async || {
            let args = [
                "get",
                "events",
                "-n",
                namespace,
                &selector,
                "-o=jsonpath={.items[*].message}",
            ];
            let found = self.kubectl(At::Manager, &args).await?;
            (!found.is_empty()).then_some(Some(found)).context("none yet")
        })
        .await
    }

    /// Phase and node of each pod with this label.
    pub async fn pods(&self, at: At, namespace: &str, selector: &str) -> Result<Vec<(String, String)>> {
        let path = r#"-o=jsonpath={range .items[*]}{.status.phase}{","}{.spec.nodeName}{"\n"}{end}"#;
        let lines = self
            .kubectl(at, &["get", "pods", "-n", namespace, "-l", selector, path])
            .await?;
        let pod = |line: &str| {
            line.split_once(',')
                .map(|(phase, node)| (phase.to_owned(), node.to_owned()))
        };
        Ok(lines.lines().filter_map(pod).collect())
    }

    /// Waits until exactly so many pods are there on worker-a, and all of them run.
    pub async fn await_running(&self, namespace: &str, selector: &str, count: usize) -> Result<()> {
        let mut reminder = Reminder::new(self.cluster(At::A), namespace, selector);
        wait_for(&format!("{count} pods of {selector} to run"), SOON, async || {
            reminder.look().await?;
            let pods = self.pods(At::A, namespace, selector).await?;
            let all = pods.len() == count && pods.iter().all(|(phase, _)| phase == "Running");
            all.then_some(Some(())).with_context(|| format!("{pods:?}"))
        })
        .await
        .with_context(|| self.cluster(At::A).log_tails(3))
    }

    /// Waits until no pod is there, for a test that fills the nodes.
    pub async fn empty(&self, at: At) -> Result<()> {
        wait_for("the nodes to be empty", SOON, async || {
            let pods = self
                .kubectl(at, &["get", "pods", "--all-namespaces", "-o=name"])
                .await?;
            pods.is_empty().then_some(Some(())).context(pods)
        })
        .await
    }

    /// No pod of the namespace was ever made on the manager.
    pub fn no_pod_here(&self, namespace: &str) -> Result<()> {
        let made = self.made(At::Manager, namespace, "pods")?;
        ensure!(made.is_empty(), "pods were made here: {made:?}");
        Ok(())
    }

    /// Who made an object of this resource in the namespace, and when in the order of all writes.
    pub fn made(&self, at: At, namespace: &str, resource: &str) -> Result<Vec<(usize, String)>> {
        let ledger = self.cluster(at).ledger()?;
        let writes = ledger.writes.into_iter().enumerate();
        Ok(writes
            .filter(|(_, write)| {
                let is_made = write.verb == "create" || (write.verb == "patch" && resource == "podgroups");
                write.namespace == namespace && write.resource == resource && is_made
            })
            .map(|(place, write)| (place, format!("{} {} {}", write.user, write.verb, write.name)))
            .collect())
    }
}

/// What the program prints.
pub async fn printed(args: &[&str]) -> Result<String> {
    let output = tokio::process::Command::new(BINARY).args(args).output().await?;
    ensure!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8(output.stdout)?)
}
