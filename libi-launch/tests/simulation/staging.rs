//! Scenarios in which files are staged, and what must hold in them.
//!
//! Disks may be full, slow, or hold something else than was written; links to some hosts are slow.
//! The bytes of the files follow from their place, so that each host can tell whether it has them.

use std::collections::BTreeMap;
use std::fs::File;
use std::sync::OnceLock;
use std::time::Duration;

use libi_core::join::MemberRole;
use libi_core::sim::rng::Rng;
use libi_core::sim::{Agenda, MachineId as Id};
use libi_core::time::Instant;
use libi_core::wire::{Kind, encode_bytes};
use libi_launch::failure::Cause;
use libi_launch::machine::{Event, HostState, LinkId, Node, Notice, PIECE, PLACE, staged_payload};
use libi_launch::options::LaunchOptions;
use libi_launch::staging::Staging;

use crate::scenario::Scenario;
use crate::world::{Cluster, FRONT};

/// How many bytes the files may have.
const SIZES: [u64; 5] = [0, 1_000, 65_536, 300_000, 3_000_000];
/// What a node may have sent to all children and not heard of, and what to each.
const BUDGET: u64 = 64 << 20;
const WINDOW: u64 = 1 << 20;
/// How many nanoseconds the slowest link takes for a byte.
const SLOWEST: u64 = 4_000;
/// The reasons of a disk.
const FULL: &str = "no space left on device";
const WRONG: &str = "has the wrong hash";

/// What may go wrong with staged files.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct StagingTrouble {
    size: usize,
    keep: bool,
    /// The fractions of machines whose disk is full from the beginning, becomes full, or corrupts.
    full: f64,
    fills: f64,
    corrupts: f64,
    /// The fractions of machines with a slow disk, and with a slow link.
    slow_disks: f64,
    slow_links: f64,
    /// A machine with the slowest link.
    pub(crate) slow_host: Option<&'static str>,
    /// The fraction of connections between hosts that break while files are sent there.
    cuts: f64,
}

impl StagingTrouble {
    /// The longest files, with such fractions of connections that break and of slow links.
    pub(crate) fn of_the_largest(cuts: f64, slow_links: f64) -> Self {
        let [full, fills, corrupts, slow_disks] = [0.0; 4];
        let (size, keep, slow_host) = (SIZES.len() - 1, false, None);
        Self { size, keep, full, fills, corrupts, slow_disks, slow_links, slow_host, cuts }
    }
}

/// What the disk of a machine does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DiskFate {
    Works,
    Full,
    FillsAt(u64),
    Corrupts,
}

/// The files of one process.
#[derive(Clone, Copy, Debug, Default)]
struct Disk {
    written: u64,
    /// Whether its agent knows that all is written: it has sought or started its programs.
    is_complete: bool,
    is_removed: bool,
    completed_at: Instant,
}

/// The disks of all machines, and what was sent to them.
#[derive(Debug, Default)]
pub(crate) struct Disks {
    disks: BTreeMap<Id, Disk>,
    pub(crate) sent: BTreeMap<(Id, LinkId), u64>,
    /// What the user was told last.
    told: Option<(u64, u64)>,
    pub(crate) wrong: Option<String>,
}

/// The byte of the files at this place.
fn byte(at: u64) -> u8 {
    (at ^ at >> 8).wrapping_mul(167) as u8
}

/// Files of this size; their content is that of the model.
fn files(size: usize) -> &'static Staging {
    static FILES: [OnceLock<Staging>; SIZES.len()] = [const { OnceLock::new() }; SIZES.len()];
    FILES[size].get_or_init(|| {
        let name = format!("staged-{}-{size}", std::process::id());
        let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        File::create(&path).unwrap().set_len(SIZES[size]).unwrap();
        let files = Staging::new().file(&path).unwrap();
        std::fs::remove_file(path).unwrap();
        files
    })
}

impl Scenario {
    /// The scenario of a seed with staged files. Drawn from a separate stream.
    pub(crate) fn with_staging(seed: u64) -> Self {
        let mut scenario = Self::with_agents(seed);
        let mut rng = Rng::new(seed).fork(40);
        let mut fraction = |of: [f64; 5]| of[rng.below(5) as usize];
        scenario.staging = Some(StagingTrouble {
            full: fraction([0.0, 0.0, 0.0, 0.1, 0.5]),
            fills: fraction([0.0, 0.0, 0.0, 0.1, 0.5]),
            corrupts: fraction([0.0, 0.0, 0.0, 0.0, 0.2]),
            slow_disks: fraction([0.0, 0.0, 0.3, 0.3, 1.0]),
            slow_links: fraction([0.0, 0.0, 0.0, 0.1, 0.5]),
            keep: rng.chance(0.3),
            slow_host: None,
            size: rng.below(SIZES.len() as u64) as usize,
            cuts: [0.0, 0.0, 0.0, 0.2, 1.0][rng.below(5) as usize],
        });
        scenario
    }

    /// Adds the files to the options of the launch.
    pub(crate) fn staging_options(&self, options: LaunchOptions) -> LaunchOptions {
        let Some(trouble) = self.staging else { return options };
        let files = files(trouble.size).clone();
        options.stage(if trouble.keep { files.keep() } else { files })
    }

    /// Whether hosts may fail because they cannot get the files.
    pub(crate) fn may_lack_files(&self) -> bool {
        let fails = |trouble: StagingTrouble| trouble.full + trouble.fills + trouble.corrupts > 0.0;
        // A slow link may be too slow.
        self.staging.is_some_and(|trouble| fails(trouble) || trouble.slow_links > 0.0)
    }

    /// The fraction of connections between hosts that break.
    pub(crate) fn file_link_cuts(&self) -> f64 {
        self.staging.map_or(0.0, |trouble| trouble.cuts)
    }

    pub(crate) fn staged_bytes(&self) -> u64 {
        self.staging.map_or(0, |trouble| SIZES[trouble.size])
    }

    fn of_machine(&self, name: &str, stream: u64) -> Rng {
        let digits: u64 = name.bytes().fold(0, |all, byte| all << 5 ^ u64::from(byte));
        Rng::new(self.seed).fork(stream).fork(digits)
    }

    fn disk_fate(&self, name: &str) -> DiskFate {
        let Some(trouble) = self.staging else { return DiskFate::Works };
        let mut rng = self.of_machine(name, 41);
        if rng.chance(trouble.full) {
            DiskFate::Full
        } else if rng.chance(trouble.fills) && self.staged_bytes() > 0 {
            DiskFate::FillsAt(rng.below(self.staged_bytes()))
        } else if rng.chance(trouble.corrupts) && self.staged_bytes() > 0 {
            DiskFate::Corrupts
        } else {
            DiskFate::Works
        }
    }

    /// How long the disk of a machine takes for a piece.
    fn disk_delay(&self, name: &str) -> Duration {
        let slow = self.staging.map_or(0.0, |trouble| trouble.slow_disks);
        let mut rng = self.of_machine(name, 42);
        if rng.chance(slow) { Duration::from_micros(rng.below(20_000)) } else { Duration::ZERO }
    }

    /// How long the link to a machine takes for so many bytes.
    fn link_delay(&self, name: &str, length: u32) -> Duration {
        let slow = self.staging.map_or(0.0, |trouble| trouble.slow_links);
        let mut rng = self.of_machine(name, 43);
        let mut nanos_per_byte = if rng.chance(slow) { rng.below(SLOWEST) } else { 0 };
        if self.staging.and_then(|trouble| trouble.slow_host) == Some(name) {
            nanos_per_byte = SLOWEST;
        }
        Duration::from_nanos(nanos_per_byte * u64::from(length))
    }

    /// How long a message may wait behind pieces that were sent before it.
    pub(crate) fn behind_pieces(&self) -> Duration {
        let has_slow_links = self.staging.is_some_and(|trouble| trouble.slow_links > 0.0);
        if has_slow_links { Duration::from_nanos(SLOWEST * WINDOW) } else { Duration::ZERO }
    }
}

impl Cluster {
    fn wrong_staging(&mut self, what: String) {
        self.disks.wrong.get_or_insert(what);
    }

    fn machine_name(&self, id: Id) -> &str {
        &self.processes[id.0 as usize].name
    }

    fn tell_staged(&mut self, from: Id, written: Result<u64, &str>, agenda: &mut Agenda<Self>) {
        let at = agenda.now() + self.scenario.disk_delay(self.machine_name(from));
        agenda.tell(at, from, Event::Staged(written.map_err(str::to_owned)).into());
    }

    /// An agent makes room for the files.
    pub(crate) fn open_stage(&mut self, from: Id, agenda: &mut Agenda<Self>) {
        if self.disks.disks.contains_key(&from) {
            self.wrong_staging(format!("{from:?} opens its files twice"));
        }
        match self.scenario.disk_fate(self.machine_name(from)) {
            DiskFate::Full => self.tell_staged(from, Err(FULL), agenda),
            _ => {
                self.disks.disks.insert(from, Disk::default());
                self.tell_staged(from, Ok(0), agenda);
            }
        }
    }

    /// An agent writes the next bytes.
    pub(crate) fn write_staged(&mut self, from: Id, bytes: &[u8], agenda: &mut Agenda<Self>) {
        let total = self.scenario.staged_bytes();
        let fate = self.scenario.disk_fate(self.machine_name(from));
        let Some(disk) = self.disks.disks.get_mut(&from) else {
            if fate == DiskFate::Full {
                // The agent does not know it yet.
                return self.tell_staged(from, Err(FULL), agenda);
            }
            return self.wrong_staging(format!("{from:?} writes where nothing was opened"));
        };
        let are_right = (disk.written..).zip(bytes).all(|(at, found)| *found == byte(at));
        disk.written += bytes.len() as u64;
        let written = disk.written;
        if !are_right || written > total {
            return self.wrong_staging(format!("{from:?} got other bytes than it should, before {written}"));
        }
        let result = match fate {
            DiskFate::FillsAt(at) if written > at => Err(FULL),
            DiskFate::Corrupts if written == total => Err(WRONG),
            _ => Ok(written),
        };
        self.tell_staged(from, result, agenda);
    }

    /// A node sends bytes of the files to a child.
    pub(crate) fn send_staged(
        &mut self,
        from: Id,
        link: LinkId,
        at: u64,
        length: u32,
        agenda: &mut Agenda<Self>,
    ) {
        let (total, end) = (self.scenario.staged_bytes(), at + u64::from(length));
        let has =
            if from == FRONT { total } else { self.disks.disks.get(&from).map_or(0, |disk| disk.written) };
        // A child that has lost its source goes on where it was.
        let sent = self.disks.sent.entry((from, link)).or_insert(at);
        if *sent != at || end > has || u64::from(length) > PIECE || length == 0 {
            let sent = *sent;
            return self.wrong_staging(format!(
                "{from:?} has {has} bytes, has sent {sent} on {link}, and sends {length} from {at} on"
            ));
        }
        *sent = end;
        self.check_held(from, link);
        let mut payload = staged_payload(at, length);
        (at..).zip(&mut payload[PLACE..]).for_each(|(at, place)| *place = byte(at));
        let child = self.processes[from.0 as usize].started.get(&link).map(|child| (*child, LinkId::PARENT));
        if let Some((child, at)) = child.or_else(|| self.file_links.client((from, link))) {
            let delay = self.scenario.link_delay(self.machine_name(child), length);
            self.delay_link(child, at, delay, agenda.now());
        }
        self.send(from, link, encode_bytes(Kind::Staged, &payload).unwrap(), agenda);
    }

    /// Checks that a node has read no more for its children than it may.
    fn check_held(&mut self, from: Id, link: LinkId) {
        let written = |id: &Id| self.disks.disks.get(id).map_or(0, |disk| disk.written);
        let started = &self.processes[from.0 as usize].started;
        let outstanding = |link: &LinkId, child: &Id| {
            let sent = self.disks.sent.get(&(from, *link)).copied().unwrap_or(0);
            let process = &self.processes[child.0 as usize];
            // A host that has failed gets no more, and is not waited for.
            let has_failed = match self.scenario.disk_fate(&process.name) {
                DiskFate::Full => true,
                DiskFate::FillsAt(at) => sent > at,
                DiskFate::Works | DiskFate::Corrupts => false,
            };
            if process.alive && !has_failed { sent.saturating_sub(written(child)) } else { 0 }
        };
        let clients: Vec<_> = self.file_links.clients(from).collect();
        let started = started.iter().map(|(link, child)| (*link, *child)).chain(clients);
        let held = started.map(|(link, child)| (link, outstanding(&link, &child))).collect::<Vec<_>>();
        let to_child = held.iter().find(|(to, _)| *to == link).map_or(0, |(_, bytes)| *bytes);
        let all: u64 = held.iter().map(|(_, bytes)| bytes).sum();
        if to_child > WINDOW || all > BUDGET + PIECE * held.len() as u64 {
            self.wrong_staging(format!("{from:?} holds {to_child} bytes for {link}, and {all} for all"));
        }
    }

    /// An agent seeks or starts its programs, which it does when it has the files.
    pub(crate) fn has_its_files(&mut self, from: Id, now: Instant) {
        if let Some(disk) = self.disks.disks.get_mut(&from) {
            disk.completed_at = if disk.is_complete { disk.completed_at } else { now };
            disk.is_complete = true;
        }
    }

    /// When hosts had all files, in this order.
    pub(crate) fn completions(&self) -> Vec<Instant> {
        let complete = self.disks.disks.values().filter(|disk| disk.is_complete);
        let mut times: Vec<_> = complete.map(|disk| disk.completed_at).collect();
        times.sort();
        times
    }

    /// An agent removes the files.
    pub(crate) fn remove_staged(&mut self, from: Id) {
        let is_kept = self.scenario.staging.is_some_and(|trouble| trouble.keep);
        if let Some(disk) = self.disks.disks.get_mut(&from) {
            disk.is_removed = true;
            // One that ends while its last piece is being checked does not keep what it has.
            if is_kept && disk.is_complete {
                self.wrong_staging(format!("{from:?} removes what was to be kept"));
            }
        }
    }

    /// An agent ends by itself.
    pub(crate) fn check_disk_at_end(&mut self, id: Id) {
        let is_kept = self.scenario.staging.is_some_and(|trouble| trouble.keep);
        let total = self.scenario.staged_bytes();
        let left = self.disks.disks.get(&id).filter(|disk| !disk.is_removed);
        if let Some(disk) = left
            && !(is_kept && disk.written == total)
        {
            let disk = *disk;
            self.wrong_staging(format!("{id:?} leaves files behind: {disk:?}"));
        }
    }

    /// The front end tells its user how far it is.
    pub(crate) fn note_staging(&mut self, notice: &Notice) {
        let Notice::Staging { sent, of } = notice else { return };
        let before = self.disks.told.map_or(0, |(sent, _)| sent);
        if sent > of || *sent < before {
            self.wrong_staging(format!("{sent} of {of} bytes are sent, after {before}"));
        }
        self.disks.told = Some((*sent, *of));
    }
}

/// Every host that is up has every byte, and one that failed for its files has a machine that cannot
/// have them.
pub(crate) fn checks(scenario: &Scenario, world: &Cluster, front: &Node) -> Result<(), String> {
    if let Some(wrong) = &world.disks.wrong {
        return Err(wrong.clone());
    }
    if scenario.staging.is_none() {
        return Ok(());
    }
    let total = scenario.staged_bytes();
    for (id, process) in world.alive() {
        let is_leader = matches!(process.place, Some(MemberRole::Leader(_)));
        let has = world.disks.disks.get(&id).filter(|disk| !disk.is_removed).map(|disk| disk.written);
        if is_leader && process.told_up && has != Some(total) {
            return Err(format!("is up with {has:?} of {total} bytes: {process:?}"));
        }
        if is_leader && process.told_up && scenario.disk_fate(&process.name) != DiskFate::Works {
            return Err(format!("is up with a bad disk: {process:?}"));
        }
    }
    for (host, known) in (0..).zip(front.host_states()) {
        let HostState::Failed(failure) = known else { continue };
        let Cause::NotStaged(why) = &failure.cause else { continue };
        let fates = world.starts.iter().filter(|start| start.host.0 == host);
        let mut fates = fates.map(|start| scenario.disk_fate(&start.name));
        let is_true = match why.as_str() {
            FULL => fates.any(|fate| matches!(fate, DiskFate::Full | DiskFate::FillsAt(_))),
            WRONG => fates.any(|fate| fate == DiskFate::Corrupts),
            _ => why.contains("bytes have arrived") && (scenario.may_lack_files() || scenario.has_faults()),
        };
        if !is_true {
            return Err(format!("host {host} has a disk that works, and {failure:?}"));
        }
    }
    Ok(())
}
