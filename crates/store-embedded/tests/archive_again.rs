//! Resends of messages whose content is in the archive.

#![expect(clippy::unwrap_used, reason = "a test may stop where its own set-up fails")]

mod archive_kit;

use archive_kit::common::{direct, message};
use archive_kit::faulty::{Faulty, Trouble};
use archive_kit::{Kit, eager, history, numbered};
use bluetick_core::ports::{Append, Appended, Store};
use bluetick_core::{ContentType, ConversationId, Refusal, Seq, StoreError};

async fn again(
    kit: &Kit,
    id: ConversationId,
    number: u64,
    text: &str,
    after: Option<u64>,
) -> Result<Appended, StoreError> {
    let append = Append {
        content: text.into(),
        retry_after: after.map(Seq::new),
        received_at: archive_kit::LATER,
        ..message(id, "alice", &format!("alice-old-{number}"))
    };
    kit.store.append(append).await?.await
}

async fn assert_recognised(kit: &Kit, id: ConversationId, after: Option<u64>) {
    for number in [1, 64, 65, 150] {
        let same = again(kit, id, number, &format!("old {number}"), after).await.unwrap();
        assert_eq!((same.seq, same.duplicate), (Seq::new(number), true));
        let other = again(kit, id, number, "something else", after).await;
        let conflict = Refusal::MessageIdReused { first_seq: Seq::new(number) };
        assert!(matches!(&other, Err(StoreError::Refused(refusal)) if *refusal == conflict), "{other:?}");
    }
    assert_eq!(history(&*kit.store, id, "bob").await.len(), 150);
}

#[tokio::test(flavor = "multi_thread")]
async fn resend_of_an_archived_message_returns_first_seq_and_other_content_is_refused() {
    let (kit, _) = Kit::in_memory(eager());
    let id = direct(&*kit.store, "alice", "bob").await;
    kit.send_many(id, "alice", numbered("old", 1..=150)).await;
    kit.run().await.unwrap();
    assert_eq!(kit.cold_messages().await, 150);
    assert_recognised(&kit, id, None).await;
    let kit = kit.crash();
    assert_recognised(&kit, id, None).await;
    let image = Append {
        content: "old 3".into(),
        content_type: "image/png".parse::<ContentType>().unwrap(),
        ..message(id, "alice", "alice-old-3")
    };
    let other = kit.store.append(image).await.unwrap().await;
    assert!(matches!(other, Err(StoreError::Refused(Refusal::MessageIdReused { .. }))), "{other:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn retry_finds_an_archived_message_after_the_window_without_the_object_store() {
    let faulty = Faulty::new();
    let kit = Kit::over(std::sync::Arc::clone(&faulty) as _, eager());
    let id = direct(&*kit.store, "alice", "bob").await;
    kit.send_many(id, "alice", numbered("old", 1..=150)).await;
    kit.run().await.unwrap();
    kit.clock.advance_millis(400 * 24 * 3600 * 1000);
    let kit = kit.crash();
    faulty.set(Trouble::Down);
    for number in [1, 64, 65, 150] {
        let same = again(&kit, id, number, &format!("old {number}"), Some(0)).await.unwrap();
        assert_eq!((same.seq, same.duplicate), (Seq::new(number), true));
    }
    faulty.set(Trouble::None);
    assert_recognised(&kit, id, Some(0)).await;
}
