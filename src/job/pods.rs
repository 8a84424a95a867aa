//! The pods of a copy that do not run yet, as its worker lists them -> what they wait for (pure).

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;
use serde_json::Value;

use super::owners::Owners;
use crate::pod::mirror::waiting_reason;

/// So many pods are looked at; of a job with more, the rest wait for the same.
const MOST: usize = 200;
/// A scheduler that is there says something of a new pod within this time.
const SOON_LOOKED_AT: SignedDuration = SignedDuration::from_secs(10);
/// A condition is no place for more.
const LONGEST: usize = 512;

/// What the pods of a copy wait for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodsSeen {
    /// Some of them for this: how many, and the words that most of them have.
    Wait(String),
    /// None has words, but some do not run yet.
    Start,
    /// All of them run, or ended.
    Run,
}

/// Where the pods of a namespace are listed that do not run yet; one that runs is never part of the answer.
#[must_use]
pub fn path(namespace: &str, selector: Option<&str>) -> String {
    let labels = selector.map(|selector| format!("&labelSelector={}", selector.replace('=', "%3D")));
    format!(
        "/api/v1/namespaces/{namespace}/pods?fieldSelector=status.phase%3DPending&limit={MOST}{}",
        labels.unwrap_or_default()
    )
}

/// Pods that do not run yet.
#[derive(Debug, Default)]
pub struct Pending {
    pods: Vec<Value>,
    is_cut: bool,
}

impl Pending {
    /// As a worker lists them.
    ///
    /// # Errors
    /// If it is no list.
    pub fn parse(list: &str) -> Result<Self, serde_json::Error> {
        #[derive(Deserialize)]
        struct List {
            metadata: ListMeta,
            items: Vec<Value>,
        }
        #[derive(Deserialize)]
        struct ListMeta {
            #[serde(default, rename = "continue")]
            rest: String,
        }
        let List { metadata, items } = serde_json::from_str(list)?;
        Ok(Self {
            pods: items,
            is_cut: !metadata.rest.is_empty(),
        })
    }

    /// Who owns them, so far as their own metadata says it.
    #[must_use]
    pub fn owners(&self) -> Owners {
        let mut owners = Owners::default();
        let metadata = self.pods.iter().map(|pod| &pod["metadata"]);
        metadata
            .filter_map(|metadata| ObjectMeta::deserialize(metadata).ok())
            .for_each(|metadata| owners.add(&metadata));
        owners
    }

    /// Only those that this object owns, by whatever stands between.
    #[must_use]
    pub fn below(mut self, root: &str, owners: &Owners) -> Self {
        let uid = |pod: &Value| pod["metadata"]["uid"].as_str().map(str::to_owned);
        self.pods
            .retain(|pod| uid(pod).is_some_and(|uid| owners.is_below(&uid, root)));
        self.is_cut = false; // what is left out may be of others
        self
    }

    /// What they wait for.
    #[must_use]
    pub fn seen(&self, now: Timestamp) -> PodsSeen {
        let stays = |pod: &&Value| pod["metadata"]["deletionTimestamp"].is_null();
        let pods = || self.pods.iter().filter(stays);
        let mut words: BTreeMap<String, usize> = BTreeMap::new();
        for said in pods().filter_map(|pod| waiting_reason(pod).or_else(|| left_alone(pod, now))) {
            *words.entry(said).or_default() += 1;
        }
        let count: usize = words.values().sum();
        let most = words.iter().rev().max_by_key(|(_, count)| **count);
        match most {
            Some((said, same)) => PodsSeen::Wait(sentence(count, *same, self.is_cut, said)),
            None if pods().next().is_some() => PodsSeen::Start,
            None => PodsSeen::Run,
        }
    }
}

/// Nobody has tried to find it a node, and it is not new.
fn left_alone(pod: &Value, now: Timestamp) -> Option<String> {
    let (spec, status) = (&pod["spec"], &pod["status"]);
    let is_gated = spec["schedulingGates"]
        .as_array()
        .is_some_and(|gates| !gates.is_empty());
    let conditions = status["conditions"].as_array();
    let was_looked_at = conditions.is_some_and(|all| all.iter().any(|one| one["type"] == "PodScheduled"));
    let created: Timestamp = pod["metadata"]["creationTimestamp"].as_str()?.parse().ok()?;
    let is_new = now.duration_since(created) < SOON_LOOKED_AT;
    if is_gated || was_looked_at || is_new || spec["nodeName"].is_string() {
        return None;
    }
    let scheduler = spec["schedulerName"].as_str().unwrap_or_default();
    Some(match spec["schedulingGroup"].is_object() {
        true => format!("the other pods of its PodGroup, or a scheduler {scheduler:?} that knows PodGroups"),
        false => format!("no scheduler has looked at it; is there one named {scheduler:?}?"),
    })
}

fn sentence(count: usize, same: usize, is_cut: bool, said: &str) -> String {
    let mut sentence = match (count, is_cut) {
        (1, false) => "1 pod waits".to_owned(),
        (_, false) => format!("{count} pods wait"),
        (_, true) => format!("{count} pods or more wait"),
    };
    if same < count {
        sentence.push_str(&format!(", {same} of them"));
    }
    sentence.push_str(": ");
    sentence.push_str(said);
    if sentence.len() > LONGEST {
        sentence.truncate(sentence.floor_char_boundary(LONGEST));
        sentence.push('…');
    }
    sentence
}

/// Who owns the objects of a list.
///
/// # Errors
/// If it is no list.
pub fn add_owners(owners: &mut Owners, list: &str) -> Result<(), serde_json::Error> {
    #[derive(Deserialize)]
    struct List {
        items: Vec<Item>,
    }
    #[derive(Deserialize)]
    struct Item {
        metadata: ObjectMeta,
    }
    let List { items } = serde_json::from_str(list)?;
    items.iter().for_each(|item| owners.add(&item.metadata));
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn pod(uid: &str, words: Option<&str>) -> Value {
        let conditions = words.map(|words| json!([{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": words}]));
        json!({
            "metadata": {"uid": uid, "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "job"}]},
            "status": {"phase": "Pending", "conditions": conditions},
        })
    }

    fn pending(pods: &[Value], rest: &str) -> Pending {
        Pending::parse(&json!({"metadata": {"continue": rest}, "items": pods}).to_string()).unwrap()
    }

    fn wait(words: &str) -> PodsSeen {
        PodsSeen::Wait(words.to_owned())
    }

    #[test]
    fn what_most_of_them_wait_for_is_told_with_their_number() {
        let (full, taint) = (Some("0/2 nodes are available"), Some("a taint"));
        assert_eq!(
            pending(&[pod("a", full), pod("b", None)], "").seen(NOW),
            wait("1 pod waits: Unschedulable: 0/2 nodes are available")
        );
        let three = [pod("a", taint), pod("b", full), pod("c", full)];
        assert_eq!(
            pending(&three, "").seen(NOW),
            wait("3 pods wait, 2 of them: Unschedulable: 0/2 nodes are available")
        );
        assert_eq!(
            pending(&three[1..], "more").seen(NOW),
            wait("2 pods or more wait: Unschedulable: 0/2 nodes are available")
        );
        let even = pending(&three[..2], "").seen(NOW);
        assert_eq!(
            even,
            wait("2 pods wait, 1 of them: Unschedulable: 0/2 nodes are available")
        );
        assert_eq!(
            pending(&[three[1].clone(), three[0].clone()], "").seen(NOW),
            even,
            "in any order"
        );
    }

    #[test]
    fn pods_without_words_are_starting_and_those_that_go_do_not_count() {
        assert_eq!(pending(&[pod("a", None)], "").seen(NOW), PodsSeen::Start);
        assert_eq!(pending(&[], "").seen(NOW), PodsSeen::Run);
        let mut going = pod("a", Some("full"));
        going["metadata"]["deletionTimestamp"] = "2026-11-30T10:00:00Z".into();
        assert_eq!(pending(&[going], "").seen(NOW), PodsSeen::Run);
    }

    #[test]
    fn pods_that_no_scheduler_looked_at_say_whom_they_name() {
        let said = |change: Value| {
            let mut pod = pod("a", None);
            pod["metadata"]["creationTimestamp"] = "1969-12-31T23:59:50Z".into();
            pod["spec"] = json!({"schedulerName": "gangs"});
            json_patch::merge(&mut pod, &change);
            pending(&[pod], "").seen(NOW)
        };
        assert_eq!(
            said(json!({})),
            wait("1 pod waits: no scheduler has looked at it; is there one named \"gangs\"?")
        );
        assert_eq!(
            said(json!({"spec": {"schedulingGroup": {"podGroupName": "g"}}})),
            wait(
                "1 pod waits: the other pods of its PodGroup, or a scheduler \"gangs\" that knows PodGroups"
            )
        );
        for starts in [
            json!({"metadata": {"creationTimestamp": "1969-12-31T23:59:51Z"}}),
            json!({"spec": {"nodeName": "n"}}),
            json!({"spec": {"schedulingGates": [{"name": "quota"}]}}),
            json!({"status": {"conditions": [{"type": "PodScheduled", "status": "True"}]}}),
        ] {
            assert_eq!(said(starts.clone()), PodsSeen::Start, "{starts}");
        }
    }

    #[test]
    fn pods_of_others_are_left_out() {
        let list = pending(&[pod("a", Some("full"))], "more");
        let mut owners = list.owners();
        assert_eq!(owners.unknown("root").len(), 1);
        let jobs = json!({"metadata": {}, "items": [{"metadata": {"uid": "job", "ownerReferences": [
            {"apiVersion": "example.com/v1", "kind": "Solver", "name": "s", "uid": "root"}]}}]});
        add_owners(&mut owners, &jobs.to_string()).unwrap();
        assert_eq!(list.below("another", &owners).seen(NOW), PodsSeen::Run);
        let list = pending(&[pod("a", Some("full"))], "more");
        assert_eq!(
            list.below("root", &owners).seen(NOW),
            wait("1 pod waits: Unschedulable: full")
        );
    }

    #[test]
    fn a_long_message_is_cut_and_a_path_names_only_what_does_not_run() {
        let PodsSeen::Wait(words) = pending(&[pod("a", Some(&"ä".repeat(600)))], "").seen(NOW) else {
            panic!("it waits");
        };
        assert!(words.len() < 520 && words.ends_with('…'));
        assert_eq!(
            path("shop", Some("a/b=c,d=e")),
            "/api/v1/namespaces/shop/pods?fieldSelector=status.phase%3DPending&limit=200&labelSelector=a/b%3Dc,d%3De"
        );
    }
}
