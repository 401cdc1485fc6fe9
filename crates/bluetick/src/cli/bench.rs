//! The arguments of `bluetick bench`.

use std::path::PathBuf;

use bluetick_bench::attack::Attack;
use clap::{Args, Subcommand};

#[derive(Args, Debug)]
#[command(after_help = BENCH_HELP)]
pub struct BenchArgs {
    /// Print the results as one JSON object on standard output; the table goes to standard error
    #[arg(long, global = true)]
    pub json: bool,
    #[command(subcommand)]
    pub command: BenchCommand,
}

const BENCH_HELP: &str = "\
What is measured over the network is this same program, started as a server of its own on 127.0.0.1
with a store of its own. Load and server share this machine, so the processor time of both is shown.

Progress goes to standard error; results go to standard output, as a table or with --json as
  {\"workload\", \"version\", \"parameters\", \"figures\", \"latencies\", \"remarks\"}
where every key ends with its unit, and latencies have count, p50_ms, p99_ms, p99_9_ms and max_ms.

Examples:
  bluetick bench pairs
  bluetick bench pairs --half-load                     how long an ack takes, beside one fsync
  bluetick bench group --rate 2000 --json > group.json
  bluetick bench idle --connections 500000";

#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// The embedded store alone: durable sends, pages, bytes, processor time
    #[command(after_help = STORE_HELP)]
    Store(BenchStoreArgs),
    /// The embedded store: pages of a short and of a long inbox, marks, receipts of a large group, bytes on disk
    #[command(after_help = "Examples:\n  bluetick bench inbox\n  bluetick bench inbox --conversations 10000")]
    Inbox(BenchInboxArgs),
    /// A server of its own, and devices that come back all at once after they missed messages
    #[command(
        after_help = "Examples:\n  bluetick bench reconnect\n  bluetick bench reconnect --devices 5000 --missed 20"
    )]
    Reconnect(BenchReconnectArgs),
    /// A server of its own, and pairs of people over WebSockets: one sends, the other receives and acknowledges
    #[command(after_help = PAIRS_HELP)]
    Pairs(BenchPairsArgs),
    /// A server of its own, and one group whose members are all connected: a few write, all others receive
    #[command(after_help = GROUP_HELP)]
    Group(BenchGroupArgs),
    /// A server of its own, and readers of the newest page of random conversations, over HTTP
    #[command(after_help = "Examples:\n  bluetick bench history\n  bluetick bench history --json")]
    History(BenchHistoryArgs),
    /// A server of its own, and connections that do nothing: connect rate, bytes of memory each
    #[command(after_help = IDLE_HELP)]
    Idle(BenchIdleArgs),
    /// A server of its own, and old messages that move to an archive in a directory: pages before and after, bytes, pace
    #[command(
        after_help = "Examples:\n  bluetick bench archive\n  bluetick bench archive --dir /data/scratch"
    )]
    Archive(BenchArchiveArgs),
    /// A server of its own, and honest people whose acks are timed while somebody attacks it in one way after the other
    #[command(after_help = ATTACK_HELP)]
    Attack(BenchAttackArgs),
}

/// Where a run writes.
#[derive(Args, Clone, Debug)]
pub struct ScratchArgs {
    /// Where to write: an empty or new directory on the disk to measure; removed at the end
    #[arg(long, value_name = "DIR", default_value = "./bluetick-bench")]
    pub dir: PathBuf,
}

/// A store that is not empty, to compare with one that is.
#[derive(Args, Clone, Debug)]
pub struct StoredArgs {
    /// How many messages are in the store before the run begins
    #[arg(long, value_name = "COUNT", default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=10_000_000_000))]
    pub stored_messages: u64,
    /// In how many conversations they are
    #[arg(long, value_name = "COUNT", default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    pub stored_conversations: u64,
    /// Keep the directory; a later run with the same --dir and --stored-* finds it filled
    #[arg(long)]
    pub keep: bool,
}

/// An open loop.
#[derive(Args, Clone, Copy, Debug)]
pub struct RateArgs {
    /// Send this many messages a second, all senders together, whether or not those before are acknowledged
    #[arg(long, value_name = "PER_SECOND", conflicts_with = "window", value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub rate: Option<u64>,
    /// With --rate: how many sends of one sender may be unacknowledged; more wait for their turn
    #[arg(long, value_name = "COUNT", default_value_t = 256, requires = "rate", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub outstanding: u32,
}

const GROUP_HELP: &str = "\
Without --rate it is a closed loop: each sender has --window messages on their way and sends the next
when one is acknowledged. With --rate it is an open loop: messages are due at even distances, and
latency counts from the moment a message was due, so that waiting is not hidden. When the rate cannot
be kept, the report says so.

Examples:
  bluetick bench group --members 1000 --senders 1
  bluetick bench group --rate 2000 --seconds 30";

const PAIRS_HELP: &str = "\
Without --rate it is a closed loop: each pair has --window messages on their way and sends the next
when one is acknowledged. With --rate it is an open loop: messages are due at even distances, and
latency counts from the moment a message was due, so that waiting is not hidden. When the rate cannot
be kept, the report says so.

--half-load first finds the rate of a closed loop with one message of each pair on its way, then
offers half of it in an open loop, and compares the p99 of an ack with one fsync of this disk.

Examples:
  bluetick bench pairs --window 1
  bluetick bench pairs --rate 20000 --seconds 30
  bluetick bench pairs --dir /data/full --keep --stored-messages 10000000";

const IDLE_HELP: &str = "\
Connections come from 127.0.0.2, 127.0.0.3 and so on, 25,000 from each. The limit of open files is
raised for this run, beyond `ulimit -Hn` where the user may do that. Pings are answered; a connection
that does not stay until the end makes the run fail.

Examples:
  bluetick bench idle --connections 50000
  bluetick bench idle --connections 500000 --hold 60";

const ATTACK_HELP: &str = "\
Honest pairs send at an even rate, undisturbed for some seconds and then under one attack for as long,
and so on for each attack, in several rounds of which the middle one counts. Latency counts from the moment a message was due. The server has its usual
limits. Attackers run on one thread of the lowest priority and at bounded rates, which are shown: they
share this machine's processors with the server, which they would not do elsewhere.

Attacks: slow_loris, never_reading, one_byte_frames, giant_frames, reconnect_storm, log_in_flood,
connections_of_one_user, ping_flood, guessed_ids, bad_tokens

Examples:
  bluetick bench attack
  bluetick bench attack --attack log_in_flood --attack bad_tokens --seconds 20";

const STORE_HELP: &str = "\
Each send is a whole one: membership, duplicate check, order, one synced batch, inbox rows, checkpoints.
Beside it stand two bare logs on the same disk. One has as many callers, which hand over as many bytes
and share syncs in the same way, and does nothing else. The other writes and syncs the same batches
with nobody waiting, which is the limit of the disk.

Examples:
  bluetick bench store
  bluetick bench store --in-flight 1 --messages 20000        what a lone sender waits for
  bluetick bench store --messages 10000000 --dir /data/bench   longer, on another disk
  bluetick bench store --stored-messages 10000000            in a store that is not empty";

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
    #[command(flatten)]
    pub rate: RateArgs,
    /// The size of a message's text
    #[arg(long, value_name = "BYTES", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub body: u32,
    /// How long
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    pub seconds: u64,
    #[command(flatten)]
    pub stored: StoredArgs,
    #[command(flatten)]
    pub scratch: ScratchArgs,
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
    #[command(flatten)]
    pub stored: StoredArgs,
    #[command(flatten)]
    pub scratch: ScratchArgs,
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
    #[command(flatten)]
    pub scratch: ScratchArgs,
}

#[derive(Args, Debug)]
pub struct BenchAttackArgs {
    /// How many honest pairs
    #[arg(long, value_name = "COUNT", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub pairs: u32,
    /// How many messages a second all honest pairs send together
    #[arg(long, value_name = "PER_SECOND", default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub rate: u64,
    /// How long each attack is measured, and each quiet time before one
    #[arg(long, value_name = "SECONDS", default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    pub seconds: u64,
    /// How often every attack is made; the median of the rounds is shown
    #[arg(long, value_name = "COUNT", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=100))]
    pub rounds: u64,
    /// How many connections slow-loris and the user with too many of them try to hold
    #[arg(long, value_name = "COUNT", default_value_t = 2_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub connections: u32,
    /// Only this attack; may be given several times
    #[arg(long, value_name = "NAME")]
    pub attack: Vec<Attack>,
    #[command(flatten)]
    pub scratch: ScratchArgs,
}

#[derive(Args, Debug)]
pub struct BenchIdleArgs {
    /// How many connections are held; each needs an open file on both sides
    #[arg(long, value_name = "COUNT", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub connections: u32,
    /// How many are on their way from connect to caught_up at the same time
    #[arg(long, value_name = "COUNT", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub at_once: u32,
    /// How long all of them are held before they are counted
    #[arg(long, value_name = "SECONDS", default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=86_400))]
    pub hold: u64,
    #[command(flatten)]
    pub scratch: ScratchArgs,
}

#[derive(Args, Debug)]
pub struct BenchPairsArgs {
    /// How many pairs
    #[arg(long, value_name = "COUNT", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub pairs: u32,
    /// How many sends of each pair wait for their ack at any time
    #[arg(long, value_name = "COUNT", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub window: u32,
    #[command(flatten)]
    pub rate: RateArgs,
    /// Find the full rate with one send of each pair on its way, then measure at half of it, beside one fsync
    #[arg(long, conflicts_with_all = ["window", "rate"])]
    pub half_load: bool,
    /// The size of a message's text
    #[arg(long, value_name = "BYTES", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub body: u32,
    /// How long
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    pub seconds: u64,
    #[command(flatten)]
    pub stored: StoredArgs,
    #[command(flatten)]
    pub scratch: ScratchArgs,
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
    #[command(flatten)]
    pub scratch: ScratchArgs,
}

#[derive(Args, Debug)]
pub struct BenchReconnectArgs {
    /// How many devices come back
    #[arg(long, value_name = "COUNT", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=20_000))]
    pub devices: u32,
    /// How many messages each has missed
    #[arg(long, value_name = "COUNT", default_value_t = 100, value_parser = clap::value_parser!(u32).range(0..=1_000))]
    pub missed: u32,
    #[command(flatten)]
    pub scratch: ScratchArgs,
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
    #[command(flatten)]
    pub stored: StoredArgs,
    #[command(flatten)]
    pub scratch: ScratchArgs,
}
