//! The port for random bytes. A simulation replaces it with a seeded generator.

use std::io::Read;

pub trait Random: Send + Sync + 'static {
    fn fill(&self, bytes: &mut [u8]);
}

/// The operating system's generator. Panics if `/dev/urandom` cannot be read.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemRandom;

impl Random for SystemRandom {
    fn fill(&self, bytes: &mut [u8]) {
        std::fs::File::open("/dev/urandom")
            .and_then(|mut source| source.read_exact(bytes))
            .expect("secure keys require /dev/urandom");
    }
}
