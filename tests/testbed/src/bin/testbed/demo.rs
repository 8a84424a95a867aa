//! The demo: what a stranger sees of portcullis in two minutes, on three real clusters.

mod story;
mod whole_job;

use std::borrow::Cow;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use portcullis_testbed::detached::state_folder;
use portcullis_testbed::{
    Manifests, Portcullis, PortcullisOptions, Programs, Route, World, install, wait_for,
};

use crate::clusters::{DEMO, print_kubeconfigs, refuse_if_running, start_detached, undone_on_failure};

/// The opted-in namespace.
const NAMESPACE: &str = "demo";
/// Who works in it: bound to the ClusterRole `edit` there, and nothing else.
const USER: &str = "alice";
/// For each state that is waited for. Far above what is needed.
const PATIENCE: Duration = Duration::from_secs(120);
const GATE: &str = "portcullis.dev/multikueue";

/// Runs the demo with this portcullis; `keep` leaves everything running.
///
/// # Errors
/// Something did not happen as promised. Everything is ended then; logs stay.
pub(crate) async fn run(binary: &Path, keep: bool) -> Result<()> {
    let binary = binary
        .canonicalize()
        .with_context(|| format!("no portcullis at {}", binary.display()))?;
    if keep {
        refuse_if_running(DEMO)?;
        undone_on_failure(DEMO, show(&binary, keep)).await
    } else {
        show(&binary, keep).await
    }
}

async fn show(binary: &Path, keep: bool) -> Result<()> {
    let mut demo = Demo::set_up(binary, keep).await?;
    if let Err(error) = demo.play().await {
        eprintln!(
            "{}\nlogs: {}",
            demo.portcullis.log_tail(30),
            demo.world.folder().display()
        );
        return Err(error);
    }
    demo.await_gated().await?;
    if keep {
        demo.print_how_to_reach_it();
    } else {
        demo.say("Done, everything ends now. `make demo KEEP=1` would leave it running");
    }
    Ok(())
}

/// The demo while it runs.
struct Demo {
    began: Instant,
    // Ends before the clusters.
    portcullis: Portcullis,
    world: World,
}

impl Demo {
    /// Clusters, installation, a running portcullis.
    async fn set_up(binary: &Path, keep: bool) -> Result<Self> {
        let began = Instant::now();
        say(
            began,
            "Starting three Kubernetes clusters: manager, worker-a, worker-b",
        );
        let world = if keep {
            start_detached(DEMO).await?
        } else {
            World::start(2).await?
        };
        let options = PortcullisOptions {
            detached: keep,
            // One replica and nobody to hand over to: idle connections of the API server need no long goodbye.
            args: ["--drain-timeout", "2s"].map(str::to_owned).to_vec(),
            ..PortcullisOptions::new(
                binary,
                &world.folder().join("portcullis.kubeconfig"),
                world.folder(),
            )
        };
        let portcullis = Portcullis::new(options)?;
        let mut demo = Self {
            began,
            portcullis,
            world,
        };

        demo.say("An ordinary pod on the manager runs there, as on any cluster");
        demo.admin(&["run", "control", "--image=registry.example/control:1"])
            .await?;
        demo.world
            .manager
            .await_phase("default", "control", "Running", PATIENCE)
            .await?;
        demo.show(&["get", "pods", "-o=wide"]).await?;

        demo.start_operators().await?;
        demo.say("Installing portcullis: CRDs, policies, webhook, roles; one kubeconfig per worker");
        let gang = ["--gang", "coscheduling"];
        let manifests = Manifests::printed_with(binary, demo.portcullis.webhook(), &gang).await?;
        install(&demo.world, &manifests, Route::Direct).await?;
        demo.portcullis.start().await?;
        demo.admin(&[
            "wait",
            "workerclusters",
            "--all",
            "--for=condition=Ready",
            "--timeout=60s",
        ])
        .await?;
        demo.show(&["get", "workerclusters,dispatchpolicies"]).await?;

        demo.say("The administrator opts the namespace `demo` in");
        demo.admin(&["create", "namespace", NAMESPACE]).await?;
        demo.show(&["label", "namespace", NAMESPACE, "portcullis.dev/dispatch=default"])
            .await?;
        demo.world.manager.grant_edit(USER, NAMESPACE).await?;
        demo.say("… and says which gang scheduler the workers have");
        demo.allow_gangs().await?;
        demo.await_gated().await?;
        Ok(demo)
    }

    /// Waits until a dry-run create comes back with the gate: the policies are in force.
    async fn await_gated(&self) -> Result<()> {
        let gates = "-o=jsonpath={.spec.schedulingGates[*].name}";
        let args = ["run", "probe", "--image=probe", "--dry-run=server", gates];
        wait_for("a dry-run create to come back gated", PATIENCE, async || {
            let answer = self.user(&args).await?;
            if answer.split_whitespace().any(|gate| gate == GATE) {
                Ok(Some(()))
            } else {
                bail!("gates: {answer:?}")
            }
        })
        .await
    }

    fn print_how_to_reach_it(&self) {
        self.say("Everything keeps running; `make demo-down` ends it");
        print_kubeconfigs(DEMO);
        println!("portcullis-pid={}", self.portcullis.pid().unwrap_or_default());
        println!("portcullis-start={}", self.portcullis.command().join(" "));
        println!("logs: {}", state_folder(DEMO).display());
        let paths: Vec<String> = self
            .world
            .clusters()
            .map(|cluster| cluster.admin_kubeconfig().display().to_string())
            .collect();
        println!("To use them: export KUBECONFIG={}", paths.join(":"));
        println!("then, for example: kubectl --context manager get pods --namespace {NAMESPACE}");
        if let Some(binary) = self.portcullis.command().first() {
            println!("and: {binary} status --namespace {NAMESPACE}");
        }
        if let Ok(programs) = Programs::ready() {
            println!("A kubectl of this version: {} kubectl", programs.kube.display());
        }
    }

    fn say(&self, text: &str) {
        say(self.began, text);
    }

    /// kubectl on the manager as the administrator, set-up only.
    async fn admin(&self, args: &[&str]) -> Result<String> {
        self.world.manager.kubectl(args).await
    }

    /// kubectl on the manager as the user, in his namespace.
    async fn user(&self, args: &[&str]) -> Result<String> {
        let args: Vec<&str> = ["-n", NAMESPACE].iter().chain(args).copied().collect();
        self.world.manager.kubectl_with(USER, &args, "").await
    }

    /// Shows what the administrator sees.
    async fn show(&self, args: &[&str]) -> Result<()> {
        print_command("manager", args, &self.admin(args).await?);
        Ok(())
    }

    /// Shows what the user sees.
    async fn show_user(&self, args: &[&str]) -> Result<()> {
        print_command("manager", args, &self.user(args).await?);
        Ok(())
    }
}

fn say(began: Instant, text: &str) {
    println!("\n==> {:>5.1} s  {text}", began.elapsed().as_secs_f64());
}

fn print_command(cluster: &str, args: &[&str], output: &str) {
    let args: Vec<_> = args.iter().map(|arg| quoted(arg)).collect();
    println!("    {cluster}$ kubectl {}", args.join(" "));
    for line in output.lines() {
        println!("    {line}");
    }
}

/// As a shell must be given it: what is printed is there to be tried.
fn quoted(arg: &str) -> Cow<'_, str> {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_-+=:,./@%".contains(letter);
    if !arg.is_empty() && arg.chars().all(is_plain) {
        return arg.into();
    }
    format!("'{}'", arg.replace('\'', r"'\''")).into()
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn what_a_shell_would_change_is_quoted() {
        for plain in ["get", "pod/late", "--image=registry.example/late:1", "-n"] {
            assert_eq!(quoted(plain), plain);
        }
        assert_eq!(quoted(r#"-p=[{"op":"remove"}]"#), r#"'-p=[{"op":"remove"}]'"#);
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }
}
