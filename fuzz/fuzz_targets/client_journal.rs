//! Fuzz target: client journal.

#![no_main]

bluetick_fuzz::target!("client_journal");
