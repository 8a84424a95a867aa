//! What ties pods to their gang -> edits of a job's templates, or of a pod.
//!
//! Labels, annotations and names of scheduler and class go on the templates when the job is created, and nowhere later:
//! an operator copies only a part of a template that changes. What the templates' schema would drop goes on the pods.

use json_patch::{Patch, PatchOperation};
use serde_json::{Map, Value, json};

use super::hold::add;
use crate::workload::jobs::FieldPath;

/// What ties the pods of a job to their gang.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marks {
    /// On templates, when the job is created.
    pub templates: Vec<TemplateMarks>,
    /// On pods, when they are created.
    pub pods: Option<PodMark>,
}

/// What one template carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateMarks {
    /// The role in the spelling of its kind.
    pub role: String,
    /// Where the template is in the job.
    pub template: FieldPath,
    /// Keys and values.
    pub labels: Vec<(&'static str, String)>,
    /// Keys and values.
    pub annotations: Vec<(&'static str, String)>,
    /// `spec.schedulerName`, in place of another one; none if it stays.
    pub scheduler_name: Option<String>,
    /// `spec.priorityClassName`, where there is none; none if it stays.
    pub priority_class_name: Option<String>,
}

/// What a pod carries in a field that no job's template keeps. It cannot be changed later.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PodMark {
    /// `spec.schedulingGroup`, from Kubernetes 1.36 on.
    SchedulingGroup {
        /// The PodGroup.
        pod_group: String,
    },
    /// `spec.workloadRef` of Kubernetes 1.35.
    WorkloadRef {
        /// The Workload.
        workload: String,
        /// The group in it.
        pod_group: String,
    },
}

impl Marks {
    /// What is missing on the job's templates; nothing if all is there. Only adds to what is there.
    #[must_use]
    pub fn patch(&self, job: &Value) -> Patch {
        Patch(
            self.templates
                .iter()
                .flat_map(|marks| marks.operations(job))
                .collect(),
        )
    }

    /// The job with the marks on its templates.
    ///
    /// # Errors
    /// If a template is no object, so that no pod could be made of it.
    pub fn apply(&self, job: &Value) -> Result<Value, json_patch::PatchError> {
        let mut marked = job.clone();
        json_patch::patch(&mut marked, &self.patch(job))?;
        Ok(marked)
    }
}

impl TemplateMarks {
    /// A pod template that holds the marks and nothing else, those of the pods included.
    #[must_use]
    pub fn alone(&self, pods: Option<&PodMark>) -> Value {
        let map = |entries: &[(&'static str, String)]| -> Map<String, Value> {
            entries
                .iter()
                .map(|(key, value)| ((*key).to_owned(), json!(value)))
                .collect()
        };
        let mut template = Map::new();
        let metadata: Map<String, Value> = [
            ("labels", map(&self.labels)),
            ("annotations", map(&self.annotations)),
        ]
        .into_iter()
        .filter(|(_, map)| !map.is_empty())
        .map(|(key, map)| (key.to_owned(), Value::Object(map)))
        .collect();
        let mut spec: Map<String, Value> = self
            .spec()
            .map(|(key, value)| (key.to_owned(), json!(value)))
            .collect();
        spec.extend(
            pods.map(PodMark::field)
                .map(|(key, value)| (key.to_owned(), value)),
        );
        for (key, map) in [("metadata", metadata), ("spec", spec)] {
            if !map.is_empty() {
                template.insert(key.to_owned(), Value::Object(map));
            }
        }
        Value::Object(template)
    }

    fn spec(&self) -> impl Iterator<Item = (&'static str, &String)> {
        let fields = [
            ("schedulerName", &self.scheduler_name),
            ("priorityClassName", &self.priority_class_name),
        ];
        fields
            .into_iter()
            .filter_map(|(key, value)| Some((key, value.as_ref()?)))
    }

    fn operations(&self, job: &Value) -> Vec<PatchOperation> {
        let (metadata, spec) = (self.template.key("metadata"), self.template.key("spec"));
        let texts = |entries: &[(&'static str, String)]| -> Vec<(String, Value)> {
            entries
                .iter()
                .map(|(key, value)| ((*key).to_owned(), json!(value)))
                .collect()
        };
        let maps = [
            ("labels", texts(&self.labels)),
            ("annotations", texts(&self.annotations)),
        ];
        let spec_entries = self
            .spec()
            .map(|(key, value)| (key.to_owned(), json!(value)))
            .collect();
        let mut operations = Vec::new();
        if is_there(job, &metadata) {
            for (key, entries) in maps {
                operations.extend(set(job, &metadata.key(key), entries));
            }
        } else {
            let maps = maps.into_iter().filter(|(_, entries)| !entries.is_empty());
            let maps =
                maps.map(|(key, entries)| (key.to_owned(), Value::Object(entries.into_iter().collect())));
            operations.extend(set(job, &metadata, maps.collect()));
        }
        operations.extend(set(job, &spec, spec_entries));
        operations
    }
}

impl PodMark {
    /// The field of a pod's spec, and its value.
    #[must_use]
    pub fn field(&self) -> (&'static str, Value) {
        match self {
            Self::SchedulingGroup { pod_group } => ("schedulingGroup", json!({"podGroupName": pod_group})),
            Self::WorkloadRef { workload, pod_group } => {
                ("workloadRef", json!({"name": workload, "podGroup": pod_group}))
            }
        }
    }

    /// What is missing on a pod; nothing if it is in a group already, be it another one.
    #[must_use]
    pub fn patch(&self, pod: &Value) -> Patch {
        let (field, value) = self.field();
        let spec = FieldPath::default().key("spec");
        if is_there(pod, &spec.key(field)) {
            return Patch(Vec::new());
        }
        Patch(set(pod, &spec, vec![(field.to_owned(), value)]))
    }
}

fn is_there(object: &Value, path: &FieldPath) -> bool {
    object
        .pointer(path.pointer())
        .is_some_and(|value| !value.is_null())
}

/// Puts members into the object at `path`, which is added whole if it is not there.
fn set(object: &Value, path: &FieldPath, members: Vec<(String, Value)>) -> Vec<PatchOperation> {
    if members.is_empty() {
        return Vec::new();
    }
    if !is_there(object, path) {
        let members: Map<String, Value> = members.into_iter().collect();
        return vec![add(path, Value::Object(members))];
    }
    let differs = |(key, value): &(String, Value)| object.pointer(path.key(key).pointer()) != Some(value);
    let differing = members.into_iter().filter(differs);
    differing
        .map(|(key, value)| add(&path.key(&key), value))
        .collect()
}
