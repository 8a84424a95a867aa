//! AppWrapper: any objects, deployed and removed together.

use serde_json::{Map, Value, json};

use super::conditions::{self, Said};
use super::{Dispatch, Failure, JobKind, ManagedBy, PodLabels, Resource, Written};

/// An AppWrapper of workload.codeflare.dev.
pub struct AppWrapper;

impl JobKind for AppWrapper {
    fn resource(&self) -> Resource {
        Resource {
            group: "workload.codeflare.dev",
            version: "v1beta2",
            plural: "appwrappers",
            kind: "AppWrapper",
        }
    }

    fn managed_by(&self) -> ManagedBy {
        ManagedBy {
            path: &["spec", "managedBy"],
            local: "workload.codeflare.dev/appwrapper-controller",
        }
    }

    fn suspend(&self) -> &'static [&'static str] {
        &["spec", "suspend"]
    }

    fn is_finished(&self, job: &Value) -> bool {
        let phase = job.pointer("/status/phase").and_then(Value::as_str);
        matches!(phase, Some("Succeeded" | "Failed"))
    }

    /// No field tells it; the last thing that its conditions told.
    fn finished_at<'j>(&self, job: &'j Value) -> Option<&'j str> {
        let conditions = job.pointer("/status/conditions")?.as_array()?;
        let times = conditions
            .iter()
            .filter_map(|condition| condition.get("lastTransitionTime")?.as_str());
        times.max() // in UTC, whole seconds: the order of texts is that of times
    }

    fn dispatch(&self) -> Dispatch {
        Dispatch {
            written: Written::Ours,
            takes_condition: true,
            ttl: None, // of a success only its objects are removed after a time, by the worker's operator
        }
    }

    fn fail(&self, status: &mut Map<String, Value>, failure: &Failure<'_>) {
        status.insert("phase".to_owned(), json!("Failed"));
        let conditions = conditions::list(status, "conditions");
        for (kind, holds) in [
            ("ResourcesDeployed", false),
            ("PodsReady", false),
            ("Unhealthy", true),
        ] {
            conditions::set(conditions, &Said::of(kind, holds, failure), failure.now);
        }
    }

    fn clean(
        &self,
        copy: &mut Value,
        _metadata: &Map<String, Value>,
        dropped: &mut dyn FnMut(String, &'static str),
    ) {
        let components = copy.pointer_mut("/spec/components").and_then(Value::as_array_mut);
        for (place, component) in components.into_iter().flatten().enumerate() {
            let component = component.as_object_mut();
            if component.is_some_and(|component| component.remove("podSetInfos").is_some()) {
                let reason = "the manager's Kueue names nodes of the manager";
                dropped(format!("spec.components[{place}].podSetInfos"), reason);
            }
        }
    }

    fn pod_labels(&self) -> Option<PodLabels> {
        Some(PodLabels::Name("workload.codeflare.dev/appwrapper", None))
    }

    fn example(&self) -> &'static str {
        EXAMPLE
    }
}

const EXAMPLE: &str = "\
apiVersion: workload.codeflare.dev/v1beta2
kind: AppWrapper
metadata:
  name: bundle
spec:
  components:
  - template:
      apiVersion: v1
      kind: Pod
      metadata:
        name: main
      spec:
        restartPolicy: Never
        containers:
        - name: main
          image: registry.k8s.io/pause:3.10
";
