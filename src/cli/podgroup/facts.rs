//! Options and files -> what is known of the cluster.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{PodgroupArgs, PodgroupError, text};
use crate::cli::documents::{self, Document, Source};
use crate::gang::facts::runtime_overhead;
use crate::gang::{ClusterFacts, ContainerDefaults, Family};

impl PodgroupArgs {
    /// All but what depends on the job's namespace.
    pub(super) fn facts(&self, runtime_classes: &[Document]) -> Result<ClusterFacts, PodgroupError> {
        let mut facts = ClusterFacts::default();
        facts.priority_classes.values = self.priority_classes.iter().cloned().collect();
        facts.priority_classes.global_default = self.global_default_priority;
        facts.runtime_overheads = runtime_classes
            .iter()
            .map(|Document { place, object }| {
                let overhead = runtime_overhead(object).map_err(|source| PodgroupError::Fact {
                    place: place.clone(),
                    source,
                })?;
                Ok((text(object, "/metadata/name").to_owned(), overhead))
            })
            .collect::<Result<BTreeMap<_, _>, PodgroupError>>()?;
        facts.settings.gang_all = self.gang_all;
        if let Some(name) = &self.scheduler_name {
            match self.scheduler {
                Family::Coscheduling => facts.settings.coscheduling_scheduler.clone_from(name),
                Family::Volcano => facts.settings.volcano_scheduler.clone_from(name),
                Family::Native => {} // pods keep theirs
            }
        }
        Ok(facts)
    }
}

/// What LimitRanges of the job's namespace give; one without a namespace is of any.
pub(super) fn container_defaults(
    limit_ranges: &[Document],
    job: &Value,
) -> Result<ContainerDefaults, PodgroupError> {
    let namespaces = ["", text(job, "/metadata/namespace")];
    let near = limit_ranges
        .iter()
        .filter(|range| namespaces.contains(&text(&range.object, "/metadata/namespace")));
    let near: Vec<&Document> = near.collect();
    ContainerDefaults::of(near.iter().map(|range| &range.object)).map_err(|source| PodgroupError::Fact {
        place: near
            .iter()
            .map(|range| range.place.as_str())
            .collect::<Vec<_>>()
            .join(", "),
        source,
    })
}

/// The objects of these files, which all are of this kind.
pub(super) fn of_kind(sources: &[Source], expected: &'static str) -> Result<Vec<Document>, PodgroupError> {
    if sources.is_empty() {
        return Ok(Vec::new());
    }
    let documents = documents::parse(sources)?;
    match documents
        .iter()
        .find(|document| text(&document.object, "/kind") != expected)
    {
        None => Ok(documents),
        Some(other) => Err(PodgroupError::OtherKind {
            place: other.place.clone(),
            found: text(&other.object, "/kind").to_owned(),
            expected,
        }),
    }
}
