//! Passes each frame to the part that it is for. See the [parent module](super).

use std::collections::VecDeque;

use bytes::Bytes;
use libi_core::ids::LinkId;
use libi_core::ranks::Ranks;
use libi_core::time::Instant;

use super::Group;
use super::broken::Break;
use super::context::CallContext;
use super::view::WayUp;
use crate::contract::Effect;
use crate::message::Message;

impl Group {
    /// A frame has arrived.
    pub(super) fn on_frame(&mut self, link: LinkId, frame: Bytes, now: Instant, out: &mut Vec<Effect>) {
        if self.view.cut.contains(&link) {
            return;
        }
        let Some((message, payload)) = Message::decode(frame) else { return };
        if !matches!(message, Message::AwaitsWelcome(_))
            && let Some(stray) = self.view.joining_members.take_stray(link)
        {
            self.adopted_without_members(stray, now, out);
        }
        let Self { collective, view, kvs, p2p, memory, .. } = self;
        if !view.is_in_tree(link) && !message.passes_before_a_plan() {
            return;
        }
        match message {
            Message::Collective(flow) => {
                collective.on_frame(link, &flow, payload, &mut CallContext { now, view, kvs, memory, out });
            }
            Message::Region(flow) => {
                let bytes = self.regions.get_mut(&link).and_then(VecDeque::pop_front);
                collective.on_region(link, &flow, bytes, &mut CallContext { now, view, kvs, memory, out });
            }
            Message::Grant { nth, limit } => {
                collective.on_grant(link, nth, limit, &mut CallContext { now, view, kvs, memory, out });
            }
            Message::Eager { limit } => {
                collective.on_eager(link, limit, &mut CallContext { now, view, kvs, memory, out });
            }
            Message::Confirm { number } => {
                out.push(Effect::Send(link, Message::Confirmed { number }.frame(None)));
            }
            Message::Confirmed { number } => {
                self.unconfirmed.take_if(|last| *last == number);
                out.push(Effect::Confirmed(number));
            }
            Message::TreeChanged { round } => {
                collective.tree_changed(round, &mut CallContext { now, view, kvs, memory, out });
                self.continue_without_lost(now, out);
            }
            Message::Moved { round, moved } => {
                if view.is_above_top() {
                    p2p.moved(round, &moved, &Ranks::new(), view, out);
                }
            }
            Message::Joined { round, ranks, size, absent } => {
                if view.is_above_top() {
                    self.hears_of_growth(size, &absent);
                    self.hears_of_joined(link, round, &ranks, out);
                }
            }
            Message::KnowsOfJoined { round } => {
                if link == LinkId::PARENT {
                    view.joining_members.are_told_of(round);
                }
            }
            Message::Welcome(_) => {}
            Message::MovedWith(ranks) => self.has_moved_with(link, &ranks, now, out),
            Message::AwaitsWelcome(ranks) => self.awaits_welcome(link, &ranks, now, out),
            Message::Halt { round, nth } => {
                if Some(link) == view.collective_parent() {
                    collective.on_halt(round, nth, &mut CallContext { now, view, kvs, memory, out });
                }
            }
            Message::Halted { nth, report } => {
                let mut ctx = CallContext { now, view, kvs, memory, out };
                let plan = collective.on_halted(link, nth, report, &mut ctx);
                self.resume(plan, now, out);
            }
            Message::Resume { round, plan } => {
                if Some(link) == view.collective_parent() && collective.is_halted_in(round) {
                    self.resume(Some(plan), now, out);
                }
            }
            Message::Completed { before, wanted } => {
                let mut ctx = CallContext { now, view, kvs, memory, out };
                collective.on_completed(link, before, wanted, &mut ctx);
            }
            Message::Over { before } => {
                collective.on_report(link, before, &mut CallContext { now, view, kvs, memory, out });
            }
            Message::Aborted { nth, origin, why } => {
                let broken = Break { origin, why };
                if !view.is_in_tree(link) || link == LinkId::PARENT && view.way_up != WayUp::Works {
                    return self.aborts_before_plan.push((nth, broken));
                }
                collective.abort(nth, broken, Some(link), &mut CallContext { now, view, kvs, memory, out });
            }
            Message::Lost { mut ranks, before, reason, joined } => {
                if collective.continues() {
                    ranks.remove_all(&view.lost);
                    ranks.remove_all(&view.joining_members.joined_since(&ranks, &joined));
                    view.joining_members.had_joined(&joined);
                    if ranks.is_empty() {
                        return;
                    }
                }
                self.lost(&ranks, before, reason, Some(link), now, out);
                self.continue_without_lost(now, out);
            }
            Message::P2p(message) => {
                // What the front end has sent to a lost member is not for the one in its place.
                if link != LinkId::PARENT || !view.joining_members.is_untold(message.to) {
                    p2p.on_frame(link, message, payload, view, out);
                }
            }
            Message::Kvs(message) => kvs.on_frame(link, message, payload, view, out),
        }
    }
}
