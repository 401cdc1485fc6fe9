//! Nodes of one process.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::mpsc;

use super::{Neighbours, News};
use crate::NodeId;
use crate::hints::Away;

/// What the nodes share.
#[derive(Clone, Default)]
pub struct Street(Arc<Mutex<BTreeMap<NodeId, mpsc::UnboundedSender<News>>>>, Arc<Mutex<Late>>);

/// Letters that are on their way for long.
#[derive(Default)]
struct Late {
    from: Option<NodeId>,
    letters: Vec<(NodeId, News)>,
}

/// One node on it.
pub struct MemoryNeighbours {
    node: NodeId,
    street: Street,
    letters: tokio::sync::Mutex<mpsc::UnboundedReceiver<News>>,
    letter_box: mpsc::UnboundedSender<News>,
}

impl Street {
    pub fn move_in(&self, node: NodeId) -> MemoryNeighbours {
        let (letter_box, letters) = mpsc::unbounded_channel();
        let neighbours = MemoryNeighbours { node, street: self.clone(), letters: letters.into(), letter_box };
        neighbours.say_hello();
        neighbours
    }

    /// Everybody learns that news were lost, as when Redis was emptied.
    pub fn lose_news(&self) {
        for letter_box in self.0.lock().expect("no call panics while it holds the lock").values() {
            let _moved_away = letter_box.send(News::Lost);
        }
    }

    /// What this node sends from now on comes late.
    pub fn hold_letters_from(&self, node: &str) {
        self.1.lock().expect("no call panics while it holds the lock").from = Some(NodeId::new(node));
    }

    pub fn deliver_letters(&self) {
        let late = std::mem::take(&mut *self.1.lock().expect("no call panics while it holds the lock"));
        let street = self.0.lock().expect("no call panics while it holds the lock");
        for (to, news) in late.letters {
            if let Some(letter_box) = street.get(&to) {
                let _moved_away = letter_box.send(news);
            }
        }
    }

    /// A node that said nothing any more is forgotten, as it is in Redis after a while.
    pub fn bury(&self, node: &str) {
        self.0.lock().expect("no call panics while it holds the lock").remove(&NodeId::new(node));
    }
}

impl MemoryNeighbours {
    fn say_hello(&self) {
        let mut street = self.street.0.lock().expect("no call panics while it holds the lock");
        street.insert(self.node.clone(), self.letter_box.clone());
    }
}

#[async_trait]
impl Neighbours for MemoryNeighbours {
    async fn beat(&self) -> Result<Vec<NodeId>, Away> {
        self.say_hello();
        let street = self.street.0.lock().expect("no call panics while it holds the lock");
        Ok(street.keys().cloned().collect())
    }

    async fn send(&self, to: &NodeId, news: Bytes) -> Result<(), Away> {
        let news = News::From(self.node.clone(), news);
        let mut late = self.street.1.lock().expect("no call panics while it holds the lock");
        if late.from.as_ref() == Some(&self.node) {
            late.letters.push((to.clone(), news));
            return Ok(());
        }
        drop(late);
        let street = self.street.0.lock().expect("no call panics while it holds the lock");
        if let Some(letter_box) = street.get(to) {
            let _moved_away = letter_box.send(news);
        }
        Ok(())
    }

    async fn receive(&self) -> Result<Vec<News>, Away> {
        match self.letters.lock().await.recv().await {
            Some(news) => Ok(vec![news]),
            None => Err(Away("the street is gone".into())),
        }
    }

    async fn leave(&self) {
        self.street.0.lock().expect("no call panics while it holds the lock").remove(&self.node);
    }
}
