fn main() {
    let mut a = std::env::args().skip(1);
    let mut n = |d: u64| a.next().map_or(d, |v| v.parse().unwrap());
    let (messages, conversations, in_flight, ck) = (n(1_000_000), n(100_000), n(1000), n(256));
    let settings =
        bluetick_store_embedded::StoreSettings { checkpoint_bytes: ck << 20, ..Default::default() };
    bluetick_bench::store::run(bluetick_bench::store::StoreBench {
        directory: "/tmp/btbench".into(),
        messages,
        conversations: conversations as usize,
        in_flight: in_flight as usize,
        body_bytes: 150,
        read_seconds: std::env::var("RS").map_or(3, |v| v.parse().unwrap()),
        settings,
    })
    .unwrap();
}
