//! `bluetick bench`: measuring.

use std::path::PathBuf;

use bluetick_bench::BenchError;
use bluetick_bench::archive::{self, ArchiveBench};
use bluetick_bench::group::{self, GroupBench};
use bluetick_bench::history::{self, HistoryBench};
use bluetick_bench::idle::{self, IdleBench};
use bluetick_bench::inbox::{self, InboxBench};
use bluetick_bench::pairs::{self, PairsBench};
use bluetick_bench::reconnect::{self, ReconnectBench};
use bluetick_bench::store::{self, StoreBench};
use bluetick_store_embedded::StoreSettings;

use crate::cli::{
    BenchArchiveArgs, BenchCommand, BenchGroupArgs, BenchHistoryArgs, BenchIdleArgs, BenchInboxArgs,
    BenchPairsArgs, BenchReconnectArgs, BenchStoreArgs,
};
use crate::failure::Failure;

pub fn run(command: &BenchCommand) -> Result<(), Failure> {
    let outcome = match command {
        BenchCommand::Store(arguments) => store::run(store_bench(arguments)?),
        BenchCommand::Inbox(arguments) => inbox::run(inbox_bench(arguments)),
        BenchCommand::Reconnect(arguments) => reconnect::run(reconnect_bench(arguments)?),
        BenchCommand::Pairs(arguments) => pairs::run(pairs_bench(arguments)?),
        BenchCommand::Group(arguments) => group::run(group_bench(arguments)?),
        BenchCommand::History(arguments) => history::run(history_bench(arguments)?),
        BenchCommand::Idle(arguments) => idle::run(idle_bench(arguments)?),
        BenchCommand::Archive(arguments) => archive::run(archive_bench(arguments)?),
    };
    outcome.map_err(|error| match error {
        BenchError::NotEmpty(_) => Failure::usage(error),
        other => Failure::failed(other),
    })
}

fn store_bench(arguments: &BenchStoreArgs) -> Result<StoreBench, Failure> {
    let mut settings = StoreSettings::default();
    settings.checkpoint_bytes = arguments.checkpoint_bytes.unwrap_or(settings.checkpoint_bytes);
    if let Some(problem) = settings.problem() {
        return Err(Failure::usage(problem));
    }
    Ok(StoreBench {
        directory: arguments.dir.clone(),
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
        directory: arguments.dir.clone(),
        conversations: arguments.conversations as usize,
        seconds: arguments.seconds,
        in_flight: arguments.in_flight as usize,
    }
}

/// What is measured over the network is this very program.
fn this_program() -> Result<PathBuf, Failure> {
    std::env::current_exe().map_err(Failure::failed)
}

fn idle_bench(arguments: &BenchIdleArgs) -> Result<IdleBench, Failure> {
    Ok(IdleBench {
        directory: arguments.dir.clone(),
        binary: this_program()?,
        connections: arguments.connections as usize,
    })
}

fn group_bench(arguments: &BenchGroupArgs) -> Result<GroupBench, Failure> {
    if arguments.senders > arguments.members {
        return Err(Failure::usage("--senders must not be more than --members"));
    }
    Ok(GroupBench {
        directory: arguments.dir.clone(),
        binary: this_program()?,
        members: arguments.members as usize,
        senders: arguments.senders as usize,
        window: arguments.window as usize,
        body_bytes: arguments.body as usize,
        seconds: arguments.seconds,
    })
}

fn history_bench(arguments: &BenchHistoryArgs) -> Result<HistoryBench, Failure> {
    Ok(HistoryBench {
        directory: arguments.dir.clone(),
        binary: this_program()?,
        conversations: arguments.conversations as usize,
        messages: arguments.messages as usize,
        readers: arguments.readers as usize,
        seconds: arguments.seconds,
    })
}

fn archive_bench(arguments: &BenchArchiveArgs) -> Result<ArchiveBench, Failure> {
    Ok(ArchiveBench {
        directory: arguments.dir.clone(),
        binary: this_program()?,
        conversations: arguments.conversations as usize,
        messages: arguments.messages as usize,
        readers: arguments.readers as usize,
        seconds: arguments.seconds,
    })
}

fn pairs_bench(arguments: &BenchPairsArgs) -> Result<PairsBench, Failure> {
    Ok(PairsBench {
        directory: arguments.dir.clone(),
        binary: this_program()?,
        pairs: arguments.pairs as usize,
        window: arguments.window as usize,
        body_bytes: arguments.body as usize,
        seconds: arguments.seconds,
    })
}

fn reconnect_bench(arguments: &BenchReconnectArgs) -> Result<ReconnectBench, Failure> {
    Ok(ReconnectBench {
        directory: arguments.dir.clone(),
        binary: this_program()?,
        devices: arguments.devices as usize,
        missed: arguments.missed as usize,
    })
}
