//! Fuzz target: server frames.

#![no_main]

bluetick_fuzz::target!("server_frames");
