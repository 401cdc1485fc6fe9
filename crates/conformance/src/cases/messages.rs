//! Message order and history pages.

use std::sync::Arc;

use bluetick_core::{ContentType, PageFrom, PageLimit, Seq, Timestamp};

use crate::{Harness, StoreUnderTest};

pub async fn first_message_of_a_direct_conversation_has_seq_1<H: Harness>(world: StoreUnderTest<H>) {
    let id = world.direct("alice", "bob").await;
    let page = world.page(id, "bob", PageFrom::Newest, PageLimit::DEFAULT).await.unwrap();
    assert_eq!(
        (page.messages.len(), page.head, page.next_before, page.next_after),
        (0, Seq::ZERO, None, None)
    );
    assert_eq!(world.sent(id, "alice", "hey").await, 1);
    assert_eq!(world.sent(id, "bob", "hi!").await, 2);
}

pub async fn stored_message_equals_the_sent_message<H: Harness>(world: StoreUnderTest<H>) {
    let direct = world.direct("alice", "bob").await;
    let group = world.group("alice", &["bob"]).await;
    let contents = ["plain", "zwei\nZeilen", "🏳️‍🌈 مرحبا", "\u{0}\u{1f}\"\\", &"long ".repeat(13_000)];
    for (number, content) in contents.into_iter().enumerate() {
        for id in [direct, group] {
            let mut append = world.message(id, "alice", &format!("id-{number}"));
            append.content = content.into();
            append.content_type = ContentType::Other("text/markdown".into());
            append.timestamp = Timestamp::from_millis(-5);
            world.append(append).await.unwrap();
        }
    }
    let check = async |world: &StoreUnderTest<H>| {
        for (id, receiver) in [(direct, Some(world.user("bob"))), (group, None)] {
            let history = world.history(id, "bob").await;
            let texts = history.iter().filter(|message| message.content_type != ContentType::System);
            let mut count = 0;
            for (number, message) in texts.enumerate() {
                count += 1;
                assert_eq!(&*message.content, contents[number]);
                assert_eq!(message.message_id.to_string(), format!("id-{number}"));
                assert_eq!(message.sender, world.user("alice"));
                assert_eq!(message.receiver, receiver);
                assert_eq!(message.content_type.as_str(), "text/markdown");
                assert_eq!(message.timestamp, Timestamp::from_millis(-5));
                assert_eq!(message.received_at, crate::world::NOW);
            }
            assert_eq!(count, contents.len());
        }
    };
    check(&world).await;
    check(&world.restart().await).await;
}

pub async fn client_timestamp_does_not_affect_the_order<H: Harness>(world: StoreUnderTest<H>) {
    let id = world.direct("alice", "bob").await;
    for (text, clock) in [("third", 300), ("first", 100), ("second", 200)] {
        let mut append = world.message(id, "alice", text);
        append.timestamp = Timestamp::from_millis(clock);
        append.received_at = Timestamp::from_millis(1_000 - clock);
        world.append(append).await.unwrap();
    }
    let texts: Vec<_> = world.texts(id, "bob").await.into_iter().map(|(_, text)| text).collect();
    assert_eq!(texts, ["third", "first", "second"]);
}

pub async fn pages_cover_the_conversation_in_both_directions<H: Harness>(world: StoreUnderTest<H>) {
    let id = world.direct("alice", "bob").await;
    for number in 1..=150 {
        world.sent(id, "alice", &number.to_string()).await;
    }
    let world = world.restart().await;
    for number in 151..=250 {
        world.sent(id, "bob", &number.to_string()).await;
    }
    let everything: Vec<u64> = (1..=250).collect();
    for limit in [1, 7, 20, 100] {
        let limit = PageLimit::try_from(limit).unwrap();
        let mut downward = Vec::new();
        let mut from = PageFrom::Newest;
        loop {
            let page = world.page(id, "alice", from, limit).await.unwrap();
            for message in &page.messages {
                assert_eq!(message.seq.to_string(), *message.content, "content and seq do not match");
            }
            downward.extend(page.messages.iter().map(|message| message.seq.get()));
            match page.next_before {
                Some(before) => from = PageFrom::Before(before),
                None => break,
            }
        }
        downward.reverse();
        assert_eq!(downward, everything);

        let mut upward = Vec::new();
        let mut after = Some(Seq::ZERO);
        while let Some(seq) = after {
            let page = world.page(id, "alice", PageFrom::After(seq), limit).await.unwrap();
            upward.extend(page.messages.iter().map(|message| message.seq.get()));
            after = page.next_after;
        }
        assert_eq!(upward, everything);
    }
    let page = world.page(id, "bob", PageFrom::Before(Seq::MAX), PageLimit::DEFAULT).await.unwrap();
    assert_eq!(page.messages[0].seq, Seq::new(250));
    let page = world.page(id, "bob", PageFrom::After(Seq::MAX), PageLimit::DEFAULT).await.unwrap();
    assert_eq!((page.messages.len(), page.next_after), (0, None));
}

pub async fn concurrent_senders_get_contiguous_seqs<H: Harness>(world: StoreUnderTest<H>) {
    const SENDERS: usize = 16;
    const EACH: usize = 40;
    let names: Vec<String> = (0..SENDERS).map(|number| format!("s{number}")).collect();
    let id = world.group("alice", &names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let world = Arc::new(world);
    let tasks: Vec<_> = names
        .into_iter()
        .map(|name| {
            let world = Arc::clone(&world);
            tokio::spawn(async move {
                let mut seqs = Vec::new();
                for number in 0..EACH {
                    seqs.push(world.sent(id, &name, &format!("{name}-{number}")).await);
                }
                assert!(seqs.is_sorted(), "the messages of one sender keep their order");
                seqs
            })
        })
        .collect();
    let mut all = vec![1];
    for task in tasks {
        all.extend(task.await.unwrap());
    }
    all.sort_unstable();
    let expected: Vec<u64> = (1..=(SENDERS * EACH) as u64 + 1).collect();
    assert_eq!(all, expected);
    let seen: Vec<u64> = world.texts(id, "alice").await.into_iter().map(|(seq, _)| seq).collect();
    assert_eq!(seen, expected);
}

pub async fn messages_get_seqs_in_the_order_of_acceptance<H: Harness>(world: StoreUnderTest<H>) {
    let first = world.direct("alice", "bob").await;
    let second = world.group("alice", &["bob"]).await;
    world.sent(first, "bob", "before").await;
    // After a restart no conversation is in memory. Loading one must not let a later message
    // overtake an earlier one.
    let world = world.restart().await;
    let mut outcomes = Vec::new();
    for number in 0..200 {
        let id = if number % 3 == 0 { second } else { first };
        let mut append = world.message(id, "alice", &format!("m{number}"));
        append.retry_after = (number % 5 == 0).then_some(Seq::ZERO);
        outcomes.push((id, world.store().append(append).await.unwrap()));
    }
    for conversation in [first, second] {
        let mut expected = Seq::FIRST;
        for (id, outcome) in &mut outcomes {
            if *id == conversation {
                let appended = outcome.await.unwrap();
                assert_eq!(appended.seq, expected.next());
                expected = appended.seq;
            }
        }
    }
}
