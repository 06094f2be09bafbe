//! Much output, equal output, and readers that stop.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Stdio};

use libi_testkit::local::{Lab, eventually};

use super::{libi, local, run};

#[test]
fn output_that_is_not_taken_at_once_arrives_to_its_last_byte() {
    // More than what agents, links and pipes hold when the programs have ended.
    let script = "seq -f 'line %06.0f of 16 bytes' 1 40000; echo end $LIBI_RANK";
    for style in ["--label", "--tag"] {
        let (status, out, err) = run(&local(&["-w", "n[1-2]:2", style, "sh", "-c", script]));
        let ends = out.lines().filter(|line| line.contains(" end ")).count();
        assert_eq!((status, err.as_str(), out.lines().count(), ends), (0, "", 4 * 40_001, 4), "{style}");
    }
}

/// How often each rank is named in labels `[HOSTS:RANKS]` before this text.
fn labelled(err: &str, text: &str) -> BTreeMap<u32, usize> {
    let mut times = BTreeMap::new();
    for line in err.lines().filter_map(|line| line.strip_suffix(text)) {
        let ranks = line.trim_end().trim_end_matches(']').rsplit(':').next().unwrap();
        for run in ranks.split(',') {
            let (first, last) = run.split_once('-').unwrap_or((run, run));
            for rank in first.parse::<u32>().unwrap()..=last.parse().unwrap() {
                *times.entry(rank).or_default() += 1;
            }
        }
    }
    times
}

#[test]
fn folded_output_is_whole_for_each_rank_although_it_is_merged_on_the_way() {
    let script = "seq 1 3000; echo warning >&2; echo host $LIBI_HOST; seq 3000 -1 1; printf 'no end'
        [ $LIBI_RANK != 5 ] || exit 7";
    let (status, out, err) = run(&local(&["-w", "n[1-4]:2", "--fold", "sh", "-c", script]));
    let numbers = |numbers: &mut dyn Iterator<Item = u32>| -> String {
        numbers.map(|number| format!("{number}\n")).collect()
    };
    let (up, down) = (numbers(&mut (1..=3_000)), numbers(&mut (1..=3_000).rev()));
    let of_host = |host: u32| {
        let (first, last) = (2 * host - 2, 2 * host - 1);
        format!("---- ranks {first}-{last} on n{host}\n{up}host n{host}\n{down}no end\n")
    };
    assert!(out == (1..=4).map(of_host).collect::<String>(), "{out}");
    let each_once = (0..8).map(|rank| (rank, 1)).collect();
    assert_eq!((status, labelled(&err, "warning")), (1, each_once), "{err}");
    assert!(err.contains("libi: rank 5 on n3 exited 7\n"), "{err}");
}

/// The most memory that a process has had, in bytes.
fn most_memory(child: &Child) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).ok()?;
    let value = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(value.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1_000)
}

/// How much the processes with this variable have written.
fn written(variable: &str) -> u64 {
    let processes = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    let has_it =
        |environment: Vec<u8>| environment.split(|byte| *byte == 0).any(|it| it == variable.as_bytes());
    let ours = processes.filter(|process| std::fs::read(process.join("environ")).is_ok_and(has_it));
    let bytes = |process: PathBuf| {
        let io = std::fs::read_to_string(process.join("io")).ok()?;
        io.lines().find_map(|line| line.strip_prefix("wchar:")?.trim().parse::<u64>().ok())
    };
    ours.filter_map(bytes).sum()
}

/// Waits until these processes write no more; returns how much they have written.
fn await_standstill(variable: &str) -> u64 {
    let (mut last, mut since) = (0, std::time::Instant::now());
    eventually("those who print are held up", || {
        let now = written(variable);
        if now != last {
            (last, since) = (now, std::time::Instant::now());
        }
        now > 1_000_000 && since.elapsed() > std::time::Duration::from_secs(1)
    });
    last
}

#[test]
fn a_report_is_the_json_document_in_a_file() {
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("run-report.json");
    let path = path.to_str().unwrap();
    let words = ["--report", path, "--hosts", "a,b", "sh", "-c", "echo text; exit $LIBI_RANK"];
    let (status, out, err) = run(&local(&words));
    let told = "libi: rank 1 on b exited 1\n".to_owned();
    assert_eq!((status, out, err), (1, "text\ntext\n".to_owned(), told));
    let document: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let of_last = serde_json::json!({ "rank": 1, "host": "b", "exit": { "code": 1 } });
    assert_eq!((&document["exit_status"], &document["ranks"][1]), (&1.into(), &of_last));

    let (status, out, err) = run(&local(&["--report", "/no/such/directory/file", "sh", "-c", "echo text"]));
    assert_eq!((status, out.as_str()), (2, ""), "nothing is launched");
    assert!(err.contains("/no/such/directory/file"), "{err}");
}

mod slow {
    use super::*;

    const RANKS: usize = 64;
    /// The lines that each rank prints; all together 100 MB.
    const LINES: usize = 15_625;

    /// Runs 64 ranks that print 100 MB together, while the reader stops at first; checks all lines, and
    /// returns the most memory that the front end has had.
    fn flood(style: &[&str]) -> u64 {
        let lab = Lab::new();
        let (go, alive) = (lab.path("go"), lab.path("alive"));
        // Each line is written at once: the halves of one that is written in two may come apart.
        // Rank 0 prints nothing before it was seen to work on while the others are held up.
        let filler = "x".repeat(100 - "00 00000 \n".len());
        let script = format!(
            "r=$(printf %02d $LIBI_RANK)
             if [ $r = 00 ]; then until [ -e {go} ]; do sleep 0.05; done; touch {alive}; fi
             exec stdbuf -oL seq -f \"$r %05.0f {filler}\" 1 {LINES}"
        );
        let variable = format!("LIBI_TEST_FLOOD={go}");
        let words = [&["-w", "n[1-8]:8", "-x", &variable], style, &["sh", "-c", &script]].concat();
        let mut child = libi(&local(&words)).stdout(Stdio::piped()).spawn().unwrap();
        let written = await_standstill(&variable);
        assert!(written < 20_000_000, "{written} bytes were printed although none was taken");
        lab.touch("go");
        eventually("a rank that does not print works on", || std::path::Path::new(&alive).exists());
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let (mut next, mut line, mut most) = ([1; RANKS], Vec::new(), 0);
        let mut total = 0;
        while lines.read_until(b'\n', &mut line).unwrap() > 0 {
            let text = std::str::from_utf8(&line).unwrap();
            let text = match style {
                [] => text,
                _ => {
                    let (label, text) = text.split_once("] ").unwrap();
                    let rank: usize = text[..2].parse().unwrap();
                    assert_eq!(label, format!("[n{}:{rank}", rank / 8 + 1));
                    text
                }
            };
            let rank: usize = text[..2].parse().unwrap();
            assert_eq!(text, format!("{rank:02} {:05} {filler}\n", next[rank]));
            next[rank] += 1;
            total += text.len();
            if total % 1_000_000 == 0 {
                most = most_memory(&child).unwrap_or(0).max(most);
            }
            line.clear();
        }
        assert_eq!((total, next), (100_000_000, [LINES + 1; RANKS]));
        assert!(child.wait().unwrap().success());
        println!("{style:?}: the front end had at most {most} bytes");
        most
    }

    #[test]
    fn a_hundred_megabytes_arrive_whole_and_in_bounded_memory_after_their_reader_has_stopped() {
        let raw = flood(&[]);
        assert!(raw < 60_000_000, "{raw} bytes");
    }

    #[test]
    fn labelled_lines_are_whole_in_a_hundred_megabytes() {
        let labelled = flood(&["--label"]);
        assert!(labelled < 60_000_000, "{labelled} bytes");
    }
}
