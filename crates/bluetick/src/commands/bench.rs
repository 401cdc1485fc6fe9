//! `bluetick bench`: runs the benchmarks.

use std::path::PathBuf;

use bluetick_bench::archive::{self, ArchiveBench};
use bluetick_bench::attack::{self, Attack, AttackBench};
use bluetick_bench::group::{self, GroupBench};
use bluetick_bench::history::{self, HistoryBench};
use bluetick_bench::idle::{self, IdleBench};
use bluetick_bench::inbox::{self, InboxBench};
use bluetick_bench::pairs::{self, PairsBench, PairsLoad};
use bluetick_bench::reconnect::{self, ReconnectBench};
use bluetick_bench::store::{self, StoreBench};
use bluetick_bench::{BenchError, Ground, Load, StoredCounts};
use bluetick_store_embedded::StoreSettings;

use crate::cli::{
    BenchArchiveArgs, BenchArgs, BenchAttackArgs, BenchCommand, BenchGroupArgs, BenchHistoryArgs,
    BenchIdleArgs, BenchInboxArgs, BenchPairsArgs, BenchReconnectArgs, BenchStoreArgs, RateArgs, ScratchArgs,
    StoredArgs,
};
use crate::failure::Failure;
use crate::output;

pub fn run(arguments: &BenchArgs) -> Result<(), Failure> {
    let outcome = match &arguments.command {
        BenchCommand::Store(arguments) => store::run(store_bench(arguments)?),
        BenchCommand::Inbox(arguments) => inbox::run(inbox_bench(arguments)),
        BenchCommand::Reconnect(arguments) => reconnect::run(reconnect_bench(arguments)?),
        BenchCommand::Pairs(arguments) => pairs::run(pairs_bench(arguments)?),
        BenchCommand::Group(arguments) => group::run(group_bench(arguments)?),
        BenchCommand::History(arguments) => history::run(history_bench(arguments)?),
        BenchCommand::Idle(arguments) => idle::run(idle_bench(arguments)?),
        BenchCommand::Archive(arguments) => archive::run(archive_bench(arguments)?),
        BenchCommand::Attack(arguments) => attack::run(attack_bench(arguments)?),
    };
    let report = outcome.map_err(|error| match error {
        BenchError::NotEmpty(_) | BenchError::OtherStore { .. } => Failure::usage(error),
        other => Failure::failed(other),
    })?;
    if arguments.json {
        eprint!("\n{}", report.table());
        return output::print(&format!("{}\n", report.json()));
    }
    output::print(&format!("\n{}", report.table()))
}

fn ground(scratch: &ScratchArgs, stored: &StoredArgs) -> Ground {
    let conversations = if stored.stored_messages == 0 { 0 } else { stored.stored_conversations };
    Ground {
        directory: scratch.dir.clone(),
        keep: stored.keep,
        stored: StoredCounts { messages: stored.stored_messages, conversations },
    }
}

fn load(window: u32, rate: RateArgs) -> Load {
    match rate.rate {
        Some(per_second) => Load::Rate { per_second, bound: rate.outstanding as usize },
        None => Load::Window(window as usize),
    }
}

/// The path of this program. The network benchmarks start it as their server.
fn this_program() -> Result<PathBuf, Failure> {
    std::env::current_exe().map_err(Failure::failed)
}

fn store_bench(arguments: &BenchStoreArgs) -> Result<StoreBench, Failure> {
    let mut settings = StoreSettings::default();
    settings.checkpoint_bytes = arguments.checkpoint_bytes.unwrap_or(settings.checkpoint_bytes);
    if let Some(problem) = settings.problem() {
        return Err(Failure::usage(problem));
    }
    Ok(StoreBench {
        ground: ground(&arguments.scratch, &arguments.stored),
        messages: arguments.messages,
        conversations: arguments.conversations as usize,
        in_flight: arguments.in_flight as usize,
        body_bytes: arguments.body as usize,
        read_seconds: arguments.read_seconds,
        settings,
    })
}

fn inbox_bench(arguments: &BenchInboxArgs) -> InboxBench {
    InboxBench {
        directory: arguments.scratch.dir.clone(),
        conversations: arguments.conversations as usize,
        seconds: arguments.seconds,
        in_flight: arguments.in_flight as usize,
    }
}

fn idle_bench(arguments: &BenchIdleArgs) -> Result<IdleBench, Failure> {
    Ok(IdleBench {
        directory: arguments.scratch.dir.clone(),
        binary: this_program()?,
        connections: arguments.connections as usize,
        at_once: arguments.at_once as usize,
        hold_seconds: arguments.hold,
    })
}

fn group_bench(arguments: &BenchGroupArgs) -> Result<GroupBench, Failure> {
    if arguments.senders > arguments.members {
        return Err(Failure::usage("--senders must not be more than --members"));
    }
    Ok(GroupBench {
        ground: ground(&arguments.scratch, &arguments.stored),
        binary: this_program()?,
        members: arguments.members as usize,
        senders: arguments.senders as usize,
        load: load(arguments.window, arguments.rate),
        body_bytes: arguments.body as usize,
        seconds: arguments.seconds,
    })
}

fn history_bench(arguments: &BenchHistoryArgs) -> Result<HistoryBench, Failure> {
    Ok(HistoryBench {
        ground: ground(&arguments.scratch, &arguments.stored),
        binary: this_program()?,
        conversations: arguments.conversations as usize,
        messages: arguments.messages as usize,
        readers: arguments.readers as usize,
        seconds: arguments.seconds,
    })
}

fn archive_bench(arguments: &BenchArchiveArgs) -> Result<ArchiveBench, Failure> {
    Ok(ArchiveBench {
        directory: arguments.scratch.dir.clone(),
        binary: this_program()?,
        conversations: arguments.conversations as usize,
        messages: arguments.messages as usize,
        readers: arguments.readers as usize,
        seconds: arguments.seconds,
    })
}

fn attack_bench(arguments: &BenchAttackArgs) -> Result<AttackBench, Failure> {
    let attacks = if arguments.attack.is_empty() { Attack::ALL } else { &arguments.attack };
    Ok(AttackBench {
        directory: arguments.scratch.dir.clone(),
        binary: this_program()?,
        pairs: arguments.pairs as usize,
        rate: arguments.rate,
        seconds: arguments.seconds,
        rounds: arguments.rounds,
        connections: arguments.connections as usize,
        attacks: attacks.to_vec(),
    })
}

fn pairs_bench(arguments: &BenchPairsArgs) -> Result<PairsBench, Failure> {
    let given = load(arguments.window, arguments.rate);
    Ok(PairsBench {
        ground: ground(&arguments.scratch, &arguments.stored),
        binary: this_program()?,
        pairs: arguments.pairs as usize,
        load: if arguments.half_load { PairsLoad::Half } else { PairsLoad::Given(given) },
        body_bytes: arguments.body as usize,
        seconds: arguments.seconds,
    })
}

fn reconnect_bench(arguments: &BenchReconnectArgs) -> Result<ReconnectBench, Failure> {
    Ok(ReconnectBench {
        directory: arguments.scratch.dir.clone(),
        binary: this_program()?,
        devices: arguments.devices as usize,
        missed: arguments.missed as usize,
    })
}
