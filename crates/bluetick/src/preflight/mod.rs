//! Finds the mistakes that keep a server from starting. The checks leave no file and no directory behind.
//!
//! `bluetick config check` asks for everything. `bluetick serve` opens its store itself, and asks for the rest, so that it
//! can name all mistakes at once. Damage inside the data directory is not looked for: that is `bluetick check`.

mod fleet;
mod paths;

use std::net::TcpListener;
use std::path::Path;

use bluetick_archive::{ArchiveEngine, Vault};
use bluetick_auth::{AdminKey, Tokens};
use bluetick_core::time::{Clock, SystemClock};
use bluetick_server::tls_advice;
use bluetick_store_embedded::probe;

use crate::failure::Failure;
use crate::logging;
use crate::settings::{Engine, Settings};
use crate::store::CannotOpen;

/// The mistakes and the advice that the preflight found.
#[derive(Debug, Default)]
pub struct Findings {
    /// Each keeps the server from starting.
    pub mistakes: Vec<Failure>,
    /// Each works and is unwise, in a sentence.
    pub advice: Vec<String>,
}

impl Findings {
    fn mistake(&mut self, mistake: Option<Failure>) {
        self.mistakes.extend(mistake);
    }
}

/// Everything that [`crate::commands::serve`] needs, in the order in which it is used. `is_named` says of a part of the
/// settings that a mistake in it is known already; that part is left out.
pub fn everything(settings: &Settings, is_named: &dyn Fn(&str) -> bool) -> Findings {
    let mut findings = Findings::default();
    if !is_named("log.") {
        findings.mistake(logging::check(&settings.log).err());
    }
    if !is_named("store.data_dir") {
        findings.mistakes.extend(data_dir(settings));
    }
    if !is_named("archive.") {
        findings.mistake(archive(settings));
    }
    let tables_are_named = is_named("store.dynamodb.") || is_named("store.redis.");
    if settings.store.engine == Engine::DynamoDb && !tables_are_named {
        fleet::look(settings, &mut findings);
    }
    rest(settings, is_named, &mut findings);
    findings
}

/// The keys, the audit trail, the certificate and the port, of settings that have no mistakes.
pub fn besides_store(settings: &Settings) -> Findings {
    let mut findings = Findings::default();
    rest(settings, &|_| false, &mut findings);
    findings
}

fn rest(settings: &Settings, is_named: &dyn Fn(&str) -> bool, findings: &mut Findings) {
    let data_dir = &settings.store.data_dir;
    // Where the directory cannot be used, that is a mistake of its own.
    if paths::directory(data_dir).is_none() && !is_named("auth.") && !is_named("admin.") {
        findings.mistake(Tokens::check_in(&settings.auth, data_dir).err().map(Failure::from));
        findings.mistake(AdminKey::read(&settings.admin, data_dir).err().map(Failure::from));
    }
    if !is_named("audit.") {
        findings.mistake(audit(settings));
    }
    if !is_named("server.tls.") {
        match tls_advice(&settings.server.tls, SystemClock.now()) {
            Ok(advice) => findings.advice.extend(advice),
            Err(error) => findings.mistake(Some(Failure::usage(error.to_string()))),
        }
    }
    let listen = &settings.server.listen;
    if !is_named("server.listen")
        && let Err(error) = TcpListener::bind(listen)
    {
        findings.mistake(Some(cannot_listen(listen, &error)));
    }
}

fn data_dir(settings: &Settings) -> Vec<Failure> {
    let data_dir = &settings.store.data_dir;
    match (paths::directory(data_dir), settings.store.engine) {
        (Some(reason), _) => {
            vec![Failure::failed(format!("{}: {reason} (store.data_dir)", data_dir.display()))]
        }
        (None, Engine::Embedded) => embedded(data_dir),
        (None, Engine::DynamoDb) => Vec::new(),
    }
}

/// The sentence for a port that is in use or not allowed.
pub fn cannot_listen(listen: &str, error: &std::io::Error) -> Failure {
    Failure::failed(format!("cannot listen on {listen} (server.listen): {error}"))
}

/// The data directory can be looked into; whether a store in it could be opened.
fn embedded(data_dir: &Path) -> Vec<Failure> {
    let cannot_use = |path: &Path, reason: String| Failure::failed(format!("{}: {reason}", path.display()));
    let mut found = Vec::new();
    for name in ["log", "tables"] {
        let path = data_dir.join(name);
        found.extend(paths::directory(&path).map(|reason| cannot_use(&path, reason)));
    }
    for name in ["LOCK", "tables/data.mdb", "tables/lock.mdb"] {
        let path = data_dir.join(name);
        found.extend(paths::file_if_there(&path).map(|reason| cannot_use(&path, reason)));
    }
    if !found.is_empty() {
        return found;
    }
    match probe(data_dir).map_err(CannotOpen::from) {
        Ok(()) => Vec::new(),
        Err(CannotOpen::InUse { reason, .. }) => vec![Failure::failed(format!(
            "{reason}; stop that process first, or give this server another directory (store.data_dir)"
        ))],
        Err(error) => vec![error.into()],
    }
}

fn archive(settings: &Settings) -> Option<Failure> {
    let (archive, data_dir) = (&settings.archive, &settings.store.data_dir);
    match archive.engine {
        ArchiveEngine::Off => None,
        // Opening it would make the directory.
        ArchiveEngine::Directory => {
            let path = data_dir.join(archive.directory.as_deref().unwrap_or(Path::new("archive")));
            let reason = paths::directory(&path)?;
            Some(Failure::failed(format!(
                "cannot use the archive: archive.directory {}: {reason}",
                path.display()
            )))
        }
        ArchiveEngine::S3 => Vault::open(archive, data_dir).err().map(|error| CannotOpen::from(error).into()),
    }
}

fn audit(settings: &Settings) -> Option<Failure> {
    let file = settings.audit.file.as_str();
    if ["off", "stderr"].contains(&file) {
        return None;
    }
    let path = settings.store.data_dir.join(file);
    let directory = path.parent().unwrap_or(Path::new("/"));
    let data_dir = &settings.store.data_dir;
    let reason = match directory.starts_with(data_dir) {
        // The check of the data directory reports that mistake.
        true if paths::directory(data_dir).is_some() => None,
        true => paths::file_if_there(&path),
        false => paths::file_if_there(&path).or_else(|| paths::directory(directory)),
    }?;
    Some(Failure::failed(format!(
        "the audit trail cannot be written: {}: {reason} (audit.file)",
        path.display()
    )))
}
