//! What the pods of each role get.

use expect_test::expect;

use super::{JOB, check};

#[test]
fn marks_are_shown_as_pod_templates() {
    check(
        &["--scheduler", "coscheduling", "--show", "marks"],
        JOB,
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
            QueueIgnored: MPIJob default/pi: spec.runPolicy.schedulingPolicy.queue: coscheduling has no queues; it is kept in an annotation of the PodGroup
        "#]],
    );
    check(
        &["--scheduler", "native", "--show", "marks"],
        JOB,
        expect![[r#"
        apiVersion: v1
        items:
        - apiVersion: v1
          kind: PodTemplate
          metadata:
            name: pi-launcher
            namespace: default
          template:
            spec:
              schedulingGroup:
                podGroupName: pi-13ff8658
        - apiVersion: v1
          kind: PodTemplate
          metadata:
            name: pi-worker
            namespace: default
          template:
            spec:
              schedulingGroup:
                podGroupName: pi-13ff8658
        kind: List
        on standard error:
        QueueIgnored: MPIJob default/pi: spec.runPolicy.schedulingPolicy.queue: native has no queues
    "#]],
    );
}
