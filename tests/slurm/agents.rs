//! Any programs through srun.

use libi_testkit::labs::Slurm;
use libi_testkit::{native, programs};

use crate::jobs::said;

#[test]
fn any_program_runs_on_32_nodes_in_a_job_and_outside() {
    let Some(lab) = Slurm::up() else { return };
    let words = ["run", "--hosts", "s[0001-0032]:2", "--tag", "sh", "-c", "echo $LIBI_HOST $SLURMD_NODENAME"];
    let mut outside = lab.plain(programs::libi());
    native::without_job(&mut outside).args(["run", "--backend", "srun"]).args(&words[1..]);
    let in_job = lab.salloc(&["-Q", "-N", "32"], &[&[programs::libi()], &words[..]].concat());
    for mut command in [outside, in_job] {
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", said(&output));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let mut lines: Vec<_> = text.lines().collect();
        lines.sort_by_key(|line| line[1..].split(']').next().unwrap().parse::<u32>().unwrap());
        let expected = (0..64).map(|rank| format!("[{rank}] s{0:04} s{0:04}", rank / 2 + 1));
        assert_eq!(lines, expected.collect::<Vec<_>>(), "{}", said(&output));
        lab.nothing_is_left();
    }
}

#[test]
fn a_long_file_is_on_32_nodes_before_their_programs() {
    let Some(lab) = Slurm::up() else { return };
    let file = native::scratch().join(format!("slurm-long-{}", std::process::id()));
    std::fs::File::create(&file).unwrap().set_len(4_000_000).unwrap();
    let mut command = lab.plain(programs::libi());
    native::without_job(&mut command).args(["run", "--backend", "srun", "--hosts", "s[0001-0032]"]);
    command.arg("--stage").arg(&file).args(["sh", "-c", "cat $LIBI_STAGE/* | wc -c"]);
    let output = command.output().unwrap();
    std::fs::remove_file(file).unwrap();
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "4000000\n".repeat(32), "{}", said(&output));
    lab.nothing_is_left();
}
