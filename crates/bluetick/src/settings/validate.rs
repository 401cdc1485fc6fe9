//! Settings that are fine one by one and yet cannot work, found before anything is opened.

use std::net::ToSocketAddrs;

use bluetick_auth::{AdminKey, Tokens};
use bluetick_server::Hours;

use super::error::SettingsError;
use super::layers::Loaded;
use super::{LogSettings, Settings};

pub fn check(loaded: &Loaded) -> Result<(), SettingsError> {
    let settings = &loaded.settings;
    let unworkable = |key: &str, reason: String| {
        Err(SettingsError::Unworkable { key: key.into(), from: loaded.source(key), reason })
    };
    if let Some((key, most)) = too_large(settings) {
        return unworkable(&key, format!("it must be at most {most}"));
    }
    if let Err(error) = settings.server.listen.to_socket_addrs() {
        let listen = &settings.server.listen;
        return unworkable(
            "server.listen",
            format!("{listen:?} is not HOST:PORT, such as 127.0.0.1:8080 ({error})"),
        );
    }
    for origin in &settings.server.allowed_origins {
        if !is_origin(origin) {
            let reason =
                format!("{origin:?} is not an origin such as https://chat.example.org, without a path");
            return unworkable("server.allowed_origins", reason);
        }
    }
    let tls = &settings.server.tls;
    if tls.certificate_file.is_some() != tls.key_file.is_some() {
        let (given, missing) = match &tls.key_file {
            None => ("server.tls.certificate_file", "server.tls.key_file"),
            Some(_) => ("server.tls.key_file", "server.tls.certificate_file"),
        };
        return unworkable(given, format!("the other half, {missing}, is not set"));
    }
    let limits = &settings.limits;
    if limits.frame_bytes != 0 && limits.frame_bytes < limits.content_bytes {
        let reason = "a frame must have room for the largest content (limits.content_bytes)";
        return unworkable("limits.frame_bytes", reason.into());
    }
    if limits.body_bytes != 0 && limits.body_bytes < limits.content_bytes {
        let reason = "a body must have room for the largest content (limits.content_bytes)";
        return unworkable("limits.body_bytes", reason.into());
    }
    if limits.idle_seconds != 0 && limits.ping_seconds >= limits.idle_seconds {
        let reason = "a quiet connection would be closed before its first ping (limits.idle_seconds)";
        return unworkable("limits.ping_seconds", reason.into());
    }
    if settings.store.data_dir.as_os_str().is_empty() {
        return unworkable("store.data_dir", "a directory is needed".into());
    }
    if let Some(problem) = settings.store.problem() {
        return Err(SettingsError::Store(problem));
    }
    if let Some(problem) = settings.archive.problem() {
        return Err(SettingsError::Store(problem));
    }
    if let Some(Err(invalid)) = settings.archive.between.as_deref().map(str::parse::<Hours>) {
        return unworkable("archive.between", invalid.to_string());
    }
    if let Some((key, reason)) = settings.audit.problem() {
        return unworkable(key, reason);
    }
    if LogSettings::targets(&settings.log.filter).is_none() {
        let filter = &settings.log.filter;
        let reason = format!("{filter:?} is neither a level nor a list such as info,bluetick_server=debug");
        return unworkable("log.filter", reason);
    }
    Tokens::check(&settings.auth)?;
    AdminKey::check(&settings.admin)?;
    Ok(())
}

/// Numbers beyond all sense, which would overflow somewhere: a time longer than a century, a count beyond any machine.
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

const CENTURY_SECONDS: u64 = 100 * 365 * 24 * 60 * 60;

/// `scheme://host` with a port at most: what a browser sends as `Origin`.
fn is_origin(text: &str) -> bool {
    let Some((scheme, host)) = text.split_once("://") else { return false };
    let scheme_fits = !scheme.is_empty()
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    scheme_fits && !host.is_empty() && !host.contains(|c: char| c == '/' || c == '*' || c.is_whitespace())
}
