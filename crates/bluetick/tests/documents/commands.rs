//! Checks that `bluetick` commands and their flags exist, by the help texts of the program.

use std::collections::{BTreeSet, HashMap};

use super::markdown::Document;
use crate::support::Shell;

/// Languages of code blocks that hold commands.
const SHELLS: [&str; 5] = ["", "sh", "bash", "shell", "console"];

/// First words of the command lines in `sh` blocks, beside assignments and function definitions.
/// Prose in such a block begins with other words.
const PROGRAMS: [&str; 15] = [
    "bluetick", "./test", "cargo", "cd", "cp", "curl", "docker", "done", "for", "mkdir", "node", "npm",
    "openssl", "sudo", "}",
];

/// The commands of the program. Each help text is read once.
#[derive(Default)]
pub struct Commands {
    pub checked: usize,
    helps: HashMap<Vec<String>, Help>,
}

/// The help text of one command.
#[derive(Clone, Debug)]
pub struct Help {
    pub text: String,
    pub commands: Vec<String>,
    flags: BTreeSet<String>,
}

impl Commands {
    /// Returns the help of a command that exists, such as `["user", "add"]`.
    pub fn help(&mut self, path: &[String]) -> Help {
        let read = || {
            let arguments: Vec<&str> = path.iter().map(String::as_str).chain(["--help"]).collect();
            Help::parse(Shell::new().run(&arguments).printed())
        };
        self.helps.entry(path.to_owned()).or_insert_with(read).clone()
    }

    pub fn problems(&mut self, document: &Document) -> Vec<String> {
        let mut problems = Vec::new();
        for piece in document.inline_code() {
            if piece.text == "bluetick" || piece.text.starts_with("bluetick ") {
                self.check(&piece.text, &document.at(piece.line), &mut problems);
            }
        }
        for block in document.blocks() {
            if SHELLS.contains(&block.language.as_str()) {
                self.check(&block.code.text, &document.at(block.code.line), &mut problems);
            }
        }
        problems
    }

    /// Returns the lines of `sh` blocks that begin with no known program. Prose that was wrapped
    /// into a block is found by them.
    pub fn prose_problems(&mut self, document: &Document) -> Vec<String> {
        let mut problems = Vec::new();
        for block in document.blocks().into_iter().filter(|block| block.language == "sh") {
            let mut is_continued = false;
            for (index, line) in block.code.text.lines().enumerate() {
                self.checked += 1;
                if !is_continued && !is_command(line) {
                    problems.push(format!("{}: no command: {line}", document.at(block.code.line + index)));
                }
                is_continued = line.ends_with('\\');
            }
        }
        problems
    }

    fn check(&mut self, text: &str, at: &str, problems: &mut Vec<String>) {
        for arguments in invocations(text) {
            self.checked += 1;
            if let Err(problem) = self.check_arguments(&arguments) {
                problems.push(format!("{at}: {problem} in `bluetick {}`", arguments.join(" ")));
            }
        }
    }

    fn check_arguments(&mut self, arguments: &[String]) -> Result<(), String> {
        let mut path: Vec<String> = Vec::new();
        let mut help = self.help(&path);
        for argument in arguments {
            if argument == "--" {
                return Ok(());
            } else if argument.starts_with('-') && argument.len() > 1 {
                let flag = argument.split('=').next().unwrap();
                if !help.flags.contains(flag) {
                    return Err(format!("no flag {flag}"));
                }
            } else if help.commands.contains(argument) {
                path.push(argument.clone());
                help = self.help(&path);
            } else if !help.commands.is_empty() {
                let is_placeholder = !argument.chars().any(|c| c.is_ascii_lowercase());
                return if is_placeholder { Ok(()) } else { Err(format!("no command {argument}")) };
            }
        }
        Ok(())
    }
}

impl Help {
    fn parse(text: String) -> Help {
        let listed = text.lines().skip_while(|line| *line != "Commands:").skip(1);
        let listed = listed.take_while(|line| line.starts_with("  "));
        // Descriptions may continue on lines that are indented further.
        let listed = listed.filter(|line| !line.starts_with("   "));
        let commands = listed.filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect();
        let options = text.lines().map(str::trim_start).filter(|line| line.starts_with('-'));
        let words = options.flat_map(|line| line.split([' ', ',', '=']));
        let flags = words.filter(|word| word.starts_with('-')).map(str::to_owned).collect();
        Help { text, commands, flags }
    }
}

/// Returns the arguments of every call of the program in a piece of shell.
fn invocations(text: &str) -> Vec<Vec<String>> {
    let text = text.replace("\\\n", " ").replace("$(", "\n").replace("||", "\n").replace("&&", "\n");
    let mut found = Vec::new();
    for line in text.lines() {
        for command in simple_commands(line) {
            let words: Vec<&str> = command.iter().map(String::as_str).collect();
            found
                .extend(program_arguments(&words).map(|words| words.iter().map(|&w| w.to_owned()).collect()));
        }
    }
    found
}

/// Returns the arguments if the words call the program, also by way of `sudo`, `cargo run` or a
/// container.
fn program_arguments<'w>(words: &'w [&'w str]) -> Option<&'w [&'w str]> {
    let is_program = |word: &str| word == "bluetick" || word.ends_with("/bluetick");
    let behind_dashes = words.iter().position(|word| *word == "--").map(|at| &words[at + 1..]);
    let is_run = words.starts_with(&["cargo", "run"]) && !words.contains(&"-p");
    if let Some(behind) = behind_dashes {
        return match behind.first() {
            _ if is_run => Some(behind),
            Some(first) if is_program(first) => Some(&behind[1..]),
            _ => None,
        };
    }
    let mut rest = words;
    loop {
        rest = match rest {
            ["$" | "exec" | "sudo" | "time" | "nice", more @ ..] => more,
            ["-u" | "-n", _, more @ ..] => more,
            [first, more @ ..] if is_assignment(first) => more,
            [first, more @ ..] => return is_program(first).then_some(more),
            [] => return None,
        }
    }
}

fn is_assignment(word: &str) -> bool {
    let name = word.split_once('=').map_or("", |(name, _)| name);
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Returns whether a line of a `sh` block begins like a command. Empty and indented lines and
/// comments count too.
fn is_command(line: &str) -> bool {
    let Some(first) = line.split(' ').next().filter(|first| !first.is_empty()) else { return true };
    let is_function = first.ends_with("()");
    first.starts_with('#') || PROGRAMS.contains(&first) || is_assignment(first) || is_function
}

/// Splits one line into commands and these into words. Knows quotes, comments and operators, but no
/// nesting.
fn simple_commands(line: &str) -> Vec<Vec<String>> {
    let (mut commands, mut words, mut word) = (Vec::new(), Vec::new(), String::new());
    let mut quote = None;
    let end_word = |word: &mut String, words: &mut Vec<String>| {
        if !word.is_empty() {
            words.push(std::mem::take(word));
        }
    };
    for c in line.chars() {
        match (quote, c) {
            (Some(mark), c) if c == mark => quote = None,
            (Some(_), c) => word.push(c),
            (None, '\'' | '"') => quote = Some(c),
            (None, '#') if word.is_empty() => break,
            (None, ' ' | '\t') => end_word(&mut word, &mut words),
            (None, ';' | '|' | '&' | '(' | ')' | '>' | '<') => {
                end_word(&mut word, &mut words);
                commands.push(std::mem::take(&mut words));
            }
            (None, c) => word.push(c),
        }
    }
    end_word(&mut word, &mut words);
    commands.push(words);
    commands
}
