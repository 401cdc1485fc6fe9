//! `bluetick archive`: moves old messages to the archive and back, verifies the archive, and shows
//! its status.

use bluetick_wire::http::{ArchiveRunRequest, ReportBody, RestoreRequest};
use serde::Serialize;

use crate::archive::{ArchiveClient, ArchiveTask, JobMeter, reported, status};
use crate::cli::{ArchiveCommand, OutputArgs, Places};
use crate::failure::Failure;
use crate::figures::counted;
use crate::output::print;
use crate::settings::{Inputs, Loaded};

pub fn run(command: &ArchiveCommand) -> Result<(), Failure> {
    match command {
        ArchiveCommand::Run(arguments) => {
            let conversation_id = arguments.conversation.map(|id| id.to_string());
            let request = ArchiveRunRequest { conversation_id, partial: arguments.partial.then_some(true) };
            carry_out(&ArchiveTask::Run(request), &arguments.places, arguments.output)
        }
        ArchiveCommand::Status(arguments) => {
            let archive = with(open(&arguments.places)?, ArchiveClient::status)?;
            if arguments.output.json { print_json(&archive) } else { print(&status(&archive)) }
        }
        ArchiveCommand::Verify(arguments) => {
            carry_out(&ArchiveTask::Verify, &arguments.places, arguments.output)
        }
        ArchiveCommand::Restore(arguments) => {
            let conversation_id = arguments.conversation.map(|id| id.to_string());
            let request = RestoreRequest { conversation_id, all: arguments.all.then_some(true) };
            carry_out(&ArchiveTask::Restore(request), &arguments.places, arguments.output)
        }
    }
}

/// Runs the task, shows its progress, and prints the report. Fails if the report names a problem.
pub fn carry_out(task: &ArchiveTask, places: &Places, output: OutputArgs) -> Result<(), Failure> {
    judge(&carry_out_unjudged(task, places, output)?)
}

/// Like [`carry_out`], but also returns `Ok` for a report that names problems.
pub fn carry_out_unjudged(
    task: &ArchiveTask,
    places: &Places,
    output: OutputArgs,
) -> Result<ReportBody, Failure> {
    let meter = JobMeter::new(output.json);
    let report = with(open(places)?, |client| client.carry_out(task, meter))?;
    if output.json {
        print_json(&report)?;
    } else {
        print(&reported(task, &report))?;
    }
    Ok(report)
}

/// Fails if the report names a problem.
pub fn judge(report: &ReportBody) -> Result<(), Failure> {
    match report {
        ReportBody::Verify(report) if report.problem_count > 0 => Err(Failure::failed(format!(
            "the archive has problems: {}",
            counted(report.problem_count, "problem")
        ))),
        ReportBody::Backup(report) if report.damaged_rows > 0 => Err(Failure::failed(format!(
            "the backup is complete, but {} of the store were already damaged; `bluetick check` lists them",
            counted(report.damaged_rows, "row")
        ))),
        _ => Ok(()),
    }
}

fn open(places: &Places) -> Result<ArchiveClient, Failure> {
    ArchiveClient::open(&Loaded::load(&Inputs::of_this_process(places.flags()))?.settings)
}

/// Closes the store even if `act` fails.
fn with<T>(
    client: ArchiveClient,
    act: impl FnOnce(&ArchiveClient) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let done = act(&client);
    client.close();
    done
}

fn print_json(body: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(body).expect("bodies hold strings and numbers only");
    print(&(text + "\n"))
}
