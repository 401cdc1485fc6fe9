//! Where cells are written, and how nodes tell each other of it through Redis. The rules are in `hot/`.

use std::sync::Arc;

use bluetick_core::{ConversationId, Epoch, Seq, StoreError};

use crate::engine::Engine;
use crate::hints::{Hints, Place, RegistryCopy};
use crate::hot::{Keeper, Registry};
use crate::rows::Key;

impl Engine {
    /// Where a cell is written. What has to be decided first is; what can be decided ahead is, beside the write.
    pub(crate) async fn key_for(&self, id: ConversationId, seq: Seq) -> Result<Key, StoreError> {
        if self.keeper.saw(id, seq) {
            let telling = self.telling();
            tokio::spawn(async move {
                let before = telling.keeper.at_hand(id).version();
                if let Err(error) = telling.keeper.go_ahead(id, seq).await {
                    tracing::debug!(conversation = %id, %error, "where the next places lie is decided by whoever needs it first");
                }
                telling.tell_since(id, before).await;
            });
        }
        let before = self.keeper.at_hand(id);
        if before.covers(seq) {
            return Ok(before.partition(seq).key(id, seq));
        }
        let key = self.keeper.key(id, seq).await?;
        let telling = self.telling();
        tokio::spawn(async move { telling.tell_since(id, before.version()).await });
        Ok(key)
    }

    /// Redis knew more than this node.
    pub(crate) fn hear_of_registry(&self, id: ConversationId, place: &Place) {
        let Some(copy) = place.registry.as_ref().filter(|copy| copy.epoch == self.epoch) else { return };
        if let Some(registry) = Registry::from_text(copy.version, &copy.text) {
            self.keeper.heard(id, registry);
        }
    }

    /// For Redis, where there is something to say.
    pub(crate) fn registry_copy(&self, id: ConversationId) -> Option<RegistryCopy> {
        copy_of(&self.keeper.at_hand(id), self.epoch)
    }

    fn telling(&self) -> Telling {
        Telling { keeper: Arc::clone(&self.keeper), hints: Arc::clone(&self.hints), epoch: self.epoch }
    }
}

/// What outlives the write that it goes beside.
struct Telling {
    keeper: Arc<Keeper>,
    hints: Arc<dyn Hints>,
    epoch: Epoch,
}

impl Telling {
    /// Tells Redis of what this node has read or written since it had this version.
    async fn tell_since(&self, id: ConversationId, version: u64) {
        let at_hand = self.keeper.at_hand(id);
        if at_hand.version() > version
            && let Some(copy) = copy_of(&at_hand, self.epoch)
        {
            let _may_fail = self.hints.registry_changed(id, &copy).await;
        }
    }
}

fn copy_of(registry: &Registry, epoch: Epoch) -> Option<RegistryCopy> {
    let version = registry.version();
    (version > 0).then(|| RegistryCopy { epoch, version, text: registry.text().into() })
}
