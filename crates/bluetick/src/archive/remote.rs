//! Runs archive jobs on a running server. The server continues a job if this command stops waiting.

use std::net::SocketAddr;
use std::time::Duration;

use bluetick_wire::http::{ArchiveBody, JobBegunBody, JobBody, ReportBody};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{ArchiveTask, JobMeter};
use crate::failure::Failure;
use crate::running::{JsonResponse, RunningServer, reason, refused};
use crate::settings::Settings;
use crate::stop_signals::StopSignals;

/// Interval between two requests for the state of a job. A shorter one adds load to the server.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Interval at which a backup asks again while the server runs another job. A shorter one adds
/// load.
const ASK_AGAIN_EVERY: Duration = Duration::from_millis(500);

/// The answer to a request to start a job. The server runs one job at a time.
enum JobStart {
    Job(String),
    NotYet(Failure),
}

pub struct RemoteArchive {
    server: RunningServer,
}

impl RemoteArchive {
    pub fn open(settings: &Settings, address: SocketAddr) -> Result<RemoteArchive, Failure> {
        Ok(RemoteArchive { server: RunningServer::open(settings, address)? })
    }

    pub fn status(&self) -> Result<ArchiveBody, Failure> {
        match self.server.call("GET", "/v1/archive", None)? {
            JsonResponse { status: 200, body } => understood(body),
            other => Err(refused(&other)),
        }
    }

    pub fn carry_out(&self, task: &ArchiveTask, meter: &JobMeter) -> Result<ReportBody, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Failure::failed(format!("cannot wait: {error}")))?;
        runtime.block_on(async {
            let mut stop = StopSignals::listen()?;
            let job_id = loop {
                match self.begin(task)? {
                    JobStart::Job(job_id) => break job_id,
                    JobStart::NotYet(_) if matches!(task, ArchiveTask::Backup(_)) => {
                        meter.say_why_it_waits("the server runs another job; the backup starts when it ends");
                    }
                    JobStart::NotYet(failure) => return Err(failure),
                }
                tokio::select! {
                    () = tokio::time::sleep(ASK_AGAIN_EVERY) => {}
                    _signal = stop.next() => {
                        return Err(Failure::failed("stopped waiting; no backup was started"));
                    }
                }
            };
            loop {
                tokio::select! {
                    () = tokio::time::sleep(LOOK_EVERY) => {}
                    _signal = stop.next() => {
                        meter.clear();
                        return Err(Failure::failed(
                            "stopped waiting; the job continues in the server, and `bluetick archive status` shows it",
                        ));
                    }
                }
                let job = self.job(&job_id)?;
                if let Some(stage) = job.stage {
                    meter.advanced_to(stage, job.done, job.total);
                }
                if job.finished_at.is_some() {
                    meter.clear();
                    return ended(job);
                }
            }
        })
    }

    fn begin(&self, task: &ArchiveTask) -> Result<JobStart, Failure> {
        let (path, body) = match task {
            ArchiveTask::Run(request) => ("/v1/archive/run", said(request)),
            ArchiveTask::Verify => ("/v1/archive/verify", json!({})),
            ArchiveTask::Restore(request) => ("/v1/archive/restore", said(request)),
            ArchiveTask::Erase(request) => ("/v1/erasures", said(request)),
            ArchiveTask::Backup(request) => ("/v1/backups", said(request)),
        };
        let answer = self.server.call("POST", path, Some(&body))?;
        match (answer.status, answer.body["error"]["code"].as_str()) {
            (202, _) => understood(answer.body).map(|JobBegunBody { job_id }| JobStart::Job(job_id)),
            (_, Some("archive_busy")) => Ok(JobStart::NotYet(Failure::failed(
                "the server runs another archive job; `bluetick archive status` shows it",
            ))),
            (_, Some("archive_off")) => {
                Err(Failure::usage(format!("in the running server, {}", reason(&answer))))
            }
            (_, Some("invalid_request")) if matches!(task, ArchiveTask::Backup(_)) => {
                Err(Failure::usage(reason(&answer)))
            }
            (_, Some("conversation_not_found")) => Err(Failure::failed(reason(&answer))),
            _ => Err(refused(&answer)),
        }
    }

    fn job(&self, job_id: &str) -> Result<JobBody, Failure> {
        match self.server.call("GET", &format!("/v1/archive/jobs/{job_id}"), None)? {
            JsonResponse { status: 200, body } => understood(body),
            JsonResponse { status: 404, .. } => {
                Err(Failure::failed("the server was restarted and does not know the result of the job"))
            }
            other => Err(refused(&other)),
        }
    }
}

fn ended(job: JobBody) -> Result<ReportBody, Failure> {
    match (job.report, job.error) {
        (Some(report), _) => Ok(report),
        (None, error) => Err(Failure::failed(error.unwrap_or_else(|| "the job failed".into()))),
    }
}

fn said(request: &impl Serialize) -> Value {
    serde_json::to_value(request).expect("requests are plain data")
}

fn understood<T: DeserializeOwned>(body: Value) -> Result<T, Failure> {
    serde_json::from_value(body).map_err(|_| {
        Failure::failed(
            "the running server sent an unexpected answer; do both programs have the same version?",
        )
    })
}

#[cfg(test)]
#[path = "remote_tests.rs"]
mod tests;
