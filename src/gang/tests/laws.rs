//! What holds for every job, checked on generated ones.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::words::{Case, job};
use crate::gang::requests::pod_needs;
use crate::gang::*;
use crate::workload::jobs::{Pods, gang_kind_of};

/// Roles of a TFJob: replicas, CPUs, memory and a class each.
fn roles() -> impl Strategy<Value = Vec<(u32, u32, u32, Option<i32>)>> {
    prop::collection::vec((0..50u32, 0..64u32, 0..512u32, prop::option::of(0..3i32)), 1..=5)
}

const NAMES: [&str; 5] = ["Chief", "Master", "PS", "Worker", "Evaluator"];

fn case(roles: &[(u32, u32, u32, Option<i32>)]) -> Case {
    let words: Vec<String> = roles
        .iter()
        .zip(NAMES)
        .map(|((count, cpu, memory, _), name)| format!("{name}{count}{{{cpu},{memory}Mi}}"))
        .collect();
    let mut case = job("TFJob", &words.join(" ")).classes(&[("class-0", 0), ("class-1", 1), ("class-2", 2)]);
    for ((_, _, _, class), name) in roles.iter().zip(NAMES) {
        if let Some(class) = class {
            case = case.class(name, &format!("class-{class}"));
        }
    }
    case
}

/// The same job with the members of its maps in another order of insertion, and roles in another spelling.
fn shuffled(value: &Value, seed: u64) -> String {
    match value {
        Value::Object(members) => {
            let mut members: Vec<String> = members
                .iter()
                .map(|(key, value)| format!("{key:?}:{}", shuffled(value, seed)))
                .collect();
            let places = members.len().max(1);
            members.rotate_left(seed as usize % places);
            if seed % 2 == 1 {
                members.reverse();
            }
            format!("{{{}}}", members.join(","))
        }
        Value::Array(items) => format!(
            "[{}]",
            items
                .iter()
                .map(|item| shuffled(item, seed))
                .collect::<Vec<_>>()
                .join(",")
        ),
        other => other.to_string(),
    }
}

proptest! {
    /// V44
    #[test]
    fn order_and_spelling_of_maps_change_nothing(roles in roles(), seed in 0..64u64) {
        let before = case(&roles);
        let text = shuffled(&before.job, seed);
        let text = if seed % 3 == 0 { text.replace("\"Worker\":", "\"wORKER\":") } else { text };
        let after = Case { job: serde_json::from_str(&text).unwrap(), ..before.clone() };
        prop_assert_eq!(after.line(), before.line());
        if let (Ok(Decision::Gang(before)), Ok(Decision::Gang(after))) = (before.decide(), after.decide()) {
            prop_assert_eq!(after.pod_group, before.pod_group);
        }
    }

    #[test]
    fn a_group_has_room_for_each_of_its_first_pods(roles in roles(), min in 1..200i64) {
        let case = case(&roles).min(min);
        let Ok(Decision::Gang(gang)) = case.decide() else { return Ok(()) };
        let MinResources::Computed { requests, .. } = &gang.pod_group.min_resources else { panic!() };
        let kind = gang_kind_of(&case.job).unwrap();
        let Ok(Pods::Sets(sets)) = kind.pod_sets(&case.job) else { panic!() };
        let share = |(count, _, _, class): &(u32, u32, u32, Option<i32>)| Share { count: *count, minimum: 0, priority: class.unwrap_or(0) };
        let taken = first(&roles.iter().map(share).collect::<Vec<_>>(), gang.pod_group.min_member);
        for (set, _) in sets.iter().zip(taken).filter(|(_, taken)| *taken > 0) {
            for (key, amount) in pod_needs(&set.template, &case.facts).unwrap().requests {
                prop_assert!(requests[&key] >= amount, "{}: {}", set.role, key);
            }
        }
        prop_assert!(gang.pod_group.min_member >= 1 && gang.pod_group.min_member <= gang.pod_group.total);
        prop_assert_eq!(i64::from(gang.pod_group.min_member), min);
    }

    #[test]
    fn more_pods_never_need_less(roles in roles(), min in 1..100i64) {
        let sum = |min: i64| match case(&roles).min(min).decide() {
            Ok(Decision::Gang(gang)) => match gang.pod_group.min_resources {
                MinResources::Computed { requests, .. } => Some(requests),
                MinResources::Given(_) => None,
            },
            _ => None,
        };
        if let (Some(fewer), Some(more)) = (sum(min), sum(min + 1)) {
            for (key, amount) in fewer {
                prop_assert!(more[&key] >= amount);
            }
        }
    }

    /// `first` beside a list of all pods, sorted.
    #[test]
    fn the_first_pods_are_those_of_a_sorted_list(counts in prop::collection::vec((0..20u32, 0..3i32), 1..6), n in 0..120u32) {
        let shares: Vec<Share> = counts.iter().map(|(count, priority)| Share { count: *count, minimum: 0, priority: *priority }).collect();
        let mut pods: Vec<usize> = shares.iter().enumerate().flat_map(|(place, share)| std::iter::repeat_n(place, share.count as usize)).collect();
        pods.sort_by_key(|place| (-shares[*place].priority, *place));
        let mut expected = vec![0; shares.len()];
        pods.iter().take(n as usize).for_each(|place| expected[*place] += 1);
        prop_assert_eq!(first(&shares, n), expected);
    }

    #[test]
    fn marks_are_put_on_once(roles in roles(), back_end in 0..3usize) {
        let back_end = [BackEnd::Coscheduling, BackEnd::Volcano, BackEnd::Native(NativeVersion::V1beta1)][back_end];
        let case = case(&roles).on(back_end);
        let Ok(Decision::Gang(gang)) = case.decide() else { return Ok(()) };
        let marked = Case { job: gang.marks.apply(&case.job).unwrap(), ..case.clone() };
        let again = marked.gang();
        prop_assert_eq!(&again.pod_group, &gang.pod_group);
        prop_assert!(again.marks.patch(&marked.job).0.is_empty());
    }
}

#[test]
fn unknown_fields_of_a_marked_job_survive() {
    let case = job("MPIJob", "L1{1,1Gi} W2{1,1Gi}")
        .with("/spec/future", json!({"a": [1, 2.5, null]}))
        .role("Worker", "/template/spec/future", json!("x"));
    let mut marked = case.gang().marks.apply(&case.job).unwrap();
    for role in ["Launcher", "Worker"] {
        let template = &mut marked["spec"]["mpiReplicaSpecs"][role]["template"];
        template.as_object_mut().unwrap().remove("metadata");
        template["spec"].as_object_mut().unwrap().remove("schedulerName");
    }
    assert_eq!(marked, case.job);
}
