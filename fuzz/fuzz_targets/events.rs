//! Fuzz target: events.

#![no_main]

bluetick_fuzz::target!("events");
