//! How a command ends when it does not succeed: a line on standard error for each mistake, and an
//! exit code: 2 for a usage error, 1 for a failure.

use std::fmt::{self, Display};
use std::process::ExitCode;

use bluetick_auth::AuthSetupError;

use crate::settings::Mistakes;

#[derive(Debug)]
pub enum Failure {
    /// The operator has to correct the request: a flag, a setting, a name.
    Usage(String),
    /// The request is valid, but the command could not complete it.
    Failed(String),
}

impl Failure {
    pub fn usage(reason: impl Display) -> Failure {
        Failure::Usage(reason.to_string())
    }

    pub fn failed(reason: impl Display) -> Failure {
        Failure::Failed(reason.to_string())
    }

    /// Merges the failures into one, with one line each. The result is `Usage` if any of them is,
    /// and `None` for an empty list.
    pub fn all(failures: Vec<Failure>) -> Option<Failure> {
        failures.into_iter().reduce(|one, next| {
            let lines = format!("{one}\n{next}");
            match (&one, &next) {
                (Failure::Failed(_), Failure::Failed(_)) => Failure::Failed(lines),
                _ => Failure::Usage(lines),
            }
        })
    }

    pub fn report(&self) -> ExitCode {
        for line in self.to_string().lines() {
            eprintln!("bluetick: {line}");
        }
        match self {
            Failure::Usage(_) => ExitCode::from(2),
            Failure::Failed(_) => ExitCode::from(1),
        }
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Failure::Usage(reason) | Failure::Failed(reason)) = self;
        f.write_str(reason)
    }
}

impl From<Mistakes> for Failure {
    fn from(mistakes: Mistakes) -> Failure {
        Failure::usage(mistakes)
    }
}

impl From<AuthSetupError> for Failure {
    fn from(error: AuthSetupError) -> Failure {
        match error {
            AuthSetupError::Write { .. } => Failure::failed(error),
            AuthSetupError::Read { .. }
            | AuthSetupError::BadFile { .. }
            | AuthSetupError::BadSetting { .. } => Failure::usage(error),
        }
    }
}
