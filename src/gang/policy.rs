//! `schedulingPolicy` of a job -> its fields, read and checked.

use std::collections::BTreeMap;

use super::requests::{amount_text, resource_list};
use crate::workload::jobs::{Field, GangKind, InvalidField};

/// What a user asks of the scheduler. A text that is empty counts as absent.
#[derive(Debug, Clone)]
pub struct Policy<'j> {
    /// The policy itself; absent in kinds without one.
    pub field: Field<'j>,
    /// How many pods must start together, not checked yet.
    pub min_available: Field<'j>,
    /// The queue.
    pub queue: Option<&'j str>,
    /// Resources of the group, each amount as it was written.
    pub min_resources: Option<BTreeMap<String, String>>,
    /// The PriorityClass.
    pub priority_class: Option<&'j str>,
    /// Seconds that pods of the group may wait for each other.
    pub timeout_seconds: Option<u32>,
}

impl<'j> Policy<'j> {
    /// Its fields.
    pub const FIELDS: &'static [&'static str] = &[
        "minAvailable",
        "queue",
        "minResources",
        "priorityClass",
        "scheduleTimeoutSeconds",
    ];

    /// The policy of this job.
    ///
    /// # Errors
    /// If a field holds something else than it should.
    pub fn read(kind: &dyn GangKind, job: &'j serde_json::Value) -> Result<Self, InvalidField> {
        let field = match kind.scheduling_policy() {
            Some(path) => Field::root(job).at(path),
            None => Field::absent(),
        };
        field.object()?;
        let text = |key: &str| -> Result<Option<&'j str>, InvalidField> {
            Ok(field.get(key).text()?.filter(|text| !text.is_empty()))
        };
        let timeout = field.get("scheduleTimeoutSeconds");
        Ok(Self {
            min_available: field.get("minAvailable"),
            queue: text("queue")?,
            min_resources: min_resources(&field.get("minResources"))?,
            priority_class: text("priorityClass")?,
            timeout_seconds: timeout.count()?,
            field,
        })
    }
}

fn min_resources(field: &Field<'_>) -> Result<Option<BTreeMap<String, String>>, InvalidField> {
    let Some(members) = field.object()? else {
        return Ok(None);
    };
    resource_list(field)?; // that all are amounts
    let mut verbatim = BTreeMap::new();
    for key in members.keys() {
        if let Some(text) = amount_text(&field.get(key))? {
            verbatim.insert(key.clone(), text);
        }
    }
    Ok(Some(verbatim))
}
