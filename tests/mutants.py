#!/usr/bin/env python3
"""Breaks the launch machine on purpose, one way at a time, and checks that the simulation notices each.

Needs about fifteen minutes: each mutant is a copy of the tree that is built and simulated. A mutant that survives is a
promise that nobody checks: say so in the exit status. `tests/run mutants` runs this; `tests/mutants.py spare Exited`
only those with one of these words in their names.
"""

import os
import shutil
import subprocess
import sys
import tempfile

M = "libi-launch/src/machine/"

# What is broken; in which file; what stands there; what is put there instead.
MUTANTS = [
 ('skip the greet deadline', M + 'node/starting.rs','        self.deadlines.insert((by, link));\n        out.push(Effect::Start','        out.push(Effect::Start'),
 ('forget to requeue what a lost child was given', M + 'node/losses.rs','            if self.stage == Stage::Launching && self.may_be_lost(lost.attempt) {\n                self.again(lost, now);','            if self.stage == Stage::Launching && self.may_be_lost(lost.attempt) {'),
 ('hand a share to a child and keep it', 'libi-core/src/plan/late.rs','let hosts = self.waiting.split_back(share);','let hosts = self.waiting.clone().split_back(share);'),
 ('believe any hello', M + 'node/children.rs','if hello.ticket != child.ticket {','if false {'),
 ('ignore a lost parent', M + 'node.rs','Event::Closed(LinkId::PARENT) => self.orphaned(now, out),','Event::Closed(LinkId::PARENT) => {}'),
 ('no heartbeat check of children', M + 'node.rs','if now.since(child.heard) > self.rules.silence {','if false {'),
 ('no heartbeat check of the parent', M + 'node.rs','if now.since(upstream.heard) > self.rules.silence {','if false {'),
 ('leave a failed launch in flight', M + 'node/losses.rs','if self.queue.child_failed(launch, now, retry).is_ok() && retry == Retry::Never {','if retry == Retry::Never {'),
 ('no overall deadline', M + 'node/front.rs','let late = front.deadline(self.stage).is_some_and(|by| now >= by);','let late = false;'),
 ('report joined before local members are', M + 'node/member.rs','if locals.all(super::Child::is_up) {','if true {'),
 ('what was lost is not said to be launched again', M + 'node/losses.rs','self.news.push(News::Again(lost.host, next));','let _ = next;'),
 ('do not pass the end on', M + 'node/leaving.rs','            self.ask_to_end(link, ending, now, out);','            let _ = link;'),
 ('orphans leave their children', M + 'node/leaving.rs','_ => self.end_by_force(link, Cause::Abandoned, now, out),','_ => {}'),
 ('retry for ever', M + 'node/losses.rs','if another && made.saturating_add(1) < self.rules.attempts {','if another {'),
 ('losses count as attempts', M + 'node/losses.rs','let made = launch.attempt.failed.saturating_add(faults);','let made = launch.attempt.failed.saturating_add(faults.max(launch.attempt.lost));'),
 ('a leader that is lost again and again is launched again for ever', M + 'node/losses.rs','let made = launch.attempt.failed.saturating_add(faults);','let made = launch.attempt.failed;'),
 ('never force', M + 'node/ending.rs','Some(State::Ending { forced: false, .. }) => self.force(link, now + self.rules.grace, out),','Some(State::Ending { forced: false, .. }) => self.set_deadline(link, now + self.rules.grace),'),
 ('go too early', M + 'ledger.rs','} else if self.waiting == 0 {','} else if self.joined >= needed {'),
 ('a host given up below a lost leader is launched again', M + 'node/children.rs','self.queue.forget(own, *host) =>','self.queue.forget(own, own) =>'),
 ('a host given up is given to the next master', M + 'node/front.rs','matches!(self.ledger.at(host), Some((_, Known::Failed(_))))','self.ledger.at(host).is_none()'),
 ('a node that ends gives up its share', M + 'node/member.rs','if matches!(self.stage, Stage::Concluding | Stage::Up) {','if self.stage != Stage::Launching {'),
 ('repeat without waiting', M + 'node/losses.rs','Retry::After(back_off.min(self.rules.back_off_most))','Retry::After(self.rules.back_off)'),
 ('give up at the first failure', M + 'node/front.rs','front.gather.min(now + self.rules.gather)','now'),
 ('never stop waiting for further verdicts', M + 'node/front.rs','front.gather.min(now + self.rules.gather)','now + self.rules.gather'),
 ('what is cut short has timed out', M + 'node/front.rs','{ Cause::TimedOut } else { Cause::Abandoned }','{ Cause::TimedOut } else { Cause::TimedOut }'),
 ('a spare is not sent to the master', M + 'node/spares.rs','Self::send(link, Kind::Control, &share, out);','let _ = (link, &share);'),
 ('a spare is launched under the name of whom it replaces', M + 'node/spares.rs','std::mem::replace(&mut task.name, spare.name)','task.name.clone()'),
 ('static trees are not static', M + 'node/shares.rs','Role::Member(_) if self.fixed =>','Role::Member(_) if false =>'),
 ('a subtree is lost with a host that is given up', M + 'node/losses.rs','self.take_over(launch.host);',''),
 ('a subtree is not remembered', M + 'node/shares.rs','if self.is_front() { HostRuns::new() } else { hosts }','{ let _ = hosts; HostRuns::new() }'),
 ('ends after Go are not reported', M + 'node/ending.rs','self.news.extend(child.rank().map(|rank| News::Exited(rank, exit)));','let _ = exit;'),
 ('lost hosts after Go are not reported', M + 'node/losses.rs','self.news.push(News::Failed(lost.host, attempt, failure));','let _ = (attempt, failure);'),
 ('forget to conclude below', M + 'node/member.rs','self.pass_down(&Down::Conclude(why.clone()), out);',''),
 ('go on although some have not joined', M + 'node/member.rs','self.end_those_before(Phase::Joined, &Cause::Abandoned, now, out);',''),
 ('credit is never granted', M + 'node/output.rs','Self::send(link, Kind::Control, &Down::Credit(owed), out);','let _ = (link, owed);'),
 ('credit is granted twice', M + 'node/output.rs','credits.push((link, owed));','credits.push((link, owed * 2));'),
 ('credit is not waited for', M + 'outbox.rs','let length = cut(&first.text, self.credit);','let length = cut(&first.text, CHUNK); self.credit = self.credit.max(length);'),
 ('output is read in another order', M + 'outbox.rs','self.held.push_back((from, piece));','self.held.push_front((from, piece));'),
 ('output without a reader is thrown away', M + 'outbox.rs','        if length == 0 && !first.text.is_empty() {\n            return None;','        if length == 0 && !first.text.is_empty() {\n            self.held.pop_front();\n            return None;'),
 ('the end of the channel is not followed by the connection', M + 'node/direct.rs','        out.push(Effect::Follow(LinkId::PARENT));',''),
 ('a child that has moved is not followed', M + 'node/children.rs','                out.push(Effect::Follow(link));','                let _ = link;'),
 ('a link moves without a goodbye', M + 'node/direct.rs','out.push(Effect::Send(link, goodbye.encode().to_vec()));','let _ = goodbye;'),
 ('who was reached does not move', M + 'node/direct.rs','(Own::Dialling, true) => self.direct.own = Own::Reached,','(Own::Dialling, true) => { self.direct.own = Own::Stays; self.direct.asked = false; }'),
 ('a host that has to be direct joins without', M + 'node/direct.rs','        let missing = self.asked && self.own != Own::Moved;','        let missing = false;'),
 ('a host that cannot be direct is kept', M + 'node/direct.rs','        } else if self.direct.settings.links == Links::Direct {\n            self.end_by_force','        } else if false {\n            self.end_by_force'),
 ('a link that stays is not told of', M + 'node/direct.rs','self.news.extend(child.host().map(|host| News::Link(host, false)));','let _ = child;'),
 ('who was released is signalled to end', M + 'node/leaving.rs','if matches!(self.role, Role::Member(_)) && !self.released {','if matches!(self.role, Role::Member(_)) {'),
 ('hosts of which everybody was released are lost', M + 'node/front.rs','if front.roster.any_left(blocks) {','if true {'),
 ('a release is not told of', M + 'node/leaving.rs','            self.news.push(News::Released(rank));','            let _ = rank;'),
 ('signals are not passed on', M + 'node/leaving.rs','self.pass_down(&Down::Signal(signal), out);',''),
 ('who ends with its host says that it is alone', M + 'node/leaving.rs','self.stage == Stage::Ending && self.released;','self.stage == Stage::Ending;'),
 ('nobody is at the top', M + 'node/tree.rs','top.is_none() && branches.len() == 1','false'),
 ('everybody is told of all who are below his parent', M + 'node/tree.rs','Self::send_roll(branch.link, &absent, &branch.ranks,','Self::send_roll(branch.link, &absent, &below,'),
 ('who is lost on the way up is not told of', M + 'node/tree.rs','            lost: below,','            lost: { let _ = below; Ranks::new() },'),
 ('a link that is gone is not cut', M + 'node/tree.rs','            out.push(Effect::Cut(link));','            let _ = (link, out);'),
 ('a link is cut twice', M + 'node/tree.rs','talks.is_some_and(std::mem::take)','talks.is_some_and(|talks| *talks)'),
 ('frames of a child are taken for news', M + 'node/children.rs','if child.talks && Self::is_talk(header) =>','if child.talks && false =>'),
 ('let hosts that hang fill the window', M + 'node/starting.rs','Duration::from_secs(3)','Duration::from_secs(3_000)'),
]

# Known to go unnoticed within the seeds that are tried: checks that the simulation still owes.
UNNOTICED = [
 # Only of one that is released and has fallen silent.
 ('who was released is killed when it is silent', M + 'node/ending.rs','            if child.released {\n                // It is not','            if false {\n                // It is not'),
 # Only when the front end has given up waiting for what is on its way; a test of tree.rs notices.
 ('who is not awaited stays in the tree', M + 'node/tree.rs','            ranks.remove_all(&surplus);','            let _ = &surplus;'),
 ('forget what was tried below a lost leader', M + 'node/children.rs','task.attempt = task.attempt.max(*attempt);','let _ = task;'),
]


def chosen(mutants, words):
    return [mutant for mutant in mutants if not words or any(word in mutant[0] for word in words)]


def survives(tree, target, file, old, new):
    """Whether the simulation passes although this has been put in the place of that."""
    path = os.path.join(tree, file)
    with open(path) as source:
        text = source.read()
    if text.count(old) < 1:
        sys.exit(f"{file}: there is no {old!r} any more; bring this list up to date")
    with open(path, "w") as source:
        source.write(text.replace(old, new, 1))
    environment = dict(os.environ, CARGO_TARGET_DIR=target, LIBI_SEEDS="0..1500")
    command = ["cargo", "test", "--quiet", "--release", "-p", "libi-launch", "--test", "simulation"]
    build = subprocess.run(command + ["--no-run"], cwd=tree, env=environment)
    if build.returncode != 0:
        sys.exit(f"{file}: the mutant is not a program")
    try:
        # A mutant that hangs is caught as well.
        run = subprocess.run(command, cwd=tree, env=environment, capture_output=True, timeout=300)
        return run.returncode == 0
    except subprocess.TimeoutExpired:
        return False
    finally:
        with open(path, "w") as source:
            source.write(text)


def main():
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    caught, survivors = 0, []
    with tempfile.TemporaryDirectory() as place:
        tree = os.path.join(place, "tree")
        shutil.copytree(root, tree, ignore=shutil.ignore_patterns("target", ".git"))
        for name, *mutation in chosen(MUTANTS, sys.argv[1:]):
            if survives(tree, os.path.join(place, "target"), *mutation):
                survivors.append(name)
                print(f"SURVIVED  {name}", flush=True)
            else:
                caught += 1
                print(f"caught    {name}", flush=True)
        for name, *mutation in chosen(UNNOTICED, sys.argv[1:]):
            if not survives(tree, os.path.join(place, "target"), *mutation):
                print(f"caught    {name}: it can move to the list of those that have to be", flush=True)
            else:
                print(f"unnoticed {name}, as known", flush=True)
    print(f"{caught} passed, {len(survivors)} failed")
    sys.exit(bool(survivors))


main()
