//! Fuzz target: client frames.

#![no_main]

bluetick_fuzz::target!("client_frames");
