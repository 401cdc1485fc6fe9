//! An entry of the audit trail and its JSON form.

use std::net::SocketAddr;

use bluetick_core::ports::EraseScope;
use bluetick_core::{ConversationId, Timestamp, UserId};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

/// One line of the audit trail. Serialization keeps the order of the fields.
#[derive(Clone, Debug, Serialize)]
pub struct AuditEntry {
    #[serde(serialize_with = "spell_moment")]
    pub at: Timestamp,
    pub act: Act,
    pub outcome: Outcome,
    /// The user or conversation that the act affects; absent if it affects the whole server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<Subject>,
    pub who: Who,
    /// The same in all entries of one act.
    pub request_id: String,
    /// Why the act was refused or failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Further details; omitted if null.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub detail: Value,
}

/// An administrative act.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Act {
    #[serde(rename = "server.start")]
    ServerStart,
    #[serde(rename = "server.drain")]
    ServerDrain,
    #[serde(rename = "token.mint")]
    TokenMint,
    #[serde(rename = "user.create")]
    UserCreate,
    #[serde(rename = "user.password")]
    UserPassword,
    #[serde(rename = "user.revoke")]
    UserRevoke,
    #[serde(rename = "archive.run")]
    ArchiveRun,
    #[serde(rename = "archive.verify")]
    ArchiveVerify,
    #[serde(rename = "archive.restore")]
    ArchiveRestore,
    #[serde(rename = "erase")]
    Erase,
    #[serde(rename = "migrate")]
    Migrate,
    #[serde(rename = "backup")]
    Backup,
    #[serde(rename = "restore")]
    Restore,
    /// The operator declared the data directory to be an earlier copy of itself.
    #[serde(rename = "restored")]
    Restored,
    #[serde(rename = "certificate.reload")]
    CertificateReload,
    /// A request presented a key that is not the admin key.
    #[serde(rename = "admin_key.refused")]
    AdminKeyRefused,
}

/// The outcome of an act.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The act is about to start. A second entry with its result follows, unless the process
    /// crashes.
    Begun,
    Done,
    /// The act was not permitted or its request was invalid. Nothing was changed.
    Refused,
    /// The act failed and may be partly done.
    Failed,
}

/// The user or conversation that an act affects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Subject {
    User {
        #[serde(serialize_with = "spell_user")]
        user_id: UserId,
    },
    Conversation {
        #[serde(serialize_with = "spell_conversation")]
        conversation_id: ConversationId,
    },
    UserIn {
        #[serde(serialize_with = "spell_user")]
        user_id: UserId,
        #[serde(serialize_with = "spell_conversation")]
        conversation_id: ConversationId,
    },
}

impl Subject {
    pub fn user(user_id: &UserId) -> Subject {
        Subject::User { user_id: user_id.clone() }
    }

    pub fn conversation(conversation_id: ConversationId) -> Subject {
        Subject::Conversation { conversation_id }
    }
}

impl From<EraseScope> for Subject {
    fn from(scope: EraseScope) -> Subject {
        match scope {
            EraseScope::Conversation(conversation_id) => Subject::Conversation { conversation_id },
            EraseScope::User { user: user_id, conversation: None } => Subject::User { user_id },
            EraseScope::User { user: user_id, conversation: Some(conversation_id) } => {
                Subject::UserIn { user_id, conversation_id }
            }
        }
    }
}

/// The actor of an entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "by", rename_all = "snake_case")]
pub enum Who {
    /// A request with the admin key, identified by a few bytes of its digest.
    AdminKey {
        key: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        peer: Option<SocketAddr>,
        /// The `X-Forwarded-For` header. Not verified: any client can set it.
        #[serde(skip_serializing_if = "Option::is_none")]
        forwarded_for: Option<String>,
        /// The user of the calling program, as it claims. Any holder of the key can set it.
        #[serde(skip_serializing_if = "Option::is_none")]
        command_line: Option<CommandLine>,
    },
    /// A request without the admin key.
    Stranger {
        #[serde(skip_serializing_if = "Option::is_none")]
        peer: Option<SocketAddr>,
        #[serde(skip_serializing_if = "Option::is_none")]
        forwarded_for: Option<String>,
    },
    /// A local command with access to the data directory.
    CommandLine(CommandLine),
    /// The server process, at its start or after a signal.
    Process { pid: u32 },
}

/// The operating system user who runs a command.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct CommandLine {
    uid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sudo_by: Option<String>,
}

impl CommandLine {
    /// The header in which a command names its user when it calls a running server. Commands and
    /// servers of different versions must agree on it, or the entry lacks the user.
    pub const HEADER: &str = "x-bluetick-command-line";
    /// Maximum length of a name, in characters. Bounds the entry when a client sends a long name.
    const NAME_LETTERS: usize = 64;

    /// Reads the user of this process from `/proc` and the environment.
    pub fn of_this_process() -> CommandLine {
        use std::os::unix::fs::MetadataExt;
        let named = |variable: &str| {
            std::env::var(variable).ok().map(|name| sanitize(&name, CommandLine::NAME_LETTERS))
        };
        let uid = std::fs::metadata("/proc/self").ok().map(|own| own.uid());
        let name = named("USER").or_else(|| named("LOGNAME"));
        CommandLine { uid, name, sudo_by: named("SUDO_USER") }
    }

    /// Returns the value for [`CommandLine::HEADER`].
    pub fn in_a_header(&self) -> String {
        serde_json::to_string(self).expect("a number and two strings always serialize")
    }

    /// Parses the header and sanitizes the names. Returns `None` if the header is malformed.
    pub(crate) fn from_header(text: &str) -> Option<CommandLine> {
        let CommandLine { uid, name, sudo_by } = serde_json::from_str(text).ok()?;
        let tamed = |name: Option<String>| name.map(|name| sanitize(&name, CommandLine::NAME_LETTERS));
        Some(CommandLine { uid, name: tamed(name), sudo_by: tamed(sudo_by) })
    }
}

impl Who {
    /// The user who runs this process.
    pub fn at_the_command_line() -> Who {
        Who::CommandLine(CommandLine::of_this_process())
    }

    pub fn this_process() -> Who {
        Who::Process { pid: std::process::id() }
    }
}

/// Sanitizes untrusted text: keeps printable ASCII only, at most `most` characters. This prevents
/// forged lines and terminal escape sequences.
pub(crate) fn sanitize(text: &str, most: usize) -> String {
    text.chars().filter(|letter| letter.is_ascii_graphic() || *letter == ' ').take(most).collect()
}

fn spell_user<S: Serializer>(user: &UserId, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(user.as_str())
}

fn spell_conversation<S: Serializer>(id: &ConversationId, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(id)
}

/// Serializes a timestamp as RFC 3339 with milliseconds.
fn spell_moment<S: Serializer>(at: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    let (days, in_day) = (at.millis().div_euclid(86_400_000), at.millis().rem_euclid(86_400_000));
    let (year, month, day) = date(days);
    let (hour, minute) = (in_day / 3_600_000, in_day / 60_000 % 60);
    let (second, milli) = (in_day / 1_000 % 60, in_day % 1_000);
    serializer.collect_str(&format_args!(
        "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z"
    ))
}

/// Returns the Gregorian date as (year, month, day) of a day counted from 1970-01-01. Years start
/// in March here, so that a leap day is the last day of its year.
fn date(days: i64) -> (i64, i64, i64) {
    /// Days in 400 Gregorian years, the period of the leap-year rule.
    const FOUR_CENTURIES: i64 = 146_097;
    let from_march_0000 = days + 719_468;
    let (era, day) = (from_march_0000.div_euclid(FOUR_CENTURIES), from_march_0000.rem_euclid(FOUR_CENTURIES));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day_of_month = day - (153 * month + 2) / 5 + 1;
    let year = year + 400 * era + i64::from(month >= 10);
    (year, if month < 10 { month + 3 } else { month - 9 }, day_of_month)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entry_serializes_all_fields_in_order() {
        let entry = AuditEntry {
            at: Timestamp::from_millis(1_800_000_000_250),
            act: Act::UserRevoke,
            outcome: Outcome::Done,
            subject: Some(Subject::user(&"alice".parse().unwrap())),
            who: Who::AdminKey {
                key: "0badcafe".into(),
                peer: Some(([127, 0, 0, 1], 4_711).into()),
                forwarded_for: None,
                command_line: None,
            },
            request_id: "r1".into(),
            reason: None,
            detail: Value::Null,
        };
        let line = r#"{"at":"2027-01-15T08:00:00.250Z","act":"user.revoke","outcome":"done","subject":{"user_id":"alice"},"who":{"by":"admin_key","key":"0badcafe","peer":"127.0.0.1:4711"},"request_id":"r1"}"#;
        assert_eq!(serde_json::to_string(&entry).unwrap(), line);
    }

    #[test]
    fn command_line_user_round_trips_and_malformed_header_is_ignored() {
        let who = CommandLine { uid: Some(1_000), name: Some("carol".into()), sudo_by: None };
        assert_eq!(CommandLine::from_header(&who.in_a_header()), Some(who));
        let tricky = CommandLine::from_header(r#"{"uid":0,"name":"a\nb\u001b"}"#).unwrap();
        assert_eq!(tricky.name.as_deref(), Some("ab"));
        for nonsense in ["", "root", "{\"uid\":-1}"] {
            assert_eq!(CommandLine::from_header(nonsense), None, "{nonsense}");
        }
        let own = CommandLine::of_this_process().in_a_header();
        assert!(own.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' '), "{own}");
    }

    #[test]
    fn days_convert_to_gregorian_dates() {
        for (days, expected) in [
            (0, (1970, 1, 1)),
            (-1, (1969, 12, 31)),
            (11_016, (2000, 2, 29)),
            (11_017, (2000, 3, 1)),
            (20_773, (2026, 11, 16)),
            (47_540, (2100, 2, 28)),
            (47_541, (2100, 3, 1)),
        ] {
            assert_eq!(date(days), expected);
        }
    }

    #[test]
    fn untrusted_text_loses_control_characters() {
        assert_eq!(sanitize("1.2.3.4\u{1b}[2J\n{\"at\"", 12), "1.2.3.4[2J{\"");
    }
}
