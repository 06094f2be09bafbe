//! What follows in the cluster from what machines do, and from what was planned.

use libi_core::ids::HostIndex;
use libi_core::sim::{Agenda, MachineId as Id, World};
use libi_launch::failure::Exit;
use libi_launch::machine::{Effect, Event, HostState, LinkId, Notice};

use super::{Cluster, Death, ENDING, FRONT, Happening, Pick, programs};
use crate::commands::CommandHappening;
use crate::driver::{Driver, Output};

impl World for Cluster {
    type Machine = Driver;
    type WorldEvent = Happening;

    fn carry_out(&mut self, from: Id, output: Output, agenda: &mut Agenda<Self>) {
        let effect = match output {
            Output::Effect(effect) => effect,
            Output::Data(link, frame) => return self.on_frame(from, link, &frame, agenda),
        };
        match effect {
            Effect::Start(start, request) => self.start(from, start, request, agenda),
            Effect::EndStarter(start, signal) => self.end_starter(start, signal, agenda),
            Effect::Admit(arrival, link) => {
                if !self.answer_file_link(from, arrival, Some(link), agenda)
                    && !self.answer_orphan(from, arrival, Some(link), agenda)
                {
                    self.admit(from, arrival, link, agenda);
                }
            }
            Effect::Redirect(arrival, addresses) => self.redirect(arrival, &addresses, agenda),
            Effect::Refuse(arrival) => {
                if !self.answer_file_link(from, arrival, None, agenda)
                    && !self.answer_orphan(from, arrival, None, agenda)
                {
                    self.refuse(arrival);
                }
            }
            Effect::AcceptFileLinks(key) => self.accept_file_links(from, &key),
            Effect::ConnectSource(link, addresses, key) => {
                self.connect_source((from, link), &addresses, &key, agenda);
            }
            Effect::TurnAway(arrival) => self.turn_away(arrival, agenda),
            Effect::Await(link) => drop(self.process(from).children.insert(link, None)),
            Effect::AcceptStart(_) => {}
            Effect::Send(link, bytes) => self.send(from, link, bytes, agenda),
            Effect::WakeAt(at) => agenda.tell(at, from, Event::Woken.into()),
            Effect::Close(link) => {
                self.close_file_link((from, link), agenda);
                self.direct.refuse((from, link));
                if let Some(child) = self.process(from).children.get_mut(&link).and_then(Option::take) {
                    self.process(child).loses((from, link));
                    self.ends(child, LinkId::PARENT, agenda);
                    self.end_connection((from, link), agenda);
                }
                if self.process(from).ended.remove(&link) {
                    self.process(from).children.remove(&link);
                }
            }
            Effect::Kill(link) => {
                let whom = self.process(from).started.get(&link).copied();
                self.check_kill(whom, agenda);
                self.cancel_process(from, link, 9, agenda);
                self.program_is_killed(from, link);
                self.check_kill_of_agent(whom, agenda.now());
                // The local shell ends; what it had started loses its link.
                if self.process(from).children.remove(&link).is_some() {
                    self.arrive(from, link, Event::Exited(link, Exit::Signal(9)), agenda);
                }
            }
            Effect::Signal(link, signal) => self.signal_program(from, link, signal, agenda),
            Effect::FindPrograms(_) => self.find_programs(from, agenda),
            Effect::OpenStage => self.open_stage(from, agenda),
            Effect::WriteStaged(bytes) => self.write_staged(from, &bytes, agenda),
            Effect::SendStaged(link, at, length) => self.send_staged(from, link, at, length, agenda),
            Effect::RemoveStaged => self.remove_staged(from),
            Effect::Carry(link) => {
                self.note_carried(from, link);
                self.carry(from, link, agenda);
            }
            Effect::Joins { link, ranks, local: true } => self.on_joins(from, link, &ranks),
            Effect::Joins { link, ranks, local: false } => self.on_new_hosts(from, link, &ranks, agenda),
            Effect::Grows { size, absent } => self.on_grows(from, size, &absent),
            Effect::Trust(_) | Effect::DetachChild(_) | Effect::TakeInput(_) => {}
            Effect::Input(bytes) => self.feed_programs(from, &bytes, agenda),
            Effect::Listen { .. }
            | Effect::AcceptDirect(..)
            | Effect::RejectDirect(_)
            | Effect::ConnectDirect(..)
            | Effect::Watch(_)
            | Effect::AcceptOrphans(_)
            | Effect::AwaitHelper(_)
            | Effect::ForgetHelper
            | Effect::TakeHelper
            | Effect::StartHelper(..)
            | Effect::Reopen(_)
            | Effect::SendDirect(_)
            | Effect::ReceiveDirect(_) => self.connect(from, effect, agenda),
            Effect::SessionUp(tree) => {
                self.check_joins(from, &tree);
                self.check_new(from, &tree);
                self.on_session_up(from, tree, agenda);
            }
            Effect::Cut(link, _) | Effect::Severed(link, ..) => self.on_link_cut(from, link),
            Effect::Adopted { .. } | Effect::Reattached | Effect::Forsaken(..) | Effect::OutlivesStarter => {}
            Effect::Notify(notice) => {
                self.on_notice(from, &notice, agenda);
                match notice {
                    Notice::End(_) => self.talk(from, agenda),
                    Notice::Over => {
                        self.on_over(from);
                        self.check_disk_at_end(from);
                    }
                    Notice::Staging { .. } => self.note_staging(&notice),
                    _ => {}
                }
                if notice == Notice::Up {
                    self.process(from).told_up = true;
                }
                if from == FRONT {
                    if notice == Notice::Up {
                        for (after, number) in std::mem::take(&mut self.scenario.deaths_after_up) {
                            agenda.plan(agenda.now() + after, Happening::Dies(Pick::Any(number)));
                        }
                        for (after, number) in self.scenario.severs.clone() {
                            agenda.plan(agenda.now() + after, Happening::Severs(Pick::Any(number)));
                        }
                        self.note_failed_hosts(agenda);
                        for (after, action) in self.scenario.commands.clone() {
                            let event = CommandHappening::Acts(action);
                            agenda.plan(agenda.now() + after, Happening::Command(event));
                        }
                        for (after, record) in self.scenario.actions.clone() {
                            agenda.plan(agenda.now() + after, Happening::Acts(record));
                        }
                        self.present_at_up = self.present(agenda.now());
                    }
                    self.on_command_notice(&notice, agenda);
                    self.feed_on_notice(&notice, agenda);
                    self.notices.push((agenda.now(), notice));
                } else if notice == Notice::Over && !self.is_detached(from, agenda) {
                    self.end(from, Exit::Code(0), agenda);
                }
            }
        }
    }

    fn on_world_event(&mut self, what: Happening, agenda: &mut Agenda<Self>) {
        match what {
            Happening::Runs(from, link, request, fate) => self.runs(from, link, request, fate, agenda),
            Happening::DirectEvent(from, changes) => {
                let now = agenda.now();
                if let Some(((link, request, fate, rem), next)) =
                    self.process(from).processor.leave(now, changes)
                {
                    agenda.plan(now + rem, Happening::Runs(from, link, request, fate));
                    programs::next_turn(from, next, agenda);
                }
            }
            Happening::PlaceFree(from) => self.leaves_place(from, agenda),
            Happening::Takes(from, bytes) => self.programs_take(from, bytes, agenda),
            Happening::ProgramJoins(from, link) => self.program_joins(from, link, agenda),
            Happening::ProgramExits(from, link, exit) => self.program_exits(from, link, exit, agenda),
            Happening::Command(event) => self.on_command_event(event, agenda),
            Happening::Bulk(event) => self.on_bulk_event(event, agenda),
            Happening::Direct(turn) => self.turn_direct(turn, agenda),
            Happening::FileLink(event) => self.file_link_arrives(event, agenda),
            Happening::Acts(record) => self.act(record, agenda),
            Happening::Severs(pick) => {
                if let Some(id) = self.pick(pick) {
                    self.last_fault = agenda.now();
                    self.sever(id, agenda);
                }
            }
            Happening::Ends => agenda.tell(agenda.now(), FRONT, Event::End(ENDING).into()),
            Happening::Dies(pick) => {
                if let Some(id) = self.pick(pick) {
                    self.last_fault = agenda.now();
                    if let Some(front) = agenda.machine(FRONT) {
                        let failed = (0..).map(HostIndex).zip(front.host_states());
                        let failed = failed.filter(|(_, known)| matches!(known, HostState::Failed(_)));
                        self.given_up.extend(failed.map(|(host, _)| host));
                    }
                    let above = self.above(id).collect();
                    let place = self.process(id).place;
                    let released = self.is_detached(id, agenda);
                    self.deaths.push(Death { at: agenda.now(), place, above, released });
                    self.end(id, Exit::Signal(9), agenda);
                }
            }
            Happening::Freezes(pick) => {
                if let Some(id) = self.pick(pick) {
                    self.last_fault = agenda.now();
                    self.process(id).frozen = true;
                    agenda.end(id);
                }
            }
        }
    }
}
