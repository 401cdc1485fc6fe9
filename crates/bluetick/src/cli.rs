//! The command line: arguments and help texts. `commands` implements the commands.

mod archive;
mod backup;
mod bench;
mod check;
mod health;
mod hot;
mod migrate;
mod plan;
mod restore;
mod restored;
mod tables;

use std::path::PathBuf;
use std::time::Duration;

use bluetick_client::ServerUrl;
use bluetick_core::UserId;
use clap::{Args, Parser, Subcommand};

pub use self::archive::{ArchiveCommand, ConsentArgs, EraseCommand, OutputArgs};
pub use self::backup::BackupArgs;
pub use self::bench::{
    BenchArchiveArgs, BenchArgs, BenchAttackArgs, BenchCommand, BenchGroupArgs, BenchHistoryArgs,
    BenchIdleArgs, BenchInboxArgs, BenchPairsArgs, BenchReconnectArgs, BenchStoreArgs, RateArgs, ScratchArgs,
    StoredArgs,
};
pub use self::check::CheckArgs;
pub use self::health::HealthArgs;
pub use self::hot::HotArgs;
pub use self::migrate::MigrateArgs;
pub use self::plan::PlanArgs;
pub use self::restore::RestoreArgs;
pub use self::restored::PutBackArgs;
pub use self::tables::TablesCommand;
#[cfg(feature = "fleet")]
pub use self::tables::{RestoredArgs, TablesArgs};
use crate::settings::Flags;

#[derive(Debug, Parser)]
#[command(name = "bluetick", version, about = "A self-hosted chat backend in one binary.", after_help = TOP_HELP)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// Help text of `bluetick`, below the flags.
const TOP_HELP: &str = "\
Without a command, `bluetick` is `bluetick serve`. Options need `serve`, as in
`bluetick serve --listen 0.0.0.0:8080`.

Examples:
  bluetick                          start the server on http://127.0.0.1:8080/, data in ./bluetick-data
  bluetick user add alice           create a user, also while the server runs
  bluetick token alice --ttl 1h     print a token for alice
  bluetick chat --user alice        chat in this terminal
  bluetick archive status           show where old messages are
  bluetick backup /backups/monday   copy everything, also while the server runs
  bluetick check                    check the data directory for damage
  bluetick config example           print a settings file to start from
  bluetick plan --explain           calculate what a fleet needs and costs
  bluetick tables create            create the tables of a fleet
  bluetick migrate --from DIR       copy a data directory into them

`bluetick COMMAND --help` describes each command.";

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Start the server
    Serve(ServeArgs),
    /// Create users, change their passwords, show them
    #[command(subcommand)]
    User(UserCommand),
    /// Move old messages to an archive and back, and verify it
    #[command(subcommand)]
    Archive(ArchiveCommand),
    /// Delete messages permanently
    #[command(subcommand)]
    Erase(EraseCommand),
    /// Copy everything to another directory, also while the server runs
    Backup(BackupArgs),
    /// Create a data directory from a backup
    Restore(RestoreArgs),
    /// Tell clients to drop their caches, after an earlier copy of the data directory was put back
    Restored(PutBackArgs),
    /// Check a data directory for damage
    Check(CheckArgs),
    /// Print a token for a user
    Token(TokenArgs),
    /// Chat in this terminal
    Chat(ChatArgs),
    /// Check the settings, or print an example of them
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Measure how fast Bluetick is on this machine
    Bench(Box<BenchArgs>),
    /// Check whether a server on this machine accepts requests
    Health(HealthArgs),
    /// Calculate what a fleet needs and what it costs
    Plan(Box<PlanArgs>),
    /// Create the tables of a fleet, and check them
    #[command(subcommand)]
    Tables(TablesCommand),
    /// List conversations that were too busy for one partition of a fleet's tables
    Hot(HotArgs),
    /// Copy a data directory into the tables of a fleet
    Migrate(MigrateArgs),
}

/// Where the settings and the data are.
#[derive(Args, Clone, Debug, Default)]
pub struct Places {
    /// The settings file [default: $BLUETICK_CONFIG, or ./bluetick.toml if there is one]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The data directory [default: store.data_dir in the settings, or ./bluetick-data]
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
}

impl Places {
    pub fn flags(&self) -> Flags {
        Flags { config: self.config.clone(), data_dir: self.data_dir.clone(), listen: None }
    }
}

#[derive(Args, Clone, Debug, Default)]
#[command(after_help = SERVE_HELP)]
pub struct ServeArgs {
    #[command(flatten)]
    pub places: Places,
    /// Address to listen on [default: server.listen in the settings, or 127.0.0.1:8080]
    #[arg(long, value_name = "HOST:PORT")]
    pub listen: Option<String>,
}

impl ServeArgs {
    pub fn flags(&self) -> Flags {
        Flags { listen: self.listen.clone(), ..self.places.flags() }
    }
}

/// Help text of `bluetick serve`, below the flags.
const SERVE_HELP: &str = "\
Settings: defaults < file < environment < flags. In the environment, limits.sends_per_second is
BLUETICK_LIMITS__SENDS_PER_SECOND. `bluetick config check` shows the effective values and their
sources.

The data directory holds all messages, users, and the two keys that the first start creates:
token.key (signs tokens) and admin.key (mints tokens and creates users). One server uses it at a
time.

Logs go to standard error: human-readable on a terminal, JSON otherwise (log.format).
BLUETICK_LOG=debug overrides log.filter for one run. SIGTERM or Ctrl-C finishes accepted requests
and tells clients to reconnect; a second signal stops the server immediately.

Examples:
  bluetick serve
  bluetick serve --data-dir /var/lib/bluetick --listen 0.0.0.0:8080
  BLUETICK_AUTH__SIGNUP=false bluetick serve --config /etc/bluetick.toml";

#[derive(Debug, Subcommand)]
#[command(after_help = USER_HELP)]
pub enum UserCommand {
    /// Create a user who can log in
    #[command(after_help = USER_ADD_HELP)]
    Add(UserAddArgs),
    /// Give a user a new password
    #[command(after_help = USER_PASSWORD_HELP)]
    Password(UserPasswordArgs),
    /// Log a user out everywhere: every earlier token becomes invalid
    #[command(after_help = USER_REVOKE_HELP)]
    Revoke(UserRevokeArgs),
    /// Show what is stored about a user
    #[command(after_help = USER_SHOW_HELP)]
    Show(UserShowArgs),
}

/// Help text of `bluetick user`, below the flags.
const USER_HELP: &str = "\
Works on the data directory. If a server uses it, the command sends its request to that server, with
the admin key from the data directory or the settings. On a fleet the command works on the tables.
It needs the settings file of the nodes and credentials for the tables, but no data directory.

Users of your own product need no account here: a token is enough (`bluetick token --help`).

Examples:
  bluetick user add alice
  bluetick user show alice
  bluetick user revoke alice --config /etc/bluetick-fleet.toml";

/// Help text of `bluetick user show`, below the flags.
const USER_SHOW_HELP: &str = "\
Prints the user_id, the display name, the creation time, and whether the account has a password. The
exit code is 1 if the account does not exist. Users with tokens of your own product have no account.

Example:
  bluetick user show alice";

#[derive(Args, Debug)]
pub struct UserAddArgs {
    /// The user_id: 1 to 128 bytes without spaces
    pub name: UserId,
    /// Name shown to other users
    #[arg(long, value_name = "TEXT")]
    pub display_name: Option<String>,
    #[command(flatten)]
    pub password: PasswordArgs,
    #[command(flatten)]
    pub places: Places,
}

/// Help text of `bluetick user add`, below the flags.
const USER_ADD_HELP: &str = "\
The password has auth.password_min_length (8) to 1024 bytes. Without a flag the
command asks for it on the terminal.

Examples:
  bluetick user add alice
  bluetick user add alice --display-name 'Alice Liddell' --generate
  printf %s \"$PASSWORD\" | bluetick user add alice --password-stdin";

#[derive(Args, Debug)]
pub struct UserPasswordArgs {
    /// The user_id
    #[arg(value_parser = UserId::from_stored)]
    pub name: UserId,
    #[command(flatten)]
    pub password: PasswordArgs,
    #[command(flatten)]
    pub places: Places,
}

/// Help text of `bluetick user password`, below the flags.
const USER_PASSWORD_HELP: &str = "\
The old password and every token issued before stop working immediately. The user must log in again.

Examples:
  bluetick user password alice
  bluetick user password alice --generate";

#[derive(Args, Debug)]
pub struct UserRevokeArgs {
    /// The user_id; an account is not needed
    #[arg(value_parser = UserId::from_stored)]
    pub name: UserId,
    #[command(flatten)]
    pub places: Places,
}

/// Help text of `bluetick user revoke`, below the flags.
const USER_REVOKE_HELP: &str = "\
The server closes the user's connections. The user can log in again. To prevent that, also change
the password (`bluetick user password`), or stop issuing tokens in your own product.

A token of your own product without the time of issue (iat) counts as issued before the revocation.

Examples:
  bluetick user revoke alice";

#[derive(Args, Debug)]
pub struct UserShowArgs {
    /// The user_id
    #[arg(value_parser = UserId::from_stored)]
    pub name: UserId,
    #[command(flatten)]
    pub places: Places,
}

#[derive(Args, Clone, Copy, Debug)]
#[group(multiple = false)]
pub struct PasswordArgs {
    /// Read the password from standard input, up to the end of the first line
    #[arg(long)]
    pub password_stdin: bool,
    /// Generate a password and print it
    #[arg(long)]
    pub generate: bool,
}

#[derive(Args, Debug)]
#[command(after_help = TOKEN_HELP)]
pub struct TokenArgs {
    /// The user_id; it need not have an account
    pub name: UserId,
    /// Lifetime of the token: 90s, 15m, 1h, 7d [default: auth.token_ttl_seconds, 7 days]
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub ttl: Option<Duration>,
    /// Sign with auth.hs256_secret only, on a machine without the server's data; reserves no name
    #[arg(long)]
    pub no_reserve: bool,
    #[command(flatten)]
    pub places: Places,
}

/// Help text of `bluetick token`, below the flags.
const TOKEN_HELP: &str = "\
Signs with auth.hs256_secret, or with token.key in the data directory. Standard output contains only
the token. The command first reserves the name, so that sign-up refuses it. It uses the server that
uses the data directory, or the store itself if no server runs. With --no-reserve the name stays
free: a server with open sign-up gives it to the first visitor who requests it.

If the data directory is missing, the command creates it with a new token.key, and says so. A
server that starts on this directory accepts the token.

Examples:
  bluetick token alice
  bluetick token bob --ttl 1h     # bob is reserved from now on
  curl http://127.0.0.1:8080/v1/conversations -H \"Authorization: Bearer $(bluetick token alice --ttl 15m)\" \\
    -H 'content-type: application/json' -d '{\"kind\":\"direct\",\"peer\":\"bob\"}'";

/// Not `Debug`: it may hold a token.
#[derive(Args)]
#[command(after_help = CHAT_HELP)]
pub struct ChatArgs {
    /// The server [default: the last one used, or http://127.0.0.1:8080]
    #[arg(long, value_name = "URL")]
    pub server: Option<ServerUrl>,
    /// Trust these root certificates (PEM) instead of the machine's own
    #[arg(long, value_name = "FILE")]
    pub ca_file: Option<PathBuf>,
    /// Your user_id on the server; the command asks for it if it is missing
    #[arg(long, value_name = "NAME")]
    pub user: Option<UserId>,
    /// A token instead of a password [default: $BLUETICK_TOKEN]
    #[arg(long, value_name = "TOKEN")]
    pub token: Option<String>,
    /// Create a new account
    #[arg(long, conflicts_with = "token")]
    pub sign_up: bool,
    /// Delete the stored log-in and all local data, including unsent messages
    #[arg(long, conflicts_with_all = ["token", "sign_up"])]
    pub log_out: bool,
    /// Directory of the client's messages and outbox [default: ~/.local/share/bluetick]
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
}

impl std::fmt::Debug for ChatArgs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChatArgs")
            .field("server", &self.server)
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

/// Help text of `bluetick chat`, below the flags.
const CHAT_HELP: &str = "\
Asks for the password once and stores the log-in, readable only by you, until it expires. Messages
that you write offline are stored and sent at the next connection. `?` or F1 shows all keys; Ctrl-C
quits.

Ticks: one, sent; two, delivered; two in blue, read. NO_COLOR=1 disables colours and shows the
status in words. One `bluetick chat` per user and machine at a time.

Examples:
  bluetick chat --user alice --sign-up
  bluetick chat --server https://chat.example.org --user alice
  BLUETICK_TOKEN=$(bluetick token bob) bluetick chat --server http://127.0.0.1:8080";

#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:\n  bluetick config example > bluetick.toml\n  bluetick config check")]
pub enum ConfigCommand {
    /// Print the effective settings with their sources, and check whether a server would start
    #[command(after_help = CONFIG_CHECK_HELP)]
    Check(ConfigCheckArgs),
    /// Print a settings file with all defaults, commented out
    #[command(after_help = "Example:\n  bluetick config example > bluetick.toml")]
    Example,
}

#[derive(Args, Debug)]
pub struct ConfigCheckArgs {
    /// Check names and values only
    #[arg(long)]
    pub settings_only: bool,
    #[command(flatten)]
    pub serve: ServeArgs,
}

/// Help text of `bluetick config check`, below the flags.
const CONFIG_CHECK_HELP: &str = "\
Accepts the flags of `serve`. Secrets are masked. Standard output has the valid settings. Standard
error has one line for every mistake, with a suggestion if there is one.

Checks everything that `serve` needs: names and values; the data directory (can it be created or
written, has it enough free space, does another process use it, did a newer version write it); key
files; the archive; the audit trail; the certificate and its key; the port. On a fleet it checks the
tables. A server that runs with the same settings uses the directory and the port, so the check
fails and names that server. The check changes nothing.

--settings-only opens only the settings file and resolves no name, so it gives the same result on
every machine.

Exit code 0: the server would start, unless the store is damaged inside (`bluetick check` looks for
damage). 2: it would not start.

Examples:
  bluetick config check
  bluetick config check --config /etc/bluetick.toml
  bluetick config check --data-dir /var/lib/bluetick --listen 0.0.0.0:8080
  bluetick config check --settings-only --config deploy/bluetick.toml";

fn parse_time(text: &str) -> Result<Duration, String> {
    let expected = || "expected a whole number with a unit, such as 90s, 15m, 1h or 7d".to_owned();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit_seconds = match &text[digits.len()..] {
        "" | "s" => 1,
        "m" => 60,
        "h" => 60 * 60,
        "d" => 24 * 60 * 60,
        _ => return Err(expected()),
    };
    let count: u64 = digits.parse().map_err(|_| expected())?;
    count.checked_mul(unit_seconds).map(Duration::from_secs).ok_or_else(expected)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn command_line_definition_passes_clap_assertions() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_help_contains_an_example_of_that_command() {
        fn without_example(command: &mut clap::Command, path: &str, found: &mut Vec<String>) {
            let help = command.render_long_help().to_string();
            let examples = help.split_once("Example").map_or("", |(_, examples)| examples);
            if !examples.lines().any(|line| line.starts_with("  ") && line.contains(path)) {
                found.push(path.to_owned());
            }
            for inner in command.get_subcommands_mut().filter(|inner| inner.get_name() != "help") {
                let path = format!("{path} {}", inner.get_name());
                without_example(inner, &path, found);
            }
        }
        let mut found = Vec::new();
        without_example(&mut Cli::command(), "bluetick", &mut found);
        assert_eq!(found, Vec::<String>::new());
    }

    #[test]
    fn time_argument_requires_a_whole_number_with_a_known_unit() {
        for (text, seconds) in [("90s", 90), ("15m", 900), ("1h", 3600), ("7d", 604_800), ("30", 30)] {
            assert_eq!(parse_time(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for bad in ["", "h", "1w", "-1h", "1.5h", "1 h", "99999999999999999999d", "1000000000000000000d", "é"]
        {
            assert!(parse_time(bad).is_err(), "{bad}");
        }
    }
}
