//! The program: arguments in, exit code out.

use std::process::ExitCode;

use clap::Parser;
use portcullis::args::{Cli, Command, Preview};
use portcullis::cli::documents::Printout;
use portcullis::cli::podgroup::Translation;
use portcullis::cli::preview_admission::{self, PreviewError};
use portcullis::{app, cli, words};

fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("portcullis: {}", words::chain(error.as_ref()));
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Serve(args) => app::serve(args),
        Command::Crds => cli::crds::run(),
        Command::Manifests(args) => cli::manifests::run(&args),
        Command::Preview(Preview::Admission(args)) => {
            let result = preview_admission::preview_admission(&args);
            if let Err(PreviewError::Refused { printed, .. }) = &result {
                print!("{printed}");
            }
            print!("{}", result?);
            Ok(())
        }
        Command::Preview(Preview::Remote(args)) => print_out(args.run()?),
        Command::Preview(Preview::Status(args)) => print_out(args.run(&cli::now())?),
        Command::Podgroup(args) => {
            let Translation { printout, refusals } = args.run()?;
            print_out(printout)?;
            refusals.map_or(Ok(()), |refusals| Err(refusals.into()))
        }
        Command::Status(args) => cli::status::run(&args),
    }
}

fn print_out(Printout { stdout, stderr }: Printout) -> anyhow::Result<()> {
    eprint!("{stderr}");
    print!("{stdout}");
    Ok(())
}
