//! The API server's rules for a change of a Job's status (Kubernetes 1.34 to 1.37: `ValidateJobStatusUpdate`, with the
//! options of the registry's strategy), for the tests of this folder. The cluster tests ask a real server.

use serde_json::Value;

/// Why the server would refuse the change.
pub(super) fn refusals(old: &Value, new: &Value) -> Vec<&'static str> {
    let (before, after) = (Status(&old["status"]), Status(&new["status"]));
    let spec = &new["spec"];
    let changed = |field: &str| !same(&old["status"][field], &new["status"][field]);
    let turned = |kind: &str| before.has(kind) != after.has(kind);
    let suspended = spec["suspend"] == true;
    let indexed = spec["completionMode"] == "Indexed";
    let elastic = indexed && spec["completions"] == spec["parallelism"];
    let resuming = before.has("Suspended") && after.says("Suspended", "False");
    let ended_now = before.ended() != after.ended();
    let none = |field: &str| new["status"][field].is_null();
    let rules = [
        (
            ["active", "succeeded", "failed", "ready", "terminating"]
                .iter()
                .any(|field| after.count(field) < 0),
            "negative",
        ),
        (
            after.has("Complete") && after.has("Failed"),
            "Complete and Failed",
        ),
        (
            after.has("Complete") && after.has("FailureTarget"),
            "Complete and FailureTarget",
        ),
        (
            !none("completionTime") && !after.has("Complete"),
            "completionTime without Complete",
        ),
        (
            none("completionTime") && after.has("Complete"),
            "Complete without completionTime",
        ),
        (
            (changed("startTime") || changed("completionTime"))
                && !none("startTime")
                && !none("completionTime")
                && new["status"]["completionTime"].as_str() < new["status"]["startTime"].as_str(),
            "completionTime before startTime",
        ),
        (
            (turned("Failed") || changed("failedIndexes"))
                && after.has("Failed")
                && !after.has("FailureTarget"),
            "Failed without FailureTarget",
        ),
        (
            (turned("Complete") || turned("SuccessCriteriaMet"))
                && after.has("Complete")
                && !after.has("SuccessCriteriaMet"),
            "Complete without SuccessCriteriaMet",
        ),
        (
            (ended_now || changed("active")) && after.ended() && after.count("active") > 0,
            "active when finished",
        ),
        (
            (ended_now || changed("terminating")) && after.ended() && after.count("terminating") > 0,
            "terminating when finished",
        ),
        (
            (ended_now || changed("startTime"))
                && !(suspended && spec["completions"] == 0)
                && after.ended()
                && none("startTime"),
            "finished without startTime",
        ),
        (
            (ended_now || changed("uncountedTerminatedPods"))
                && after.ended()
                && new["status"]["uncountedTerminatedPods"].is_object(),
            "uncounted pods when finished",
        ),
        (
            changed("completedIndexes") && !indexed && !none("completedIndexes"),
            "completedIndexes of NonIndexed",
        ),
        (
            changed("failedIndexes") && spec["backoffLimitPerIndex"].is_null() && !none("failedIndexes"),
            "failedIndexes without backoffLimitPerIndex",
        ),
        (
            (changed("ready") || changed("active")) && after.count("ready") > after.count("active"),
            "more ready than active",
        ),
        (
            after.has("SuccessCriteriaMet") && (after.has("Failed") || after.has("FailureTarget")),
            "SuccessCriteriaMet and failure",
        ),
        (
            ["Failed", "Complete", "FailureTarget", "SuccessCriteriaMet"]
                .iter()
                .any(|kind| before.has(kind) && !after.has(kind)),
            "a terminal condition is gone",
        ),
        (after.count("failed") < before.count("failed"), "failed decreased"),
        (
            !elastic && after.count("succeeded") < before.count("succeeded"),
            "succeeded decreased",
        ),
        (
            changed("completionTime")
                && !none("completionTime")
                && !old["status"]["completionTime"].is_null(),
            "completionTime changed",
        ),
        (
            changed("startTime") && !resuming && !old["status"]["startTime"].is_null() && !suspended,
            "startTime changed while not suspended",
        ),
    ];
    let broken = rules.into_iter().filter(|(broken, _)| *broken);
    broken.map(|(_, rule)| rule).collect()
}

struct Status<'s>(&'s Value);

impl Status<'_> {
    fn says(&self, kind: &str, status: &str) -> bool {
        let conditions = self.0["conditions"].as_array().into_iter().flatten();
        conditions
            .into_iter()
            .any(|condition| condition["type"] == kind && condition["status"] == status)
    }

    fn has(&self, kind: &str) -> bool {
        self.says(kind, "True")
    }

    fn ended(&self) -> bool {
        self.has("Complete") || self.has("Failed")
    }

    fn count(&self, field: &str) -> i64 {
        self.0[field].as_i64().unwrap_or(0)
    }
}

fn same(left: &Value, right: &Value) -> bool {
    left == right
        || (left.as_i64().unwrap_or(0) == 0 && right.as_i64().unwrap_or(0) == 0 && {
            let is_zero = |value: &Value| value.is_null() || value.is_number();
            is_zero(left) && is_zero(right)
        })
}
