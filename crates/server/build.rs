//! A file changed in `web/dist` makes this crate build again; nothing is generated.

fn main() {
    println!("cargo:rerun-if-changed=../../web/dist");
}
