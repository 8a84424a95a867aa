//! Objects by name, from two tongues: a watch tells all of a kind in order, answers to our own calls may be late. An answer
//! that the watch has overtaken is dropped, since it could bring back what is gone since.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;

use super::Seen;

/// What names an object of one of several kinds.
pub trait Name: Clone + Ord + Hash {
    /// What has a list and a watch of its own; resourceVersions are comparable within it.
    type Kind: Copy + Eq + Hash;

    /// The kind of what it names.
    fn kind(&self) -> Self::Kind;
}

/// The latest state of each object.
pub struct Latest<N: Name> {
    seen: HashMap<N, Seen>,
    /// The newest resourceVersion that the watch of a kind delivered.
    delivered: HashMap<N::Kind, u64>,
}

impl<N: Name> Default for Latest<N> {
    fn default() -> Self {
        Self {
            seen: HashMap::new(),
            delivered: HashMap::new(),
        }
    }
}

impl<N: Name> Latest<N> {
    pub(super) fn get(&self, name: &N) -> Option<&Seen> {
        self.seen.get(name)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&N, &Seen)> {
        self.seen.iter()
    }

    /// The watch delivered this state. True if it is news: no answer has shown it, or a newer one, before.
    pub(super) fn watched(&mut self, name: N, seen: Seen) -> bool {
        self.delivered(&name, &seen);
        let held = self.seen.get(&name);
        let is_same = |held: &Seen| held.uid == seen.uid && held.resource_version == seen.resource_version;
        let is_known = held.is_some_and(is_same);
        if held.is_none_or(|held| held.version() <= seen.version()) {
            self.seen.insert(name, seen);
            return !is_known;
        }
        false
    }

    /// The watch delivered the end of this object, or that it is none of ours any more. True if it was known.
    pub(super) fn removed(&mut self, name: &N, seen: &Seen) -> bool {
        self.delivered(name, seen);
        let is_it = |held: &Seen| held.uid == seen.uid || held.version() <= seen.version();
        self.seen.get(name).is_some_and(is_it) && self.seen.remove(name).is_some()
    }

    /// A call was answered with this state; `before` is the UID that was seen when it was made. True if the view is not
    /// older than the answer now; false if the object is gone since.
    pub(super) fn answered(&mut self, name: N, seen: Seen, before: Option<&str>) -> bool {
        let is_fresh = match self.seen.get(&name) {
            Some(held) if held.uid == seen.uid && held.version() >= seen.version() => return true,
            Some(held) => seen.version() > held.version(),
            // What was seen then, and is not now, has ended: a UID never comes back.
            None => {
                let delivered = self.delivered.get(&name.kind()).copied().unwrap_or(0);
                before != Some(&*seen.uid) && seen.version() > delivered
            }
        };
        if is_fresh {
            self.seen.insert(name, seen);
        }
        is_fresh
    }

    /// A call was answered that the name is free; this UID had it when the call was made.
    pub(super) fn gone(&mut self, name: &N, uid: &str) {
        if self.seen.get(name).is_some_and(|held| *held.uid == *uid) {
            self.seen.remove(name);
        }
    }

    /// A complete list of this kind: others of it are gone, but for answers that are newer than it. Answers their names.
    pub(super) fn listed(&mut self, kind: N::Kind, there: &BTreeSet<N>) -> Vec<N> {
        let delivered = self.delivered.get(&kind).copied().unwrap_or(0);
        let is_gone = |(name, seen): &(&N, &Seen)| {
            name.kind() == kind && !there.contains(name) && seen.version() <= delivered
        };
        let gone: Vec<N> = self
            .seen
            .iter()
            .filter(is_gone)
            .map(|(name, _)| name.clone())
            .collect();
        for name in &gone {
            self.seen.remove(name);
        }
        gone
    }

    fn delivered(&mut self, name: &N, seen: &Seen) {
        let newest = self.delivered.entry(name.kind()).or_default();
        *newest = seen.version().max(*newest);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    impl Name for &'static str {
        type Kind = ();

        fn kind(&self) {}
    }

    fn seen(uid: &str, version: u32) -> Seen {
        let metadata = json!({"uid": uid, "resourceVersion": version.to_string()});
        Seen::of(json!({"metadata": metadata})).unwrap()
    }

    fn uid<'l>(latest: &'l Latest<&'static str>, name: &'static str) -> Option<&'l str> {
        latest.get(&name).map(|seen| &*seen.uid)
    }

    #[test]
    fn a_late_answer_about_a_job_never_replaces_the_one_that_was_made_since() {
        let mut latest = Latest::default();
        latest.watched("job", seen("old", 5));
        latest.removed(&"job", &seen("old", 7));
        assert!(
            !latest.answered("job", seen("old", 6), Some("old")),
            "no other is there yet"
        );
        assert_eq!(uid(&latest, "job"), None);
        latest.watched("job", seen("new", 8));
        assert!(!latest.answered("job", seen("old", 6), Some("old")));
        assert_eq!(uid(&latest, "job"), Some("new"));
    }

    #[test]
    fn a_late_answer_that_a_name_is_free_counts_for_the_uid_that_had_it() {
        let mut latest = Latest::default();
        latest.watched("job", seen("new", 8));
        latest.gone(&"job", "old");
        assert_eq!(uid(&latest, "job"), Some("new"));
        latest.gone(&"job", "new");
        assert_eq!(uid(&latest, "job"), None);
    }

    #[test]
    fn what_was_made_by_us_and_deleted_before_the_answer_came_is_no_ghost() {
        let mut latest = Latest::default();
        latest.watched("ghost", seen("g", 5));
        latest.removed(&"ghost", &seen("g", 6));
        assert!(!latest.answered("ghost", seen("g", 5), None));
        assert_eq!(uid(&latest, "ghost"), None);
        assert!(latest.answered("ghost", seen("h", 7), None), "made anew");
        assert_eq!(uid(&latest, "ghost"), Some("h"));
    }

    #[test]
    fn what_went_while_no_watch_told_does_not_come_back_by_a_late_answer() {
        let mut latest = Latest::default();
        latest.watched("job", seen("old", 5));
        assert_eq!(latest.listed((), &BTreeSet::new()), ["job"]);
        assert!(!latest.answered("job", seen("old", 6), Some("old")));
        assert_eq!(uid(&latest, "job"), None);
    }

    #[test]
    fn an_answer_is_news_to_the_view_and_then_the_watch_tells_nothing_new() {
        let mut latest = Latest::default();
        assert!(latest.watched("job", seen("u", 5)));
        assert!(latest.answered("job", seen("u", 7), Some("u")));
        assert!(!latest.watched("job", seen("u", 6)) && !latest.watched("job", seen("u", 7)));
        assert!(latest.watched("job", seen("u", 8)));
        assert!(
            latest.answered("job", seen("u", 7), Some("u")),
            "the view knows more already"
        );
        assert_eq!(latest.get(&"job").map(Seen::version), Some(8));
    }

    #[test]
    fn a_watch_that_is_behind_does_not_undo_what_an_answer_showed() {
        let mut latest = Latest::default();
        latest.watched("job", seen("old", 5));
        assert!(latest.answered("job", seen("new", 9), Some("old")));
        assert!(!latest.watched("job", seen("old", 6)));
        assert!(!latest.removed(&"job", &seen("old", 7)));
        assert_eq!(latest.listed((), &BTreeSet::new()), Vec::<&str>::new());
        assert_eq!(uid(&latest, "job"), Some("new"));
        assert!(latest.removed(&"job", &seen("new", 10)));
        assert_eq!(uid(&latest, "job"), None);
    }
}
