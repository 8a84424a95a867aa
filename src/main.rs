//! The program: arguments in, exit code out.

use std::process::ExitCode;

use clap::Parser;
use portcullis::args::{Cli, Command};
use portcullis::{app, cli};

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Serve(args) => app::serve(args),
        Command::Crds => cli::crds::run(),
        Command::Manifests(args) => cli::manifests::run(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("portcullis: {error:#}");
            ExitCode::FAILURE
        }
    }
}
