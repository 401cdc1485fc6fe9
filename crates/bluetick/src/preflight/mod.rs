//! Finds the mistakes that keep a server from starting. The checks leave no file and no directory
//! behind.
//!
//! `bluetick config check` runs every check. `bluetick serve` runs the checks besides the store. It
//! opens the store only if they find nothing. Otherwise it runs every check, so that it reports all
//! mistakes at once. Damage inside the data directory does not belong here: `bluetick check` finds
//! it.

#[cfg(feature = "fleet")]
mod fleet;
mod paths;

use std::fs;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::path::Path;

use bluetick_archive::{ArchiveEngine, ObjectArchive};
use bluetick_auth::{AdminKey, AuthSettings, AuthSetupError, Tokens};
use bluetick_core::time::{Clock, SystemClock};
use bluetick_server::{file_limit_and_connections, tls_advice};
use bluetick_store_embedded::{StoreSettings, probe};

use crate::failure::Failure;
use crate::logging;
use crate::settings::{Settings, StoreEngine};
use crate::store::CannotOpen;

/// The mistakes and the advice that the preflight found.
#[derive(Debug, Default)]
pub struct PreflightFindings {
    /// Each keeps the server from starting.
    pub mistakes: Vec<Failure>,
    /// Settings that work but are unwise, one sentence each.
    pub advice: Vec<String>,
}

impl PreflightFindings {
    fn mistake(&mut self, mistake: Option<Failure>) {
        self.mistakes.extend(mistake);
    }
}

/// Checks everything that [`crate::commands::serve`] needs, in order of use. Skips the parts of the
/// settings for which `is_named` returns true: their mistakes are already reported.
pub fn everything(settings: &Settings, is_named: &dyn Fn(&str) -> bool) -> PreflightFindings {
    let mut findings = PreflightFindings::default();
    if !is_named("log.") {
        findings.mistake(logging::check(&settings.log).err());
    }
    if !is_named("store.data_dir") {
        findings.mistakes.extend(data_dir(settings));
    }
    if !is_named("archive.") {
        findings.mistake(archive(settings));
    }
    #[cfg(feature = "fleet")]
    let tables_are_named = is_named("store.dynamodb.") || is_named("store.redis.");
    #[cfg(feature = "fleet")]
    if settings.store.engine == StoreEngine::DynamoDb && !tables_are_named {
        fleet::look(settings, &mut findings);
    }
    rest(settings, is_named, &mut findings);
    if !is_named("limits.connections") {
        findings.advice.extend(file_limit(settings));
    }
    findings
}

/// Returns a warning if the limit on open files allows fewer connections than `limits.connections`.
pub fn file_limit(settings: &Settings) -> Option<String> {
    let wanted = settings.limits.connections;
    let (files, connections) = file_limit_and_connections()?;
    (connections < wanted).then(|| {
        format!(
            "the limit of {files} open files allows {connections} connections, fewer than \
             limits.connections ({wanted}); raise it with `ulimit -n`, or LimitNOFILE= in a systemd unit"
        )
    })
}

/// Checks the keys, the audit trail, the certificate and the port. The settings must have no
/// mistakes.
pub fn besides_store(settings: &Settings) -> PreflightFindings {
    let mut findings = PreflightFindings::default();
    rest(settings, &|_| false, &mut findings);
    findings
}

fn rest(settings: &Settings, is_named: &dyn Fn(&str) -> bool, findings: &mut PreflightFindings) {
    let data_dir = &settings.store.data_dir;
    findings.mistakes.extend(key_files(&settings.auth));
    // An unusable directory is reported separately.
    if paths::directory(data_dir).is_none() {
        let has_key_file = settings.auth.public_key_file.is_some() || settings.auth.jwks_file.is_some();
        if !has_key_file && !is_named("auth.") {
            findings.mistake(Tokens::check_in(&settings.auth, data_dir).err().map(Failure::from));
        }
        if !is_named("admin.") {
            findings.mistake(AdminKey::read(&settings.admin, data_dir).err().map(Failure::from));
        }
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
    if !is_named("server.listen") {
        findings.mistake(listen(&settings.server.listen));
    }
}

/// Reads the operator's key files. Returns the unusable ones, each with the name of its setting.
pub fn key_files(auth: &AuthSettings) -> Vec<Failure> {
    let alone = AuthSettings::default;
    let files = [
        ("auth.public_key_file", AuthSettings { public_key_file: auth.public_key_file.clone(), ..alone() }),
        ("auth.jwks_file", AuthSettings { jwks_file: auth.jwks_file.clone(), ..alone() }),
    ];
    let checked = files.map(|(setting, auth)| (setting, Tokens::check(&auth)));
    let mistake = |(setting, checked): (&str, Result<(), AuthSetupError>)| {
        checked.err().map(|error| Failure::usage(format!("{setting}: {error}")))
    };
    checked.into_iter().filter_map(mistake).collect()
}

fn listen(listen: &str) -> Option<Failure> {
    match listen.to_socket_addrs() {
        Err(error) => Some(Failure::usage(format!(
            "cannot listen on {listen} (server.listen): the name does not resolve: {error}"
        ))),
        Ok(addresses) => {
            let addresses: Vec<SocketAddr> = addresses.collect();
            TcpListener::bind(&addresses[..]).err().map(|error| cannot_listen(listen, &error))
        }
    }
}

fn data_dir(settings: &Settings) -> Vec<Failure> {
    let data_dir = &settings.store.data_dir;
    match (paths::directory(data_dir), settings.store.engine) {
        (Some(reason), _) => {
            vec![Failure::failed(format!("{}: {reason} (store.data_dir)", data_dir.display()))]
        }
        (None, StoreEngine::Embedded) => embedded(settings),
        (None, StoreEngine::DynamoDb) => Vec::new(),
    }
}

/// The failure for a port that is in use or not permitted.
pub fn cannot_listen(listen: &str, error: &std::io::Error) -> Failure {
    let next_step = match error.kind() {
        std::io::ErrorKind::AddrInUse => "; another program uses it; stop it or choose another with --listen",
        _ => "",
    };
    Failure::failed(format!("cannot listen on {listen} (server.listen): {error}{next_step}"))
}

/// Upper bound on the size of the tables and key files of a new data directory, in bytes. The check
/// of the free space adds it to the size of a log segment.
const NEW_TABLES_BYTES: u64 = 256 << 10;

/// Checks that the data directory is readable and that a store in it could be opened.
fn embedded(settings: &Settings) -> Vec<Failure> {
    let data_dir = &settings.store.data_dir;
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
    if !has_segment(&data_dir.join("log")) {
        let needed = settings.store.segment_bytes + NEW_TABLES_BYTES;
        let reason = paths::free_space(data_dir, needed);
        found.extend(reason.map(|reason| cannot_use(data_dir, reason + " (store.segment_bytes)")));
    }
    match probe(data_dir).map_err(CannotOpen::from) {
        Ok(()) => {}
        Err(CannotOpen::InUse { reason, .. }) => found.push(Failure::failed(format!(
            "{reason}; stop that process first, or give this server another directory (store.data_dir)"
        ))),
        Err(error) => found.push(error.into()),
    }
    found
}

/// Whether the log has a segment to continue or a spare one. A start without one allocates
/// `store.segment_bytes`.
fn has_segment(log: &Path) -> bool {
    let files = fs::read_dir(log).into_iter().flatten().flatten();
    let lengths = files.filter_map(|file| file.metadata().ok()).map(|about| about.len());
    lengths.max().is_some_and(|longest| longest >= StoreSettings::MIN_SEGMENT_BYTES)
}

fn archive(settings: &Settings) -> Option<Failure> {
    let (archive, data_dir) = (&settings.archive, &settings.store.data_dir);
    match archive.engine {
        ArchiveEngine::Off => None,
        // Opening the archive would create the directory.
        ArchiveEngine::Directory => {
            let path = data_dir.join(archive.directory.as_deref().unwrap_or(Path::new("archive")));
            let reason = paths::directory(&path)?;
            Some(Failure::failed(format!(
                "cannot use the archive: archive.directory {}: {reason}",
                path.display()
            )))
        }
        ArchiveEngine::S3 => {
            ObjectArchive::open(archive, data_dir).err().map(|error| CannotOpen::from(error).into())
        }
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
    // The check of the data directory reports that mistake.
    if directory.starts_with(data_dir) && paths::directory(data_dir).is_some() {
        return None;
    }
    let reason = paths::file_if_there(&path).or_else(|| paths::directory(directory))?;
    Some(Failure::failed(format!(
        "the audit trail cannot be written: {}: {reason} (audit.file)",
        path.display()
    )))
}
