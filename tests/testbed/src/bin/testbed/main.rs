//! `testbed`: real clusters for people, and the demo.

mod clusters;
mod demo;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(about = "Real Kubernetes clusters on this machine, and the demo of portcullis on them")]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Builds the programs of a cluster if they are missing (minutes, once per machine).
    Build,
    /// Starts a manager and two workers that go on, and prints their administrators' kubeconfigs.
    Clusters,
    /// Ends the clusters of `testbed clusters`.
    Down,
    /// Shows what portcullis does, on three new clusters.
    Demo {
        /// The portcullis to show.
        #[arg(long, default_value = "target/release/portcullis")]
        binary: PathBuf,
        /// Leave everything running and print how to reach it.
        #[arg(long)]
        keep: bool,
    },
    /// Ends what `testbed demo --keep` left.
    DemoDown,
}

#[tokio::main]
async fn main() -> ExitCode {
    let done = match Args::parse().command {
        Command::Build => clusters::build().await,
        Command::Clusters => clusters::up().await,
        Command::Down => {
            clusters::down(clusters::CLUSTERS);
            Ok(())
        }
        Command::Demo { binary, keep } => demo::run(&binary, keep).await,
        Command::DemoDown => {
            clusters::down(clusters::DEMO);
            Ok(())
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("testbed: {error:#}");
            ExitCode::FAILURE
        }
    }
}
