//! Attacks with WebSocket frames: floods, fragments, sizes and protocol violations.

use futures_util::future::join_all;
use serde_json::json;
use tokio_tungstenite::tungstenite::Message;

use crate::harness::{Setup, World, call};
use crate::hostile::{
    COMPRESSED, CONTINUED, FIN, HonestUsers, PING, RawSocket, TEXT, frame, header, upgrade_request,
};

const BINARY: u8 = 2;

async fn authenticated(world: &World) -> RawSocket {
    RawSocket::authenticated(world.addr, &world.person("mallory").token).await
}

/// Every frame costs one request of the rate limit, whatever its size.
#[tokio::test(flavor = "multi_thread")]
async fn one_byte_frames_are_answered_and_then_a_flood() {
    let world = Setup::limits(|limits| {
        limits.requests_burst = 200;
        limits.flood_rejections = 100;
    })
    .start()
    .await;
    let mut honest = HonestUsers::pair(&world).await;
    let attack = async {
        let mut raw = authenticated(&world).await;
        raw.write_until_closed(&frame(TEXT, b"x").repeat(100_000)).await;
        raw.close_code().await
    };
    assert_eq!(honest.chat_during(attack).await, 4429);
}

/// A message in one-byte fragments is accepted, and the size limit applies to the whole message.
#[tokio::test(flavor = "multi_thread")]
async fn message_in_one_byte_fragments_has_the_same_limit() {
    let world = Setup::limits(|limits| limits.frame_bytes = 70_000).start().await;
    let mut honest = HonestUsers::pair(&world).await;
    let in_pieces = |text: &str| {
        let (first, rest) = text.as_bytes().split_at(1);
        let mut bytes = frame(TEXT & !FIN, first);
        rest.iter().for_each(|byte| bytes.extend(frame(CONTINUED, &[*byte])));
        bytes
    };
    let attack = async {
        let mut raw = authenticated(&world).await;
        raw.write(&in_pieces(r#"{"type":"ping"}"#)).await;
        raw.write(&frame(FIN | CONTINUED, b"")).await;
        assert_eq!(raw.frame().await.1, br#"{"type":"pong"}"#);
        raw.write_until_closed(&in_pieces(&"x".repeat(70_001))).await;
        raw.close_code().await
    };
    assert_eq!(honest.chat_during(attack).await, 1009);
}

/// Empty fragments do not increase the size of the message, but the server must read each of them.
#[tokio::test(flavor = "multi_thread")]
async fn endless_fragmented_message_is_closed_as_too_large() {
    let world = Setup::limits(|limits| limits.frame_bytes = 100_000).start().await;
    let mut honest = HonestUsers::pair(&world).await;
    let pieces = frame(CONTINUED, b"").repeat(1_000);
    let attack = join_all((0..4).map(|_| async {
        let mut raw = authenticated(&world).await;
        raw.write(&frame(TEXT & !FIN, b"{")).await;
        let mut said = 0;
        while said < 256 * 1024 * 1024 && raw.write_until_closed(&pieces).await {
            said += pieces.len();
            // A pong between the fragments does not reset the limit.
            raw.write_until_closed(&frame(FIN | 10, b"")).await;
        }
        said
    }));
    for said in honest.chat_during(attack).await {
        assert!(said < 256 * 1024 * 1024, "the server read the endless message");
    }
    let closes = world.get("/metrics").await.text();
    assert!(closes.contains(r#"bluetick_closes_total{reason="frame_too_large"} 4"#), "{closes}");
}

#[tokio::test(flavor = "multi_thread")]
async fn oversized_frame_is_refused_by_its_header() {
    let world = World::new().await;
    let mut honest = HonestUsers::pair(&world).await;
    let attack = join_all([1 << 20, 1 << 40, i64::MAX as u64].map(|length| {
        let world = &world;
        async move {
            let mut raw = authenticated(world).await;
            raw.write(&header(TEXT, length)).await;
            raw.close_code().await
        }
    }));
    assert_eq!(honest.chat_during(attack).await, [1009; 3]);
    // The limit also applies before `hello`.
    let attack = async {
        let mut raw = RawSocket::websocket(world.addr).await;
        raw.write(&header(FIN | BINARY, 1 << 40)).await;
        raw.close_code().await
    };
    assert_eq!(honest.chat_during(attack).await, 1009);
}

/// The server never negotiates compression, so no frame can expand.
#[tokio::test(flavor = "multi_thread")]
async fn compression_is_not_negotiated_and_a_compressed_frame_closes_the_connection() {
    let world = World::new().await;
    let mut honest = HonestUsers::pair(&world).await;
    let offer = "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r\n";
    let attack = async {
        let mut raw = RawSocket::connect(world.addr).await;
        raw.write(upgrade_request(world.addr, offer).as_bytes()).await;
        let head = raw.head().await.to_lowercase();
        assert!(head.starts_with("http/1.1 101 ") && !head.contains("extensions"), "{head}");
        raw.write(&frame(COMPRESSED | TEXT, &[0; 100])).await;
        raw.close_code().await
    };
    assert_eq!(honest.chat_during(attack).await, 1002);
}

#[tokio::test(flavor = "multi_thread")]
async fn protocol_violation_closes_only_its_connection() {
    let world = World::new().await;
    let mut honest = HonestUsers::pair(&world).await;
    let broken: [(&str, Vec<u8>); 6] = [
        ("without a mask", vec![TEXT, 2, b'{', b'}']),
        ("with a reserved opcode", frame(FIN | 3, b"")),
        ("a ping in pieces", frame(9, b"")),
        ("a ping that is too long", frame(PING, &[0; 126])),
        ("a continuation of nothing", frame(FIN | CONTINUED, b"x")),
        ("a message within a message", [frame(TEXT & !FIN, b"a"), frame(TEXT, b"b")].concat()),
    ];
    let attack = join_all(broken.iter().map(|(what, bytes)| {
        let world = &world;
        async move {
            let mut raw = authenticated(world).await;
            raw.write(bytes).await;
            (*what, raw.close_code().await)
        }
    }));
    for (what, code) in honest.chat_during(attack).await {
        assert_eq!(code, 1002, "{what}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unlimited_pings_are_a_flood() {
    let world = Setup::limits(|limits| {
        limits.requests_burst = 200;
        limits.flood_rejections = 100;
    })
    .start()
    .await;
    let mut honest = HonestUsers::pair(&world).await;
    let pings = frame(PING, &[b'x'; 125]).repeat(2_000);
    let attack = async {
        let mut raw = authenticated(&world).await;
        raw.write_until_closed(&pings).await;
        raw.close_code().await
    };
    assert_eq!(honest.chat_during(attack).await, 4429);
}

/// Deeply nested arrays, which overflow the stack of a recursive parser.
#[tokio::test(flavor = "multi_thread")]
async fn deeply_nested_json_is_refused_in_frames_and_bodies() {
    let world = World::new().await;
    let mut honest = HonestUsers::pair(&world).await;
    let mallory = world.person("mallory");
    let deep = format!(r#"{{"type":"send","extra":{}"#, "[".repeat(200_000));
    let attack = async {
        let mut device = mallory.connect_now().await;
        device.send_raw(Message::text(deep.clone())).await;
        device.receive_error("invalid_frame").await;
        device.receives_nothing().await;
        let token = Some(mallory.token.as_str());
        let reply = call(world.addr, "POST", "/v1/conversations", token, Some(&deep)).await;
        reply.refused(400, "invalid_request");
    };
    honest.chat_during(attack).await;
}

/// A device may send many positions. A conversation that the user is not a member of costs one
/// look-up.
#[tokio::test(flavor = "multi_thread")]
async fn hello_with_8000_unknown_positions_gets_one_gone_for_each() {
    let world = World::new().await;
    let mut honest = HonestUsers::pair(&world).await;
    let mallory = world.person("mallory");
    let positions: serde_json::Map<String, serde_json::Value> =
        (0..8_000).map(|number| (format!("d{number:024}"), json!({"seq": 1, "epoch": 1}))).collect();
    let attack = async {
        let device = mallory.connect_at(json!(positions)).await;
        device.backlog
    };
    let told = honest.chat_during(attack).await;
    assert_eq!(told.len(), 8_000);
    assert!(told.iter().all(|frame| frame["type"] == "gone"), "{}", told[0]);
}
