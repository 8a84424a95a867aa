//! A manager and a worker of one release, with portcullis as its administrator installs it there.

use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use portcullis_testbed::{
    Cluster, ClusterOptions, KubeVersion, Manifests, Portcullis, PortcullisOptions, Route, World, install,
    wait_for,
};
use serde_json::{Value, json};
use tokio::sync::Mutex;

/// A test fails after this time.
pub const LIMIT: Duration = Duration::from_secs(240);
/// What should come, comes in this time.
pub const SOON: Duration = Duration::from_secs(90);
/// The name under which portcullis writes.
pub const US: &str = "system:serviceaccount:portcullis-system:portcullis";

const BINARY: &str = env!("CARGO_BIN_EXE_portcullis");

/// A hold that cannot end well ends soon.
const CONFIGURATION: &str = "apiVersion: portcullis.dev/v1alpha1
kind: PortcullisConfiguration
gang:
  holdTimeout: 5s
";

/// One test.
pub struct Case {
    /// Says what it checks.
    pub name: &'static str,
    /// The release that it is for; `None`: for each.
    pub only: Option<KubeVersion>,
    /// What it does.
    pub run: fn(Arc<Rig>) -> Running,
}

impl Case {
    /// Whether it is for this release.
    pub fn is_for(&self, version: KubeVersion) -> bool {
        self.only.is_none_or(|only| only == version)
    }

    /// For this release only.
    pub fn only(self, version: KubeVersion) -> Self {
        Self {
            only: Some(version),
            ..self
        }
    }
}

/// A test that runs.
pub type Running = Pin<Box<dyn Future<Output = Result<()>>>>;

/// `case!(function)`.
#[macro_export]
macro_rules! case {
    ($function:ident) => {
        $crate::rig::Case {
            name: stringify!($function),
            only: None,
            run: |rig| Box::pin($function(rig)),
        }
    };
}

/// Clusters of one release, and the process under test.
pub struct Rig {
    /// Which release.
    pub version: KubeVersion,
    /// A manager whose native gangs are on, and a worker.
    pub world: World,
    /// Portcullis; whoever stops it starts it again.
    pub portcullis: Mutex<Portcullis>,
}

impl Rig {
    /// The clusters, with all that makes native groups work.
    pub async fn start(version: KubeVersion) -> Result<Arc<Self>> {
        Self::start_with(version, 1, |options| options.native_gangs = true).await
    }

    /// As [`Self::start`], with so many workers and other options.
    pub async fn start_with(
        version: KubeVersion,
        workers: usize,
        adjust: impl Fn(&mut ClusterOptions),
    ) -> Result<Arc<Self>> {
        let world = World::start_with(workers, |options| {
            options.version = version;
            adjust(options);
        })
        .await?;
        let folder = world.folder().to_owned();
        let configuration = folder.join("configuration.yaml");
        std::fs::write(&configuration, CONFIGURATION)?;
        let kubeconfig: PathBuf = folder.join("portcullis.kubeconfig");
        let mut options = PortcullisOptions::new(BINARY.as_ref(), &kubeconfig, &folder);
        options.args = vec![
            format!("--config={}", configuration.display()),
            "--log-level=portcullis=debug,info".to_owned(),
            "--drain-timeout=5s".to_owned(),
        ];
        options.args.extend(without_inject(version).map(str::to_owned));
        let mut portcullis = Portcullis::new(options)?;
        let without_inject: Vec<&str> = without_inject(version).collect();
        let manifests =
            Manifests::printed_with(BINARY.as_ref(), portcullis.webhook(), &without_inject).await?;
        install(&world, &manifests, Route::Direct).await?;
        portcullis.start().await?;
        Ok(Arc::new(Self {
            version,
            world,
            portcullis: Mutex::new(portcullis),
        }))
    }

    /// The manager.
    pub fn manager(&self) -> &Cluster {
        &self.world.manager
    }

    /// Before each test: what is left of the one before goes, portcullis runs, all nodes take pods.
    pub async fn recover(&self) -> Result<()> {
        let mut portcullis = self.portcullis.lock().await;
        if !portcullis.is_running() {
            portcullis.start().await.context("start portcullis again")?;
        }
        drop(portcullis);
        for node in self.manager().nodes() {
            self.kubectl(&["uncordon", &node]).await?;
        }
        self.kubectl(&["delete", "namespaces", "-l=versions.test=true", "--wait=false"])
            .await?;
        Ok(())
    }

    /// A namespace with this label, which goes with the test, once admission knows of it.
    pub async fn labelled(
        &self,
        name: &str,
        key: &str,
        value: &str,
        probe: &Value,
        mark: &str,
    ) -> Result<()> {
        self.manager()
            .create_namespace(name, &[("versions.test", "true"), (key, value)])
            .await?;
        wait_for("a dry run to come back marked", SOON, async || {
            let args = ["create", "-n", name, "--dry-run=server", "-o=yaml", "-f", "-"];
            let answer = self
                .manager()
                .kubectl_with("admin", &args, &probe.to_string())
                .await?;
            answer.contains(mark).then_some(Some(())).context(answer)
        })
        .await
    }

    /// A namespace whose pods are dispatched.
    pub async fn opted_in(&self, name: &str) -> Result<()> {
        self.labelled(
            name,
            "portcullis.dev/dispatch",
            "default",
            &pod("probe"),
            "portcullis.dev/multikueue",
        )
        .await
    }

    /// A namespace whose jobs get native groups.
    pub async fn ganged(&self, name: &str) -> Result<()> {
        self.labelled(
            name,
            "portcullis.dev/gang",
            "native",
            &batch("probe", 1, "1"),
            "portcullis.dev/held",
        )
        .await
    }

    /// `kubectl …` as administrator of the manager.
    pub async fn kubectl(&self, args: &[&str]) -> Result<String> {
        self.manager().kubectl(args).await
    }

    /// Creates an object, as its user does.
    pub async fn create(&self, namespace: &str, object: &Value) -> Result<String> {
        let args = ["create", "-n", namespace, "-f", "-"];
        self.manager()
            .kubectl_with("admin", &args, &object.to_string())
            .await
    }

    /// Creates an object that must be refused; answers why.
    pub async fn refusal(&self, namespace: &str, object: &Value) -> Result<String> {
        match self.create(namespace, object).await {
            Ok(answer) => bail!("not refused: {answer}"),
            Err(error) => Ok(format!("{error:#}")),
        }
    }

    /// A field, by jsonpath; empty if it is not there.
    pub async fn get(&self, namespace: &str, object: &str, path: &str) -> Result<String> {
        self.kubectl(&["get", "-n", namespace, object, &format!("-o=jsonpath={path}")])
            .await
    }

    /// What the pods of a namespace say under a path, one line each.
    pub async fn of_pods(&self, namespace: &str, path: &str) -> Result<Vec<String>> {
        let path = format!(r#"-o=jsonpath={{range .items[*]}}{path}{{"\n"}}{{end}}"#);
        let pods = self.kubectl(&["get", "pods", "-n", namespace, &path]).await?;
        Ok(pods.lines().map(str::to_owned).collect())
    }

    /// Waits until the pods of a namespace say just this under a path, in any order.
    pub async fn await_pods(&self, namespace: &str, path: &str, expected: &[&str]) -> Result<()> {
        let what = format!("{path} of all pods to be {expected:?}");
        wait_for(&what, SOON, async || {
            let mut found = self.of_pods(namespace, path).await?;
            found.sort();
            (found == expected)
                .then_some(Some(()))
                .with_context(|| format!("{found:?}"))
        })
        .await
        .with_context(|| self.manager().log_tails(3))
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

    /// Waits for an Event with this reason; answers what it says.
    pub async fn await_event(&self, namespace: &str, reason: &str) -> Result<String> {
        wait_for(&format!("an event {reason}"), SOON, async || {
            let reason = format!("--field-selector=reason={reason}");
            let args = [
                "get",
                "events",
                "-n",
                namespace,
                &reason,
                "-o=jsonpath={.items[*].message}",
            ];
            let found = self.kubectl(&args).await?;
            (!found.is_empty()).then_some(Some(found)).context("none yet")
        })
        .await
    }

    /// What `portcullis status` prints.
    pub async fn status(&self) -> Result<String> {
        let output = tokio::process::Command::new(BINARY)
            .args(["status", "--kubeconfig"])
            .arg(self.manager().admin_kubeconfig())
            .output()
            .await?;
        if !output.status.success() {
            bail!("{}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(String::from_utf8(output.stdout)?)
    }
}

/// What `manifests` and `serve` are told where MutatingAdmissionPolicy v1 is not served.
fn without_inject(version: KubeVersion) -> impl Iterator<Item = &'static str> {
    match version {
        KubeVersion::V1_35 => Some("--without-inject"),
        KubeVersion::V1_36 | KubeVersion::V1_37 => None,
    }
    .into_iter()
}

/// A pod with one container.
pub fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"containers": [{"name": "main", "image": "main"}]},
    })
}

/// A Job of so many pods, with so much CPU each, that asks for a gang.
pub fn batch(name: &str, pods: u32, cpu: &str) -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": name, "annotations": {"portcullis.dev/gang-scheduling": "true"}},
        "spec": {
            "parallelism": pods, "completions": pods, "completionMode": "Indexed",
            "template": {"spec": {"restartPolicy": "Never", "containers": [
                {"name": "main", "image": "main", "resources": {"requests": {"cpu": cpu}}},
            ]}},
        },
    })
}
