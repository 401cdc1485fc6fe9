//! `bluetick-costs` counts the instructions of each path under callgrind and compares them with the
//! stored counts. It runs `bluetick-costs perform PATH` under callgrind.

use std::process::ExitCode;

use bluetick_costs::{Path, check, perform};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let performed = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => return check(),
        ["perform", name] => Path::named(name).map(perform),
        _ => None,
    };
    if performed.is_none() {
        eprintln!("usage: bluetick-costs [perform send|deliver|history]");
        return ExitCode::from(2);
    }
    ExitCode::SUCCESS
}
