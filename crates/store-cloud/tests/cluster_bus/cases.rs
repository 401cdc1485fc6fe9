//! The cases that every adapter of the bus passes.

use std::time::Duration;

use bluetick_store_cloud::cluster::bus::{BusError, CallRefusal};
use bytes::Bytes;
use futures_util::future::join_all;

use crate::cluster_common::{Event, PATIENCE, eventually, node};
use crate::{World, body, text};

/// Calls until the connection works again.
async fn reconnect(world: &impl World) {
    eventually("a call is answered", async || world.here().call(&node("there"), text("again")).await.ok())
        .await;
}

pub async fn call_returns_the_answer_or_the_refusal_of_the_handler<W: World>() {
    let world = W::with(PATIENCE).await;
    let there = node("there");
    let call = async |body| world.here().call(&there, text(body)).await;
    assert_eq!(call("echo").await, Ok(text("echo")));
    assert_eq!(call("").await, Ok(Bytes::new()));
    assert_eq!(call("large").await.unwrap().len(), 64 * 1024);
    assert_eq!(call("refuse overloaded").await, Err(BusError::Overloaded));
    assert_eq!(call("refuse draining").await, Err(BusError::Refused(CallRefusal::Draining)));
    assert_eq!(call("refuse unsupported").await, Err(BusError::Refused(CallRefusal::Unsupported)));
    assert_eq!(world.recorder().executed(), 6);
    world.shutdown().await;
}

pub async fn concurrent_calls_get_their_own_answers_in_any_order<W: World>() {
    let world = W::with(PATIENCE).await;
    let there = node("there");
    let bodies: Vec<_> = (0..500)
        .map(|number| Bytes::from(format!("{}{number}", if number % 3 == 0 { "wait " } else { "" })))
        .collect();
    let calls = join_all(bodies.iter().map(|body| world.here().call(&there, body.clone())));
    let release = async {
        for _ in 0..500 {
            world.recorder().next().await;
        }
        world.recorder().permits.add_permits(500);
    };
    let (answers, ()) = tokio::join!(calls, release);
    let answers: Result<Vec<_>, _> = answers.into_iter().collect();
    assert_eq!(answers.unwrap(), bodies);
    world.shutdown().await;
}

pub async fn notifications_arrive_in_order<W: World>() {
    let world = W::with(PATIENCE).await;
    for number in 0..3_000 {
        world.here().notify(&node("there"), body(number)).unwrap();
    }
    for number in 0..3_000 {
        assert_eq!(world.recorder().next().await, Event::Notified(node("here"), body(number)));
    }
    world.shutdown().await;
}

pub async fn call_to_an_unknown_node_is_refused<W: World>() {
    let world = W::with(PATIENCE).await;
    for unknown in ["elsewhere", "here"] {
        assert_eq!(world.here().call(&node(unknown), body(1)).await, Err(BusError::UnknownNode));
        assert_eq!(world.here().notify(&node(unknown), body(1)), Err(BusError::UnknownNode));
    }
    world.shutdown().await;
}

pub async fn cut_during_a_call_is_no_answer_and_the_receiver_learns_of_the_loss<W: World>() {
    let world = W::with(PATIENCE).await;
    let there = node("there");
    let call = world.here().call(&there, text("wait"));
    let cut = async {
        assert_eq!(world.recorder().next().await, Event::Executing(text("wait")));
        world.cut();
        world.recorder().until_lost(&node("here")).await;
    };
    let (answer, ()) = tokio::join!(call, cut);
    assert_eq!(answer, Err(BusError::NoAnswer));
    reconnect(&world).await;
    world.shutdown().await;
}

pub async fn notifications_around_cuts_arrive_in_order_and_each_gap_is_reported<W: World>() {
    let world = W::with(PATIENCE).await;
    let there = node("there");
    const COUNT: usize = 2_000;
    let send = async {
        for number in 0..COUNT {
            if number % 400 == 399 {
                world.cut();
            }
            // An error discards the notification, like a cut does.
            let _discarded = world.here().notify(&there, body(number));
            if number % 10 == 0 {
                tokio::task::yield_now().await;
            }
        }
        // Everything before a call that is answered has been delivered or reported.
        reconnect(&world).await;
        eventually("the last one is queued", async || world.here().notify(&there, text("end")).ok()).await;
    };
    let (mut next, mut losses, mut received, mut is_reported) = (0, 0, 0, false);
    let receive = async {
        loop {
            match world.recorder().next().await {
                Event::Lost(_) => (losses, is_reported) = (losses + 1, true),
                Event::Notified(_, end) if end == "end" => break,
                Event::Notified(_, number) => {
                    let number: usize = std::str::from_utf8(&number).unwrap().parse().unwrap();
                    assert!(number == next || (number > next && is_reported), "{number} after {next}");
                    (next, received, is_reported) = (number + 1, received + 1, false);
                }
                Event::Executing(_) => {}
            }
        }
    };
    tokio::join!(send, receive);
    assert!(received > 0 && losses > 0, "{received} notifications, {losses} losses");
    assert!(next == COUNT || is_reported, "the loss of the last ones is reported");
    world.shutdown().await;
}

pub async fn blocked_node_gets_nothing_and_learns_of_the_loss_when_it_is_reachable<W: World>() {
    let world = W::with(PATIENCE).await;
    let there = node("there");
    world.set_blocked(true);
    // Over TCP it is queued, and discarded when the connection fails. In memory it is refused.
    let _queued_or_refused = world.here().notify(&there, body(1));
    assert_eq!(world.here().call(&there, body(2)).await, Err(BusError::NotSent));
    assert_eq!(world.recorder().drain().await, []);
    world.set_blocked(false);
    // Without another call or notification.
    assert_eq!(world.recorder().next().await, Event::Lost(node("here")));
    reconnect(&world).await;
    assert_eq!(world.recorder().executed(), 1);
    world.shutdown().await;
}

pub async fn full_queue_refuses_and_the_receiver_learns_of_the_loss<W: World>() {
    let world = W::with(PATIENCE).await;
    let there = node("there");
    reconnect(&world).await;
    world.set_stalled(true);
    let large = Bytes::from(vec![0; 16 * 1024]);
    let mut queued = 0;
    let refused = loop {
        match world.here().notify(&there, large.clone()) {
            Ok(()) => queued += 1,
            Err(error) => break error,
        }
        tokio::task::yield_now().await;
        assert!(queued < 10_000, "the queue and the buffers of the system are bounded");
    };
    assert_eq!(refused, BusError::Overloaded);
    assert_eq!(world.here().call(&there, Bytes::from(vec![0; 1024 * 1024])).await, Err(BusError::Overloaded));
    world.set_stalled(false);
    let mut delivered = 0;
    let mut losses = 0;
    while delivered < queued || losses == 0 {
        match world.recorder().next().await {
            Event::Notified(_, body) if body == large => delivered += 1,
            Event::Lost(_) => losses += 1,
            _ => {}
        }
    }
    assert_eq!((delivered, losses), (queued, 1));
    world.shutdown().await;
}

pub async fn killed_node_gives_no_answer_and_then_receives_nothing<W: World>() {
    let mut world = W::with(PATIENCE).await;
    let there = node("there");
    let here = node("here");
    {
        let mut call = Box::pin(world.here().call(&there, text("wait")));
        tokio::select! {
            answer = &mut call => panic!("the handler waits: {answer:?}"),
            event = world.recorder().next() => assert_eq!(event, Event::Executing(text("wait"))),
        }
        // The call is abandoned here, since `kill_there` needs the world.
    }
    world.kill_there().await;
    world.recorder().until_lost(&here).await;
    eventually("calls are not sent", async || {
        (world.here().call(&there, body(1)).await == Err(BusError::NotSent)).then_some(())
    })
    .await;
    world.here().notify(&there, body(1)).expect_err("the node is known to be dead");
    assert_eq!(world.recorder().executed(), 1);
    world.shutdown().await;
}

pub async fn call_that_takes_too_long_is_no_answer<W: World>() {
    let world = W::with(Duration::from_millis(100)).await;
    let there = node("there");
    // On a busy machine the call may time out before it is sent.
    let error = eventually("the handler got it", async || {
        let error = world.here().call(&there, text("wait")).await.unwrap_err();
        (world.recorder().executed() > 0).then_some(error)
    });
    assert_eq!(error.await, BusError::NoAnswer);
    world.recorder().permits.add_permits(1_000);
    reconnect(&world).await;
    assert!(!world.recorder().drain().await.contains(&Event::Lost(node("here"))), "the connection stays");
    world.shutdown().await;
}

pub async fn dropped_caller_does_not_disturb_later_calls<W: World>() {
    let world = W::with(PATIENCE).await;
    let there = node("there");
    for number in 0..100 {
        let mut call = world.here().call(&there, body(number));
        let pending = futures_util::poll!(&mut call);
        assert!(pending.is_pending());
        drop(call);
        if number % 10 == 0 {
            assert_eq!(world.here().call(&there, text("echo")).await, Ok(text("echo")));
        }
    }
    world.shutdown().await;
}

pub async fn shutdown_ends_with_calls_and_notifications_on_the_way<W: World>() {
    let world = W::with(PATIENCE).await;
    let there = node("there");
    let answers = {
        let calls = join_all((0..20).map(|_| world.here().call(&there, text("wait"))));
        let mut calls = Box::pin(calls);
        let all_run = async {
            while world.recorder().executed() < 20 {
                world.recorder().next().await;
            }
        };
        tokio::select! {
            _ = &mut calls => panic!("the handler waits"),
            () = all_run => {}
        }
        drop(calls);
        world.recorder().executed()
    };
    assert_eq!(answers, 20);
    for number in 0..1_000 {
        world.here().notify(&there, body(number)).unwrap();
    }
    tokio::time::timeout(PATIENCE, world.shutdown()).await.expect("shutdown ends");
}
