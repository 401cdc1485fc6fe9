//! The encoded bytes of every HTTP body, and the decoding of bodies and queries.

#![expect(clippy::unwrap_used, reason = "a helper of a test fails the test")]

mod common;

use std::sync::Arc;

use bluetick_core::ports::{
    ArchiveCounters, ArchiveStatus, BackupReport, ColdCount, EraseReport, MemberStatus, RestoreReport,
    RunReport, Stage, Statuses, VerifyReport,
};
use bluetick_core::{
    Conversation, ConversationId, ConversationWithMembers, InboxFilter, InboxPage, Member, Members, Page,
    PageFrom, PageLimit, PreferenceChange, Profile, ReceiptCounts, Role, Seq, Timestamp, User,
};
use bluetick_wire::http::{
    ArchiveBody, ConversationBody, ConversationDetailBody, ErrorBody, HealthBody, InboxEntryBody,
    InboxPageBody, InboxParameters, JobBegunBody, JobBody, JobKind, OwnStatusBody, PageBody, PageParameters,
    PreferenceRequest, PresenceBody, PresencesBody, ProfileBody, ProfileRequest, ReadyBody, ReceiptRequest,
    ReceiptsBody, ReportBody, SentBody, StatusBody, StatusParameters, StatusesBody, TokenBody, UserBody,
};
use bluetick_wire::{ErrorCode, decode};
use common::{
    NOW, appended, conversation, direct, entry, group_entry, message, message_id, read_state, snapshot, user,
};
use proptest::prelude::*;

fn json(body: &impl serde::Serialize) -> String {
    serde_json::to_string(body).unwrap()
}

#[test]
fn archive_bodies_match_their_snapshot() {
    let took = std::time::Duration::from_millis(420);
    let moved = ColdCount { segments: 3, messages: 2_950, bytes: 300_000, raw_bytes: 1_200_000 };
    let job = |kind, stage: Option<Stage>, report: Option<ReportBody>| JobBody {
        job_id: "1767225600123-1".into(),
        kind,
        stage: stage.map(Into::into),
        done: 1,
        total: 3,
        started_at: NOW.millis(),
        finished_at: report.is_some().then_some(NOW.millis() + 420),
        error: None,
        report,
    };
    let run = RunReport { conversations: 2, moved, took, ..RunReport::default() };
    let verify = VerifyReport { checked: moved, problems: vec!["a segment is gone".into()], took };
    let restore = RestoreReport { segments: 3, messages: 2_950, took };
    let erase = EraseReport { conversations: 1, messages: 7, took, ..EraseReport::default() };
    let backup = BackupReport {
        place: "/backups/monday".into(),
        messages: 9,
        objects: 2,
        took,
        ..BackupReport::default()
    };
    let status = ArchiveStatus { place: "directory /cold".into(), cold: moved, ..ArchiveStatus::default() };
    let counters = ArchiveCounters { paused: Some("it is full".into()), ..ArchiveCounters::default() };
    let failed =
        JobBody { error: Some("it is full".into()), ..job(JobKind::Run, Some(Stage::Sweeping), None) };
    let jobs = [
        job(JobKind::Run, Some(Stage::Compacting), Some(run.into())),
        job(JobKind::Verify, Some(Stage::Verifying), Some(verify.into())),
        job(JobKind::Restore, Some(Stage::Restoring), Some(restore.into())),
        job(JobKind::Erase, Some(Stage::Erasing), Some(erase.into())),
        job(JobKind::Backup, Some(Stage::ReadingBack), Some(backup.into())),
        failed.clone(),
    ];
    let under_way = job(JobKind::Run, None, None);
    let off = ArchiveBody::new(ArchiveStatus::default(), ArchiveCounters::default(), None, None);
    let mut bodies = vec![
        json(&JobBegunBody { job_id: "1767225600123-1".into() }),
        json(&off),
        json(&ArchiveBody::new(status, counters, Some(under_way), Some(failed))),
    ];
    bodies.extend(jobs.iter().map(json));
    snapshot("archive_bodies.txt", &(bodies.join("\n") + "\n"));
    // The command line decodes them.
    for job in jobs {
        assert_eq!(serde_json::from_str::<JobBody>(&json(&job)).unwrap(), job);
    }
    assert_eq!(serde_json::from_str::<ArchiveBody>(&json(&off)).unwrap(), off);
}

#[test]
fn http_bodies_match_their_snapshot() {
    let members = Members::from_unsorted(vec![
        Member { user: user("bob"), role: Role::Member, joined_seq: Seq::new(3) },
        Member { user: user("alice"), role: Role::Admin, joined_seq: Seq::FIRST },
    ]);
    let view = ConversationWithMembers { conversation: conversation(), members: Arc::new(members) };
    let group = ConversationWithMembers {
        conversation: Conversation {
            id: ConversationId::group([9; 15]),
            title: Some("Lunch".parse().unwrap()),
            ..view.conversation.clone()
        },
        ..view.clone()
    };
    let page = Page {
        messages: vec![message("hi")],
        next_before: Some(Seq::new(7)),
        next_after: None,
        head: Seq::new(7),
    };
    let account = User {
        id: user("alice"),
        display_name: Some("Alice".into()),
        password_hash: Some("secret".into()),
        created_at: Timestamp::from_millis(3),
    };
    let token = TokenBody {
        token: "t".into(),
        user_id: user("alice"),
        expires_at: Timestamp::from_millis(1_767_225_600_000),
    };
    let bodies = [
        json(&token),
        json(&UserBody::from(&account)),
        json(&ConversationBody::new(&view, &user("alice"))),
        json(&ConversationBody::new(&group, &user("alice"))),
        json(&ConversationDetailBody {
            conversation: ConversationBody::new(&view, &user("alice")),
            own: (&entry()).into(),
        }),
        json(&SentBody::new(direct(), &message_id(), &appended(true))),
        json(&PageBody::new(&page, PageFrom::Newest)),
        json(&ErrorBody::new(ErrorCode::ConversationNotFound, "no such conversation")),
        json(&HealthBody { status: "ok" }),
        json(&ReadyBody::ready()),
        json(&ReadyBody::not_ready("the disk is full")),
    ];
    snapshot("http_bodies.txt", &(bodies.join("\n") + "\n"));
}

#[test]
fn tick_inbox_and_presence_bodies_match_their_snapshot() {
    let (bob, seen) = (user("bob"), Profile { last_seen_at: Some(NOW), ..Profile::default() });
    let hidden = Profile { hides_presence: true, ..seen.clone() };
    let (entry, group) = (entry(), group_entry());
    let empty = bluetick_core::InboxEntry { last_message: None, ..entry.clone() };
    let inbox = InboxPage { next: Some(group.place()), entries: vec![entry.clone(), group] };
    let there = |user| PresenceBody::new(user, true, &seen);
    let statuses = Statuses {
        head: Seq::new(44),
        members: vec![
            MemberStatus { user: user("alice"), read_state: read_state(0, 0), joined: Seq::FIRST },
            MemberStatus { user: bob.clone(), read_state: read_state(44, 40), joined: Seq::new(3) },
        ],
    };
    let receipts = ReceiptsBody::new(Seq::new(44), ReceiptCounts { recipients: 9, delivered: 7, read: 3 });
    let bodies = [
        json(&InboxPageBody::new(&inbox, there)),
        json(&InboxPageBody::new(&InboxPage::default(), there)),
        json(&InboxEntryBody::new(&empty, None)),
        json(&OwnStatusBody::new(direct(), &bob, read_state(44, 40))),
        json(&StatusesBody::from(&statuses)),
        json(&StatusBody::Everybody(StatusesBody::from(&statuses))),
        json(&StatusBody::OneMessage(receipts)),
        json(&PresencesBody { members: vec![PresenceBody::new(&bob, false, &seen)] }),
        json(&PresenceBody::new(&bob, true, &hidden)),
        json(&PresenceBody::new(&bob, false, &hidden)),
        json(&PresenceBody::new(&bob, false, &Profile::default())),
        json(&ProfileBody::new(&bob, Some("Bob"), &seen)),
        json(&ProfileBody::new(&bob, None, &hidden)),
    ];
    snapshot("inbox_bodies.txt", &(bodies.join("\n") + "\n"));
}

#[test]
fn hidden_presence_looks_equal_online_and_offline() {
    let hidden = Profile { last_seen_at: Some(NOW), hides_presence: true, ..Profile::default() };
    let shown = |online| json(&PresenceBody::new(&user("bob"), online, &hidden));
    assert_eq!(shown(true), shown(false));
}

#[test]
fn invalid_inbox_query_names_the_wrong_parameter() {
    let parse = InboxParameters::parse;
    let usual = InboxParameters { after: None, limit: PageLimit::DEFAULT, filter: InboxFilter::All };
    assert_eq!((parse(""), parse("unknown=1&cursor=")), (Ok(usual), Ok(usual)));
    let place = entry().place();
    let asked = parse(&format!("limit=100&archived=false&cursor={place}")).unwrap();
    assert_eq!(
        (asked.after, asked.limit.count(), asked.filter),
        (Some(place), 100, InboxFilter::NotArchived)
    );
    assert_eq!(parse("archived=true").unwrap().filter, InboxFilter::Archived);
    for (query, says) in [
        ("limit=0", "limit must be between 1 and 100"),
        ("limit", "limit must"),
        ("limit=5&limit=5", "limit: given more than once"),
        ("cursor=7", "cursor: not a cursor"),
        ("cursor=o1", "cursor: not a cursor"),
        ("cursor=\u{20ac}1.x", "cursor: not a cursor"),
        ("cursor=o12.hunter2", "cursor: not a cursor"),
        ("archived=1", "archived: must be true or false"),
        ("archived", "archived: must be true or false"),
    ] {
        let message = parse(query).unwrap_err().to_string();
        assert!(message.starts_with(says) && !message.contains("hunter2"), "{query} gave: {message}");
    }
}

#[test]
fn status_query_accepts_one_seq_or_none() {
    assert_eq!(StatusParameters::parse("x=1").unwrap().seq, None);
    assert_eq!(StatusParameters::parse("x=1&seq=44").unwrap().seq, Some(Seq::new(44)));
    for query in ["seq", "seq=", "seq=0", "seq=-1", "seq=+1", "seq=x", "seq=9007199254740992", "seq=1&seq=1"]
    {
        let message = StatusParameters::parse(query).unwrap_err().to_string();
        assert!(message.starts_with("seq: "), "{query} gave: {message}");
    }
}

#[test]
fn invalid_body_names_the_wrong_field() {
    fn refused<'a, T: serde::Deserialize<'a>>(body: &'a str) -> String {
        decode::<T>(body.as_bytes()).err().expect("the body is refused").to_string()
    }
    assert_eq!(refused::<ReceiptRequest>("{}"), "missing field `seq`");
    assert_eq!(refused::<ReceiptRequest>("[1]"), "expected an object");
    assert_eq!(
        refused::<ReceiptRequest>(r#"{"seq":null}"#),
        "seq: expected a whole number that is not negative"
    );
    assert_eq!(refused::<PreferenceRequest>(r#"{"pinned":"yes"}"#), "pinned: expected true or false");
    assert_eq!(refused::<ProfileRequest>(r#"{"show_presence":0}"#), "show_presence: expected true or false");
}

#[test]
fn preference_missing_in_the_request_stays_unchanged() {
    let change = |body: &str| PreferenceChange::from(decode::<PreferenceRequest>(body.as_bytes()).unwrap());
    assert_eq!(change("{}"), PreferenceChange::default());
    let quiet =
        PreferenceChange { muted: Some(true), hides_reads: Some(true), ..PreferenceChange::default() };
    assert_eq!(change(r#"{"muted":true,"read_receipts":false,"pinned":null}"#), quiet);
}

proptest! {
    #[test]
    fn arbitrary_bytes_parse_to_a_body_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode::<bluetick_wire::http::SendRequestBody<'_>>(&bytes);
        let _ = bluetick_wire::http::OpenConversation::decode(&bytes);
        let _ = decode::<ReceiptRequest>(&bytes);
        let _ = decode::<PreferenceRequest>(&bytes);
    }

    #[test]
    fn arbitrary_query_parses_to_a_page_or_an_error(query in "[a-z_=&0-9+.-]{0,60}") {
        let _ = PageParameters::parse(&query);
    }

    #[test]
    fn arbitrary_query_parses_to_an_inbox_page_or_an_error(
        query in "(cursor=[poa]?-?[0-9]{0,20}\\.?[dg]?\\PC{0,30}|limit=\\PC{0,5}|archived=[a-z]{0,5}|&|\\PC){0,6}",
    ) {
        let _ = (InboxParameters::parse(&query), StatusParameters::parse(&query));
    }

    #[test]
    fn inbox_cursor_in_a_body_parses_to_the_same_key(last_at: i64, bits: [u8; 15]) {
        let mut entry = group_entry();
        entry.conversation = Conversation {
            id: ConversationId::group(bits), last_at: Timestamp::from_millis(last_at), ..entry.conversation
        };
        let place = entry.place();
        let asked = InboxParameters::parse(&format!("cursor={place}"));
        prop_assert_eq!(asked.map(|asked| asked.after), Ok(Some(place)));
    }
}
