//! Fuzz target for URLs: ids in the path, cursors and limits in the query.

use std::fmt::Display;
use std::str::FromStr;

use bluetick_archive::SegmentName;
use bluetick_core::{ContentType, ConversationId, InboxKey, MessageId, PageFrom, Seq, Title, UserId};
use bluetick_wire::http::{InboxParameters, PageParameters, PeopleParameters, StatusParameters};

pub fn any_query(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(PageParameters { from, limit }) = PageParameters::parse(text) {
        assert!((1..=100).contains(&limit.get()));
        match from {
            PageFrom::Newest => {}
            PageFrom::Before(seq) => assert!((Seq::FIRST..=Seq::MAX).contains(&seq)),
            PageFrom::After(seq) => assert!(seq <= Seq::MAX),
        }
    }
    if let Ok(InboxParameters { after: Some(place), .. }) = InboxParameters::parse(text) {
        let again = InboxParameters::parse(&format!("cursor={place}"));
        assert_eq!(
            again.map(|parameters| parameters.after),
            Ok(Some(place)),
            "the cursor survives a round trip"
        );
    }
    let _ = PeopleParameters::parse(text);
    let _ = StatusParameters::parse(text);
    spelled_again::<InboxKey>(text);
    // Each value must have exactly one spelling. Two spellings of one id would be two keys for the
    // same object.
    spelled_alike::<ConversationId>(text);
    spelled_alike::<MessageId>(text);
    spelled_alike::<UserId>(text);
    spelled_alike::<ContentType>(text);
    spelled_alike::<SegmentName>(text);
    if let Ok(title) = text.parse::<Title>() {
        assert!((1..=256).contains(&title.as_str().len()));
    }
}

fn spelled_again<T: FromStr + Display + PartialEq>(text: &str) {
    if let Ok(thing) = text.parse::<T>() {
        assert!(thing.to_string().parse::<T>().is_ok_and(|again| again == thing), "{text}");
    }
}

fn spelled_alike<T: FromStr + Display>(text: &str) {
    if let Ok(thing) = text.parse::<T>() {
        assert_eq!(thing.to_string(), text);
    }
}
