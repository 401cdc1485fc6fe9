//! From JSON text to a type, with an error that names the field.

use serde::Deserialize;
use thiserror::Error;

/// The input does not mean anything. The text is for the client and never repeats what the client sent.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{0}")]
pub struct BadInput(String);

impl BadInput {
    pub fn new(message: impl Into<String>) -> BadInput {
        BadInput(message.into())
    }

    /// Something is wrong with the value of one field.
    pub fn field(name: &str, problem: impl std::fmt::Display) -> BadInput {
        BadInput(format!("{name}: {problem}"))
    }
}

/// Fields that nobody knows are passed over, so that newer clients can talk to older servers.
pub fn decode<'a, T: Deserialize<'a>>(json: &'a [u8]) -> Result<T, BadInput> {
    // Only what fails is read again with its path kept, since keeping it costs time on every field.
    serde_json::from_slice(json).map_err(|error| explain::<T>(json, &error))
}

fn explain<'a, T: Deserialize<'a>>(json: &'a [u8], first: &serde_json::Error) -> BadInput {
    if first.is_syntax() || first.is_eof() {
        return BadInput(format!("not valid JSON at line {} column {}", first.line(), first.column()));
    }
    let mut reader = serde_json::Deserializer::from_slice(json);
    match serde_path_to_error::deserialize::<_, T>(&mut reader) {
        Ok(_) => BadInput(first.to_string()),
        Err(error) => {
            let path = error.path().to_string();
            let problem = error.into_inner().to_string();
            let problem = without_values(&problem);
            if path == "." { BadInput(problem) } else { BadInput(format!("{path}: {problem}")) }
        }
    }
}

/// serde quotes the offending value (`invalid type: string "…", expected …`), which may be a password.
fn without_values(problem: &str) -> String {
    let problem = problem.split(" at line ").next().unwrap_or(problem);
    match (problem.strip_prefix("invalid "), problem.rfind(", expected ")) {
        (Some(_), Some(at)) => problem[at + 2..].to_string(),
        _ => problem.to_string(),
    }
}
