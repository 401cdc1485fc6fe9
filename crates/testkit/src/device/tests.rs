//! Tests of a device against a scripted server.

use std::collections::BTreeSet;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;

use super::*;

fn device() -> Device {
    let identity = DeviceIdentity {
        name: DeviceName::new("phone"),
        user: UserName::new("alice"),
        token: "token".to_owned(),
        seed: 1,
        unsteady: Arc::new(BTreeSet::new()),
    };
    let habits = Habits {
        tells_positions: true,
        only_device: true,
        reader: ReadingHabit::Eager,
        long_absence_ms: 0,
        stays_connected: false,
        pause_ms: 10,
    };
    Device::new(identity, habits, Dice::new(1))
}

struct Script(WebSocketStream<TcpStream>);

impl Script {
    async fn welcome(listener: &TcpListener) -> Script {
        let (stream, _) = listener.accept().await.unwrap();
        let mut script = Script(tokio_tungstenite::accept_async(stream).await.unwrap());
        assert_eq!(script.hear().await["type"], "hello");
        script.say(json!({"type": "welcome", "epoch": 1})).await;
        script.say(json!({"type": "caught_up"})).await;
        script
    }

    async fn say(&mut self, frame: Value) {
        self.0.send(Message::text(frame.to_string())).await.unwrap();
    }

    async fn hear(&mut self) -> Value {
        serde_json::from_str(self.0.next().await.unwrap().unwrap().to_text().unwrap()).unwrap()
    }

    async fn refuse(&mut self, send: &Value) {
        let id = &send["message_id"];
        self.say(json!({"type": "error", "code": "store_unavailable", "message": "later", "message_id": id}))
            .await;
    }

    async fn acknowledge(&mut self, send: &Value, seq: u64) {
        let (room, id) = (&send["conversation_id"], &send["message_id"]);
        self.say(
            json!({"type": "ack", "conversation_id": room, "message_id": id, "seq": seq, "duplicate": false}),
        )
        .await;
    }
}

/// Writes two messages and flushes the outbox while the script runs.
async fn flushed<Outcome>(
    mut device: Device,
    script: impl AsyncFnOnce(TcpListener) -> Outcome,
) -> (Device, Option<ViolationReport>, Outcome) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let room = ConversationName::new("room");
    device.write(&room);
    device.write(&room);
    let ((device, violation), outcome) = tokio::join!(device.flush(&address), script(listener));
    (device, violation, outcome)
}

#[tokio::test]
async fn patient_device_resends_unanswered_messages_in_order() {
    let (device, violation, heard) = flushed(device().patient(), async |listener| {
        let mut script = Script::welcome(&listener).await;
        let first = script.hear().await;
        script.refuse(&first).await;
        let again = script.hear().await;
        script.refuse(&again).await;
        let once_more = script.hear().await;
        script.acknowledge(&once_more, 1).await;
        let second = script.hear().await;
        script.acknowledge(&second, 2).await;
        [first, again, once_more, second].map(|send| send["message_id"].as_str().unwrap().to_owned())
    })
    .await;
    assert!(violation.is_none(), "{violation:?}");
    assert_eq!(heard, ["phone-1", "phone-1", "phone-1", "phone-2"]);
    assert_eq!((device.record.happened.put_off, device.has_unsent()), (2, false));
}

#[tokio::test]
async fn other_devices_treat_no_answer_as_a_violation() {
    let (_, violation, ()) = flushed(device(), async |listener| {
        let mut script = Script::welcome(&listener).await;
        let first = script.hear().await;
        script.refuse(&first).await;
    })
    .await;
    assert!(violation.is_some_and(|violation| matches!(violation.trouble, Trouble::Refused(_))));
}

#[tokio::test]
async fn patient_device_reconnects_when_the_server_asks() {
    for (code, is_lost) in [(1012, true), (1011, true), (4413, false)] {
        let (_, violation, ()) = flushed(device().patient(), async |listener| {
            let mut script = Script::welcome(&listener).await;
            script.say(json!({"type": "come_back", "after_ms": 500})).await;
            script.0.close(Some(CloseFrame { code: code.into(), reason: "".into() })).await.unwrap();
        })
        .await;
        let trouble = violation.map(|violation| violation.trouble);
        assert_eq!(matches!(trouble, Some(Trouble::Stuck(_))), is_lost, "{code}: {trouble:?}");
    }
}

#[test]
fn void_keeps_a_view_contiguous() {
    let seen = |seq: u64, content_type: &str| {
        let message = json!({
            "seq": seq, "sender_id": "void", "message_id": format!("m{seq}"), "content": "", "content_type": content_type,
        });
        ReceivedMessage::from_json(&message).unwrap()
    };
    let mut view = View::new(UserName::new("alice"));
    for (seq, content_type) in [(1, "text"), (2, "void"), (3, "text")] {
        view.take(&seen(seq, content_type)).unwrap();
    }
    let said: Vec<bool> = view.messages().iter().map(ReceivedMessage::is_said).collect();
    assert_eq!((view.end(), said), (3, vec![true, false, true]));
    assert!(crate::checker::HistoryMessage::from(&seen(2, "void")).system);
}
