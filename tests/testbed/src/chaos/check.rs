//! The judge: audit logs and live objects -> violations of the promises.

mod jobs;
mod live;

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use anyhow::{Result, bail};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

use super::audit::{self, ACCOUNT, Event};
use super::history;
use crate::World;
use live::list;

/// Label of every remote pod.
const ORIGIN: &str = "portcullis.dev/origin";

/// What can be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Two remote pods or jobs of one local UID were opened, and the first was not taken back unscheduled before.
    OpenedTwice,
    /// Two remote pods of one local UID got a node, or two remote jobs of one were not suspended.
    BoundTwice,
    /// Opened, or not suspended, before any local object recorded it.
    OpenedUncommitted,
    /// Two opened remote pods of one name at the same time.
    TwoAtOnce,
    /// A pod of an opted-in namespace got a node of the manager, or a pod of a whole job was made there.
    RanOnManager,
    /// A remote pod with a node, or a job that was opened, was deleted by us though its local object was neither deleted
    /// nor ended; or a local job before its end.
    KilledHealthy,
    /// A local pod or job failed though nobody deleted its copy.
    FailedWithoutCause,
    /// The local pod or job says something else than its copy.
    StatusUntrue,
    /// The local pod was told that a worker is not registered; nobody takes one off while the judge looks.
    WorkerDenied,
    /// The copy was made from another spec than the local pod or job has.
    StaleCopy,
    /// A pod or job that is not ours was changed or deleted.
    ForeignTouched,
    /// What should run does not.
    NotRunning,
    /// Something of ours remained.
    LeftOver,
    /// We wrote though nothing happened.
    WroteInQuiet,
}

/// One of them.
#[derive(Clone, Debug)]
pub struct Violation {
    pub kind: Kind,
    pub what: String,
    /// `namespace/name` of the pods it is about.
    pub pod: Option<(String, String)>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VIOLATION {:?}: {}", self.kind, self.what)
    }
}

/// A pod on a worker that has nothing to do with us.
#[derive(Clone, Debug)]
pub struct Foreign {
    /// Place of the worker in the world.
    pub worker: usize,
    pub pod: Pod,
}

/// Judges some namespaces of a world.
pub struct Checker<'a> {
    world: &'a World,
    namespaces: BTreeSet<String>,
    foreign: Vec<Foreign>,
}

impl<'a> Checker<'a> {
    #[must_use]
    pub fn new(
        world: &'a World,
        namespaces: impl IntoIterator<Item = String>,
        foreign: Vec<Foreign>,
    ) -> Self {
        Self {
            world,
            namespaces: namespaces.into_iter().collect(),
            foreign,
        }
    }

    /// Everything that can be said now: the history, and what is there.
    ///
    /// # Errors
    /// A cluster or its log could not be read.
    pub async fn judge(&mut self) -> Result<Vec<Violation>> {
        let mut violations = self.judge_history()?;
        violations.extend(self.untrue().await?);
        violations.extend(self.jobs_untrue().await?);
        violations.extend(self.foreign_touched().await?);
        violations.extend(self.not_running().await?);
        violations.extend(self.jobs_not_running().await?);
        Ok(violations)
    }

    /// # Errors
    /// A log could not be read.
    pub fn judge_history(&self) -> Result<Vec<Violation>> {
        let events = self.events()?;
        let manager = self.world.manager.name();
        let (lives, locals) = (audit::lives(&events, manager), audit::locals(&events, manager));
        let mut violations = Vec::new();
        history::repeated(&lives, &mut violations);
        history::at_once(&lives, &mut violations);
        history::denied(&events, manager, &mut violations);
        for life in lives.values() {
            history::uncommitted(life, locals.get(&life.local_uid), &mut violations);
            history::killed(life, locals.get(&life.local_uid), &mut violations);
        }
        for (uid, local) in &locals {
            history::failed(uid, local, &lives, &mut violations);
            history::expired(uid, local, &mut violations);
        }
        history::foreign(&events, manager, &mut violations);
        history::made_here(&events, manager, &mut violations);
        for event in events
            .iter()
            .filter(|event| event.cluster == manager && event.resource == "pods/binding")
        {
            if event.took_effect() {
                violations.push(Violation {
                    kind: Kind::RanOnManager,
                    what: format!("{}/{} got a node of the manager", event.namespace, event.name),
                    pod: Some((event.namespace.clone(), event.name.clone())),
                });
            }
        }
        Ok(violations)
    }

    /// Answers when everything that should run runs; errs with what does not.
    ///
    /// # Errors
    /// Something is not at rest.
    pub async fn rest(&mut self, all: bool) -> Result<Option<()>> {
        let mut open = Vec::new();
        if all {
            open.extend(self.not_running().await?);
            open.extend(self.jobs_not_running().await?);
        }
        open.extend(self.untrue().await?);
        open.extend(self.jobs_untrue().await?);
        match open.first() {
            None => Ok(Some(())),
            Some(first) => bail!("{} open, such as {first}", open.len()),
        }
    }

    /// Watches for writes of the process while nothing happens.
    ///
    /// # Errors
    /// A log could not be read.
    pub async fn quiet(&self, window: Duration) -> Result<Vec<Violation>> {
        let began = jiff::Timestamp::now();
        tokio::time::sleep(window).await;
        let mut violations = Vec::new();
        for cluster in self.world.clusters() {
            for write in cluster.ledger()?.since(began).writes_by(ACCOUNT) {
                violations.push(Violation {
                    kind: Kind::WroteInQuiet,
                    what: format!(
                        "{} {} {}/{} on {}",
                        write.verb,
                        write.resource,
                        write.namespace,
                        write.name,
                        cluster.name()
                    ),
                    pod: Some((write.namespace.clone(), write.name.clone())),
                });
            }
        }
        Ok(violations)
    }

    /// Answers when no pod and no job of ours is left anywhere.
    ///
    /// # Errors
    /// Something is left.
    pub async fn nothing_left(&self) -> Result<Option<()>> {
        match self.left_over().await?.first() {
            None => Ok(Some(())),
            Some(first) => bail!("{first}"),
        }
    }

    /// After everything was deleted.
    ///
    /// # Errors
    /// A cluster could not be read.
    pub async fn left_over(&self) -> Result<Vec<Violation>> {
        let mut left: Vec<(String, Pod)> = self.remotes().await?;
        let manager = self.world.manager.admin_client().await?;
        for namespace in &self.namespaces {
            let locals = list::<Pod>(&manager, namespace).await?;
            left.extend(
                locals
                    .into_iter()
                    .map(|pod| (self.world.manager.name().to_owned(), pod)),
            );
        }
        let violation = |(cluster, pod): (String, Pod)| {
            let at = (pod.namespace().unwrap_or_default(), pod.name_any());
            let what = format!(
                "{}/{} on {cluster}, finalizers {:?}",
                at.0,
                at.1,
                pod.finalizers()
            );
            Violation {
                kind: Kind::LeftOver,
                what,
                pod: Some(at),
            }
        };
        let mut violations: Vec<Violation> = left.into_iter().map(violation).collect();
        violations.extend(self.jobs_left_over().await?);
        Ok(violations)
    }

    fn events(&self) -> Result<Vec<Event>> {
        let mut events = audit::read(self.world)?;
        events.retain(|event| self.namespaces.contains(&event.namespace));
        Ok(events)
    }

    /// What happened to the pods of a violation, from all audit logs.
    ///
    /// # Errors
    /// A log could not be read.
    pub fn history(&self, violation: &Violation) -> Result<String> {
        let Some((namespace, name)) = &violation.pod else {
            return Ok(String::new());
        };
        let events = self.events()?;
        let lines: Vec<String> = events
            .iter()
            .filter(|event| event.namespace == *namespace && event.name == *name)
            .map(Event::line)
            .collect();
        Ok(lines.join("\n"))
    }

    /// How much was judged.
    ///
    /// # Errors
    /// A log could not be read.
    pub fn summary(&self) -> Result<String> {
        let events = self.events()?;
        let manager = self.world.manager.name();
        let (lives, locals) = (audit::lives(&events, manager), audit::locals(&events, manager));
        let of = |pods: bool| {
            let here = locals.values().filter(|local| (local.subject == "pods") == pods);
            let there: Vec<_> = lives
                .values()
                .filter(|life| (life.subject == "pods") == pods)
                .collect();
            let opened = there.iter().filter(|life| life.opened.is_some()).count();
            let bound = there.iter().filter(|life| life.bound.is_some()).count();
            (here.count(), there.len(), opened, bound)
        };
        let (pods, remote_pods, opened, bound) = of(true);
        let (jobs, remote_jobs, jobs_opened, _) = of(false);
        let taken_back = locals.values().filter(|local| local.commits.len() > 1).count();
        let failed = |local: &&audit::Local| {
            let lost = |(_, _, reason): &(_, _, String)| reason.starts_with("RemoteJob");
            local.ended.as_ref().is_some_and(lost)
        };
        let lost = locals.values().filter(failed).count();
        let ended = locals
            .values()
            .filter(|local| local.subject != "pods" && local.ended.is_some());
        Ok(format!(
            "{pods} local pods, {remote_pods} remote pods, {opened} opened, {bound} bound, {taken_back} placed again, {} foreign; \
             {jobs} local jobs, {remote_jobs} remote jobs, {jobs_opened} opened, {} ended, {lost} of them lost",
            self.foreign.len(),
            ended.count()
        ))
    }
}
