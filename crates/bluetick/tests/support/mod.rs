//! Runs the binary in its own working directory, with an environment without settings.

#![allow(dead_code, reason = "each test file uses its part")]

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

pub struct Shell {
    pub directory: TempDir,
}

impl Shell {
    pub fn new() -> Shell {
        Shell { directory: tempfile::tempdir().unwrap() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn file(&self, name: &str, content: &str) {
        fs::write(self.path(name), content).unwrap();
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bluetick"));
        command.args(arguments).current_dir(self.directory.path()).env_clear().stdin(Stdio::null());
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Outcome {
        Outcome::of(self.command(arguments).output().unwrap())
    }

    pub fn run_with(&self, variable: (&str, &str), arguments: &[&str]) -> Outcome {
        Outcome::of(self.command(arguments).env(variable.0, variable.1).output().unwrap())
    }

    pub fn run_with_input(&self, input: &str, arguments: &[&str]) -> Outcome {
        let mut command = self.command(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        Outcome::of(child.wait_with_output().unwrap())
    }
}

pub struct Outcome {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Outcome {
    pub fn of(output: Output) -> Outcome {
        Outcome {
            code: output.status.code().unwrap(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Asserts that the command succeeded, and returns its output.
    #[track_caller]
    pub fn printed(self) -> String {
        assert_eq!(self.code, 0, "{}", self.stderr);
        self.stdout
    }

    /// Asserts a usage error (exit code 2) in one line, and returns that line.
    #[track_caller]
    pub fn refused(self) -> String {
        assert_eq!(self.code, 2, "{}{}", self.stdout, self.stderr);
        assert_eq!(self.stderr.lines().count(), 1, "{}", self.stderr);
        assert_eq!(self.stdout, "");
        self.stderr
    }
}
