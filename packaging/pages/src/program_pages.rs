//! Manual pages and completions of the program `libi`.

use std::io;

use clap_complete::Shell;

use crate::Page;

const COMPLETIONS: [(Shell, &str); 3] = [
    (Shell::Bash, "bash-completion/completions/libi"),
    (Shell::Zsh, "zsh/site-functions/_libi"),
    (Shell::Fish, "fish/vendor_completions.d/libi.fish"),
];

/// `libi(1)`, a page per command such as `libi-run(1)`, and the completions.
pub(crate) fn all() -> io::Result<Vec<Page>> {
    // Rendered at a fixed width: the terminal of the build must not matter.
    let mut program = libi_cli::command_line().disable_help_subcommand(true).term_width(80);
    program.build();
    let mut pages = vec![("man/man1/libi.1".into(), page(&program)?)];
    for command in program.get_subcommands() {
        // clap keeps names for the life of the program.
        let name: &'static str = format!("libi-{}", command.get_name()).leak();
        let command = command.clone().name(name).display_name(name);
        pages.push((format!("man/man1/{name}.1").into(), page(&command)?));
    }
    for (shell, path) in COMPLETIONS {
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut libi_cli::command_line(), "libi", &mut script);
        pages.push((path.into(), script));
    }
    Ok(pages)
}

/// A page without a date, so that it depends on the sources only.
fn page(command: &clap::Command) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut text)?;
    let text = String::from_utf8_lossy(&text);
    let title = format!(".TH {} 1 \"\" \"libi {}\" libi", command.get_name(), env!("CARGO_PKG_VERSION"));
    let lines = text.lines().map(|line| if line.starts_with(".TH ") { title.as_str() } else { line });
    Ok((lines.collect::<Vec<_>>().join("\n") + "\n").into_bytes())
}
