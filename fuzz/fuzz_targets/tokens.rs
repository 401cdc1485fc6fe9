//! Fuzz target: tokens.

#![no_main]

bluetick_fuzz::target!("tokens");
