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

/// Help text of `bluetick bench`, below the flags.
const BENCH_HELP: &str = "\
Network benchmarks start this program as a separate server on 127.0.0.1 with its own store. Load and
server share this machine, so the output shows the processor time of both.

Progress goes to standard error; results go to standard output, as a table or with --json as
  {\"workload\", \"version\", \"parameters\", \"figures\", \"latencies\", \"remarks\"}
where every key ends with its unit, and latencies have count, p50_ms, p99_ms, p99_9_ms and max_ms.

Examples:
  bluetick bench pairs
  bluetick bench pairs --half-load                     latency of an ack, compared with one fsync
  bluetick bench group --rate 2000 --json > group.json
  bluetick bench idle --connections 500000";

#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// The embedded store alone: durable sends, pages, bytes, processor time
    #[command(after_help = STORE_HELP)]
    Store(BenchStoreArgs),
    /// The embedded store: inbox pages, read-state updates, receipts of a large group, disk bytes
    #[command(after_help = "Examples:\n  bluetick bench inbox\n  bluetick bench inbox --conversations 10000")]
    Inbox(BenchInboxArgs),
    /// A separate server, and devices that reconnect all at once after they missed messages
    #[command(
        after_help = "Examples:\n  bluetick bench reconnect\n  bluetick bench reconnect --devices 5000 --missed 20"
    )]
    Reconnect(BenchReconnectArgs),
    /// A separate server, and pairs of users over WebSockets: one sends, the other acknowledges
    #[command(after_help = PAIRS_HELP)]
    Pairs(BenchPairsArgs),
    /// A separate server, and one group whose members are all connected: a few send
    #[command(after_help = GROUP_HELP)]
    Group(BenchGroupArgs),
    /// A separate server, and readers of the newest page of random conversations, over HTTP
    #[command(after_help = "Examples:\n  bluetick bench history\n  bluetick bench history --json")]
    History(BenchHistoryArgs),
    /// A separate server, and idle connections: connect rate, bytes of memory for each
    #[command(after_help = IDLE_HELP)]
    Idle(BenchIdleArgs),
    /// A separate server that archives old messages: page latency before and after, bytes, rate
    #[command(
        after_help = "Examples:\n  bluetick bench archive\n  bluetick bench archive --dir /data/scratch"
    )]
    Archive(BenchArchiveArgs),
    /// A separate server under one attack after another: ack latency of honest users
    #[command(after_help = ATTACK_HELP)]
    Attack(BenchAttackArgs),
}

/// Where a run writes.
#[derive(Args, Clone, Debug)]
pub struct ScratchArgs {
    /// An empty or new directory on the disk to measure; removed at the end
    #[arg(long, value_name = "DIR", default_value = "./bluetick-bench")]
    pub dir: PathBuf,
}

/// A store that is not empty, to compare with one that is.
#[derive(Args, Clone, Debug)]
pub struct StoredArgs {
    /// Number of messages in the store before the run
    #[arg(long, value_name = "COUNT", default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=10_000_000_000))]
    pub stored_messages: u64,
    /// Number of conversations of these messages
    #[arg(long, value_name = "COUNT", default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    pub stored_conversations: u64,
    /// Keep the directory; a later run with the same --dir and --stored-* reuses it
    #[arg(long)]
    pub keep: bool,
}

/// An open loop.
#[derive(Args, Clone, Copy, Debug)]
pub struct RateArgs {
    /// Messages per second, all senders together, sent without waiting for earlier acks
    #[arg(long, value_name = "PER_SECOND", conflicts_with = "window", value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub rate: Option<u64>,
    /// With --rate: unacknowledged sends of one sender; further ones wait
    #[arg(long, value_name = "COUNT", default_value_t = 256, requires = "rate", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub outstanding: u32,
}

/// Help text of `bluetick bench group`, below the flags.
const GROUP_HELP: &str = "\
Without --rate the load is a closed loop: each sender has --window unacknowledged messages and sends
the next one after an ack. With --rate it is an open loop: messages are due at a constant interval.
Latency counts from the time at which a message was due, so it includes waiting. The report states
if the rate could not be kept.

Examples:
  bluetick bench group --members 1000 --senders 1
  bluetick bench group --rate 2000 --seconds 30";

/// Help text of `bluetick bench pairs`, below the flags.
const PAIRS_HELP: &str = "\
Without --rate the load is a closed loop: each pair has --window unacknowledged messages and sends
the next one after an ack. With --rate it is an open loop: messages are due at a constant interval.
Latency counts from the time at which a message was due, so it includes waiting. The report states
if the rate could not be kept.

--half-load first finds the rate of a closed loop with one unacknowledged message per pair. Then it
offers half of that rate in an open loop, and compares the p99 of an ack with one fsync of this disk.

Examples:
  bluetick bench pairs --window 1
  bluetick bench pairs --rate 20000 --seconds 30
  bluetick bench pairs --dir /data/full --keep --stored-messages 10000000";

/// Help text of `bluetick bench idle`, below the flags.
const IDLE_HELP: &str = "\
Connections come from 127.0.0.2, 127.0.0.3 and so on, 25,000 from each. The command raises the limit
of open files for this run, beyond `ulimit -Hn` if the user may do that. Connections answer pings. A
connection that closes before the end makes the run fail.

Examples:
  bluetick bench idle --connections 50000
  bluetick bench idle --connections 500000 --hold 60";

/// Help text of `bluetick bench attack`, below the flags.
const ATTACK_HELP: &str = "\
Honest pairs send at a constant rate: some seconds without an attack, then as long under one attack,
and so on for each attack. The result is the median of several rounds. Latency counts from the time
at which a message was due. The server has its default limits. Attackers run on one thread of the
lowest priority at bounded rates, which the output shows, because they share this machine's
processors with the server.

Attacks: slow_loris, never_reading, one_byte_frames, giant_frames, reconnect_storm, log_in_flood,
connections_of_one_user, ping_flood, guessed_ids, bad_tokens

Examples:
  bluetick bench attack
  bluetick bench attack --attack log_in_flood --attack bad_tokens --seconds 20";

/// Help text of `bluetick bench store`, below the flags.
const STORE_HELP: &str = "\
Each send is complete: membership, duplicate check, order, one synced batch, inbox rows,
checkpoints. The output compares it with two bare logs on the same disk. One log has as many callers
with as many bytes and shared syncs, and does nothing else. The other writes and syncs the same
batches without callers, which is the limit of the disk.

Examples:
  bluetick bench store
  bluetick bench store --in-flight 1 --messages 20000        latency of a single sender
  bluetick bench store --messages 10000000 --dir /data/bench   longer, on another disk
  bluetick bench store --stored-messages 10000000            in a store that is not empty";

#[derive(Args, Debug)]
pub struct BenchGroupArgs {
    /// Number of members, all connected
    #[arg(long, value_name = "COUNT", default_value_t = 200, value_parser = clap::value_parser!(u32).range(2..=10_000))]
    pub members: u32,
    /// Number of members that send
    #[arg(long, value_name = "COUNT", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub senders: u32,
    /// Number of unacknowledged sends of each sender at any time
    #[arg(long, value_name = "COUNT", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub window: u32,
    #[command(flatten)]
    pub rate: RateArgs,
    /// The size of a message's text
    #[arg(long, value_name = "BYTES", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub body: u32,
    /// Duration of the measurement
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    pub seconds: u64,
    #[command(flatten)]
    pub stored: StoredArgs,
    #[command(flatten)]
    pub scratch: ScratchArgs,
}

#[derive(Args, Debug)]
pub struct BenchHistoryArgs {
    /// Number of conversations
    #[arg(long, value_name = "COUNT", default_value_t = 2_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub conversations: u32,
    /// Number of messages in each
    #[arg(long, value_name = "COUNT", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub messages: u32,
    /// Number of concurrent readers
    #[arg(long, value_name = "COUNT", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub readers: u32,
    /// Duration of the measurement
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    pub seconds: u64,
    #[command(flatten)]
    pub stored: StoredArgs,
    #[command(flatten)]
    pub scratch: ScratchArgs,
}

#[derive(Args, Debug)]
pub struct BenchArchiveArgs {
    /// Number of conversations
    #[arg(long, value_name = "COUNT", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub conversations: u32,
    /// Number of messages in each
    #[arg(long, value_name = "COUNT", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(22..=1_000_000))]
    pub messages: u32,
    /// Number of concurrent readers
    #[arg(long, value_name = "COUNT", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub readers: u32,
    /// Duration of each measurement
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    pub seconds: u64,
    #[command(flatten)]
    pub scratch: ScratchArgs,
}

#[derive(Args, Debug)]
pub struct BenchAttackArgs {
    /// Number of honest pairs
    #[arg(long, value_name = "COUNT", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub pairs: u32,
    /// Messages per second of all honest pairs together
    #[arg(long, value_name = "PER_SECOND", default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub rate: u64,
    /// Duration of each attack, and of the quiet time before it
    #[arg(long, value_name = "SECONDS", default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    pub seconds: u64,
    /// Number of rounds; the output shows their median
    #[arg(long, value_name = "COUNT", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=100))]
    pub rounds: u64,
    /// Number of connections that slow_loris and connections_of_one_user try to hold
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
    /// Number of connections; each needs an open file on both sides
    #[arg(long, value_name = "COUNT", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub connections: u32,
    /// Number of connections between connect and caught_up at the same time
    #[arg(long, value_name = "COUNT", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub at_once: u32,
    /// How long the connections stay open before they are counted
    #[arg(long, value_name = "SECONDS", default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=86_400))]
    pub hold: u64,
    #[command(flatten)]
    pub scratch: ScratchArgs,
}

#[derive(Args, Debug)]
pub struct BenchPairsArgs {
    /// Number of pairs
    #[arg(long, value_name = "COUNT", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub pairs: u32,
    /// Number of unacknowledged sends of each pair at any time
    #[arg(long, value_name = "COUNT", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub window: u32,
    #[command(flatten)]
    pub rate: RateArgs,
    /// Measure at half of the maximum rate with one send per pair, compared with one fsync
    #[arg(long, conflicts_with_all = ["window", "rate"])]
    pub half_load: bool,
    /// The size of a message's text
    #[arg(long, value_name = "BYTES", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub body: u32,
    /// Duration of the measurement
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    pub seconds: u64,
    #[command(flatten)]
    pub stored: StoredArgs,
    #[command(flatten)]
    pub scratch: ScratchArgs,
}

#[derive(Args, Debug)]
pub struct BenchInboxArgs {
    /// Number of conversations in the long inbox; the short one has 20
    #[arg(long, value_name = "COUNT", default_value_t = 50_000, value_parser = clap::value_parser!(u32).range(20..=1_000_000))]
    pub conversations: u32,
    /// Duration of each measurement
    #[arg(long, value_name = "SECONDS", default_value_t = 3)]
    pub seconds: u64,
    /// Number of read-state updates that wait for the disk at any time
    #[arg(long, value_name = "COUNT", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub in_flight: u32,
    #[command(flatten)]
    pub scratch: ScratchArgs,
}

#[derive(Args, Debug)]
pub struct BenchReconnectArgs {
    /// Number of devices that reconnect
    #[arg(long, value_name = "COUNT", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=20_000))]
    pub devices: u32,
    /// Number of messages that each device missed
    #[arg(long, value_name = "COUNT", default_value_t = 100, value_parser = clap::value_parser!(u32).range(0..=1_000))]
    pub missed: u32,
    #[command(flatten)]
    pub scratch: ScratchArgs,
}

#[derive(Args, Debug)]
pub struct BenchStoreArgs {
    /// Number of messages sent
    #[arg(long, value_name = "COUNT", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub messages: u64,
    /// Number of conversations; a few are busy, most are quiet (Zipf distribution)
    #[arg(long, value_name = "COUNT", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub conversations: u32,
    /// Number of unacknowledged sends at any time
    #[arg(long, value_name = "COUNT", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=60_000))]
    pub in_flight: u32,
    /// The size of a message's text
    #[arg(long, value_name = "BYTES", default_value_t = 150, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub body: u32,
    /// Duration of page reads, once cached and once after a restart; 0 skips them
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
