//! What the terminal shows while hosts are launched.

use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use super::{LIBI, outcome};

#[test]
fn a_terminal_shows_a_bar_while_hosts_are_launched_and_nothing_of_it_stays() {
    let go = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("terminal-go");
    let shell = go.with_file_name("shell-that-waits");
    let _ = std::fs::remove_file(&go);
    let script = format!(
        "#!/bin/sh\nif [ $1 = b ]; then until [ -e {} ]; do sleep 0.01; done; fi\nshift\nexec sh -c \"$*\"\n",
        go.display()
    );
    std::fs::write(&shell, script).unwrap();
    std::fs::set_permissions(&shell, std::fs::Permissions::from_mode(0o755)).unwrap();
    // The second host is let in when the terminal shows that the first one has joined.
    let script = "import os, pty, sys\n\
        pid, terminal = pty.fork()\n\
        if pid == 0: os.execv(sys.argv[2], sys.argv[2:])\n\
        text = b''\n\
        while True:\n\
        \x20 try: text += os.read(terminal, 100)\n\
        \x20 except OSError: break\n\
        \x20 if b'1 of 2 hosts joined, 1 in flight' in text: open(sys.argv[1], 'w').close()\n\
        os.waitpid(pid, 0)\n\
        sys.stdout.buffer.write(text)\n";
    let mut command = Command::new("python3");
    command.args(["-c", script, go.to_str().unwrap(), LIBI, "run"]);
    command.args([
        "--backend",
        shell.to_str().unwrap(),
        "--hosts",
        "a,b",
        "--deadline",
        "20s",
        "echo",
        "hello",
    ]);
    let (status, out, err) = outcome(&command.env("TERM", "xterm").stdin(Stdio::null()).output().unwrap());
    assert_eq!((status, err.as_str()), (0, ""), "{out}");
    assert!(
        out.contains("[===============>              ] 1 of 2 hosts joined, 1 in flight, 0 failed"),
        "{out:?}"
    );
    // The line is erased before the first output.
    let end = &out[out.rfind("failed").unwrap() + 6..];
    assert!(end.contains("\u{1b}[2K") && end.ends_with("hello\r\nhello\r\n"), "{end:?}");
}
