//! What the API server refuses of our own kinds, and what `kubectl get` shows of them.

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use super::checks;
use super::ground::{Site, with};

checks![
    a_policy_that_cannot_work_is_refused_with_its_field,
    a_worker_cluster_that_cannot_work_is_refused_with_its_field,
    unset_fields_are_filled_in,
    kubectl_get_shows_what_is_wrong,
    the_api_server_takes_all_that_is_printed_word_for_word,
];

fn policy(name: &str) -> Value {
    json!({
        "apiVersion": "portcullis.dev/v1alpha1", "kind": "DispatchPolicy",
        "metadata": {"name": name}, "spec": {"clusters": ["a", "b"]},
    })
}

fn worker(name: &str) -> Value {
    json!({
        "apiVersion": "portcullis.dev/v1alpha1", "kind": "WorkerCluster",
        "metadata": {"name": name}, "spec": {"kubeconfigSecretRef": {"name": "a"}},
    })
}

#[track_caller]
fn invalid(result: kube::Result<Value>, sentence: &str) -> Result<()> {
    match result {
        Err(kube::Error::Api(status)) if status.code == 422 => {
            ensure!(
                status.message.contains(sentence),
                "{sentence:?} is not in {:?}",
                status.message
            );
            Ok(())
        }
        Err(error) => bail!("refused otherwise: {error}"),
        Ok(object) => bail!("allowed: {object}"),
    }
}

async fn a_policy_that_cannot_work_is_refused_with_its_field(site: Site) -> Result<()> {
    let ground = site.plain("bad-policies").await?;
    let admin = ground.admin();
    let name = "n".repeat(64);
    let duration = "write a number and a unit of h, m, s or ms";
    for (bad, sentence) in [
        (with(policy("bad"), "/spec/clusters", json!([])), "spec.clusters"),
        (with(policy("bad"), "/spec", json!({})), "spec.clusters"),
        (
            with(policy("bad"), "/spec/clusters", json!(["a", "b", "a"])),
            "each cluster may be named once",
        ),
        (
            with(policy("bad"), "/spec/clusters", json!([""])),
            "spec.clusters[0]",
        ),
        (policy(&name), "at most 63 characters"),
        (
            with(policy("bad"), "/spec/strategy", json!("Random")),
            "spec.strategy",
        ),
        (
            with(policy("bad"), "/spec/colocate", json!("owner")),
            "spec.colocate",
        ),
        (
            with(policy("bad"), "/spec/forward", json!({"labels": ["*"]})),
            "spec.forward.labels: Invalid value",
        ),
        (
            with(policy("bad"), "/spec/forward", json!({"labels": ["team*"]})),
            "write keys such as team or example.com/team",
        ),
        (
            with(
                policy("bad"),
                "/spec/forward",
                json!({"annotations": ["a", "portcullis.dev/*"]}),
            ),
            "spec.forward.annotations: Invalid value",
        ),
        (
            with(
                policy("bad"),
                "/spec/forward",
                json!({"labels": ["kueue.x-k8s.io/queue-name"]}),
            ),
            "are never forwarded",
        ),
        (
            with(policy("bad"), "/spec/forward", json!({"labels": ["a/b/c"]})),
            "write keys such as",
        ),
        (
            with(policy("bad"), "/spec/unschedulableAfter", json!("5")),
            duration,
        ),
        (
            with(policy("bad"), "/spec/unschedulableAfter", json!("-5m")),
            duration,
        ),
        (
            with(policy("bad"), "/spec/unschedulableAfter", json!("0s")),
            "at least 1s",
        ),
        (with(policy("bad"), "/spec/keepFinished", json!("1d")), duration),
    ] {
        invalid(admin.dry_run("dispatchpolicies", &bad).await, sentence)?;
    }
    for (field, value) in [
        ("unschedulableAfter", "5m"),
        ("unschedulableAfter", "1h30m"),
        ("keepFinished", "0s"),
    ] {
        let good = with(policy("good"), &format!("/spec/{field}"), json!(value));
        admin.dry_run("dispatchpolicies", &good).await?;
    }
    admin
        .dry_run("dispatchpolicies", &policy(&"n".repeat(63)))
        .await?;
    Ok(())
}

async fn a_worker_cluster_that_cannot_work_is_refused_with_its_field(site: Site) -> Result<()> {
    let ground = site.plain("bad-workers").await?;
    let admin = ground.admin();
    let reference = "spec.kubeconfigSecretRef";
    for (bad, sentence) in [
        (worker(&"n".repeat(64)), "at most 63 characters"),
        (with(worker("bad"), "/spec", json!({})), reference),
        (
            with(worker("bad"), "/spec/kubeconfigSecretRef/name", json!("")),
            reference,
        ),
        (
            with(worker("bad"), "/spec/kubeconfigSecretRef/name", json!("../x")),
            reference,
        ),
        (
            with(worker("bad"), "/spec/kubeconfigSecretRef/key", json!("a/b")),
            reference,
        ),
    ] {
        invalid(admin.dry_run("workerclusters", &bad).await, sentence)?;
    }
    Ok(())
}

async fn unset_fields_are_filled_in(site: Site) -> Result<()> {
    let ground = site.plain("defaults").await?;
    let made = ground
        .admin()
        .dry_run("dispatchpolicies", &policy("good"))
        .await?;
    let expected = json!({
        "clusters": ["a", "b"], "strategy": "Ordered", "colocate": "Owner",
        "namespaces": {"create": false}, "mirrorPodIPs": false,
    });
    ensure!(made["spec"] == expected, "{made}");
    let made = ground.admin().dry_run("workerclusters", &worker("good")).await?;
    ensure!(
        made["spec"]["kubeconfigSecretRef"]["key"] == "kubeconfig" && made["spec"]["cordoned"] == false,
        "{made}"
    );
    Ok(())
}

async fn kubectl_get_shows_what_is_wrong(site: Site) -> Result<()> {
    let ground = site.plain("columns").await?;
    for (kind, columns) in [
        (
            "workerclusters",
            "NAME READY REASON VERSION CORDONED COMMITTED RUNNING JOBS AGE MESSAGE",
        ),
        ("dispatchpolicies", "NAME READY REASON CLUSTERS AGE MESSAGE"),
    ] {
        let table = ground.manager().kubectl(&["get", kind]).await?;
        let header = table
            .lines()
            .next()
            .unwrap_or_default()
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ");
        ensure!(header == columns, "{table}");
    }
    Ok(())
}

/// Strictly: an unknown or a doubled field would be an error.
async fn the_api_server_takes_all_that_is_printed_word_for_word(site: Site) -> Result<()> {
    let ground = site.plain("printed").await?;
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("manifests");
    let files = [
        "crds",
        "rbac-manager",
        "policies",
        "webhooks",
        "webhooks-without-inject",
        "install/portcullis",
    ];
    let of_workers = ["rbac-worker", "rbac-worker-gang-native", "rbac-worker-namespaced"];
    for file in files.into_iter().chain(of_workers) {
        let text = std::fs::read_to_string(folder.join(format!("{file}.yaml")))?;
        // Under a name of its own: the one that is installed has another address.
        let text = text.replace(
            "  name: portcullis\nwebhooks:",
            "  name: portcullis-printed\nwebhooks:",
        );
        let apply = [
            "apply",
            "--server-side",
            "--dry-run=server",
            "--validate=strict",
            "--force-conflicts",
            "-f",
            "-",
        ];
        ground
            .manager()
            .kubectl_with("admin", &apply, &text)
            .await
            .with_context(|| file.to_owned())?;
    }
    Ok(())
}
