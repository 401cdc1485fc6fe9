//! Attacks by clients and servers that do not have the key.

use std::collections::BTreeMap;
use std::time::Duration;

use bluetick_store_cloud::cluster::bus::{Bus, BusError};
use bluetick_store_cloud::cluster::transport::{BusSettings, ClusterTlsSettings};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::cluster_common::proxy::Proxy;
use crate::cluster_common::raw::{RawClient, framed, hello, introduction, is_ended, receive, tag};
use crate::cluster_common::{KEY, TcpNode, member, node, patient};
use crate::{still_serves, text, until_rejected};

#[tokio::test]
async fn node_with_another_key_reaches_nothing_in_either_direction() {
    let victim = TcpNode::start("victim", patient()).await;
    let intruder = TcpNode::start_with_key("intruder", patient(), [43; 32]).await;
    intruder.knows(&[&victim]);
    victim.knows(&[&intruder]);
    assert_eq!(intruder.bus.call(victim.id(), text("echo")).await, Err(BusError::NotSent));
    assert_eq!(victim.bus.call(intruder.id(), text("echo")).await, Err(BusError::NotSent));
    until_rejected(&victim, 1).await;
    until_rejected(&intruder, 1).await;
    for node in [&victim, &intruder] {
        assert_eq!(node.recorder.drain().await, []);
        assert_eq!(node.bus.counts().accepted, 0);
    }
    still_serves(&victim, patient()).await;
}

#[tokio::test]
async fn replayed_connection_is_refused() {
    let victim = TcpNode::start("victim", patient()).await;
    let friend = TcpNode::start("friend", patient()).await;
    let proxy = Proxy::to(victim.bus.local_address()).await;
    let through_proxy = member(proxy.address, victim.identity.boot);
    friend.bus.set_peers(&BTreeMap::from([(node("victim"), through_proxy)]));
    assert_eq!(friend.bus.call(victim.id(), text("secret order")).await, Ok(text("secret order")));
    friend.bus.shutdown().await;
    victim.recorder.until_lost(friend.id()).await;

    let recorded = proxy.recorded();
    assert!(!recorded.windows(12).any(|window| window == b"secret order"), "bodies are encrypted");
    let mut replay = TcpStream::connect(victim.bus.local_address()).await.unwrap();
    replay.write_all(&recorded).await.unwrap();
    assert!(is_ended(&mut replay).await);
    until_rejected(&victim, 1).await;
    assert_eq!(victim.recorder.executed(), 1);
    assert_eq!(victim.recorder.drain().await, []);
    still_serves(&victim, patient()).await;
}

/// The attacker answers a node that calls "other" with messages of the same node.
#[tokio::test]
async fn reflected_handshake_is_refused() {
    let victim = TcpNode::start("victim", patient()).await;
    let attacker = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = attacker.local_addr().unwrap();
    victim.bus.set_peers(&BTreeMap::from([(node("other"), member(address, victim.identity.boot))]));

    // Variants of the hello that goes back to the victim: unchanged, and as if "other" had sent it.
    for is_renamed in [false, true] {
        let attack = async {
            let (mut outgoing, _) = attacker.accept().await.unwrap();
            let hello = receive(&mut outgoing).await.unwrap();
            let mut incoming = TcpStream::connect(victim.bus.local_address()).await.unwrap();
            let reflected = if is_renamed {
                let ids = [&framed(b"other")[..], &framed(b"victim")].concat();
                [&hello[..hello.len() - ids.len()], &ids].concat()
            } else {
                hello
            };
            incoming.write_all(&framed(&reflected)).await.unwrap();
            let Ok(mut challenge) = receive(&mut incoming).await else {
                assert!(!is_renamed);
                return;
            };
            // The victim challenges as itself, and expects a challenge of "other".
            challenge.truncate(48);
            challenge.extend(framed(b"other"));
            outgoing.write_all(&framed(&challenge)).await.unwrap();
            let proof = receive(&mut outgoing).await.unwrap();
            incoming.write_all(&framed(&proof)).await.unwrap();
            assert!(is_ended(&mut incoming).await);
            outgoing.write_all(&framed(&proof)).await.unwrap();
            assert!(is_ended(&mut outgoing).await);
        };
        let calls = async {
            loop {
                let answer = victim.bus.call(&node("other"), text("echo")).await;
                assert_eq!(answer, Err(BusError::NotSent));
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        tokio::select! {
            () = attack => {}
            () = calls => {}
        }
    }
    assert_eq!(victim.bus.counts().accepted, 0);
    assert_eq!(victim.recorder.drain().await, []);
    still_serves(&victim, patient()).await;
}

#[tokio::test]
async fn server_without_the_key_gets_no_call() {
    let victim = TcpNode::start("victim", patient()).await;
    let attacker = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = attacker.local_addr().unwrap();
    victim.bus.set_peers(&BTreeMap::from([(node("other"), member(address, victim.identity.boot))]));
    let attack = async {
        let (mut stream, _) = attacker.accept().await.unwrap();
        let hello = receive(&mut stream).await.unwrap();
        let challenge = introduction("other");
        stream.write_all(&framed(&challenge)).await.unwrap();
        receive(&mut stream).await.unwrap();
        let guess = tag(&[0; 32], "server proof", &hello, &challenge);
        stream.write_all(&framed(&guess)).await.unwrap();
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).await.unwrap();
        assert!(rest.is_empty(), "no frame before the server has proved that it has the key");
    };
    let id = node("other");
    let (answer, ()) = tokio::join!(victim.bus.call(&id, text("secret")), attack);
    assert_eq!(answer, Err(BusError::NotSent));
}

#[tokio::test]
async fn garbage_before_authentication_is_refused() {
    let victim = TcpNode::start("victim", patient()).await;
    let good = hello("attacker", "victim");
    let mut other_version = good.clone();
    other_version[17] = b'2';
    let attacks: Vec<Vec<u8>> = vec![
        b"GET / HTTP/1.1\r\nhost: victim\r\n\r\n".to_vec(),
        vec![0; 100_000],
        vec![255; 100_000],
        framed(&[]),
        framed(&good[..good.len() - 1]),
        framed(&[&good[..], b"x"].concat()),
        framed(&other_version),
        framed(&hello("attacker", "someone else")),
        framed(&hello("victim", "victim")),
        framed(&[&hello("", "victim")[..66], &framed(&[0xff, 0xfe]), &framed(b"victim")].concat()),
        // A length above the bound. The server must not wait for the rest.
        vec![0xff, 0xff],
        // Frames before the proof: they stand in the place of the proof.
        [framed(&good), framed(&[7; 32])].concat(),
        [framed(&good), framed(&[7; 31])].concat(),
        [framed(&good), framed(&[])].concat(),
        [framed(&good), framed(&good)].concat(),
    ];
    for (number, attack) in attacks.iter().enumerate() {
        let mut stream = TcpStream::connect(victim.bus.local_address()).await.unwrap();
        // The victim may end the connection before it has read everything.
        let _ended = stream.write_all(attack).await;
        assert!(is_ended(&mut stream).await, "attack {number}");
        until_rejected(&victim, number as u64 + 1).await;
    }
    assert_eq!(victim.bus.counts().accepted, 0);
    assert_eq!(victim.recorder.drain().await, []);
    still_serves(&victim, patient()).await;
}

#[tokio::test]
async fn unauthenticated_connections_are_limited_and_do_not_keep_nodes_out() {
    let victim = TcpNode::start("victim", BusSettings { max_unauthenticated: 8, ..patient() }).await;
    let mut idle = Vec::new();
    for _ in 0..50 {
        idle.push(TcpStream::connect(victim.bus.local_address()).await.unwrap());
    }
    until_rejected(&victim, 42).await;
    for stream in &mut idle[..42] {
        assert!(is_ended(stream).await, "the oldest ones are ended");
    }
    still_serves(&victim, patient()).await;
    let mut byte = [0];
    assert!(idle[49].try_read(&mut byte).is_err(), "the newest one is still open");
}

#[tokio::test]
async fn unauthenticated_connection_ends_after_the_connect_timeout() {
    let quick = BusSettings { connect_timeout: Duration::from_millis(200), ..patient() };
    let victim = TcpNode::start("victim", quick).await;
    for start in [&[][..], &[0], &framed(&hello("attacker", "victim"))] {
        let mut stream = TcpStream::connect(victim.bus.local_address()).await.unwrap();
        stream.write_all(start).await.unwrap();
        assert!(is_ended(&mut stream).await);
    }
    assert_eq!(victim.bus.counts().accepted, 0);
}

#[tokio::test]
async fn silent_authenticated_connection_ends_after_the_idle_timeout() {
    let quick = BusSettings { idle_timeout: Duration::from_millis(200), ..patient() };
    let victim = TcpNode::start("victim", quick).await;
    let mut client = RawClient::connect(victim.bus.local_address(), "silent", victim.id(), &KEY).await;
    assert!(is_ended(&mut client.stream).await);
    victim.recorder.until_lost(&node("silent")).await;
}

#[tokio::test]
async fn nodes_with_tls_talk_and_refuse_nodes_without_it_or_with_another_root() {
    let tls = || {
        let certified = rcgen::generate_simple_self_signed(vec!["fleet.internal".into()]).unwrap();
        let pem = certified.cert.pem().into_bytes();
        let settings = ClusterTlsSettings {
            certificate_chain: pem.clone(),
            key: certified.signing_key.serialize_pem().into_bytes(),
            roots: pem,
            server_name: "fleet.internal".to_owned(),
        };
        BusSettings { tls: Some(settings), ..patient() }
    };
    let settings = tls();
    let victim = TcpNode::start("victim", settings.clone()).await;
    still_serves(&victim, settings.clone()).await;
    for other in [tls(), patient()] {
        let other = TcpNode::start("other", other).await;
        other.knows(&[&victim]);
        assert_eq!(other.bus.call(victim.id(), text("echo")).await, Err(BusError::NotSent));
    }
    until_rejected(&victim, 2).await;
}
