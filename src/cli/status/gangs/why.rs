//! The state of a job now -> the one thing that is to be said of it (pure). Events give words to a cause that is there, and
//! tell the causes that only Portcullis knows; a cause that is over is not told, however new its Event.

use jiff::Timestamp;

use super::line::Told;
use crate::gang::{Gang, Notice, Reason};
use crate::names;

/// What became of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    StoodDown,
    Conflict,
    Held,
    Suspended,
    NoGang,
    Running,
    Waiting,
}

impl State {
    /// The word.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::StoodDown => "StoodDown",
            Self::Conflict => "Conflict",
            Self::Held => "Held",
            Self::Suspended => "Suspended",
            Self::NoGang => "NoGang",
            Self::Running => "Running",
            Self::Waiting => "Waiting",
        }
    }
}

/// What a cause depends on.
#[derive(Debug)]
pub(super) struct Situation<'a> {
    pub(super) state: State,
    /// The annotation.
    pub(super) stand_down: Option<&'a str>,
    /// Why it is no gang: a remark, or a sentence without a reason.
    pub(super) notice: Option<Result<Notice, String>>,
    /// What it should have.
    pub(super) gang: Option<&'a Gang>,
    /// Its templates name a group.
    pub(super) is_marked: bool,
    /// They cannot get another scheduler's name.
    pub(super) has_fixed_templates: bool,
    /// Its gang scheduler is Kubernetes.
    pub(super) is_native: bool,
    /// The group that it adopts.
    pub(super) adopts: Option<&'a str>,
    /// Its own PodGroup is there, or the one that it adopts.
    pub(super) stands: bool,
    /// Its pods run on worker clusters.
    pub(super) is_dispatched: bool,
    /// Whether a PriorityClass exists is known.
    pub(super) knows_classes: bool,
    /// Its pods that have not ended.
    pub(super) pods_there: u32,
    /// Our Events about it.
    pub(super) told: &'a [Told],
}

/// What is said.
#[derive(Debug)]
pub(super) struct Cause {
    /// One word; none if the sentence only describes.
    pub(super) reason: Option<String>,
    pub(super) sentence: String,
}

/// What stands in the way; else what is wrong; else how far it is; else what is worth knowing.
pub(super) fn why(now: &Situation<'_>) -> Option<Cause> {
    if let Some(words) = now.stand_down {
        return Some(cause(Reason::OperatorManagesPodGroup, words));
    }
    blocked(now)
        .or_else(|| remark(now, true))
        .or_else(|| {
            let total = now.gang?.pod_group.total;
            let sentence = format!("{} of {total} pods are there, none has a node", now.pods_there);
            (now.state == State::Waiting).then_some(Cause {
                reason: None,
                sentence,
            })
        })
        .or_else(|| remark(now, false))
}

fn cause(reason: Reason, sentence: &str) -> Cause {
    Cause {
        reason: Some(reason.name().to_owned()),
        sentence: sentence.to_owned(),
    }
}

/// The newest Event of this reason.
fn newest<'t>(now: &Situation<'t>, reason: &str) -> Option<&'t Told> {
    let told = now.told.iter().filter(|told| told.reason == reason);
    told.max_by_key(|told| told.time)
}

/// When Portcullis last did something for the job: what stood in the way before that does so no more.
fn acted(now: &Situation<'_>) -> Option<Timestamp> {
    let acts = ["PodGroupCreated", "PodGroupUpdated", "Released"];
    acts.iter().filter_map(|act| newest(now, act)?.time).max()
}

/// In the words of its Event, or else in these.
fn known(now: &Situation<'_>, reason: Reason, words: &str) -> Cause {
    let told = newest(now, reason.name()).map_or(words, |told| &told.sentence);
    cause(reason, told)
}

fn blocked(now: &Situation<'_>) -> Option<Cause> {
    match &now.notice {
        Some(Ok(notice)) => return Some(cause(notice.reason, &notice.sentence)),
        Some(Err(sentence)) => {
            return Some(Cause {
                reason: None,
                sentence: sentence.clone(),
            });
        }
        None => {}
    }
    let has_begun = now.state != State::Suspended;
    let awaits = matches!(now.state, State::Held | State::Waiting);
    if now.is_dispatched && now.gang.is_some() {
        let words = "pods of this namespace run on worker clusters, one by one; choose one of its two labels";
        return Some(known(now, Reason::GangUnsupported, words));
    }
    if now.state == State::Conflict {
        let words =
            "a PodGroup of this name belongs to somebody else; delete it, or give the job another name";
        return Some(known(now, Reason::PodGroupConflict, words));
    }
    if let (Some(name), true, false) = (now.adopts, awaits, now.stands) {
        let words = format!(
            "PodGroup {name} is not there; create it, or correct {}",
            names::ADOPT_PODGROUP
        );
        return Some(known(now, Reason::WaitingForPodGroup, &words));
    }
    only_told(now).or_else(|| {
        let words = match now.has_fixed_templates {
            true => "its pods do not name a PodGroup; create the job anew",
            false => "its pods do not name a PodGroup; suspend and resume it",
        };
        let is_unmarked = has_begun && now.state != State::Held && !now.is_marked && now.gang.is_some();
        is_unmarked.then(|| known(now, Reason::NotGangScheduled, words))
    })
}

/// What nobody but Portcullis can know, as long as the rest still fits.
fn only_told(now: &Situation<'_>) -> Option<Cause> {
    let acted = acted(now);
    let awaits = matches!(now.state, State::Held | State::Waiting);
    let fits = |told: &&Told| {
        let is_last = told.time >= acted;
        match told.reason.as_str() {
            "PodGroupRefused" => is_last && is_still_refused(now, &told.sentence),
            "HoldTimedOut" => {
                !now.stands && matches!(now.state, State::Running | State::Waiting | State::NoGang)
            }
            "WaitingForOldGroup" | "PodGroupConflict" | "GangSchedulerNotServed" => {
                is_last && awaits && !now.stands
            }
            "WaitingForGang" => now.is_native && now.stands && now.state == State::Waiting,
            "NotGangScheduled" => !now.is_marked && now.state == State::Suspended && now.has_fixed_templates,
            // It is told with each turn, so before what was done in it.
            "UnknownPriorityClass" => now.gang.is_some() && !now.knows_classes,
            _ => false,
        }
    };
    let told = now.told.iter().filter(fits).max_by_key(|told| told.time)?;
    Some(Cause {
        reason: Some(told.reason.clone()),
        sentence: told.sentence.clone(),
    })
}

/// A refusal begins with the step that was refused; each is tried only while this holds.
fn is_still_refused(now: &Situation<'_>, sentence: &str) -> bool {
    match sentence.split_once(':').map(|(step, _)| step) {
        Some("create") => !now.stands && now.state != State::Suspended,
        Some("update") => now.stands && now.state != State::Suspended,
        Some("delete") => now.stands,
        Some("release") => now.state == State::Held,
        Some("mark") => matches!(now.state, State::Held | State::Suspended),
        Some(_) | None => true,
    }
}

fn remark(now: &Situation<'_>, is_warning: bool) -> Option<Cause> {
    let mut notices = now.gang?.notices.iter();
    let is_known = |notice: &Notice| now.knows_classes || notice.reason != Reason::UnknownPriorityClass;
    let notice = notices.find(|notice| notice.reason.is_warning() == is_warning && is_known(notice))?;
    Some(cause(notice.reason, &notice.sentence))
}
