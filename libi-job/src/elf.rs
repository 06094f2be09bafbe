//! Finds symbols in an ELF file: where they are in the file's own addresses.
//!
//! Every offset and size in the file may be wrong: what lies outside of it is an error, and no table is read
//! that is larger than [`MOST_BYTES`].

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// No symbol table or table of names of a launcher is larger.
const MOST_BYTES: u64 = 256 << 20;
/// How much of a symbol table is read at once, in whole symbols.
const CHUNK: usize = 24 << 12;
/// The size of a symbol, of a program header and of a section header.
const SYMBOL: u64 = 24;
const PROGRAM_HEADER: u64 = 56;
const SECTION_HEADER: u64 = 64;

const PT_LOAD: u32 = 1;
const SHT_SYMTAB: u32 = 2;
const SHT_DYNSYM: u32 = 11;
const ET_EXEC: u16 = 2;
const ET_DYN: u16 = 3;

/// Bytes that are read by their place.
pub(crate) trait ReadAt {
    /// Fills `into` with what begins at an offset.
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()>;
}

impl ReadAt for File {
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.read_exact_at(into, offset)
    }
}

/// Why a file has no symbols for us.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ElfError {
    /// It cannot be read, or ends before something that it refers to.
    #[error("{0}")]
    Unreadable(#[from] io::Error),
    /// It is no ELF file.
    #[error("it is no ELF file")]
    NotElf,
    /// It is one for other machines than this.
    #[error("it is not for a 64-bit little-endian machine")]
    Foreign,
    /// One of its tables is too large to be one.
    #[error("its tables are larger than any of a launcher")]
    TooLarge,
}

/// A variable, by the addresses of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Symbol {
    pub(crate) address: u64,
    pub(crate) size: u64,
}

/// What a file says of itself.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Found<const N: usize> {
    /// The lowest address at which it is loaded, if it is loaded elsewhere in each process.
    pub(crate) lowest: Option<u64>,
    /// The symbols that were asked for.
    pub(crate) symbols: [Option<Symbol>; N],
    /// Whether it has any symbol table with symbols in it.
    pub(crate) has_symbols: bool,
    /// Whether its full symbol table was removed, so that only what it shares with others has a name.
    pub(crate) is_stripped: bool,
}

impl<const N: usize> Found<N> {
    /// How much higher than in the file everything is in a process whose first mapping begins there.
    pub(crate) fn bias(&self, first_mapping: u64) -> u64 {
        self.lowest.map_or(0, |lowest| first_mapping.wrapping_sub(lowest & !0xfff))
    }
}

/// Looks for variables with these names. The dynamic symbol table has them before the full one.
pub(crate) fn find<const N: usize>(file: &impl ReadAt, names: [&str; N]) -> Result<Found<N>, ElfError> {
    let header: [u8; 64] = array(file, 0).map_err(|_| ElfError::NotElf)?;
    if header[..4] != *b"\x7fELF" {
        return Err(ElfError::NotElf);
    }
    if header[4..6] != [2, 1] {
        return Err(ElfError::Foreign);
    }
    let kind = half(&header, 16);
    if ![ET_EXEC, ET_DYN].contains(&kind) {
        return Err(ElfError::NotElf);
    }
    let lowest = lowest_load(file, &header)?.filter(|_| kind == ET_DYN);
    let sections = sections(file, &header)?;
    let is_stripped = !sections.iter().any(|section| section.kind == SHT_SYMTAB);
    let mut found = Found { lowest, symbols: [None; N], has_symbols: false, is_stripped };
    for wanted in [SHT_DYNSYM, SHT_SYMTAB] {
        for section in sections.iter().filter(|section| section.kind == wanted) {
            let Some(text) = sections.get(section.link as usize) else { continue };
            look_in(file, section, text, names, &mut found)?;
        }
    }
    Ok(found)
}

struct Section {
    kind: u32,
    link: u32,
    offset: u64,
    size: u64,
}

fn sections(file: &impl ReadAt, header: &[u8; 64]) -> Result<Vec<Section>, ElfError> {
    let (at, count) = (word(header, 40), half(header, 60));
    if at == 0 || u64::from(half(header, 58)) != SECTION_HEADER {
        return Ok(Vec::new());
    }
    (0..u64::from(count))
        .map(|nth| {
            let header: [u8; SECTION_HEADER as usize] = array(file, place(at, nth, SECTION_HEADER)?)?;
            let (kind, link) = (int(&header, 4), int(&header, 40));
            Ok(Section { kind, link, offset: word(&header, 24), size: word(&header, 32) })
        })
        .collect()
}

fn lowest_load(file: &impl ReadAt, header: &[u8; 64]) -> Result<Option<u64>, ElfError> {
    let (at, count) = (word(header, 32), half(header, 56));
    let mut lowest: Option<u64> = None;
    for nth in 0..u64::from(count) {
        let header: [u8; PROGRAM_HEADER as usize] = array(file, place(at, nth, PROGRAM_HEADER)?)?;
        if int(&header, 0) == PT_LOAD {
            let address = word(&header, 16);
            lowest = Some(lowest.map_or(address, |lowest| lowest.min(address)));
        }
    }
    Ok(lowest)
}

fn look_in<const N: usize>(
    file: &impl ReadAt,
    section: &Section,
    text: &Section,
    names: [&str; N],
    found: &mut Found<N>,
) -> Result<(), ElfError> {
    if section.size > MOST_BYTES || text.size > MOST_BYTES {
        return Err(ElfError::TooLarge);
    }
    let mut strings = vec![0; text.size as usize];
    file.read_at(text.offset, &mut strings)?;
    let mut left = section.size / SYMBOL * SYMBOL;
    let mut at = section.offset;
    let mut chunk = vec![0; CHUNK];
    while left > 0 {
        let part = &mut chunk[..left.min(CHUNK as u64) as usize];
        file.read_at(at, part)?;
        for symbol in part.chunks_exact(SYMBOL as usize) {
            found.has_symbols |= int(symbol, 0) != 0;
            if half(symbol, 6) == 0 {
                continue; // it is another file's
            }
            let name = strings.get(int(symbol, 0) as usize..).unwrap_or_default();
            let is = |wanted: &str| {
                name.strip_prefix(wanted.as_bytes()).is_some_and(|rest| rest.first() == Some(&0))
            };
            if let Some(nth) = names.iter().position(|name| is(name)) {
                let (address, size) = (word(symbol, 8), word(symbol, 16));
                found.symbols[nth].get_or_insert(Symbol { address, size });
            }
        }
        (left, at) = (left - part.len() as u64, at + part.len() as u64);
    }
    Ok(())
}

/// Where the header with this number is.
fn place(first: u64, nth: u64, size: u64) -> Result<u64, ElfError> {
    first.checked_add(nth * size).ok_or(ElfError::TooLarge)
}

fn array<const N: usize>(file: &impl ReadAt, offset: u64) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    file.read_at(offset, &mut bytes)?;
    Ok(bytes)
}

fn half(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(part(bytes, at))
}

fn int(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(part(bytes, at))
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(part(bytes, at))
}

/// Part of a header whose length is known here.
fn part<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().unwrap_or([0; N])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    impl ReadAt for Vec<u8> {
        fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
            let from = usize::try_from(offset).ok().and_then(|offset| self.get(offset..));
            let part = from.and_then(|from| from.get(..into.len())).ok_or(io::ErrorKind::UnexpectedEof)?;
            into.copy_from_slice(part);
            Ok(())
        }
    }

    /// Some variable of this very program, which is exported or at least named.
    #[allow(unsafe_code, reason = "no other symbol has this name")]
    #[unsafe(no_mangle)]
    static LIBI_JOB_TEST_SYMBOL: [u64; 3] = [1, 2, 3];

    fn own() -> Vec<u8> {
        std::fs::read("/proc/self/exe").unwrap()
    }

    #[test]
    fn a_variable_of_this_program_is_where_its_memory_has_it() {
        let found = find(&own(), ["LIBI_JOB_TEST_SYMBOL", "no_such_symbol"]).unwrap();
        let symbol = found.symbols[0].unwrap();
        assert_eq!((symbol.size, found.symbols[1], found.has_symbols), (24, None, true));
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let exe = std::fs::read_link("/proc/self/exe").unwrap();
        let first = maps.lines().find(|line| line.ends_with(exe.to_str().unwrap())).unwrap();
        let first = u64::from_str_radix(first.split('-').next().unwrap(), 16).unwrap();
        let address = symbol.address + found.bias(first);
        assert_eq!(address, std::ptr::from_ref(&LIBI_JOB_TEST_SYMBOL) as u64);
    }

    #[test]
    fn other_files_are_named_for_what_they_are() {
        assert!(matches!(find(&b"#!/bin/sh\n".to_vec(), ["x"]), Err(ElfError::NotElf)));
        let mut foreign = own();
        foreign[4] = 1;
        assert!(matches!(find(&foreign, ["x"]), Err(ElfError::Foreign)));
    }

    proptest! {
        #[test]
        fn wrong_headers_are_errors_and_no_panics(
            changes in proptest::collection::vec((0_usize..4096, any::<u8>()), 1..20),
            length in 0_usize..8192,
        ) {
            let mut file = own();
            let sections = word(&file, 40) as usize;
            // The headers at both ends of the file.
            for (at, byte) in changes {
                file[at] = byte;
                if let Some(of_section) = file.get_mut(sections + at) {
                    *of_section = byte;
                }
            }
            let _ = find(&file, ["LIBI_JOB_TEST_SYMBOL"]);
            file.truncate(length);
            let _ = find(&file, ["LIBI_JOB_TEST_SYMBOL"]);
        }
    }
}
