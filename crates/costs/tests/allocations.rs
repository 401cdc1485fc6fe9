//! Heap allocations on the ways of a message, on all threads of the server: from the frame that comes in to the ack and
//! to the sockets of those who receive it, over the embedded store with its log and its syncs.
//!
//! They are the same in every build, so they are counted where `cargo test` is. One test: there is one allocator, and
//! it counts for everybody.

use std::alloc::System;

use bluetick_costs::Path;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Allocated or made larger, for each message, delivery or page.
fn allocations(path: Path) -> f64 {
    let mut rehearsed = path.rehearse();
    let region = Region::new(ALLOCATOR);
    rehearsed.perform();
    let change = region.change();
    let each = (change.allocations + change.reallocations) as f64 / rehearsed.units() as f64;
    rehearsed.end();
    each
}

/// How many frames fall into a batch depends on what else the machine does, and what a batch allocates is shared by its
/// frames. So what is above its ceiling is counted again.
const ATTEMPTS: usize = 3;

#[test]
fn a_message_a_delivery_and_a_page_stay_below_their_ceilings_of_allocations() {
    let ceilings = [
        // 9.9: the frame that is read and its record, an answer to wait for, what is written to two.
        (Path::Send, 12.5),
        // 0.23, which is 11 for 49 receivers: the frame is encoded once and shared.
        (Path::Deliver, 0.29),
        // 74 for twenty messages.
        (Path::History, 93.0),
    ];
    for (path, ceiling) in ceilings {
        let mut counts = (0..ATTEMPTS).map(|_| allocations(path)).inspect(|counted| {
            println!("{}: {counted:.2} allocations a {}", path.name(), path.unit());
        });
        let counted = counts.find(|counted| *counted < ceiling);
        let counted =
            counted.unwrap_or_else(|| panic!("{}: a {} takes more than {ceiling}", path.name(), path.unit()));
        assert!(counted > ceiling / 10.0, "{}: {counted:.2}; is anything counted?", path.name());
    }
}
