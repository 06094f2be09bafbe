use std::io::Write;
use std::process::{Command, Stdio};

use super::*;

/// What a reader passes on of these parts, and the answers.
fn read(parts: &[&[u8]]) -> (String, Vec<Answer>) {
    let (mut reader, mut text, mut answers) = (AnswerReader::default(), Vec::new(), Vec::new());
    for part in parts {
        let mut bytes = part.to_vec();
        let answer = reader.filter(&mut bytes);
        text.extend(bytes);
        answers.extend((answer != Answer::Nothing).then_some(answer));
    }
    text.extend(reader.take_held());
    (String::from_utf8(text).unwrap(), answers)
}

#[test]
fn answers_are_found_wherever_bytes_are_cut_and_text_around_them_stays() {
    let said = b"Welcome\nlibi-agent-needed\nhm\nlibi-agent-ready\nPROTOCOL";
    for at in 0..said.len() {
        let (text, answers) = read(&[&said[..at], &said[at..]]);
        let at_once = at < 26 || at == said.len();
        let needed = Answer::Needed { has_gzip: false };
        let expected: &[Answer] = if at_once { &[Answer::Ready] } else { &[needed, Answer::Ready] };
        if answers != expected {
            // Both answers in one part: the host was ready without waiting.
            assert_eq!(answers.last(), Some(&Answer::Ready), "cut at {at}");
        }
        assert!(text.ends_with("hm\nPROTOCOL") && text.starts_with("Welcome\n"), "cut at {at}: {text:?}");
    }
    assert_eq!(read(&[b"libi-agent-re"]), ("libi-agent-re".to_owned(), Vec::new()));
    for at in 0..22 {
        let said = b"\nlibi-agent-needed-gz\n";
        let (text, answers) = read(&[&said[..at], &said[at..]]);
        assert_eq!((&*text, answers), ("\n", vec![Answer::Needed { has_gzip: true }]), "cut at {at}");
    }
}

#[test]
fn the_checksum_is_that_of_cksum() {
    for text in ["", "a", "123456789", "some text\n"] {
        let mut child = Command::new("cksum").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        let out = child.wait_with_output().unwrap().stdout;
        let first = String::from_utf8(out).unwrap();
        assert_eq!(first.split(' ').next().unwrap(), cksum(text.as_bytes()).to_string(), "{text:?}");
    }
}

/// How the script ends that delivers this file, if `sent` arrives, and what it says.
fn deliver(shell: &str, file: &[u8], sent: &[u8], machine: &str) -> (Option<i32>, String) {
    deliver_as(shell, file, &format!("{}\n", file.len()), sent, machine)
}

/// The same, announced by this line.
fn deliver_as(shell: &str, file: &[u8], head: &str, sent: &[u8], machine: &str) -> (Option<i32>, String) {
    let delivery = Delivery::for_machine(file.to_vec(), machine);
    let agent = Program {
        executable: OsBytes::try_from("/no/such/agent").unwrap(),
        args: ["-x", "a  b"].map(|arg| OsBytes::try_from(arg).unwrap()).to_vec(),
        env: Vec::new(),
        cwd: None,
    };
    let script = delivery.script_for(&agent);
    let words: Vec<String> = script.args.iter().map(ToString::to_string).collect();
    let mut command = Command::new("sh");
    command.arg("-c").arg(format!("exec {shell} \"$@\"")).arg("sh").args(words);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    // It may have ended before it reads anything.
    let _ = input.write_all(&[head.as_bytes(), sent].concat());
    drop(input);
    let done = child.wait_with_output().unwrap();
    let said = [done.stdout, done.stderr].concat();
    (done.status.code(), String::from_utf8_lossy(&said).into_owned())
}

fn own_machine() -> String {
    let name = nix::sys::utsname::uname().unwrap();
    name.machine().to_string_lossy().into_owned()
}

#[test]
fn a_file_is_delivered_run_and_checked_by_every_shell() {
    let agent = b"#!/bin/sh\necho $# \"$2\" in $LIBI_AGENT_DIRECTORY; rm -r $LIBI_AGENT_DIRECTORY\n";
    for shell in ["dash", "bash", "sh"] {
        let (status, said) = deliver(shell, agent, agent, &own_machine());
        assert_eq!(status, Some(0), "{shell}: {said}");
        assert!(said.starts_with("libi-agent-needed-gz\nlibi-agent-ready\n2 a  b in /"), "{shell}: {said}");
        let directory = said.trim_end().rsplit(' ').next().unwrap();
        assert!(!Path::new(directory).exists(), "{directory}");
        let mut damaged = agent.to_vec();
        damaged[12] ^= 1;
        let (status, said) = deliver(shell, agent, &damaged, &own_machine());
        assert_eq!(status, Some(126), "{shell}: {said}");
        assert!(said.ends_with("libi: the agent that arrived is not the one that was sent\n"), "{said}");
        let (status, said) = deliver(shell, agent, &agent[..10], &own_machine());
        assert_eq!(status, Some(126), "{shell}: {said}");
        let (status, said) = deliver(shell, agent, agent, "vax");
        let expected = format!("libi: the agent is for vax, and this host is {}\n", own_machine());
        assert_eq!((status, said), (Some(126), expected), "{shell}");
    }
}

#[test]
fn a_compressed_file_arrives_as_what_it_was() {
    let agent = *b"#!/bin/sh\necho in $LIBI_AGENT_DIRECTORY; rm -r $LIBI_AGENT_DIRECTORY\n";
    let mut gzip =
        Command::new("gzip").arg("-c").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    gzip.stdin.take().unwrap().write_all(&agent).unwrap();
    let compressed = gzip.wait_with_output().unwrap().stdout;
    let packed = Packed::default();
    let delivery = Delivery::of(agent.to_vec()).packed(packed.clone());
    let file = delivery.file(Path::new("/proc/self/exe")).unwrap();
    assert_eq!(delivery.message(&file, true).1[..], agent, "it is not compressed yet");
    packed.set(compressed.clone());
    assert_eq!(delivery.message(&file, false), (format!("{}\n", agent.len()), Arc::from(&agent[..])));
    let (head, sent) = delivery.message(&file, true);
    assert_eq!((&*head, &sent[..]), (&*format!("{} gz\n", compressed.len()), &compressed[..]));
    for shell in ["dash", "bash", "sh"] {
        let (status, said) = deliver_as(shell, &agent, &head, &sent, &own_machine());
        assert_eq!(status, Some(0), "{shell}: {said}");
        assert!(said.starts_with("libi-agent-needed-gz\nlibi-agent-ready\nin /"), "{shell}: {said}");
        let (status, said) = deliver_as(shell, &agent, &head, &sent[..20], &own_machine());
        assert_eq!(status, Some(126), "{shell}: {said}");
    }
}
