//! The final check. After faults stop, within a bounded time every device must have every message
//! and every read state must match. Every acknowledged message must be stored at its seq.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bluetick_core::{ConversationId, UserId};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use crate::audit::{Guarantee, ReadStates};
use crate::cluster::{Cluster, short};
use crate::device::{DeviceReport, Has};
use crate::http_auditor::HttpAuditor;

/// The latest report of each device and its user, by device name.
pub type Reports = BTreeMap<String, (UserId, watch::Receiver<DeviceReport>)>;

/// Time limit for convergence after faults stop, in simulated time. If it is too short, correct
/// runs fail.
const SETTLING: Duration = Duration::from_secs(180);

/// A deviation from the expected final state that may still resolve itself.
struct Deviation {
    guarantee: Guarantee,
    id: Option<ConversationId>,
    what: String,
}

pub async fn close(town: &Arc<Cluster>, visitors: &mut [HttpAuditor], reports: &Reports) {
    visitors.iter_mut().for_each(HttpAuditor::be_quiet);
    let end = Instant::now() + SETTLING;
    loop {
        let Some(heads) = read_everything(town, visitors).await else {
            if !town.is_broken() {
                let what = "the faults have stopped, and the history cannot be read".to_owned();
                town.auditor().find(Guarantee::NoLoss, None, what);
            }
            return;
        };
        let unsettled = match who_is_behind(town, &heads, reports) {
            Some(unsettled) => Some(unsettled),
            None => who_knows_less(town, visitors, reports).await,
        };
        if town.is_broken() {
            return;
        }
        match unsettled {
            None => break,
            Some(Deviation { guarantee, id, what }) if Instant::now() > end => {
                return town.auditor().find(guarantee, id, what);
            }
            Some(_) => sleep(Duration::from_secs(2)).await,
        }
    }
    town.auditor().who_was_shown_what();
    read_inboxes(town, visitors).await;
}

async fn read_inboxes(town: &Arc<Cluster>, visitors: &mut [HttpAuditor]) {
    for visitor in visitors.iter_mut() {
        let stored: Vec<_> = {
            let auditor = town.auditor();
            visitor.conversations().iter().map(|id| auditor.known_head(*id)).collect()
        };
        if let Some(answer) = visitor.surely("GET", "/v1/conversations?limit=50", None).await
            && !visitor.check_inbox(&stored, &answer.body)
        {
            let what = format!("{} has a conversation that is not in its inbox", visitor.user);
            town.auditor().find(Guarantee::NoLoss, None, what);
        }
    }
}

/// Reads each conversation as each member and returns the heads.
async fn read_everything(
    town: &Cluster,
    visitors: &mut [HttpAuditor],
) -> Option<BTreeMap<ConversationId, u64>> {
    let mut heads = BTreeMap::new();
    for visitor in visitors.iter_mut() {
        for id in visitor.conversations().to_vec() {
            let begun = town.auditor().begins_to_read(id);
            let history = visitor.history(id).await?;
            town.auditor().whole_history(id, &history, begun);
            heads.insert(id, history.last().map_or(0, |(seq, _)| *seq));
        }
    }
    // All notices are known now, so the auditor knows every member who joined later.
    for visitor in visitors.iter_mut() {
        let later = town.auditor().joined_later(&visitor.user);
        for id in later {
            // Take the head first: another message may be stored during the read.
            let head = town.auditor().known_head(id);
            let history = visitor.history(id).await?;
            town.auditor().history_since_joining(id, &visitor.user, &history, head);
        }
    }
    Some(heads)
}

/// Finds a device that misses messages, or whose requests are not answered yet.
fn who_is_behind(
    town: &Cluster,
    heads: &BTreeMap<ConversationId, u64>,
    reports: &Reports,
) -> Option<Deviation> {
    let behind = |id, what| Some(Deviation { guarantee: Guarantee::OnceInTheView, id, what });
    for (name, (user, report)) in reports {
        let report = report.borrow();
        if report.views.is_empty() {
            let what = format!("{name} is not connected, or the server does not answer it");
            return behind(None, what);
        }
        for (id, head) in heads {
            let Some(joined) = town.auditor().joined(*id, user) else { continue };
            let first_of = |has: &Has| has.first == joined;
            // The server does not resend messages that another device of the user acknowledged,
            // unless the device names the conversation in its positions. A client reads them from
            // the history. So one device with the full range is enough.
            let is_had = reports
                .values()
                .any(|(whose, report)| whose == user && report.borrow().views.get(id).is_some_and(first_of));
            match report.views.get(id) {
                Some(has) if has.last < *head => {
                    let what = format!("{name} has {}:{} and the head is {head}", short(*id), has.last);
                    return behind(Some(*id), what);
                }
                has if !is_had => {
                    let what = format!(
                        "no device of {user} has {} from its join at {joined} on; {name} has {has:?}",
                        short(*id)
                    );
                    return behind(Some(*id), what);
                }
                _ => {}
            }
        }
    }
    None
}

/// Finds a device that misses a read state, or a receipt that the server does not reflect.
async fn who_knows_less(
    town: &Cluster,
    visitors: &mut [HttpAuditor],
    reports: &Reports,
) -> Option<Deviation> {
    for visitor in visitors {
        let own = reports.values().filter(|(whose, _)| *whose == visitor.user);
        let shown: Vec<_> = own.map(|(_, report)| report.borrow().clone()).collect();
        let mut ids = visitor.conversations().to_vec();
        ids.extend(town.auditor().joined_later(&visitor.user));
        for id in ids {
            let is = visitor.member_states(id).await?;
            let own = is.get(&visitor.user).copied().unwrap_or_default();
            let lost = |what| Some(Deviation { guarantee: Guarantee::TicksForward, id: Some(id), what });
            for report in &shown {
                let Some(has) = report.views.get(&id) else { continue };
                let (user, said) = (&visitor.user, has.said);
                if said.delivered > own.delivered || said.read > own.read {
                    return lost(format!("a device of {user} reported {said:?} and the server has {own:?}"));
                }
                if let Some(what) = what_is_not_known(town, id, user, report, &is) {
                    return lost(format!("a device of {user} {what}"));
                }
            }
        }
    }
    None
}

fn what_is_not_known(
    town: &Cluster,
    id: ConversationId,
    own: &UserId,
    report: &DeviceReport,
    is: &ReadStates,
) -> Option<String> {
    let auditor = town.auditor();
    let settled = is.iter().filter(|(user, _)| !auditor.has_started_again(id, user));
    // The server does not publish a device's own receipts back to it. A device whose receipt was
    // refused does not know which one, so skip its own user.
    let settled = settled.filter(|(user, _)| report.was_heard || *user != own);
    settled.into_iter().find_map(|(user, is)| {
        let knows = report.ticks.get(&(id, user.clone())).copied().unwrap_or_default();
        let is_known = auditor.are_alike(id, user, knows, *is);
        (!is_known).then(|| format!("has {knows:?} for {user} in {}, and the server has {is:?}", short(id)))
    })
}
