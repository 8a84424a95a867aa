//! What a user should know about a job's gang, though nothing is refused: a reason, and a sentence.

use std::fmt;

/// A remark on a job: an Event on a cluster, a warning of `kubectl`, a line of `portcullis podgroup`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Notice {
    /// One word, for machines.
    pub reason: Reason,
    /// What is the case, and what to do.
    pub sentence: String,
}

impl Notice {
    /// A remark.
    #[must_use]
    pub fn new(reason: Reason, sentence: impl Into<String>) -> Self {
        Self {
            reason,
            sentence: sentence.into(),
        }
    }
}

impl fmt::Display for Notice {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.reason.name(), self.sentence)
    }
}

macro_rules! reasons {
    ($($(#[doc = $doc:literal])+ $name:ident $severity:ident,)+) => {
        /// Why a remark is made.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Reason {
            $($(#[doc = $doc])+ $name,)+
        }

        impl Reason {
            /// Every reason there is.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// The word, as in Events and metric labels.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)+
                }
            }

            /// Whether an Event of this reason is of type Warning; others are Normal.
            #[must_use]
            pub fn is_warning(self) -> bool {
                match self {
                    $(Self::$name => reasons!(@ $severity),)+
                }
            }
        }
    };
    (@ warning) => { true };
    (@ normal) => { false };
}

reasons! {
    /// No PodGroup: nothing asks for one.
    NotOptedIn normal,
    /// No PodGroup: the job runs elsewhere.
    ManagedElsewhere normal,
    /// No PodGroup: the job has ended.
    Finished normal,
    /// No PodGroup: the job is being deleted.
    Deleting normal,
    /// No PodGroup: the job belongs to another job, whose gang it is part of.
    PartOfAnotherJob normal,
    /// No PodGroup of ours: the user, or the job's own controller, makes one.
    UserManagedPodGroup normal,
    /// No PodGroup of ours: the job's operator manages it.
    OperatorManagesPodGroup warning,
    /// No PodGroup: the operator will refuse the job.
    UnknownReplicaType warning,
    /// No PodGroup: there is no pod.
    NoPods warning,
    /// No PodGroup: the pods name a scheduler that would never look at it.
    SchedulerNameMismatch warning,
    /// A stored `minAvailable` is out of range, the default counts.
    InvalidMinAvailable warning,
    /// The launcher comes after the workers and does not count.
    LauncherExcluded warning,
    /// On a worker the launcher starts with the workers, and does not wait for them.
    LauncherStartsEarly warning,
    /// A job that needs all of its pods may start with fewer.
    PartialGang warning,
    /// Pods of one gang differ in priority.
    MixedPriorities warning,
    /// A PriorityClass does not exist.
    UnknownPriorityClass warning,
    /// A queue's name is empty.
    EmptyQueue warning,
    /// The back end has no queues.
    QueueIgnored normal,
    /// The back end has no timeout.
    TimeoutIgnored normal,
    /// The back end has no minimum of resources.
    MinResourcesIgnored normal,
    /// The back end's groups have no priority, and the pods keep theirs.
    PriorityClassIgnored normal,
    /// Devices have no amount that could be summed.
    ResourceClaimsNotCounted normal,
    /// A stored job cannot be read or has a value that admission would refuse.
    InvalidJob warning,
    /// The gang scheduler's API is not there, or not switched on.
    GangSchedulerNotServed warning,
    /// Pods of the namespace are dispatched one by one.
    GangUnsupported warning,
    /// The job started before its templates named a group.
    NotGangScheduled warning,
    /// The PodGroup that the job adopts is not there.
    WaitingForPodGroup warning,
    /// The PodGroup's name is taken.
    PodGroupConflict warning,
    /// The PodGroup could not be made in time.
    HoldTimedOut warning,
    /// A native group waits, which its pods do not say.
    WaitingForGang normal,
    /// A group of this name goes, but is still there.
    WaitingForOldGroup normal,
}

impl Reason {
    /// Whether a job with a hold waits for this.
    #[must_use]
    pub fn is_wait(self) -> bool {
        matches!(
            self,
            Self::GangSchedulerNotServed
                | Self::WaitingForPodGroup
                | Self::PodGroupConflict
                | Self::WaitingForOldGroup
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_one_word_in_camel_case() {
        for reason in Reason::ALL {
            assert_eq!(reason.name(), format!("{reason:?}"));
        }
        let notice = Notice::new(Reason::NoPods, "no pod.");
        assert_eq!(notice.to_string(), "NoPods: no pod.");
    }
}
