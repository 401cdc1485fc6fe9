//! Repeated power losses during sends. The tests compare acknowledged messages with the stored
//! ones. With a planted bug that acknowledges too early or loses a batch, the same comparison
//! fails.

#![expect(clippy::unwrap_used, reason = "a test may stop where its own set-up fails")]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bluetick_core::ports::Store;
use bluetick_store_embedded::disk::{Disk, Faults};
use bluetick_store_embedded::{EmbeddedStore, StoreParts};
use bluetick_testkit::checker::{
    Checked, ClientEvent, ClientLog, Histories, HistoryMessage, Violation, check,
};
use common::{copy_of, direct, send, small, texts};
use tempfile::TempDir;

const SENDERS: usize = 12;
const CUTS: usize = 8;
const MESSAGES_A_LIFE: u64 = 300;

/// The planted bug that breaks the disk in the middle of each run.
type PlantedFault = fn(&Faults);

fn open(directory: &TempDir) -> (Arc<EmbeddedStore>, Arc<Faults>) {
    let faults = Arc::new(Faults::default());
    faults.volatile.store(true, Ordering::SeqCst);
    let disk = Disk::with_faults(Arc::clone(&faults));
    let clock = Arc::new(bluetick_core::time::ManualClock::at(common::NOW));
    // Disable checkpoints: the tables have no simulated volatile cache.
    let mut settings = small(directory.path());
    settings.checkpoint_bytes = 1 << 30;
    let parts = StoreParts { disk, clock, ..StoreParts::new(settings) };
    (Arc::new(EmbeddedStore::open(parts).unwrap()), faults)
}

/// Sends to one conversation and logs the events, starting with resends of unacknowledged messages.
async fn sender(
    store: Arc<EmbeddedStore>,
    mut log: ClientLog,
    over: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
) -> ClientLog {
    let id = bluetick_core::ConversationId::direct(&common::user(&log.sender), &common::user("hub"));
    log.events.push(ClientEvent::Connected);
    let acknowledged = |event: &ClientEvent| matches!(event, ClientEvent::Acknowledged { .. });
    let mut number = log.events.iter().filter(|event| acknowledged(event)).count();
    while !over.load(Ordering::SeqCst) {
        let text = format!("{}-{number}", log.sender);
        let conversation = log.sender.clone();
        log.events.push(ClientEvent::Attempted {
            conversation: conversation.clone(),
            message_id: text.clone(),
            content: text.clone(),
        });
        let Ok(seq) = send(store.as_ref(), id, &log.sender, &text).await else { break };
        // After the power loss the client gets no ack.
        if over.load(Ordering::SeqCst) {
            break;
        }
        let seq = seq.get();
        log.events.push(ClientEvent::Acknowledged { conversation, message_id: text, seq, duplicate: false });
        number += 1;
        sent.fetch_add(1, Ordering::SeqCst);
    }
    log
}

async fn lives_and_deaths(plant: PlantedFault) -> Result<Checked, Vec<Violation>> {
    let mut directory = TempDir::new().unwrap();
    let mut logs: Vec<ClientLog> =
        (0..SENDERS).map(|number| ClientLog { sender: format!("s{number}"), events: Vec::new() }).collect();
    for cut in 0..CUTS {
        let (store, faults) = open(&directory);
        for log in &logs {
            direct(store.as_ref(), &log.sender, "hub").await;
        }
        let (over, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let tasks: Vec<_> = logs
            .drain(..)
            .map(|log| tokio::spawn(sender(Arc::clone(&store), log, Arc::clone(&over), Arc::clone(&sent))))
            .collect();
        while sent.load(Ordering::SeqCst) < MESSAGES_A_LIFE / 2 {
            tokio::task::yield_now().await;
        }
        plant(&faults);
        while sent.load(Ordering::SeqCst) < MESSAGES_A_LIFE {
            tokio::task::yield_now().await;
        }
        over.store(true, Ordering::SeqCst);
        // The image holds all synced bytes. Of an unsynced write it holds nothing, a torn piece or
        // all.
        faults.cut_power(cut % 4).unwrap();
        let image = copy_of(directory.path());
        for task in tasks {
            logs.push(task.await.unwrap());
        }
        store.close().await;
        directory = image;
    }
    let (store, _) = open(&directory);
    let mut histories = Histories::new();
    for log in &logs {
        let id = bluetick_core::ConversationId::direct(&common::user(&log.sender), &common::user("hub"));
        let stored =
            texts(store.as_ref(), id, "hub").await.into_iter().zip(1..).map(|(text, seq)| HistoryMessage {
                seq,
                sender: log.sender.clone(),
                message_id: text.clone(),
                content: text,
                system: false,
            });
        histories.insert(log.sender.clone(), stored.collect());
    }
    check(&logs, &histories)
}

#[tokio::test(flavor = "multi_thread")]
async fn power_loss_loses_no_acknowledged_message() {
    let checked = lives_and_deaths(|_| {}).await.unwrap_or_else(|violations| panic!("{violations:#?}"));
    assert!(checked.acknowledged as u64 >= CUTS as u64 * MESSAGES_A_LIFE, "{checked:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn checker_finds_an_acknowledgement_before_the_sync() {
    let violations =
        lives_and_deaths(|faults| faults.lying_sync.store(true, Ordering::SeqCst)).await.unwrap_err();
    assert!(
        violations.iter().any(|found| matches!(found, Violation::AcknowledgedThenLost { .. })),
        "{violations:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn checker_finds_an_acknowledged_batch_that_was_never_written() {
    let violations =
        lives_and_deaths(|faults| faults.lose_writes.store(true, Ordering::SeqCst)).await.unwrap_err();
    assert!(
        violations.iter().any(|found| matches!(found, Violation::AcknowledgedThenLost { .. })),
        "{violations:?}"
    );
}
