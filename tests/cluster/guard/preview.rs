//! `portcullis preview` refuses what the API server refuses, in the same words.

use std::collections::BTreeMap;

use anyhow::{Result, bail, ensure};
use portcullis::admission::validate::guard;
use portcullis::workload::jobs::JobKinds;
use serde_json::{Value, json};

use super::checks;
use super::ground::{Ground, Site, gate, job, pod, with, workload};

checks![preview_and_api_server_say_the_same];

/// Objects as inject leaves them in the namespace, or as it would not: both sides see the same.
fn objects(allow_exempt: bool) -> Vec<Value> {
    let gated = with(pod("p"), "/spec/schedulingGates", json!([gate()]));
    let gated = with(gated, "/metadata/labels", json!({"portcullis.dev/gated": "true"}));
    let exempt = with(
        pod("p"),
        "/metadata/labels",
        json!({"portcullis.dev/exempt": "true"}),
    );
    let exempt_gated = with(
        gated.clone(),
        "/metadata/labels/portcullis.dev~1exempt",
        json!("true"),
    );
    let bound = with(pod("p"), "/spec/nodeName", json!("manager-0"));
    let bound_exempt = with(exempt.clone(), "/spec/nodeName", json!("manager-0"));
    let forged = json!({"portcullis.dev/cluster": "a", "portcullis.dev/remote-node": "n"});
    let mut objects = vec![
        gated.clone(),
        exempt_gated,
        bound,
        bound_exempt,
        with(gated.clone(), "/metadata/annotations", forged.clone()),
        with(
            gated.clone(),
            "/metadata/finalizers",
            json!(["portcullis.dev/remote-copy", "example.com/x"]),
        ),
        with(gated, "/metadata/labels", json!({"portcullis.dev/gated": "no"})),
        workload("DaemonSet", "d"),
        with(
            workload("DaemonSet", "d"),
            "/metadata/labels",
            json!({"portcullis.dev/exempt": "true"}),
        ),
        with(
            workload("DaemonSet", "d"),
            "/spec/template/metadata/labels/portcullis.dev~1exempt",
            json!("true"),
        ),
    ];
    let job = job("j");
    objects.push(with(job.clone(), "/metadata/annotations", forged.clone()));
    objects.push(with(
        job.clone(),
        "/spec/template/metadata/annotations",
        forged.clone(),
    ));
    objects.push(job);
    if allow_exempt {
        objects.push(with(exempt, "/metadata/annotations", forged.clone()));
    }
    for kind in ["Deployment", "StatefulSet", "ReplicaSet"] {
        let owner = json!([{
            "apiVersion": "x.io/v1", "kind": "X", "name": "x", "controller": true,
            "uid": "11111111-1111-1111-1111-111111111111",
        }]);
        let bad = with(
            workload(kind, "w"),
            "/spec/template/metadata/annotations",
            forged.clone(),
        );
        objects.push(workload(kind, "w"));
        objects.push(with(bad.clone(), "/metadata/ownerReferences", owner));
        objects.push(bad);
        objects.push(with(workload(kind, "w"), "/metadata/annotations", forged.clone()));
    }
    objects
}

async fn preview_and_api_server_say_the_same(site: Site) -> Result<()> {
    let dispatch = ("portcullis.dev/dispatch".to_owned(), "nowhere".to_owned());
    let allow = ("portcullis.dev/allow-exempt".to_owned(), "true".to_owned());
    for (ground, labels) in [
        (
            site.opted_in("preview").await?,
            BTreeMap::from([dispatch.clone()]),
        ),
        (
            site.allowing_exempt("preview-exempt").await?,
            BTreeMap::from([dispatch, allow]),
        ),
        (site.plain("preview-plain").await?, BTreeMap::new()),
    ] {
        for object in objects(labels.len() == 2) {
            compare(
                &ground,
                &object,
                guard(&object, &labels, "alice", JobKinds::BUILT_IN)
                    .err()
                    .map(|denial| denial.message),
            )
            .await?;
        }
    }
    Ok(())
}

async fn compare(ground: &Ground, object: &Value, expected: Option<String>) -> Result<()> {
    let kind = object["kind"].as_str().unwrap_or_default();
    let resource = if kind == "Pod" {
        "pods".to_owned()
    } else {
        format!("{}s", kind.to_lowercase())
    };
    match (ground.alice().dry_run(&resource, object).await, expected) {
        (Ok(_), None) => Ok(()),
        (Ok(_), Some(expected)) => bail!("only preview refuses {object}: {expected}"),
        (Err(kube::Error::Api(status)), Some(expected)) => {
            // The webhook is asked first and has its own words for keys; it is not always there.
            let same = status.message.ends_with(&expected) || status.message.contains("denied the request");
            ensure!(
                same,
                "{object}: preview says {expected:?}, the API server {:?}",
                status.message
            );
            Ok(())
        }
        (Err(error), None) => bail!("only the API server refuses {object}: {error}"),
        (Err(error), Some(_)) => Err(error.into()),
    }
}
