//! `bluetick token`: signs a token with the server's key, no server needed.

use bluetick_auth::Tokens;
use bluetick_core::ports::SystemRandom;
use bluetick_core::time::{Clock, SystemClock};
use bluetick_server::audit::{Act, Subject};

use crate::audit::audited;
use crate::cli::TokenArgs;
use crate::failure::Failure;
use crate::fleet_keys::TOKEN_KEY;
use crate::output::print;
use crate::settings::{Engine, Inputs, Loaded};

pub fn run(arguments: &TokenArgs) -> Result<(), Failure> {
    let settings = Loaded::load(&Inputs::of_this_process(arguments.places.flags()))?.settings;
    let data_dir = &settings.store.data_dir;
    let was_there = data_dir.exists();
    let has_own_key = settings.auth.hs256_secret.is_none()
        && settings.auth.public_key_file.is_none()
        && settings.auth.jwks_file.is_none();
    if settings.store.engine == Engine::DynamoDb && has_own_key && !data_dir.join(TOKEN_KEY).exists() {
        return Err(Failure::usage(format!(
            "{} has no {TOKEN_KEY}: all nodes of a fleet share one, which each of them puts into its data directory when it \
             starts. Give the data directory of a node, or start one on this directory first",
            data_dir.display()
        )));
    }
    let tokens = Tokens::open(&settings.auth, data_dir, &SystemRandom)?;
    let ttl = arguments.ttl.unwrap_or(tokens.login_ttl());
    let minted = tokens.mint(&arguments.name, ttl, SystemClock.now()).map_err(Failure::usage)?;
    // Whoever has the operator's secret can sign anywhere, and where no server was there is no trail to write to.
    if data_dir.exists() {
        audited(&settings, Act::TokenMint, Some(Subject::user(&arguments.name)), || Ok(()))?;
    }
    if !was_there && data_dir.exists() {
        eprintln!(
            "bluetick: made {} with a new token.key; a server started on it accepts this token",
            data_dir.display()
        );
    }
    print(&format!("{}\n", minted.token))
}
