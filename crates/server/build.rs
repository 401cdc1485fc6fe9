//! A file added to `web/` makes this crate build again; nothing is generated.

fn main() {
    println!("cargo:rerun-if-changed=../../web");
}
