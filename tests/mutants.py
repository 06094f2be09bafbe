#!/usr/bin/env python3
"""Breaks the launch machine, the groups of members and the executor on purpose, one way at a time, and checks that tests
notice.

Needs hours: each mutant is built and simulated in a copy of the tree, one on each processor. A mutant of the launch machine
has to be noticed by its simulation, or by its unit tests; one of the groups by theirs, by the tests that count frames, or by the unit tests; one of the
executor by its model. A mutant that survives is a promise that no test checks: the exit status tells.

  tests/mutants.py                 all mutants
  tests/mutants.py spare Exited    those with one of these words in their names, or in those of their files
  tests/mutants.py check           only checks that every mutant applies to the sources; tests/run does this
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor

M = "libi-launch/src/machine/"
L = M + "launcher/"
S = "libi-comm/src/"
C = S + "group/"
E = "src/executor/"
P = "libi-core/src/plan/"
K = "libi-core/src/secure/"

# What is broken; in which file; what stands there; what is put there instead.
MUTANTS = [
 ('skip the greet deadline', M + 'node/launching.rs',
  '(self.children.add(child, by), ticket)',
  '{ let _ = by; (self.children.add(child, libi_core::time::Instant::FAR_FUTURE), ticket) }'),
 ('forget to requeue what a lost child was given', L + 'failures.rs',
  'self.relaunch(lost, terms.now, &failure, terms, reports);',
  'let _ = (lost, &failure);'),
 ('give all that waits to the first child of a full launcher', P + 'late/shares.rs',
  'let share = self.share(false, now) as usize;\n        Ok(self.give_share(launch.host, share))\n    }\n\n    /// As [`child_ready`](Self::child_ready), for a child that gets so many',
  'let share = self.waiting.len();\n        Ok(self.give_share(launch.host, share))\n    }\n\n    /// As [`child_ready`](Self::child_ready), for a child that gets so many'),
 ('wait for silent launches with the hosts of a full launcher', L[:-1] + '.rs',
  'is_held && self.in_flight_not_silent(now).next().is_none()',
  'is_held && { let _ = now; self.queue.in_flight() == 0 }'),
 ('launches that are silent or end do not count for the limit of the front end', M + 'node/launching.rs',
  'most.min((limit.get() as usize).saturating_add(answered).saturating_sub(ending))',
  '{ let _ = (limit, ending, answered); most }'),
 ('a launcher with a narrow window does not wait for answers', P + 'late/shares.rs',
  'match self.window.filter(is_narrow) {',
  'match self.window.filter(|window| false && is_narrow(window)) {'),
 ('a front end that silent launches hold at its limit keeps all hosts', L[:-1] + '.rs',
  '|| self.queue.in_flight() >= limit;',
  '|| { let _ = limit; false };'),
 ('give none of the hosts of a front end that launches to its children', L + 'shares.rs',
  'let Some(front) = terms.unlike_leaders() else {',
  'let Some(front) = terms.front else {'),
 ('leave all hosts to the first leader where all launch', M + 'front_end/launchers.rs',
  'if self.include_front_end() { hosts } else { hosts.min(1) }',
  'if self.include_front_end() && !self.are_all() { hosts } else { hosts.min(1) }'),
 ('give hosts up that only others can reach', L + 'unreached.rs',
  'hands_down && host != HostIndex(0)', 'false && hands_down && host != HostIndex(0)'),
 ('leave a spare to others only if its host was not', L + 'shares.rs',
  'self.unreached.forget(host);', ''),
 ('hand a share to a child and keep it', P + 'late/shares.rs',
  'self.waiting.split_back(count)',
  'self.waiting.clone().split_back(count)'),
 ('believe any hello', M + 'node/children.rs', 'if hello.ticket != *child.ticket() {', 'if false {'),
 ('a lost host holds up the input of all', M + 'input_flow.rs',
  'self.below.retain(|link, _| is_left(*link));', 'let _ = &is_left;'),
 ('the fastest program sets the pace of input', M + 'input_flow.rs',
  '.copied().min()', '.copied().max()'),
 ('input reaches only the first leader below', M + 'node/input.rs',
  'for link in &leaders {', 'for link in leaders.first() {'),
 ('ignore a lost parent', M + 'node.rs',
  'Event::Closed(LinkId::PARENT) => self.parent_lost(now, out),',
  'Event::Closed(LinkId::PARENT) => {}'),
 ('a session that is up is not told that its start ends for no reason', M + 'node/starters.rs',
  'self.revoked(start, line, out);', 'let _ = (start, line, &out);'),
 ('hosts that are ended with others have failed when nothing is launched (srun)', M + 'launcher/failures.rs',
  'terms.failure_of_waiting(Cause::Cancelled);', 'failure.clone();'),
 ('killed hosts do not wait for the reason', M + 'start_table/said.rs',
  'EndOfAll::Said(..) | EndOfAll::Refused(_)', 'EndOfAll::Refused(_)'),
 ('hosts that were ended from outside are launched again', M + 'start_table/said.rs',
  'start.end_of_all = EndOfAll::Refused(why);\n        Some(line)', 'let _ = why;\n        Some(line)'),
 ('hosts below ask for a source before their launcher', M + 'sources.rs',
  'if self.origin == Origin::Unasked {', 'if false {'),
 ('a silent source is not given up', M + 'node/sources.rs',
  'peer_timeout, now).is_some() {', 'peer_timeout, now).is_some() && false {'),
 ('a client that does not confirm is not given up', M + 'node/sources.rs',
  'self.sources.late_clients(now)', 'self.sources.late_clients(Instant::ZERO)'),
 ('a slow host holds up those behind it', M + 'node/sources.rs',
  'self.sources.proved_slow(link)', 'self.sources.proved_slow(link).filter(|_| false)'),
 ('a host that loses its source gets no more', M + 'node/sources.rs',
  'return self.get_from_parent(out);', 'return;'),
 ('a host that has failed is a source', M + 'front_end/reports.rs',
  'self.source_order.remove(Launch { host: *host, attempt: *attempt });', 'let _ = (host, attempt);'),
 ('files do not limit how many children a node has at a time', M + 'launcher.rs',
  '(fan_out < limit).then(', '(fan_out < limit && limit == 0).then('),
 ('children that lack files take no more hosts than others', M + 'launcher/shares.rs',
  'let parts = self.queue.in_flight().max(room).max(1);', 'let parts = self.queue.in_flight().max(room).max(4);'),
 ('hosts that are ended with their killed starter have failed (srun)', M + 'start_table/said.rs',
  '*unsaid = EndOfAll::Explained { until: by, is_said: false },', '{ let _ = (unsaid, by); }'),
 ('a host that has ended with others fails by its late evidence (srun)', M + 'node/child_end.rs',
  'child.has_ended_with_others()\n            ||', ''),
 ('an announced end is not quoted (srun)', M + 'start_table/said.rs',
  'line = format!("{line}; {announced}");', 'drop(announced);'),
 ('killed hosts wait on after the reason is said', M + 'node/starters.rs',
  'exit.into_iter().for_each(|exit| self.leader_ended(link, exit, now, out));', 'let _ = exit;'),
 ('hosts whose end is not told are waited for', M + 'node/starters.rs',
  'if self.starts.ends_all_for_host(start) {', 'if false && self.starts.ends_all_for_host(start) {'),
 ('starts begin while a reason may be said', M + 'node/starts.rs',
  '&& !self.starts.may_any_say_why()', ''),
 ('the end of a process does not wait for its output', M + 'commands/table.rs',
  'if passed < printed {', 'if passed > printed {'),
 ('a lost host keeps its processes', M + 'node/commands.rs',
  'self.commands.table.host_lost(*host, &failure, &mut notices);',
  'let _ = (&failure, &mut notices);'),
 ('a command whose start was cancelled by a signal was not started', M + 'node/launching.rs',
  'self.process_exited(link, Exit::Signal(signal));', 'let _ = (link, signal, Exit::Code(0));'),
 ('commands have no deadline', M + 'commands/table.rs',
  'find(|command| command.deadline <= now)?.id;',
  'find(|command| command.deadline < Instant::ZERO && command.deadline <= now)?.id;'),
 ('late processes are not killed', M + 'node/commands.rs',
  'self.pass_signal_on(&CommandSignal { first, ranks, signal: KILL }, out);',
  'let _ = (first, ranks);'),
 ('an orphan leaves its processes', M + 'node/session_end.rs',
  'self.kill_processes(now, out);', ''),
 ('an agent says that no process depends on it', M + 'node/session_end.rs',
  '&& !self.is_agent() && self.attachment.reports_no_dependents(',
  '&& self.attachment.reports_no_dependents('),
 ('no heartbeat check of children', M + 'node/heartbeats.rs',
  'if child.silent_for(now) > self.options.rules.peer_timeout {',
  'if false {'),
 ('a node that hears nothing from its parent does not say so', M + 'node/heartbeats.rs',
  'if parent.is_configured() {\n                    // The other',
  'if false && parent.is_configured() {\n                    // The other'),
 ('a node that ends for want of its parent reports its members one by one', M + 'node/after_event.rs',
  'self.stage.is_over() || parent.is_lost() => {}',
  'self.stage.is_over() || parent.is_lost() && false => {}'),
 ('no heartbeat check of the parent', M + 'node/heartbeats.rs',
  'if parent.silent_for(now) > self.options.rules.peer_timeout {',
  'if false {'),
 ('leave a failed launch in flight', L + 'failures.rs',
  'if self.queue.child_failed(launch, terms.now, here).is_ok() {',
  '{ let _ = here;'),
 ('no overall deadline', M + 'front_end.rs',
  'let late = now >= self.verdicts_due();',
  'let late = false;'),
 ('report joined before local members are', M + 'node/parent.rs',
  'if self.children.locals().all(|(_, child)| child.is_up())',
  'if true'),
 ('what was lost is not said to be launched again', L + 'failures.rs',
  'self.report_relaunch(Launch { attempt: next, ..lost }, Some(failure), reports);',
  'let _ = (next, failure);'),
 ('do not pass the end on', M + 'node/session_end.rs',
  '            self.ask_to_end(link, ending, now, out);',
  '            let _ = link;'),
 ('orphans leave their children', M + 'node/session_end.rs',
  '_ => self.force_end(link, Cause::Cancelled, now, out),',
  '_ => {}'),
 ('retry for ever', L + 'failures.rs',
  'if another && made.saturating_add(1) < attempts_allowed(rules.attempts.min(most), failure) {',
  'if another { let _ = most;'),
 ('losses count as attempts', L + 'failures.rs',
  'let made = launch.attempt.failed.saturating_add(faults);',
  'let made = launch.attempt.failed.saturating_add(faults.max(launch.attempt.lost));'),
 ('a leader that is lost again and again is launched again for ever',
  L + 'failures.rs',
  'let made = launch.attempt.failed.saturating_add(faults);',
  'let made = launch.attempt.failed;'),
 ('never force', M + 'node/child_end.rs',
  'self.force(link, now + self.options.rules.kill_grace, out);\n'
   '}\n'
   'ChildState::Starting if child.is_awaited()',
  'self.children.set_deadline(link, now + self.options.rules.kill_grace);\n'
   '}\n'
   'ChildState::Starting if child.is_awaited()'),
 ('go too early', M + 'host_table.rs','} else if self.waiting == 0 {','} else if self.joined >= self.needed() {'),
 ('a host given up below a lost leader is launched again', L + 'shares.rs',
  'self.queue.remove_from_share(child, host)',
  'self.queue.remove_from_share(child, child)'),
 ('a host given up is given to the next master', M + 'front_end.rs',
  'matches!(self.table.at(host), Some((_, HostState::Failed(_))))',
  'self.table.at(host).is_none()'),
 ('a node that ends gives up its share', M + 'node/parent.rs',
  'if !self.stage.is_launching() && !self.stage.has_begun_to_end() {',
  'if !self.stage.is_launching() {'),
 ('repeat without waiting', L + 'failures.rs',
  'Retry::After(back_off + back_off.mul_f64(more))',
  '{ let _ = more; Retry::After(rules.back_off) }'),
 ('give up at the first failure', M + 'front_end.rs',
  'self.linger_until.min(now + rules.failure_linger)',
  'now'),
 ('never stop waiting for further verdicts', M + 'front_end.rs',
  'self.linger_until.min(now + rules.failure_linger)',
  'now + rules.failure_linger'),
 ('what is cut short has timed out', M + 'front_end.rs',
  '{ Cause::TimedOut } else { Cause::Cancelled }',
  '{ Cause::TimedOut } else { Cause::TimedOut }'),
 ('a spare is not sent to the master', M + 'node/spares.rs',
  'Self::send(link, Kind::Control, &share, out);',
  'let _ = (link, &share);'),
 ('a spare is launched under the name of whom it replaces', L + 'shares.rs',
  '(spec.name, spec.user, spec.port, spec.attempt) = (spare.name, spare.user, spare.port, next);',
  '(spec.user, spec.port, spec.attempt) = (spare.user, spare.port, next);'),
 ('static trees are not static', L + 'shares.rs',
  'return Some(if terms.options.is_static() {',
  'return Some(if false {'),
 ('a subtree is lost with a host that is given up', L + 'failures.rs',
  '        self.adopt_subtree(launch.host);\n',
  ''),
 ('a subtree is not remembered', L + 'shares.rs',
  'if terms.front.is_some() { HostRuns::new() } else { hosts }',
  '{ let _ = hosts; HostRuns::new() }'),
 ('ends after Go are not reported', M + 'node/child_end.rs',
  'self.report_behind_output(link, ChildMessage::Exited(rank, exit, killed), now);',
  'let _ = (rank, exit, killed);'),
 ('lost hosts after Go are not reported', L + 'failures.rs',
  'reports.push(ChildMessage::Failed(lost.host, lost.attempt.after_loss(), failure));',
  'drop(failure);'),
 ('forget to conclude below', M + 'node/parent.rs',
  'self.send_to_children(&ParentMessage::StopLaunching(why.clone()), out);',
  ''),
 ('credit is never granted', M + 'node/output.rs',
  'Self::send(link, Kind::Control, &ParentMessage::Credit(owed), out);',
  'let _ = (link, owed);'),
 ('credit is granted twice', M + 'node/output.rs',
  'ParentMessage::Credit(owed)',
  'ParentMessage::Credit(owed * 2)'),
 ('credit is not waited for', M + 'output_relay.rs',
  'let length = split_point(&first.text, self.credit);',
  'let length = split_point(&first.text, MAX_FRAME_TEXT); self.credit = self.credit.max(length);'),
 ('output is read in another order', M + 'output_relay.rs',
  'self.buffered.push_back((link, is_credited, piece));',
  'self.buffered.push_front((link, is_credited, piece));'),
 ('equal output is not merged (folded output)', M + 'output_merge.rs',
  'if ranks.runs().count() <= MAX_RUNS || links.is_empty() {',
  'if links.is_empty() {'),
 ('output is not held for others (folded output)', M + 'output_merge.rs',
  'let waits = due > now && is_open && !is_last;',
  'let waits = due == Instant::FAR_FUTURE && is_open && !is_last;'),
 ('output is taken from the wrong queue (folded output)', M + 'output_merge.rs',
  'if !Arc::ptr_eq(&unit.text, text) {',
  'if false {'),
 ('lines of one rank separate what follows them (folded output)', M + 'output_merge.rs',
  'Some(first) => chain.push(first),',
  'Some(_) => return Arc::clone(last),'),
 ('held output is never due (folded output)', M + 'output_merge.rs',
  'let due = queue.units.front().map(|unit| if is_pressed { Instant::ZERO } else { unit.due });',
  'let _ = is_pressed; let due = queue.units.front().map(|unit| unit.due + self.hold * 1_000);'),
 ('what exceeds the bound is held (folded output)', M + 'output_merge.rs',
  'self.is_hurried || self.is_pressed',
  'self.is_hurried'),
 ('each line that exceeds the bound drives out one (folded output)', M + 'output_merge.rs',
  'let share = if self.is_pressed { 2 } else { 1 };',
  'let share = 1;'),
 ('ends overtake held output (folded output)', M + 'output_merge.rs',
  'let queue = self.queues.get(&link).filter(|queue| is_end && !queue.units.is_empty());',
  'let queue = self.queues.get(&link).filter(|_| is_end && false);'),
 ('credit of merged output goes to one source (folded output)', M + 'output_merge.rs',
  '*sources.entry(*link).or_default() += unit.credit;',
  '*sources.entry(links[0]).or_default() += unit.credit;'),
 ('the parent is not told of output that is held', M + 'output_relay.rs',
  'let is_marked = !self.is_drained() && (self.is_marked || reports_end);',
  'let is_marked = !self.is_drained() && self.is_marked && reports_end;'),
 ('output without a reader is thrown away', M + 'output_relay.rs',
  '        if length == 0 && !first.text.is_empty() {\n'
   '            return None;',
  '        if length == 0 && !first.text.is_empty() {\n'
   '            self.buffered.pop_front();\n'
   '            return None;'),
 ('the end of the channel is not followed by the connection', M + 'node/direct.rs',
  '        out.push(Effect::ReceiveDirect(LinkId::PARENT));',
  ''),
 ('a child that has moved is not followed', M + 'node/children.rs',
  '                out.push(Effect::ReceiveDirect(link));',
  '                let _ = link;'),
 ('a link moves without a goodbye', M + 'node/direct.rs',
  'out.push(Effect::Send(link, goodbye));',
  'let _ = goodbye;'),
 ('who was reached does not move', M + 'direct_links.rs',
  'self.own_link = LinkMove::Reached;',
  'self.own_link = LinkMove::Stays; self.requested = false;'),
 ('links that may stay move at once', M + 'direct_links.rs',
  'if !addresses.is_empty() && !at_once && policy == LinkPolicy::Auto {',
  'if false {'),
 ('all children connect at once', M + 'direct_links.rs',
  'const AT_ONCE: usize = 4;',
  'const AT_ONCE: usize = 4_000;'),
 ('a child that is gone keeps its turn', M + 'direct_links.rs',
  '        self.turns.connecting.remove(&link);\n',
  ''),
 ('a leader in doubt launches on', L + 'health.rs',
  'evidence.failed.values().any(|host| host.weight > NOT_REACHED_WEIGHT).then_some(FEW)',
  'let _ = evidence; None'),
 ('a leader that cannot launch keeps what it gets back', L + 'hand_back.rs',
  '        if self.passes_on() {\n            // Children that have moved',
  '        if false {\n            // Children that have moved'),
 ('a leader in doubt keeps what waits', L + 'doubt.rs',
  'self.queue.give_up_last(FEW.saturating_sub(tried))',
  'self.queue.give_up_last(usize::MAX)'),
 ('a leader in doubt hands back all that waits', L + 'doubt.rs',
  'self.queue.give_up_last(FEW.saturating_sub(tried))',
  'self.queue.give_up_last(0)'),
 ('a leader doubts for ever', L + 'doubt.rs',
  'let doubts = self.health.limit_in_doubt().is_some();',
  'let doubts = self.doubt.told || self.health.limit_in_doubt().is_some();'),
 ('children in doubt get hosts', M + 'child/up_state.rs',
  ' && !up.in_doubt)',
  ')'),
 ('denied logins wait for a second attempt elsewhere', L + 'hand_back.rs',
  'if !failure.is_retryable() {',
  'if false {'),
 ('what is in flight when a leader hands back few hosts does not count', L + 'hand_back.rs',
  'let next = self.next_elsewhere(launch.attempt, &failure, terms);',
  'let next = launch.attempt.after_loss();'),
 ('refusals by overloaded servers do not count elsewhere', L + 'hand_back.rs',
  'attempts_allowed(terms.options.rules.attempts, failure)',
  'terms.options.rules.attempts'),
 ('a host that has to be direct joins without', M + 'direct_links.rs',
  '        let missing = self.requested && self.own_link != LinkMove::Moved;',
  '        let missing = false;'),
 ('a host that cannot be direct is kept', M + 'node/direct.rs',
  '        } else if self.options.links == LinkPolicy::Direct {\n'
   '            self.force_end',
  '        } else if false {\n'
   '            self.force_end'),
 ('a link that stays is not told of', M + 'node/direct.rs',
  'self.reports.extend(child.host().map(|host| ChildMessage::Link(host, false)));',
  'let _ = child;'),
 ('who was released is signalled to end', M + 'node/session_end.rs',
  'if matches!(self.role, Role::Member(_)) && !self.attachment.is_detached() && !self.is_agent() {',
  'if matches!(self.role, Role::Member(_)) && !self.is_agent() {'),
 ('a host joins before its programs are found (agents)', M + 'node/parent.rs',
  '|| self.own_programs.are_sought()',
  '|| false'),
 ('a missing program does not fail its host (agents)', M + 'node/programs.rs',
  'self.host_failed(failure, now, out);',
  'drop(failure); self.check_joined();'),
 ('a program that was not started is not reported (agents)', M + 'node/programs.rs',
  'child.on_exit(NOT_EXECUTED);',
  ''),
 ('data wait for ever for a program that joins (agents)', M + 'node/programs.rs',
  'out.push(Effect::Carry(link));',
  ''),
 ('a program that joins is not told that the session is up (agents)', M + 'node/programs.rs',
  'Self::send_membership(link, &self.own_programs.absent, &below, false, out);',
  'let _: Ranks = below;'),
 ('programs are not asked to end (agents)', M + 'node/programs.rs',
  'self.children.set_deadline(link, before.min(by));',
  'let _ = before;'),
 ('a program that closes its link has ended (agents)', M + 'node/child_end.rs',
  'if !is_plain {',
  'let _ = is_plain; {'),
 ('an agent that ends counts as a member (agents)', M + 'child.rs',
  'self.first_rank().filter(|_| !self.is_agent)',
  'self.first_rank()'),
 ('starts of leaders have the numbers of the front end (agents)', M + 'start_table.rs',
  'Self::counting_from(1 << 31)',
  'Self::counting_from(0)'),
 ('a host is launched when the deadline has passed', M + 'node/after_event.rs',
  '!self.reports.is_empty() || front.deadline(self.stage).is_some_and(|due| due <= now)',
  'let _ = front; !self.reports.is_empty()'),
 ('hosts of which everybody was released are lost', M + 'front_end/reports.rs',
  'if self.members.any_left(blocks) {',
  'if true {'),
 ('a release is not told of', M + 'node/session_end.rs',
  '            self.reports.push(ChildMessage::Detached(rank));',
  '            let _ = rank;'),
 ('signals are not passed on', M + 'node/session_end.rs',
  'self.send_to_children(&ParentMessage::Signal(signal), out);',
  ''),
 ('who ends with its host says that it is alone', M + 'attachment.rs',
  'stage.is_ending() && self.detached;',
  'stage.is_ending();'),
 ('nobody is at the top', M + 'node/session_up.rs','top.is_none() && branches.len() == 1','false'),
 ('everybody is told of all who are below his parent', M + 'node/session_up.rs',
  'Self::send_membership(branch.link, &absent, &branch.ranks,',
  'Self::send_membership(branch.link, &absent, &below,'),
 ('who is lost on the way up is not told of', M + 'node/session_up.rs',
  '            lost: below,',
  '            lost: { let _ = below; Ranks::new() },'),
 ('a link that is gone is not cut', M + 'node/session_up.rs',
  '            out.push(Effect::Cut(link, self.loss_reason(link)));',
  '            let _ = (link, out);'),
 ('a link is cut twice', M + 'parent_link.rs', 'std::mem::take(&mut self.in_tree)', 'self.in_tree'),
 ('data of the session are taken for news', 'libi-core/src/wire/link_input.rs',
  'if self.carries_data { return',
  'if self.carries_data && false { return'),
 ('a child that said hello is not trusted', M + 'node/children.rs', 'out.push(Effect::Trust(link));', ''),
 ('let hosts that hang fill the window', M + 'launcher.rs',
  'Duration::from_secs(3)',
  'Duration::from_secs(3_000)'),
 # Hosts that cannot launch others.
 ('a leader that cannot launch keeps trying', L + 'hand_back.rs',
  'self.health.evaluate(terms.now, timeout, in_flight, waiting);',
  'self.health.evaluate(terms.now, timeout, in_flight, waiting).filter(|_| false);'),
 ('what is handed back is forgotten', L + 'hand_back.rs',
  'reports.push(ChildMessage::HandBack(host, next, tried));',
  'let _ = (host, next, tried);'),
 ('what is in flight when a leader hands back is forgotten', L + 'hand_back.rs',
  'reports.push(ChildMessage::HandBack(launch.host, next, tried));',
  'let _ = tried;'),
 ('what was tried by a leader that cannot launch is not out of date', P + 'late/launch.rs',
  'Self { lost: self.lost.saturating_add(1), failed: 0, ..self }',
  'self'),
 ('a leader that cannot launch gives hosts up', L + 'hand_back.rs',
  '} else if self.health.record_failure(launch, &failure, !given_up)\n',
  '} else if self.health.record_failure(launch, &failure, true)\n'),
 ('who was held is forgotten when launching works', L + 'hand_back.rs',
  '        for (launch, failure) in self.health.confirm() {\n'
   '            self.give_up_host(launch, failure, reports);',
  '        for (launch, failure) in self.health.confirm() {\n'
   '            let _ = (launch, failure);'),
 ('a next master is given what the front end launches', L + 'shares.rs',
  'if front.launchers().include_front_end() {\n',
  'if front.launchers().include_front_end() && false {\n'),
 ('with a master who cannot launch everybody is lost', L + 'failures.rs',
  '!front.has_given_up(*host) && !here.contains(host)',
  '{ let _ = &here; !front.has_given_up(*host) }'),
 ('who is lost with a master who cannot launch is left to the next', M + 'launcher.rs',
  'host == HostIndex(0) || front.launchers().include_front_end()',
  '{ let _ = front; host == HostIndex(0) }'),
 ('a spare is left to a master who cannot launch', M + 'node/spares.rs',
  'let is_here = *host == HostIndex(0) || front.launchers().include_front_end();',
  'let is_here = *host == HostIndex(0);'),
 ('a host may arrive twice', M + 'child.rs',
  'let awaited = self.is_awaited() && !self.is_ending();',
  'let awaited = self.open && !self.is_ending();'),
 ('a starter that is asked to end is never killed', M + 'node/starters.rs',
  'StarterStep::Kill => KILL,',
  'StarterStep::Kill => continue,'),
 ('hosts outlast the starter that should bring them up', M + 'node/starters.rs',
  'if child.is_awaited() {\n                child.close();\n                child.forgo_exit();\n                self.ends(link, cause, now, out);',
  'if child.is_awaited() {\n                let _ = &cause;'),
 ('a bulk start has all hosts, of any number', M + 'node/starts.rs',
  'while count < most.max(1)\n',
  'while count < most.max(1) + 1_000_000\n'),
 ('time in the queue counts towards the deadline (srun)', M + 'front_end.rs',
  'self.deadline += waited;',
  ''),
 ('the deadline passes while a start waits (srun)', M + 'front_end.rs',
  'let deadline = if self.queued_since.is_some() { Instant::FAR_FUTURE } else { self.deadline };',
  'let deadline = self.deadline;'),
 ('hosts have no more time while their start waits (srun)', M + 'node/starters.rs',
  'self.set_awaited_deadlines(start, now + timeout.saturating_sub(queued), now);',
  'let _ = (timeout, queued);'),
 ('each wait of a start has the whole time of the queue (srun)', M + 'start_table/said.rs',
  'start.queued += since.map_or(Duration::ZERO, |since| now.since(since));',
  'let _ = since;'),
 ('a start that fails as a whole is not divided (srun)', M + 'start_table.rs',
  'let untouched = start.awaited.len() == start.names.len() && start.end_of_all.why_refused().is_none();',
  'let untouched = false;'),
 ('why a start was refused is forgotten (srun)', M + 'start_table/said.rs',
  'self.bulk.get(&id)?.end_of_all.why_refused().cloned()',
  '{ let _ = id; None }'),
 ('hosts that are ended with others have failed (srun)', M + 'node/child_end.rs',
  'if with_others && self.is_ended_with_others(&failure) {',
  'if with_others && false {'),
 ('a session goes up while its hosts may end (srun)', M + 'front_end.rs',
  'if fates == Fates::Ending && !late => NextStep::Wait,',
  'if false && late => NextStep::Wait,'),
 ('a launch settles while an open host could end others (srun)', M + 'front_end.rs',
  'let enough = waits && fates == Fates::Known && self.table.has_enough();',
  'let enough = waits && self.table.has_enough();'),
 ('no leader is redirected (relays)', M + 'relays.rs',
  'if (1..hosts).contains(&wanted) {',
  'if false && wanted > hosts {'),
 ('hosts below a lost relay stay lost (relays)', M + 'node/child_end.rs',
  'self.lost_with_relay(launch.host, with_others, below, now);',
  'drop(below);'),
 ('a leader that comes back is refused (relays)', M + 'node/starts.rs',
  'None if claim.is_back => self.comes_back(start, arrival, claim, now, out),',
  'None if false && now < self.began => {}'),
 ('a host that a relay drops stays lost (relays)', M + 'node/relays.rs',
  'self.leader_failed(launch, was_up, with_others, failure, now);',
  'let _ = (launch, was_up, with_others, failure);'),
 ('how the leader of a redirected host ends is not reported (relays)', M + 'node/relays.rs',
  'self.reports.push(ChildMessage::Exited(rank, exit, None));',
  'let _ = rank;'),
 ('a relay that is ending drops what it is sent (relays)', M + 'node/relays.rs',
  '            // This host itself has failed, and the front end launches all hosts below it again.\n            return;',
  '            let failure = Failure::without_evidence(Phase::Starting, Cause::Cancelled, now.since(self.began));\n'
  '            let failure = Some(Box::new(failure));\n'
  '            return self.reports.push(ChildMessage::Dropped(host, attempt, false, failure));'),
 ('what is given to a leader that cannot launch is kept', L + 'hand_back.rs',
  'reports\n.extend(given.map(|Launch { host, attempt }| ChildMessage::HandBack(host, attempt, false)));',
  '{ let _ = reports; drop(given); }'),
 ('who was held is forgotten when nothing is launched any more', L + 'shares.rs',
  '        for (Launch { host, attempt }, failure) in self.health.take_deferred() {\n'
   '            reports.push(ChildMessage::Failed(host, attempt, failure));',
  '        for (Launch { host, attempt }, failure) in self.health.take_deferred() {\n'
   '            let _ = (host, attempt, failure);'),
 ('a leader that ends gives up what comes back', M + 'node/children.rs',
  '(ChildMessage::HandBack(..), _) if self.stage.has_begun_to_end()',
  '(ChildMessage::HandBack(..), _) if false && self.stage.has_begun_to_end()'),
 ('what comes back when nothing is launched any more is forgotten', L + 'hand_back.rs',
  '                reports.push(ChildMessage::Failed(host, next, failure));',
  '                let _ = failure;'),
 ('one failure is enough to be sure', L + 'health.rs',
  'const CERTAIN_WEIGHT: u32 = 8;',
  'const CERTAIN_WEIGHT: u32 = 1;'),
 ('few hosts that time out are tried again and again where they are', L + 'health.rs',
  'let is_tried = |host: &&HostEvidence| host.timed_out || usize::from(host.count) >= FEW;',
  'let is_tried = |_: &&HostEvidence| false;'),
 # The settle time.
 ('a launch that has settled waits on', M + 'front_end/settle_timer.rs', 'if now < self.due {', 'if true {'),
 ('a launch settles although hosts still join', M + 'front_end/settle_timer.rs',
  'if changes != self.changes {',
  'if self.changes == 0 {'),
 ('open hosts below are not given up when the launch has settled', M + 'node/settling.rs',
  'self.send_to_children(&ParentMessage::GiveUpOpen(why.clone()), out);',
  ''),
 ('a spare replaces a host when the launch has settled', M + 'front_end/spares.rs', ' | Cause::SettleElapsed', ''),
 ('who joins a session that was given up counts', M + 'front_end/reports.rs',
  'if !stage.is_before_up() && matches!(report, ChildMessage::Joined(..)) {',
  'if false {'),
 ('a host that comes back stays in the share of who has handed it back',
  P + 'late/transfer.rs',
  '        if !self.remove_from_share(child, next.host) {',
  '        if !self.is_here(next.host) {'),
 # Collective calls.
 ('a call is over before everybody has called', C + 'call_state/outcome.rs',
  'self.is_done() && self.own == OwnPart::Called',
  'self.own == OwnPart::Called'),
 ('children that have brought nothing up get more', P + 'late/further.rs',
  'if child.is_unproven() => None',
  'if false && child.is_unproven() => None'),
 ('hosts that failed at children are passed on again', L + 'hand_back.rs',
  'if tried {\n                self.unreached.tried_elsewhere(host);',
  'if false {\n                self.unreached.tried_elsewhere(host);'),
 ('branches are not waited for', C + 'call_state.rs',
  'self.stage == Stage::Open && self.unsigned == 0 &&',
  'self.stage == Stage::Open &&'),
 ('a process does not wait for its own member', C + 'call_state.rs',' && self.own != OwnPart::Awaited',''),
 ('roots are not compared', S + 'message.rs','&& self.root == other.root','&& true'),
 ('lengths are not compared', S + 'message.rs',
  '(one, other) => one == other,',
  '(one, other) => one == other || true,'),
 ('who has given up a call is not told of', C + 'collective.rs',
  'self.begin_abort(nth, AbortCause::Cancelled(me), ctx);',
  'let _ = (nth, me, &ctx);'),
 ('a break does not go down', C + 'context.rs',
  'self.view.collective_parent().into_iter().chain(branches)',
  '{ let _ = branches; self.view.collective_parent().into_iter() }'),
 ('a break does not go up', C + 'context.rs',
  'self.view.collective_parent().into_iter().chain(branches)',
  'branches'),
 ('a break is not remembered for who calls later', C + 'broken.rs',
  'self.future.insert(nth, broken);',
  'let _ = (nth, broken);'),
 ('a member that has completed an aborted call does not hear of it in its next', C + 'broken.rs',
  'self.unreported.get_or_insert(broken);',
  'drop(broken);'),
 ('a member that waits in a later call does not hear of an aborted one', C + 'collective/aborts.rs',
  'Some(&(waiting, ..)) => self.abort(waiting, broken, None, ctx),',
  'Some(_) => {}'),
 ('a member hears of the same abort in two calls', C + 'broken.rs',
  'self.unreported.take_if(|unreported| unreported.origin == broken.origin);',
  ''),
 ('every aborted call aborts another', C + 'collective/aborts.rs',
  'if is_told || broken.origin != nth || self.completion',
  'if is_told || self.completion'),
 ('the signature of a call that is over is forgotten', C + 'progress.rs',
  'Some(by) if self.neighbors.values().any(|neighbor| neighbor.over <= nth) => {',
  'Some(by) if self.neighbors.values().any(|neighbor| neighbor.over <= nth) && nth == u64::MAX => {'),
 ('a call that waits for long is not probed', C + 'probe.rs',
  'self.probe(nth, None, ctx);',
  'let _ = nth;'),
 ('a probe is not passed on', C + 'collective.rs',
  'self.probe(nth, Some(link), ctx);',
  'let _ = nth;'),
 ('a process is ahead of others without limit', C + 'progress.rs',
  'nth < neighbor.over.saturating_add(self.lead) &&',
  'nth < neighbor.over.saturating_add(u64::MAX) &&'),
 ('much is sent in advance without limit', C + 'progress.rs',
  'neighbor.sum > self.lead_bytes)',
  'neighbor.sum > u64::MAX - 1)'),
 ('calls with much data are not reported', C + 'progress.rs',
  'if arrived > self.much() || by.is_none() {',
  'if arrived > self.much() && by.is_none() {'),
 ('progress is not reported', C + 'progress.rs',
  'let is_due = much || self.before >= self.reported + self.lead / 2;',
  'let is_due = much || self.before >= self.reported + u64::MAX / 2;'),
 ('calls that a neighbor makes room for are not continued', C + 'collective/credit.rs',
  'for nth in self.open.range(freed).map(|(nth, _)| *nth).collect::<Vec<_>>() {',
  'for nth in self.open.range(freed).map(|(nth, _)| *nth).skip(1).collect::<Vec<_>>() {'),
 ('a call that was not seen before a loss is not judged by it', C + 'collective.rs',
  'lacking = lost.iter().find(|branch| branch.fails(&mut state));',
  'lacking = lost.iter().find(|branch| branch.fails(&mut state) && nth == u64::MAX);'),
 ('a sign of a lost branch is not missed', C + 'collective/aborts.rs',
  'let lacks_sign = state.lacks_sign(self.link);',
  'let lacks_sign = state.lacks_sign(self.link) && self.link.0 == u32::MAX;'),
 ('data for a lost root are waited for', C + 'collective.rs',
  'ctx.out.push(Effect::Send(link, Message::Grant { nth, limit: UNWANTED }.frame(None)));\n            }\n            return',
  '}\n            return'),
 ('not everybody is told that everybody has called', C + 'collective.rs',
  'links.for_each(|link| state.to_notify',
  'links.skip(1).for_each(|link| state.to_notify'),
 ('results are told in another order', C + 'collective/results.rs',
  'self.results[place].2 = Some(result);\n        }',
  'self.results[place].2 = Some(result);\n        }\n'
   '        while let Some(at) = self.results.iter().position(|(.., result)| result.is_some()) {\n'
   '            if let Some((_, id, Some(result))) = self.results.remove(at) { ctx.out.push(Effect::Finish(id, result)); }\n        }'),
 ('a fence that was decided late does not count', C + 'collective/aborts.rs',
  'apply_late(messages, header, message, ctx);',
  'let _ = (messages, header, message, ctx);'),
 ('a fence that was decided late is not passed on', C + 'messages.rs',
  'if !ctx.view.cut.contains(&link) {',
  'if false {'),
 # Losses.
 ('one of the lost is forgotten', C + 'losses.rs',
  'Message::Lost { ranks: ranks.clone(), before, reason: reason.clone() }',
  'Message::Lost { ranks: ranks.iter().take(ranks.len().saturating_sub(1).max(1) as '
   'usize).collect(), before, reason: reason.clone() }'),
 ('losses are passed on without their reasons', C + 'losses.rs',
  'Message::Lost { ranks: ranks.clone(), before, reason: reason.clone() }',
  'Message::Lost { ranks: ranks.clone(), before, reason: None }'),
 ('errors do not say how members were lost', C[:-1] + '.rs',
  '*why = self.reasons(ranks);',
  'let _ = (&ranks, why);'),
 ('the exit of a child is awaited for ever', M + 'node/child_end.rs',
  'if child.awaits_exit_in_tree() && !self.stage.has_begun_to_end() =>',
  'if false && child.awaits_exit_in_tree() =>'),
 ('a loss is not passed on', C + 'losses.rs','if Some(link) != from && !view','if from.is_none() && !view'),
 ('who is lost is missing one call too late', C + 'losses.rs',
  'self.collective.cut(link, &ranks)\n        };',
  'self.collective.cut(link, &ranks) + 1\n        };'),
 ('who is lost is missing one call too early', C + 'losses.rs',
  'self.collective.cut(link, &ranks)\n        };',
  'self.collective.cut(link, &ranks).saturating_sub(1)\n        };'),
 ('a member that has told its result does not wait for a replay', C + 'call_state/outcome.rs',
  '// What a member has reported before is sent to it all the same.\n            && self.received.is_complete()',
  ''),
 ('keys of a later fence are forgotten with an earlier one', C + 'kvs/fence.rs',
  'self.fence.offered.retain(|_, (.., offered)| *offered > nth);',
  '{ let _ = nth; self.fence.offered.clear(); }'),
 ('agents do not tell what is complete without a lost branch', C + 'collective/resume.rs',
  '        // A branch that is lost may have been the last that had not completed some calls.\n'
  '        self.tell_completed(ctx);\n',
  ''),
 ('what all have completed is not over', C + 'collective/resume.rs',
  'let freed = self.progress.all_over(before);',
  'let freed = 0..0;'),
 ('a member that leaves does not wait for others', C + 'collective/resume.rs',
  '!self.continues() || self.survival.have_all_completed(self.next)',
  'true'),
 ('what a member wants to hear is not passed on', C + 'survival.rs',
  ' || self.wanted_told < self.wanted;',
  ';'),
 ('calls that are over before a plan are not reported', C + 'collective/resume.rs',
  '        self.report_over(ctx);\n',
  ''),
 ('a member that is alone forgets what has not begun anew', C + 'collective/resume.rs',
  'self.survival.begins_anew = true;',
  ''),
 ('what a member has completed begins anew for others', C + 'survival.rs',
  'report.settled.into_iter().filter(|call| call.nth >= first).collect();',
  '{ drop(report.settled); Vec::new() };'),
 ('the result of a lost member is relied on', C + 'survival.rs',
  'if report.settled.iter().any(|call| view.lost.contains(call.by)) {',
  'if false {'),
 ('a member has its part before others have theirs', C + 'call_state.rs',
  'completion.continues && operation.gives_each_its_own();',
  'false;'),
 ('calls complete while they are halted', C + 'collective.rs',
  'if self.survival.is_halted() {\n            return;\n        }\n        let Some(state) = self.open.get_mut(&nth)',
  'let Some(state) = self.open.get_mut(&nth)'),
 ('a result names what is lost since', C + 'survival.rs',
  'self.missing.range(..=self.round_of(nth)).next_back();',
  'self.missing.iter().next_back();'),
 ('what a member has given is forgotten when it has its result', C + 'collective/results.rs',
  'self.survival.has_result(nth, me, outcome);',
  '{ self.survival.has_result(nth, me, outcome); self.survival.forget_before(nth + 1); }'),
 ('the message of a decided call is not repeated', C + 'collective/resume.rs',
  '                    self.repeat(*nth, ctx);\n',
  ''),
 ('calls halt only where a loss is seen', C + 'collective/resume.rs',
  '            ctx.out.push(Effect::Send(link, Message::Halt { round }.frame(None)));',
  '            let _ = (link, round);'),
 ('a member that waits for its part is not probed', C + 'call_state.rs',
  '(!self.agrees || self.waits_for_data) && !self.probed',
  '!self.agrees && !self.probed'),
 ('what a lost branch had not delivered is not missed', C + 'collective/aborts.rs',
  'state.flow.cut(self.link) > 0 ||',
  'state.flow.cut(self.link) > u64::MAX - 1 ||'),
 # Data on their way.
 ('nothing is granted', C + 'sending.rs',
  'out.push(Effect::Send(link, Message::Grant { nth, limit }.frame(None)));',
  'let _ = (nth, link, limit, &out);'),
 ('windows have no end', C + 'flow_control.rs',
  'let window = (equal + own).max(self.eager);',
  'let window = (1_000 * (equal + own)).max(EAGER);'),
 ('what is passed on counts twice', C + 'flow_control.rs',
  'Origin::Link(from) => self.consume(from, cost),',
  'Origin::Link(from) => self.consume(from, 2 * cost),'),
 ('everything is sent unasked', C + 'flow_control.rs',
  'sent: 0, allowed: eager',
  'sent: 0, allowed: eager.max(u64::MAX / 2)'),
 ('who may not send more is not noticed', C + 'flow_control.rs',
  'if !from_parent && !self.into.values().any(Incoming::is_stalled) {',
  'if true {'),
 ('what a sender lacks is forgotten', C + 'flow_control.rs',
  'self.has_blocked |= channel.blocked;',
  ''),
 ('open calls keep their limit', C + 'collective/credit.rs',
  'state.flow.allow(link, limit).then_some(*nth)',
  '(state.flow.is_over() && state.flow.allow(link, limit)).then_some(*nth)'),
 ('more is accepted than was said', C + 'eager.rs',
  '_ => self.here.unwrap_or(EAGER)',
  '_ => EAGER_OF_ROOT'),
 ('an item may come twice', C + 'received.rs',
  'if self.whole.windows(2).any(',
  'if false && self.whole.windows(2).any('),
 ('pieces go back where they came from', C + 'flow_control.rs',
  'let others = self.out.iter_mut().filter(|(link, _)| Some(*link) != from);',
  'let others = self.out.iter_mut();'),
 ('what is for the root is dropped', C + 'operation/reduction.rs',
  'called.root.is_none_or(|root| root == me)',
  'called.root.is_none()'),
 ('values stand for one', C + 'call_state.rs','u64::from(piece.item.to)','1'),
 ('more is awaited than comes', C + 'traffic.rs','Senders::All => near,','Senders::All => near + 1,'),
 ('values are combined in another order', C + 'operation/reduction.rs',
  'function(left, &bytes);',
  '{ let mut right = bytes.clone(); function(&mut right, left); *left = right; }'),
 ('values are combined with others than neighbours', C + 'operation/reduction.rs',
  'if u64::from(*first) + *length == u64::from(at) =>',
  'if u64::from(*first) + *length == u64::from(at) || true =>'),
 ('values are combined in another order at their end', C + 'operation/reduction.rs',
  'reduced(values, ',
  'reduced(values.rev(), '),
 ('a member is before itself', C + 'operation/prefix.rs','if self.inclusive {','if true {'),
 ('prefixes count absent ranks', C + 'operation/prefix.rs',
  'rank.0 - absent.below(rank)',
  '{ let _ = absent; rank.0 }'),
 ('branches get a prefix too far', C + 'operation/prefix.rs',
  'Some(link) => before.clone().send(Onward::Over(link), io),',
  'Some(link) => { let mut more = before.clone(); self.by.append(&mut more, &value)?; '
   'more.send(Onward::Over(link), io); }'),
 ('one is the left neighbour of oneself', C + 'operation/ring.rs',
  'here.left = segment.right;',
  'here.left = segment.left;'),
 ('those before do not count', C + 'operation/ring.rs',
  'here.count = here.count.wrapping_add(segment.count);',
  ''),
 # Messages between two.
 ('messages are received in another order', C + 'p2p/receive_queue.rs',
  'queue.messages.push_back((id, unexpected))',
  'queue.messages.push_front((id, unexpected))'),
 ('what was read is not told of', C + 'p2p/receive_queue.rs',
  'ctx.control(from, P2pMessage::Consumed { limit: self.consumed });',
  'let _ = (from, ctx);'),
 ('senders have no limit', C + 'p2p/send_queue.rs','+ cost <= EAGER_LIMIT;','+ cost <= u64::MAX / 2;'),
 ('a message is pulled once', C + 'p2p/receive_queue.rs',
  '                    ctx.control(from, P2pMessage::Pull { id, limit });\n',
  '                    let _ = limit;\n'),
 ('nobody says that there is no way', C + 'p2p.rs',
  '_ => reject_undeliverable(&envelope, view, out),',
  '_ => {}'),
 ('a message that was taken back is kept', C + 'p2p.rs',
  '=> self.receives.withdrawn(from, id, tag, ctx),',
  '=> { let _ = (id, tag); }'),
 ('who gives up a message does not say so', C + 'p2p/receive_queue.rs',
  'ctx.control(from, P2pMessage::Rejected { id, why: RejectReason::Cancelled });',
  'let _ = (from, id);'),
 ('what the lost had sent is thrown away', C + 'p2p/receive_queue.rs',
  'queue.messages.retain(|(_, unexpected)| matches!(unexpected, '
   'UnexpectedMessage::Eager(_)));',
  'queue.messages.clear();'),
 ('who waits for a message of the lost waits for ever', C + 'p2p.rs',
  'self.receives.peers_lost(among, ctx);',
  'let _ = (among, ctx);'),
 # Keys.
 ('old values survive a fence', C + 'kvs/fence.rs',
  'None if entry.is_some_and(|entry| entry < version) => {',
  'None if false => {'),
 ('who waits for a key is not told that it was put here', C + 'kvs.rs',
  'ValueLocation::Here(value), view);\n'
   '        self.resolve(&key, view, out);',
  'ValueLocation::Here(value), view);'),
 ('who waits for a key is not told that it was put below', C + 'kvs.rs',
  'ValueLocation::Below(link), view);\n'
   '        self.resolve(&key, view, out);',
  'ValueLocation::Below(link), view);'),
 ('everybody who waits for a key is asked for', C + 'kvs/lookup.rs',
  'if now == next {',
  'if now == next && next.is_none() {'),
 ('answers are not kept', C + 'kvs/lookup.rs',
  '            && fences >= self.fences\n',
  '            && fences > self.fences\n'),
 ('drafts are kept', C + 'kvs/lookup.rs',
  'ValueLocation::Here(value) if self.fence.is_unfenced(',
  'ValueLocation::Here(value) if false && self.fence.is_unfenced('),
 ('answers from before a fence count', C + 'kvs/lookup.rs',
  'let too_old = fences < lookup.fences;',
  'let too_old = false;'),
 ('questions overtake a fence', C + 'kvs/lookup.rs','if query.fences > self.fences {','if false {'),
 ('a lost value is not told of', C + 'kvs.rs',
  'self.notify_parent(KvsMessage::ValueLost { key, version }, view, out);',
  'let _ = (key, version);'),
 ('a lost value is looked for', C + 'kvs.rs',
  '                entry.at = ValueLocation::Gone;',
  '                let _ = entry;'),
 ('what is put after a loss does not count', C + 'kvs.rs','if version < over {','if false {'),
 # The lock protocol of the executor.
 ('no waiter is woken on release', E + 'run_state.rs',
  'false => WakeUp::Waiter,',
  'false => WakeUp::None,'),
 ('the thread is not woken on release', E + 'run_state.rs',
  'true if self.threaded => WakeUp::Thread,',
  'true if self.threaded => WakeUp::None,'),
 ('a waiter that leaves wakes no other', E + 'run_state.rs',
  'if self.caller_may_acquire() { WakeUp::Waiter } else { WakeUp::None }',
  'WakeUp::None'),
 ('a waiter does not wake the thread out of its poll', E + 'run_state.rs',
  'RunToken::Thread if !self.is_reserved() => Next::Wake(self.wake_poll()),',
  ''),
 ('a wake-up of the poll counts for the next turn', E + 'run_state.rs',
  'self.poll = Poll::NeedsWakeUp;',
  ''),
 ('two threads drive', E + 'run_state.rs',
  'RunToken::Free if !self.is_reserved() => Next::Drive,',
  'RunToken::Free | RunToken::Caller if !self.is_reserved() => Next::Drive,'),
 ('a command for the thread does not reserve the token', E + 'run_state.rs',
  'if requires_thread && self.threaded {',
  'if false && requires_thread && self.threaded {'),
 ('the end of a turn drops the reservation of a command', E + 'run_state.rs',
  'if self.reservation <= Reservation::Reactor {',
  'if self.reservation <= Reservation::Command {'),
 ('a command for the thread does not wake it', E + 'run_state.rs',
  'RunToken::Free if self.is_reserved() => Next::Wake(WakeUp::Thread),',
  'RunToken::Free if self.is_reserved() => Next::Wake(WakeUp::None),'),
 ('the end is not told to the driver', E + 'run_state.rs',
  'RunToken::Caller | RunToken::Thread => self.wake_poll(),\n'
  'RunToken::Free | RunToken::Closed => WakeUp::None,',
  'RunToken::Caller | RunToken::Thread => WakeUp::None,\n'
  'RunToken::Free | RunToken::Closed => WakeUp::None,'),
 ('the end is not told to the thread', E + 'run_state.rs',
  'RunToken::Free if self.threaded => WakeUp::Thread,',
  'RunToken::Free if self.threaded => WakeUp::None,'),
 ('the end of the driver is not told to the caller of stop', E + 'run_state.rs',
  'true => WakeUp::All,',
  'true => WakeUp::None,'),
 ('waiters are not told of the end', E + 'shared.rs',
  'locked.pending_calls.wake_all();\n'
  'P::notify_all(&self.changed);',
  'locked.pending_calls.wake_all();'),
 ('commands are taken and a turn is begun under two locks', E + 'thread.rs',
  'let mut commands = locked.begin_turn();',
  'let mut commands = std::mem::take(&mut locked.commands); drop(locked); locked = self.shared.lock(); '
  'locked.run.begin_turn();'),
 ('agents take messages for the front end', S + 'routes.rs',
  'Address::FrontEnd if !self.has_parent => Hop::Local',
  'Address::FrontEnd if self.me.is_none() => Hop::Local'),
 ('agents look keys up as the front end does', C + 'kvs.rs',
  'topology.is_front_end() && !topology.top',
  'topology.me.is_none() && !topology.top'),
 ('a further value of a run gets a prefix of its own', C + 'operation/prefix.rs',
  'Some(_) if is_adjacent && link == last_link => {}',
  'Some(_) if is_adjacent && link == last_link && false => {}'),
 ('values put on two hosts with agents have the same version', C + 'kvs.rs',
  'leader: view.topology.host_rank() }',
  'leader: view.topology.me }'),
 ('who was released is killed when it is silent', M + 'node/child_end.rs',
  'if child.is_detached() {\n'
   '// A detached',
  'if false {\n'
   '// A detached'),
 ('who is not awaited stays in the tree', M + 'membership.rs',
  '            ranks.remove_all(&surplus);',
  '            let _ = &surplus;'),
 ('forget what was tried below a lost leader', M + 'launcher.rs',
  'spec.attempt = spec.attempt.max(attempt);',
  'let _ = (spec, attempt);'),
 ('a launch that is withdrawn goes on', M + 'node/shares.rs',
  'self.force_end(withdrawn, Cause::Cancelled, now, out);',
  'let _ = (withdrawn, now);'),
 ('a host is withdrawn again and again', P + 'late/withdrawal.rs',
  'if started == since && attempt == Attempt::default()',
  'if started == since && attempt.failed == 0'),
 ('launches that had their turn are withdrawn', P + 'late/withdrawal.rs',
  'turn > soon && !had_its_turn(since) && self.kept != Some(host)',
  'turn > soon && (!had_its_turn(since) || true) && self.kept != Some(host)'),
 ('launches without an answer are no evidence', P + 'late/turns.rs',
  'let most = if estimate.starts_return_at_once() { MAX_OPEN } else { 0 };',
  'let most = 0;'),
 ('children get no further shares', L + 'shares.rs',
  'self.may_share |= self.queue.up_below(child, host);',
  'let _ = (child, host);'),
 ('a better estimate gives children no further shares', L + 'shares.rs',
  'self.may_share = true;\nself.queue.accept(',
  'self.queue.accept('),
 ('children get as much as if they had nothing', P + 'late/further.rs',
  'take_while(|(open, ..)| *open < most)',
  'map(|(_, child, launchers)| (0, child, launchers))'),
 ('hosts that wait are not moved when one has connected', M + 'node/moves.rs',
  '&& self.moves.reached() => {\n                self.place_waiting(now, out);',
  '&& self.moves.reached() => {'),
 ('the exit of a host that has moved is not told', M + 'node/moves.rs',
  'self.tell_new_parent(RelayMessage::HostEnded(host, exit), out);',
  ''),
 ('a host that cannot connect is not launched again', M + 'node/moves.rs',
  'launcher.relaunch_adopted(launch, &terms, reports);',
  'let _ = (launcher, terms, reports, launch);'),
 ('processes of moved hosts outlive the session', M + 'node/session_end.rs',
  'self.moved.end_all(now + ending.grace + self.options.rules.kill_grace);',
  ''),
 ('hosts that wait to be moved wait until they give up', M + 'node/child_end.rs',
  'ChildState::AwaitHello if self.moves.greeted(link).is_some() => self.stays(link, now, out),',
  ''),
 ('unlimited attempts leave no host to others', L + 'failures.rs',
  'if may_pass { ATTEMPTS_BEFORE_OTHERS } else { u16::MAX }',
  '{ let _ = may_pass; u16::MAX }'),
 ('a host waits for others while all launches are silent', L + 'unreached.rs',
  'self.in_flight_not_silent(terms.now).last()',
  'self.queue.in_flight_since(libi_core::time::Instant::ZERO).last()'),
 ('hosts are given up while launches are in flight', L + 'unreached.rs',
  'let is_last = self.queue.in_flight() == 0;',
  'let is_last = true;'),
 ('take a cipher that was not offered', K + 'cipher.rs',
  'cipher.number() == number && self.contains(*cipher)',
  'cipher.number() == number'),
 ('the parent chooses what the child is not fast with', K + 'cipher.rs',
  'if self.contains(aegis) && other.contains(aegis)',
  'if self.contains(aegis)'),
]

# Known to go unnoticed within the seeds that are tried: checks that the simulation still owes.
UNNOTICED = [
 # It only takes longer: a launch that is silent has its own deadline.
 ('what is in flight when a leader hands back is waited for', M + 'node/launching.rs',
  '_ => self.force_end(link, Cause::Cancelled, now, out),',
  '_ => { let _ = &out; }'),
 # It is killed soon after; only a real starter can tell the two apart.
 ('a starter is never asked to end', M + 'node/starters.rs',
  'out.push(Effect::EndStarter(start, TERMINATE));',
  'let _ = (start, TERMINATE);'),
 # What is open has been given up before; for reports that cross.
 ('whoever did not join when the deadline passed stays', M + 'node/front_end.rs',
  '        self.end_those_before(Phase::Joined, &Cause::Cancelled, now, out);\n'
   '        self.session_up',
  '        self.session_up'),
 # Parents give up what is open before they let the others go on; this is for one that does not.
 ('go on although some have not joined', M + 'node/parent.rs',
  'self.end_those_before(Phase::Joined, &Cause::Cancelled, now, out);',
  ''),
 # Only of a leader that is up and does not answer; a test of relays.rs notices.
 ('leaders wait for relays that never listen (relays)', M + 'relays.rs',
  'start.held_until.get_or_insert(now + HOLD);',
  'let _ = now + HOLD;'),
]


# What has to notice a mutant of a part of the tree, one after the other until one does: a name, what cargo is told, the seeds,
# and after how many seconds it hangs.
LAUNCH = [
 ('launches', ['-p', 'libi-launch', '--test', 'simulation', 'every_launch'], '0..500', 120), # finds most, and soon
 ('families', ['-p', 'libi-launch', '--test', 'simulation', 'every_'], '0..300', 120),
 ('cases', ['-p', 'libi-launch', '--test', 'simulation', '--', '--skip', 'every_', '--skip', 'found::'], None, 120),
 ('simulation', ['-p', 'libi-launch', '--test', 'simulation'], '0..1500', 400),
 ('module tests', ['-p', 'libi-launch', '--lib', 'machine::'], None, 120),
]
PLANNER = [('module tests', ['-p', 'libi-core', '--lib', 'plan::'], None, 120), *LAUNCH]
LINKS = [('module tests', ['-p', 'libi-core', '--features', 'aegis', '--lib', 'secure::'], None, 120)]
COMM = [
 ('simulation', ['-p', 'libi-comm', '--test', 'simulation', 'whatever_goes_wrong'], '0..600', 120),
 ('losses', ['-p', 'libi-comm', '--test', 'simulation', 'calls_go_on'], '0..3000', 120),
 ('cases', ['-p', 'libi-comm', '--test', 'simulation', '--', '--skip', 'whatever_goes_wrong'], None, 120),
 ('counts', ['-p', 'libi-comm', '--test', 'counts'], None, 60),
 ('memory', ['-p', 'libi-comm', '--test', 'memory'], None, 120),
 ('module tests', ['-p', 'libi-comm', '--lib'], None, 120),
]
# Of no use here are timeouts: a lost wake-up ends as a deadlock that the model checker reports.
EXECUTOR = [
 ('table', ['-p', 'libi', '--lib', 'executor::run_state'], None, 60),
 ('model', ['-p', 'libi', '--lib', 'executor::model'], None, 300),
]


def chosen(mutants, words):
    return [mutant for mutant in mutants if not words or any(word in part for word in words for part in mutant[:2])]


HAS_NEXTEST = subprocess.run(["cargo", "nextest", "--version"], capture_output=True).returncode == 0


class NotAProgram(Exception):
    """The mutant does not compile."""


def command(what):
    """How the tests of a check are run. The first that fails ends the others, where there is nextest."""
    # With nextest, tests of the façade would first build the programs that others of them start.
    if HAS_NEXTEST and "libi" not in what:
        return ["cargo", "nextest", "run", "--release", "--test-threads", "1", "--max-fail", "1:immediate", *what]
    return ["cargo", "test", "--quiet", "--release", *what]


def kill_session(leader):
    """Kills the processes of a session: the runner gives each test a process group of its own."""
    for pid in map(int, filter(str.isdecimal, os.listdir("/proc"))):
        try:
            if os.getsid(pid) == leader:
                os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def noticed(tree, target, check):
    """How a check notices what was done to a tree, if it does."""
    name, what, seeds, timeout = check
    environment = dict(os.environ, CARGO_TARGET_DIR=target, CARGO_INCREMENTAL="1", CARGO_BUILD_JOBS="1")
    environment.update(CARGO_PROFILE_RELEASE_DEBUG="0", RUST_TEST_THREADS="1", RUST_BACKTRACE="0")
    environment.pop("LIBI_SEEDS", None)
    if seeds:
        environment["LIBI_SEEDS"] = seeds
    build = ["cargo", "test", "--quiet", "--release", "--no-run", *what]
    build = subprocess.run(build, cwd=tree, env=environment, capture_output=True, text=True)
    if build.returncode != 0:
        raise NotAProgram(build.stderr)
    begun = time.monotonic()
    # A mutant that hangs is caught as well; the test is not a child of this, but of cargo.
    run = subprocess.Popen(
        command(what), cwd=tree, env=environment, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        fails = run.wait(timeout=timeout) != 0
        return f"{name}, {time.monotonic() - begun:.0f} s" if fails else None
    except subprocess.TimeoutExpired:
        kill_session(run.pid)
        run.wait()
        return f"{name}, which hangs"


def mutated(text, old, new):
    """A source with the mutant in place of the original, however that is wrapped; None if that is not there."""
    found = re.search(r"\s+".join(map(re.escape, old.split())), text)
    return found and text[: found.start()] + new.lstrip() + text[found.end() :]


def check(root):
    """Checks that every mutant applies."""
    stale = 0
    for name, file, old, new in MUTANTS + UNNOTICED:
        path = os.path.join(root, file)
        text = open(path).read() if os.path.exists(path) else ""
        if mutated(text, old, new) is None:
            stale += 1
            print(f"{file} has no place for the mutant {name!r}: {old!r}", file=sys.stderr)
    print(f"{len(MUTANTS) + len(UNNOTICED) - stale} of {len(MUTANTS) + len(UNNOTICED)} mutants apply")
    sys.exit(bool(stale))


def caught(tree, target, file, old, new):
    """What notices that this has been put in the place of that, if anything does."""
    path = os.path.join(tree, file)
    with open(path) as source:
        text = source.read()
    broken = mutated(text, old, new)
    if broken is None:
        sys.exit(f"{file}: there is no {old!r} any more; bring this list up to date")
    with open(path, "w") as source:
        source.write(broken)
    try:
        parts = {S: COMM, E: EXECUTOR, P: PLANNER, K: LINKS}
        checks = next((checks for part, checks in parts.items() if file.startswith(part)), LAUNCH)
        return next(filter(None, (noticed(tree, target, check) for check in checks)), None)
    finally:
        with open(path, "w") as source:
            source.write(text)


def verdict(place, root, mutant, is_known):
    """What becomes of a mutant: whether that is as it should be, and the line that says it."""
    name, *mutation = mutant
    # Each thread has a tree of its own, and builds in it again and again.
    own = os.path.join(place, threading.current_thread().name)
    tree, target = os.path.join(own, "tree"), os.path.join(own, "target")
    if not os.path.exists(tree):
        shutil.copytree(root, tree, ignore=shutil.ignore_patterns("target", ".git"))
    try:
        by = caught(tree, target, *mutation)
    except NotAProgram as error:
        return False, f"NOT A PROGRAM  {name}\n{error}"
    if is_known:
        again = f"caught    {name} (by {by}): it can move to the list of those that have to be"
        return True, again if by else f"unnoticed {name}, as known"
    return bool(by), f"caught    {name} (by {by})" if by else f"SURVIVED  {name}"


def main():
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    if sys.argv[1:] == ["check"]:
        check(root)
    good, bad, known = 0, 0, chosen(UNNOTICED, sys.argv[1:])
    with tempfile.TemporaryDirectory() as place, ThreadPoolExecutor(os.cpu_count()) as threads:
        tried = [(mutant, False) for mutant in chosen(MUTANTS, sys.argv[1:])] + [(mutant, True) for mutant in known]
        for is_good, line in threads.map(lambda mutant: verdict(place, root, *mutant), tried):
            good, bad = good + is_good, bad + (not is_good)
            print(line, flush=True)
    print(f"{good} as they should be, {len(known)} of them unnoticed as known; {bad} are not")
    sys.exit(bool(bad))


main()
