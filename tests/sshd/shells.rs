//! Login shells that read what people have written for themselves, and print what they like.

use libi::{Exit, FrontEnd, LinkPolicy, SshClient, Stream};

use crate::{CLIENTS, options};
use libi_testkit::labs::{Marked, Sshd};
use libi_testkit::local::{Heard, launch_with};

/// A login shell, the file that it reads whenever it is called, and something noisy to be in there.
const SHELLS: &[(&str, &str, &str, &str)] = &[
    ("dash", "/bin/dash", ".ssh/rc", NOISE), // it reads nothing, but sshd does, by /bin/sh
    ("bash", "/bin/bash", ".bashrc", NOISE),
    ("zsh", "/usr/bin/zsh", ".zshenv", NOISE),
    ("tcsh", "/usr/bin/tcsh", ".cshrc", CSH_NOISE),
    ("fish", "/usr/bin/fish", ".config/fish/config.fish", NOISE),
];
const NOISE: &str =
    "echo Welcome to this host; printf 'libi\\0is not what this is, \\377'; echo No such luck >&2\n";
const CSH_NOISE: &str =
    "echo Welcome to this host; printf 'libi\\0is not what this is, \\377'; sh -c 'echo No such luck >&2'\n";

/// What quoting has to bring over unharmed.
const WORDS: [&str; 9] =
    ["it's", "\"two words\"", "$HOME `id` $(id) !!", "*", "~", "a\\b\\", "new\nline", "{a,b};&|<>#", "ü"];

#[test]
fn whatever_login_shells_print_members_join_and_get_their_words_unchanged() {
    let Some(lab) = Sshd::up() else { return };
    CLIENTS.iter().for_each(|client| words_arrive(&lab, *client));
}

fn words_arrive(lab: &Sshd, client: SshClient) {
    for (name, shell, file, text) in SHELLS {
        let user = lab.user(name, shell);
        lab.write_home(&user, file, text);
        let (mark, front) = (Marked::new(), FrontEnd::new().unwrap());
        let prints = WORDS.map(|word| format!("out:<{word}>"));
        let words = ["join", "env:ODD", "cwd"].into_iter().chain(prints.iter().map(String::as_str));
        let words: Vec<&str> = words.chain(["finish:30000"]).collect();
        let hosts = format!("{user}@n[0-5]:2");
        let members = mark.program(&lab.member(), &hosts, &words);
        let odd = WORDS.concat();
        let members = members.current_dir("/usr/lib/../share").env("ODD", &odd);
        // The links are where the noise is.
        let options = options(lab.ssh("main", client)).links(LinkPolicy::Channel);
        let session = launch_with(&front, &[members], &options);
        let heard = Heard::all(&front);
        let said: String = WORDS.iter().map(|word| format!("<{word}>\n")).collect();
        let said = format!("{odd}\n/usr/share\n{said}");
        for rank in 0..12 {
            let out = &heard.texts[&(rank, Stream::Out)];
            assert!(out.ends_with(said.as_bytes()), "{name}, {rank}: {}", String::from_utf8_lossy(out));
            let is_noisy = String::from_utf8_lossy(out).contains("Welcome to this host\n");
            assert_eq!(is_noisy, rank % 2 == 0, "{name}, {rank}: only leaders have shells");
            assert_eq!(heard.exits[&rank], Exit::Code(0), "{name}, {rank}");
        }
        drop((session, front));
        mark.nothing_is_left();
    }
}
