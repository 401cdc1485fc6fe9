//! Compiles and runs the quick start of the client's README unchanged.

#![expect(dead_code, reason = "its `main` connects to the default address")]

use crate::world::{World, until};

include!("../../../client/examples/quick_start.rs");

#[test]
fn readme_contains_the_quick_start_program() {
    let shown = include_str!("../../../client/README.md");
    let program = include_str!("../../../client/examples/quick_start.rs");
    assert!(shown.contains(&format!("```rust,no_run\n{program}```\n")));
}

#[tokio::test]
async fn quick_start_ends_after_bob_reads_the_message() {
    let world = World::with(&[("BLUETICK_AUTH__SIGNUP", "true")]).await;
    for name in ["alice", "bob"] {
        let account = serde_json::json!({"user_id": name, "password": "correct horse"});
        world.ask("", "POST", "/v1/signup", account).await;
    }
    let bob = world.client("bob").await;
    let directory = tempfile::tempdir().unwrap();
    let url = format!("http://{}", world.address());
    let reads = async {
        until("bob has an unread message", &bob, || bob.unread_total() == 1).await;
        bob.conversation(bob.inbox(false)[0].entry.conversation_id).mark_read(None);
    };
    let (asked, ()) = tokio::join!(ask_bob(&url, directory.path().to_str().unwrap()), reads);
    asked.unwrap();
    bob.stop().await;
}
