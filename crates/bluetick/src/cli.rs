//! The command line: what may be said and what it teaches. What is then done belongs to `commands`.

mod archive;
mod health;
mod hot;
mod migrate;
mod plan;
mod tables;

use std::path::PathBuf;
use std::time::Duration;

use bluetick_client::ServerUrl;
use bluetick_core::UserId;
use clap::{Args, Parser, Subcommand};

pub use self::archive::{ArchiveCommand, ConsentArgs, EraseCommand, OutputArgs};
pub use self::health::HealthArgs;
pub use self::hot::HotArgs;
pub use self::migrate::MigrateArgs;
pub use self::plan::PlanArgs;
pub use self::tables::{RestoredArgs, TablesArgs, TablesCommand};
use crate::settings::Flags;

#[derive(Debug, Parser)]
#[command(name = "bluetick", version, about = "A self-hosted chat backend in one binary.", after_help = TOP_HELP)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Option<Command>,
}

const TOP_HELP: &str = "\
Without a command, `bluetick` is `bluetick serve`.

Examples:
  bluetick                          start the server on http://127.0.0.1:8080/, data in ./bluetick-data
  bluetick user add alice           make a user, also while the server runs
  bluetick token alice --ttl 1h     print a token for alice
  bluetick chat --user alice        chat in this terminal
  bluetick archive status           show where old messages are
  bluetick config example           print a settings file to start from
  bluetick plan --explain           work out what a fleet needs and costs
  bluetick tables create            make the tables of a fleet
  bluetick migrate --from DIR       copy a data directory into them

`bluetick COMMAND --help` tells more about each.";

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Start the server
    Serve(ServeArgs),
    /// Make users, change their passwords, look at them
    #[command(subcommand)]
    User(UserCommand),
    /// Move old messages to an archive and back, and look after it
    #[command(subcommand)]
    Archive(ArchiveCommand),
    /// Delete messages for good
    #[command(subcommand)]
    Erase(EraseCommand),
    /// Print a token for a user
    Token(TokenArgs),
    /// Chat in this terminal
    Chat(ChatArgs),
    /// Check the settings, or print an example of them
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Measure how fast Bluetick is on this machine
    #[command(subcommand)]
    Bench(BenchCommand),
    /// Ask a server on this machine whether it takes work
    Health(HealthArgs),
    /// Work out what a fleet needs and what it costs
    Plan(Box<PlanArgs>),
    /// Make the tables of a fleet, and check them
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
    /// Where to listen [default: server.listen in the settings, or 127.0.0.1:8080]
    #[arg(long, value_name = "HOST:PORT")]
    pub listen: Option<String>,
}

impl ServeArgs {
    pub fn flags(&self) -> Flags {
        Flags { listen: self.listen.clone(), ..self.places.flags() }
    }
}

const SERVE_HELP: &str = "\
Settings: defaults < file < environment < flags. In the environment, limits.sends_per_second is
BLUETICK_LIMITS__SENDS_PER_SECOND. `bluetick config check` shows what is in force and why.

The data directory holds everything: messages, users, and the two keys made at the first start,
token.key (signs tokens) and admin.key (mints tokens and makes users). One server uses it at a time.

Logs go to standard error: human on a terminal, JSON otherwise (log.format). BLUETICK_LOG=debug
overrides log.filter for one run. SIGTERM or Ctrl-C finishes what was accepted and tells clients to
come back; a second one stops at once.

Examples:
  bluetick serve
  bluetick serve --data-dir /var/lib/bluetick --listen 0.0.0.0:8080
  BLUETICK_AUTH__SIGNUP=false bluetick serve --config /etc/bluetick.toml";

#[derive(Debug, Subcommand)]
#[command(after_help = USER_HELP)]
pub enum UserCommand {
    /// Make a user who can log in
    #[command(after_help = USER_ADD_HELP)]
    Add(UserAddArgs),
    /// Give a user a new password
    #[command(after_help = USER_PASSWORD_HELP)]
    Password(UserPasswordArgs),
    /// Show what is stored about a user
    Show(UserShowArgs),
}

const USER_HELP: &str = "\
Works on the data directory. While a server uses it, the server is asked instead, with the admin
key from the data directory or the settings.

Users of your own product need no account here: a token is enough (`bluetick token --help`).";

#[derive(Args, Debug)]
pub struct UserAddArgs {
    /// The user_id: 1 to 128 bytes without spaces
    pub name: UserId,
    /// What others see
    #[arg(long, value_name = "TEXT")]
    pub display_name: Option<String>,
    #[command(flatten)]
    pub password: PasswordArgs,
    #[command(flatten)]
    pub places: Places,
}

const USER_ADD_HELP: &str = "\
The password has 8 to 1024 bytes. Without a flag it is asked for on the terminal.

Examples:
  bluetick user add alice
  bluetick user add alice --display-name 'Alice Liddell' --generate
  printf %s \"$PASSWORD\" | bluetick user add alice --password-stdin";

#[derive(Args, Debug)]
pub struct UserPasswordArgs {
    /// The user_id
    pub name: UserId,
    #[command(flatten)]
    pub password: PasswordArgs,
    #[command(flatten)]
    pub places: Places,
}

const USER_PASSWORD_HELP: &str = "\
The old password stops working at once. Tokens given before stay good until they expire.

Examples:
  bluetick user password alice
  bluetick user password alice --generate";

#[derive(Args, Debug)]
pub struct UserShowArgs {
    /// The user_id
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
    /// Make a password and print it
    #[arg(long)]
    pub generate: bool,
}

#[derive(Args, Debug)]
#[command(after_help = TOKEN_HELP)]
pub struct TokenArgs {
    /// The user_id; it need not have an account
    pub name: UserId,
    /// How long the token is good: 90s, 15m, 1h, 7d [default: auth.token_ttl_seconds, 7 days]
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub ttl: Option<Duration>,
    #[command(flatten)]
    pub places: Places,
}

const TOKEN_HELP: &str = "\
Signs with auth.hs256_secret, or with token.key in the data directory; no server is needed. The token
alone goes to standard output.

Examples:
  bluetick token alice
  curl http://127.0.0.1:8080/v1/conversations -H \"Authorization: Bearer $(bluetick token alice --ttl 15m)\" \\
    -H 'content-type: application/json' -d '{\"kind\":\"direct\",\"peer\":\"bob\"}'";

/// Not `Debug`: it may hold a token.
#[derive(Args)]
#[command(after_help = CHAT_HELP)]
pub struct ChatArgs {
    /// The server [default: the one of last time, or http://127.0.0.1:8080]
    #[arg(long, value_name = "URL")]
    pub server: Option<ServerUrl>,
    /// Who you are there; asked for where it is not given
    #[arg(long, value_name = "NAME")]
    pub user: Option<UserId>,
    /// A token instead of a password [default: $BLUETICK_TOKEN]
    #[arg(long, value_name = "TOKEN")]
    pub token: Option<String>,
    /// Make a new account
    #[arg(long, conflicts_with = "token")]
    pub sign_up: bool,
    /// Forget the log-in of last time, and all that is kept of it here; unsent messages too
    #[arg(long, conflicts_with_all = ["token", "sign_up"])]
    pub log_out: bool,
    /// Where this client keeps what it has and what is not sent yet [default: $XDG_DATA_HOME/bluetick, or ~/.local/share/bluetick]
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

const CHAT_HELP: &str = "\
Asks for the password once; the log-in is kept, readable by you alone, until it expires. What you write
without a network is kept as well and goes out the next time. `?` or F1 shows all keys; Ctrl-C leaves.

Ticks: one, the server has it; two, a device has it; two in blue, it was read. NO_COLOR=1 switches
colours off and says it in words. One `bluetick chat` per user and machine at a time.

Examples:
  bluetick chat --user alice --sign-up
  bluetick chat --server https://chat.example.org --user alice
  BLUETICK_TOKEN=$(bluetick token bob) bluetick chat --server http://127.0.0.1:8080";

#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Print the settings in force, each with where it comes from, and check them
    #[command(after_help = CONFIG_CHECK_HELP)]
    Check(ServeArgs),
    /// Print a settings file with all defaults, commented out
    #[command(after_help = "Example:\n  bluetick config example > bluetick.toml")]
    Example,
}

const CONFIG_CHECK_HELP: &str = "\
Takes the flags of `serve`. Secrets are masked. Exit code 0: the server would start with these
settings. 2: it would not, and standard error says why.

Examples:
  bluetick config check
  bluetick config check --config /etc/bluetick.toml";

#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// The embedded store alone: durable sends, pages, bytes, processor time
    #[command(after_help = BENCH_STORE_HELP)]
    Store(BenchStoreArgs),
    /// The embedded store: pages of a short and of a long inbox, marks, receipts of a large group, bytes on disk
    Inbox(BenchInboxArgs),
    /// A server of its own, and devices that come back all at once after they missed messages
    Reconnect(BenchReconnectArgs),
    /// A server of its own, and pairs of people over WebSockets: one sends, the other receives and acknowledges
    Pairs(BenchPairsArgs),
    /// A server of its own, and one group whose members are all connected: a few write, all others receive
    Group(BenchGroupArgs),
    /// A server of its own, and readers of the newest page of random conversations, over HTTP
    History(BenchHistoryArgs),
    /// A server of its own, and connections that do nothing: connect rate, bytes of memory each
    Idle(BenchIdleArgs),
    /// A server of its own, and old messages that move to an archive in a directory: pages before and after, bytes, pace
    Archive(BenchArchiveArgs),
}

#[derive(Args, Debug)]
pub struct BenchGroupArgs {
    /// How many members, all of them connected
    #[arg(long, value_name = "COUNT", default_value_t = 200, value_parser = clap::value_parser!(u32).range(2..=10_000))]
    pub members: u32,
    /// How many of them send
    #[arg(long, value_name = "COUNT", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub senders: u32,
    /// How many sends of each sender wait for their ack at any time
    #[arg(long, value_name = "COUNT", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub window: u32,
    /// The size of a message's text
    #[arg(long, value_name = "BYTES", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub body: u32,
    /// How long
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    pub seconds: u64,
    /// Where to write: an empty or new directory on the disk to measure; removed at the end
    #[arg(long, value_name = "DIR", default_value = "./bluetick-bench")]
    pub dir: PathBuf,
}

#[derive(Args, Debug)]
pub struct BenchHistoryArgs {
    /// How many conversations
    #[arg(long, value_name = "COUNT", default_value_t = 2_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub conversations: u32,
    /// How many messages each has
    #[arg(long, value_name = "COUNT", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub messages: u32,
    /// How many read at a time
    #[arg(long, value_name = "COUNT", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub readers: u32,
    /// How long
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    pub seconds: u64,
    /// Where to write: an empty or new directory on the disk to measure; removed at the end
    #[arg(long, value_name = "DIR", default_value = "./bluetick-bench")]
    pub dir: PathBuf,
}

#[derive(Args, Debug)]
pub struct BenchArchiveArgs {
    /// How many conversations
    #[arg(long, value_name = "COUNT", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub conversations: u32,
    /// How many messages each has
    #[arg(long, value_name = "COUNT", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(22..=1_000_000))]
    pub messages: u32,
    /// How many read pages at a time
    #[arg(long, value_name = "COUNT", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub readers: u32,
    /// How long each measurement takes
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    pub seconds: u64,
    /// Where to write: an empty or new directory on the disk to measure; removed at the end
    #[arg(long, value_name = "DIR", default_value = "./bluetick-bench")]
    pub dir: PathBuf,
}

#[derive(Args, Debug)]
pub struct BenchIdleArgs {
    /// How many connections are held; each needs an open file on both sides
    #[arg(long, value_name = "COUNT", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=28_000))]
    pub connections: u32,
    /// Where the server keeps its data: an empty or new directory; removed at the end
    #[arg(long, value_name = "DIR", default_value = "./bluetick-bench")]
    pub dir: PathBuf,
}

#[derive(Args, Debug)]
pub struct BenchPairsArgs {
    /// How many pairs
    #[arg(long, value_name = "COUNT", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub pairs: u32,
    /// How many sends of each pair wait for their ack at any time
    #[arg(long, value_name = "COUNT", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub window: u32,
    /// The size of a message's text
    #[arg(long, value_name = "BYTES", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub body: u32,
    /// How long
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    pub seconds: u64,
    /// Where to write: an empty or new directory on the disk to measure; removed at the end
    #[arg(long, value_name = "DIR", default_value = "./bluetick-bench")]
    pub dir: PathBuf,
}

#[derive(Args, Debug)]
pub struct BenchInboxArgs {
    /// How many conversations the long inbox has; the short one has 20
    #[arg(long, value_name = "COUNT", default_value_t = 50_000, value_parser = clap::value_parser!(u32).range(20..=1_000_000))]
    pub conversations: u32,
    /// How long each measurement takes
    #[arg(long, value_name = "SECONDS", default_value_t = 3)]
    pub seconds: u64,
    /// How many marks wait for the disk at any time
    #[arg(long, value_name = "COUNT", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub in_flight: u32,
    /// Where to write: an empty or new directory on the disk to measure; removed at the end
    #[arg(long, value_name = "DIR", default_value = "./bluetick-bench")]
    pub dir: PathBuf,
}

#[derive(Args, Debug)]
pub struct BenchReconnectArgs {
    /// How many devices come back
    #[arg(long, value_name = "COUNT", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=20_000))]
    pub devices: u32,
    /// How many messages each has missed
    #[arg(long, value_name = "COUNT", default_value_t = 100, value_parser = clap::value_parser!(u32).range(0..=1_000))]
    pub missed: u32,
    /// Where to write: an empty or new directory; removed at the end
    #[arg(long, value_name = "DIR", default_value = "./bluetick-bench")]
    pub dir: PathBuf,
}

#[derive(Args, Debug)]
pub struct BenchStoreArgs {
    /// How many messages are sent
    #[arg(long, value_name = "COUNT", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub messages: u64,
    /// To how many conversations; a few are popular, most are quiet (zipf)
    #[arg(long, value_name = "COUNT", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub conversations: u32,
    /// How many sends are waiting for their acknowledgement at any time
    #[arg(long, value_name = "COUNT", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=60_000))]
    pub in_flight: u32,
    /// The size of a message's text
    #[arg(long, value_name = "BYTES", default_value_t = 150, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub body: u32,
    /// How long pages are read, once hot and once after a restart; 0 leaves it out
    #[arg(long, value_name = "SECONDS", default_value_t = 3)]
    pub read_seconds: u64,
    /// store.checkpoint_bytes for this run
    #[arg(long, value_name = "BYTES")]
    pub checkpoint_bytes: Option<u64>,
    /// Where to write: an empty or new directory on the disk to measure; removed at the end
    #[arg(long, value_name = "DIR", default_value = "./bluetick-bench")]
    pub dir: PathBuf,
}

const BENCH_STORE_HELP: &str = "\
Each send is a whole one: membership, duplicate check, order, one synced batch, inbox rows, checkpoints.
The same batches are then written to a bare file and synced, as the limit of this disk.

Examples:
  bluetick bench store
  bluetick bench store --in-flight 1 --messages 20000        what a lone sender waits for
  bluetick bench store --messages 10000000 --dir /data/bench   longer, on another disk";

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
    fn the_command_line_is_consistent_with_itself() {
        Cli::command().debug_assert();
    }

    #[test]
    fn times_are_whole_numbers_with_a_unit() {
        for (text, seconds) in [("90s", 90), ("15m", 900), ("1h", 3600), ("7d", 604_800), ("30", 30)] {
            assert_eq!(parse_time(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for bad in ["", "h", "1w", "-1h", "1.5h", "1 h", "99999999999999999999d", "1000000000000000000d", "é"]
        {
            assert!(parse_time(bad).is_err(), "{bad}");
        }
    }
}
