//! `libi-pages DIR`: writes the manual pages and the shell completions below `DIR`, which stands for
//! the directory `share` of an installation.
//!
//! The pages of the program come from its command-line definition, those of the C functions from
//! `include/libi.h`.

mod c_pages;
mod header;
mod program_pages;
mod roff;

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// A file below the directory `share`, and its content.
type Page = (PathBuf, Vec<u8>);

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let [directory] = arguments.as_slice() else {
        eprintln!("usage: libi-pages DIR");
        return ExitCode::from(2);
    };
    match generate().and_then(|pages| write(Path::new(directory), &pages)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("libi-pages: {error}");
            ExitCode::FAILURE
        }
    }
}

fn generate() -> io::Result<Vec<Page>> {
    let header = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../include/libi.h");
    let text = std::fs::read_to_string(header)?;
    let mut pages = program_pages::all()?;
    pages.extend(c_pages::all(&header::parse(&text)));
    Ok(pages)
}

fn write(directory: &Path, pages: &[Page]) -> io::Result<()> {
    for (name, content) in pages {
        let path = directory.join(name);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)?;
        }
        std::fs::write(path, content)?;
    }
    Ok(())
}
