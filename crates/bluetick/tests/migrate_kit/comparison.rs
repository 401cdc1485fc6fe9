//! Compares two stores through the `Store` port.

use std::fmt::Debug;

use bluetick_core::ports::{Position, Store};
use bluetick_core::{
    ContentType, ConversationId, InboxFilter, InboxRequest, Message, MessageId, NamePrefix, PageFrom,
    PageLimit, PageRequest, Seq, StoreError, UserId,
};

use super::user;

/// Asserts that both stores return the same answers to these users.
pub async fn assert_same(one: &dyn Store, other: &dyn Store, people: &[&str]) {
    assert_eq!(one.epoch(), other.epoch());
    for text in ["a", "än", "ørs", "b", "c", "cä", "zoë", "the", "last", "nobody"] {
        let prefix = NamePrefix::new(text).unwrap();
        let (ours, theirs) = (one.find_people(&prefix, 10).await, other.find_people(&prefix, 10).await);
        same(&format!("who is found by {text}"), ours, theirs);
    }
    let ids: Vec<UserId> = people.iter().map(|name| user(name)).collect();
    same("people", one.people(ids.clone()).await, other.people(ids.clone()).await);
    for id in &ids {
        let (ours, theirs) = (one.user(id).await.unwrap(), other.user(id).await.unwrap());
        // Compare without printing: `Debug` hides parts of an account.
        assert!(ours == theirs, "the account of {id}");
        same(&format!("the profile of {id}"), one.profile(id).await, other.profile(id).await);
        assert_same_inbox(one, other, id).await;
    }
}

fn same<T: Debug>(what: &str, ours: Result<T, StoreError>, theirs: Result<T, StoreError>) {
    let (ours, theirs) = (ours.unwrap(), theirs.unwrap());
    assert_eq!(format!("{ours:#?}"), format!("{theirs:#?}"), "{what}");
}

async fn assert_same_inbox(one: &dyn Store, other: &dyn Store, reader: &UserId) {
    let mut ids = Vec::new();
    for filter in [InboxFilter::All, InboxFilter::NotArchived, InboxFilter::Archived] {
        let mut after = None;
        loop {
            let limit = PageLimit::try_from(2).unwrap();
            let request = InboxRequest { user: reader.clone(), after, limit, filter };
            let (ours, theirs) =
                (one.inbox(request.clone()).await.unwrap(), other.inbox(request).await.unwrap());
            assert_eq!(
                format!("{:#?}", ours.entries),
                format!("{:#?}", theirs.entries),
                "{filter:?} of {reader}"
            );
            assert_eq!(ours.next, theirs.next);
            ids.extend(ours.entries.iter().map(|entry| entry.conversation.id));
            match ours.next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
    }
    ids.sort();
    ids.dedup();
    for id in &ids {
        assert_same_conversation(one, other, *id, reader).await;
    }
    for seq in [None, Some(0), Some(1), Some(15), Some(10_000)] {
        let at = |id: &ConversationId| Some(Position { conversation: *id, seq: Seq::new(seq?) });
        let positions: Vec<Position> = ids.iter().step_by(2).filter_map(at).collect();
        let what = format!("what {reader} has missed at {seq:?}");
        let (ours, theirs) = (
            one.behind(reader, positions.clone()).await.unwrap(),
            other.behind(reader, positions).await.unwrap(),
        );
        assert_eq!(ours, theirs, "{what}");
    }
}

async fn assert_same_conversation(one: &dyn Store, other: &dyn Store, id: ConversationId, reader: &UserId) {
    let what = format!("{id} for {reader}");
    same(&what, one.conversation(id, reader).await, other.conversation(id, reader).await);
    same(&what, one.inbox_entry(id, reader).await, other.inbox_entry(id, reader).await);
    same(&what, one.statuses(id, reader).await, other.statuses(id, reader).await);
    let (mut ours, theirs) = (history(one, id, reader).await, history(other, id, reader).await);
    let is_lost_notice = |message: &Message| {
        message.content_type == ContentType::Lost && message.message_id == MessageId::of_notice(message.seq)
    };
    for message in ours.iter_mut().filter(|message| is_lost_notice(message)) {
        message.content_type = ContentType::Void;
    }
    for (ours, theirs) in ours.iter().zip(&theirs) {
        assert_eq!(ours, theirs, "{what}");
    }
    assert_eq!(ours.len(), theirs.len(), "{what}");
    for message in ours.iter().filter(|message| message.content_type != ContentType::Void).step_by(7) {
        let seq = message.seq;
        same(&what, one.receipt_counts(id, reader, seq).await, other.receipt_counts(id, reader, seq).await);
    }
    let request = PageRequest {
        conversation: id,
        reader: reader.clone(),
        from: PageFrom::Newest,
        limit: PageLimit::DEFAULT,
    };
    same(&what, one.page(request.clone()).await, other.page(request).await);
}

/// All messages that the reader can see, oldest first.
async fn history(store: &dyn Store, id: ConversationId, reader: &UserId) -> Vec<Message> {
    let (mut all, mut after) = (Vec::new(), Seq::ZERO);
    loop {
        let from = PageFrom::After(after);
        let request = PageRequest { conversation: id, reader: reader.clone(), from, limit: PageLimit::MAX };
        let page = store.page(request).await.unwrap();
        all.extend(page.messages);
        match page.next_after {
            Some(next) => after = next,
            None => return all,
        }
    }
}
