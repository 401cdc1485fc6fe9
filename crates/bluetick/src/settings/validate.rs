//! Finds settings that have valid types but cannot work, before the server opens anything.

use std::net::{IpAddr, SocketAddr};

use bluetick_auth::{AdminKey, AuthSettings, Passwords, Tokens};
use bluetick_server::Hours;

use super::catalogue;
use super::error::SettingsError;
use super::layers::Loaded;
use super::{LogSettings, Settings, StoreEngine};

/// One rule. Returns the first mistake it finds.
type SettingsRule = fn(&Loaded) -> Result<(), SettingsError>;

/// All rules, in the order in which their mistakes are reported.
const RULES: &[SettingsRule] = &[
    numbers, listen, origins, hostnames, tls, frames, bodies, pings, data_dir, embedded, engine, dynamodb,
    redis, fleet, archive, hours, audit, log, tokens, passwords, admin,
];

/// Returns every invalid setting. After a rule finds a mistake, it runs again with the default for
/// that setting, so that one mistake does not hide the next.
pub fn mistakes(loaded: &Loaded) -> Vec<SettingsError> {
    RULES.iter().flat_map(|rule| broken(*rule, loaded)).collect()
}

fn broken(rule: SettingsRule, loaded: &Loaded) -> Vec<SettingsError> {
    let mut found = Vec::new();
    let mut trial: Option<Loaded> = None;
    loop {
        let current = trial.as_ref().unwrap_or(loaded);
        let Err(error) = rule(current) else { return found };
        let without = error.key().and_then(|key| current.without(key));
        found.push(error);
        match without {
            Some(without) => trial = Some(without),
            None => return found,
        }
    }
}

fn unworkable(loaded: &Loaded, key: &str, reason: impl Into<String>) -> Result<(), SettingsError> {
    Err(SettingsError::Unworkable { key: key.into(), from: loaded.source(key), reason: reason.into() })
}

fn numbers(loaded: &Loaded) -> Result<(), SettingsError> {
    match too_large(&loaded.settings) {
        Some((key, most)) => unworkable(loaded, &key, format!("it must be at most {most}")),
        None => Ok(()),
    }
}

fn listen(loaded: &Loaded) -> Result<(), SettingsError> {
    let listen = &loaded.settings.server.listen;
    if is_host_and_port(listen) {
        return Ok(());
    }
    let port = listen.trim_start_matches(':').parse::<u16>();
    let meant = port.map(|port| format!("; did you mean 127.0.0.1:{port}?")).unwrap_or_default();
    let reason = format!("{listen:?} is not HOST:PORT, such as 127.0.0.1:8080{meant}");
    unworkable(loaded, "server.listen", reason)
}

fn origins(loaded: &Loaded) -> Result<(), SettingsError> {
    let mut origins = loaded.settings.server.allowed_origins.iter();
    let Some(origin) = origins.find(|origin| !is_origin(origin)) else { return Ok(()) };
    let origin = &catalogue::without_credentials_in("server.allowed_origins", origin);
    let shorter = origin.trim_end_matches('/');
    let meant = if is_origin(shorter) { format!("; did you mean {shorter:?}?") } else { String::new() };
    let reason =
        format!("{origin:?} is not an origin such as https://chat.example.org, without a path{meant}");
    unworkable(loaded, "server.allowed_origins", reason)
}

fn hostnames(loaded: &Loaded) -> Result<(), SettingsError> {
    let mut names = loaded.settings.server.hostnames.iter();
    let Some(name) = names.find(|name| !is_hostname(name)) else { return Ok(()) };
    let reason = format!("{name:?} is not a name such as chat.example.org, without a scheme and a port");
    unworkable(loaded, "server.hostnames", reason)
}

fn tls(loaded: &Loaded) -> Result<(), SettingsError> {
    let tls = &loaded.settings.server.tls;
    let (given, missing) = match (&tls.certificate_file, &tls.key_file) {
        (Some(_), None) => ("server.tls.certificate_file", "server.tls.key_file"),
        (None, Some(_)) => ("server.tls.key_file", "server.tls.certificate_file"),
        _ => return Ok(()),
    };
    if loaded.was_refused(missing) {
        return Ok(());
    }
    unworkable(loaded, given, format!("{missing} must be set too"))
}

fn frames(loaded: &Loaded) -> Result<(), SettingsError> {
    let limits = &loaded.settings.limits;
    let fits = limits.frame_bytes == 0 || limits.frame_bytes >= limits.content_bytes;
    if fits || loaded.was_refused("limits.content_bytes") || loaded.was_refused("limits.frame_bytes") {
        return Ok(());
    }
    let reason = "a frame must have room for the largest content (limits.content_bytes)";
    unworkable(loaded, "limits.frame_bytes", reason)
}

fn bodies(loaded: &Loaded) -> Result<(), SettingsError> {
    let limits = &loaded.settings.limits;
    let fits = limits.body_bytes == 0 || limits.body_bytes >= limits.content_bytes;
    if fits || loaded.was_refused("limits.content_bytes") || loaded.was_refused("limits.body_bytes") {
        return Ok(());
    }
    let reason = "a body must have room for the largest content (limits.content_bytes)";
    unworkable(loaded, "limits.body_bytes", reason)
}

fn pings(loaded: &Loaded) -> Result<(), SettingsError> {
    let limits = &loaded.settings.limits;
    let fits = limits.idle_seconds == 0 || limits.ping_seconds < limits.idle_seconds;
    if fits || loaded.was_refused("limits.idle_seconds") || loaded.was_refused("limits.ping_seconds") {
        return Ok(());
    }
    let reason = "a quiet connection would be closed before its first ping (limits.idle_seconds)";
    unworkable(loaded, "limits.ping_seconds", reason)
}

fn data_dir(loaded: &Loaded) -> Result<(), SettingsError> {
    if loaded.settings.store.data_dir.as_os_str().is_empty() {
        return unworkable(loaded, "store.data_dir", "a directory is needed");
    }
    Ok(())
}

fn embedded(loaded: &Loaded) -> Result<(), SettingsError> {
    let store = &loaded.settings.store;
    sentence(if store.engine == StoreEngine::Embedded { store.embedded.problem() } else { None })
}

/// Refuses an engine that this binary does not contain.
#[cfg(not(feature = "fleet"))]
fn engine(loaded: &Loaded) -> Result<(), SettingsError> {
    match loaded.settings.store.engine {
        StoreEngine::Embedded => Ok(()),
        StoreEngine::DynamoDb => unworkable(loaded, "store.engine", super::NO_FLEET_ENGINE),
    }
}

/// This binary contains every engine.
#[cfg(feature = "fleet")]
fn engine(_: &Loaded) -> Result<(), SettingsError> {
    Ok(())
}

fn dynamodb(loaded: &Loaded) -> Result<(), SettingsError> {
    let store = &loaded.settings.store;
    sentence(if store.engine == StoreEngine::DynamoDb { store.dynamodb.problem() } else { None })
}

fn redis(loaded: &Loaded) -> Result<(), SettingsError> {
    let store = &loaded.settings.store;
    #[cfg(feature = "fleet")]
    let problem = bluetick_store_cloud::redis::problem;
    #[cfg(not(feature = "fleet"))]
    let problem = bluetick_fleet_settings::RedisSettings::problem;
    sentence(if store.engine == StoreEngine::DynamoDb { problem(&store.redis()) } else { None })
}

fn fleet(loaded: &Loaded) -> Result<(), SettingsError> {
    let store = &loaded.settings.store;
    sentence(if store.engine == StoreEngine::DynamoDb { store.fleet.problem() } else { None })
}

/// The error message of a component, which begins with the key.
fn sentence(problem: Option<String>) -> Result<(), SettingsError> {
    problem.map_or(Ok(()), |problem| Err(SettingsError::Store(problem)))
}

fn archive(loaded: &Loaded) -> Result<(), SettingsError> {
    sentence(loaded.settings.archive.problem())
}

fn hours(loaded: &Loaded) -> Result<(), SettingsError> {
    match loaded.settings.archive.between.as_deref().map(str::parse::<Hours>) {
        Some(Err(invalid)) => unworkable(loaded, "archive.between", invalid.to_string()),
        _ => Ok(()),
    }
}

fn audit(loaded: &Loaded) -> Result<(), SettingsError> {
    match loaded.settings.audit.problem() {
        Some((key, reason)) => unworkable(loaded, key, reason),
        None => Ok(()),
    }
}

fn log(loaded: &Loaded) -> Result<(), SettingsError> {
    let filter = &loaded.settings.log.filter;
    if LogSettings::targets(filter).is_some() {
        return Ok(());
    }
    let meant = LogSettings::meant(filter).map(|meant| format!("; did you mean {meant:?}?"));
    let reason = format!(
        "{filter:?} is neither a level nor a list such as info,bluetick_server=debug{}",
        meant.unwrap_or_default()
    );
    unworkable(loaded, "log.filter", reason)
}

fn tokens(loaded: &Loaded) -> Result<(), SettingsError> {
    // Key files are on the server's machine, so the preflight reads them.
    let auth = AuthSettings { public_key_file: None, jwks_file: None, ..loaded.settings.auth.clone() };
    Ok(Tokens::check(&auth)?)
}

fn passwords(loaded: &Loaded) -> Result<(), SettingsError> {
    if (1..=Passwords::MAX_BYTES).contains(&loaded.settings.auth.password_min_length) {
        return Ok(());
    }
    let reason = format!("the minimum must be between 1 and {} bytes", Passwords::MAX_BYTES);
    unworkable(loaded, "auth.password_min_length", reason)
}

fn admin(loaded: &Loaded) -> Result<(), SettingsError> {
    Ok(AdminKey::check(&loaded.settings.admin)?)
}

/// Returns a number that could overflow, and its maximum: a time over a century, or a count that no
/// machine has.
fn too_large(settings: &Settings) -> Option<(String, u64)> {
    let values = serde_json::to_value(settings).expect("settings are plain data");
    let sections = values.as_object()?.iter();
    let all = sections.filter_map(|(section, values)| Some((section, values.as_object()?)));
    all.flat_map(|(section, values)| {
        values.iter().map(move |(name, value)| (format!("{section}.{name}"), value))
    })
    .find_map(|(key, value)| {
        let most = match &key {
            key if key.ends_with("_seconds") => CENTURY_SECONDS,
            key if key.ends_with("_at_once") || key.ends_with("_waiting") => 1_000_000,
            _ => 1 << 42,
        };
        (value.as_u64()? > most).then_some((key, most))
    })
}

/// Maximum of every setting in seconds. Larger values could overflow a time calculation.
const CENTURY_SECONDS: u64 = 100 * 365 * 24 * 60 * 60;

/// Whether the text is an `Origin` as a browser sends it: `scheme://host`, with an optional port.
fn is_origin(text: &str) -> bool {
    let Some((scheme, host)) = text.split_once("://") else { return false };
    let scheme_fits = !scheme.is_empty()
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    scheme_fits && !host.is_empty() && !host.contains(|c: char| c == '/' || c == '*' || c.is_whitespace())
}

/// Checks the syntax only: whether a name resolves depends on the machine.
fn is_host_and_port(text: &str) -> bool {
    let is_host =
        |host: &str| !host.is_empty() && !host.contains(|c: char| "/[]".contains(c) || c.is_whitespace());
    let is_name = |(host, port): (&str, &str)| is_host(host) && port.parse::<u16>().is_ok();
    text.parse::<SocketAddr>().is_ok() || text.rsplit_once(':').is_some_and(is_name)
}

/// Whether the text is a DNS name or an IP address, as in `Host` without the port.
fn is_hostname(text: &str) -> bool {
    let is_name =
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
    is_name || text.parse::<IpAddr>().is_ok()
}
