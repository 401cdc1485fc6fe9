//! What every target shares: the bound on memory, and how bytes reach a target. What must hold is in `crates/hostile`.

use std::alloc::System;

use cap::Cap;

pub use bluetick_hostile::feed;
pub use libfuzzer_sys;

/// Whoever asks for more, however it is added up, has believed a length that nobody checked: the target ends as after a
/// panic. A chunk may say 64 MiB of itself, and is held twice for a moment.
#[global_allocator]
static MEMORY: Cap<System> = Cap::new(System, 256 << 20);

#[macro_export]
macro_rules! target {
    ($name:literal) => {
        $crate::libfuzzer_sys::fuzz_target!(|bytes: &[u8]| $crate::feed($name, bytes));
    };
}
