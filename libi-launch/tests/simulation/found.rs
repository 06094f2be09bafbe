//! Seeds that have found defects, of the launch machine or of the checks. Every run tries them again.

use crate::run;
use crate::scenario::Scenario;
use crate::seeds::check_all;

/// Seeds that have found defects: a wake-up in the past, repeated for ever; hosts that hung and
/// delayed all others; attempt numbers that restarted below a lost leader; a leader that gave up
/// hosts because it ended itself; and one in the checks: a banner of a program that had not run yet.
const FOUND: [u64; 5] = [33, 6_934, 6_717, 4_087, 479_352_838_380];

/// Seeds that have found defects since policies are drawn: hosts that an ending leader gave up for
/// good.
const FOUND_WITH_POLICIES: [u64; 1] = [47];

/// Seeds that have found defects since links are direct, and members print, detach and receive
/// signals: detached leaders that were killed when the session ended; a leader that ended with its
/// host and reported no dependents; a host that was tried too often, because its new launcher did
/// not know of earlier attempts; and the defect of seed 47 with links.
const FOUND_WITH_LINKS: [u64; 4] = [5, 1_183, 3_850, 2_184];

/// Seeds that have found defects since some hosts cannot launch others: a host that joined a
/// session which was given up already, and counted.
const FOUND_WITH_BLOCKED_LAUNCHERS: [u64; 1] = [684];

/// Seeds that have found defects since the launch may settle: an estimate that took answers of a
/// narrow window for a queue; and in the checks, a blocked launcher whose failures were taken for
/// those of its hosts, a deadline of which launchers 30 levels deep hear late, and starts that the
/// system had refused and that took resources for ever, and messages that were still on their way
/// through 700 levels; and failures at a launcher that was in doubt when the session went up; and a
/// front end without resources that kept all hosts, because one leader could not launch; and a host that
/// joined when the session was up without it, and counted; and in the checks, a host whose number of
/// losses was forgotten with the leaders above it, and processes whose end the front end could not know
/// yet when the session went up; and a blocked leader whose first refusal comes after many further
/// launches.
const FOUND_WITH_SETTLE: [u64; 12] = [
    10_171,
    15_114,
    26_047,
    61_717,
    5_007_556,
    50_200_510_576,
    406_602_731_430,
    410_851_890_300,
    125_664_351_180,
    1_003_854_967_667,
    1_003_855_185_530,
    502_961_700_140,
];

/// The same, in small clusters: in the checks, a spare whose launch was refused for lack of resources; a
/// failure at a launcher that was in doubt when the session settled at once; links that ended just before
/// the user ended the session, because a process had been silent for long; hosts whose attempts went on
/// below a frozen process; and programs that had ended, with an open link, and took resources for ever. In
/// the machine: an assumed length of a turn that grew with each part of a static tree that came back, until
/// hosts waited for minutes between two starts; and hosts that came back to a leader when it ended, and
/// were given up for that.
///
/// The last two tell the last attempt at a host by number from the last by time. The first withdraws a launch
/// before it meets its fate.
const FOUND_WITH_SETTLE_AND_FEW_HOSTS: [u64; 11] = [
    67_687_351_667,
    502_961_159_341,
    630_175_690_049,
    406_602_466_265,
    406_602_564_885,
    406_602_594_980,
    406_602_611_955,
    406_602_672_490,
    125_664_810_185,
    125_664_775_047,
    125_664_903_053,
];

/// Seeds that have found defects since hosts are started in bulk: starters that counted as in flight
/// as long as their programs ran; hosts launched in the step in which the launch was given up;
/// evidence that a later, weaker one replaced.
const FOUND_WITH_BULK_STARTS: [u64; 4] = [33, 35, 40, 351];
/// The same, in small clusters; and a check that did not wait for the news of a death, and one that
/// missed the end of a program whose starter had ended before.
const FOUND_WITH_FEW_HOSTS: [u64; 5] = [7_002_162, 7_002_322, 8_002_687, 195_473_827_038, 403_090];

/// Seeds that have found defects since `srun` starts hosts: a host that was started although the
/// refusal of others had ended the launch; a session that went up while `srun` ended its hosts,
/// because one could not be started; hosts that were given up because they were ended like that;
/// and a spare for a host whose start was refused for good, which was never launched. In the checks,
/// hosts that were ended with others in a launch that was given up at the same time, and hosts that
/// had arrived, and closed their links or ended before they were killed with others.
///
/// The seventh has a start that is cancelled while others are divided; in the eighth the launch is given
/// up for a host, and one that was ended because of it was given up for another reason.
///
/// In the ninth, members that are ended with their killed starter made their hosts fail for good, and in
/// the eleventh such a member of a host below a relay; in the tenth, a host that was ended because of another
/// failed when all its evidence had arrived. In the last three, in the checks, a program ends by itself after
/// its starter was killed, a starter is killed as it is about to end by itself, and hosts that had joined were
/// ended with others too often.
const FOUND_WITH_SRUN: [u64; 14] = [
    81,
    201,
    1_093,
    345_453_659_369,
    500_013_311,
    1_039_349_210_670,
    500_027_841,
    78_017_900,
    77_002_239,
    79_016_463,
    77_001_920,
    738_129_387_988,
    689_935_368_137,
    250_875_639_730,
];

/// Seeds that have found defects since leaders are redirected to relays: a host that was sent to a
/// relay that was ending, and was given up with it; a host that was launched in the step in which the
/// deadline passed; and in the checks, sessions that had lost hosts by `srun` after they were up, a
/// start that had waited for too long and went on, a host that cannot be started and has printed
/// nothing, and a host that was lost in the step in which the session went up.
const FOUND_WITH_RELAYS: [u64; 7] = [
    977_116_515_280,
    630_175_693_840,
    45_758_904_364,
    45_758_921_465,
    77_124_338,
    1_040_951_283_641,
    406_605_463_829,
];

/// Seeds that have found defects since agents lead hosts: hosts that the front end had given to a
/// child for lack of resources, and that were forgotten when the child handed them back; hosts that a
/// child had tried, and that the front end gave to another one after its own try; further shares for
/// children whose launches block, which launched more than 100 hosts in vain for it; and in the checks,
/// agents behind long ways, and a host that the front end could not start and another might.
const FOUND_WITH_AGENTS: [u64; 5] =
    [326_222_390_825, 326_222_396_850, 602_901_925_481, 505_254_620_796, 650_015_220];

/// Seeds that have found defects since files are staged, in the checks: messages behind pieces on slow
/// links, hosts below one that has failed for its files, bytes for hosts that have failed, a machine
/// that was replaced and launched all the same below a frozen process, and two attempts of one number
/// below one; and one in the machine: more bytes on their way to all children than the budget has.
///
/// Then, in the checks, an agent that ended while its last piece was being checked; and launchers that
/// are cut off and hear of it behind pieces on slow links, and until then launch hosts that are given up
/// or replaced above them; and a host whose link broke after all its members had left.
const FOUND_WITH_STAGING: [u64; 10] = [
    2_926,
    2_028,
    88_001_420,
    88_001_009,
    479_352_740_080,
    479_352_739_580,
    973_873_973_089,
    973_873_974_002,
    973_873_978_921,
    343_446_689_591,
];

/// Seeds that have found defects since commands run in sessions, in the checks: output of members behind
/// much output of commands, and commands at once, which take more steps; and too many of them, in a tree
/// of 800 levels; and hosts that were ended with others as often as is allowed, whose verdicts did not say
/// so. In the machine: a process that could not be started, and was said to have ended by the signal that it
/// was to get.
const FOUND_WITH_COMMANDS: [u64; 5] =
    [77_000_325, 19_410_429_100, 990_000_027_410, 500_010_000, 480_836_915_359];

/// Seeds that have found defects since output is merged, in the checks: ends behind output that each of 352
/// levels may hold for a second; and in the machine, a tree of 450 levels: launchers with resources for
/// three launches gave all hosts that waited to the first child. In the checks again: output over slow
/// links that was still arriving, 200 KB in each second.
const FOUND_WITH_FOLDS: [u64; 3] = [174_869_730_180, 283_371_951_800, 418_571_318_327];
/// The same, in small clusters: in the machine, queues beyond their bound that let out one line for each
/// that came, a third of a million frames for six megabytes; in the checks, again hosts that were ended with
/// others as often as is allowed.
const FOUND_WITH_FOLDS_AND_FEW_HOSTS: [u64; 2] = [275_019_946_864, 275_019_940_270];

/// Seeds that have found defects since there are front ends that reach only the first host: one with
/// unlimited attempts that left no host to others.
const FOUND_WITH_A_FAR_FRONT_END: [u64; 1] = [560_570_478_595];

/// Seeds that have found defects since hosts that the front end has launched move: the end of a process was
/// told of the next one on that host, moves counted as proof that launching works, hosts that a leader
/// handed back were not ended, and a link that breaks during the move was no attempt. And a host that
/// no other could launch was given up with attempts left; one of them while launches were in flight that
/// had been silent for long.
const FOUND_WITH_MOVES: [u64; 7] =
    [4_242_801, 99_000_600, 99_000_807, 99_004_534, 31_415_247, 31_415_648, 267_142_154_931];

/// In the checks: hosts that went through two levels of leaders and back, each of which tried them; and
/// a process whose last message, that it had detached, was lost with its link to the leader; a host that
/// never answers, whose last launch failed for want of resources; and one of 1,300 children of a process,
/// which began to connect directly 66 ms before the end.
const FOUND_WITH_PASSES: [u64; 6] =
    [240_484_746_520, 240_484_749_209, 240_484_750_223, 614_466_635_882, 220_865_123_581, 220_865_124_570];

#[test]
fn launches_that_have_found_defects_end_with_a_true_verdict() {
    let found = FOUND.into_iter().map(Scenario::new);
    let found = found.chain(FOUND_WITH_POLICIES.into_iter().map(Scenario::with_policies));
    let found = found.chain(FOUND_WITH_LINKS.into_iter().map(Scenario::with_links));
    let found = found.chain(FOUND_WITH_BLOCKED_LAUNCHERS.into_iter().map(Scenario::with_blocked_launchers));
    let found = found.chain(FOUND_WITH_SETTLE.into_iter().map(Scenario::with_settle));
    let found = found.chain(FOUND_WITH_BULK_STARTS.into_iter().map(Scenario::with_bulk_starts));
    let found = found.chain(FOUND_WITH_FOLDS.into_iter().map(Scenario::with_folds));
    let few = FOUND_WITH_FEW_HOSTS.into_iter().map(Scenario::with_bulk_starts);
    let by_srun = FOUND_WITH_SRUN.into_iter().chain(FOUND_WITH_RELAYS);
    let few = few.chain(by_srun.map(Scenario::with_srun));
    let few = few.chain(FOUND_WITH_AGENTS.into_iter().map(Scenario::with_agents));
    let few = few.chain(FOUND_WITH_COMMANDS.into_iter().map(Scenario::with_commands));
    let few = few.chain(FOUND_WITH_FOLDS_AND_FEW_HOSTS.into_iter().map(Scenario::with_folds));
    let few = few.chain(FOUND_WITH_STAGING.into_iter().map(Scenario::with_staging));
    let few = few.chain(FOUND_WITH_MOVES.into_iter().chain(FOUND_WITH_PASSES).map(Scenario::with_settle));
    let few = few.chain(FOUND_WITH_SETTLE_AND_FEW_HOSTS.into_iter().map(Scenario::with_settle));
    let few = few.chain(FOUND_WITH_A_FAR_FRONT_END.into_iter().map(Scenario::with_a_far_front_end));
    let found = found.chain(few.map(Scenario::mostly_small));
    check_all(found, |scenario| run(scenario).map(drop));
}
