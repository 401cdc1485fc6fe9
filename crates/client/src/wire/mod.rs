//! The wire types: frames, bodies, codes. A test checks them against the server's documents. This
//! module opens no sockets and holds no state.

pub mod bodies;
pub mod codes;
pub mod frames;
pub(crate) mod text;
