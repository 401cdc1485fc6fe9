//! A listener that remembers.

use std::sync::Mutex;

use bluetick_core::ports::{CommitListener, Committed};
use bluetick_core::{ConversationId, Seq};

#[derive(Default)]
pub struct Recorder(Mutex<Vec<Committed>>);

impl CommitListener for Recorder {
    fn committed(&self, batch: Vec<Committed>) {
        self.0.lock().expect("recording does not panic").extend(batch);
    }
}

impl Recorder {
    pub fn heard(&self, conversation: ConversationId) -> Vec<Committed> {
        let all = self.0.lock().expect("recording does not panic");
        all.iter().filter(|heard| heard.message.conversation == conversation).cloned().collect()
    }

    pub fn heard_seqs(&self, conversation: ConversationId) -> Vec<Seq> {
        self.heard(conversation).iter().map(|heard| heard.message.seq).collect()
    }
}
