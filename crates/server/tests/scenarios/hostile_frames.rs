use futures_util::future::join_all;
use serde_json::json;
use tokio_tungstenite::tungstenite::Message;

use crate::harness::{Setup, World, call};
use crate::hostile::{COMPRESSED, CONTINUED, FIN, Honest, PING, Raw, TEXT, frame, header, upgrade_request};

const BINARY: u8 = 2;

async fn greeted(world: &World) -> Raw {
    Raw::greeted(world.addr, &world.person("mallory").token).await
}

/// What a frame of one byte costs is paid from the budget of requests, whatever is in it.
#[tokio::test(flavor = "multi_thread")]
async fn frames_of_one_byte_are_answered_and_then_they_are_a_flood() {
    let world = Setup::limits(|limits| {
        limits.requests_burst = 200;
        limits.flood_rejections = 100;
    })
    .start()
    .await;
    let mut honest = Honest::pair(&world).await;
    let attack = async {
        let mut raw = greeted(&world).await;
        raw.shout(&frame(TEXT, b"x").repeat(100_000)).await;
        raw.close_code().await
    };
    assert_eq!(honest.talk_during(attack).await, 4429);
}

/// The same message, in as many pieces as it has bytes: as good as any, and no larger than any may be.
#[tokio::test(flavor = "multi_thread")]
async fn a_message_in_pieces_of_one_byte_is_one_message_and_has_the_same_limit() {
    let world = Setup::limits(|limits| limits.frame_bytes = 70_000).start().await;
    let mut honest = Honest::pair(&world).await;
    let in_pieces = |text: &str| {
        let (first, rest) = text.as_bytes().split_at(1);
        let mut bytes = frame(TEXT & !FIN, first);
        rest.iter().for_each(|byte| bytes.extend(frame(CONTINUED, &[*byte])));
        bytes
    };
    let attack = async {
        let mut raw = greeted(&world).await;
        raw.say(&in_pieces(r#"{"type":"ping"}"#)).await;
        raw.say(&frame(FIN | CONTINUED, b"")).await;
        assert_eq!(raw.frame().await.1, br#"{"type":"pong"}"#);
        raw.shout(&in_pieces(&"x".repeat(70_001))).await;
        raw.close_code().await
    };
    assert_eq!(honest.talk_during(attack).await, 1009);
}

/// Pieces without a byte make no message larger, and yet each has to be read.
#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_never_ends_is_ended() {
    let world = Setup::limits(|limits| limits.frame_bytes = 100_000).start().await;
    let mut honest = Honest::pair(&world).await;
    let pieces = frame(CONTINUED, b"").repeat(1_000);
    let attack = join_all((0..4).map(|_| async {
        let mut raw = greeted(&world).await;
        raw.say(&frame(TEXT & !FIN, b"{")).await;
        let mut said = 0;
        while said < 256 * 1024 * 1024 && raw.shout(&pieces).await {
            said += pieces.len();
            // A sign of life in between changes nothing.
            raw.shout(&frame(FIN | 10, b"")).await;
        }
        said
    }));
    for said in honest.talk_during(attack).await {
        assert!(said < 256 * 1024 * 1024, "it was listened to for ever");
    }
    let closes = world.get("/metrics").await.text();
    assert!(closes.contains(r#"bluetick_closes_total{reason="frame_too_large"} 4"#), "{closes}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frame_that_announces_more_than_there_is_memory_is_refused_by_its_header() {
    let world = World::new().await;
    let mut honest = Honest::pair(&world).await;
    let attack = join_all([1 << 20, 1 << 40, i64::MAX as u64].map(|length| {
        let world = &world;
        async move {
            let mut raw = greeted(world).await;
            raw.say(&header(TEXT, length)).await;
            raw.close_code().await
        }
    }));
    assert_eq!(honest.talk_during(attack).await, [1009; 3]);
    // Before the hello as well, when nobody has said yet who they are.
    let attack = async {
        let mut raw = Raw::websocket(world.addr).await;
        raw.say(&header(FIN | BINARY, 1 << 40)).await;
        raw.close_code().await
    };
    assert_eq!(honest.talk_during(attack).await, 1009);
}

/// Compression is never agreed on, so there is nothing that could unpack to more than was sent.
#[tokio::test(flavor = "multi_thread")]
async fn compression_is_not_agreed_on_and_a_frame_that_uses_it_ends_the_connection() {
    let world = World::new().await;
    let mut honest = Honest::pair(&world).await;
    let offer = "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r\n";
    let attack = async {
        let mut raw = Raw::connect(world.addr).await;
        raw.say(upgrade_request(world.addr, offer).as_bytes()).await;
        let head = raw.head().await.to_lowercase();
        assert!(head.starts_with("http/1.1 101 ") && !head.contains("extensions"), "{head}");
        raw.say(&frame(COMPRESSED | TEXT, &[0; 100])).await;
        raw.close_code().await
    };
    assert_eq!(honest.talk_during(attack).await, 1002);
}

#[tokio::test(flavor = "multi_thread")]
async fn frames_that_break_the_protocol_end_their_connection_alone() {
    let world = World::new().await;
    let mut honest = Honest::pair(&world).await;
    let broken: [(&str, Vec<u8>); 6] = [
        ("without a mask", vec![TEXT, 2, b'{', b'}']),
        ("of a kind that is not there", frame(FIN | 3, b"")),
        ("a ping in pieces", frame(9, b"")),
        ("a ping that is too long", frame(PING, &[0; 126])),
        ("a continuation of nothing", frame(FIN | CONTINUED, b"x")),
        ("a message within a message", [frame(TEXT & !FIN, b"a"), frame(TEXT, b"b")].concat()),
    ];
    let attack = join_all(broken.iter().map(|(what, bytes)| {
        let world = &world;
        async move {
            let mut raw = greeted(world).await;
            raw.say(bytes).await;
            (*what, raw.close_code().await)
        }
    }));
    for (what, code) in honest.talk_during(attack).await {
        assert_eq!(code, 1002, "{what}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pings_on_and_on_are_a_flood_read_or_not() {
    let world = Setup::limits(|limits| {
        limits.requests_burst = 200;
        limits.flood_rejections = 100;
    })
    .start()
    .await;
    let mut honest = Honest::pair(&world).await;
    let pings = frame(PING, &[b'x'; 125]).repeat(2_000);
    let attack = async {
        let mut raw = greeted(&world).await;
        raw.shout(&pings).await;
        raw.close_code().await
    };
    assert_eq!(honest.talk_during(attack).await, 4429);
}

/// Brackets in brackets in brackets, which a careless reader follows until its stack ends.
#[tokio::test(flavor = "multi_thread")]
async fn json_of_great_depth_is_refused_in_a_frame_and_in_a_body() {
    let world = World::new().await;
    let mut honest = Honest::pair(&world).await;
    let mallory = world.person("mallory");
    let deep = format!(r#"{{"type":"send","extra":{}"#, "[".repeat(200_000));
    let attack = async {
        let mut device = mallory.connect_now().await;
        device.say_raw(Message::text(deep.clone())).await;
        device.hear_error("invalid_frame").await;
        device.hears_nothing().await;
        let token = Some(mallory.token.as_str());
        let reply = call(world.addr, "POST", "/v1/conversations", token, Some(&deep)).await;
        reply.refused(400, "invalid_request");
    };
    honest.talk_during(attack).await;
}

/// A device may say where it stands in many conversations. Those that it is not in cost a look and nothing else.
#[tokio::test(flavor = "multi_thread")]
async fn a_hello_that_names_thousands_of_conversations_is_told_that_each_is_gone_and_no_more() {
    let world = World::new().await;
    let mut honest = Honest::pair(&world).await;
    let mallory = world.person("mallory");
    let positions: serde_json::Map<String, serde_json::Value> =
        (0..8_000).map(|number| (format!("d{number:024}"), json!({"seq": 1, "epoch": 1}))).collect();
    let attack = async {
        let device = mallory.connect_at(json!(positions)).await;
        device.backlog
    };
    let told = honest.talk_during(attack).await;
    assert_eq!(told.len(), 8_000);
    assert!(told.iter().all(|frame| frame["type"] == "gone"), "{}", told[0]);
}
