//! Attacks with HTTP requests: headers, framing and bodies.

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::harness::World;
use crate::hostile::{HonestUsers, RawSocket};

#[tokio::test(flavor = "multi_thread")]
async fn too_many_or_too_long_headers_are_refused() {
    let world = World::new().await;
    let mut honest = HonestUsers::pair(&world).await;
    let attack = async {
        for flood in [
            "X-Header: x\r\n".repeat(10_000),
            format!("X-Long: {}\r\n", "x".repeat(1_000_000)),
            format!("X-{}: x\r\n", "x".repeat(100_000)),
        ] {
            let mut raw = RawSocket::connect(world.addr).await;
            raw.write_until_closed(
                format!("GET /healthz HTTP/1.1\r\nHost: localhost\r\n{flood}\r\n").as_bytes(),
            )
            .await;
            let answer = raw.rest().await;
            assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431 "), "{answer}");
        }
        let mut raw = RawSocket::connect(world.addr).await;
        raw.write_until_closed(
            format!("GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n", "x".repeat(100_000)).as_bytes(),
        )
        .await;
        let answer = raw.rest().await;
        let is_refused = answer.starts_with("HTTP/1.1 414 ") || answer.starts_with("HTTP/1.1 431 ");
        assert!(answer.is_empty() || is_refused, "{answer}");
    };
    honest.chat_during(attack).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pipelined_requests_are_answered_in_order() {
    let world = World::new().await;
    let mut honest = HonestUsers::pair(&world).await;
    let attack = async {
        let questions =
            "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\nGET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(200);
        let last = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        let (mut reading, mut writing) = RawSocket::connect(world.addr).await.0.into_split();
        let asking = async { writing.write_all((questions + last).as_bytes()).await.unwrap() };
        let mut answers = String::new();
        let hearing = async { reading.read_to_string(&mut answers).await.unwrap() };
        tokio::join!(hearing, asking);
        answers
    };
    let answers = honest.chat_during(attack).await;
    let statuses: Vec<&str> = answers.split("HTTP/1.1 ").skip(1).map(|answer| &answer[..3]).collect();
    let mut expected = ["200", "404"].repeat(200);
    expected.push("200");
    assert_eq!(statuses, expected);
}

/// If a proxy and the server disagree on where a request ends, a body can hide another request. The
/// server therefore refuses ambiguous framing, or closes the connection after it.
#[tokio::test(flavor = "multi_thread")]
async fn ambiguous_request_framing_is_refused() {
    let world = World::new().await;
    let mut honest = HonestUsers::pair(&world).await;
    let hidden = "GET /hidden HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let chunked = format!("0\r\n\r\n{hidden}");
    let length = chunked.len();
    let shapes = [
        format!("Content-Length: {length}\r\nTransfer-Encoding: chunked\r\n\r\n{chunked}"),
        format!("Transfer-Encoding: chunked\r\nContent-Length: {length}\r\n\r\n{chunked}"),
        format!("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n{chunked}"),
        format!("Transfer-Encoding: identity, chunked, identity\r\n\r\n{chunked}"),
        format!("Transfer-Encoding: xchunked\r\nContent-Length: 5\r\n\r\n{chunked}"),
        format!("Transfer-Encoding : chunked\r\n\r\n{chunked}"),
        format!("Content-Length: 0\r\nContent-Length: {}\r\n\r\n{hidden}", hidden.len()),
        format!("Content-Length: +0\r\n\r\n{hidden}"),
        format!("Content-Length: 0, 5\r\n\r\n{hidden}"),
        format!("X: x\r\n Content-Length: {}\r\n\r\n{hidden}", hidden.len()),
        format!("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n5;x=\"\r\n{hidden}"),
    ];
    let attack = async {
        for shape in &shapes {
            let mut raw = RawSocket::connect(world.addr).await;
            raw.write(format!("POST /v1/login HTTP/1.1\r\nHost: localhost\r\n{shape}").as_bytes()).await;
            let answer = raw.rest().await;
            assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{shape}\n{answer}");
            assert!(
                answer.starts_with("HTTP/1.1 4") && !answer.contains("no route has this path"),
                "{shape}\n{answer}"
            );
        }
    };
    honest.chat_during(attack).await;
}

/// The server does not decompress request bodies, so a small body stays small.
#[tokio::test(flavor = "multi_thread")]
async fn compressed_request_body_is_not_decompressed() {
    let world = World::new().await;
    let mut honest = HonestUsers::pair(&world).await;
    let token = world.person("mallory").token;
    // A gzip header, followed by what a decompressor would expand.
    let packed: Vec<u8> = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3].into_iter().chain([0; 5_000]).collect();
    let attack = async {
        for encoding in ["gzip", "deflate", "br", "zstd", "gzip, gzip"] {
            let mut raw = RawSocket::connect(world.addr).await;
            let head = format!(
                "POST /v1/conversations HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\
                 Content-Type: application/json\r\nContent-Encoding: {encoding}\r\nContent-Length: {}\r\n\r\n",
                packed.len()
            );
            raw.write(&[head.as_bytes(), &packed].concat()).await;
            let answer = raw.rest().await;
            assert!(answer.starts_with("HTTP/1.1 400 ") && answer.contains("invalid_request"), "{answer}");
        }
    };
    honest.chat_during(attack).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn oversized_body_is_refused_by_its_length_or_while_it_arrives() {
    let world = World::new().await;
    let mut honest = HonestUsers::pair(&world).await;
    let token = world.person("mallory").token;
    let head =
        format!("POST /v1/conversations HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n");
    let attack = async {
        let mut raw = RawSocket::connect(world.addr).await;
        raw.write(format!("{head}Content-Length: 1099511627776\r\n\r\n").as_bytes()).await;
        let by_length = raw.rest().await;
        assert!(by_length.contains("body_too_large"), "{by_length}");
        let mut raw = RawSocket::connect(world.addr).await;
        raw.write(format!("{head}Transfer-Encoding: chunked\r\n\r\n").as_bytes()).await;
        let chunk = format!("10000\r\n{}\r\n", " ".repeat(0x1_0000)).repeat(4);
        let mut said = 0;
        while said < 64 * 1024 * 1024 && raw.write_until_closed(chunk.as_bytes()).await {
            said += chunk.len();
        }
        assert!(said < 64 * 1024 * 1024, "the server read the whole body");
    };
    honest.chat_during(attack).await;
}
