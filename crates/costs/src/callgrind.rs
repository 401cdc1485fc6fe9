//! Counts instructions under callgrind: this program runs itself under valgrind and reads
//! callgrind's profile of each thread.
//!
//! The two processes exchange lines. The child reports when it is ready; the parent enables
//! counting and sends `go`. They do the same at the end. The parent controls counting, because a
//! thread can enable it only for itself.

use std::fs;
use std::io::{self, BufRead, BufReader, Write, stdin};
use std::path::{Path as FilePath, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;

use crate::workload::Path;

/// Callgrind's number of the main thread, which runs the clients. Its costs are not the server's
/// and are ignored.
const MAIN_THREAD: u64 = 1;

/// The server's costs in one measured run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub instructions: u64,
    pub allocations: u64,
    /// Number of writes to sockets.
    pub writes: u64,
}

/// The counts of a measured run and the amount of work they cover.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Performance {
    pub counts: Counts,
    /// Number of messages, deliveries or pages.
    pub units: u64,
    /// Number of frames written to WebSockets.
    pub frames: u64,
}

/// Runs a path's workload once, on command of the parent process.
pub fn perform(path: Path) {
    let mut rehearsed = path.rehearse();
    println!("{} {}", rehearsed.units(), rehearsed.frames());
    wait_for_a_line();
    rehearsed.perform();
    println!("performed");
    wait_for_a_line();
    rehearsed.end();
}

/// Waits for a line on standard input in a busy loop. Valgrind polls for outside commands only
/// while a thread runs.
fn wait_for_a_line() {
    let heard = thread::spawn(|| stdin().lock().lines().next());
    while !heard.is_finished() {
        thread::yield_now();
    }
}

/// Runs a path under callgrind. The error is a sentence that describes the problem.
pub(crate) fn count(path: Path) -> Result<Performance, String> {
    let program =
        std::env::current_exe().map_err(|error| format!("cannot find the path of this program: {error}"))?;
    let output = empty_directory(&program, path)
        .map_err(|error| format!("cannot create the profile directory: {error}"))?;
    let mut running = Command::new("valgrind")
        .args(["--tool=callgrind", "--instr-atstart=no", "--separate-threads=yes", "--vgdb-poll=100"])
        .args(["--compress-strings=no", "--compress-pos=no", "--quiet"])
        .arg(format!("--callgrind-out-file={}/out", output.display()))
        .arg(program)
        .args(["perform", path.name()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot run valgrind: {error}"))?;
    let counted = conduct(&mut running);
    if counted.is_err() {
        // The child still waits for a line that the parent will not send.
        let _ = running.kill();
    }
    let ended = running.wait().map_err(|error| error.to_string())?;
    let (units, frames) = counted?;
    if !ended.success() {
        return Err(format!("valgrind ended with {ended}"));
    }
    let mut counts = Counts::default();
    for file in fs::read_dir(&output).map_err(|error| error.to_string())? {
        let file = file.map_err(|error| error.to_string())?;
        counts.add(&fs::read_to_string(file.path()).map_err(|error| error.to_string())?);
    }
    Ok(Performance { counts, units, frames })
}

/// Creates an empty profile directory in the build's target directory, where `callgrind_annotate`
/// can read the profiles later.
fn empty_directory(program: &FilePath, path: Path) -> io::Result<PathBuf> {
    let target = program.parent().and_then(FilePath::parent).ok_or(io::ErrorKind::NotFound)?;
    let directory = target.join("callgrind").join(path.name());
    match fs::remove_dir_all(&directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => fs::create_dir_all(&directory)?,
    }
    Ok(directory)
}

/// Enables and disables counting around the measured run. Returns its number of units and frames.
fn conduct(running: &mut Child) -> Result<(u64, u64), String> {
    let lost = || "the program under valgrind ended too early".to_owned();
    let mut said = BufReader::new(running.stdout.take().ok_or_else(lost)?).lines();
    let mut hear = || said.next().and_then(Result::ok).ok_or_else(lost);
    let mut told = running.stdin.take().ok_or_else(lost)?;
    let mut go = || told.write_all(b"go\n").map_err(|_| lost());
    let size = hear()?;
    instrumentation(running.id(), "on")?;
    go()?;
    hear()?;
    instrumentation(running.id(), "off")?;
    go()?;
    let size =
        size.split_once(' ').and_then(|(units, frames)| Some((units.parse().ok()?, frames.parse().ok()?)));
    size.ok_or_else(lost)
}

fn instrumentation(process: u32, switch: &str) -> Result<(), String> {
    let told = Command::new("vgdb")
        .args([format!("--pid={process}").as_str(), "instrumentation", switch])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    match told {
        Ok(status) if status.success() => Ok(()),
        other => Err(format!("vgdb, which comes with valgrind, cannot reach the program: {other:?}")),
    }
}

impl Counts {
    /// Adds the counts of one thread's callgrind profile.
    fn add(&mut self, profile: &str) {
        let field =
            |name| profile.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok());
        if field("thread:") == Some(MAIN_THREAD) {
            return;
        }
        self.instructions += field("totals:").unwrap_or_default();
        let mut called = "";
        for line in profile.lines() {
            if let Some(name) = line.strip_prefix("cfn=") {
                called = name;
            } else if let Some(calls) = line.strip_prefix("calls=") {
                let calls = calls.split(' ').next().and_then(|calls| calls.parse().ok()).unwrap_or(0);
                self.called(called, calls);
            }
        }
    }

    fn called(&mut self, function: &str, calls: u64) {
        match function {
            "malloc" | "calloc" | "realloc" | "aligned_alloc" | "posix_memalign" => self.allocations += calls,
            "send" | "sendmsg" | "writev" => self.writes += calls,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(thread: u64) -> String {
        format!(
            "version: 1\npart: 1\nthread: {thread}\n\nfn=a\n1 5\ncfn=malloc\ncalls=3 0\n1 30\ncfn=send\ncalls=2 0\n\
             1 20\nfn=b\ncfn=free\ncalls=9 0\n1 9\ncfn=realloc\ncalls=1 0\n1 7\n\ntotals: 71\n"
        )
    }

    #[test]
    fn instructions_of_every_thread_except_the_clients_are_counted() {
        let mut counts = Counts::default();
        for thread in 1..=3 {
            counts.add(&profile(thread));
        }
        assert_eq!(counts, Counts { instructions: 142, allocations: 8, writes: 4 });
    }
}
