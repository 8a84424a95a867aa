//! SparkApplication: a driver and its executors. No release of its operator has `managedBy` yet, so its pods are
//! dispatched one by one until a served schema has the field.

use serde_json::{Map, Value, json};

use super::{Dispatch, Failure, JobKind, ManagedBy, PodLabels, Resource, Written};

/// A SparkApplication of sparkoperator.k8s.io.
pub struct SparkApplication;

impl JobKind for SparkApplication {
    fn resource(&self) -> Resource {
        Resource {
            group: "sparkoperator.k8s.io",
            version: "v1beta2",
            plural: "sparkapplications",
            kind: "SparkApplication",
        }
    }

    fn managed_by(&self) -> ManagedBy {
        ManagedBy {
            path: &["spec", "managedBy"],
            local: "sparkoperator.k8s.io/spark-operator",
        }
    }

    fn suspend(&self) -> &'static [&'static str] {
        &["spec", "suspend"]
    }

    fn is_finished(&self, job: &Value) -> bool {
        let state = job
            .pointer("/status/applicationState/state")
            .and_then(Value::as_str);
        matches!(state, Some("COMPLETED" | "FAILED"))
    }

    fn finished_at<'j>(&self, job: &'j Value) -> Option<&'j str> {
        job.pointer("/status/terminationTime")?.as_str()
    }

    /// Its status has no conditions.
    fn dispatch(&self) -> Dispatch {
        Dispatch {
            written: Written::Kueues,
            takes_condition: false,
            ttl: Some(&["spec", "timeToLiveSeconds"]),
        }
    }

    fn fail(&self, status: &mut Map<String, Value>, failure: &Failure<'_>) {
        let message = format!("{}: {}", failure.reason, failure.message);
        status.insert(
            "applicationState".to_owned(),
            json!({"state": "FAILED", "errorMessage": message}),
        );
        status.entry("driverInfo").or_insert_with(|| json!({})); // the schema demands it
        if status.get("terminationTime").is_none_or(Value::is_null) {
            status.insert("terminationTime".to_owned(), json!(failure.now));
        }
    }

    fn pod_labels(&self) -> Option<PodLabels> {
        Some(PodLabels::Name("sparkoperator.k8s.io/app-name", None))
    }

    fn example(&self) -> &'static str {
        EXAMPLE
    }
}

const EXAMPLE: &str = "\
apiVersion: sparkoperator.k8s.io/v1beta2
kind: SparkApplication
metadata:
  name: pi
spec:
  type: Scala
  mode: cluster
  image: registry.k8s.io/pause:3.10
  mainClass: org.apache.spark.examples.SparkPi
  mainApplicationFile: local:///opt/spark/examples.jar
  sparkVersion: 4.0.0
  driver: {cores: 1}
  executor: {cores: 1, instances: 2}
";
