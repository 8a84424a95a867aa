//! Runs the cases of one test binary on clusters that they share.
//!
//! Cases that only use namespaces of their own run side by side. Then those that stop, freeze or cut something: one at a
//! time on each rig.

use std::path::Path;
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use libtest_mimic::{Arguments, Conclusion, Trial};
use tokio::runtime::Handle;
use tokio::sync::OnceCell;

/// A case fails after this time, if it says no other.
pub const LIMIT: Duration = Duration::from_secs(240);
/// So many of the slowest cases are named at the end.
const SLOWEST: usize = 12;

/// The clusters and processes that cases share.
pub trait Rig: Send + Sync + Sized + 'static {
    /// Starts all of it.
    fn start() -> impl Future<Output = Result<Self>>;

    /// Before a case that has it for itself: mends what the case before may have left.
    fn recover(&self) -> impl Future<Output = Result<()>>;

    /// Where its logs are.
    fn folder(&self) -> &Path;
}

/// One test.
pub struct Case<R> {
    /// Says what it checks.
    pub name: &'static str,
    /// Whether it must have a rig for itself.
    pub alone: bool,
    /// It fails after this time.
    pub limit: Duration,
    /// What it does.
    pub run: fn(Arc<R>) -> Running,
}

/// A case that runs.
pub type Running = Pin<Box<dyn Future<Output = Result<()>>>>;

/// `case!(function)`: beside others; `case!(alone function)`: by itself.
#[macro_export]
macro_rules! case {
    (alone $function:ident) => {
        $crate::suite::Case {
            alone: true,
            ..$crate::case!($function)
        }
    };
    ($function:ident) => {
        $crate::suite::Case {
            name: concat!(module_path!(), "::", stringify!($function)),
            alone: false,
            limit: $crate::suite::LIMIT,
            run: |rig| Box::pin($function(rig)),
        }
    };
}

/// How the cases of a binary run.
#[derive(Clone, Copy, Debug)]
pub struct Suite {
    /// For the last line.
    pub name: &'static str,
    /// So many cases at a time that need no rig for themselves; `--test-threads` says otherwise.
    pub beside: usize,
    /// So many rigs for those that do; all but the first start when they are needed.
    pub rigs: usize,
}

impl Suite {
    /// Runs the cases that the command line asks for.
    #[must_use]
    pub fn run<R: Rig>(self, cases: Vec<Case<R>>) -> ExitCode {
        let mut arguments = Arguments::from_args();
        let runtime = tokio::runtime::Runtime::new().expect("a runtime starts");
        let shared = Arc::new(Shared::<R>::new(self.rigs, runtime.handle().clone()));
        let (beside, alone): (Vec<_>, Vec<_>) = cases.into_iter().partition(|case| !case.alone);
        if arguments.list {
            let all = beside.into_iter().chain(alone).collect();
            return libtest_mimic::run(&arguments, trials(all, &shared)).exit_code();
        }
        if let Err(error) = runtime.block_on(shared.slots[0].get()) {
            eprintln!("the clusters did not start: {error:#}");
            return ExitCode::FAILURE;
        }
        arguments.test_threads = arguments.test_threads.or(Some(self.beside));
        let first = libtest_mimic::run(&arguments, trials(beside, &shared));
        arguments.test_threads = Some(self.rigs);
        let second = libtest_mimic::run(&arguments, trials(alone, &shared));
        let failed = first.has_failed() || second.has_failed();
        shared.print_times();
        if failed {
            shared.print_folders();
        }
        let sum = |of: fn(&Conclusion) -> u64| of(&first) + of(&second);
        println!(
            "{}: {} passed, {} failed",
            self.name,
            sum(|run| run.num_passed),
            sum(|run| run.num_failed)
        );
        drop(shared); // the clusters end
        if failed {
            ExitCode::FAILURE
        } else {
            ExitCode::SUCCESS
        }
    }
}

fn trials<R: Rig>(cases: Vec<Case<R>>, shared: &Arc<Shared<R>>) -> Vec<Trial> {
    let trial = |case: Case<R>| {
        let shared = shared.clone();
        Trial::test(case.name, move || {
            shared.run(&case).map_err(|error| format!("{error:#}").into())
        })
    };
    cases.into_iter().map(trial).collect()
}

struct Shared<R> {
    slots: Vec<Slot<R>>,
    /// Numbers of rigs that no case has for itself; the last one is the next.
    free: Mutex<Vec<usize>>,
    times: Mutex<Vec<(Duration, &'static str)>>,
    handle: Handle,
}

struct Slot<R>(OnceCell<Arc<R>>);

impl<R: Rig> Slot<R> {
    async fn get(&self) -> Result<Arc<R>> {
        let start = async || R::start().await.map(Arc::new);
        self.0.get_or_try_init(start).await.cloned()
    }
}

impl<R: Rig> Shared<R> {
    fn new(rigs: usize, handle: Handle) -> Self {
        Self {
            slots: (0..rigs).map(|_| Slot(OnceCell::new())).collect(),
            free: Mutex::new((0..rigs).rev().collect()),
            times: Mutex::default(),
            handle,
        }
    }

    fn run(&self, case: &Case<R>) -> Result<()> {
        let taken = case.alone.then(|| Taken::of(&self.free));
        let slot = &self.slots[taken.as_ref().map_or(0, |taken| taken.number)];
        self.handle.block_on(async {
            let rig = slot.get().await.context("the clusters did not start")?;
            let began = Instant::now();
            if case.alone {
                rig.recover().await.context("recover from the case before")?;
            }
            let outcome = tokio::time::timeout(case.limit, (case.run)(rig)).await;
            locked(&self.times).push((began.elapsed(), case.name));
            outcome.map_err(|_| anyhow!("not done in {:?}", case.limit))?
        })
    }

    fn print_times(&self) {
        let mut times = locked(&self.times);
        times.sort_unstable();
        println!("slowest, with the time to recover from the case before:");
        for (time, name) in times.iter().rev().take(SLOWEST) {
            println!("{:>6.1} s  {name}", time.as_secs_f64());
        }
    }

    fn print_folders(&self) {
        for rig in self.slots.iter().filter_map(|slot| slot.0.get()) {
            eprintln!("logs are in {}", rig.folder().display());
        }
    }
}

/// A rig that one case has for itself; it is free again afterwards, also if the case panics.
struct Taken<'a> {
    number: usize,
    free: &'a Mutex<Vec<usize>>,
}

impl<'a> Taken<'a> {
    fn of(free: &'a Mutex<Vec<usize>>) -> Self {
        let number = locked(free).pop().expect("there are as many rigs as threads");
        Self { number, free }
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        locked(self.free).push(self.number);
    }
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
