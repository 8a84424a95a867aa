//! Marks of jobs that others suspended: they come late, and change with the label of the namespace.

use std::sync::Arc;

use anyhow::{Result, ensure};
use portcullis_testbed::case;
use serde_json::json;

use crate::jobs::{batch, mpi, pytorch, with};
use crate::rig::{Case, Rig};
use crate::steps::{of, suspend};

pub fn cases() -> Vec<Case> {
    vec![
        case!(a_suspended_job_goes_with_the_label_of_its_namespace),
        case!(a_suspended_job_that_was_made_while_portcullis_was_down_is_a_gang),
        case!(a_job_whose_template_cannot_be_marked_is_not_held_for_ever),
    ]
}

const GROUP: &str = "podgroups.scheduling.x-k8s.io";
const OF_POD: &str = r"{.metadata.labels.scheduling\.x-k8s\.io/pod-group} {.spec.schedulerName} {.metadata.labels.portcullis\.dev/pod-group} {.spec.schedulingGroup.podGroupName}";

/// The launcher's Job outlives a suspend, and takes neither the name of a scheduler over later.
async fn a_suspended_job_goes_with_the_label_of_its_namespace(rig: Arc<Rig>) -> Result<()> {
    rig.ganged("relab", "coscheduling").await?;
    for job in [mpi("relab", "job", 2, "1"), pytorch("relab", "torch", 2, "1")] {
        rig.create(&job).await?;
    }
    let jobs = [
        ("job", "mpijob/job", "mpiReplicaSpecs"),
        ("torch", "pytorchjob/torch", "pytorchReplicaSpecs"),
    ];
    for (name, ..) in jobs {
        rig.await_running("relab", name, 3).await?;
    }
    for label in ["portcullis.dev/gang=native", "portcullis.dev/gang-"] {
        // What runs stays as it is.
        rig.kubectl(&["label", "namespace", "relab", label, "--overwrite"])
            .await?;
        for (name, job, specs) in jobs {
            let running = rig.of_pods("relab", &of(name), OF_POD).await?;
            ensure!(running.len() == 3, "{running:?}");
            rig.merge("relab", job, &suspend(true)).await?;
            rig.await_pods("relab", name, 0).await?;
            let mark = |key: &str| format!("{{.spec.{specs}.Worker.template.metadata.{key}}}");
            let native = label.ends_with("native");
            let annotation = mark(r"annotations.portcullis\.dev/gang-scheduler");
            rig.await_value("relab", job, &annotation, ["", "native"][usize::from(native)])
                .await?;
            let old = mark(r"labels.scheduling\.x-k8s\.io/pod-group");
            rig.await_value("relab", job, &old, "").await?;
            rig.await_gone("relab", &format!("{GROUP}/{name}")).await?;
            rig.merge("relab", job, &suspend(false)).await?;
            rig.await_running("relab", name, 3).await?;
            let pods = rig.of_pods("relab", &of(name), OF_POD).await?;
            for pod in &pods {
                // The operator takes no label away from a launcher; ours alone means nothing.
                let is_plain = pod.starts_with(" default-scheduler ") && pod.ends_with(' ');
                let is_native = pod.starts_with(&format!(" default-scheduler {name}-")) && !is_plain;
                ensure!(if native { is_native } else { is_plain }, "{label}: {pods:?}");
            }
        }
    }
    Ok(())
}

async fn a_suspended_job_that_was_made_while_portcullis_was_down_is_a_gang(rig: Arc<Rig>) -> Result<()> {
    rig.ganged("late", "coscheduling").await?;
    rig.portcullis.lock().await.kill9();
    let kueue = json!({"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "q"}}});
    let queued = with(mpi("late", "queued", 2, "1"), &kueue);
    rig.create(&with(queued, &suspend(true))).await?;
    rig.create(&with(pytorch("late", "mine", 2, "1"), &suspend(true)))
        .await?;
    rig.await_condition("late", "mpijob/queued", "Suspended").await?;
    rig.portcullis.lock().await.start().await?;
    for (name, job, specs) in [
        ("queued", "mpijob/queued", "mpiReplicaSpecs"),
        ("mine", "pytorchjob/mine", "pytorchReplicaSpecs"),
    ] {
        let mark =
            format!(r"{{.spec.{specs}.Worker.template.metadata.labels.scheduling\.x-k8s\.io/pod-group}}");
        rig.await_value("late", job, &mark, name).await?;
        let hold = rig.hold("late", job).await?;
        ensure!(hold == "true ", "{hold}");
        rig.merge("late", job, &suspend(false)).await?;
        rig.await_running("late", name, 3).await?;
        let pods = rig.of_pods("late", &of(name), OF_POD).await?;
        let pod = format!("{name} coscheduling {name} ");
        ensure!(
            pods.len() == 3 && pods.iter().all(|found| *found == pod),
            "{pods:?}"
        );
        rig.await_value("late", &format!("{GROUP}/{name}"), "{.spec.minMember}", "3")
            .await?;
    }
    Ok(())
}

async fn a_job_whose_template_cannot_be_marked_is_not_held_for_ever(rig: Arc<Rig>) -> Result<()> {
    rig.ganged("fixed", "coscheduling").await?;
    rig.portcullis.lock().await.kill9();
    rig.create(&batch("fixed", "job", 2, "1")).await?;
    rig.await_value("fixed", "job/job", "{.spec.suspend}", "true")
        .await?;
    rig.portcullis.lock().await.start().await?;
    let said = rig.await_event("fixed", "job", "NotGangScheduled").await?;
    ensure!(said.contains("create the job anew"), "{said}");
    rig.await_selected("fixed", "batch.kubernetes.io/job-name=job", 2)
        .await?;
    ensure!(!rig.exists("fixed", &format!("{GROUP}/job")).await?, "a group");
    let status = rig.status("fixed").await?;
    ensure!(
        status.contains("NoGang") && status.contains("NotGangScheduled"),
        "{status}"
    );
    Ok(())
}
