//! Attacks with slow or unread connections.

use std::time::Duration;

use futures_util::future::join_all;
use tokio::io::{AsyncWrite, AsyncWriteExt};

use crate::harness::{Setup, World};
use crate::hostile::{HonestUsers, RawSocket, TEXT, frame, upgrade_request};

/// Writes one byte at a time until the server closes the connection or all bytes are written.
async fn write_byte_by_byte(writing: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) {
    for byte in bytes {
        if writing.write_u8(*byte).await.is_err() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hello_sent_byte_by_byte_times_out() {
    let world = Setup::limits(|limits| limits.hello_seconds = 1).start().await;
    let mut honest = HonestUsers::pair(&world).await;
    let token = world.person("mallory").token;
    let hello = frame(TEXT, format!(r#"{{"type":"hello","token":"{token}"}}"#).as_bytes());
    let attack = join_all((0..100).map(|_| async {
        let (reading, mut writing) = RawSocket::websocket(world.addr).await.0.into_split();
        tokio::select! {
            () = write_byte_by_byte(&mut writing, &hello) => panic!("the server waited for the slow client"),
            ready = reading.readable() => ready.unwrap(),
        }
        RawSocket(reading.reunite(writing).unwrap()).close_code().await
    }));
    let codes = honest.chat_during(attack).await;
    assert_eq!(codes, [4408; 100]);
}

#[tokio::test(flavor = "multi_thread")]
async fn headers_sent_byte_by_byte_or_never_time_out() {
    let world = Setup::limits(|limits| limits.headers_seconds = 1).start().await;
    let mut honest = HonestUsers::pair(&world).await;
    let request = upgrade_request(world.addr, &format!("X-Long: {}\r\n", "x".repeat(1_000)));
    let attack = join_all((0..100).map(|number| {
        let request = &request;
        async move {
            let mut raw = RawSocket::connect(world.addr).await;
            match number % 3 {
                // Send nothing.
                0 => {}
                1 => write_byte_by_byte(&mut raw.0, request.as_bytes()).await,
                // Send one request, and then nothing on the kept-alive connection.
                _ => {
                    raw.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
                    assert!(raw.head().await.starts_with("HTTP/1.1 200 "));
                }
            }
            raw.rest().await
        }
    }));
    for (number, rest) in honest.chat_during(attack).await.into_iter().enumerate() {
        assert!(!rest.contains("101 Switching"), "{number}: {rest}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn body_sent_byte_by_byte_times_out() {
    let world = Setup::limits(|limits| limits.body_seconds = 1).start().await;
    let mut honest = HonestUsers::pair(&world).await;
    let attack = join_all((0..50).map(|_| async {
        let mut raw = RawSocket::connect(world.addr).await;
        raw.write(b"POST /v1/login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n").await;
        write_byte_by_byte(&mut raw.0, &[b' '; 1_000]).await;
        raw.rest().await
    }));
    for answer in honest.chat_during(attack).await {
        // A reset may overtake the response if unread bytes exceed the lingering close.
        assert!(answer.is_empty() || answer.contains("request_timeout"), "{answer}");
    }
}

/// The server stops reading a connection whose responses are not read, which bounds memory.
#[tokio::test(flavor = "multi_thread")]
async fn pipelined_requests_are_not_read_while_responses_are_unread() {
    let world = World::new().await;
    let mut honest = HonestUsers::pair(&world).await;
    let questions = "GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(1_000);
    let attack = join_all((0..10).map(|_| async {
        let raw = RawSocket::connect(world.addr).await;
        let mut taken = 0;
        // Write until no byte was accepted for two seconds.
        while tokio::time::timeout(Duration::from_secs(2), raw.0.writable()).await.is_ok() {
            match raw.0.try_write(questions.as_bytes()) {
                Ok(bytes) => taken += bytes,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(error) => panic!("{error}"),
            }
            if taken > 64 * 1024 * 1024 {
                break;
            }
        }
        taken
    }));
    for taken in honest.chat_during(attack).await {
        assert!(taken < 64 * 1024 * 1024, "the server read the whole body");
    }
}
