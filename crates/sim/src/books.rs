//! The end: nothing breaks any more, and within a while every device has everything, everybody knows how far everybody is,
//! and all that was ever said is in its place.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bluetick_core::{ConversationId, UserId};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use crate::audit::{Guarantee, Standings};
use crate::device::{Has, Report};
use crate::town::{Town, short};
use crate::visitor::Visitor;

/// What each device shows, by its name, and whose it is.
pub type Reports = BTreeMap<String, (UserId, watch::Receiver<Report>)>;

/// How long everybody has to come to the same view once nothing breaks any more.
const SETTLING: Duration = Duration::from_secs(180);

/// What is not as it has to be in the end, and may still become so.
struct Unsettled {
    guarantee: Guarantee,
    id: Option<ConversationId>,
    what: String,
}

pub async fn close(town: &Arc<Town>, visitors: &mut [Visitor], reports: &Reports) {
    visitors.iter_mut().for_each(Visitor::be_quiet);
    let end = Instant::now() + SETTLING;
    loop {
        let Some(heads) = read_everything(town, visitors).await else {
            if !town.is_broken() {
                let what = "nothing breaks any more, and history cannot be read".to_owned();
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
            Some(Unsettled { guarantee, id, what }) if Instant::now() > end => {
                return town.auditor().find(guarantee, id, what);
            }
            Some(_) => sleep(Duration::from_secs(2)).await,
        }
    }
    town.auditor().who_was_shown_what();
    read_inboxes(town, visitors).await;
}

async fn read_inboxes(town: &Arc<Town>, visitors: &mut [Visitor]) {
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

/// Each conversation through the eyes of each member; the head of each.
async fn read_everything(town: &Town, visitors: &mut [Visitor]) -> Option<BTreeMap<ConversationId, u64>> {
    let mut heads = BTreeMap::new();
    for visitor in visitors.iter_mut() {
        for id in visitor.conversations().to_vec() {
            let begun = town.auditor().begins_to_read(id);
            let history = visitor.history(id).await?;
            town.auditor().whole_history(id, &history, begun);
            heads.insert(id, history.last().map_or(0, |(seq, _)| *seq));
        }
    }
    // All notices are known now, and with them who else is in what.
    for visitor in visitors.iter_mut() {
        let later = town.auditor().joined_later(&visitor.user);
        for id in later {
            // Something may still be stored while it is being read.
            let head = town.auditor().known_head(id);
            let history = visitor.history(id).await?;
            town.auditor().history_since_joining(id, &visitor.user, &history, head);
        }
    }
    Some(heads)
}

/// A device that has not got everything yet, or not got rid of all it had to say.
fn who_is_behind(town: &Town, heads: &BTreeMap<ConversationId, u64>, reports: &Reports) -> Option<Unsettled> {
    let behind = |id, what| Some(Unsettled { guarantee: Guarantee::OnceInTheView, id, what });
    for (name, (user, report)) in reports {
        let report = report.borrow();
        if report.views.is_empty() {
            let what = format!("{name} is not connected, or what it sends or asks is not answered");
            return behind(None, what);
        }
        for (id, head) in heads {
            let Some(joined) = town.auditor().joined(*id, user) else { continue };
            let first_of = |has: &Has| has.first == joined;
            // What one device of somebody has acknowledged, the server does not owe to another that never said that it
            // knows the conversation: a client reads it in the history.
            let is_had = reports
                .values()
                .any(|(whose, report)| whose == user && report.borrow().views.get(id).is_some_and(first_of));
            match report.views.get(id) {
                Some(has) if has.last < *head => {
                    let what = format!("{name} has {}:{} and there is {head}", short(*id), has.last);
                    return behind(Some(*id), what);
                }
                has if !is_had => {
                    let what = format!(
                        "no device of {user} has {} from {joined} on, where it came; {name} has {has:?}",
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

/// A device that does not know how far somebody is, or somebody who is not as far as its device said.
async fn who_knows_less(town: &Town, visitors: &mut [Visitor], reports: &Reports) -> Option<Unsettled> {
    for visitor in visitors {
        let own = reports.values().filter(|(whose, _)| *whose == visitor.user);
        let shown: Vec<_> = own.map(|(_, report)| report.borrow().clone()).collect();
        let mut ids = visitor.conversations().to_vec();
        ids.extend(town.auditor().joined_later(&visitor.user));
        for id in ids {
            let is = visitor.standings(id).await?;
            let own = is.get(&visitor.user).copied().unwrap_or_default();
            let lost = |what| Some(Unsettled { guarantee: Guarantee::TicksForward, id: Some(id), what });
            for report in &shown {
                let Some(has) = report.views.get(&id) else { continue };
                let (user, said) = (&visitor.user, has.said);
                if said.delivered > own.delivered || said.read > own.read {
                    return lost(format!("a device of {user} said {said:?} and the server knows {own:?}"));
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
    town: &Town,
    id: ConversationId,
    own: &UserId,
    report: &Report,
    is: &Standings,
) -> Option<String> {
    let auditor = town.auditor();
    let settled = is.iter().filter(|(user, _)| !auditor.has_started_again(id, user));
    // A device is not told what it said itself, and of what was refused it does not know which.
    let settled = settled.filter(|(user, _)| report.was_heard || *user != own);
    settled.into_iter().find_map(|(user, is)| {
        let knows = report.ticks.get(&(id, user.clone())).copied().unwrap_or_default();
        let is_known = auditor.are_alike(id, user, knows, *is);
        (!is_known).then(|| format!("knows of {user} in {} {knows:?}, and it is {is:?}", short(id)))
    })
}
