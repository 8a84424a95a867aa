//! What people hear of a job's gang. It is told about the job that they look at: of a copy, the one on the manager.

use k8s_openapi::api::core::v1::ObjectReference;
use serde_json::Value;

use super::Turns;
use crate::gang::Notice;
use crate::reconcile::events::Note;
use crate::reconcile::gang::cluster::{GROUP_APIS, GroupApi};
use crate::reconcile::gang::execute::{Step, Why};
use crate::reconcile::gang::observed::Observed;
use crate::reconcile::gang::plan::compare::changes;
use crate::reconcile::gang::store::Seen;

impl Turns {
    pub(super) fn note(&self, observed: &Observed<'_>, notice: Notice) {
        let (reason, is_warning) = (notice.reason.name(), notice.reason.is_warning());
        self.tell(observed, reason, notice.sentence, is_warning);
    }

    /// A write took effect.
    pub(super) fn done(&self, observed: &Observed<'_>, reason: &'static str, sentence: String) {
        self.send(observed, sentence, |sentence| Note::normal(reason, sentence));
    }

    pub(super) fn tell(
        &self,
        observed: &Observed<'_>,
        reason: &'static str,
        sentence: String,
        is_warning: bool,
    ) {
        self.send(observed, sentence, |sentence| match is_warning {
            true => Note::warning(reason, sentence),
            false => Note::reason(reason, sentence),
        });
    }

    fn send(&self, observed: &Observed<'_>, sentence: String, note: impl FnOnce(String) -> Note) {
        let (uid, sentence) = self.cluster.scope.tell(&observed.job, sentence);
        let about = ObjectReference {
            api_version: Some(observed.key.resource.api_version()),
            kind: Some(observed.key.resource.kind.to_owned()),
            namespace: Some(observed.key.namespace.to_string()),
            name: Some(observed.key.name.to_string()),
            uid: Some(uid),
            ..ObjectReference::default()
        };
        self.notes.about(about, note(sentence));
    }
}

/// What a person should hear of a write that took effect.
pub(super) fn effect(step: &Step, before: Option<&Seen>) -> Option<(&'static str, String)> {
    let object = |object: &Value| {
        let text = |pointer: &str| {
            object
                .pointer(pointer)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        format!("{} {}", text("/kind"), text("/metadata/name"))
    };
    match step {
        Step::Create { object: made, .. } => Some(("PodGroupCreated", format!("made {}", object(made)))),
        Step::Update { object: made, .. } => {
            let fields = before.map_or_else(Vec::new, |seen| changes(&seen.object, made));
            let message = match &fields[..] {
                [] => format!("{} is as the job says", object(made)),
                [field] => format!("{}: {field} is as the job says", object(made)),
                fields => format!("{}: {} are as the job says", object(made), fields.join(", ")),
            };
            Some(("PodGroupUpdated", message))
        }
        Step::Delete { key, .. } => {
            let is_its = |api: &&GroupApi| (api.group, api.plural) == (key.group, key.plural);
            let kind = GROUP_APIS.iter().find(is_its).map_or(key.plural, |api| api.kind);
            Some(("PodGroupDeleted", format!("deleted {kind} {}", key.name)))
        }
        Step::PatchJob {
            why: Why::Release, ..
        } => Some((
            "Released",
            "its hold is over, and its operator starts it".to_owned(),
        )),
        Step::PatchJob {
            why: Why::Mark | Why::StandDown | Why::DropClaim,
            ..
        }
        | Step::Look { .. }
        | Step::Launcher { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::reconcile::gang::store::GroupKey;

    #[test]
    fn what_was_done_is_told_with_kind_and_name() {
        let key = GroupKey {
            group: "scheduling.x-k8s.io",
            plural: "podgroups",
            namespace: "team".into(),
            name: "train".into(),
        };
        let group = |spec: Value| {
            json!({
                "apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup",
                "metadata": {"name": "train", "uid": "u", "resourceVersion": "1"}, "spec": spec,
            })
        };
        let update = |spec: Value| Step::Update {
            key: key.clone(),
            object: Box::new(group(spec)),
        };
        let before = Seen::of(group(json!({"minMember": 3, "minResources": {"cpu": "3"}})));
        let delete = Step::Delete {
            key: key.clone(),
            api_version: "scheduling.x-k8s.io/v1alpha1".to_owned(),
            uid: "u".into(),
        };
        for (step, words) in [
            (delete, "deleted PodGroup train"),
            (
                update(json!({"minMember": 2, "minResources": {"cpu": "3"}})),
                "PodGroup train: spec.minMember is as the job says",
            ),
            (
                update(json!({"minMember": 2, "minResources": {"cpu": "2"}})),
                "PodGroup train: spec.minMember, spec.minResources are as the job says",
            ),
        ] {
            assert_eq!(
                effect(&step, before.as_ref())
                    .map(|(_, message)| message)
                    .as_deref(),
                Some(words)
            );
        }
    }
}
