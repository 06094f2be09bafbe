//! The shared libraries of an executable, as its dynamic linker finds them on this machine.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::StagingError;

/// A library under the name by which executables ask for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Library {
    pub(super) name: String,
    pub(super) path: PathBuf,
}

/// What comes with the dynamic linker of a host, and has to fit it: the parts of the C library. The
/// names of glibc, then those of musl.
const OF_THE_HOST: [&str; 18] = [
    "ld-linux",
    "ld64.so",
    "ld.so",
    "linux-vdso",
    "linux-gate",
    "libc.so",
    "libm.so",
    "libmvec.so",
    "libpthread.so",
    "libdl.so",
    "librt.so",
    "libutil.so",
    "libresolv.so",
    "libanl.so",
    "libnsl.so.1",
    "libnss_",
    "ld-musl",
    "libc.musl",
];

/// The libraries of an executable. None if it is static, or no ELF file of this machine.
pub(super) fn libraries_of(program: &Path) -> Result<Vec<Library>, StagingError> {
    let unreadable = |why| StagingError::Unreadable(program.to_owned(), why);
    let Some(linker) = interpreter(program).map_err(unreadable)? else { return Ok(Vec::new()) };
    let program = std::path::absolute(program).map_err(unreadable)?;
    let failed = |why: String| StagingError::Linker(program.clone(), why);
    let output = Command::new(&linker).arg("--list").arg(&program).stdin(Stdio::null()).output();
    let output = output.map_err(|why| failed(format!("{}: {why}", linker.display())))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(failed(format!("{} {}: {}", linker.display(), output.status, said.trim())));
    }
    parse(&String::from_utf8_lossy(&output.stdout), &program)
}

/// Reads lines such as `libx.so.1 => /opt/lib/libx.so.1 (0x00007f…)`.
fn parse(list: &str, program: &Path) -> Result<Vec<Library>, StagingError> {
    let mut libraries = Vec::new();
    for line in list.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (name, place) = line.split_once(" => ").unwrap_or((line, ""));
        // A line without an arrow is a library that is asked for by its path, or the linker itself.
        let place = if place.is_empty() { name } else { place };
        if place.starts_with("not found") {
            return Err(StagingError::LibraryMissing(program.to_owned(), name.to_owned()));
        }
        let path = place.rsplit_once(" (").map_or(place, |(path, _)| path);
        let name = name.rsplit_once(" (").map_or(name, |(name, _)| name);
        let base = name.rsplit('/').next().unwrap_or(name);
        let is_path = path.starts_with('/');
        if is_path && !is_of_the_host(base) && !name.contains('/') {
            libraries.push(Library { name: base.to_owned(), path: PathBuf::from(path) });
        }
    }
    Ok(libraries)
}

fn is_of_the_host(name: &str) -> bool {
    OF_THE_HOST.iter().any(|known| name.starts_with(known))
}

/// The dynamic linker that an ELF file names.
fn interpreter(program: &Path) -> std::io::Result<Option<PathBuf>> {
    const PT_INTERP: u64 = 3;
    let file = File::open(program)?;
    let mut head = Vec::new();
    (&file).take(64).read_to_end(&mut head)?;
    if !head.starts_with(b"\x7fELF") {
        return Ok(None);
    }
    let Some(layout) = Layout::of(&head) else { return Ok(None) };
    let number = |bytes: &[u8], field: (usize, usize)| layout.number(bytes, field);
    let field = |at: (usize, usize)| number(&head, at);
    let (Some(table), Some(size), Some(count)) =
        (field(layout.table), field(layout.entry_size), field(layout.entry_count))
    else {
        return Ok(None);
    };
    for entry in 0..count.min(1 << 10) {
        let mut header = vec![0; 56];
        let Some(at) = entry.checked_mul(size).and_then(|offset| table.checked_add(offset)) else { break };
        let read = file.read_at(&mut header, at)?;
        let header = &header[..read];
        if number(header, (0, 4)) != Some(PT_INTERP) {
            continue;
        }
        let (Some(at), Some(length)) = (number(header, layout.offset), number(header, layout.file_size))
        else {
            break;
        };
        let mut name = vec![0; usize::try_from(length.min(4 << 10)).unwrap_or_default()];
        file.read_exact_at(&mut name, at)?;
        let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
        return Ok(String::from_utf8(name[..end].to_vec()).ok().map(PathBuf::from));
    }
    Ok(None)
}

/// Where the fields of an ELF file are, as places and lengths.
struct Layout {
    is_little: bool,
    table: (usize, usize),
    entry_size: (usize, usize),
    entry_count: (usize, usize),
    /// In an entry of the table: where its segment is in the file, and how long.
    offset: (usize, usize),
    file_size: (usize, usize),
}

impl Layout {
    fn of(head: &[u8]) -> Option<Self> {
        let is_little = match head.get(5)? {
            1 => true,
            2 => false,
            _ => return None,
        };
        Some(match head.get(4)? {
            1 => Self {
                is_little,
                table: (28, 4),
                entry_size: (42, 2),
                entry_count: (44, 2),
                offset: (4, 4),
                file_size: (16, 4),
            },
            2 => Self {
                is_little,
                table: (32, 8),
                entry_size: (54, 2),
                entry_count: (56, 2),
                offset: (8, 8),
                file_size: (32, 8),
            },
            _ => return None,
        })
    }

    fn number(&self, bytes: &[u8], (at, length): (usize, usize)) -> Option<u64> {
        let digits = bytes.get(at..at + length)?;
        let add = |number: u64, digit: &u8| number << 8 | u64::from(*digit);
        Some(match self.is_little {
            true => digits.iter().rev().fold(0, add),
            false => digits.iter().fold(0, add),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_the_linker_is_read_without_what_comes_with_the_linker() {
        let list = "\tlinux-vdso.so.1 (0x00007ffc)\n\
                    \tliba.so.1 => /opt/a lib/liba.so.1 (0x00007f01)\n\
                    \tlibstdc++.so.6 => /usr/lib/libstdc++.so.6 (0x00007f02)\n\
                    \tlibm.so.6 => /lib/x86_64-linux-gnu/libm.so.6 (0x00007f03)\n\
                    \tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f04)\n\
                    \t/opt/by/path.so (0x00007f05)\n\
                    \t/lib64/ld-linux-x86-64.so.2 (0x00007f06)\n";
        let found = parse(list, Path::new("/bin/x")).unwrap();
        let library = |name: &str, path: &str| Library { name: name.to_owned(), path: PathBuf::from(path) };
        let expected = [
            library("liba.so.1", "/opt/a lib/liba.so.1"),
            library("libstdc++.so.6", "/usr/lib/libstdc++.so.6"),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_library_that_is_not_found_is_named() {
        let found = parse("\tlibx.so.1 => not found\n", Path::new("/bin/x"));
        assert_eq!(
            found.unwrap_err().to_string(),
            "/bin/x needs the shared library libx.so.1, which is not found"
        );
    }

    #[test]
    fn the_linker_of_this_program_is_found_and_a_script_has_none() {
        let own = std::env::current_exe().unwrap();
        let linker = interpreter(&own).unwrap().unwrap();
        assert!(linker.to_string_lossy().contains("ld"), "{}", linker.display());
        let libraries = libraries_of(&own).unwrap();
        assert!(libraries.iter().all(|library| !library.name.starts_with("libc.so")), "{libraries:?}");
        assert_eq!(interpreter(Path::new("/proc/self/status")).unwrap(), None);
    }
}
