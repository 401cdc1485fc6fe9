//! The heartbeat of one node: it writes the row of this node and reads the rows of all.

use std::collections::HashMap;
use std::sync::Arc;

use bluetick_core::StoreError;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::{ClusterMember, ClusterView, MembershipSettings};
use crate::NodeId;
use crate::cluster::BootId;
use crate::people::SHARED;
use crate::rows::{Item, Key, Only, Query, Rows, Sort, SortRange, Table, Written};

/// What this node knows about its own row. The version is the heartbeat counter.
#[derive(Clone, Copy, Debug)]
enum OwnRow {
    /// Not written yet: a row there is of an earlier process with this id.
    Joining,
    Written(u64),
    Replaced,
}

/// The last change of a row that this node has seen.
struct Observed {
    boot: BootId,
    version: u64,
    changed_at: Instant,
}

pub(super) struct Heartbeat {
    rows: Arc<dyn Rows>,
    node: NodeId,
    own: ClusterMember,
    settings: MembershipSettings,
    own_row: OwnRow,
    observed: HashMap<NodeId, Observed>,
    /// The start of the last successful read, if no read has failed since.
    last_read: Option<Instant>,
    published: watch::Sender<ClusterView>,
}

impl Heartbeat {
    pub fn new(
        rows: Arc<dyn Rows>,
        node: NodeId,
        own: ClusterMember,
        settings: MembershipSettings,
        published: watch::Sender<ClusterView>,
    ) -> Heartbeat {
        let own_row = OwnRow::Joining;
        Heartbeat { rows, node, own, settings, own_row, observed: HashMap::new(), last_read: None, published }
    }

    /// Writes and reads until `stop` is cancelled.
    pub async fn run(mut self, stop: CancellationToken) -> Heartbeat {
        loop {
            if let Err(error) = self.write().await {
                tracing::warn!(%error, "membership heartbeat failed; will retry");
            }
            match self.read().await {
                Ok(view) => self.publish(view),
                Err(error) => {
                    self.last_read = None;
                    tracing::warn!(%error, "membership rows unavailable; keeping the known nodes");
                }
            }
            tokio::select! {
                () = stop.cancelled() => return self,
                () = sleep(self.settings.heartbeat_interval) => {}
            }
        }
    }

    /// Writes one heartbeat.
    async fn write(&mut self) -> Result<(), StoreError> {
        let (only, version) = match self.own_row {
            OwnRow::Replaced => return Ok(()),
            OwnRow::Joining => (Only::IfAbsent, 1),
            OwnRow::Written(version) => (Only::IfVersion(version), version + 1),
        };
        let Written::Refused(there) = self.put(only, version).await? else { return Ok(()) };
        match (there, self.own_row) {
            // Another node took this one for dead. The version goes on, since it never repeats.
            (None, OwnRow::Written(_)) => self.put(Only::IfAbsent, version).await?,
            (Some(row), _) if decode(&row).is_ok_and(|(member, _)| member.boot == self.own.boot) => {
                // An earlier write without an answer was applied.
                self.put(Only::IfVersion(row.version()), row.version() + 1).await?
            }
            (Some(row), OwnRow::Joining) => {
                self.put(Only::IfVersion(row.version()), row.version() + 1).await?
            }
            (Some(_), _) => {
                tracing::error!(node = %self.node, "another process uses this node id; leaving the cluster");
                self.own_row = OwnRow::Replaced;
                return Ok(());
            }
            // Deleted between the write and this read: the next heartbeat tries again.
            (None, _) => return Ok(()),
        };
        Ok(())
    }

    async fn put(&mut self, only: Only, version: u64) -> Result<Written, StoreError> {
        let item = Item::new()
            .text(ADDRESS, Arc::clone(&self.own.address))
            .text(BOOT, self.own.boot.to_string())
            .versioned(version);
        let written = self.rows.put(Table::Names, &row_key(&self.node), &item, only).await?;
        if written == Written::Done {
            self.own_row = OwnRow::Written(version);
        }
        Ok(written)
    }

    /// Reads all rows, deletes the ones of nodes that are long dead, and returns the live nodes.
    async fn read(&mut self) -> Result<ClusterView, StoreError> {
        let started = Instant::now();
        let rows = self.query().await?;
        let now = Instant::now();
        // After a time without reads, for example an outage of the tables, an unchanged row proves
        // nothing. So the timeout of each live node starts again.
        let was_blind = self.last_read.is_none_or(|last| started - last >= self.settings.timeout);
        self.last_read = Some(started);

        let mut view =
            ClusterView { is_replaced: matches!(self.own_row, OwnRow::Replaced), ..Default::default() };
        let mut seen = HashMap::new();
        for (node, row) in rows {
            let (member, version) = match decode(&row) {
                Ok(decoded) => decoded,
                Err(error) => {
                    tracing::warn!(%node, %error, "membership row unreadable");
                    continue;
                }
            };
            let before = self.observed.remove(&node);
            let unchanged = before.filter(|before| (before.boot, before.version) == (member.boot, version));
            let was_live = self.published.borrow().live.contains_key(&node);
            let changed_at = match unchanged {
                Some(before) if !(was_blind && was_live) => before.changed_at,
                _ => now,
            };
            let silent_for = now - changed_at;
            if silent_for >= self.settings.forget_after {
                self.forget(&node, version).await;
            }
            seen.insert(node.clone(), Observed { boot: member.boot, version, changed_at });
            if silent_for < self.settings.timeout {
                view.live.insert(node, member);
            }
        }
        self.observed = seen;
        if !view.is_replaced {
            view.live.insert(self.node.clone(), self.own.clone());
        }
        Ok(view)
    }

    async fn query(&self) -> Result<Vec<(NodeId, Item)>, StoreError> {
        let mut found = Vec::new();
        let mut range = SortRange::All;
        loop {
            let query = Query {
                table: Table::Names,
                partition: partition(),
                range,
                descending: false,
                limit: 1_000,
                fields: &[],
            };
            let slice = self.rows.query(query).await?;
            let rows = slice.rows.into_iter().filter_map(|(sort, item)| match sort {
                Sort::Text(node) => Some((NodeId::new(node), item)),
                _ => None,
            });
            found.extend(rows);
            match found.last() {
                Some((last, _)) if slice.more => range = SortRange::After(last.as_str().to_owned()),
                _ => return Ok(found),
            }
        }
    }

    /// Deletes the row of a dead node, unless the node has written it again.
    async fn forget(&self, node: &NodeId, version: u64) {
        let deleted = self.rows.delete(Table::Names, &row_key(node), Only::IfVersion(version)).await;
        match deleted {
            Ok(_) => tracing::info!(%node, "membership row of a dead node deleted"),
            Err(error) => tracing::warn!(%node, %error, "membership row of a dead node not deleted"),
        }
    }

    fn publish(&self, view: ClusterView) {
        self.published.send_if_modified(|published| {
            for node in view.live.keys().filter(|node| !published.live.contains_key(node)) {
                tracing::info!(%node, "node joined the cluster");
            }
            for node in published.live.keys().filter(|node| !view.live.contains_key(node)) {
                tracing::info!(%node, "node left the cluster or stopped its heartbeat");
            }
            let is_new = *published != view;
            *published = view;
            is_new
        });
    }

    /// Deletes the row of this node.
    pub async fn leave(self) -> Result<(), StoreError> {
        let OwnRow::Written(mut version) = self.own_row else { return Ok(()) };
        let key = row_key(&self.node);
        loop {
            let deleted = self.rows.delete(Table::Names, &key, Only::IfVersion(version)).await?;
            let Written::Refused(Some(row)) = deleted else { return Ok(()) };
            // The last heartbeat was applied without an answer, or the row belongs to a restart.
            match decode(&row) {
                Ok((member, current)) if member.boot == self.own.boot => version = current,
                _ => return Ok(()),
            }
        }
    }
}

const ADDRESS: &str = "address";
const BOOT: &str = "boot";

/// The partition of the membership rows. An existing table holds them, so that an upgrade needs no
/// new table. No name begins with this character.
fn partition() -> String {
    format!("{SHARED}nodes")
}

fn row_key(node: &NodeId) -> Key {
    Key::text(partition(), node)
}

fn decode(row: &Item) -> Result<(ClusterMember, u64), StoreError> {
    let boot = row.get_text(BOOT)?.parse();
    let boot = boot.map_err(|_| StoreError::Damaged("a boot id in a membership row".into()))?;
    Ok((ClusterMember { address: Arc::clone(row.get_text(ADDRESS)?), boot }, row.version()))
}
