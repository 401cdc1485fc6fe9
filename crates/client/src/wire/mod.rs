//! What goes over the wire, as a client sees it: frames, bodies, codes. Checked against the server's own documents by
//! a test. Nothing here opens a socket or keeps anything.

pub mod bodies;
pub mod codes;
pub mod frames;
pub(crate) mod text;
