//! `bluetick token`: reserves a name and signs a token for it, through the server that uses the
//! data directory or without one.

use std::time::Duration;

use bluetick_auth::Tokens;
use bluetick_core::ports::SystemRandom;
use bluetick_core::time::{Clock, SystemClock};

use crate::cli::TokenArgs;
use crate::failure::Failure;
use crate::output::print;
use crate::preflight;
use crate::settings::{Inputs, Loaded, Settings, StoreEngine};
use crate::users::UserClient;

/// File in the data directory with the key that signs tokens.
pub const TOKEN_KEY: &str = "token.key";

pub fn run(arguments: &TokenArgs) -> Result<(), Failure> {
    let settings = Loaded::load(&Inputs::of_this_process(arguments.places.flags()))?.settings;
    if arguments.no_reserve {
        return print(&format!("{}\n", sign_with_secret(arguments, &settings)?));
    }
    let data_dir = &settings.store.data_dir;
    let was_there = data_dir.exists();
    let has_own_key = settings.auth.hs256_secret.is_none()
        && settings.auth.public_key_file.is_none()
        && settings.auth.jwks_file.is_none();
    if settings.store.engine == StoreEngine::DynamoDb && has_own_key && !data_dir.join(TOKEN_KEY).exists() {
        return Err(Failure::usage(format!(
            "{} has no {TOKEN_KEY}: all nodes of a fleet share one key, and each node stores it in its data \
             directory at start. Pass the data directory of a node, or start a node on this directory first",
            data_dir.display()
        )));
    }
    // Check before creating a key: a server that uses the directory may have another one.
    let client = match was_there || settings.store.engine == StoreEngine::DynamoDb {
        true => Some(UserClient::open(&settings)?),
        false => None,
    };
    let token = match client {
        Some(client) => {
            let minted = mint(arguments, &settings, &client);
            client.close();
            minted?
        }
        None => mint_at_a_new_place(arguments, &settings)?,
    };
    if !was_there && data_dir.exists() {
        eprintln!(
            "bluetick: created {} with a new token.key; a server started on it accepts this token",
            data_dir.display()
        );
    }
    print(&format!("{token}\n"))
}

fn mint(arguments: &TokenArgs, settings: &Settings, client: &UserClient) -> Result<String, Failure> {
    let ttl = ttl(arguments, settings);
    client.mint(&arguments.name, ttl, || sign(arguments, settings))
}

/// Handles a missing data directory: creates it with its own key. With a secret shared with the
/// operator's product, signing creates no directory, so no store exists to reserve the name in.
fn mint_at_a_new_place(arguments: &TokenArgs, settings: &Settings) -> Result<String, Failure> {
    let token = sign(arguments, settings)?;
    if !settings.store.data_dir.exists() {
        return Err(Failure::usage(format!(
            "the data directory {} does not exist, so the name can't be reserved. Pass the data directory \
             of the server, or use --no-reserve to sign the token without reserving the name",
            settings.store.data_dir.display()
        )));
    }
    let client = UserClient::open(settings)?;
    let minted = client.mint(&arguments.name, ttl(arguments, settings), || Ok(token));
    client.close();
    minted
}

/// Signs for `--no-reserve`, which touches no data directory.
fn sign_with_secret(arguments: &TokenArgs, settings: &Settings) -> Result<String, Failure> {
    if settings.auth.hs256_secret.is_none() {
        return Err(Failure::usage(
            "--no-reserve needs auth.hs256_secret: token.key belongs to a data directory, where the name \
             can be reserved",
        ));
    }
    sign(arguments, settings)
}

fn ttl(arguments: &TokenArgs, settings: &Settings) -> Duration {
    arguments.ttl.unwrap_or(Duration::from_secs(settings.auth.token_ttl_seconds))
}

fn sign(arguments: &TokenArgs, settings: &Settings) -> Result<String, Failure> {
    if let Some(mistakes) = Failure::all(preflight::key_files(&settings.auth)) {
        return Err(mistakes);
    }
    let tokens = Tokens::open(&settings.auth, &settings.store.data_dir, &SystemRandom)?;
    let minted = tokens.mint(&arguments.name, ttl(arguments, settings), SystemClock.now());
    Ok(minted.map_err(Failure::usage)?.token)
}
