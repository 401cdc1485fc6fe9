//! `bluetick token`: signs a token with the server's key, no server needed.

use bluetick_auth::Tokens;
use bluetick_core::ports::SystemRandom;
use bluetick_core::time::{Clock, SystemClock};

use crate::cli::TokenArgs;
use crate::failure::Failure;
use crate::output::print;
use crate::settings::{Inputs, Loaded};

pub fn run(arguments: &TokenArgs) -> Result<(), Failure> {
    let settings = Loaded::load(&Inputs::of_this_process(arguments.places.flags()))?.settings;
    let data_dir = &settings.store.data_dir;
    let was_there = data_dir.exists();
    let tokens = Tokens::open(&settings.auth, data_dir, &SystemRandom)?;
    let ttl = arguments.ttl.unwrap_or(tokens.login_ttl());
    let minted = tokens.mint(&arguments.name, ttl, SystemClock.now()).map_err(Failure::usage)?;
    if !was_there && data_dir.exists() {
        eprintln!(
            "bluetick: made {} with a new token.key; a server started on it accepts this token",
            data_dir.display()
        );
    }
    print(&format!("{}\n", minted.token))
}
