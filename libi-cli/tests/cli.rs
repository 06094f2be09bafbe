//! Tests of the program `libi`: output, streams and exit statuses of all commands but run and doctor.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::Value;

struct Completed {
    status: i32,
    out: String,
    err: String,
}

/// Runs the program outside any job, with this text as standard input.
fn libi_with(input: &str, variables: &[(&str, &str)], arguments: &[&str]) -> Completed {
    let mut command = Command::new(env!("CARGO_BIN_EXE_libi"));
    for (name, _) in std::env::vars() {
        if ["SLURM_", "PBS_", "LSB_", "PE_"].iter().any(|prefix| name.starts_with(prefix)) {
            command.env_remove(name);
        }
    }
    command.envs(variables.iter().copied()).args(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A program that needs no input may exit before the write.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    Completed {
        status: output.status.code().unwrap(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

fn libi(arguments: &[&str]) -> Completed {
    libi_with("", &[], arguments)
}

/// The JSON output of a successful run.
fn json(arguments: &[&str]) -> Value {
    let completed = libi(arguments);
    assert_eq!((completed.status, completed.err.as_str()), (0, ""), "{arguments:?}");
    serde_json::from_str(&completed.out).unwrap()
}

/// The standard error of a run that fails with status 2 and prints nothing else.
fn usage_error(arguments: &[&str]) -> String {
    let completed = libi(arguments);
    assert_eq!((completed.status, completed.out.as_str()), (2, ""), "{arguments:?}");
    completed.err
}

const COSTS: [&str; 6] = ["--seq", "7ms", "--rem", "172ms", "--constant", "20ms"];

fn plan(hosts: &str, more: &[&str]) -> Vec<String> {
    let arguments = ["plan", "--hosts", hosts].into_iter().chain(COSTS).chain(more.iter().copied());
    arguments.map(str::to_owned).collect()
}

fn plan_json(hosts: &str, more: &[&str]) -> Value {
    let arguments = plan(hosts, more);
    json(&arguments.iter().map(String::as_str).chain(["--json"]).collect::<Vec<_>>())
}

#[test]
fn a_plan_says_what_it_costs_and_why() {
    let plan = plan_json("1000", &["--tree", "greedy"]);
    assert_eq!(plan["tree"], "greedy");
    assert_eq!(plan["hosts"], 1000);
    assert_eq!(plan["launch_time_s"], 0.609);
    assert_eq!((&plan["depth"], &plan["max_children"]), (&3.into(), &60.into()));
    let path = plan["critical_path"].as_array().unwrap();
    let sum: f64 = path.iter().map(|s| s["waited_s"].as_f64().unwrap() + s["took_s"].as_f64().unwrap()).sum();
    assert!((sum + 0.020 - 0.609).abs() < 1e-9);
    assert_eq!(path.last().unwrap()["up_s"], 0.589);
}

#[test]
fn the_ranking_has_the_33_published_values_the_fastest_first() {
    let published = [
        (
            "172ms",
            "greedy 0.609 kary:16 0.753 kary:32 0.784 kary:8 0.841 kary:64 0.896 kary:4 0.971 \
                   kary:128 1.288 kary:2 1.624 kary:256 2.156 kary:512 3.769 flat 7.178",
        ),
        (
            "2s",
            "greedy 4.272 kary:32 4.440 kary:64 4.552 kary:128 4.944 kary:256 5.812 kary:16 6.237 \
                kary:512 7.422 kary:8 8.153 flat 9.006 kary:4 10.111 kary:2 18.076",
        ),
        (
            "10s",
            "greedy 17.006 flat 17.006 kary:32 20.440 kary:64 20.552 kary:128 20.944 kary:256 21.812 \
                 kary:512 23.422 kary:16 30.237 kary:8 40.153 kary:4 50.111 kary:2 90.076",
        ),
    ];
    for (rem, expected) in published {
        let costs = ["--seq", "7ms", "--rem", rem, "--constant", "20ms", "--rank"];
        let arguments: Vec<_> = ["plan", "--hosts", "1000"].iter().chain(&costs).copied().collect();
        let with_json: Vec<_> = arguments.iter().copied().chain(["--json"]).collect();
        let ranking = json(&with_json);
        let rows: Vec<_> = ranking.as_array().unwrap().iter().collect();
        let times: Vec<f64> = rows.iter().map(|row| row["launch_time_s"].as_f64().unwrap()).collect();
        assert!(times.is_sorted());
        let words: Vec<_> = expected.split_whitespace().collect();
        let table = libi(&arguments).out;
        for pair in words.chunks(2) {
            let [tree, time] = pair else { panic!("a tree without a time") };
            let row = rows.iter().find(|row| row["tree"] == *tree).unwrap();
            assert_eq!(format!("{:.3}", row["launch_time_s"].as_f64().unwrap()), *time, "{tree} at {rem}");
            let line = table.lines().find(|line| line.split_whitespace().next() == Some(tree)).unwrap();
            assert!(line.contains(&format!(" {time} s")), "{line}");
        }
    }
}

#[test]
fn a_plan_over_a_host_list_calls_hosts_by_their_names() {
    let plan = plan_json("login,node[01-02]:8,node01,me@node02", &["--tree", "chain", "--launches"]);
    for path in [&plan["critical_path"], &plan["launches"]] {
        let named =
            |key| path.as_array().unwrap().iter().map(|s| s[key].as_str().unwrap()).collect::<Vec<_>>();
        assert_eq!(named("host"), ["node01", "node02", "me@node02"], "a host named again is one host");
        assert_eq!(named("launcher"), ["login", "node01", "node02"]);
    }
    assert_eq!(plan["launches"][1]["started_s"], 0.172);
    assert_eq!(plan_json("3", &["--tree", "chain"])["critical_path"][1]["launcher"], 1);
}

#[test]
fn every_launch_can_be_shown() {
    let arguments = plan("n[1-3]", &["--tree", "flat", "--launches"]);
    let text = libi(&arguments.iter().map(String::as_str).collect::<Vec<_>>()).out;
    let rows: Vec<Vec<_>> = text.lines().take(3).map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[1], ["n2", "n1", "0.000", "s", "0.172", "s"]);
    assert_eq!(rows[2], ["n3", "n1", "7", "ms", "0.179", "s"]);
}

#[test]
fn a_front_end_is_a_launcher_and_none_of_the_hosts() {
    let words = plan("n[1-3]", &["--front-end", "--launches"]);
    let text = libi(&words.iter().map(String::as_str).collect::<Vec<_>>()).out;
    for (row, host) in text.lines().skip(1).zip(["n1", "n2", "n3"]) {
        let mut cells = row.split("  ").filter(|cell| !cell.is_empty());
        assert_eq!((cells.next(), cells.next()), (Some(host), Some("the front end")), "{text}");
    }
    assert!(text.contains("3 hosts by late: 0.206 s, depth 1, at most 3 children"), "{text}");
    assert!(text.contains("the front end launched n3 after 2 others"), "{text}");

    // As fast as with one more host that is up from the beginning.
    let with = plan_json("1000", &["--front-end", "--launches"]);
    assert_eq!(with["launch_time_s"], plan_json("1001", &[])["launch_time_s"]);
    assert_eq!((&with["hosts"], &with["front_end"]), (&1000.into(), &true.into()));
    assert_eq!(with["launches"].as_array().unwrap().len(), 1000);
    let first = &with["launches"][0];
    assert_eq!((&first["host"], &first["launcher"]), (&0.into(), &"the front end".into()));
    assert_eq!(with["critical_path"][0]["launcher"], "the front end");

    // A static tree is laid out below the first host.
    let chain = plan_json("n[1-3]", &["--front-end", "--tree", "chain", "--launches"]);
    let launchers: Vec<_> = chain["launches"].as_array().unwrap().iter().map(|it| &it["launcher"]).collect();
    assert_eq!(launchers, ["the front end", "n1", "n2"]);
    assert_eq!(chain["launch_time_s"], 0.536);
    let ranked = plan_json("1000", &["--front-end", "--rank"]);
    assert_eq!((&ranked[0]["tree"], &ranked[0]["hosts"]), (&"late".into(), &1000.into()));
    let greedy = ranked.as_array().unwrap().iter().find(|row| row["tree"] == "greedy").unwrap();
    assert_eq!(greedy["launch_time_s"], 0.781);
}

#[test]
fn a_front_end_that_may_launch_one_host_at_a_time_is_up_later() {
    let limited =
        |most| plan_json("1000", &["--front-end", "--front-end-launches", most])["launch_time_s"].clone();
    assert_eq!(limited("1000"), plan_json("1000", &["--front-end"])["launch_time_s"]);
    assert!(limited("1").as_f64() > limited("1000").as_f64());
    for words in [&["--front-end-launches", "1"][..], &["--front-end", "--front-end-launches", "0"]] {
        let words = plan("5", words);
        let error = usage_error(&words.iter().map(String::as_str).collect::<Vec<_>>());
        assert!(error.contains("--front-end"), "{error}");
    }
}

#[test]
fn a_path_too_long_to_read_is_given_by_its_length() {
    let plan = plan_json("100000", &["--tree", "chain"]);
    assert_eq!(plan["critical_path_length"], 99_999);
    assert!(plan.get("critical_path").is_none());
}

#[test]
fn a_plan_can_be_drawn() {
    let file = std::env::temp_dir().join(format!("libi-cli-{}.svg", std::process::id()));
    plan_json("node[1-50]", &["--svg", file.to_str().unwrap()]);
    let svg = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
    assert!(svg.contains(">node50<"));
    let nowhere = plan("5", &["--svg", "/nonexistent/plan.svg"]);
    let error = usage_error(&nowhere.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(error.contains("/nonexistent/plan.svg: No such file"), "{error}");
}

#[test]
fn simulations_replay_from_their_seed_and_count_what_is_lost() {
    let arguments = [
        "simulate",
        "--hosts",
        "500",
        "--seq",
        "7ms",
        "--rem",
        "172ms~50%",
        "--dead",
        "4%",
        "--timeout",
        "3s",
        "--slow",
        "5%x3",
        "--tree",
        "late",
        "--seed",
        "5",
        "--runs",
        "9",
        "--json",
    ];
    let seen = json(&arguments);
    assert_eq!(seen, json(&arguments));
    assert_eq!((&seen["runs"], &seen["seed"], &seen["tree"]), (&9.into(), &5.into(), &"late".into()));
    let number = |key: &str| seen[key].as_f64().unwrap();
    assert!((5.0..50.0).contains(&number("hosts_lost_median")));
    assert!(number("launch_time_median_s") <= number("launch_time_worst_s"));
    assert!(number("settled_time_median_s") > 3.0, "a dead host is given up after its timeout");
    assert!(number("launches_per_node_max") > number("launches_per_node_mean"));
    let text = libi(&arguments[..arguments.len() - 1]).out;
    assert!(text.starts_with("500 hosts by late, 9 runs from seed 5\nlaunch time "), "{text}");
}

#[test]
fn every_simulated_fault_can_be_requested() {
    let seen = |more: &[&str]| {
        let costs = ["simulate", "--hosts", "n[1-400]", "--seq", "7ms", "--rem", "172ms", "--json"];
        json(&costs.iter().chain(more).copied().collect::<Vec<_>>())
    };
    let number = |seen: &Value, key: &str| seen[key].as_f64().unwrap();
    let calm = seen(&[]);
    assert_eq!((&calm["hosts"], &calm["hosts_lost_worst"]), (&400.into(), &0.into()));
    assert!(number(&seen(&["--slow", "100%x4"]), "launch_time_median_s") > 4.0 * 0.172);
    assert_eq!(seen(&["--slow", "100%x4", "--timeout", "300ms"])["hosts_given_up_median"], 399);
    assert!(number(&seen(&["--dead", "5%", "--tree", "greedy"]), "hosts_stranded_median") > 0.0);
    assert_eq!(seen(&["--dead", "5%"])["hosts_stranded_median"], 0);
    assert!(number(&seen(&["--refused", "30%"]), "hosts_lost_median") > 50.0);
    assert_eq!(seen(&["--refused", "30%", "--retries", "15"])["hosts_lost_median"], 0);
}

#[test]
fn a_list_is_expanded_with_everything_that_was_written() {
    assert_eq!(libi(&["hosts", "n[08-10]:2", "me@x"]).out, "n08:2\nn09:2\nn10:2\nme@x\n");
    let list = json(&["hosts", "n1:2222:4", "--json"]);
    assert_eq!(list["processes"], 4);
    assert_eq!(list["entries"][0]["port"], 2222);
}

#[test]
fn standard_input_is_folded() {
    let completed = libi_with("n1 n2\nn3,rack1-n01 rack1-n02\n", &[], &["hosts", "--fold"]);
    assert_eq!((completed.status, completed.out.as_str()), (0, "n[1-3],rack1-n[01-02]\n"));
}

#[test]
fn a_mistake_in_a_list_is_pointed_at() {
    let error = usage_error(&["hosts", "node[1-4],node[9-3]"]);
    assert!(error.starts_with("libi: host list, column 16: the range 9-3 runs backwards"), "{error}");
    assert!(error.ends_with("node[1-4],node[9-3]\n               ^\n"), "{error}");
}

#[test]
fn the_surrounding_job_is_shown() {
    let slurm = [("SLURM_JOB_NODELIST", "n[1-3]"), ("SLURM_TASKS_PER_NODE", "2(x2),1")];
    let completed = libi_with("", &slurm, &["hosts", "--from-env", "--fold"]);
    assert_eq!((completed.status, completed.out.as_str()), (0, "n[1-2]:2,n3\n"));
    assert_eq!(
        completed.err,
        "libi: Slurm (SLURM_JOB_NODELIST and SLURM_TASKS_PER_NODE): hosts 3, slots 5\n"
    );
    assert_eq!(libi_with("", &slurm, &["hosts", "--from-env"]).out, "n1:2\nn2:2\nn3\n");
    let completed = libi_with("", &slurm, &["hosts", "--from-env", "--json"]);
    let job: Value = serde_json::from_str(&completed.out).unwrap();
    assert_eq!((&job["source"], &job["folded"]), (&"Slurm".into(), &"n[1-2]:2,n3".into()));

    let missing = [("PBS_NODEFILE", "/nonexistent/nodes")];
    let completed = libi_with("", &missing, &["hosts", "--from-env"]);
    assert_eq!(completed.status, 2);
    assert!(
        completed.err.contains("PBS_NODEFILE") && completed.err.contains("/nonexistent/nodes"),
        "{}",
        completed.err
    );
    let wrong = [("SLURM_JOB_NODELIST", "n[3-1]")];
    let completed = libi_with("", &wrong, &["hosts", "--from-env"]);
    assert!(completed.err.contains("n[3-1]\n  ^"), "the mistake is pointed at: {}", completed.err);
}

#[test]
fn a_job_whose_hosts_are_not_text_is_an_error_not_another_job() {
    use std::os::unix::ffi::OsStrExt;
    let output = Command::new(env!("CARGO_BIN_EXE_libi"))
        .args(["hosts", "--from-env"])
        .env("SLURM_JOB_NODELIST", std::ffi::OsStr::from_bytes(b"n\xff"))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("SLURM_JOB_NODELIST is not valid UTF-8"), "{error}");
}

#[test]
fn an_empty_list_of_hosts_is_status_3() {
    let file = std::env::temp_dir().join(format!("libi-cli-{}.nodes", std::process::id()));
    std::fs::write(&file, "\n").unwrap();
    let completed = libi_with("", &[("PBS_NODEFILE", file.to_str().unwrap())], &["hosts", "--from-env"]);
    std::fs::remove_file(&file).unwrap();
    assert_eq!((completed.status, completed.out.as_str()), (3, ""));
    assert_eq!(libi(&["plan", "--hosts", ",", "--seq", "1ms", "--rem", "1ms"]).status, 3);
}

#[test]
fn without_a_surrounding_job_the_status_is_3_with_a_hint() {
    let completed = libi(&["hosts", "--from-env"]);
    assert_eq!((completed.status, completed.out.as_str()), (3, ""));
    assert!(completed.err.contains("hint: "), "{}", completed.err);
}

#[test]
fn a_closed_pipe_is_no_error() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_libi"))
        .args(["hosts", "n[1-1000000]"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
}

#[test]
fn wrong_command_lines_are_status_2_and_say_what_is_right() {
    assert!(usage_error(&["plan", "--hosts", "5", "--seq", "7", "--rem", "1s"]).contains("write 7ms or 7s"));
    assert!(
        usage_error(&["plan", "--hosts", "5", "--seq", "7ms", "--rem", "1s", "--tree", "oak"])
            .contains("greedy")
    );
    for hosts in ["0", "20000000", "1e6", "10k", "1,000"] {
        for command in ["plan", "simulate"] {
            let error = usage_error(&[command, "--hosts", hosts, "--seq", "7ms", "--rem", "1s"]);
            assert!(error.contains("from 1 to 10000000"), "{error}");
        }
    }
    let years = usage_error(&["plan", "--hosts", "1000", "--seq", "1s", "--rem", "8000h", "--tree", "chain"]);
    assert!(years.contains("584 years"), "{years}");
    assert!(usage_error(&[]).contains("Usage: libi"));
}

#[test]
fn hosts_are_an_argument_or_an_option() {
    let by_option = json(&["hosts", "--hosts", "n[1-2]", "--json"]);
    assert_eq!(by_option, json(&["hosts", "n[1-2]", "--json"]));
    for command in ["plan", "simulate"] {
        let run =
            |hosts: &[&str]| json(&[&[command], hosts, &["--seq", "7ms", "--rem", "1s", "--json"]].concat());
        assert_eq!(run(&["50"]), run(&["--hosts", "50"]));
        assert_eq!(libi(&[command, "5", "--hosts", "6", "--seq", "7ms", "--rem", "1s"]).status, 2);
        assert_eq!(libi(&[command, "--seq", "7ms", "--rem", "1s"]).status, 2);
    }
}

#[test]
fn help_explains_its_terms() {
    let help = libi(&["--help"]).out;
    for word in ["SEQ", "REM", "plan", "simulate", "hosts", "7ms"] {
        assert!(help.contains(word), "{word}");
    }
    assert!(libi(&["plan", "--help"]).out.contains("Examples:"));
}
