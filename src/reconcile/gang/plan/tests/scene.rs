//! A job and what is there beside it, as a turn would see it; and the plan in words.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::super::{Plan, plan};
use crate::gang::{ClusterFacts, DeleteOnFinish, NativeVersion, Served};
use crate::reconcile::gang::cluster::GROUP_APIS;
use crate::reconcile::gang::execute::{Step, Why};
use crate::reconcile::gang::observed::{Groups, Memory, Observed};
use crate::reconcile::gang::scope::Stage;
use crate::reconcile::gang::store::{GroupKey, JobKey, PodCount, Seen, controller};
use crate::workload::jobs::gang_kind_of;

/// A job of a namespace labelled `coscheduling`, and what is there beside it.
pub(super) struct Scene {
    pub(super) job: Value,
    pub(super) groups: Vec<Value>,
    pub(super) pods: PodCount,
    pub(super) copy: Option<Stage>,
    pub(super) label: Option<&'static str>,
    pub(super) dispatched: bool,
    pub(super) served: Served,
    pub(super) memory: Memory,
    pub(super) now: Instant,
    /// The lists of group objects are complete.
    pub(super) listed: bool,
    /// That of pods is.
    pub(super) pods_listed: bool,
}

struct There<'s>(&'s Scene);

impl Groups for There<'_> {
    fn group(&self, key: &GroupKey) -> Option<Seen> {
        let found = self
            .0
            .groups
            .iter()
            .find(|object| key_of(object).as_ref() == Some(key));
        found.and_then(|object| Seen::of(object.clone()))
    }

    fn of_job(&self, _namespace: &str, uid: &str) -> Vec<(GroupKey, Seen)> {
        let controlled = self
            .0
            .groups
            .iter()
            .filter(|object| controller(object).is_some_and(|owner| owner.uid == uid));
        controlled
            .filter_map(|object| Some((key_of(object)?, Seen::of(object.clone())?)))
            .collect()
    }

    fn pods(&self, _namespace: &Arc<str>, _group: &Arc<str>, _job: &str) -> PodCount {
        self.0.pods
    }

    fn bound(&self, _namespace: &Arc<str>, _group: &Arc<str>) -> u32 {
        self.0.pods.bound
    }
}

impl Scene {
    pub(super) fn of(job: Value) -> Self {
        Self {
            job,
            groups: Vec::new(),
            pods: PodCount::default(),
            copy: None,
            label: Some("coscheduling"),
            dispatched: false,
            served: Served {
                coscheduling: true,
                volcano: true,
                native: Some(NativeVersion::V1beta1),
            },
            memory: Memory::default(),
            now: Instant::now(),
            listed: true,
            pods_listed: true,
        }
    }

    pub(super) fn plan(&self) -> Plan {
        let kind = gang_kind_of(&self.job).unwrap();
        let there = There(self);
        let text =
            |pointer: &str| -> Arc<str> { self.job.pointer(pointer).unwrap().as_str().unwrap().into() };
        let observed = Observed {
            key: JobKey {
                resource: kind.resource(),
                namespace: text("/metadata/namespace"),
                name: text("/metadata/name"),
            },
            kind,
            job: Seen::of(self.job.clone()).unwrap(),
            copy: self.copy,
            label: self.label.map(Into::into),
            dispatched: self.dispatched,
            served: self.served,
            facts: Arc::new(ClusterFacts::default()),
            hold_timeout: Duration::from_secs(60),
            delete_on_finish: DeleteOnFinish::WhenIdle,
            knows: GROUP_APIS
                .iter()
                .filter(|_| self.listed)
                .map(|api| (api.group, api.plural))
                .collect(),
            knows_pods: self.pods_listed,
            groups: &there,
            memory: self.memory.clone(),
        };
        let first = plan(&observed, self.now);
        assert_eq!(
            first,
            plan(&observed, self.now),
            "the same view gives the same plan"
        );
        first
    }

    /// Steps and reasons of remarks, in words.
    pub(super) fn words(&self) -> String {
        let plan = self.plan();
        let steps = plan.steps.iter().map(words);
        let reasons = plan
            .notices
            .iter()
            .map(|notice| format!("say {}", notice.reason.name()));
        let opens = plan.may_open.then(|| "may open".to_owned());
        let words: Vec<String> = steps.chain(opens).chain(reasons).collect();
        if words.is_empty() {
            "nothing".to_owned()
        } else {
            words.join(", ")
        }
    }

    /// The objects that the job should have, as the API would show them.
    pub(super) fn with_its_groups(mut self) -> Self {
        for _ in 0..2 {
            let plan = self.plan();
            let Some(Step::Create { object, .. }) = plan.steps.first() else {
                break;
            };
            let mut object = (**object).clone();
            let uid = format!("g{}", self.groups.len());
            object["metadata"]["uid"] = uid.as_str().into();
            object["metadata"]["resourceVersion"] = "9".into();
            self.memory.proven.insert(uid.into());
            self.groups.push(object);
        }
        self
    }
}

fn key_of(object: &Value) -> Option<GroupKey> {
    let group = object["apiVersion"].as_str()?.split_once('/')?.0;
    let api = GROUP_APIS
        .iter()
        .find(|api| api.group == group && object["kind"] == *api.kind)?;
    Some(GroupKey {
        group: api.group,
        plural: api.plural,
        namespace: object["metadata"]["namespace"].as_str()?.into(),
        name: object["metadata"]["name"].as_str()?.into(),
    })
}

fn words(step: &Step) -> String {
    match step {
        Step::Create { object, .. } => format!("create {}", object["kind"].as_str().unwrap()),
        Step::Update { object, .. } => format!("update {}", object["kind"].as_str().unwrap()),
        Step::Look { key, .. } => format!("look at {}", key.plural),
        Step::Delete { key, uid, .. } => format!("delete {} {uid}", key.plural),
        Step::PatchJob {
            seen,
            why,
            operations,
            ..
        } => {
            assert_eq!(
                (seen.0.as_str(), seen.1.as_str()),
                ("j1", "5"),
                "the job as it was seen"
            );
            let why = match why {
                Why::Release => "release",
                Why::Mark => "mark",
                Why::StandDown => "stand down",
                Why::DropClaim => "drop our claim",
            };
            format!("{why} [{}]", operations.0.len())
        }
        Step::Launcher { .. } => "look for a launcher".to_owned(),
    }
}
