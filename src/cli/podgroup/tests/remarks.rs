//! What goes to the standard error.

use expect_test::expect;

use super::{JOB, check};

#[test]
fn what_would_be_refused_is_named_with_its_field() {
    let refused = JOB
        .replace("minAvailable: 3", "minAvailable: 9")
        .replace("name: pi", "name: e");
    check(
        &["--scheduler", "coscheduling"],
        &format!("{refused}---{JOB}"),
        expect![[r#"
            apiVersion: v1
            items:
            - apiVersion: scheduling.x-k8s.io/v1alpha1
              kind: PodGroup
              metadata:
                annotations:
                  portcullis.dev/queue: research
                labels:
                  app.kubernetes.io/managed-by: portcullis
                  portcullis.dev/job-uid: 00000000-0000-0000-0000-000000000000
                name: pi
                namespace: default
                ownerReferences:
                - apiVersion: kubeflow.org/v2beta1
                  blockOwnerDeletion: true
                  controller: true
                  kind: MPIJob
                  name: pi
                  uid: 00000000-0000-0000-0000-000000000000
              spec:
                minMember: 3
                minResources:
                  cpu: "4"
                  memory: 5Gi
            kind: List
            on standard error:
            QueueIgnored: MPIJob default/pi: spec.runPolicy.schedulingPolicy.queue: coscheduling has no queues; it is kept in an annotation of the PodGroup
            refused:
            MPIJob default/e is refused: spec.runPolicy.schedulingPolicy.minAvailable: found 9, expected a number from 1 to 3, which are all pods of the job; left out, all must start together
        "#]],
    );
    check(
        &["--scheduler", "volcano"],
        &JOB.replace("1500m", "1.5.0Gi"),
        expect![[r#"
            apiVersion: v1
            items: []
            kind: List
            on standard error:
            refused:
            MPIJob default/pi is refused: spec.mpiReplicaSpecs.Worker.template.spec.containers[0].resources.requests.cpu: found "1.5.0Gi", expected an amount such as 500m, 1.5Gi or 1e3
        "#]],
    );
    check(
        &["--scheduler", "volcano"],
        &JOB.replace(
            "{name: pi}",
            "{name: pi, annotations: {portcullis.dev/gang-scheduler: kai}}",
        ),
        expect![[r#"
            apiVersion: v1
            items: []
            kind: List
            on standard error:
            refused:
            MPIJob default/pi is refused: metadata.annotations[portcullis.dev/gang-scheduler]: found "kai", expected coscheduling, volcano, native or auto
        "#]],
    );
}

#[test]
fn what_is_no_gang_is_told_with_its_reason() {
    let none = JOB.replace(
        "    schedulingPolicy: {queue: research, minAvailable: 3}",
        "    suspend: false",
    );
    check(
        &["--scheduler", "volcano"],
        &none,
        expect![[r#"
        apiVersion: v1
        items: []
        kind: List
        on standard error:
        NotOptedIn: MPIJob default/pi: the job has no spec.runPolicy.schedulingPolicy and no annotation portcullis.dev/gang-scheduling: "true"
    "#]],
    );
    let config = "apiVersion: v1\nkind: ConfigMap\n";
    check(
        &["--scheduler", "volcano"],
        &format!("{none}---\n{config}"),
        expect![[r#"
            apiVersion: v1
            items: []
            kind: List
            on standard error:
            NotOptedIn: MPIJob default/pi: the job has no spec.runPolicy.schedulingPolicy and no annotation portcullis.dev/gang-scheduling: "true"
            NotAJob: jobs.yaml, document 2 is a ConfigMap of v1, and is passed over
        "#]],
    );
    check(
        &["--scheduler", "volcano"],
        config,
        expect![[r#"
        apiVersion: v1
        items: []
        kind: List
        on standard error:
        NotAJob: jobs.yaml, document 1 is a ConfigMap of v1, and is passed over
        NoJob: no job found; the kinds of jobs are kubeflow.org/v2beta1 MPIJob, kubeflow.org/v1 MPIJob, kubeflow.org/v1 TFJob, kubeflow.org/v1 PyTorchJob, kubeflow.org/v1 XGBoostJob, kubeflow.org/v1 PaddleJob, kubeflow.org/v1 JAXJob, batch/v1 Job, jobset.x-k8s.io/v1alpha2 JobSet
    "#]],
    );
    check(
        &["--scheduler", "native", "--kubernetes", "1.34"],
        JOB,
        expect!["Kubernetes 1.34 has no native gangs, 1.35 is the first release with them"],
    );
}

#[test]
fn a_field_that_no_job_has_is_told_with_the_nearest() {
    check(
        &["--scheduler", "volcano"],
        &JOB.replace("minAvailable: 3", "minAvalable: 2, colour: red"),
        expect![[r#"
            apiVersion: v1
            items:
            - apiVersion: scheduling.volcano.sh/v1beta1
              kind: PodGroup
              metadata:
                labels:
                  app.kubernetes.io/managed-by: portcullis
                  portcullis.dev/job-uid: 00000000-0000-0000-0000-000000000000
                name: pi
                namespace: default
                ownerReferences:
                - apiVersion: kubeflow.org/v2beta1
                  blockOwnerDeletion: true
                  controller: true
                  kind: MPIJob
                  name: pi
                  uid: 00000000-0000-0000-0000-000000000000
              spec:
                minMember: 3
                minResources:
                  count/pods: "3"
                  cpu: "4"
                  memory: 5Gi
                  pods: "3"
                  requests.cpu: "4"
                  requests.memory: 5Gi
                queue: research
            kind: List
            on standard error:
            UnknownField: MPIJob default/pi: spec.runPolicy.schedulingPolicy.colour: no such field; there are minAvailable, queue, minResources, priorityClass, scheduleTimeoutSeconds
            UnknownField: MPIJob default/pi: spec.runPolicy.schedulingPolicy.minAvalable: no such field; did you mean minAvailable?
        "#]],
    );
    // Without its policy the job asks for nothing, and only this remark says why.
    check(
        &["--scheduler", "volcano"],
        &JOB.replace("schedulingPolicy:", "schedulingPolcy:"),
        expect![[r#"
            apiVersion: v1
            items: []
            kind: List
            on standard error:
            UnknownField: MPIJob default/pi: spec.runPolicy.schedulingPolcy: no such field; did you mean schedulingPolicy?
            NotOptedIn: MPIJob default/pi: the job has no spec.runPolicy.schedulingPolicy and no annotation portcullis.dev/gang-scheduling: "true"
        "#]],
    );
    check(
        &["--scheduler", "volcano"],
        &JOB.replace("Worker:", "Wroker:"),
        expect![[r#"
            apiVersion: v1
            items: []
            kind: List
            on standard error:
            UnknownReplicaType: MPIJob default/pi: spec.mpiReplicaSpecs.Wroker is no role of a MPIJob, did you mean Worker? Its roles are Launcher, Worker; its operator will refuse the job
        "#]],
    );
}

#[test]
fn of_classes_nothing_is_known_unless_an_option_names_one() {
    let classed = JOB.replace("queue: research", "priorityClass: high");
    check(
        &["--scheduler", "coscheduling", "--show", "marks"],
        &classed,
        expect![[r#"
            apiVersion: v1
            items:
            - apiVersion: v1
              kind: PodTemplate
              metadata:
                name: pi-launcher
                namespace: default
              template:
                metadata:
                  labels:
                    scheduling.x-k8s.io/pod-group: pi
                spec:
                  priorityClassName: high
                  schedulerName: scheduler-plugins-scheduler
            - apiVersion: v1
              kind: PodTemplate
              metadata:
                name: pi-worker
                namespace: default
              template:
                metadata:
                  labels:
                    scheduling.x-k8s.io/pod-group: pi
                spec:
                  priorityClassName: high
                  schedulerName: scheduler-plugins-scheduler
            kind: List
            on standard error:
            UnknownPriorityClass: MPIJob default/pi: it is not known whether "high" exists; if not, no pod is made with it: spec.runPolicy.schedulingPolicy.priorityClass; give --priority-class NAME=VALUE if it does
        "#]],
    );
    check(
        &[
            "--scheduler",
            "coscheduling",
            "--show",
            "marks",
            "--priority-class",
            "low=1",
        ],
        &classed,
        expect![[r#"
            apiVersion: v1
            items:
            - apiVersion: v1
              kind: PodTemplate
              metadata:
                name: pi-launcher
                namespace: default
              template:
                metadata:
                  labels:
                    scheduling.x-k8s.io/pod-group: pi
                spec:
                  schedulerName: scheduler-plugins-scheduler
            - apiVersion: v1
              kind: PodTemplate
              metadata:
                name: pi-worker
                namespace: default
              template:
                metadata:
                  labels:
                    scheduling.x-k8s.io/pod-group: pi
                spec:
                  schedulerName: scheduler-plugins-scheduler
            kind: List
            on standard error:
            UnknownPriorityClass: MPIJob default/pi: there is no "high", so pods do not get it: spec.runPolicy.schedulingPolicy.priorityClass
        "#]],
    );
}
