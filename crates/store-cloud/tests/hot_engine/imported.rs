//! What was brought in from elsewhere lies in one partition, however much of it there is.

use std::sync::Arc;

use bluetick_core::time::{Clock, SystemClock};
use bluetick_core::{
    ContentType, Conversation, ConversationId, Member, MemberState, Message, MessageId, PageFrom, Role, Seq,
};
use bluetick_store_cloud::EngineSettings;
use bluetick_store_cloud::hints::memory::MemoryHints;
use bluetick_store_cloud::hot::{Layout, Registry};
use bluetick_store_cloud::import::{ImportedRoom, Importer};
use bluetick_store_cloud::rows::memory::MemoryRows;
use bluetick_store_cloud::rows::{Key, Rows, Table};

use crate::node::{Node, user};

const IMPORTED: u64 = 10_000;

async fn import(rows: &Arc<MemoryRows>) -> ConversationId {
    let (alice, bob, now) = (user("alice"), user("bob"), SystemClock.now());
    let id = ConversationId::direct(&alice, &bob);
    let head = Seq::new(IMPORTED);
    let conversation =
        Conversation { id, title: None, created_by: alice.clone(), created_at: now, head, last_at: now };
    let members = [&alice, &bob].map(|user| {
        let member = Member { user: user.clone(), role: Role::Member, joined_seq: Seq::FIRST };
        (member, MemberState::default())
    });
    let importer = Importer::new(rows.clone());
    let mut copy = importer.room(ImportedRoom { conversation, members: members.into() }).await.unwrap();
    let messages = (1..=IMPORTED).map(|seq| Message {
        conversation: id,
        seq: Seq::new(seq),
        message_id: MessageId::from_stored(&format!("old{seq}")),
        sender: alice.clone(),
        receiver: Some(bob.clone()),
        content_type: ContentType::Text,
        content: format!("text {seq}").into(),
        timestamp: now,
        received_at: now,
    });
    copy.messages(messages.collect()).await.unwrap();
    copy.finish().await.unwrap();
    id
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_conversation_from_elsewhere_goes_on_behind_what_was_imported() {
    let rows = Arc::new(MemoryRows::default());
    let id = import(&rows).await;
    let layout = Layout { restless: true, ..Layout::CHOSEN };
    let settings = EngineSettings { layout, ..EngineSettings::default() };
    let node = Node::on(rows.clone(), &MemoryHints::default(), settings);
    let newest = node.page(id, "bob", PageFrom::Newest).await;
    assert_eq!(newest.first(), Some(&IMPORTED), "before anybody has written");
    for number in 1..=2_000 {
        let appended = node.send(id, "alice", &format!("new{number}")).await.unwrap();
        assert_eq!(appended.seq.get(), IMPORTED + number);
    }
    let row = rows.get(Table::HotRegistry, &Key::new(id)).await.unwrap().unwrap();
    let registry = Registry::decode(&row).unwrap();
    assert!(registry.was_ever_salted() && registry.epochs()[0].from > Seq::new(IMPORTED));
    let again = node.send(id, "alice", "new1500").await.unwrap();
    assert!(again.duplicate && again.seq.get() == IMPORTED + 1_500);
    // Whoever comes later, and knows nothing yet.
    let stranger = Node::on(rows, &MemoryHints::default(), EngineSettings::default());
    let mut after = 0;
    while after < IMPORTED + 2_000 {
        let page = stranger.page(id, "bob", PageFrom::After(Seq::new(after))).await;
        assert_eq!(page, (after + 1..=after + page.len() as u64).collect::<Vec<_>>());
        after = *page.last().unwrap();
    }
    assert_eq!(stranger.page(id, "bob", PageFrom::Newest).await[0], IMPORTED + 2_000);
}
